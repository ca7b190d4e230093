package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/spirv"
)

// plant fills a directory and its parent, each the root of a Go module, with
// programs by the names of the tools, which note that they ran in a file.
func plant(t *testing.T) (dir, ran string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the planted programs are shell scripts")
	}
	root := t.TempDir()
	dir, ran = filepath.Join(root, "work"), filepath.Join(t.TempDir(), "ran")
	for _, at := range []string{root, dir} {
		for _, bin := range []string{".", "bin", filepath.Join(".tools", "glsl", "bin"), filepath.Join("vkc", "tools")} {
			if err := os.MkdirAll(filepath.Join(at, bin), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"glslc", "glslangValidator", "glslang", "spirv-opt", "spirv-val", "spirv-dis"} {
				text := "#!/bin/sh\necho \"$0 $*\" >>'" + ran + "'\necho planted 1.0\n"
				if err := os.WriteFile(filepath.Join(at, bin, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(at, "go.mod"), []byte("module planted\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, ran
}

// TestNothingFromHereRuns: vkc runs no tool that lies in the directory it is
// started in, in a parent, beside vkc itself, or where a relative entry of
// $PATH leads, whether the machine has tools or not.
func TestNothingFromHereRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc")
	}
	dir, ran := plant(t)
	exe := buildPlain(t, dir)
	ownCache(t)
	graph := absolute(t, mlpGraph)
	tools, err := spirv.Find(t.Context(), spirv.FindOptions{})
	ready := err == nil && tools.Ready() == nil
	here := strings.Join([]string{"", ".", "bin", "..", filepath.Join(".tools", "glsl", "bin")}, string(os.PathListSeparator))
	withTools := here + string(os.PathListSeparator) + os.Getenv("PATH")
	if ready {
		withTools = here + string(os.PathListSeparator) + filepath.Dir(tools.Opt.Path) + string(os.PathListSeparator) + os.Getenv("PATH")
	}
	for _, path := range []string{here, withTools} {
		for _, line := range [][]string{{"doctor"}, {"compile", graph, "-o", filepath.Join(t.TempDir(), "x.vkb"), "--validate"}, {"dump", graph, "--stage", "spirv"}} {
			cmd := exec.Command(exe, line...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+path, spirv.ToolsEnv+"=", "XDG_DATA_HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if compiles := path == withTools && ready; line[0] != "doctor" && (err == nil) != compiles {
				t.Errorf("vkc %s with PATH=%s: %v\n%s", strings.Join(line, " "), path, err, out)
			}
		}
	}
	if b, err := os.ReadFile(ran); err == nil {
		t.Errorf("this ran:\n%s", b)
	}
}

// TestDoctorNamesRefusedTools: tools that others may write are not used, and
// doctor says so.
func TestDoctorNamesRefusedTools(t *testing.T) {
	ownCache(t)
	noTools(t)
	dir, ran := plant(t)
	if err := os.MkdirAll(filepath.Dir(spirv.RegisteredDir()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, spirv.RegisteredDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r := run(t, "doctor")
	for _, want := range []string{"absent   registered tools", strconv.Quote(dir) + " can be written by others", "chmod go-w", "remove " + spirv.RegisteredDir(), "MISSING  spirv-opt"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if b, err := os.ReadFile(ran); err == nil {
		t.Errorf("this ran:\n%s", b)
	}
}
