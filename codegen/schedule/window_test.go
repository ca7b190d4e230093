package schedule

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
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
		Bindings: []kernel.Binding{binding("x", c.t, ir.D(16), ir.D(c.width)), binding("w", c.t, rows, fold),
			binding("y", c.t, rows, cols)},
		MatMuls: []kernel.MatMul{{A: w, B: window, Name: "acc", Operands: ir.F16}},
		Stores: []kernel.Store{{Bind: 2, Index: kernel.Axis(1, rows).Times(int64(c.out)).Plus(kernel.Axis(2, cols)),
			Value: b.Acc(0, ir.F32, "acc")}}}
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
		{"multiplied in f32", same, func(k *kernel.Kernel) { k.MatMuls[0].Operands = ir.F32 }, false},
	}
	for _, tt := range cases {
		k := tt.c.kernel()
		if tt.change != nil {
			tt.change(k)
		}
		w, ok := WindowLoad(k, k.MatMuls[0].B, 2)
		if ok != tt.want {
			t.Errorf("%s: WindowLoad says %t, want %t", tt.name, ok, tt.want)
		}
		if ok && (len(w.All) != 0 || len(w.Ranges) != 2) {
			t.Errorf("%s: %d conditions of all and %d ranges, want none and 2", tt.name, len(w.All), len(w.Ranges))
		}
		if along := FoldContiguous(k, k.MatMuls[0].B, 2); ok && along {
			t.Errorf("%s: staged along the contraction, not along the positions", tt.name)
		}
		if _, ok := WindowLoad(k, k.MatMuls[0].A, 1); ok {
			t.Errorf("%s: the weights pass for windows", tt.name)
		}
	}
}

// A window's octets cost shifts; without them each element is fetched alone.
func TestWindowsCostLess(t *testing.T) {
	s := kernel.CoopMat{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat},
		Tile: kernel.Tile{TileM: 32, TileN: 32, TileK: 16}}}
	h := nvidia(device.Caps{VendorID: device.VendorNVIDIA})
	octets := h.slowdown(rowWindow{width: 16, out: 16, low: 1, stride: 1, t: ir.F16}.kernel(), s)
	single := h.slowdown(rowWindow{width: 32, out: 16, low: 1, stride: 2, t: ir.F16}.kernel(), s)
	if octets.factor >= single.factor || octets.why != "windows shifted into place" {
		t.Errorf("octets %+v, single elements %+v", octets, single)
	}
}

// TestGatheredBytes: windows of bytes are gathered, on matrix units and without, and words of four are not.
func TestGatheredBytes(t *testing.T) {
	k := rowWindow{width: 64, out: 64, low: 1, stride: 1, t: ir.I8}.kernel()
	k.MatMuls[0].Operands = ir.I8
	words := bytesMul(ir.D(32), ir.D(64), ir.D(48), ir.I8, false)
	h := nvidia(device.Caps{VendorID: device.VendorNVIDIA})
	s := kernel.CoopMat{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat},
		Tile: kernel.Tile{TileM: 32, TileN: 32, TileK: 32}}}
	if slow := h.slowdown(k, s); slow.factor != h.gathered || slow.why != "bytes gathered one by one" {
		t.Errorf("windows: %+v, want %g times slower", slow, h.gathered)
	}
	if slow := h.slowdown(words, s); slow.factor > 1 {
		t.Errorf("words: %+v", slow)
	}
	if have, want := h.vectorTime(k, 1), h.gatheredTile*h.vectorTime(words, 1); math.Abs(have-want) > 1e-6*want {
		t.Errorf("without matrix units windows take %g, want %g", have, want)
	}
}

