package schedule

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// goodSkinny is a schedule of the skinny variant for q4_0 by floats on an H100.
var goodSkinny = kernel.Skinny{Launch: kernel.Launch{Variant: kernel.VarSkinny, Workgroup: 128, Vec: 4, Subgroup: 32},
	Tile: kernel.Tile{TileM: 8, TileN: 64, TileK: 256}, Fragment: kernel.Fragment{FragM: 16, FragN: 8, FragK: 32},
	SubgroupsN: 4, SubgroupsK: 1}

func TestCheckSkinny(t *testing.T) {
	few := func(m, n, k int, b ir.DType) *kernel.Kernel {
		return matMul(one, ir.D(m), ir.D(n), ir.D(k), b, true)
	}
	q4 := few(8, 4096, 4096, ir.Q4_0)
	for _, c := range []struct {
		what   string
		k      *kernel.Kernel
		change func(*kernel.Skinny, *device.Caps)
		want   string // in the error; empty for none
	}{
		{"q4_0", q4, nil, ""},
		{"edges", few(5, 100, 4096, ir.Q4_0), nil, ""},
		{"several times the rows", few(70, 100, 4096, ir.Q4_0), nil, ""},
		{"q6_K in halves", few(8, 4096, 4096, ir.Q6_K), func(s *kernel.Skinny, _ *device.Caps) {
			s.TileK,
				s.FragK = 128, 16
		}, ""},
		{"two fragments of rows", few(16, 4096, 4096, ir.Q4_0), func(s *kernel.Skinny,
			_ *device.Caps) {
			s.TileM = 16
		}, ""},
		{"no blocks", few(8, 4096, 4096, ir.F16), nil, "few rows by blocks"},
		{"blocks along the columns", matMul(one, ir.D(8), ir.D(4096), ir.D(4096), ir.Q4_0, false), nil,
			"few rows by blocks"},
		{"a length that varies", matMul(one, ir.D(8), ir.D(4096), ir.Symbol("T", 128).Times(32), ir.Q4_0, true), nil,
			"few rows by blocks"},
		{"no matrix units", q4, func(_ *kernel.Skinny, c *device.Caps) { c.Features.CooperativeMatrix = false },
			"no cooperative matrices"},
		{"no bytes", q4, func(_ *kernel.Skinny, c *device.Caps) { c.Features.Int8 = false }, "no 8-bit integers"},
		{"no halves", few(8, 4096, 4096, ir.Q6_K), func(_ *kernel.Skinny,
			c *device.Caps) {
			c.Features.Float16 = false
		}, "no f16 arithmetic"},
		{"any subgroup", q4, func(s *kernel.Skinny, _ *device.Caps) { s.Subgroup = 0 }, "must be relied on"},
		{"another workgroup", q4, func(s *kernel.Skinny, _ *device.Caps) { s.Workgroup = 256 },
			"are not a workgroup of 256"},
		{"other fragments", q4, func(s *kernel.Skinny, _ *device.Caps) { s.FragK = 16 }, "no i8 fragments of 16x8x16"},
		{"fragments deeper than a scale", few(8, 4096, 4096, ir.Q6_K), func(s *kernel.Skinny, c *device.Caps) {
			c.Matrices = append(c.Matrices,
				device.MatrixShape{M: 16, N: 8, K: 32, A: "f16", B: "f16", C: "f32", R: "f32",
					Scope: device.ScopeSubgroup})
		}, "not a whole number of fragments of 32"},
		{"part of a fragment", q4, func(s *kernel.Skinny, _ *device.Caps) { s.TileM = 5 },
			"not a whole number of fragments for each subgroup"},
		{"too many rows", q4, func(s *kernel.Skinny, _ *device.Caps) { s.TileM = 40 }, "of at most 32 rows"},
		{"part of what is decoded together", few(8, 4096, 4096, ir.Q4_K), func(s *kernel.Skinny,
			_ *device.Caps) {
			s.TileK = 32
		}, "not a multiple of the 64"},
		{"part of a step", few(8, 4096, 4096+32, ir.Q4_0), nil, "do not divide a contraction"},
		{"steps of one subgroup alone", few(8, 4096, 3*128, ir.Q4_0), func(s *kernel.Skinny,
			_ *device.Caps) {
			s.SubgroupsK, s.Workgroup, s.TileK = 2, 256, 128
		}, ""},
		{"steps for each subgroup", few(8, 4096, 256, ir.Q4_0), func(s *kernel.Skinny, _ *device.Caps) {
			s.SubgroupsK,
				s.Workgroup = 2, 256
		}, "has no 2 steps of 256"},
		{"too much at once", q4, func(s *kernel.Skinny, _ *device.Caps) { s.TileK = 1024 }, "bytes of shared memory"},
		{"spills", few(32, 4096, 4096, ir.Q4_0), func(s *kernel.Skinny, _ *device.Caps) {
			s.TileM, s.TileN,
				s.TileK = 32, 1024, 32
		}, "spill"},
	} {
		s, caps := goodSkinny, profile(t, "nvidia-h100")
		if c.change != nil {
			c.change(&s, &caps)
		}
		got, err := New(c.k, s, caps)
		expect(t, c.what, got, err, c.want)
	}
}

