package e2e_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	vkcrun "github.com/vkc-go/vkc/runtime"
)

// cutGraph reads a matrix of floats and one of blocks, both from a file. The
// reference decodes the first when it is loaded and the second as runs need it.
func cutGraph(b *frontend.Builder) {
	b.Output("y", b.Input("x", ir.F32, 1, 256).MatMulT(b.Weight("floats", ir.F32, 512, 256)))
	b.Output("row", b.Weight("blocks", ir.Q8_0, 512, 256).Embedding(b.Input("ids", ir.I32, 1), ir.F32))
}

// cutOff opens a file of weights and truncates it after handing out its tensors, so that the mapping faults. Without a
// guard around each read, the test binary would crash.
func cutOff(t *testing.T, path string) vkc.WeightMap {
	t.Helper()
	f, err := vkc.OpenWeights(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	held := vkc.WeightMap{}
	for _, name := range f.Names() {
		if held[name], err = f.Weight(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	return held
}

// cutFile writes the weights of cutGraph, as many as the format has room for.
func cutFile(t *testing.T, format string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model."+format)
	floats := devtest.Noise(t, 512, 256)
	if format == "safetensors" {
		if err := safetensors.WriteFile(path, nil, []safetensors.Named{{Name: "floats", Data: floats}}); err != nil {
			t.Fatal(err)
		}
		return path
	}
	blocks, err := ir.NewData(ir.Q8_0, 512, 256)
	if err != nil {
		t.Fatal(err)
	}
	if err := quant.Quantize(blocks.Bytes, ir.Q8_0, make([]float32, 512*256), nil); err != nil {
		t.Fatal(err)
	}
	var w gguf.Writer
	for name, d := range map[string]*ir.Data{"floats": floats, "blocks": blocks} {
		if err := w.Add(name, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTruncatedWeights cuts files short while they are in use, for everything in
// vkc that reads weights where they are mapped: each says so and goes on.
func TestTruncatedWeights(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("whether a file in use can be cut short depends on the system")
	}
	g, err := frontend.Build("cut", cutGraph)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	reference, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]*ir.Data{"x": devtest.Noise(t, 1, 256),
		"ids": {DType: ir.I32, Dims: []int{1}, Bytes: []byte{7, 0, 0, 0}}}

	for _, format := range []string{"gguf", "safetensors"} {
		uses := map[string]func(t *testing.T, path string) error{
			"gguf writer": func(t *testing.T, path string) error {
				var w gguf.Writer
				if err := w.Add("floats", cutOff(t, path)["floats"]); err != nil {
					return err
				}
				_, err := w.WriteTo(&bytes.Buffer{})
				return err
			},
			"gguf file": func(t *testing.T, path string) error {
				var w gguf.Writer
				if err := w.Add("floats", cutOff(t, path)["floats"]); err != nil {
					return err
				}
				return w.WriteFile(filepath.Join(t.TempDir(), "out.gguf"))
			},
			"safetensors file": func(t *testing.T, path string) error {
				return safetensors.WriteFile(filepath.Join(t.TempDir(), "out"), nil,
					[]safetensors.Named{{Name: "floats", Data: cutOff(t, path)["floats"]}})
			},
		}
		if format == "gguf" {
			uses["reference, loading"] = func(t *testing.T, path string) error {
				_, err := reference.LoadGraph(ctx, g, cutOff(t, path))
				return err
			}
			uses["reference, running"] = func(t *testing.T, path string) error {
				f, err := vkc.OpenWeights(path)
				if err != nil {
					return err
				}
				defer f.Close()
				exe, err := reference.LoadGraph(ctx, g, f)
				if err != nil {
					return err
				}
				defer exe.Close()
				if err := os.Truncate(path, 0); err != nil {
					return err
				}
				_, err = exe.Run(ctx, in, vkcrun.RunOptions{})
				return err
			}
			uses["bundle"] = func(t *testing.T, path string) error {
				devtest.NeedTools(t)
				return devtest.Compile(t, g, "generic").Save(filepath.Join(t.TempDir(), "out.vkb"), cutOff(t, path))
			}
			uses["device"] = func(t *testing.T, path string) error {
				dev := devtest.OpenDevice(t)
				devtest.NeedTools(t)
				_, err := dev.LoadGraph(ctx, g, cutOff(t, path))
				return err
			}
		}
		for name, use := range uses {
			t.Run(format+"/"+name, func(t *testing.T) {
				path := cutFile(t, format)
				err := use(t, path)
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "cut short") {
					t.Errorf("%v; want an error that names %s and says that it was cut short", err, path)
				}
			})
		}
	}
}
