package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// file is a file of an archive or package.
type file struct {
	name string
	data []byte
	exec bool
}

// mode returns the permissions of a file in an archive.
func (f file) mode() int64 {
	if f.exec {
		return 0o755
	}
	return 0o644
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// texts are the files of the checkout that each archive has.
var texts = []string{"README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"}

// contents returns the files of a build's archive.
func (r *release) contents(b build) ([]file, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	files := []file{{name: b.program(), data: program, exec: true}}
	for _, name := range texts {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, data: data})
	}
	if b.os != "windows" {
		for _, p := range r.pages {
			files = append(files, file{name: strings.TrimPrefix(p.name, "usr/"), data: p.data})
		}
	}
	return files, nil
}

// stem is the name of a build's files, without an ending.
func (r *release) stem(b build) string {
	return fmt.Sprintf("vkc-%s-%s-%s", r.version, b.os, b.arch)
}

// write writes a file of the release.
func (r *release) write(name string, data []byte) error {
	r.made = append(r.made, name)
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// archiveName is the name of a build's archive.
func (r *release) archiveName(b build) string {
	if b.os == "windows" {
		return r.stem(b) + ".zip"
	}
	return r.stem(b) + ".tar.gz"
}

// archive writes the archive of a build: a zip for Windows, and a tar elsewhere.
func (r *release) archive(b build) error {
	files, err := r.contents(b)
	if err != nil {
		return err
	}
	for i := range files {
		files[i].name = path.Join(r.stem(b), files[i].name)
	}
	var out bytes.Buffer
	if b.os == "windows" {
		err = r.zip(&out, files)
	} else {
		err = r.tarGzip(&out, files)
	}
	if err != nil {
		return err
	}
	return r.write(r.archiveName(b), out.Bytes())
}

// zip writes a zip archive.
func (r *release) zip(to io.Writer, files []file) error {
	z := zip.NewWriter(to)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(os.FileMode(f.mode()))
		w, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// gzipped returns compressed data.
func gzipped(data []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	err = z.Close() // writes the rest
	return out.Bytes(), err
}

// tarGzip writes a compressed tar archive.
func (r *release) tarGzip(to io.Writer, files []file) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := r.tar(z, files); err != nil {
		return err
	}
	return z.Close()
}

// tar writes a tar archive, with the folders of its files.
func (r *release) tar(to io.Writer, files []file) error {
	t := tar.NewWriter(to)
	made := map[string]bool{".": true}
	for _, f := range files {
		var dirs []string
		for dir := path.Dir(f.name); !made[dir]; dir = path.Dir(dir) {
			made[dir] = true
			dirs = append(dirs, dir)
		}
		slices.Reverse(dirs)
		for _, dir := range dirs {
			h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: r.time,
				Format: tar.FormatUSTAR}
			if err := t.WriteHeader(h); err != nil {
				return err
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode(), Size: int64(len(f.data)), ModTime: r.time,
			Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}