// byteRows is a matmul of int8 rows with a scale for every 32 elements.
func byteRows(m, n, k int, w ir.DType) *kernel.Kernel {
	mul := matMul(one, ir.D(m), ir.D(n), ir.D(k), w, true)
	b := kernel.NewBuilder()
	row, fold := kernel.Axis(1, ir.D(m)), kernel.Axis(3, ir.D(k))
	group, _ := fold.DivMod(ir.D(kernel.RoundedGroup))
	x := b.Cast(ir.F32, b.Load(0, ir.I8, row.Mul(kernel.Const(int64(k))).Plus(fold), "x"))
	mul.Bindings[0].DType = ir.I8
	mul.Bindings = append(mul.Bindings, binding("scales", ir.F32, ir.D(m), ir.D(k/kernel.RoundedGroup)))
	mul.MatMuls[0].A = b.Apply(ir.OpMul, ir.F32, nil, x,
		b.Load(3, ir.F32, row.Mul(kernel.Const(int64(k/kernel.RoundedGroup))).Plus(group), "scales"))
	return mul
}

// twice adds a second product of the same rows.
func twice(k *kernel.Kernel) *kernel.Kernel {
	b, p := kernel.NewBuilder(), k.MatMuls[0]
	k.Bindings = append(k.Bindings, k.Bindings[1])
	p.B = b.Load(len(k.Bindings)-1, ir.F32, p.B.Index, "w2")
	k.MatMuls = append(k.MatMuls, p)
	return k
}

// TestSelectSkinny: matrix units where that was measured to be faster, in tiles
// that leave no cores idle and fit the contraction.
func TestSelectSkinny(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	floats := func(m, n, k int, w ir.DType) *kernel.Kernel {
		return matMul(one, ir.D(m), ir.D(n), ir.D(k), w, true)
	}
	for _, c := range []struct {
		what string
		k    *kernel.Kernel
		want string // how the schedule begins
	}{
		{"one row", floats(1, 14336, 14336, ir.Q4_0), "matvec "},
		{"three rows", floats(3, 14336, 14336, ir.Q4_0), "matvec "},
		{"eight rows", floats(8, 14336, 14336, ir.Q4_0), "skinny wg=512 tile=8x128x128 subgroups=8x2 fragment=16x8x32"},
		{"as many as it takes", floats(32, 14336, 14336, ir.Q4_0), "skinny wg=256 tile=32x128x128 subgroups=8x1"},
		{"more", floats(33, 14336, 14336, ir.Q4_0), "tile "},
		{"few columns", floats(8, 4096, 14336, ir.Q4_0), "matvec "},
		{"few columns, more rows", floats(16, 4096, 14336, ir.Q4_0), "matvec "},
		{"few columns, more rows than a matvec takes", floats(20, 4096, 14336, ir.Q4_0),
			"skinny wg=256 tile=32x64x128 subgroups=4x2"},
		{"few columns, more rows of bytes", byteRows(16, 4096, 11008, ir.Q4_0),
			"skinny wg=128 tile=16x16x256 subgroups=1x4"},
		{"fewer columns, more rows of bytes", byteRows(16, 1024, 11008, ir.Q4_0), "matvec "},
		{"a contraction of few factors", floats(8, 14336, 128*7, ir.Q4_0),
			"skinny wg=512 tile=8x128x128 subgroups=8x2"},
		{"one of fewer", floats(8, 14336, 64*7, ir.Q4_0), "matvec "},
		{"scales of sixteen", floats(8, 14336, 14336, ir.Q6_K),
			"skinny wg=128 tile=8x64x128 subgroups=4x1 fragment=16x8x16"},
		{"six rows of bytes", byteRows(6, 14336, 14336, ir.Q4_0), "matvec "},
		{"eight rows of bytes", byteRows(8, 14336, 14336, ir.Q4_0),
			"skinny wg=128 tile=8x64x256 subgroups=4x1 fragment=16x8x32"},
		{"many rows of bytes", byteRows(32, 14336, 14336, ir.Q4_0), "skinny wg=256 tile=32x128x128 subgroups=8x1"},
		{"eight rows of bytes by q4_K", byteRows(8, 14336, 14336, ir.Q4_K), "matvec "},
		{"more rows of bytes", byteRows(20, 14336, 14336, ir.Q4_K), "skinny wg=256 tile=32x128x128 subgroups=8x1"},
		{"more rows, scales of sixteen", floats(16, 14336, 14336, ir.Q6_K),
			"skinny wg=128 tile=16x64x128 subgroups=4x1 fragment=16x8x16"},
		{"more rows by another format", floats(16, 14336, 14336, ir.Q5_K), "matvec "},
		{"more rows of bytes by q4_0", byteRows(16, 12288, 4096, ir.Q4_0),
			"skinny wg=128 tile=16x32x256 subgroups=2x2"},
		{"more rows of bytes by q4_K", byteRows(16, 12288, 4096, ir.Q4_K),
			"skinny wg=128 tile=16x32x256 subgroups=2x2"},
		{"two products", twice(floats(8, 14336, 14336, ir.Q4_0)), "matvec "},
		{"two products, more rows", twice(floats(16, 14336, 14336, ir.Q4_0)),
			"skinny wg=256 tile=16x128x128 subgroups=8x1"},
		{"two products, rows of bytes", twice(byteRows(16, 14336, 14336, ir.Q4_0)),
			"skinny wg=128 tile=16x32x128 subgroups=2x2"},
		{"two products, as many as it takes", twice(floats(32, 14336, 14336, ir.Q4_0)),
			"skinny wg=128 tile=32x64x128 subgroups=4x1"},
		{"rows that may be halves", inF16(floats(16, 14336, 14336, ir.Q4_0)), "coopmat"},
	} {
		s, reason, err := Select(c.k, h100)
		if err != nil || !strings.HasPrefix(s.String(), c.want) {
			t.Errorf("%s: %s (%s), error %v, want %s", c.what, s, reason, err, c.want)
		}
		without := h100
		without.Features.CooperativeMatrix, without.Features.CooperativeMatrix2 = false, false
		if s, _, err := Select(c.k, without); err != nil || s.Config().Variant == kernel.VarSkinny {
			t.Errorf("%s without matrix units: %s, error %v", c.what, s, err)
		}
	}
	small := h100
	small.MaxSharedMemory = 16384
	if s, reason, err := Select(floats(8, 14336, 14336, ir.Q4_0),
		small); err != nil || s.Config().Variant != kernel.VarMatVec {
		t.Errorf("little shared memory: %s (%s), error %v", s, reason, err)
	}
}

