package runtime_test

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// BenchmarkBind checks the inputs and allocates the outputs of a language model's step: three inputs, sixty states, and
// two symbols, one of which is not the size of an input.
func BenchmarkBind(b *testing.B) {
	t, past := ir.Symbol("T", 512), ir.Symbol("P", 4096)
	port := func(name string, dt ir.DType, dims ...ir.Dim) runtime.Port {
		return runtime.Port{Name: name, Type: ir.Type{DType: dt, Shape: dims}}
	}
	var states []runtime.Port
	for i := range 60 {
		states = append(states, port(fmt.Sprint("cache", i), ir.F16, ir.D(4096), ir.D(512)))
	}
	s, err := runtime.NewSignature("g", []runtime.Port{port("tokens", ir.I32, t), port("positions", ir.I32, t),
		port("mask", ir.F32, t, t)}, []runtime.Port{port("logits", ir.F32, t, ir.D(32000))}, states,
		[]runtime.Symbol{{Name: t.Sym, Bound: t.Bound}, {Name: past.Sym, Bound: past.Bound}})
	if err != nil {
		b.Fatal(err)
	}
	in := map[string]*ir.Data{}
	for _, p := range s.Inputs() {
		d := &ir.Data{DType: p.Type.DType, Dims: make([]int, len(p.Type.Shape)), Bytes: make([]byte, 4)}
		for i := range d.Dims {
			d.Dims[i] = 1
		}
		in[p.Name] = d
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		opt := runtime.RunOptions{Symbols: map[string]int64{"P": int64(n % 4096)}}
		symbols, err := s.Bind(in, opt)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.NewOutputs(symbols, opt); err != nil {
			b.Fatal(err)
		}
	}
}
