package vkc_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/golden"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite golden/profiles")

// TestGoldenProfiles compares the GLSL of whole programs, one file per program
// and profile, so that a change of the generator or of a schedule is seen for
// every kind of device without having it.
func TestGoldenProfiles(t *testing.T) {
	programs := []struct {
		name, graph string
		profiles    []string
	}{
		{"mlp", "golden/graphs/mlp.ir", []string{"amd-rdna3", "arm-mali", "generic", "intel-xe", "lavapipe", "nvidia-h100"}},
		{"gollama", "examples/gollama/graph.json", []string{"generic", "lavapipe", "nvidia-h100"}},
	}
	for _, p := range programs {
		for _, profile := range p.profiles {
			t.Run(p.name+"/"+profile, func(t *testing.T) {
				g, err := vkc.ReadGraph(p.graph)
				if err != nil {
					t.Fatal(err)
				}
				caps, err := device.Profile(profile)
				if err != nil {
					t.Fatal(err)
				}
				low, err := compiler.Lower(context.Background(), g, caps, nil)
				if err != nil {
					t.Fatal(err)
				}
				var have strings.Builder
				for i, src := range low.GLSL {
					fmt.Fprintf(&have, "// ---- shader %d: %s\n\n%s\n", i, low.Program.Shaders[i].Name, src)
				}
				compareGolden(t, filepath.Join("golden", "profiles", p.name+"."+profile+".glsl"), have.String())
			})
		}
	}
}

func compareGolden(t *testing.T, path, have string) {
	t.Helper()
	golden.Check(t, path, have, *updateGolden, "go test . -run GoldenProfiles -update-golden")
}
