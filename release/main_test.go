package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// model is the model of the demo.
const model = "../examples/gollama/gollama-q8_0.gguf"

// TestRelease makes a release for this platform, and checks all of it: the deb is installed in a chroot and runs the
// demo, hashes and signature hold, the image refers to what it has, and recipes name the archives.
func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("deb and rpm packages are for Linux")
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := makeKey(key); err != nil {
		t.Fatal(err)
	}
	r := release{root: "..", out: t.TempDir(), version: "v9.8.7", key: key}
	if err := r.make(t.Context(), "linux/"+runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	t.Run("sums", func(t *testing.T) {
		sums := read("SHA256SUMS")
		for _, name := range r.made {
			line := fmt.Sprintf("%x  %s\n", sha256.Sum256(read(name)), name)
			if !bytes.Contains(sums, []byte(line)) && !strings.HasPrefix(name, "SHA256SUMS") && name != "vkc.pub" {
				t.Errorf("SHA256SUMS does not have %s", line)
			}
		}
		public, signature := read("vkc.pub"), read("SHA256SUMS.minisig")
		if err := verify(public, sums, signature); err != nil {
			t.Error(err)
		}
		if err := verify(public, append(sums, ' '), signature); err == nil {
			t.Error("the signature holds for other sums")
		}
		if err := verify(public, sums, bytes.Replace(signature, []byte("v9.8.7"), []byte("v9.8.6"), 1)); err == nil {
			t.Error("the signature holds for another comment")
		}
	})
	t.Run("archive", func(t *testing.T) {
		files := untar(t, read("vkc-v9.8.7-linux-"+runtime.GOARCH+".tar.gz"))
		for _, name := range []string{"vkc", "LICENSE-MIT", "share/man/man1/vkc-run.1",
			"share/bash-completion/completions/vkc"} {
			if len(files["vkc-v9.8.7-linux-"+runtime.GOARCH+"/"+name]) == 0 {
				t.Errorf("the archive has no %s", name)
			}
		}
	})
	t.Run("materials", func(t *testing.T) {
		var b bom
		if err := json.Unmarshal(read("vkc-v9.8.7-linux-"+runtime.GOARCH+".cdx.json"), &b); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(b.Components)
		if b.Format != "CycloneDX" || b.Metadata.Component.Name != "github.com/vkc-go/vkc" ||
			!strings.Contains(text, "pkg:golang/github.com/spf13/cobra@v") {
			t.Errorf("%+v", b)
		}
	})
	t.Run("image", func(t *testing.T) { checkImage(t, read("vkc-v9.8.7-image.oci.tar")) })
	t.Run("recipes", func(t *testing.T) {
		archive := read("vkc-v9.8.7-linux-" + runtime.GOARCH + ".tar.gz")
		if s := string(read("vkc.rb")); !strings.Contains(s, fmt.Sprintf("sha256 \"%x\"", sha256.Sum256(archive))) ||
			!strings.Contains(s, `version "9.8.7"`) || strings.Contains(s, "on_macos") {
			t.Errorf("the formula is\n%s", s)
		}
		if s := string(read("vkc.nix")); !strings.Contains(s, "x86_64-linux") && runtime.GOARCH == "amd64" {
			t.Errorf("the derivation is\n%s", s)
		}
	})
	t.Run("deb", func(t *testing.T) { checkDeb(t, filepath.Join(r.out, "vkc_9.8.7_"+runtime.GOARCH+".deb")) })
	t.Run("rpm", func(t *testing.T) {
		list, err := filepath.Glob(filepath.Join(r.out, "vkc-9.8.7-1.*.rpm"))
		if err != nil || len(list) != 1 {
			t.Fatalf("packages %v, %v", list, err)
		}
		checkRPM(t, read(filepath.Base(list[0])))
	})
}

// checkRPM reads an rpm, and runs the program that it installs in a chroot.
func checkRPM(t *testing.T, data []byte) {
	p, err := readRPM(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/usr/bin/vkc", "/usr/share/man/man1/vkc.1.gz", "/usr/share/doc/vkc/LICENSE-MIT"} {
		if len(p.files[name]) == 0 {
			t.Errorf("the package has no %s", name)
		}
	}
	for tag, want := range map[uint32]string{tagName: "[vkc]", tagVersion: "[9.8.7]", tagRequires: "glibc",
		tagRecommends: "vulkan-loader mesa-vulkan-drivers"} {
		if have := fmt.Sprint(p.texts[tag]); !strings.Contains(have, want) {
			t.Errorf("tag %d is %s, want %s", tag, have, want)
		}
	}
	broken := bytes.Clone(data)
	broken[len(broken)-100] ^= 1
	if _, err := readRPM(broken); err == nil {
		t.Error("a package with another payload has the right hash")
	}
	tryVKC(t, p.files["/usr/bin/vkc"])
}

