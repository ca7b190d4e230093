package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// recommends are the packages that vkc uses with Vulkan if they are installed: the loader and drivers, and what makes
// SPIR-V of GLSL.
var recommends = map[string][]string{
	"deb": {"libvulkan1", "mesa-vulkan-drivers", "glslc", "spirv-tools"},
	"rpm": {"vulkan-loader", "mesa-vulkan-drivers", "glslc", "spirv-tools"},
}

// linuxPackages writes the deb and the rpm of a build.
func (r *release) linuxPackages(b build) error {
	dir, err := os.MkdirTemp("", "vkc-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	contents := files.Contents{{Source: b.path, Destination: "/usr/bin/vkc", FileInfo: &files.ContentFileInfo{
		Mode: 0o755, MTime: r.time}}}
	add := func(name string, data []byte) error {
		source := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		contents = append(contents, &files.Content{Source: source, Destination: "/" + name,
			FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.time}})
		return os.WriteFile(source, data, 0o644)
	}
	for _, p := range r.pages {
		name, data := p.name, p.data
		if strings.Contains(name, "/man/") { // distributions compress manual pages
			var z bytes.Buffer
			w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
			if err != nil {
				return err
			}
			if _, err := w.Write(data); err != nil {
				return err
			}
			if err := w.Close(); err != nil {
				return err
			}
			name, data = name+".gz", z.Bytes()
		}
		if err := add(name, data); err != nil {
			return err
		}
	}
	for _, name := range texts {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		if err := add("usr/share/doc/vkc/"+name, data); err != nil {
			return err
		}
	}
	for _, format := range sorted(recommends) {
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "vkc", Arch: b.arch, Platform: "linux", Version: r.version, VersionSchema: "semver",
			Section: "devel", Priority: "optional", License: "MIT OR Apache-2.0", MTime: r.time,
			Maintainer: "The vkc maintainers <maintainers@vkc.invalid>", Homepage: home,
			Description: "Compiler of tensor programs to fused Vulkan compute kernels\n" +
				"It compiles graphs and language models to Vulkan shaders, and runs them on GPUs or the CPU.",
			Overridables: nfpm.Overridables{Contents: contents},
		})
		if b.vulkan {
			info.Recommends = recommends[format]
			info.Depends = map[string][]string{"deb": {"libc6"}, "rpm": {"glibc"}}[format]
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		var out bytes.Buffer
		if err := packager.Package(info, &out); err != nil {
			return err
		}
		if err := r.write(packager.ConventionalFileName(info), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
