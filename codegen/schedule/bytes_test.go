package schedule

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// bytesMul is an int8 matmul. Its result is i32. If scaled, it is f32: the sums times 0.5.
func bytesMul(m, n, k ir.Dim, t ir.DType, scaled bool) *kernel.Kernel {
	mul := matrixMul(one, m, n, k, t, true)
	b := kernel.NewBuilder()
	out, sum := &mul.Bindings[2], b.Acc(0, ir.I32, "acc")
	out.DType, mul.Stores[0].Value = ir.I32, sum
	if scaled {
		out.DType = ir.F32
		mul.Stores[0].Value = b.Apply(ir.OpMul, ir.F32, nil, b.Cast(ir.F32, sum), b.Float(ir.F32, 0.5))
	}
	return mul
}

func TestBytesSelect(t *testing.T) {
	h100, err := device.Profile("nvidia-h100")
	if err != nil {
		t.Fatal(err)
	}
	without := func(change func(*device.Caps)) device.Caps {
		caps := h100
		change(&caps)
		return caps
	}
	large := bytesMul(ir.D(4096), ir.D(4096), ir.D(4096), ir.I8, true)
	for _, tt := range []struct {
		what string
		caps device.Caps
		want kernel.Variant
	}{
		{"tensor addressing", h100, kernel.VarCoopMat2},
		{"fragments alone", without(func(c *device.Caps) { c.Features.CooperativeMatrix2 = false }), kernel.VarCoopMat},
		{"no 8-bit integers", without(func(c *device.Caps) { c.Features.Int8 = false }), kernel.VarMatTile},
		{"no 8-bit storage", without(func(c *device.Caps) { c.Features.Storage8 = false }), kernel.VarMatTile},
		{"no matrix units", without(func(c *device.Caps) { c.Features.CooperativeMatrix = false }), kernel.VarMatTile},
	} {
		s, reason, err := Select(large, tt.caps)
		if err != nil || s.Config().Variant != tt.want {
			t.Errorf("%s: %s (%s), error %v, want %s", tt.what, s, reason, err, tt.want)
		}
	}
}

// TestByteTiles: tiles that were measured with bytes, and other ones where B
// lies across the contraction.
func TestByteTiles(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	d := ir.D
	for _, c := range []struct {
		k    *kernel.Kernel
		want string
	}{
		{matrixMul(one, d(4096), d(4096), d(4096), ir.I8, true), "coopmat2 wg=256 tile=256x128x128 pieces=2x1 band=8"},
		{matrixMul(one, d(4096), d(4096), d(4096), ir.I8, false), "coopmat2 wg=256 tile=256x128x128 pieces=2x1"},
		{matrixMul(one, d(512), d(4096), d(14336), ir.I8, true), "coopmat2 wg=256 tile=128x128x128"},
		{matrixMul(one, d(128), d(4096), d(4096), ir.I8, true), "coopmat2 wg=128 tile=64x64x128"},
	} {
		s, reason, err := Select(c.k, h100)
		if err != nil || s.String() != c.want {
			t.Errorf("%v by %v: %s (%s), error %v, want %s", c.k.Parallel, c.k.Fold, s, reason, err, c.want)
		}
	}
}

// TestBytesUnits: sixteen bytes go together where fragments are multiples of
// that, and eight where they are not.
func TestBytesUnits(t *testing.T) {
	bytes := bytesMul(ir.D(64), ir.D(64), ir.D(64), ir.I8, false)
	halves := matrixMul(one, ir.D(64), ir.D(64), ir.D(64), ir.F16, true)
	s := kernel.CoopMat{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat},
		Tile: kernel.Tile{TileM: 32, TileN: 32, TileK: 32}}, Fragment: kernel.Fragment{FragM: 16, FragN: 16,
		FragK: 32}, SubgroupsM: 1, SubgroupsN: 1}
	small := s
	small.FragM, small.FragN, small.FragK = 8, 8, 8
	for _, tt := range []struct {
		what        string
		k           *kernel.Kernel
		s           kernel.Schedule
		elems, of16 int
		shared      int
	}{
		{"bytes", bytes, s, 16, 1, 2 * 2 * 32 * 3 * 16},
		{"bytes in small fragments", bytes, small, 8, 2, 2 * 2 * 32 * 5 * 8},
		{"halves", halves, s, 8, 1, 2 * 2 * 32 * 5 * 16},
	} {
		if e, n := UnitElems(tt.k, tt.s), UnitsOf16(tt.k, tt.s); e != tt.elems || n != tt.of16 {
			t.Errorf("%s: units of %d elements, %d to 16 bytes, want %d and %d", tt.what, e, n, tt.elems, tt.of16)
		}
		if n := SharedBytes(tt.k, tt.s); n != tt.shared {
			t.Errorf("%s: %d bytes of shared memory, want %d", tt.what, n, tt.shared)
		}
	}
}

// TestBytesTensorStore: tiles of sums are stored directly. Sums converted to float are too, if they are not used
// otherwise and unsigned sums stay below 2^31.
func TestBytesTensorStore(t *testing.T) {
	deep := ir.D(33072) // 255*255 times that is beyond 2^31
	for _, tt := range []struct {
		what   string
		k      *kernel.Kernel
		change func(b *kernel.Builder, k *kernel.Kernel)
		want   bool
	}{
		{"sums", bytesMul(ir.D(64), ir.D(64), ir.D(64), ir.I8, false), nil, true},
		{"unsigned sums", bytesMul(ir.D(64), ir.D(64), deep, ir.U8, false), nil, true},
		{"scaled", bytesMul(ir.D(64), ir.D(64), deep, ir.I8, true), nil, true},
		{"unsigned, scaled", bytesMul(ir.D(64), ir.D(64), ir.D(64), ir.U8, true), nil, true},
		{"unsigned, scaled, deep", bytesMul(ir.D(64), ir.D(64), deep, ir.U8, true), nil, false},
		{"sums and one", bytesMul(ir.D(64), ir.D(64), ir.D(64), ir.I8, false),
			func(b *kernel.Builder, k *kernel.Kernel) {
				k.Stores[0].Value = b.Apply(ir.OpAdd, ir.I32, nil, k.Stores[0].Value, b.Integer(ir.I32, 1))
			}, false},
		{"sums to bytes", bytesMul(ir.D(64), ir.D(64), ir.D(64), ir.I8, false),
			func(_ *kernel.Builder, k *kernel.Kernel) {
				k.Bindings[2].DType = ir.I8
			}, false},
		{"floats of integers", bytesMul(ir.D(64), ir.D(64), ir.D(64), ir.I8, false),
			func(b *kernel.Builder, k *kernel.Kernel) {
				k.Bindings[2].DType = ir.F32
				k.Stores[0].Value = b.Cast(ir.F32, b.Apply(ir.OpAbs, ir.I32, nil, k.Stores[0].Value))
			}, false},
	} {
		if tt.change != nil {
			tt.change(kernel.NewBuilder(), tt.k)
		}
		if _, _, ok := TensorStore(tt.k, tt.k.Stores[0]); ok != tt.want {
			t.Errorf("%s: stored by tiles %v, want %v", tt.what, ok, tt.want)
		}
	}
}