// storedConv is a 3x3 convolution of images of side x side, padded by 1 and
// stored with their channels innermost; spare positions follow the last.
func storedConv(images, channels, outputs, side, spare int) *kernel.Kernel {
	b := kernel.NewBuilder()
	pitch := int64(side + 2)
	c, run := int64(channels), int64(3*channels)
	rows, fold := ir.D((side-1)*(side+2)+side), ir.D(9*channels)
	quo, rem := kernel.Axis(3, fold).DivMod(ir.D(int(run)))
	row, col := kernel.Axis(1, rows), kernel.Axis(2, ir.D(outputs))
	at := kernel.Axis(0, ir.D(images)).Times(pitch * pitch * c).Plus(row.Times(c)).Plus(quo.Times(pitch * c)).Plus(rem)
	line, place := row.DivMod(ir.D(int(pitch)))
	x, w, y := binding("x", ir.F16, ir.D(images), ir.D(int(pitch*pitch)), ir.D(channels)), binding("w", ir.F16, fold,
		ir.D(outputs)), binding("y", ir.F16, ir.D(images), ir.D(outputs), ir.D(side*side))
	x.Elems += int64(spare) * c
	y.Write = true
	area := int64(side * side)
	return &kernel.Kernel{Name: "conv", Family: kernel.FamilyMatMul,
		Parallel: []ir.Dim{ir.D(images), rows, ir.D(outputs)}, Fold: fold,
		Bindings: []kernel.Binding{x, w, y},
		MatMuls: []kernel.MatMul{{A: b.Load(0, ir.F16, at, "x"),
			B:    b.Load(1, ir.F16, kernel.Axis(3, fold).Times(int64(outputs)).Plus(col), "w"),
			Name: "acc", Operands: ir.F16}},
		Guard: &kernel.Guard{Row: b.Apply(ir.OpLt, ir.Bool, nil, b.FromIndex(place), b.Integer(ir.I32, int64(side)))},
		Stores: []kernel.Store{{Bind: 2, Index: kernel.Axis(0, ir.D(images)).Times(int64(outputs) * area).
			Plus(col.Times(area)).
			Plus(line.Times(int64(side))).Plus(kernel.Clamp(place, kernel.Const(int64(side-1)))), Value: b.Acc(0,
			ir.F32, "acc")}}}
}

func TestOperandInRuns(t *testing.T) {
	for _, c := range []struct {
		channels, run int // 0 for none
	}{{256, 256}, {64, 64}, {32, 32}, {24, 8}, {12, 0}, {3, 0}} {
		k := storedConv(2, c.channels, 64, 14, 256)
		p, ok := PlainOperand(k, k.MatMuls[0].A, 1, ir.F16)
		if ok != (c.run > 0) || p.Run != c.run {
			t.Errorf("%d channels: runs of %d, %t; want %d", c.channels, p.Run, ok, c.run)
		}
		for _, step := range []int{16, 32, 64, 128} {
			s := kernel.CoopMat2{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat2},
				Tile: kernel.Tile{TileM: 128, TileN: 128, TileK: step}}}
			tensor := c.run > 0 && c.run%step == 0
			if Staged(k, s, k.MatMuls[0].A, 1) == tensor {
				t.Errorf("%d channels in steps of %d: staged %t", c.channels, step, !tensor)
			}
		}
		if have := octetLoad(k, k.MatMuls[0].A, 1, ir.F16); have != (c.run > 0) {
			t.Errorf("%d channels: octets are aligned %t", c.channels, have)
		}
	}
	clamped := storedConv(2, 64, 64, 14, 256)
	x := clamped.MatMuls[0].A.Index
	clamped.MatMuls[0].A = kernel.NewBuilder().Load(0, ir.F16, kernel.Clamp(x, kernel.Const(1000)), "x")
	if _, ok := PlainOperand(clamped, clamped.MatMuls[0].A, 1, ir.F16); ok {
		t.Error("a clamped operand passes for one in runs")
	}
}

