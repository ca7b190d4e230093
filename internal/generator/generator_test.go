package generator

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/vkc-go/vkc/codegen"
	"github.com/vkc-go/vkc/passes"
)

// TestHash: the hash depends on GLSL and on Go, but not on tests.
func TestHash(t *testing.T) {
	files := func(name, text string) fstest.MapFS {
		m := fstest.MapFS{"a.go": {Data: []byte("package a")}, "lib/b.glsl": {Data: []byte("int f();")},
			"a_test.go": {Data: []byte("package a")}}
		m[name] = &fstest.MapFile{Data: []byte(text)}
		return m
	}
	plain := hash(files("a.go", "package a"))
	for name, changes := range map[string]bool{"a.go": true, "lib/b.glsl": true, "lib/c.go": true, "a_test.go": false} {
		if got := hash(files(name, "changed")) != plain; got != changes {
			t.Errorf("a change of %s changes the hash: %t, want %t", name, got, changes)
		}
	}
}

// TestSources: the sources have a file of each kind that decides what a compiled program is.
func TestSources(t *testing.T) {
	for name, src := range map[string]fs.FS{
		"device/caps.go": codegen.Source(), "kernel/kernel.go": codegen.Source(), "schedule/select.go": codegen.Source(),
		"glsl/emit.go": codegen.Source(), "glsl/matvec/matvec.go": codegen.Source(),
		"glsl/lib/pairs.glsl": codegen.Source(), "pipeline.go": passes.Source(), "plan/graph.go": passes.Source(),
		"rewrite/kernels/scatter.glsl": passes.Source(),
	} {
		if _, err := fs.Stat(src, name); err != nil {
			t.Error(err)
		}
	}
}
