package emit

import (
	"bytes"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/quant"
)

func TestCollapseAxes(t *testing.T) {
	T, S := ir.Symbol("T", 8), ir.Symbol("S", 8)
	dense := func(shape ...ir.Dim) kernel.Index {
		x := kernel.Const(0)
		for i, d := range shape {
			x = x.Mul(kernel.DimIndex(d)).Plus(kernel.Axis(i, d))
		}
		return x
	}
	d := func(n int) ir.Dim { return ir.D(n) }
	tests := []struct {
		name  string
		shape []ir.Dim
		load  kernel.Index
		want  string
	}{
		{"dense", []ir.Dim{d(2), d(3), d(4)}, dense(d(2), d(3), d(4)), "[24]"},
		{"symbol", []ir.Dim{T, d(3), d(4)}, dense(T, d(3), d(4)), "[12*T]"},
		{"two symbols", []ir.Dim{T, S, d(4)}, dense(T, S, d(4)), "[4*S*T]"},
		{"ones", []ir.Dim{d(1), d(5), d(1)}, dense(d(1), d(5), d(1)), "[5]"},
		{"only ones", []ir.Dim{d(1), d(1)}, kernel.Const(0), "[]"},
		{"transposed", []ir.Dim{d(3), d(4)}, kernel.Axis(1, d(4)).Times(3).Plus(kernel.Axis(0, d(3))), "[3,4]"},
		{"bias", []ir.Dim{d(2), d(3), d(4)}, kernel.Axis(2, d(4)), "[6,4]"},
		{"column", []ir.Dim{d(2), d(3), d(4)}, kernel.Axis(0, d(2)), "[2,12]"},
		{"padded rows", []ir.Dim{d(3), d(4)}, kernel.Axis(0, d(3)).Times(5).Plus(kernel.Axis(1, d(4))), "[3,4]"},
		{"constant", []ir.Dim{d(3), d(4)}, kernel.Const(0), "[12]"},
	}
	for _, tt := range tests {
		b := kernel.NewBuilder()
		k := &kernel.Kernel{Family: kernel.FamilyMap, Parallel: tt.shape,
			Bindings: []kernel.Binding{{Name: "x", DType: ir.F32, Read: true}, {Name: "y", DType: ir.F32, Write: true}},
			Stores:   []kernel.Store{{Bind: 1, Index: dense(tt.shape...), Value: b.Load(0, ir.F32, tt.load, "x")}}}
		before := k.String()
		if got := ir.Shape(kernel.Collapse(k).Parallel).String(); got != tt.want {
			t.Errorf("%s: %s of %v becomes %s, want %s", tt.name, tt.load, tt.shape, got, tt.want)
		}
		if k.String() != before {
			t.Errorf("%s: the kernel itself has changed", tt.name)
		}
	}
}

// TestCanonicalKeepsMeaning runs the kernels of random graphs before and after pass canonicalize.
func TestCanonicalKeepsMeaning(t *testing.T) {
	merged, ran := 0, 0
	for seed := range uint64(150) {
		g, err := graphgen.New(seed, graphgen.Options{Straight: true}) // bodies go through the passes apart
		if err != nil {
			t.Fatal(err)
		}
		var before []*kernel.Kernel
		s, err := passes.Run(g, passes.Options{Observe: func(e passes.Event) error {
			if e.Pass == "prepack_weights" {
				before = e.State.Kernels
			}
			return nil
		}})
		if err != nil {
			continue // of no interest here: the passes have tests of their own
		}
		encode := func(dst []byte, t ir.DType, src []float32) error { return quant.Quantize(dst, t, src, nil) }
		values := graphgen.Values{Seed: seed, Graph: g}
		opt := keval.Options{Weights: values, Decode: quant.Dequantize, Encode: encode}
		for i, k := range s.Kernels {
			if len(k.Parallel) < len(before[i].Parallel) {
				merged++
			}
		}
		want, err := keval.New(s.Program, before, opt)
		if err != nil {
			t.Fatal(err)
		}
		have, err := keval.New(s.Program, s.Kernels, opt)
		if err != nil {
			t.Fatal(err)
		}
		for i, symbols := range values.Symbols(2) {
			in, err := values.Inputs(symbols, i)
			if err != nil {
				t.Fatal(err)
			}
			a, err := want.Run(in, symbols)
			if err != nil {
				continue // an axis to pick from is empty under these values
			}
			b, err := have.Run(in, symbols)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, g)
			}
			ran++
			for name := range a {
				if !bytes.Equal(a[name].Bytes, b[name].Bytes) || !slices.Equal(a[name].Dims, b[name].Dims) {
					t.Errorf("seed %d: output %q differs\n%s", seed, name, g)
				}
			}
		}
	}
	if merged < 100 || ran < 100 {
		t.Errorf("%d kernels had axes to merge, in %d runs: too few to tell", merged, ran)
	}
}
