package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/toolstest"
)

// TestNothingFromHereRuns: vkc runs no tool from the working directory, a parent, its own directory, or a relative
// entry of $PATH, whether or not the machine has tools.
func TestNothingFromHereRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc")
	}
	dir := toolstest.Plant(t)
	content, err := os.ReadFile(buildPlain(t))
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "vkc.exe")
	if err := os.WriteFile(exe, content, 0o700); err != nil {
		t.Fatal(err)
	}
	devtest.NoCache(t)
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
	devtest.NoCache(t)
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
	has(t, r.stdout, "MISSING  registered tools", strconv.Quote(dir)+" can be written by others", "chmod go-w",
		"remove "+spirv.RegisteredDir(), "MISSING  spirv-opt")
}

// TestGoneTools: if the link to the registered tools is broken, each compiling command says once that it uses others,
// and doctor fails with a hint.
func TestGoneTools(t *testing.T) {
	needTools(t)
	tools, err := spirv.Find(t.Context(), spirv.FindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	noTools(t)
	t.Setenv("PATH", filepath.Dir(tools.Opt.Path)+string(os.PathListSeparator)+"/usr/bin:/bin")
	gone := filepath.Join(t.TempDir(), "clone", ".tools", "glsl", "bin")
	if err := os.MkdirAll(filepath.Dir(spirv.RegisteredDir()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(gone, spirv.RegisteredDir()); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "x.vkb")
	lines := [][]string{{"compile", mlpGraph, "-o", out}, {"dump", mlpGraph, "--stage", "spirv"}}
	if dev, err := vkc.OpenDevice("vulkan"); err == nil {
		dev.Close()
		lines = append(lines, []string{"run", viewsGraph, "--device", "vulkan", "--input", "x=random:1",
			"--input", "7=[0,1]", "--symbol", "B=2"},
			[]string{"verify", "--ops", "--filter", "^neg/f32"})
	}
	said := "which is not there: run scripts/setup of the repository, or remove " + spirv.RegisteredDir()
	for _, line := range lines {
		for _, cache := range []string{"cold", "warm"} {
			if cache == "cold" {
				devtest.NoCache(t)
			}
			if r := ok(t, line...); strings.Count(r.stderr, said) != 1 {
				t.Errorf("vkc %s, %s cache: standard error is\n%s", strings.Join(line, " "), cache, r.stderr)
			}
		}
	}
	for _, line := range [][]string{{"dump", mlpGraph, "--stage", "glsl"}, {"inspect", out}} {
		if r := ok(t, line...); strings.Contains(r.stderr, said) {
			t.Errorf("vkc %s compiles nothing: standard error is\n%s", strings.Join(line, " "), r.stderr)
		}
	}
	r := run(t, "doctor")
	has(t, r.stdout, "MISSING  registered tools ", spirv.RegisteredDir()+": it is a link to "+strconv.Quote(gone),
		"scripts/setup", "remove "+spirv.RegisteredDir())
	if r.code != exitFailure || r.stderr != "vkc: missing: registered tools: "+withoutRegistered+"\n" {
		t.Errorf("doctor: exit code %d\n%s", r.code, r.stderr)
	}
	t.Setenv(spirv.ToolsEnv, filepath.Dir(tools.Opt.Path))
	if r := ok(t, "compile", mlpGraph, "-o", out); strings.Contains(r.stderr, said) {
		t.Errorf("with $%s: standard error is\n%s", spirv.ToolsEnv, r.stderr)
	}
}
