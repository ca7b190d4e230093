package optest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// batch is a graph with several cases, one output each, so that they are compiled and loaded together.
type batch struct {
	cases   []Case
	g       *ir.Graph // output y0 is the result of the first case, y1 of the second, …
	inputs  map[string]*ir.Data
	weights weights
	runs    int // consecutive runs to compare: more than 1 if a case has a state
}

// weights are tensors by name.
type weights map[string]*ir.Data

// Weight implements ir.WeightSource.
func (w weights) Weight(name string) (*ir.Data, error) {
	if d, ok := w[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("there is no weight %q", name)
}

func outputName(i int) string { return fmt.Sprintf("y%d", i) }

// newBatch builds the graph of some cases. An error means that a case is wrong, not the backend.
func newBatch(cases []Case) (*batch, error) {
	x := &batch{cases: cases, g: ir.NewGraph(cases[0].Op.String()), inputs: map[string]*ir.Data{},
		weights: weights{}, runs: 1}
	for i, c := range cases {
		b := newBuilder(x.g, fmt.Sprintf("c%d", i), c.Name)
		n := c.build(b, c.DType)
		if b.err == nil {
			b.err = x.g.Output(outputName(i), n)
		}
		if b.err != nil {
			return nil, fmt.Errorf("optest: case %s: %w", c.Name, b.err)
		}
		maps.Copy(x.inputs, b.inputs)
		maps.Copy(x.weights, b.weights)
	}
	if len(x.g.Updates()) > 0 {
		x.runs = 2 // the second run sees the states of the first
	}
	return x, nil
}

// outputs are the outputs of each run of a batch, by name.
type outputs []map[string]*ir.Data

// execute loads the batch on a backend and runs it.
func (x *batch) execute(ctx context.Context, backend Backend) (out outputs, err error) {
	exe, err := backend(ctx, x.g, x.weights)
	if err != nil {
		return nil, err
	}
	// An error of Close counts only if there is no other.
	defer func() {
		if closing := exe.Close(); err == nil {
			err = closing
		}
	}()
	for range x.runs {
		res, err := exe.Run(ctx, x.inputs)
		if err != nil {
			return nil, err
		}
		out = append(out, res.Outputs)
	}
	return out, nil
}

// reference computes the batch with the reference interpreter. A device may flush denormals to zero, so there are two
// acceptable results. want is computed from the arguments themselves. flushed is computed from arguments with denormals
// replaced by zeros. In a batch with exact cases, elementwise ops then also flush denormal results. flushed is nil if
// it would equal want.
func (x *batch) reference(ctx context.Context) (want, flushed outputs, err error) {
	if want, err = x.interpret(ctx, x.g, x.inputs, x.weights); err != nil {
		return nil, nil, err
	}
	inputs, inputsChanged, err := flushAll(x.inputs)
	if err != nil {
		return nil, nil, err
	}
	weights, weightsChanged, err := flushAll(x.weights)
	if err != nil {
		return nil, nil, err
	}
	// An exact case has no tolerance, so its results may differ by flushing too.
	hasExact := slices.ContainsFunc(x.cases, func(c Case) bool { return c.Exact })
	if !inputsChanged && !weightsChanged && !hasExact {
		return want, nil, nil
	}
	g := x.g
	if hasExact {
		if g, err = flushResults(g); err != nil {
			return nil, nil, err
		}
	}
	flushed, err = x.interpret(ctx, g, inputs, weights)
	return want, flushed, err
}

// flushResults returns the graph with denormal results of elementwise float ops replaced by zeros: a result y becomes
// where(abs(y) < the smallest normal number, y*0, y), so that zeros keep their signs. Scalars stay unchanged.
func flushResults(g *ir.Graph) (*ir.Graph, error) {
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		y, err := rw.Copy(n, args)
		isFloatOp := n.Op().Class() == ir.ClassElementwise && n.DType().IsFloat() && !n.DType().StorageOnly()
		if err != nil || !isFloatOp || n.Rank() == 0 { // concatenation would make a scalar a vector
			return y, err
		}
		add := func(op ir.Op, args []*ir.Node, attrs ...ir.Attr) (z *ir.Node) {
			if err == nil {
				z, err = rw.New.Add(op, args, attrs, "")
			}
			return z
		}
		number := func(v float64) *ir.Node {
			d, failed := ir.FromFloats(n.DType(), []float64{v}, 1)
			if failed != nil && err == nil {
				err = failed
			}
			return add(ir.OpConst, nil, attr("data", d))
		}
		tiny := add(ir.OpLt, []*ir.Node{add(ir.OpAbs, []*ir.Node{y}), number(smallestNormal(n.DType()))})
		z := add(ir.OpWhere, []*ir.Node{tiny, add(ir.OpMul, []*ir.Node{y, number(0)}), y})
		return z, err
	})
}

