package ir

import "slices"

// narrowTypes maps the dtypes of 64 bits to the ones of 32 that Narrow computes in.
var narrowTypes = map[DType]DType{F64: F32, I64: I32}

// Narrow returns the graph with f64 computed in f32, and i64 in i32. Inputs, weights, states and outputs keep their
// dtypes. An op that needs 64 bits keeps them, such as one with a constant past the range of i32. Results differ by the
// rounding of f32, and integers wrap at 32 bits.
func Narrow(g *Graph) (*Graph, error) {
	narrow := map[*Node]*Node{} // by node of g, its value in 32 bits in the new graph
	return Rewrite(g, func(rw *Rewriter, n *Node, wide []*Node) (*Node, error) {
		to, is64 := narrowTypes[n.DType()]
		args := slices.Clone(wide)
		for i, a := range n.Args() {
			if v := narrow[a]; v != nil {
				args[i] = v
			}
		}
		cast := func(x *Node, t DType) (*Node, error) {
			return rw.New.Add(OpCast, []*Node{x}, []Attr{{Name: "dtype", Value: t}}, n.Pos())
		}
		if attrs, ok := narrowAttrs(n); ok { // does the op take 32 bits?
			m, err := rw.New.Add(n.Op(), args, attrs, n.Pos())
			if err == nil && m.Type().Equal(n.Type()) {
				return m, nil
			}
			if err == nil && is64 && m.Type().Equal(Type{to, n.Shape()}) {
				narrow[n] = m
				return cast(m, n.DType())
			}
		}
		m, err := rw.Copy(n, wide) // it keeps 64 bits, but its users may read it in 32
		if err == nil && is64 && !constantPast(n, to) {
			narrow[n], err = cast(m, to)
		}
		return m, err
	})
}

// narrowAttrs returns the attributes of an op in 32 bits. ok is false for an op that keeps its dtypes: leaves that are
// part of the program's interface, ops on bits, and ops with bodies.
func narrowAttrs(n *Node) (attrs []Attr, ok bool) {
	switch n.Op() {
	case OpInput, OpWeight, OpState, OpBitcast, OpResult:
		return nil, false
	}
	for _, a := range n.Attrs() {
		switch v := a.Value.(type) {
		case DType:
			if t, is64 := narrowTypes[v]; is64 {
				a.Value = t
			}
		case *Graph:
			return nil, false
		case *Data:
			t, is64 := narrowTypes[v.DType]
			if !is64 {
				break // the constant stays as it is
			}
			if constantPast(n, t) {
				return nil, false
			}
			d, err := narrowData(v, t)
			if err != nil {
				return nil, false
			}
			a.Value = d
		}
		attrs = append(attrs, a)
	}
	return attrs, true
}

// narrowData converts a constant to a dtype of 32 bits.
func narrowData(d *Data, t DType) (*Data, error) {
	if d.DType.IsFloat() {
		values, err := d.Floats()
		if err != nil {
			return nil, err
		}
		return FromFloats(t, values, d.Dims...)
	}
	values, err := d.Ints()
	if err != nil {
		return nil, err
	}
	return FromInts(t, values, d.Dims...)
}

// constantPast reports whether a node is a constant of integers that a dtype does not hold.
func constantPast(n *Node, t DType) bool {
	if n.Op() != OpConst || !t.IsInteger() {
		return false
	}
	values, err := n.Attrs().Data("data").Ints()
	return err != nil || slices.ContainsFunc(values, func(v int64) bool { return int64(int32(v)) != v })
}

// Wide counts the ops that compute in each dtype of 64 bits, and the bytes of their results, with every symbol at its
// bound. all is the bytes of the results of all ops. Leaves and views do not count.
func Wide(g *Graph) (ops map[DType]int, bytes map[DType]int64, all int64) {
	ops, bytes = map[DType]int{}, map[DType]int64{}
	live := g.Live()
	for _, n := range g.nodes {
		if c := n.op.Class(); !live[n.id] || c == ClassLeaf || c == ClassView {
			continue
		}
		size, err := n.typ.MaxBytes()
		if err != nil {
			continue
		}
		all += size
		if _, is64 := narrowTypes[n.DType()]; is64 && n.op != OpCast {
			ops[n.DType()]++
			bytes[n.DType()] += size
		}
	}
	return ops, bytes, all
}
