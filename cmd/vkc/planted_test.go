package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/toolstest"
)

// TestNothingFromHereRuns: vkc runs no tool that lies in the directory it is
// started in, in a parent, beside vkc itself, or where a relative entry of
// $PATH leads, whether the machine has tools or not.
func TestNothingFromHereRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc")
	}
	dir := toolstest.Plant(t)
	exe := buildPlain(t, dir)
	ownCache(t)
	graph := absolute(t, mlpGraph)
	tools, err := spirv.Find(t.Context(), spirv.FindOptions{})
	ready := err == nil && tools.Ready() == nil
	here := strings.Join([]string{"", ".", "bin", "..", filepath.Join(".tools", "glsl", "bin")},
		string(os.PathListSeparator))
	withTools := here + string(os.PathListSeparator) + os.Getenv("PATH")
	if ready {
		withTools = here + string(os.PathListSeparator) + filepath.Dir(tools.Opt.Path) + string(os.PathListSeparator) +
			os.Getenv("PATH")
	}
	for _, path := range []string{here, withTools} {
		for _, line := range [][]string{{"doctor"},
			{"compile", graph, "-o", filepath.Join(t.TempDir(), "x.vkb"), "--validate"}, {"dump", graph, "--stage", "spirv"}} {
			cmd := exec.Command(exe, line...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+path, spirv.ToolsEnv+"=", "XDG_DATA_HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if compiles := path == withTools && ready; line[0] != "doctor" && (err == nil) != compiles {
				t.Errorf("vkc %s with PATH=%s: %v\n%s", strings.Join(line, " "), path, err, out)
			}
		}
	}
}

// TestDoctorNamesRefusedTools: tools that others may write are not used, and
// doctor says so.
func TestDoctorNamesRefusedTools(t *testing.T) {
	ownCache(t)
	noTools(t)
	dir := toolstest.Plant(t)
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
	has(t, r.stdout, "absent   registered tools", strconv.Quote(dir)+" can be written by others", "chmod go-w",
		"remove "+spirv.RegisteredDir(), "MISSING  spirv-opt")
}
