package main

import (
	"bytes"
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

// packageFiles returns the files that a package has in addition to the program, with the paths where it installs them.
func (r *release) packageFiles() (list []file, err error) {
	for _, p := range r.pages {
		if strings.Contains(p.name, "/man/") { // distributions compress manual pages
			p.name += ".gz"
			if p.data, err = gzipped(p.data); err != nil {
				return nil, err
			}
		}
		list = append(list, p)
	}
	for _, name := range texts {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		list = append(list, file{name: "usr/share/doc/vkc/" + name, data: data})
	}
	return list, nil
}

// linuxPackages writes the deb and the rpm of a build.
func (r *release) linuxPackages(b build) error {
	dir, err := os.MkdirTemp("", "vkc-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list, err := r.packageFiles()
	if err != nil {
		return err
	}
	contents := files.Contents{{Source: b.path, Destination: "/usr/bin/vkc", FileInfo: &files.ContentFileInfo{
		Mode: 0o755, MTime: r.time}}}
	for _, f := range list {
		source := filepath.Join(dir, strings.ReplaceAll(f.name, "/", "-"))
		if err := os.WriteFile(source, f.data, 0o644); err != nil {
			return err
		}
		contents = append(contents, &files.Content{Source: source, Destination: "/" + f.name,
			FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.time}})
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
