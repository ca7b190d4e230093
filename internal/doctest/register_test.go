package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// clone is a directory like a checkout after scripts/setup has installed the GLSL tools.
type clone struct {
	t    *testing.T
	root string
	data string // XDG_DATA_HOME
}

// newClone makes a clone with tools that print a text.
func newClone(t *testing.T, data, recipe, says string) clone {
	c := clone{t, filepath.Join(t.TempDir(), "clone"), data}
	glsl := filepath.Join(c.root, ".tools", "glsl")
	write(t, filepath.Join(glsl, "bin", "glslc"), "#!/bin/sh\necho "+says+"\n")
	write(t, filepath.Join(glsl, ".done"), recipe+"\nsuites sid\npackage "+says+"\n")
	return c
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// register registers the tools like scripts/setup, and returns the output.
func (c clone) register() string {
	c.t.Helper()
	lib, err := filepath.Abs("../../scripts/lib")
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command("sh", "-euc", `tools=$2/.tools glsl_recipe=$3; say() { echo "$*"; }
		. "$1/prefix.sh"; . "$1/register.sh"; register_glsl`, "setup", lib, c.root, "glsl 2")
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+c.data)
	text, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v\n%s", err, text)
	}
	return string(text)
}

// registered runs the tool that vkc finds; "" if there is none.
func (c clone) registered() string {
	text, _ := exec.Command(filepath.Join(c.data, "vkc", "tools", "glslc")).Output()
	return strings.TrimSpace(string(text))
}

// TestRegister: the tools that scripts/setup registers outlive the checkout, and a link that works is left alone.
func TestRegister(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts are of a POSIX shell")
	}
	const recipe = "glsl 2"
	step := func(name, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: vkc takes %q, want %q", name, got, want)
		}
	}
	link := func(target, at string) {
		t.Helper()
		os.Remove(at)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, at); err != nil {
			t.Fatal(err)
		}
	}
	data := t.TempDir()
	at := filepath.Join(data, "vkc", "tools")

	a, b := newClone(t, data, recipe, "a"), newClone(t, data, recipe, "b")
	a.register()
	step("registered", a.registered(), "a")
	if said := a.register(); said != "" {
		t.Errorf("again, it says %q", said)
	}
	b.register()
	step("another checkout leaves a link that works", b.registered(), "a")
	if err := os.RemoveAll(a.root); err != nil {
		t.Fatal(err)
	}
	step("the checkout is deleted", b.registered(), "a")
	b.register()
	step("the checkout is deleted, and another registers", b.registered(), "a")

	old := newClone(t, data, recipe, "old")
	link(filepath.Join(old.root, ".tools", "glsl", "bin"), at) // as scripts/setup did before
	b.register()
	step("a link into a checkout", b.registered(), "b")
	if err := os.RemoveAll(filepath.Join(data, "vkc", filepath.Dir(readlink(t, at)))); err != nil {
		t.Fatal(err)
	}
	step("a copy that is gone", b.registered(), "")
	b.register()
	step("a copy that is gone, and registered again", b.registered(), "b")

	write(t, filepath.Join(data, "vkc", "tools-old", ".done"), "glsl 1\n")
	write(t, filepath.Join(data, "vkc", "tools-old", "bin", "glslc"), "#!/bin/sh\necho one\n")
	link("tools-old/bin", at)
	b.register()
	step("a copy by an older recipe", b.registered(), "b")
	write(t, filepath.Join(data, "vkc", "tools-new", ".done"), "glsl 3\n")
	write(t, filepath.Join(data, "vkc", "tools-new", "bin", "glslc"), "#!/bin/sh\necho three\n")
	link("tools-new/bin", at)
	b.register()
	step("a copy by a newer recipe", b.registered(), "three")

	own := t.TempDir()
	write(t, filepath.Join(own, "glslc"), "#!/bin/sh\necho own\n")
	link(own, at)
	if said := b.register(); !strings.Contains(said, "leaving") {
		t.Errorf("of the user's own link it says %q", said)
	}
	step("the user's own link", b.registered(), "own")

	// Without tools in .tools, since the distribution's are new.
	if err := os.RemoveAll(b.root); err != nil {
		t.Fatal(err)
	}
	link(filepath.Join(b.root, ".tools", "glsl", "bin"), at)
	if said := b.register(); !strings.Contains(said, "removed") {
		t.Errorf("of a link that leads nowhere it says %q", said)
	}
	if _, err := os.Lstat(at); err == nil {
		t.Error("a link of scripts/setup's that leads nowhere is still there")
	}
	link(filepath.Join(own, "gone"), at)
	if said := b.register(); !strings.Contains(said, "please remove it") {
		t.Errorf("of the user's own link that leads nowhere it says %q", said)
	}
}

func readlink(t *testing.T, at string) string {
	t.Helper()
	target, err := os.Readlink(at)
	if err != nil {
		t.Fatal(err)
	}
	return target
}
