package onnx_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// unsigned is ONNX's number of uint64.
const unsigned = 13

func longs(t *testing.T, values []int64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromInts(ir.I64, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// pairsOfUnsigned returns all pairs of some uint64 with the bits of i64.
func pairsOfUnsigned() (a, b []int64) {
	some := []uint64{0, 1, 2, 7, 1<<53 + 1, 1<<63 - 1, 1 << 63, 1<<63 + 1025, 1<<64 - 3, 1<<64 - 1}
	for _, x := range some {
		for _, y := range some {
			a, b = append(a, int64(x)), append(b, int64(y))
		}
	}
	return a, b
}

// unsignedCase has nodes that compute y from pairs of uint64, and the same in Go.
type unsignedCase struct {
	nodes []part
	want  func(a, b uint64) uint64
}

// unsignedCases returns the cases by name.
func unsignedCases() map[string]unsignedCase {
	truth := func(yes bool) uint64 {
		if yes {
			return 1
		}
		return 0
	}
	compared := func(op string) []part {
		return nodes(node(op, names("a", "b"), names("c")), node("Cast", names("c"), names("y"), intAttr("to", int64s)))
	}
	two := func(op string, attributes ...msg) []part {
		return nodes(node(op, names("a", "b"), names("y"), attributes...))
	}
	list := nodes(node("Unsqueeze", names("a", "one"), names("c")), node("Unsqueeze", names("b", "one"), names("d")),
		node("Concat", names("c", "d"), names("ab"), intAttr("axis", 1)))
	over := func(n msg) []part { return slices.Concat(list, nodes(n)) }
	drop := intAttr("keepdims", 0)
	return map[string]unsignedCase{
		"Add": {two("Add"), func(a, b uint64) uint64 { return a + b }},
		"Sub": {two("Sub"), func(a, b uint64) uint64 { return a - b }},
		"Mul": {two("Mul"), func(a, b uint64) uint64 { return a * b }},
		"Div": {two("Div"), func(a, b uint64) uint64 {
			if b == 0 {
				return 0
			}
			return a / b
		}},
		"Mod": {two("Mod"), func(a, b uint64) uint64 {
			if b == 0 {
				return 0
			}
			return a % b
		}},
		"Max": {two("Max"), func(a, b uint64) uint64 { return max(a, b) }},
		"Min": {two("Min"), func(a, b uint64) uint64 { return min(a, b) }},
		"Clip": {nodes(node("Clip", names("a", "", "large"), names("y"))),
			func(a, _ uint64) uint64 { return min(a, 1<<63) }},
		"Less":           {compared("Less"), func(a, b uint64) uint64 { return truth(a < b) }},
		"GreaterOrEqual": {compared("GreaterOrEqual"), func(a, b uint64) uint64 { return truth(a >= b) }},
		"Equal":          {compared("Equal"), func(a, b uint64) uint64 { return truth(a == b) }},
		"BitwiseXor":     {two("BitwiseXor"), func(a, b uint64) uint64 { return a ^ b }},
		"left": {two("BitShift", textAttr("direction", "LEFT")),
			func(a, b uint64) uint64 { return a << b }},
		"right": {two("BitShift", textAttr("direction", "RIGHT")),
			func(a, b uint64) uint64 { return a >> b }},
		"ReduceMax": {over(node("ReduceMax", names("ab", "one"), names("y"), drop)),
			func(a, b uint64) uint64 { return max(a, b) }},
		"ReduceSum": {over(node("ReduceSum", names("ab", "one"), names("y"), drop)),
			func(a, b uint64) uint64 { return a + b }},
		"ReduceProd": {over(node("ReduceProd", names("ab", "one"), names("y"), drop)),
			func(a, b uint64) uint64 { return a * b }},
		"ReduceMean": {over(node("ReduceMean", names("ab", "one"), names("y"), drop)),
			func(a, b uint64) uint64 { return (a + b) / 2 }},
		"ArgMin": {over(node("ArgMin", names("ab"), names("y"), intAttr("axis", 1), drop)),
			func(a, b uint64) uint64 { return truth(b < a) }},
		"TopK": {append(over(node("TopK", names("ab", "one"), names("t", "i"), intAttr("axis", 1),
			intAttr("largest", 0))),
			nodes(node("Squeeze", names("t", "one"), names("y")))...), func(a, b uint64) uint64 { return min(a, b) }},
		"MatMul": {append(over(node("MatMul", names("ab", "column"), names("m"))),
			nodes(node("Squeeze", names("m", "one"), names("y")))...), func(a, b uint64) uint64 { return a<<63 + 3*b }},
		"Sign": {nodes(node("Sign", names("a"), names("y"))), func(a, _ uint64) uint64 { return truth(a > 0) }},
		"Abs":  {nodes(node("Abs", names("a"), names("y"))), func(a, _ uint64) uint64 { return a }},
		"to float": {nodes(node("Cast", names("a"), names("f"), intAttr("to", float)),
			node("BitCast", names("f"), names("i"),
				intAttr("to", 6)), node("Cast", names("i"), names("y"), intAttr("to", int64s))),
			func(a, _ uint64) uint64 { return uint64(math.Float32bits(float32(a))) }},
		"to double and back": {nodes(node("Cast", names("a"), names("f"), intAttr("to", 11)),
			node("Cast", names("f"), names("y"), intAttr("to", unsigned))), func(a, _ uint64) uint64 {
			if a > math.MaxUint64-1024 {
				return math.MaxUint64 // 2^64 is no uint64
			}
			return uint64(float64(a))
		}},
		"to a byte and like it": {nodes(node("Cast", names("a"), names("c"), intAttr("to", 2)),
			node("CastLike", names("c", "b"), names("d")), node("Max", names("d", "b"), names("y"))),
			func(a, b uint64) uint64 { return max(a&255, b) }},
		"a power of an int32": {nodes(node("Pow", names("three", "b"), names("p")),
			node("Cast", names("p"), names("y"), intAttr("to", int64s))), func(_, b uint64) uint64 {
			power := int32(1)
			for square := int32(3); b > 0; b, square = b/2, square*square {
				if b%2 == 1 {
					power *= square
				}
			}
			return uint64(int64(power))
		}},
		"of negative numbers": {nodes(node("Neg", names("small"), names("n")), node("Cast", names("n"), names("c"),
			intAttr("to", unsigned)), node("Max", names("c", "b"), names("y"))),
			func(_, b uint64) uint64 { return max(1<<64-7, b) }},
		"a branch": {nodes(node("If", names("yes"), names("u"),
			graphAttr("then_branch", graph(nodes(node("Identity", names("a"), names("v"))), outputs("v"))),
			graphAttr("else_branch", graph(nodes(node("Identity", names("b"), names("v"))), outputs("v")))),
			node("Max", names("u", "b"), names("y"))), func(a, b uint64) uint64 { return max(a, b) }},
	}
}

// unsignedPorts and unsignedConstants are for graphs of the cases with n pairs.
func unsignedPorts(n int) []part {
	return inputs(port("a", unsigned, n), port("b", unsigned, n), port("yes", boolean))
}

func unsignedConstants() []part {
	return weights(tensorOf("large", unsigned, nil).bytes(9, append(make([]byte, 7), 0x80)),
		tensorOf("column", unsigned, []int64{2, 1}).
			bytes(9, append(append(make([]byte, 7), 0x80, 3), make([]byte, 7)...)),
		ints("one", []int64{1}, 1), ints("small", []int64{7}),
		tensorOf("three", 6, []int64{1}).bytes(9, []byte{3, 0, 0, 0}))
}

// test compares the results for pairs of numbers with Go's arithmetic.
func (c unsignedCase) test(t *testing.T, name string, y *ir.Data, a, b []int64) {
	t.Helper()
	got, err := y.Ints()
	if err != nil || len(got) != len(a) {
		t.Fatalf("%s: %d numbers, error %v", name, len(got), err)
	}
	for i := range a {
		if want := c.want(uint64(a[i]), uint64(b[i])); uint64(got[i]) != want {
			t.Errorf("%s of %d and %d: %d, want %d", name, uint64(a[i]), uint64(b[i]), uint64(got[i]), want)
			return
		}
	}
}

// TestUnsigned computes with pairs of uint64, some beyond int64, and compares with Go's arithmetic.
func TestUnsigned(t *testing.T) {
	a, b := pairsOfUnsigned()
	for name, c := range unsignedCases() {
		m := model(26, graph(unsignedPorts(len(a)), unsignedConstants(), c.nodes, outputs("y")))
		yes := &ir.Data{DType: ir.Bool, Bytes: []byte{1}}
		pairs := map[string]*ir.Data{"a": longs(t, a, len(a)), "b": longs(t, b, len(b))}
		folded := built(t, m, onnx.Options{Inputs: pairs})
		c.test(t, name+", folded", run(t, folded, map[string]*ir.Data{"yes": yes})["y"], a, b)
		pairs["yes"] = yes
		c.test(t, name, run(t, built(t, m, onnx.Options{}), pairs)["y"], a, b)
	}
}

// TestUnsignedOnDevices computes all cases in one program.
func TestUnsignedOnDevices(t *testing.T) {
	a, b := pairsOfUnsigned()
	cases, lists := unsignedCases(), map[string][]part{}
	for name, c := range cases {
		lists[name] = c.nodes
	}
	m, y := together(26, unsignedPorts(len(a)), unsignedConstants(), lists)
	in := map[string]*ir.Data{"a": longs(t, a, len(a)), "b": longs(t, b, len(b)),
		"yes": {DType: ir.Bool, Bytes: []byte{1}}}
	runOnEach(t, built(t, m, onnx.Options{}), in, func(t *testing.T, out map[string]*ir.Data) {
		for name, c := range cases {
			c.test(t, name, out[y[name]], a, b)
		}
	})
}

// TestUnsignedRefused gives uint64 to ops that have no rule for it.
func TestUnsignedRefused(t *testing.T) {
	x := names("x", "x")
	shifted := graph(nodes(node("BitShift", x, names("v"), textAttr("direction", "LEFT"))), outputs("v"))
	body := graph(inputs(port("i", int64s), port("g", boolean)),
		nodes(node("Identity", names("x"), names("v")), node("Identity", names("g"), names("h"))), outputs("h", "v"))
	for name, list := range map[string][]part{
		"a power":         nodes(node("Pow", x, names("y"))),
		"a logarithm":     nodes(node("ReduceLogSum", names("x"), names("y"))),
		"of a difference": nodes(node("Sub", x, names("h")), node("Pow", names("h", "h"), names("y"))),
		"of a branch": nodes(node("If", names("c"), names("u"),
			graphAttr("then_branch", shifted), graphAttr("else_branch", shifted)),
			node("Pow", names("u", "u"), names("y"))),
		"of what a loop made": nodes(node("Loop", names("trips"), names("u"), graphAttr("body", body)),
			node("Pow", names("u", "u"), names("y"))),
	} {
		m := model(15, graph(inputs(port("x", unsigned, 3), port("c", boolean)),
			weights(ints("trips", []int64{5})), list,
			outputs("y")))
		var e *onnx.UnsupportedError
		if _, err := onnx.NewReader(m, onnx.Options{}); !errors.As(err, &e) ||
			!strings.Contains(err.Error(), "is a uint64") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
