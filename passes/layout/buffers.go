package layout

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
	"github.com/vkc-go/vkc/passes/plan"
	"github.com/vkc-go/vkc/quant"
)

// add adds a buffer for a value of type t and returns its index. segments are its initial contents.
func (pl *planner) add(kind kernel.BufferKind, name string, t ir.Type, segments ...kernel.Segment) int {
	n, err := t.MaxBytes()
	bailout.Check(err)
	pl.p.Buffers = append(pl.p.Buffers, kernel.Buffer{Kind: kind, Name: name, DType: t.DType, Shape: t.Shape,
		Bytes: max(ceil.Multiple(n, 16), 16), Segments: segments})
	return len(pl.p.Buffers) - 1
}

// makeInterface makes the buffers and ports of the graph's inputs, outputs and states.
func (sc *scope) makeInterface() {
	g := sc.g.Ops
	port := func(kind kernel.BufferKind, name string, n *ir.Node) kernel.Port {
		if _, ok := sc.buffers[n.ID()]; !ok { // an input may also be an output
			sc.buffers[n.ID()] = sc.add(kind, name, n.Type())
		}
		return kernel.Port{Name: name, Buffer: sc.buffers[n.ID()], DType: n.DType(), Shape: n.Shape()}
	}
	for _, n := range g.Leaves(ir.OpInput) {
		sc.p.Inputs = append(sc.p.Inputs, port(kernel.BufInput, n.Name(), n))
	}
	for _, n := range g.Leaves(ir.OpState) {
		p := port(kernel.BufState, n.Name(), n)
		p.Init = ir.InitialOf(n).String()
		sc.p.States = append(sc.p.States, p)
	}
	for _, o := range g.Outputs() {
		sc.p.Outputs = append(sc.p.Outputs, port(kernel.BufOutput, o.Name, o.Node))
	}
}

// buffer returns the index of a value's buffer, and makes the buffer at the first call.
func (sc *scope) buffer(id plan.ValueID) int {
	if i, ok := sc.buffers[id]; ok {
		return i
	}
	if outer, ok := sc.leaves[id]; ok {
		return sc.outer.buffer(outer)
	}
	v := sc.g.Value(id)
	kind, name, t, segments := sc.describe(v)
	if kind == kernel.BufTemp && sc.isPrepared(id) {
		kind = kernel.BufPrepared
	}
	shared := ""
	if len(segments) > 0 && segments[0].Weight != "" { // loops and the code around them may read the same weight
		shared = fmt.Sprintf("%+v %s %s", segments, t, v.Layout)
		if i, ok := sc.weights[shared]; ok {
			sc.buffers[id] = i
			return i
		}
	}
	i := sc.add(kind, name, t, segments...)
	sc.buffers[id] = i
	if v.Layout != kernel.LayoutBlocks {
		var err error
		b := &sc.p.Buffers[i]
		b.Layout = v.Layout
		b.Bytes, err = b.Layout.Bytes(b.DType, b.Shape.MaxElems())
		bailout.Check(err)
	}
	if shared != "" {
		sc.weights[shared] = i
	}
	return i
}

// describe returns the kind, name, type and initial contents of a value's buffer. The name is for people.
func (sc *scope) describe(v *plan.Value) (kind kernel.BufferKind, name string, t ir.Type, segments []kernel.Segment) {
	t = v.Type
	switch {
	case v.Origin == plan.Params:
		t.Shape = ir.ShapeOf(len(sc.p.Symbols))
		return kernel.BufParams, "params", t, nil
	case v.Origin == plan.Fault:
		return kernel.BufFault, fmt.Sprintf("fault of %s", v.Node), t, nil
	case v.Origin == plan.Codebook:
		d := quant.Codebook(t.DType)
		return kernel.BufWeight, t.DType.String() + " codebook", ir.Type{DType: d.DType, Shape: ir.ShapeOf(d.Dims...)},
			[]kernel.Segment{{DType: d.DType, Dims: d.Dims, Data: d.Bytes}}
	case v.Origin == plan.Const || v.Origin == plan.Weight:
		segments = weightSegments(v.Node)
		name = segments[0].Weight
		if len(segments) > 1 {
			name = fmt.Sprintf("%s and %d more", name, len(segments)-1)
		} else if name == "" {
			name = "const " + v.Node.String()
		}
		return kernel.BufWeight, name, t, segments
	case v.Node == nil:
		sc.scratch++
		return kernel.BufTemp, fmt.Sprintf("scratch %d", sc.scratch-1), t, nil
	}
	return kernel.BufTemp, fmt.Sprintf("%s %s", v.Node, v.Node.Op()), t, nil
}

// isPrepared reports whether a kernel computes a value when the program is loaded, and runs read it.
func (sc *scope) isPrepared(id plan.ValueID) bool {
	later := func(k plan.KernelID) bool { return !sc.fixed[k] }
	return sc.ready[id] && slices.ContainsFunc(sc.g.Readers(id), later)
}

// weightSegments returns the contents of a weight's buffer: a constant's data, one weight, or packed weights.
func weightSegments(n *ir.Node) []kernel.Segment {
	if n.Op() == ir.OpConst {
		d := n.Attrs().Data("data")
		return []kernel.Segment{{DType: d.DType, Dims: d.Dims, Data: d.Bytes}}
	}
	parts := []*ir.Node{n}
	if analysis.IsPacked(n) {
		parts = n.Args()
	}
	segments := make([]kernel.Segment, len(parts))
	for i, w := range parts {
		dims, _ := w.Shape().Eval(nil) // weights are static
		segments[i] = kernel.Segment{Weight: w.Name(), DType: w.DType(), Dims: dims}
	}
	return segments
}
