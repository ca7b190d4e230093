package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

func TestBuilds(t *testing.T) {
	g, err := frontend.Build("mlp", mlp)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"f32[N,10]", "i32[N]"} {
		if out := g.Outputs()[i]; out.Node.Type().String() != want {
			t.Errorf("output %q is %s, want %s", out.Name, out.Node.Type(), want)
		}
	}
}

// TestRun runs it on the reference, on the best device, and on whichever of the two is faster, which must agree.
func TestRun(t *testing.T) {
	devtest.OwnCache(t)
	var results []string
	for _, device := range []string{"cpu", "auto", "vulkan"} {
		var out strings.Builder
		err := run(context.Background(), device, &out)
		if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) &&
			os.Getenv("VKC_REQUIRE_DEVICE") != "1" {
			t.Skip(err)
		}
		vktest.Need(t, err)
		_, classes, _ := strings.Cut(out.String(), "\n")
		results = append(results, classes)
	}
	if results[0] != results[1] || results[0] != results[2] || !strings.HasPrefix(results[0], "images of classes [") {
		t.Errorf("the reference, the faster and the best device give %q", results)
	}
}
