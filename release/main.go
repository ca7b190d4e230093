// Release builds what users install: archives for each platform, deb and rpm packages, a container image, recipes for
// Homebrew and Nix, with bills of materials, hashes and signatures.
//
//	go run . -version v0.2.0 -out DIR
//	go run . -version v0.2.0 -out DIR -key KEY     # also sign
//	go run . -make-key KEY                         # make a key, and KEY.pub
//
// It runs in folder release of a checkout, and builds that checkout. The same checkout gives the same bytes, because
// all times are the commit's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := release{root: ".."}
	flag.StringVar(&r.version, "version", "", "the version, such as v0.2.0")
	flag.StringVar(&r.out, "out", "", "the folder to write to")
	flag.StringVar(&r.key, "key", "", "sign with this key")
	only := flag.String("only", "", "build only this platform, such as linux/amd64")
	newKey := flag.String("make-key", "", "write a new key to this file, and its public half to FILE.pub")
	flag.Parse()
	var err error
	switch {
	case *newKey != "":
		err = makeKey(*newKey)
	case r.version == "" || r.out == "" || flag.NArg() > 0:
		err = errors.New("give -version and -out; -help lists the flags")
	default:
		err = r.make(ctx, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// platform is a row of the table of platforms.
type platform struct {
	os, arch string
	cc       string // the C compiler with which vkc has Vulkan there; "" if none can be had on Linux
}

// platforms lists the platforms that get an archive. Without the C compiler vkc is built without cgo: it then compiles
// programs for all devices, and runs them on the CPU.
var platforms = []platform{
	{"linux", "amd64", "x86_64-linux-gnu-gcc"},
	{"linux", "arm64", "aarch64-linux-gnu-gcc"},
	{"windows", "amd64", "x86_64-w64-mingw32-gcc"},
	{"darwin", "amd64", ""},
	{"darwin", "arm64", ""},
}

func (p platform) String() string { return p.os + "/" + p.arch }

// program is the file name of vkc.
func (p platform) program() string {
	if p.os == "windows" {
		return "vkc.exe"
	}
	return "vkc"
}

// release is the release being made.
type release struct {
	root, out, key string
	version        string
	time           time.Time // of the commit
	pages          []file    // manual pages and completions
	made           []string  // the names of files in out
}

// build is vkc built for a platform.
type build struct {
	platform
	vulkan bool   // it has Vulkan
	path   string // of the program
}

// goodVersion matches the valid versions of a release.
var goodVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

// make makes a release, of all platforms or only one.
func (r *release) make(ctx context.Context, only string) error {
	if !goodVersion.MatchString(r.version) {
		return fmt.Errorf("-version %s: want vX.Y.Z", r.version)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "vkc-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if r.time, err = commitTime(ctx, r.root); err != nil {
		return err
	}
	host := platform{os: runtime.GOOS, arch: runtime.GOARCH}
	tool, err := r.build(ctx, host, false, filepath.Join(work, "host"))
	if err != nil {
		return err
	}
	if r.pages, err = pages(ctx, tool.path, work); err != nil {
		return err
	}
	builds, static, err := r.buildAll(ctx, only, work)
	if err != nil {
		return err
	}
	for _, b := range builds {
		if err := r.files(b); err != nil {
			return err
		}
	}
	if len(static) > 0 {
		if err := r.image(static); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	if err := r.recipes(builds); err != nil {
		return fmt.Errorf("recipes: %w", err)
	}
	return r.sums()
}

// buildAll builds vkc for all platforms, or only one, in folders of work. static are the builds for the container image:
// for Linux, without Vulkan.
func (r *release) buildAll(ctx context.Context, only, work string) (builds, static []build, err error) {
	for _, p := range platforms {
		if only != "" && only != p.String() {
			continue
		}
		cc, err := compilerOf(p)
		if err != nil {
			fmt.Printf("%s: without Vulkan, as there is no %s here\n", p, p.cc)
		} else if p.cc == "" {
			fmt.Printf("%s: without Vulkan, which only a build on macOS has\n", p)
		}
		p.cc = cc
		b, err := r.build(ctx, p, cc != "", filepath.Join(work, p.os+"-"+p.arch))
		if err != nil {
			return nil, nil, err
		}
		builds = append(builds, b)
		if p.os == "linux" {
			s, err := r.build(ctx, p, false, filepath.Join(work, p.os+"-"+p.arch+"-static"))
			if err != nil {
				return nil, nil, err
			}
			static = append(static, s)
		}
	}
	if len(builds) == 0 {
		return nil, nil, fmt.Errorf("-only %s: there is no such platform", only)
	}
	return builds, static, nil
}

// files writes the archive, the bill of materials and, for Linux, the packages of a build.
func (r *release) files(b build) error {
	if err := r.archive(b); err != nil {
		return fmt.Errorf("archive for %s: %w", b, err)
	}
	if err := r.materials(b); err != nil {
		return fmt.Errorf("materials of %s: %w", b, err)
	}
	if b.os == "linux" {
		if err := r.linuxPackages(b); err != nil {
			return fmt.Errorf("packages for %s: %w", b, err)
		}
	}
	return nil
}

// compilerOf returns the C compiler for a platform. An error says that it is not installed.
func compilerOf(p platform) (string, error) {
	if p.cc == "" {
		return "", nil
	}
	if p.os == runtime.GOOS && p.arch == runtime.GOARCH {
		if _, err := exec.LookPath("cc"); err == nil {
			return "cc", nil
		}
	}
	if _, err := exec.LookPath(p.cc); err != nil {
		return "", err
	}
	return p.cc, nil
}

// commitTime returns the time of the checkout's last commit.
func commitTime(ctx context.Context, root string) (time.Time, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", root, "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("git log: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// build builds vkc for a platform into a folder. With cgo it supports Vulkan; without, it runs on the CPU only.
func (r *release) build(ctx context.Context, p platform, cgo bool, dir string) (build, error) {
	b := build{platform: p, vulkan: cgo, path: filepath.Join(dir, p.program())}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s", "-o", b.path, "./cmd/vkc")
	cmd.Dir, cmd.Stderr = r.root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0")
	if cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1", "CC="+p.cc)
	}
	if err := cmd.Run(); err != nil {
		return b, fmt.Errorf("go build for %s: %w", p, err)
	}
	return b, nil
}

// shells have completions, with the path where packages install them.
var shells = map[string]string{
	"bash": "usr/share/bash-completion/completions/vkc",
	"zsh":  "usr/share/zsh/vendor-completions/_vkc",
	"fish": "usr/share/fish/vendor_completions.d/vkc.fish",
}

// pages has vkc write its manual pages and completions. Their names are the paths where packages install them.
func pages(ctx context.Context, vkc, work string) ([]file, error) {
	dir := filepath.Join(work, "man1")
	if out, err := exec.CommandContext(ctx, vkc, "man", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("vkc man: %w: %s", err, out)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var pages []file
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		pages = append(pages, file{name: "usr/share/man/man1/" + e.Name(), data: data})
	}
	for _, shell := range sorted(shells) {
		out, err := exec.CommandContext(ctx, vkc, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("vkc completion %s: %w", shell, err)
		}
		pages = append(pages, file{name: shells[shell], data: out})
	}
	return pages, nil
}
