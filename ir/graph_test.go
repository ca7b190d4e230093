package ir

import (
	"errors"
	"strings"
	"testing"
)

func TestAddErrors(t *testing.T) {
	b := &builder{t: t, g: NewGraph("g")}
	x := b.leaf(OpInput, "x", ShapeOf(2, 3))
	foreign := (&builder{t: t, g: NewGraph("other")}).leaf(OpInput, "x", ShapeOf(2, 3))
	for _, c := range []struct {
		op    Op
		args  []*Node
		attrs []Attr
		want  string
	}{
		{0, nil, nil, "op(0)(): no such op"},
		{^Op(0), nil, nil, "no such op"},
		{OpRelu, []*Node{nil}, nil, "relu(): argument 0 is not a node of this graph"},
		{OpAdd, []*Node{x, foreign}, nil, "add(f32[2,3], f32[2,3]): argument 1 is not a node of this graph"},
		{OpElu, []*Node{x}, []Attr{{"alpha", "1"}}, `elu(f32[2,3]): attribute "alpha": want float, have string`},
		{OpElu, []*Node{x}, []Attr{{"alpha", nan()}}, `elu(f32[2,3]): attribute "alpha": NaN is not a usable value`},
		{OpElu, []*Node{x}, []Attr{{"alpha", 1.0}, {"alpha", 2.0}}, `elu(f32[2,3]): attribute "alpha" is given twice`},
		{OpElu, []*Node{x}, []Attr{{"beta", 1.0}}, `elu(f32[2,3]): unknown attribute "beta": elu has alpha`},
		{OpSoftmax, []*Node{x}, []Attr{{"axis", 1.0}}, `softmax(f32[2,3]): attribute "axis": want int, have float64`},
		{OpCast, []*Node{x}, []Attr{{"dtype", Invalid}}, `cast(f32[2,3]): attribute "dtype": invalid dtype`},
		{OpConst, nil, []Attr{{"data", (*Data)(nil)}}, `const(): attribute "data": want data, have nil`},
		{OpConst, nil, []Attr{{"data", &Data{F32, []int{2}, nil}}}, `const(): attribute "data": f32[2] needs 8 bytes, have 0`},
		{OpConst, nil, []Attr{{"data", &Data{Bool, []int{1}, []byte{2}}}}, `const(): attribute "data": element 0 of bool[1] is byte 2: want 0 or 1 for a bool`},
		{OpInput, nil, []Attr{{"name", "\xff"}, {"dtype", F32}, {"shape", Shape{}}}, `input(): attribute "name": "\xff" is not UTF-8, so graph.json could not hold it`},
		{OpReshape, []*Node{x}, []Attr{{"shape", ShapeOf(-1)}}, `reshape(f32[2,3]): attribute "shape": dim -1 is negative`},
		{OpReshape, []*Node{x}, []Attr{{"shape", Shape{{Sym: "T", Bound: -1, Mul: 1}}}}, "out of range"},
		{OpReshape, []*Node{x}, []Attr{{"shape", Shape{{Sym: "T", Bound: 1 << 30, Mul: 1 << 30}}}}, "exceeds the limit"},
		{OpInput, nil, []Attr{{"name", "s"}, {"dtype", F32}, {"shape", Shape{Symbol("a b", 4)}}}, `input(): dim "a b": want a number, a symbol, or sums and products of them: 4*T+1, S+T, B*(T+1), floor((T+1)/2)`},
	} {
		n, err := b.g.Add(c.op, c.args, c.attrs, "")
		if err == nil {
			t.Errorf("made %s, want error %s", FormatNode(n), c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("have %s\nwant %s", err, c.want)
		}
	}
	if len(b.g.nodes) != 1 {
		t.Errorf("failed Adds left %d nodes", len(b.g.nodes))
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

func TestOpErrorHasPlace(t *testing.T) {
	_, err := NewGraph("g").Add(OpRelu, nil, nil, "model.go:7")
	var opErr *OpError
	if !errors.As(err, &opErr) || err.Error() != "model.go:7: relu(): takes 1 argument, have 0" {
		t.Errorf("have %v", err)
	}
}

func TestSymbolBoundsMustAgree(t *testing.T) {
	b := &builder{t: t, g: NewGraph("g")}
	b.leaf(OpInput, "x", Shape{Symbol("T", 4)})
	_, err := b.g.Add(OpInput, nil, []Attr{{"name", "y"}, {"dtype", F32}, {"shape", Shape{Symbol("T", 5)}}}, "")
	if err == nil || err.Error() != "input(): symbol T has bound 5 here and 4 elsewhere" {
		t.Errorf("have %v", err)
	}
	if _, ok := b.g.Named("y"); ok {
		t.Error("the failed node has taken its name")
	}
}

func TestOutputAndUpdateErrors(t *testing.T) {
	b := &builder{t: t, g: NewGraph("g")}
	x := b.leaf(OpInput, "x", ShapeOf(2))
	s := b.leaf(OpState, "s", ShapeOf(2))
	wide := b.leaf(OpState, "wide", ShapeOf(3))
	q := b.add(OpWeight, nil, Attr{"name", "q"}, Attr{"dtype", Q4_0}, Attr{"shape", ShapeOf(32)})
	foreign := (&builder{t: t, g: NewGraph("other")}).leaf(OpState, "s", ShapeOf(2))
	for _, err := range []error{b.g.Output("y", x), b.g.Update(s, x)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{b.g.Output("y", s), `output "y" is declared twice`},
		{b.g.Output("", s), `an output needs a name`},
		{b.g.Output("\xff", s), `output name "\xff" is not UTF-8, so graph.json could not hold it`},
		{b.g.Output("z", nil), `output "z" is not a node of this graph`},
		{b.g.Output("z", foreign), `output "z" is not a node of this graph`},
		{b.g.Output("z", q), `output "z" is q4_0[32]: dequantize it first`},
		{b.g.Update(s, x), `state "s" is updated twice`},
		{b.g.Update(x, x), `update of %0, which is input: only states can be updated`},
		{b.g.Update(wide, x), `update of state "wide": the state is f32[3], and the value is f32[2]: want equal types`},
		{b.g.Update(foreign, x), `update: the node is not of this graph`},
		{b.g.Update(s, nil), `update: the node is not of this graph`},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("have %v\nwant %s", c.err, c.want)
		}
	}
}

// TestVerify damages a valid graph in every way that Verify looks for.
func TestVerify(t *testing.T) {
	for _, c := range []struct {
		damage func(g *Graph)
		want   string
	}{
		{func(*Graph) {}, ""},
		{func(g *Graph) { g.nodes[1].id = 0 }, "node %1 (relu): belongs elsewhere"},
		{func(g *Graph) { g.nodes[1].graph = NewGraph("") }, "node %1 (relu): belongs elsewhere"},
		{func(g *Graph) { g.nodes[1].args[0] = g.nodes[1] }, "node %1 (relu): argument %1 does not come before it"},
		{func(g *Graph) { g.nodes[1].typ.Shape = ShapeOf(3) }, "node %1 (relu): it has type f32[3], but its rule gives f32[2]"},
		{func(g *Graph) { g.nodes[1].op = OpNot }, `node %1 (not): input "x" is f32 (float), want [int uint bool]`},
		{func(g *Graph) { g.outputs = nil }, `graph "g" has no outputs and no state updates, so it computes nothing`},
	} {
		b := &builder{t: t, g: NewGraph("g")}
		x := b.leaf(OpInput, "x", ShapeOf(2))
		if err := b.g.Output("y", b.add(OpRelu, []*Node{x})); err != nil {
			t.Fatal(err)
		}
		c.damage(b.g)
		got := ""
		if err := b.g.Verify(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("have %q\nwant %q", got, c.want)
		}
	}
}

// TestRewriteCopies: rewriting every node to itself drops dead nodes only.
func TestRewriteCopies(t *testing.T) {
	g, err := Parse(edit(t, hashBase, "  %5 =",
		"  %dead = exp %4\n  %z = input {name=\"z\", dtype=f32, shape=[]}\n  %5 ="))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Rewrite(g, func(rw *Rewriter, n *Node, args []*Node) (*Node, error) { return rw.Copy(n, args) })
	if err != nil {
		t.Fatal(err)
	}
	if h.Hash() != g.Hash() || len(h.Nodes()) != len(g.Nodes())-1 || h.Verify() != nil {
		t.Errorf("rewritten to\n%s", h)
	}
}

// TestExpansion: broadcasting that makes a tensor much larger than its operands is found, and others are not.
func TestExpansion(t *testing.T) {
	for _, c := range []struct{ nodes, want string }{
		{`%a = unsqueeze %x {axes=[0]} %b = unsqueeze %x {axes=[1]} %y = sub %a, %b`, "sub broadcasts to f32[2000,2000,3], 2000 times the size of its operands: a matmul"},
		{`%a = broadcast %x {shape=[2000,2000,3]} %y = neg %a`, "neg broadcasts to"},
		// A mask.
		{`%a = unsqueeze %x {axes=[0]} %b = unsqueeze %x {axes=[1]} %y = lt %a, %b`, ""},
		// Of no input.
		{`%a = iota {shape=[4096,1], dtype=f32} %b = iota {shape=[4096], dtype=f32} %y = sub %a, %b`, ""},
		// As large.
		{`%a = iota {shape=[2000,2000,3], dtype=f32} %y = add %a, %x`, ""},
		// By no broadcast.
		{`%a = matmul %x, %x {transpose_b=true} %y = neg %a`, ""},
		// Few elements.
		{`%a = slice %x {starts=[0,0], limits=[900,3]} %b = unsqueeze %a {axes=[1]} %y = sub %a, %b`, ""},
		// Dead.
		{`%a = unsqueeze %x {axes=[0]} %b = unsqueeze %x {axes=[1]} %c = sub %a, %b %y = slice %x {starts=[0,0], limits=[1,1]}`, ""},
	} {
		const x = `%x = input {name="x", dtype=f32, shape=[2000,3]} `
		g, err := Parse(`graph "g" { ` + x + c.nodes + ` output "y" %y }`)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Expansion(); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.nodes, got, c.want)
		}
	}
}
