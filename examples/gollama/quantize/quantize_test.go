package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// write makes a GGUF file with these tensors and one key of metadata.
func write(t *testing.T, tensors map[string]*ir.Data) string {
	t.Helper()
	var w gguf.Writer
	if err := w.Set("general.name", "small"); err != nil {
		t.Fatal(err)
	}
	for name, d := range tensors {
		if err := w.Add(name, d); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "in.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func ramp(t *testing.T, dtype ir.DType, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float64, d.Elems())
	for i := range values {
		values[i] = float64(i%17) - 8
	}
	if d, err = ir.FromFloats(dtype, values, dims...); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRun(t *testing.T) {
	matrix := ramp(t, ir.F16, 3, 64)
	in := write(t, map[string]*ir.Data{"matrix": matrix, "odd": ramp(t, ir.F16, 3, 40), "norm": ramp(t, ir.F16, 64)})
	out := filepath.Join(t.TempDir(), "out.gguf")
	if err := run(in, out); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if name, err := f.String("general.name"); err != nil || name != "small" {
		t.Errorf("the name became %q, %v", name, err)
	}
	if ft, err := f.Uint("general.file_type"); err != nil || ft != 7 {
		t.Errorf("the file type is %d, %v", ft, err)
	}
	for name, want := range map[string]string{"matrix": "q8_0[3 64]", "odd": "f32[3 40]", "norm": "f32[64]"} {
		if d, err := f.Weight(name); err != nil || d.String() != want {
			t.Errorf("%s is %v, %v, want %s", name, d, err, want)
		}
	}
	d, err := f.Weight("matrix")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, d.Elems())
	if err := quant.Dequantize(got, d.DType, d.Bytes); err != nil {
		t.Fatal(err)
	}
	want, err := matrix.Floats()
	if err != nil {
		t.Fatal(err)
	}
	const halfStep = 8.0 / 127 / 2
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= halfStep*1.01) {
			t.Fatalf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
}

func TestRunRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.gguf")
	quantized, err := ir.NewData(ir.Q4_0, 2, 32)
	if err != nil {
		t.Fatal(err)
	}
	nan, err := ir.FromFloats(ir.F32, append(make([]float64, 31), math.NaN()), 1, 32)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		write(t, map[string]*ir.Data{"m": quantized}): "want a model of float weights",
		write(t, map[string]*ir.Data{"m": nan}):       "NaN",
		"quantize_test.go":                            "want \"GGUF\"",
	} {
		if err := run(name, out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}
