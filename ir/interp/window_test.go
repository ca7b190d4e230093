package interp

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// windowOps apply an op that goes over the innermost axes of x [2, 4, n].
var windowOps = []struct {
	name  string
	build func(b builder, x *ir.Node, n ir.Dim) *ir.Node
}{
	{"conv", func(b builder, x *ir.Node, _ ir.Dim) *ir.Node {
		return b.add(ir.OpConv, []*ir.Node{x, b.noise(6, 2, 3)}, "groups", 2, "stride", []int{2},
			"padding_low", []int{2}, "padding_high", []int{1}, "dilation", []int{2})
	}},
	{"conv_transpose", func(b builder, x *ir.Node, _ ir.Dim) *ir.Node {
		return b.add(ir.OpConvTranspose, []*ir.Node{x, b.noise(4, 3, 3)}, "groups", 2, "stride", []int{3},
			"padding_low", []int{1}, "output_padding", []int{2})
	}},
	{"avg_pool", func(b builder, x *ir.Node, _ ir.Dim) *ir.Node {
		return b.add(ir.OpAvgPool, []*ir.Node{x}, "kernel", []int{3}, "stride", []int{2}, "padding_high", []int{2},
			"ceil_mode", true)
	}},
	{"max_pool", func(b builder, x *ir.Node, _ ir.Dim) *ir.Node {
		return b.add(ir.OpMaxPool, []*ir.Node{x}, "kernel", []int{2}, "padding_low", []int{1}, "dilation", []int{2},
			"ceil_mode", true)
	}},
	{"resize_nearest", func(b builder, x *ir.Node, n ir.Dim) *ir.Node {
		return b.add(ir.OpResizeNearest, []*ir.Node{x}, "size", ir.Shape{n.Times(3).Plus(1)})
	}},
	{"resize_cubic", func(b builder, x *ir.Node, n ir.Dim) *ir.Node {
		return b.add(ir.OpResizeCubic, []*ir.Node{x}, "size", ir.Shape{n.Plus(3)}, "align_corners", true)
	}},
	{"reflect", func(b builder, x *ir.Node, _ ir.Dim) *ir.Node {
		return b.add(ir.OpPad, []*ir.Node{x}, "low", []int{0, 0, 5}, "high", []int{0, 1, 9}, "mode", "reflect")
	}},
	{"roll", func(b builder, x *ir.Node, _ ir.Dim) *ir.Node {
		return b.add(ir.OpRoll, []*ir.Node{x}, "shifts", []int{1, 0, -7})
	}},
}

func (b builder) noise(dims ...int) *ir.Node {
	b.t.Helper()
	return b.constant(floats(b.t, ir.F32, noise(elems(dims), len(dims)), dims...))
}

// TestSymbolicWindows: for each value of a symbol, a graph with a symbolic extent gives the results of the graph with
// that number.
func TestSymbolicWindows(t *testing.T) {
	for _, op := range windowOps {
		t.Run(op.name, func(t *testing.T) {
			extent := ir.Symbol("T", 6).Times(2)
			p := windowProgram(t, extent, op.build)
			for n := 2; n <= 12; n += 2 {
				in := map[string]*ir.Data{"x": floats(t, ir.F32, noise(8*n, 1), 2, 4, n)}
				got := run(t, p, in, nil)["y"]
				want := run(t, windowProgram(t, ir.D(n), op.build), in, nil)["y"]
				if fmt.Sprint(got.Dims) != fmt.Sprint(want.Dims) || !bytes.Equal(got.Bytes, want.Bytes) {
					t.Errorf("T=%d: %s with the symbol differs from %s", n/2, got, want)
				}
			}
		})
	}
}

func windowProgram(t *testing.T, n ir.Dim, build func(b builder, x *ir.Node, n ir.Dim) *ir.Node) *Program {
	t.Helper()
	b := newGraph(t)
	b.output("y", build(b, b.input("x", ir.F32, ir.Shape{ir.D(2), ir.D(4), n}), n))
	return b.program(Options{})
}

// TestConvBytes has sums worked out by hand: padding is the value given.
func TestConvBytes(t *testing.T) {
	for _, c := range []struct {
		dtype  ir.DType
		x, w   []int64
		around int
		want   []int64
	}{
		{ir.I8, []int64{1, -2, 3}, []int64{4, -5}, 0, []int64{-5, 14, -23, 12}},
		{ir.I8, []int64{1, -2, 3}, []int64{4, -5}, -128, []int64{-517, 14, -23, 652}},
		{ir.U8, []int64{255, 0, 7}, []int64{255, 2}, 200, []int64{51510, 65025, 14, 2185}},
	} {
		b := newGraph(t)
		constant := func(values []int64) *ir.Node {
			d, err := ir.FromInts(c.dtype, values, 1, 1, len(values))
			if err != nil {
				t.Fatal(err)
			}
			return b.constant(d)
		}
		b.output("y", b.add(ir.OpConv, []*ir.Node{constant(c.x), constant(c.w)}, "padding_low", []int{1},
			"padding_high", []int{1}, "padding_value", c.around))
		got, err := run(t, b.program(Options{}), nil, nil)["y"].Ints()
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v by %v padded by %d is %v (%v), want %v", c.x, c.w, c.around, got, err, c.want)
		}
	}
}
