package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/devtest"
)

// TestDumpDirOfOldTools: the kernels next to the shaders are the compiled ones, even if the tools are too old for other
// kernels that the device would run.
func TestDumpDirOfOldTools(t *testing.T) {
	tools, err := spirv.Find(t.Context(), spirv.FindOptions{SearchDirs: []string{"/usr/bin"}})
	if err != nil || tools.Ready() != nil {
		t.Skip("there are no tools in /usr/bin")
	}
	if known, err := tools.Features(t.Context()); known[spirv.CoopMat] || err != nil {
		t.Skip("the tools in /usr/bin are not old")
	}
	devtest.NoCache(t)
	t.Setenv(spirv.ToolsEnv, "/usr/bin")
	dir := t.TempDir()
	graph := filepath.Join(dir, "g.ir")
	// Split into three kernels where there are matrix units.
	text := `graph "g" {
		%0 = input {name="x", dtype=f32, shape=[4096,4096]} : f32[4096,4096]
		%1 = weight {name="w", dtype=f32, shape=[4096,4096]} : f32[4096,4096]
		%2 = matmul %0, %1 {transpose_b=true, precision="bf16x3"} : f32[4096,4096]
		output "y" %2
	}`
	if err := os.WriteFile(graph, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r := ok(t, "compile", graph, "-o", filepath.Join(dir, "o.vkb"), "--target", "nvidia-h100",
		"--dump-dir", filepath.Join(dir, "dump"))
	// Doctor tells of old tools, which is not news each time that they run.
	if strings.Contains(r.stderr, "too old") {
		t.Errorf("it says\n%s", r.stderr)
	}
	if r := run(t, "doctor"); !strings.Contains(r.stdout, "too old for ") ||
		!strings.Contains(r.stdout, spirv.ToolsEnv) {
		t.Errorf("doctor says\n%s", r.stdout)
	}
	kernels, err := filepath.Glob(filepath.Join(dir, "dump", "*.kernel"))
	if err != nil || len(kernels) != 1 {
		t.Fatalf("%v, %v", kernels, err)
	}
	if text, err := os.ReadFile(kernels[0]); err != nil || !strings.HasPrefix(string(text), "kernel matmul (matmul) ") {
		t.Errorf("the kernel is\n%s%v", text, err)
	}
}
