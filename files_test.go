package vkc_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// write makes a file and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadGraph(t *testing.T) {
	want := readGraph(t, "mlp.ir")
	if got := readGraph(t, "mlp.json"); got.HashString() != want.HashString() {
		t.Errorf("text IR and graph.json of one graph differ:\n%s\n%s", got, want)
	}
	// The content decides, not the name.
	g, err := vkc.ReadGraph(write(t, "g.json", "\n; a comment\n"+want.String()))
	if err != nil || g.String() != want.String() {
		t.Errorf("text IR in a file named .json: %v", err)
	}
}

func TestReadGraphRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ content, want string }{
		"empty":        {"", "empty.x:1:1"},
		"not a graph":  {"hello", "not a graph.x:1:1: found 'h', expected a graph: JSON, which begins with {"},
		"no text":      {"\xd0\x01", "no text.x:1:1: found byte 0xd0, expected a graph"},
		"weights":      {"GGUF\x03\x00\x00\x00", "GGUF file, which has weights but no graph"},
		"an array":     {"[]", "an array.x:1:1"},
		"bundle":       {"\x89VKB\r\n\x1a\n", "compiled bundle"},
		"unknown op":   {"graph \"g\" {\n  %0 = frobnicate : f32[]\n}", "unknown op.x:2:8: "},
		"unknown json": {`{"format": "vkc.graph", "version": 1, "nodes": [{"id": "a", "op": "frobnicate"}], "outputs": []}`, "frobnicate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := vkc.ReadGraph(write(t, name+".x", tt.content))
			devtest.WantError(t, err, tt.want)
		})
	}
	_, err := vkc.ReadGraph(write(t, "good.safetensors", "\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	devtest.WantError(t, err, "good.safetensors is a safetensors file, which has weights but no graph")
	_, err = vkc.ReadGraph(filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := vkc.ReadGraph(t.TempDir()); err == nil {
		t.Error("a folder gave no error")
	}
}

func TestOpenWeights(t *testing.T) {
	dir := t.TempDir()
	one, shard, index, ggml := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "a.safetensors"),
		filepath.Join(dir, "m.safetensors.index.json"), filepath.Join(dir, "model")
	tensors := []safetensors.Named{{Name: "w", Data: devtest.Noise(t, 2, 3)}}
	var w gguf.Writer
	for _, err := range []error{
		safetensors.WriteFile(one, nil, tensors), safetensors.WriteFile(shard, nil, tensors),
		os.WriteFile(index, []byte(`{"weight_map": {"w": "a.safetensors"}}`), 0o600),
		w.Add("w", tensors[0].Data), w.WriteFile(ggml),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{one, index, ggml} {
		f, err := vkc.OpenWeights(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if d, err := f.Weight("w"); err != nil || d.String() != "f32[2 3]" || !slices.Equal(f.Names(), []string{"w"}) {
			t.Errorf("%s: %v, %v, names %v", path, d, err, f.Names())
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenWeightsRefuses(t *testing.T) {
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "none.gguf"): "no such file",
		write(t, "short.gguf", "GGUF"):          "short.gguf",
		write(t, "x.safetensors", "no"):         "x.safetensors",
		write(t, "x.index.json", "no"):          "x.index.json",
		write(t, "x.bin", "\x7fELF..."):         "neither GGUF nor safetensors",
		write(t, "empty", ""):                   "is empty, and neither GGUF nor safetensors",
		write(t, "empty.json", ""):              "is empty, and neither GGUF nor safetensors",
		t.TempDir():                             "there is no config.json",
	} {
		w, err := vkc.OpenWeights(path)
		if devtest.WantError(t, err, want); w != nil {
			t.Errorf("%s: an error, and yet a file", path)
		}
	}
}

func TestWeightMap(t *testing.T) {
	m := vkc.WeightMap{"a": devtest.Noise(t, 1)}
	if d, err := m.Weight("a"); err != nil || d != m["a"] {
		t.Errorf("got %v, %v", d, err)
	}
	_, err := m.Weight("b")
	devtest.WantError(t, err, `no weight "b"`)
	var _ ir.WeightSource = m
}

func TestOpenBundleRefuses(t *testing.T) {
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "none.vkb"):        "no such file",
		write(t, "x.vkb", strings.Repeat("graph", 9)): "not a vkc bundle",
	} {
		p, err := vkc.OpenBundle(path)
		if devtest.WantError(t, err, want); p != nil {
			t.Errorf("%s: an error, and yet a program", path)
		}
	}
}
