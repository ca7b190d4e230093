package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRelease: scripts/release tags the published modules, and each requires the released version. In check mode, or if
// there is an error, it changes nothing. The test uses a small repository.
func TestRelease(t *testing.T) {
	for _, program := range []string{"sh", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	const path = "github.com/vkc-go/vkc"
	for name, text := range map[string]string{
		"scripts/release":    read(t, "scripts/release"),
		"scripts/lib/env.sh": read(t, "scripts/lib/env.sh"),
		"go.mod":             "module " + path + "\n\ngo 1.26\n",
		"vkc.go":             "package vkc\n",
		"CHANGELOG.md":       "# Changelog\n\n## Unreleased\n\n- A change.\n",
		"gomlx/go.mod": "module " + path + "/gomlx\n\ngo 1.26\n\n" +
			"replace " + path + " => ..\n\nrequire " + path + " v0.0.0\n",
		"gomlx/gomlx.go": "package gomlx\n\nimport _ \"" + path + "\"\n",
		"own/go.mod": "// Not published.\nmodule " + path + "/own\n\ngo 1.26\n\n" +
			"replace (\n\t" + path + " => ..\n\t" + path + "/gomlx => ../gomlx\n)\n\n" +
			"require (\n\t" + path + " v0.0.0 // indirect\n\t" + path + "/gomlx v0.0.0\n)\n",
		"own/own.go": "package own\n\nimport _ \"" + path + "/gomlx\"\n",
		"internal/doctest/published_test.go": `package doctest

import (
	"os"
	"testing"
)

func TestPublished(t *testing.T) {
	if text, err := os.ReadFile("../../broken"); err == nil {
		t.Errorf("%s", text)
	}
}
`,
	} {
		write(t, filepath.Join(dir, name), text)
	}
	environ := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GOPROXY=off",
		"GOWORK=off")
	command := func(line ...string) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
		cmd.Dir, cmd.Env = dir, environ
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	git := func(args ...string) string {
		t.Helper()
		text, err := command(append([]string{"git"}, args...)...)
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, text)
		}
		return strings.TrimSpace(text)
	}
	git("init", "-q", "-b", "main")
	git("config", "user.name", "Somebody")
	git("config", "user.email", "somebody@example.com")
	git("add", "-A")
	git("commit", "-q", "-m", "first")
	state := func() string {
		return git("rev-parse", "HEAD") + git("status", "--porcelain") + git("tag", "--list")
	}
	before := state()
	for name, line := range map[string][]string{
		"without a version":   {},
		"two versions":        {"v0.1.0", "v0.2.0"},
		"no version":          {"0.1.0"},
		"a path of its own":   {"v2.0.0"},
		"two numbers":         {"v0.1"},
		"a leading zero":      {"v0.01.0"},
		"an unknown argument": {"--dry-run", "v0.1.0"},
	} {
		if text, err := command(append([]string{"scripts/release"}, line...)...); err == nil || !strings.Contains(text,
			"usage: scripts/release") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	text, err := command("scripts/release", "--check", "v0.1.0")
	if err != nil || !strings.Contains(text, "nothing was changed") ||
		!strings.Contains(text, path+"/gomlx: published as gomlx/v0.1.0\n") ||
		!strings.Contains(text, path+"/own: not published\n") {
		t.Errorf("a check: %v\n%s", err, text)
	}
	broken := filepath.Join(dir, "broken")
	write(t, broken, "it is broken")
	if text, err := command("scripts/release", "v0.1.0"); err == nil || !strings.Contains(text, "not committed") {
		t.Errorf("with a change that is not committed: %v\n%s", err, text)
	}
	git("add", "-A")
	git("commit", "-q", "-m", "broken")
	if text, err := command("scripts/release", "v0.1.0"); err == nil || !strings.Contains(text, "it is broken") {
		t.Errorf("with modules that cannot be had: %v\n%s", err, text)
	}
	git("reset", "-q", "--hard", "HEAD^")
	if after := state(); after != before {
		t.Errorf("it has changed the repository: %s, before %s", after, before)
	}
	for _, version := range []string{"v0.1.0", "v0.1.1"} {
		if text, err := command("scripts/release", version); err != nil || !strings.Contains(text,
			"git push --atomic origin main gomlx/"+version+" "+version) && !strings.Contains(text,
			"git push --atomic origin main "+version+" gomlx/"+version) {
			t.Fatalf("%s: %v\n%s", version, err, text)
		}
		for _, tag := range []string{version, "gomlx/" + version} {
			if at := git("rev-parse", tag+"^{commit}"); at != git("rev-parse", "main") {
				t.Errorf("tag %s is at %s", tag, at)
			}
		}
		for file, want := range map[string]string{"gomlx": path + " " + version, "own": path + "/gomlx " + version} {
			if text := git("show", "gomlx/"+version+":"+file+"/go.mod"); !strings.Contains(text+"\n", want+"\n") {
				t.Errorf("%s/go.mod does not require %s:\n%s", file, want, text)
			}
		}
	}
	if text := git("show", "main:CHANGELOG.md"); !strings.Contains(text, "## Unreleased\n\n## v0.1.1, ") ||
		!strings.Contains(text, "\n\n## v0.1.0, ") {
		t.Errorf("the changelog lacks the versions:\n%s", text)
	}
	if text := git("tag", "--list", "own/*"); text != "" {
		t.Errorf("a module that is not published has the tag %s", text)
	}
	before = state()
	if text, err := command("scripts/release", "v0.1.0"); err == nil || !strings.Contains(text, "there is a tag") {
		t.Errorf("once more: %v\n%s", err, text)
	}
	if after := state(); after != before {
		t.Errorf("it has changed the repository: %s, before %s", after, before)
	}
}