// Tiles may read beyond the last position as far as the buffer goes on.
func TestEdgeOfStoredConv(t *testing.T) {
	for _, c := range []struct {
		spare, tile int
		want        Edge
	}{{256, 256, EdgeOverread}, {256, 128, EdgeOverread}, {0, 128, EdgeClamped}, {16, 256, EdgeClamped}} {
		s := kernel.CoopMat2{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat2},
			Tile: kernel.Tile{TileM: c.tile, TileN: 128, TileK: 32}}}
		if have := EdgeOf(storedConv(2, 64, 128, 14, c.spare), s.Variant, s.Tile, 1); have != c.want {
			t.Errorf("tiles of %d with %d spare positions: edge %d, want %d", c.tile, c.spare, have, c.want)
		}
	}
}

// Stored operands are loaded as they lie, by either kind of matrix unit, at the
// cost of any others.
func TestStoredConvCosts(t *testing.T) {
	for _, s := range []kernel.Schedule{
		kernel.CoopMat{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat, Workgroup: 128},
			Tile: kernel.Tile{TileM: 128, TileN: 128, TileK: 16}}},
		kernel.CoopMat2{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat2,
			Workgroup: 256}, Tile: kernel.Tile{TileM: 128, TileN: 256, TileK: 32}}},
	} {
		h := nvidia(device.Caps{VendorID: device.VendorNVIDIA})
		if slow := h.slowdown(storedConv(8, 256, 256, 56, 256), s); slow.factor > 1 {
			t.Errorf("%s: %g times slower, %s", s, slow.factor, slow.why)
		}
	}
}

// TestConvTimes: estimates match measurements on an H100 within a tenth.
func TestConvTimes(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	tuned := heuristicsOf(h100)
	for _, c := range []struct {
		what  string
		k     *kernel.Kernel
		micro float64
	}{{"stored", storedConv(8, 256, 256, 56, 256), 131}, {"direct", directConv(), 280}} {
		have, ok := tuned.bestMatrixTime(c.k, h100, 1)
		if have /= 1000; !ok || math.Abs(have-c.micro) > 0.1*c.micro {
			t.Errorf("%s: expected to take %.0f us, %t, but takes %.0f", c.what, have, ok, c.micro)
		}
	}
}

// directConv is 256 outputs of 3136 positions in 8 images, 2304 deep.
func directConv() *kernel.Kernel {
	k := rowWindow{width: 4096, out: 4096, low: 1, stride: 1, t: ir.F16}.kernel() // 32 channels of 48 deep
	k.Parallel, k.Fold = []ir.Dim{ir.D(8), ir.D(256), ir.D(3136)}, ir.D(2304)
	return k
}

func TestStoreWindows(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	storing := func(elems int, fixed bool) []*kernel.Kernel {
		k := unaryMap(ir.F16, ir.D(elems))
		k.Bindings[0].Read, k.Bindings[0].Fixed = true, fixed
		return []*kernel.Kernel{k}
	}
	store := func(elems int) []*kernel.Kernel { return storing(elems, false) }
	direct := directConv()
	big := storedConv(8, 256, 256, 56, 256)
	cases := []struct {
		what            string
		direct, product *kernel.Kernel
		stores          []*kernel.Kernel
		caps            device.Caps
		want            bool
	}{
		{"8 images of 256 channels", direct, big, store(8 * 256 * 58 * 58), h100, true},
		{"storing costs more than it saves", direct, big, store(1 << 30), h100, false},
		{"weights are stored once", direct, big, storing(1<<30, true), h100, true},
		{"a small one", rowWindow{width: 64, out: 64, low: 1, stride: 1, t: ir.F16}.kernel(), storedConv(1, 16, 32, 8,
			256), store(16 * 100), h100, false},
		{"no matrix units", direct, big, store(8 * 256 * 58 * 58), profile(t, "generic"), false},
	}
	for _, c := range cases {
		e := NewPricer(c.caps).Price(kernel.Rewrite{Before: []*kernel.Kernel{c.direct},
			After: append(c.stores, c.product)})
		if have := e.Gain() > 0; have != c.want {
			t.Errorf("%s: stored %t, want %t: %+v", c.what, have, c.want, e)
		}
	}
}
