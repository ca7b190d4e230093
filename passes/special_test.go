package passes_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
)

// TestSpecialValues runs graphs of ops that keval computes to the bit on NaNs,
// infinities and zeros of both signs: compiling may change none of them.
func TestSpecialValues(t *testing.T) {
	compared := 0
	for seed := range uint64(200) {
		g, err := graphgen.New(seed, graphgen.Options{Pointwise: true})
		if err != nil {
			t.Fatal(err)
		}
		n, err := compareBits(g, seed)
		if err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, g)
		}
		compared += n
	}
	if compared < 10000 {
		t.Errorf("only %d special elements were compared", compared)
	}
}

// compareBits returns how many elements that are no ordinary numbers agree.
func compareBits(g *ir.Graph, seed uint64) (special int, err error) {
	values := graphgen.Values{Seed: seed, Graph: g, Special: true}
	want, err := interp.New(g, interp.Options{Weights: values})
	if err != nil {
		return 0, err
	}
	s, err := passes.Run(g, passes.Options{})
	if err != nil {
		return 0, err
	}
	m, err := keval.New(s.Program, s.Kernels, keval.Options{Weights: values})
	if err != nil {
		return 0, err
	}
	for i, symbols := range values.Symbols(3) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			return 0, err
		}
		ref, err := want.Run(context.Background(), in, symbols)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		have, err := m.Run(in, symbols)
		if err != nil {
			return 0, err
		}
		for name, d := range ref {
			if err := interp.Compare(have[name], d, ir.Tolerance{}).Err(); err != nil {
				return 0, err
			}
			n, err := sameSpecial(name, have[name], d)
			if err != nil {
				return 0, err
			}
			special += n
		}
	}
	return special, nil
}

// sameSpecial compares the signs of zeros, which Compare takes as equal.
func sameSpecial(name string, have, want *ir.Data) (int, error) {
	h, err := have.Floats()
	if err != nil {
		return 0, err
	}
	w, err := want.Floats()
	if err != nil {
		return 0, err
	}
	n := 0
	for i, x := range w {
		if x == 0 && math.Signbit(x) != math.Signbit(h[i]) {
			return 0, fmt.Errorf("output %q: element %d is %v, want %v", name, i, h[i], x)
		}
		if x == 0 || x-x != 0 {
			n++
		}
	}
	return n, nil
}
