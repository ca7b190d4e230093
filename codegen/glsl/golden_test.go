package glsl_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc/internal/golden"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite the golden files from the present results")

// goldenDir holds golden shaders, one file each.
const goldenDir = "../../golden/glsl"

// checkGolden compares a shader with its golden file, or writes the file.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	golden.Check(t, filepath.Join(goldenDir, name+".comp"), got, *updateGolden,
		"go test ./codegen/glsl -run Golden -update-golden")
}
