package vkc_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
)

// TestCompileRunsNothingFromHere: a program that uses this package runs no tool
// of the directory it is in or of that one's parents.
func TestCompileRunsNothingFromHere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the planted programs are shell scripts")
	}
	g := readGraph(t, "mlp.ir")
	root := t.TempDir()
	work, ran := filepath.Join(root, "work"), filepath.Join(t.TempDir(), "ran")
	for _, dir := range []string{root, work} {
		for _, bin := range []string{".", filepath.Join(".tools", "glsl", "bin")} {
			if err := os.MkdirAll(filepath.Join(dir, bin), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"glslc", "glslangValidator", "spirv-opt"} {
				text := "#!/bin/sh\necho \"$0 $*\" >>'" + ran + "'\necho planted 1.0\n"
				if err := os.WriteFile(filepath.Join(dir, bin, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module planted\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ownCache(t)
	t.Setenv(spirv.ToolsEnv, "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("PATH", ".")
	t.Chdir(work)
	_, err := vkc.Compile(t.Context(), g, vkc.CompileOptions{})
	wantError(t, err, "glslc", "not found", "install")
	if b, err := os.ReadFile(ran); err == nil {
		t.Errorf("this ran:\n%s", b)
	}
}