// interpret runs a graph of the batch with the reference interpreter, as often as the batch says.
func (x *batch) interpret(ctx context.Context, g *ir.Graph, in map[string]*ir.Data, w weights) (outputs, error) {
	var out outputs
	p, err := interp.New(g, interp.Options{Weights: w})
	if err != nil {
		return nil, err
	}
	for range x.runs {
		res, err := p.Run(ctx, in, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, res)
	}
	return out, nil
}

// flushAll returns the tensors with denormals replaced by zeros, and whether there were any.
func flushAll(in map[string]*ir.Data) (map[string]*ir.Data, bool, error) {
	out, changed := maps.Clone(in), false
	for name, d := range in {
		f, err := flush(d)
		if err != nil {
			return nil, false, err
		}
		if f != nil {
			out[name], changed = f, true
		}
	}
	return out, changed, nil
}

// compare compares case i of a batch that ran with the reference; see reference for want and flushed.
func (x *batch) compare(i int, have, want, flushed outputs, tol ir.Tolerance) Result {
	name := outputName(i)
	r := x.result(i, Pass, "")
	for run := range want {
		got, ok := have[run][name]
		if !ok || got == nil {
			return x.result(i, Fail, "the backend returned no result")
		}
		if err := got.Check(); err != nil {
			return x.result(i, Fail, fmt.Sprintf("the result is malformed: %v", err))
		}
		// Elements may be smaller than bytes. Unused bits of the last byte must be 0.
		tidy := &ir.Data{DType: got.DType, Dims: got.Dims, Bytes: slices.Clone(got.Bytes)}
		tidy.ClearUnused()
		if !slices.Equal(tidy.Bytes, got.Bytes) {
			return x.result(i, Fail, "the result has bits after its last element")
		}
		near := want[run][name]
		if flushed != nil {
			near = nearest(got, near, flushed[run][name])
		}
		r.add(interp.Compare(got, near, tol))
	}
	return r
}

// add adds the comparison of one run to the result.
func (r *Result) add(c interp.Report) {
	r.Elems += c.Elems
	if err := c.Err(); err != nil && r.Outcome == Pass {
		r.Outcome, r.Reason = Fail, err.Error()
	}
	r.WorstAbs = max(r.WorstAbs, Number(c.WorstAbs))
	r.Worst = max(r.Worst, Number(share(c)))
}

// share returns the worst error as a fraction of the tolerance.
func share(c interp.Report) float64 {
	off := distance(c.Got, c.Want)
	switch {
	case off == 0:
		return 0
	case c.Allowed == 0 || math.IsInf(off, 1):
		return math.Inf(1)
	}
	return off / c.Allowed
}

// nearest returns, for each element, the value of a or b that is nearer to got. A denormal in got matches a zero: a
// device may compare a denormal as zero and still return it unchanged, as x86's minps does.
func nearest(got, a, b *ir.Data) *ir.Data {
	if a.DType != got.DType || a.Elems() != got.Elems() || got.Elems() == 0 {
		return a
	}
	size := len(a.Bytes) / a.Elems() // bytes of an element
	g, errG := got.Floats()
	x, errX := a.Floats()
	y, errY := b.Floats()
	if errG != nil || errX != nil || errY != nil {
		return a // interp.Compare reports the error
	}
	tiny := 0.0
	if a.DType.IsFloat() {
		tiny = smallestNormal(a.DType)
	}
	out := &ir.Data{DType: a.DType, Dims: a.Dims, Bytes: append([]byte(nil), a.Bytes...)}
	for i := range g {
		from := a
		switch {
		case math.Abs(g[i]) < tiny && (x[i] == 0 || y[i] == 0):
			from = got
		case distance(g[i], y[i]) < distance(g[i], x[i]):
			from = b
		}
		copy(out.Bytes[i*size:(i+1)*size], from.Bytes[i*size:(i+1)*size])
	}
	return out
}

// distance returns |a-b|: 0 for equal infinities and for two NaNs, +Inf for other pairs with an infinity or NaN.
func distance(a, b float64) float64 {
	switch d := math.Abs(a - b); {
	case a == b || a != a && b != b:
		return 0
	case d != d:
		return math.Inf(1)
	default:
		return d
	}
}

// Build returns the graph of a case in another dtype, with the op's result as the only output, and values for its
// inputs and weights. ok reports whether the op supports that dtype.
func (c Case) Build(t ir.DType) (g *ir.Graph, values map[string]*ir.Data, ok bool) {
	b := newBuilder(ir.NewGraph(c.Op.String()), "c", c.Name)
	n := c.build(b, t)
	if b.err == nil {
		b.err = b.g.Output(outputName(0), n)
	}
	maps.Copy(b.inputs, b.weights)
	return b.g, b.inputs, b.err == nil
}
