package randomtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// TestRandomPrecisions runs random graphs in each precision. Results that do not depend on rounded values must be as
// exact as in full precision. Others may be off by what rounding causes, see nearRounded.
func TestRandomPrecisions(t *testing.T) {
	test{graphs: 120, fewer: 8, graph: func(seed uint64) (*ir.Graph, error) {
		return graphgen.New(seed, graphgen.Options{Large: seed%8 < 6})
	}, differ: differInPrecision}.run(t)
}

// differInPrecision compares a graph in the precision of a seed with the reference, which never rounds.
func differInPrecision(dev *vkc.Device, g *ir.Graph, seed uint64) (ran int, err error) {
	ctx := context.Background()
	precision := vkc.Precisions()[seed%uint64(len(vkc.Precisions()))]
	low, err := vkc.WithPrecision(g, precision)
	if err != nil {
		return 0, err
	}
	emulated, err := withRoundedOperands(low)
	if err != nil {
		return 0, err
	}
	values := graphgen.Values{Seed: seed, Graph: g}
	exe, err := dev.LoadGraph(ctx, low, values)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	full, rounded := graphgen.Bounds(g), graphgen.Bounds(low)
	within := boundsHold(low)
	for i, symbols := range values.Symbols(4) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			return ran, err
		}
		// Errors of lower precisions would add up in states from run to run.
		var results [2]map[string]*ir.Data
		for j, of := range []*ir.Graph{low, emulated} {
			p, err := interp.New(of, interp.Options{Weights: values})
			if err != nil {
				return ran, err
			}
			if results[j], err = p.Run(ctx, in, symbols); err != nil {
				if refusesRun(err) {
					break
				}
				return ran, err
			}
		}
		if results[1] == nil {
			continue
		}
		if err := exe.ResetStates(); err != nil {
			return ran, err
		}
		r, err := exe.Run(ctx, in, runtime.RunOptions{Symbols: symbols})
		if err != nil {
			return ran, err
		}
		for k, o := range low.Outputs() {
			have, want := r.Outputs[o.Name], results[0][o.Name]
			plain := full[g.Outputs()[k].Node.ID()].Tolerance(o.Node).Abs
			err := nearRounded(have, want, results[1][o.Name], plain, roundedShare)
			if b := rounded[o.Node.ID()]; err == nil && within && !b.Bad {
				err = interp.Compare(have, want, b.Tolerance(o.Node)).Err()
			}
			if err != nil {
				return ran, fmt.Errorf("%s, run %d with %v: output %q, %w", precision, i, symbols, o.Name, err)
			}
		}
		ran++
	}
	return ran, nil
}

// allowsRounding reports whether an op may round.
func allowsRounding(n *ir.Node) bool {
	p := n.Attrs().String_("precision")
	return p != "" && p != ir.PrecisionFull
}

// boundsHold reports whether the bounds of package graphgen hold for a graph. The ones of loops do not if a loop may
// round: they assume that the carried values stay as exact as the generator saw to.
func boundsHold(g *ir.Graph) bool {
	return !slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool {
		return n.Op() == ir.OpLoop && roundsWithin(n.Attrs().Graph("body"))
	})
}

// roundsWithin reports whether an op of a graph or of its bodies may round.
func roundsWithin(g *ir.Graph) bool {
	return slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool {
		return allowsRounding(n) || slices.ContainsFunc(n.Bodies(), roundsWithin)
	})
}

// withRoundedOperands returns a graph that rounds the float operands of each op with a lower precision, so that the
// reference shows how much rounding changes a result. Operands become f16, or blocks of int8 before quantized weights.
func withRoundedOperands(g *ir.Graph) (*ir.Graph, error) {
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		if !allowsRounding(n) || n.Attrs().String_("precision") == ir.PrecisionBF16x3 {
			return rw.Copy(n, args)
		}
		args = slices.Clone(args)
		for i, a := range args {
			if t := a.DType(); t != ir.F32 && t != ir.BF16 {
				continue
			}
			to, from := []any{ir.OpCast, ir.F16}, ir.OpCast
			bytes := n.Attrs().String_("precision") == ir.PrecisionBytes && i == 0 && len(args) > 1 &&
				args[1].DType().IsBlock()
			if bytes {
				to, from = []any{ir.OpQuantize, ir.Q8_0}, ir.OpDequantize
			}
			small, err := rw.New.Add(to[0].(ir.Op), []*ir.Node{a}, []ir.Attr{{Name: "dtype", Value: to[1]}}, "")
			if err != nil {
				return nil, err
			}
			args[i], err = rw.New.Add(from, []*ir.Node{small}, []ir.Attr{{Name: "dtype", Value: a.DType()}}, "")
			if err != nil {
				return nil, err
			}
		}
		return rw.Copy(n, args)
	})
}

