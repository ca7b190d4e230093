package onnx_test

import (
	"errors"
	"math"
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

// TestUnsigned computes with uint64 as if it were i64, where the results are the same.
func TestUnsigned(t *testing.T) {
	two := tensorOf("two", unsigned, []int64{1}).bytes(9, append([]byte{2}, make([]byte, 7)...))
	x := names("x", "two")
	for name, tt := range map[string]struct {
		nodes []part
		want  []int64
	}{
		"max":       {nodes(node("Max", x, names("y"))), []int64{2, 7, 40}},
		"remainder": {nodes(node("Mod", x, names("y"))), []int64{1, 1, 0}},
		"left":      {nodes(node("BitShift", x, names("y"), textAttr("direction", "LEFT"))), []int64{4, 28, 160}},
		"right, then": {nodes(node("BitShift", x, names("h"), textAttr("direction", "RIGHT")),
			node("Div", names("h", "two"), names("y"))), []int64{0, 0, 5}},
		"a difference that wraps": {nodes(node("Sub", x, names("y"))), []int64{-1, 5, 38}},
		"a product, and a sum of all": {nodes(node("Mul", x, names("h")), node("ReduceSum", names("h"), names("s")),
			node("Expand", names("s", "three"), names("y"))), []int64{96, 96, 96}},
		"as int64": {nodes(node("Cast", names("x"), names("i"), intAttr("to", int64s)),
			node("Sub", names("i", "i"), names("y"))), []int64{0, 0, 0}},
		"its positions": {nodes(node("NonZero", names("x"), names("i")), node("Add", names("i", "i"), names("z")),
			node("Squeeze", names("z"), names("y"))), []int64{0, 2, 4}},
		"from a byte": {nodes(node("Cast", names("x"), names("b"), intAttr("to", 2)),
			node("Cast", names("b"), names("u"), intAttr("to", unsigned)), node("Min", names("u", "two"), names("y"))),
			[]int64{1, 2, 2}},
	} {
		m := model(13, graph(inputs(port("x", unsigned, 3)), weights(two, ints("three", []int64{3}, 1)), tt.nodes,
			outputs("y")))
		f, err := onnx.NewReader(m, onnx.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out := run(t, f, map[string]*ir.Data{"x": longs(t, []int64{1, 7, 40}, 3)})
		is(t, out["y"], longs(t, tt.want, 3))
	}
	same := graph(nodes(node("Identity", names("x"), names("v"))), outputs("v"))
	shifted := graph(nodes(node("BitShift", x, names("v"), textAttr("direction", "LEFT"))), outputs("v"))
	body := graph(inputs(port("i", int64s), port("g", boolean)),
		nodes(node("Identity", names("x"), names("v")), node("Identity", names("g"), names("h"))), outputs("h", "v"))
	for name, tt := range map[string]struct {
		nodes []part
		want  string
	}{
		"a difference": {nodes(node("Sub", x, names("h")), node("Max", names("h", "two"), names("y"))),
			`its input "h" is a uint64 that may be 2^63 or more`},
		"a power of it": {nodes(node("Pow", x, names("y"))), `its input "x" is a uint64`},
		"what was shifted left": {nodes(node("BitShift", x, names("h"), textAttr("direction", "LEFT")),
			node("Max", names("h", "two"), names("y"))), `its input "h" is a uint64 that may be 2^63 or more`},
		"of numbers with a sign": {nodes(node("Cast", names("n"), names("u"), intAttr("to", unsigned)),
			node("Max", names("u", "two"), names("y"))), `its input "u" is a uint64 that may be 2^63 or more`},
		"like it": {nodes(node("CastLike", names("n", "x"), names("u")), node("Max", names("u", "two"), names("y"))),
			`its input "u" is a uint64 that may be 2^63 or more`},
		"a sum": {nodes(node("ReduceSum", names("x"), names("h")), node("Div", names("h", "two"), names("y"))),
			`its input "h" is a uint64 that may be 2^63 or more`},
		"what a branch passes on": {nodes(node("If", names("c"), names("u"), graphAttr("then_branch", same),
			graphAttr("else_branch", same)), node("Pow", names("u", "two"), names("y"))), `its input "u" is a uint64`},
		"what a loop stacks": {nodes(node("Loop", names("trips"), names("u"), graphAttr("body", body)),
			node("Pow", names("u", "two"), names("y"))), `its input "u" is a uint64`},
		"what it was not shifted to": {nodes(node("If", names("c"), names("u"), graphAttr("then_branch", shifted),
			graphAttr("else_branch", same)), node("Max", names("u", "two"), names("y"))),
			`its input "u" is a uint64 that may be 2^63 or more`},
	} {
		m := model(15, graph(inputs(port("x", unsigned, 3), port("n", int64s, 3), port("c", boolean)),
			weights(two, ints("trips", []int64{5})), tt.nodes, outputs("y")))
		var e *onnx.UnsupportedError
		if _, err := onnx.NewReader(m, onnx.Options{}); !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	large := tensorOf("two", unsigned, []int64{1}).bytes(9, append(make([]byte, 7), 0x80))
	m := model(13, graph(inputs(port("x", unsigned, 3)), weights(large), nodes(node("Max", x, names("y"))),
		outputs("y")))
	if _, err := onnx.NewReader(m, onnx.Options{}); err == nil || !strings.Contains(err.Error(), "2^63 or more") {
		t.Errorf("a constant of 2^63: %v", err)
	}
	m = model(13, graph(inputs(port("x", unsigned, 3)), weights(large), nodes(node("Add", x, names("y"))),
		outputs("y")))
	out := run(t, built(t, m, onnx.Options{}), map[string]*ir.Data{"x": longs(t, []int64{1, 7, -1}, 3)})
	is(t, out["y"], longs(t, []int64{math.MinInt64 + 1, math.MinInt64 + 7, math.MaxInt64}, 3))
}
