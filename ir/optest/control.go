package optest

import "github.com/vkc-go/vkc/ir"

// control adds cases of branches and loops. Their bodies only move elements, so that results are exact.
func (s *suite) control() {
	branches := func(taken bool) buildFunc {
		return func(b *builder, t ir.DType) *ir.Node { return b.branches(t, taken) }
	}
	result := func(index int, of buildFunc) buildFunc {
		return func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpResult, []*ir.Node{of(b, t)}, attr("index", index))
		}
	}
	s.add(ir.OpIf, "then", branches(true)).allDTypes().inSmokeTest()
	s.add(ir.OpIf, "else", branches(false)).inSmokeTest()
	s.add(ir.OpResult, "then", result(1, branches(true))).inSmokeTest()
	s.add(ir.OpResult, "else", result(1, branches(false)))
	s.add(ir.OpResult, "loop", result(2, func(b *builder, t ir.DType) *ir.Node { return b.loop(t, 50, true) }))
	for _, c := range []struct {
		name  string
		trips int
		while bool
	}{{"trips", 3, false}, {"no trips", 0, false}, {"condition", 50, true}} {
		loop := s.add(ir.OpLoop, c.name, func(b *builder, t ir.DType) *ir.Node { return b.loop(t, c.trips, c.while) })
		loop.inSmokeTest().broad = !c.while && c.trips > 0
	}
}

// body returns a builder for the body of a control op, and the body's leaves: op (input or state) of the given types.
func (b *builder) body(op ir.Op, types ...ir.Type) (*builder, []*ir.Node) {
	in := newBuilder(ir.NewBody(""), "", "")
	in.err = b.err
	list := make([]*ir.Node, len(types))
	for i, t := range types {
		list[i] = in.op(op, nil, attr("name", string(rune('a'+i))), attr("dtype", t.DType), attr("shape", t.Shape))
	}
	return in, list
}

// branches adds an if of two values, with the constant condition taken. The then branch returns the values in order,
// the else branch swapped. Both flip the first value that they return.
func (b *builder) branches(t ir.DType, taken bool) *ir.Node {
	x, y := b.leaf(ir.OpInput, t, []int{5}, small, 0), b.leaf(ir.OpInput, t, []int{5}, small, 0)
	condition := b.constant(ir.Bool, 1)
	if !taken {
		condition = b.op(ir.OpNot, []*ir.Node{condition})
	}
	if b.err != nil {
		return nil
	}
	var bodies []*ir.Graph
	for i := range 2 {
		in, values := b.body(ir.OpInput, x.Type(), y.Type())
		if in.err != nil {
			b.err = in.err
			return nil
		}
		// The flip moves elements, so the if cannot be replaced by its arguments.
		first := in.view(ir.OpFlip, values[i], attr("axes", []int64{0}))
		b.err = in.err
		if b.err == nil {
			b.err = in.g.Output("first", first)
		}
		if b.err == nil {
			b.err = in.g.Output("second", values[1-i])
		}
		bodies = append(bodies, in.g)
	}
	return b.op(ir.OpIf, []*ir.Node{condition, x, y}, attr("then", bodies[0]), attr("else", bodies[1]))
}

// loop adds a loop that copies a vector into a second one, an element per trip. The second vector is the loop's first
// result, or its last one if the loop has a condition (while).
func (b *builder) loop(t ir.DType, trips int, while bool) *ir.Node {
	x, y := b.leaf(ir.OpInput, t, []int{5}, small, 0), b.leaf(ir.OpInput, t, []int{5}, small, 0)
	first := []*ir.Node{x, b.constant(ir.I32, 0), b.constant(ir.Bool, 1)}
	// indices of the carried values: the vector, the trip's number, and the condition
	vector, number, goes := 0, 1, 2
	// A loop with a condition carries it first.
	if while {
		first[0], first[2] = first[2], first[0]
		vector, goes = goes, vector
	}
	if b.err != nil {
		return nil
	}
	in, states := b.body(ir.OpState, first[0].Type(), first[1].Type(), first[2].Type())
	from := in.op(ir.OpInput, nil, attr("name", "from"), attr("dtype", t), attr("shape", ir.ShapeOf(5)))
	at := in.op(ir.OpIota, nil, attr("dtype", ir.I32), attr("shape", ir.ShapeOf(5)), attr("axis", 0))
	values := make([]*ir.Node, 3)
	// Copy the element whose coordinate is the trip's number.
	values[vector] = in.op(ir.OpWhere, []*ir.Node{in.op(ir.OpEq, []*ir.Node{at, states[number]}), from, states[vector]})
	values[number] = in.op(ir.OpAdd, []*ir.Node{states[number], in.constant(ir.I32, 1)})
	// The condition ends the loop after four trips.
	values[goes] = in.op(ir.OpLt, []*ir.Node{values[number], in.constant(ir.I32, 4)})
	for i, value := range values {
		if in.err == nil {
			in.err = in.g.Update(states[i], value)
		}
	}
	b.err = in.err
	if b.err != nil {
		return nil
	}
	return b.op(ir.OpLoop, append(first, y), attr("trips", ir.ShapeOf(trips)), attr("while", while),
		attr("body", in.g))
}

// constant adds a scalar.
func (b *builder) constant(t ir.DType, v float64) *ir.Node {
	d, err := ir.FromFloats(t, []float64{v})
	if err != nil {
		b.err = err
		return nil
	}
	d.Dims = nil
	return b.op(ir.OpConst, nil, attr("data", d))
}