// tryVKC runs a vkc alone in a chroot, with the C library of this machine if it needs one.
func tryVKC(t *testing.T, program []byte) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a chroot needs root")
	}
	root := t.TempDir()
	place(t, filepath.Join(root, "usr/bin/vkc"), program)
	place(t, filepath.Join(root, "tmp/.keep"), nil)
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o1777); err != nil {
		t.Fatal(err)
	}
	demo(t, root)
}

// place writes a program or library.
func place(t *testing.T, path string, data []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// untar returns the files of a compressed tar archive.
func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return tarred(t, z)
}

func tarred(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for a := tar.NewReader(r); ; {
		h, err := a.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(a); err != nil {
			t.Fatal(err)
		}
	}
}

// checkImage follows all descriptors of an image layout.
func checkImage(t *testing.T, data []byte) {
	files := tarred(t, bytes.NewReader(data))
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %q", files["oci-layout"])
	}
	layers := 0
	var follow func(data []byte)
	follow = func(data []byte) {
		for _, m := range regexp.MustCompile(`\{"mediaType":"([^"]+)","digest":"sha256:([0-9a-f]+)","size":(\d+)`).
			FindAllStringSubmatch(string(data), -1) {
			blob, ok := files["blobs/sha256/"+m[2]]
			if sum := fmt.Sprintf("%x", sha256.Sum256(blob)); !ok || sum != m[2] || fmt.Sprint(len(blob)) != m[3] {
				t.Errorf("the blob %s of type %s has %d bytes, hash %s", m[2], m[1], len(blob), sum)
			}
			if m[1] == typeLayer {
				layers++
				if program := untar(t, blob)["usr/bin/vkc"]; len(program) == 0 {
					t.Error("a layer has no vkc")
				} else {
					t.Run("run", func(t *testing.T) { tryVKC(t, program) })
				}
				continue
			}
			follow(blob)
		}
	}
	follow(files["index.json"])
	if layers != 1 {
		t.Errorf("%d layers, want 1", layers)
	}
}

// checkDeb installs a deb in an empty root with the libraries that it depends on, and runs the demo there.
func checkDeb(t *testing.T, deb string) {
	if _, err := exec.LookPath("dpkg"); err != nil || os.Getuid() != 0 {
		t.Skip("to install a deb in a chroot, this must be root on Debian")
	}
	root := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	for _, dir := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info", "var/lib/dpkg/triggers", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"var/lib/dpkg/status", "var/lib/dpkg/available"} {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The C library is the test machine's: no distribution is installed in the root.
	run("dpkg", "--root="+root, "--force-depends", "--force-script-chrootless", "-i", deb)
	listed := run("dpkg", "--root="+root, "-L", "vkc")
	for _, name := range []string{"/usr/bin/vkc", "/usr/share/man/man1/vkc.1.gz", "/usr/share/doc/vkc/LICENSE-MIT"} {
		if !strings.Contains(listed, name+"\n") {
			t.Errorf("the package has no %s:\n%s", name, listed)
		}
	}
	demo(t, root)
}

// demo runs a language model with the program in a root, as a user without rights. The C library is this machine's.
func demo(t *testing.T, root string) {
	t.Helper()
	program := filepath.Join(root, "usr/bin/vkc")
	needs, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil && !bytes.Contains(needs, []byte("not a dynamic executable")) {
		t.Fatalf("ldd: %v\n%s", err, needs)
	}
	for _, lib := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(string(needs), -1) {
		data, err := os.ReadFile(lib)
		if err != nil {
			t.Fatal(err)
		}
		place(t, filepath.Join(root, lib), data)
	}
	data, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	place(t, filepath.Join(root, "model.gguf"), data)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("chroot", append([]string{"--userspec=65532:65532", root, "/usr/bin/vkc"}, args...)...)
		cmd.Env = []string{"PATH=/usr/bin", "HOME=/tmp", "VKC_CACHE_DIR=/tmp/vkc"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("vkc %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := run("version"); !strings.HasPrefix(out, "vkc ") {
		t.Errorf("vkc version prints %q", out)
	}
	out := run("generate", "-q", "-d", "cpu", "-m", "/model.gguf", "-n", "8", "-p", "func main() {")
	if len(strings.TrimSpace(out)) < 8 {
		t.Errorf("the demo prints %q", out)
	}
	t.Logf("in the chroot: %q", out)
}
