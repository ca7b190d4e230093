package target

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// rowWindow describes a convolution along rows of a tensor x[16, width]: 32
// channels of positions 0 to out-1, window element k at position*stride+k-low.
type rowWindow struct {
	width, out, low, stride int
	t                       ir.DType
	outside                 float64
}

func (c rowWindow) kernel() *kernel.Kernel {
	b := kernel.NewBuilder()
	rows, cols, fold := ir.D(32), ir.D(c.out), ir.D(16*3)
	channel, k := kernel.Axis(3, fold).DivMod(ir.D(3))
	x := kernel.Axis(2, cols).Times(int64(c.stride)).Plus(k).Minus(kernel.Const(int64(c.low)))
	last := kernel.Const(int64(c.width - 1))
	load := b.Load(0, c.t, channel.Times(int64(c.width)).Plus(kernel.Clamp(x, last)), "x")
	within := b.Apply(ir.OpAnd, ir.Bool, nil, b.Apply(ir.OpGe, ir.Bool, nil, b.FromIndex(x), b.Integer(ir.I32, 0)),
		b.Apply(ir.OpLt, ir.Bool, nil, b.FromIndex(x), b.Integer(ir.I32, int64(c.width))))
	window := b.Apply(ir.OpWhere, c.t, nil, within, load, b.Float(c.t, c.outside))
	w := b.Load(1, c.t, kernel.Axis(1, rows).Times(16*3).Plus(kernel.Axis(3, fold)), "w")
	return &kernel.Kernel{Name: "conv", Family: kernel.FamilyMatMul, Parallel: []ir.Dim{one, rows, cols}, Fold: fold,
		Bindings: []kernel.Binding{binding("x", c.t, ir.D(16), ir.D(c.width)), binding("w", c.t, rows, fold), binding("y", c.t, rows, cols)},
		Products: []kernel.Product{{A: w, B: window, Name: "acc", Operands: ir.F16}},
		Stores:   []kernel.Store{{Bind: 2, Index: kernel.Axis(1, rows).Times(int64(c.out)).Plus(kernel.Axis(2, cols)), Value: b.Acc(0, ir.F32, "acc")}}}
}

func TestWindowLoad(t *testing.T) {
	same := rowWindow{width: 16, out: 16, low: 1, stride: 1, t: ir.F16}
	cases := []struct {
		name   string
		c      rowWindow
		change func(*kernel.Kernel)
		want   bool
	}{
		{"padded", same, nil, true},
		{"longer than what it reads", rowWindow{width: 13, out: 24, low: 6, stride: 1, t: ir.F16}, nil, true},
		{"positions that are no whole octets", rowWindow{width: 12, out: 12, low: 1, stride: 1, t: ir.F16}, nil, false},
		{"buffer of no whole octets", same, func(k *kernel.Kernel) { k.Bindings[0].Elems = 16*16 + 1 }, false},
		{"strided", rowWindow{width: 32, out: 16, low: 1, stride: 2, t: ir.F16}, nil, false},
		{"of 32 bits", rowWindow{width: 16, out: 16, low: 1, stride: 1, t: ir.F32}, nil, false},
		{"ones around it", rowWindow{width: 16, out: 16, low: 1, stride: 1, t: ir.F16, outside: 1}, nil, false},
		{"also written", same, func(k *kernel.Kernel) { k.Bindings[0].Write = true }, false},
		{"multiplied in f32", same, func(k *kernel.Kernel) { k.Products[0].Operands = ir.F32 }, false},
	}
	for _, tt := range cases {
		k := tt.c.kernel()
		if tt.change != nil {
			tt.change(k)
		}
		w, ok := WindowLoad(k, k.Products[0].B, 2)
		if ok != tt.want {
			t.Errorf("%s: WindowLoad says %t, want %t", tt.name, ok, tt.want)
		}
		if ok && (len(w.All) != 0 || len(w.Ranges) != 2) {
			t.Errorf("%s: %d conditions of all and %d ranges, want none and 2", tt.name, len(w.All), len(w.Ranges))
		}
		if along := FoldContiguous(k, k.Products[0].B, 2); ok && along {
			t.Errorf("%s: staged along the contraction, not along the positions", tt.name)
		}
		if _, ok := WindowLoad(k, k.Products[0].A, 1); ok {
			t.Errorf("%s: the weights pass for windows", tt.name)
		}
	}
}

// A window's octets cost shifts; without them each element is fetched alone.
func TestWindowsCostLess(t *testing.T) {
	s := kernel.Schedule{Variant: kernel.VarCoopMat, TileM: 32, TileN: 32, TileK: 16}
	octets := slowdown(rowWindow{width: 16, out: 16, low: 1, stride: 1, t: ir.F16}.kernel(), s)
	single := slowdown(rowWindow{width: 32, out: 16, low: 1, stride: 2, t: ir.F16}.kernel(), s)
	if octets.factor >= single.factor || octets.why != "windows shifted into place" {
		t.Errorf("octets %+v, single elements %+v", octets, single)
	}
}
