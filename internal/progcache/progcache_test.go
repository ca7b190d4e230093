package progcache

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/spv/spvtest"
	"github.com/vkc-go/vkc/ir"
)

// noWeights fails the test if it is asked: the cache keeps no weights.
type noWeights struct{ t *testing.T }

func (w noWeights) Weight(name string) (*ir.Data, error) {
	w.t.Errorf("weight %q was read", name)
	return nil, errors.New("not to be read")
}

func contents(t *testing.T, name string) *bundle.Contents {
	t.Helper()
	g, err := ir.Parse(`graph "` + name + `" {
  %w = weight {name="w", dtype=f32, shape=[4]} : f32[4]
  %1 = relu %w : f32[4]
  output "y" %1
}
`)
	if err != nil {
		t.Fatal(err)
	}
	shape := ir.ShapeOf(4)
	return &bundle.Contents{
		Meta:  bundle.Meta{Version: "1"},
		Graph: g,
		Program: &kernel.Program{
			Name: name, Target: "any",
			Buffers: []kernel.Buffer{
				{Kind: kernel.BufWeight, Name: "w", DType: ir.F32, Shape: shape, Bytes: 16, Segments: []kernel.Segment{{Weight: "w", DType: ir.F32, Dims: []int{4}}}},
				{Kind: kernel.BufOutput, Name: "y", DType: ir.F32, Shape: shape, Bytes: 16},
			},
			Shaders: []kernel.Shader{{Name: "relu", Bindings: 2, Workgroup: 64}},
			Steps:   []kernel.Step{{Name: "relu", Binds: []kernel.Bind{{Buffer: 0}, {Buffer: 1}}}},
			Outputs: []kernel.Port{{Name: "y", Buffer: 1, DType: ir.F32, Shape: shape}},
		},
		SPIRV:   [][]byte{spvtest.Module(64, 0, 1)},
		Weights: noWeights{t},
	}
}

func TestPutGet(t *testing.T) {
	dir := t.TempDir()
	c := Open(dir)
	if _, ok := c.Get("a"); ok {
		t.Error("hit in an empty cache")
	}
	want := contents(t, "one")
	if err := c.Put("a", want); err != nil {
		t.Fatal(err)
	}
	f, ok := Open(dir).Get("a")
	if !ok {
		t.Fatal("miss after Put")
	}
	if diff := cmp.Diff(want.Program, f.Program()); diff != "" {
		t.Error(diff)
	}
	if f.HasWeights() {
		t.Error("the cache kept weights")
	}
	if _, ok := c.Get("b"); ok {
		t.Error("hit for another key")
	}
	if err := c.Put("c", &bundle.Contents{}); err == nil {
		t.Error("an empty program was stored")
	}
}

func TestListAndClear(t *testing.T) {
	c := Open(t.TempDir())
	for key, name := range map[string]string{"a": "one", "b": "two"} {
		if err := c.Put(key, contents(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.List()
	if err != nil || len(list) != 2 {
		t.Fatalf("list %+v, %v", list, err)
	}
	names := map[string]bool{}
	var bytes int64
	for _, e := range list {
		names[e.Program] = true
		bytes += e.Size
		if e.Target != "any" || e.Kernels != 1 {
			t.Errorf("entry %+v", e)
		}
	}
	if !names["one"] || !names["two"] {
		t.Errorf("programs %v, want one and two", names)
	}
	want := cachefile.Stats{Entries: 2, Bytes: bytes}
	if s, err := c.Stats(); err != nil || s != want {
		t.Errorf("stats %+v, %v; want %+v", s, err, want)
	}
	if s, err := c.Clear(); err != nil || s != want {
		t.Errorf("cleared %+v, %v; want %+v", s, err, want)
	}
	if list, err := c.List(); err != nil || len(list) != 0 {
		t.Errorf("after Clear: %+v, %v", list, err)
	}
}

// TestUnfitBundle tests an entry with a correct checksum, whose payload is not a bundle of this version.
func TestUnfitBundle(t *testing.T) {
	c := Open(t.TempDir())
	key := cachefile.KeyOf("a")
	for _, use := range []func() bool{
		func() bool { _, ok := c.Get("a"); return !ok },
		func() bool { list, err := c.List(); return err == nil && len(list) == 0 },
		func() bool { good, bad, err := c.Verify(); return err == nil && good.Entries == 0 && len(bad) == 1 },
	} {
		if err := c.dir.Put(key, []byte("a bundle of another time")); err != nil {
			t.Fatal(err)
		}
		if !use() {
			t.Error("an unfit entry was used")
		}
		if s, err := c.Stats(); err != nil || s.Entries != 0 {
			t.Errorf("the unfit entry is still there: %+v, %v", s, err)
		}
	}
}

func TestOff(t *testing.T) {
	t.Setenv(cachefile.Env, "off")
	dir := t.TempDir()
	t.Chdir(dir)
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put("a", contents(t, "one")); err != nil {
		t.Error(err)
	}
	if _, ok := c.Get("a"); ok {
		t.Error("hit in a cache that is off")
	}
	list, err := c.List()
	if err != nil || len(list) != 0 {
		t.Errorf("list %v, %v", list, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("a cache that is off made %v", files)
	}
}

func TestDefault(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	t.Setenv(cachefile.Env, "")
	t.Setenv(cachefile.EnvDir, dir)
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put("a", contents(t, "one")); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(dir).Stats(); err != nil || s.Entries != 1 {
		t.Errorf("%+v, %v: want the entry below $%s", s, err, cachefile.EnvDir)
	}
	t.Setenv(cachefile.Env, "maybe")
	if _, err := Default(); err == nil {
		t.Error("a setting that means nothing: want an error")
	}
}