// TestWantsBytes: more rows than a matvec takes are bytes where matrix units
// multiply those.
func TestWantsBytes(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	without := h100
	without.Features.CooperativeMatrix = false
	for _, c := range []struct {
		dtype ir.DType
		rows  ir.Dim
		caps  device.Caps
		want  bool
	}{
		{ir.Q4_0, ir.D(8), h100, true}, {ir.Q4_0, ir.D(32), h100, true}, {ir.Q4_0, ir.D(33), h100, false},
		{ir.Q4_0, ir.Symbol("T", 32), h100, true}, {ir.Q4_0, ir.Symbol("T", 512), h100, false},
		{ir.Q4_0, ir.D(8), without, true}, {ir.Q4_0, ir.D(9), without, false},
		{ir.Q6_K, ir.D(16), h100, false}, {ir.Q4_K, ir.D(16), h100, true}, {ir.IQ4_NL, ir.D(16), h100, false},
		{ir.Q8_0, ir.D(1), h100, false},
		{ir.Q4_0, ir.D(16), profile(t, "generic"), false},
	} {
		if got := WantsBytes(c.dtype, c.rows, ir.D(4096), c.caps); got != c.want {
			t.Errorf("%s rows of bytes by %s, matrix units %v: %v, want %v", c.rows, c.dtype,
				c.caps.Features.CooperativeMatrix, got, c.want)
		}
	}
}

// TestSkinnyTime: the time of 9 to 16 rows on matrix units is known from measurements, and grows with fewer cores.
func TestSkinnyTime(t *testing.T) {
	price := func(k *kernel.Kernel) kernel.Estimate {
		return NewPricer(profile(t, "nvidia-h100")).Price(kernel.Rewrite{Before: []*kernel.Kernel{k}})
	}
	wide, few := price(byteRows(16, 12288, 4096, ir.Q4_0)), price(byteRows(16, 1600, 4096, ir.Q4_0))
	if wide.Note != "" || few.Note != "" || wide.Before < 20e3 || wide.Before > 28e3 ||
		few.Before < 1.3*wide.Before*1600/12288 {
		t.Errorf("%+v by 384 workgroups, %+v by 100 of 132 cores", wide, few)
	}
	if floats := price(matMul(one, ir.D(16), ir.D(12288), ir.D(4096), ir.Q4_0, true)); floats.Before < 1.5*wide.Before {
		t.Errorf("%+v by floats, %+v by bytes", floats, wide)
	}
	unknown := price(matMul(one, ir.D(16), ir.D(14336), ir.D(14336), ir.Q6_K, true))
	if !strings.Contains(unknown.Note, "skinny by 16 rows") {
		t.Errorf("%+v by a format that was not measured", unknown)
	}
}
