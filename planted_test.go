package vkc_test

import (
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/toolstest"
)

// TestCompileRunsNothingFromHere: a program that uses this package runs no tool
// of the directory it is in or of that one's parents.
func TestCompileRunsNothingFromHere(t *testing.T) {
	g := readGraph(t, "mlp.ir")
	devtest.NoCache(t)
	t.Setenv(spirv.ToolsEnv, "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("PATH", ".")
	t.Chdir(toolstest.Plant(t))
	_, err := vkc.Compile(t.Context(), g, vkc.CompileOptions{})
	devtest.WantError(t, err, "glslc", "not found", "install")
}
