package glsl_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc/internal/golden"
)

var updateGolden = flag.Bool("update-golden", false, "write golden files anew from what the code does now")

// goldenDir holds generated texts, one file each, named for what they show.
const goldenDir = "../../golden/glsl"

// checkGolden compares a generated text with a golden file, or writes it.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	golden.Check(t, filepath.Join(goldenDir, name+".comp"), got, *updateGolden,
		"go test ./codegen/glsl -run Golden -update-golden")
}
