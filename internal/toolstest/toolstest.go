// Package toolstest helps tests of how the GLSL tools are found.
package toolstest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Plant returns a directory for tests that vkc runs no program from the current directory. It and its parents look like
// Go modules, and have programs with the names of the GLSL tools in every place where vkc might look. The test fails at
// its end if one of these programs ran.
func Plant(t *testing.T) (dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the planted programs are shell scripts")
	}
	root, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	text := "#!/bin/sh\necho \"$0 $*\" >>'" + ran + "'\necho planted 1.0\n"
	dir = filepath.Join(root, "a", "b")
	for _, at := range []string{root, filepath.Dir(dir), dir} {
		for _, bin := range []string{".", "bin", filepath.Join(".tools", "glsl", "bin"),
			filepath.Join("vkc", "tools")} {
			if err := os.MkdirAll(filepath.Join(at, bin), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"glslc", "glslangValidator", "glslang", "spirv-opt",
				"spirv-val", "spirv-dis"} {
				if err := os.WriteFile(filepath.Join(at, bin, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(at, "go.mod"), []byte("module planted\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if b, err := os.ReadFile(ran); err == nil {
			t.Errorf("this ran:\n%s", b)
		}
	})
	return dir
}