// Limits of nearRounded. Errors vary from element to element, and sums in f16 round more often than emulated has it.
const (
	roundedFactor = 32
	roundedShare  = 0x1p-6 // of the root mean square of the correct values, if floats are rounded to f16 or int8
	worstElement  = 24     // over the root mean square of all errors, at most
)

// nearRounded compares floats that may be rounded with correct ones. emulated has the results for operands that are
// rounded, and so shows how far apart results can be. Elements at wrong places are much further away: errors are
// compared by their root mean square and by the worst. plain is the absolute error without rounding, and share the part
// of the root mean square of the correct values by which errors may be off in any case.
func nearRounded(have, want, emulated *ir.Data, plain, share float64) error {
	if !want.DType.IsFloat() || !slices.Equal(have.Dims, want.Dims) || have.DType != want.DType {
		return interp.Compare(have, want, ir.Tolerance{}).Err()
	}
	var lists [3][]float64
	for i, d := range []*ir.Data{have, want, emulated} {
		var err error
		if lists[i], err = d.Floats(); err != nil {
			return err
		}
	}
	var size, expected, off, worst float64
	count, at := 0, 0
	for i, w := range lists[1] {
		h, e := lists[0][i], lists[2][i]
		if math.IsNaN(w) || math.IsInf(w, 0) || math.IsNaN(e) || math.IsInf(e, 0) {
			continue
		}
		if math.IsNaN(h) || math.IsInf(h, 0) {
			return fmt.Errorf("element %d is %v, want %v", i, h, w)
		}
		count++
		size += float64(w * w)
		expected += float64((e - w) * (e - w))
		off += float64((h - w) * (h - w))
		if x := math.Abs(h - w); x > worst {
			worst, at = x, i
		}
	}
	if count < 16 { // too few to mean anything
		return nil
	}
	n := float64(count)
	epsilon := math.Ldexp(1, -want.DType.Float().Mantissa)
	limit := roundedFactor*math.Sqrt(expected/n) + (share+4*epsilon)*math.Sqrt(size/n) + plain
	if rms := math.Sqrt(off / n); rms > limit || worst > worstElement*limit {
		return fmt.Errorf("the root mean square of the errors is %.3g, and the worst, of element %d, is %.3g: "+
			"have %v, want %v; rounding explains %.3g", rms, at, worst, lists[0][at], lists[1][at], limit)
	}
	return nil
}

// TestNearRounded: nearRounded accepts values rounded to f16, and finds one wrong element, two rows that are
// exchanged, a row of zeros, and a NaN.
func TestNearRounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const rows, cols = 8, 32
	want, emulated := make([]float64, rows*cols), make([]float64, rows*cols)
	for i := range want {
		want[i] = rng.NormFloat64()
		emulated[i] = want[i] + 0x1p-12*rng.NormFloat64()
	}
	data := func(list []float64) *ir.Data {
		d, err := ir.FromFloats(ir.F32, list, rows, cols)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, change := range map[string]func(list []float64){
		"":                func(list []float64) {},
		"a wrong element": func(list []float64) { list[70] = -list[70] - 1 },
		"rows exchanged":  func(list []float64) { copy(list[32:64], want[64:96]); copy(list[64:96], want[32:64]) },
		"a row of zeros":  func(list []float64) { clear(list[96:128]) },
		"a NaN":           func(list []float64) { list[255] = math.NaN() },
		"an infinite":     func(list []float64) { list[0] = math.Inf(1) },
		"a bias of 10%": func(list []float64) {
			for i := range list {
				list[i] += 0.1
			}
		},
	} {
		list := slices.Clone(emulated)
		for i := range list {
			list[i] += 0x1p-12 * rng.NormFloat64()
		}
		change(list)
		err := nearRounded(data(list), data(want), data(emulated), 1e-6, roundedShare)
		if (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
