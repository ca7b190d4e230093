package doctest

import (
	"archive/zip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the module proxies allow a module: see go.dev/ref/mod#zip-files.
const (
	maxModuleBytes = 500 << 20
	maxSpecial     = 16 << 20 // go.mod and LICENSE
)

// published writes the module as a proxy would serve it under a version, and
// checks what a proxy would refuse.
func published(t *testing.T, version string) (proxy string) {
	t.Helper()
	proxy = t.TempDir()
	dir := filepath.Join(proxy, "github.com", "vkc-go", "vkc", "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	gomod := read(t, "go.mod")
	if regexp.MustCompile(`(?m)^\s*(replace|exclude)\b`).MatchString(gomod) {
		t.Error("go.mod has replace or exclude directives, with which nobody can install the module by its version")
	}
	info, err := json.Marshal(map[string]string{"Version": version, "Time": "2026-01-01T00:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"list": version + "\n", version + ".info": string(info),
		version + ".mod": gomod} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := zip.NewWriter(out)
	lower, total := map[string]string{}, int64(0)
	plain := regexp.MustCompile(`^[A-Za-z0-9 !#$%&()+,\-.=@\[\]^_{}~/]+$`)
	all := files(t)
	for _, f := range all {
		if inOtherModule(f, all) {
			continue
		}
		st, err := os.Stat(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
		if other, taken := lower[strings.ToLower(f)]; taken || !plain.MatchString(f) {
			t.Errorf("%s is no name for a file of a module (beside %q)", f, other)
		}
		lower[strings.ToLower(f)] = f
		base := filepath.Base(f)
		if (base == "go.mod" || strings.HasPrefix(base, "LICENSE")) && st.Size() > maxSpecial {
			t.Errorf("%s is too large", f)
		}
		to, err := w.Create("github.com/vkc-go/vkc@" + version + "/" + f)
		if err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(to, in)
		in.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if total > maxModuleBytes {
		t.Errorf("the module has %d bytes, more than %d", total, maxModuleBytes)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return proxy
}

// inOtherModule reports whether a file lies below another go.mod, and so is no part of the module.
func inOtherModule(f string, all []string) bool {
	for dir := path.Dir(f); dir != "."; dir = path.Dir(dir) {
		if slices.Contains(all, dir+"/go.mod") {
			return true
		}
	}
	return false
}

// TestPublished: the line by which the pages install a published version works
// with a proxy that has one, and what it installs says which version it is.
func TestPublished(t *testing.T) {
	const version, install = "v0.90.1", "go install github.com/vkc-go/vkc/cmd/vkc@latest"
	if !strings.Contains(read(t, "README.md"), install) {
		t.Errorf("README.md does not say %q", install)
	}
	proxy := published(t, version)
	if testing.Short() {
		t.Skip("it builds vkc")
	}
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	// What vkc depends on comes from what was downloaded to build it here.
	have := filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")
	bin := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", strings.Fields(install)[1:]...)
	cmd.Dir = t.TempDir() // no module
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(have),
		"GOBIN="+bin, "GOMODCACHE="+t.TempDir(),
		"GOFLAGS=-modcacherw -trimpath -gcflags=github.com/vkc-go/vkc/...=-N", /* which compiles faster */
		"GONOSUMDB=*", "GOSUMDB=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", install, err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "vkc"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "vkc "+version+" (generator ") {
		t.Errorf("vkc version: %v, %s", err, out)
	}
}
