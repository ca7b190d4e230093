package schedule

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// matrixMul is matMul with both operands and the result of a dtype that matrix
// units take.
func matrixMul(batch, m, n, k ir.Dim, t ir.DType, transposed bool) *kernel.Kernel {
	mul := matMul(batch, m, n, k, t, transposed)
	b := kernel.NewBuilder()
	mul.Bindings[0].DType, mul.Bindings[2].DType = t, t
	x := b.Load(0, t, mul.MatMuls[0].A.Index, "x")
	w := b.Load(1, t, mul.MatMuls[0].B.Args[0].Index, "w")
	mul.MatMuls[0] = kernel.MatMul{A: x, B: w, Name: "acc", Operands: t}
	mul.Stores[0].Value = b.Acc(0, ir.F32, "acc")
	return mul
}

// inF16 lets operands be rounded to f16.
func inF16(k *kernel.Kernel) *kernel.Kernel {
	k.MatMuls[0].Operands = ir.F16
	return k
}

// randomMatrixCaps returns a device with matrix units of some kind.
func randomMatrixCaps(r *rand.Rand) device.Caps {
	caps, err := device.Profile("nvidia-h100")
	if err != nil {
		panic(err)
	}
	if r.IntN(2) == 0 {
		caps.Features.CooperativeMatrix2, caps.Matrix2 = false, nil
	}
	caps.MaxStorageRange = 1 << 60
	caps.MaxSharedMemory = max(caps.MaxSharedMemory>>r.IntN(3), 16384) // which is the least that Vulkan allows
	caps.MaxInvocations = 128 << r.IntN(4)
	return caps
}

func TestCheckMatrixUnits(t *testing.T) {
	f16 := matrixMul(one, ir.D(512), ir.D(512), ir.D(512), ir.F16, false)
	bf16 := matrixMul(one, ir.D(512), ir.D(512), ir.D(512), ir.BF16, true)
	f32 := matMul(one, ir.D(512), ir.D(512), ir.D(512), ir.F32, false)
	q4 := inF16(matMul(one, ir.D(512), ir.D(512), ir.D(512), ir.Q4_0, true))
	odd := matrixMul(ir.D(3), ir.D(511), ir.D(511), ir.D(511), ir.F16, false)
	sub := kernel.CoopMat{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat,
		Workgroup: 256, Vec: 4, Subgroup: 32}, Tile: kernel.Tile{TileM: 128, TileN: 128, TileK: 32}},
		Fragment: kernel.Fragment{FragM: 16, FragN: 16, FragK: 16}, SubgroupsM: 2, SubgroupsN: 4}
	wg := kernel.CoopMat2{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat2,
		Workgroup: 256, Vec: 4}, Tile: kernel.Tile{TileM: 128, TileN: 128, TileK: 64}}}
	cases := []struct {
		what   string
		k      *kernel.Kernel
		s      kernel.Schedule
		change func(*kernel.Schedule, *device.Caps)
		want   string // in the error; empty for none
	}{
		{"coopmat", f16, sub, nil, ""},
		{"coopmat bf16", bf16, sub, nil, ""},
		{"coopmat q4_0", q4, sub, nil, ""},
		{"coopmat odd", odd, sub, nil, ""},
		{"coopmat2", f16, wg, nil, ""},
		{"coopmat2 bf16", bf16, wg, nil, ""},

		{"f32 operands", f32, sub, nil, "may not be rounded"},
		{"f32 operands 2", f32, wg, nil, "may not be rounded"},
		{"no matrices", f16, sub, on(func(_ *kernel.CoopMat, c *device.Caps) { c.Features.CooperativeMatrix = false }),
			"no cooperative matrices"},
		{"no memory model", f16, sub, on(func(_ *kernel.CoopMat, c *device.Caps) { c.Features.MemoryModel = false }),
			"no cooperative matrices"},
		{"no f16", f16, sub, on(func(_ *kernel.CoopMat, c *device.Caps) { c.Features.Float16 = false }),
			"no f16 arithmetic"},
		{"no bf16", bf16, sub, on(func(_ *kernel.CoopMat, c *device.Caps) { c.Features.BFloat16Matrix = false }),
			"take no bf16"},
		{"fragment", f16, sub, on(func(s *kernel.CoopMat, _ *device.Caps) { s.FragM = 8 }),
			"no f16 fragments of 8x16x16"},
		{"fragment of bf16", bf16, sub, on(func(s *kernel.CoopMat, _ *device.Caps) { s.FragN = 8 }),
			"no bf16 fragments of 16x8x16"},
		{"no subgroup", f16, sub, on(func(s *kernel.CoopMat, _ *device.Caps) { s.Subgroup = 0 }), "must be relied on"},
		{"subgroup grid", f16, sub, on(func(s *kernel.CoopMat, _ *device.Caps) { s.SubgroupsM = 1 }),
			"not a workgroup of 256"},
		{"part fragments", f16, sub, on(func(s *kernel.CoopMat, _ *device.Caps) { s.TileN = 96 }),
			"whole number of fragments"},
		{"sums", f16, sub, on(func(s *kernel.CoopMat, _ *device.Caps) { s.TileM, s.TileN = 256, 256 }), "spill"},
		{"shared memory", f16, sub, on(func(s *kernel.CoopMat, _ *device.Caps) { s.TileK = 128 }),
			"bytes of shared memory"},

		{"no extension", f16, wg, on(func(_ *kernel.CoopMat2, c *device.Caps) { c.Matrix2 = nil }),
			"no VK_NV_cooperative_matrix2"},
		{"no tensors", f16, wg, on(func(_ *kernel.CoopMat2,
			c *device.Caps) {
			m := *c.Matrix2
			m.TensorAddressing = false
			c.Matrix2 = &m
		}), "lacks"},
		{"no maintenance4", f16, wg, on(func(_ *kernel.CoopMat2, c *device.Caps) { c.Features.Maintenance4 = false }),
			"maintenance4"},
		{"large workgroup", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.Workgroup = 512 }),
			"workgroup scope allow 256"},
		{"large tile", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.TileM, s.TileN = 2048, 16 }),
			"larger than matrices may be"},
		{"steps", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.TileM = 48 }), "in steps that divide"},
		{"bands", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.Band = 4 }), ""},
		{"part bands", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.Band = 3 }), ""},
		{"less than a band", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.Band = 5 }), "fewer of them"},
		{"pieces", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.PiecesM, s.PiecesN = 2, 4 }), ""},
		{"small pieces", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.PiecesN = 8 }),
			"in steps that divide"},
		{"no number of pieces", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.PiecesM = -1 }),
			"in -1x0 pieces"},
		{"pieces of staged operands", q4, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) {
			s.TileK, s.PiecesM = 32,
				2
		}), "staged as a whole"},
		{"pieces of subgroups", f16, sub, func(s *kernel.Schedule, _ *device.Caps) {
			*s = kernel.CoopMat2{MatrixTile: (*s).(kernel.CoopMat).MatrixTile, PiecesM: 2}
		}, "parameters that are not the variant's"},
		{"sums 2", f16, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.TileM, s.TileN = 256, 256 }), "spill"},
		{"coopmat2 staged", q4, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.TileK = 32 }), ""},
		{"coopmat2 odd", odd, wg, on(func(s *kernel.CoopMat2, _ *device.Caps) { s.TileK = 32 }), ""},
		{"room for the driver", q4, wg, nil, "bytes of shared memory with the driver's own"},
	}
	for _, c := range cases {
		caps, s := profile(t, "nvidia-h100"), c.s
		if c.change != nil {
			c.change(&s, &caps)
		}
		got, err := New(c.k, s, caps)
		expect(t, c.what, got, err, c.want)
	}
}

func TestHalfSums(t *testing.T) {
	k := matrixMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F16, false)
	k.MatMuls[0].HalfSums = true
	s, reason, err := Select(k, profile(t, "nvidia-h100"))
	if err != nil || s.String() != "coopmat2 wg=256 tile=256x256x64 pieces=2x2 band=4" {
		t.Errorf("%s, %s, %v", s, reason, err)
	}
	k.MatMuls[0].Operands = ir.BF16 // their sums are f32 on any unit
	if _, err := New(k, s, profile(t, "nvidia-h100")); err == nil || !strings.Contains(err.Error(), "spill") {
		t.Errorf("bf16 in f16 sums: %v", err)
	}
}

// By blocks, f16 sums have a tile of their own, in parts where cores would idle.
func TestHalfSumsOfBlocks(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	byBlocks := func(parts int, half bool) *kernel.Kernel {
		m, depth := ir.D(512), ir.D(14336/parts)
		k := inF16(matMul(ir.D(parts), m, ir.D(4096), depth, ir.Q4_0, true))
		k.Bindings[0].DType = ir.F16
		k.MatMuls[0].A = kernel.NewBuilder().Load(0, ir.F16, k.MatMuls[0].A.Index, "x")
		k.MatMuls[0].HalfSums = half
		return k
	}
	for _, c := range []struct {
		half  bool
		parts int
		want  string
	}{
		{true, 4, "coopmat wg=256 tile=256x256x16 subgroups=2x4 fragment=16x16x16 subgroup=32"},
		{false, 2, "coopmat wg=256 tile=256x128x16 subgroups=4x2 fragment=16x16x16 subgroup=32"},
	} {
		if parts := bestParts(byBlocks(1, c.half), h100); parts != c.parts {
			t.Errorf("f16 sums %v: %d parts, want %d", c.half, parts, c.parts)
		}
		s, reason, err := Select(byBlocks(c.parts, c.half), h100)
		if err != nil || s.String() != c.want {
			t.Errorf("f16 sums %v: %s, %s, %v, want %s", c.half, s, reason, err, c.want)
		}
	}
}

// apart lets operands count as sums of bf16.
func apart(k *kernel.Kernel) *kernel.Kernel {
	k.MatMuls[0].BF16x3 = true
	return k
}

func TestStoredOperands(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	T := ir.Symbol("T", 4096)
	cases := []struct {
		what        string
		k           *kernel.Kernel
		want        int  // operands
		rows, depth int  // of the first
		decoded     bool // another way has decoded weights, too
	}{
		{"as it lies", matrixMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F16, true), 0, 0, 0, false},
		{"f32 by f16", inF16(matMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F16, true)), 1, 0, 0, false},
		{"f32 by f32", inF16(matMul(one, ir.D(4000), ir.D(4096), ir.D(4096), ir.F32, true)), 2, 4096, 0, false},
		{"f32 by q4_0", inF16(matMul(one, ir.D(512), ir.D(4096), ir.D(4096), ir.Q4_0, true)), 1, 0, 0, true},
		{"T rows", inF16(matMul(one, T, ir.D(4096), ir.D(4096), ir.Q4_0, true)), 1, 0, 0, true},
		{"odd", matrixMul(one, ir.D(4095), ir.D(4095), ir.D(4095), ir.F16, true), 2, 4096, 4096, false},
		{"bytes as they lie", bytesMul(ir.D(4096), ir.D(4096), ir.D(4112), ir.I8, false), 0, 0, 0, false},
		{"bytes in rows of no 16", bytesMul(ir.D(4096), ir.D(4096), ir.D(4104), ir.I8, true), 2, 0, 4224, false},
		{"odd depth of blocks", inF16(matMul(one, ir.D(4095), ir.D(4096), ir.D(4064), ir.Q4_0, true)), 1, 4096, 0,
			true},
		{"T deep", matrixMul(one, ir.D(4095), ir.D(4095), T, ir.F16, true), 0, 0, 0, false},
		{"few columns", inF16(matMul(one, ir.D(4096), ir.D(256), ir.D(4096), ir.Q4_0, true)), 1, 0, 0, true},
		{"few rows", inF16(matMul(one, ir.D(128), ir.D(4096), ir.D(4096), ir.F32, true)), 2, 256, 0, false},
		{"f32 operands", matMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F32, true), 0, 0, 0, false},
		{"taken apart", apart(matMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F32, true)), 2, 0, 0, false},
		{"odd, taken apart", apart(matMul(one, ir.D(4095), ir.D(4095), ir.D(4095), ir.F32, false)), 2, 4096, 4096,
			false},
		{"T rows, taken apart", apart(matMul(one, T, ir.D(4096), ir.D(4096), ir.F32, true)), 2, 0, 0, false},
		{"T deep, taken apart", apart(matMul(one, ir.D(4096), ir.D(4096), T, ir.F32, true)), 0, 0, 0, false},
		{"nothing to add up, taken apart", apart(matMul(one, ir.D(4096), ir.D(4096), ir.D(0), ir.F32, true)), 0, 0, 0,
			false},
		{"few rows, taken apart", apart(matMul(one, ir.D(4), ir.D(4096), ir.D(4096), ir.F32, true)), 0, 0, 0, false},
	}
	for _, n := range []int{4095, 4096} { // neighbours stay neighbours where tiles are whole
		list := NewPricer(caps).Sizes(apart(matMul(one, ir.D(n), ir.D(n), ir.D(n), ir.F32, false))).Operands[0]
		if list[0].Across || list[1].Across != (n == 4096) {
			t.Errorf("%d columns: %+v", n, list)
		}
	}
	for _, c := range cases {
		var got []kernel.StoredOperand // the most in one way
		decoded := false
		for _, way := range NewPricer(caps).Sizes(c.k).Operands {
			if slices.ContainsFunc(way, func(o kernel.StoredOperand) bool { return c.k.ReadsBlocks(o.Operand) }) {
				decoded = true
			} else if len(way) > len(got) {
				got = way
			}
		}
		if decoded != c.decoded {
			t.Errorf("%s: weights stored decoded: %v", c.what, decoded)
		}
		if len(got) != c.want || c.want > 0 && (got[0].Rows != c.rows || got[0].Depth != c.depth) {
			t.Errorf("%s: %+v, want %d of %d rows, %d deep", c.what, got, c.want, c.rows, c.depth)
		}
	}
}

// Stored operands go on beyond the result, so that no read of them is held back.
func TestEdgeOf(t *testing.T) {
	s := kernel.CoopMat2{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat2},
		Tile: kernel.Tile{TileM: 128, TileN: 256, TileK: 64}}}
	k := matrixMul(one, ir.D(4000), ir.Symbol("T", 4096), ir.D(4096), ir.F16, true)
	if e := EdgeOf(k, s.Variant, s.Tile, 1); e != EdgeClamped {
		t.Errorf("4000 rows: %d", e)
	}
	if e := EdgeOf(k, s.Variant, s.Tile, 2); e != EdgeOverread {
		t.Errorf("T columns: %d", e)
	}
	k.Bindings[0].Elems = 4096 * 4096
	if e := EdgeOf(k, s.Variant, s.Tile, 1); e != EdgeOverread {
		t.Errorf("4000 rows of 4096 in memory: %d", e)
	}
	k = matrixMul(ir.D(3), ir.D(4000), ir.D(4096), ir.D(4096), ir.F16, true)
	if e := EdgeOf(k, s.Variant, s.Tile, 1); e != EdgeClamped {
		t.Errorf("4000 rows of the last batch: %d", e)
	}
	k.Bindings[0].Elems = (3*4000 + 96) * 4096
	if e := EdgeOf(k, s.Variant, s.Tile, 1); e != EdgeOverread {
		t.Errorf("4000 rows, 96 more after the last batch: %d", e)
	}
	s.Variant = kernel.VarMatTile
	if e := EdgeOf(k, s.Variant, s.Tile, 1); e != EdgeClamped {
		t.Errorf("tiles hold back reads one by one: %d", e)
	}
}

// bestParts returns the split-K factor with the largest gain.
func bestParts(k *kernel.Kernel, caps device.Caps) int {
	best, most := 1, 0.0
	for _, n := range (NewPricer(caps)).Sizes(k).Parts {
		depth, _ := k.Fold.Quo(int64(n))
		shape := append(ir.Shape{ir.D(n)}, k.Parallel...)
		sums := kernel.Map(k, kernel.Edit{Parallel: shape, Fold: depth,
			At: func(axis int, extent ir.Dim) kernel.Index {
				if axis == k.FoldAxis() {
					return kernel.Axis(0, ir.D(n)).Mul(kernel.DimIndex(depth)).Plus(kernel.Axis(axis+1, depth))
				}
				return kernel.Axis(axis+1, extent)
			},
			Stores: func(m *kernel.Mapping) []kernel.Store {
				bind := m.Bind(kernel.Binding{Name: "parts", DType: ir.F32, Write: true, Buffer: 9,
					Elems: shape.MaxElems()})
				return []kernel.Store{{Bind: bind, Index: kernel.Axis(len(shape)-1, shape[len(shape)-1]),
					Value: m.Builder.Acc(0, ir.F32, "acc")}}
			}})
		rest := kernel.Map(k, kernel.Edit{Family: kernel.FamilyMap, Stores: func(m *kernel.Mapping) []kernel.Store {
			bind := m.Bind(kernel.Binding{Name: "parts", DType: ir.F32, Read: true, Buffer: 9, Elems: shape.MaxElems()})
			var total *kernel.Expr
			for i := range n {
				part := m.Builder.Load(bind, ir.F32, kernel.Axis(len(k.Parallel)-1, k.Parallel[len(k.Parallel)-1]).
					Plus(kernel.Const(int64(i))), "parts")
				if total == nil {
					total = part
				} else {
					total = m.Builder.Apply(ir.OpAdd, ir.F32, nil, total, part)
				}
			}
			m.Acc = func(*kernel.Expr) *kernel.Expr { return total }
			return m.Stores()
		}})
		w := kernel.Rewrite{Before: []*kernel.Kernel{k}, After: []*kernel.Kernel{sums, rest}, Margin: 1 / 0.9,
			LastSplit: true}
		if gain := NewPricer(caps).Price(w).Gain(); gain > most {
			best, most = n, gain
		}
	}
	return best
}

func TestSplitSums(t *testing.T) {
	cases := []struct {
		what   string
		device string
		k      *kernel.Kernel
		want   int
	}{
		{"fills the device", "nvidia-h100", matrixMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F16, false), 1},
		{"few results", "nvidia-h100", matrixMul(one, ir.D(64), ir.D(512), ir.D(16384), ir.F16, true), 16},
		{"not on matrix units", "nvidia-h100", matMul(one, ir.D(64), ir.D(512), ir.D(16384), ir.F32, true), 16},
		{"parts too short", "nvidia-h100", matMul(one, ir.D(64), ir.D(512), ir.D(240), ir.F32, true), 1},
		{"not on matrix units, by unknown rates", "amd-rdna3",
			matMul(one, ir.D(64), ir.D(512), ir.D(16384), ir.F32, true), 1},
		{"few rows are for matvec", "nvidia-h100", matrixMul(one, ir.D(4), ir.D(512), ir.D(16384), ir.F16, true), 1},
		{"shallow", "nvidia-h100", matrixMul(one, ir.D(64), ir.D(512), ir.D(320), ir.F16, true), 1},
		{"not a whole number of steps", "nvidia-h100", matrixMul(one, ir.D(64), ir.D(512), ir.D(16383), ir.F16, true),
			1},
		{"few results, by rates that are guessed", "amd-rdna3", matrixMul(one, ir.D(64), ir.D(512), ir.D(16384),
			ir.F16, true), 8},
		{"no matrix units", "generic", matrixMul(one, ir.D(64), ir.D(512), ir.D(16384), ir.F16, true), 1},
	}
	for _, c := range cases {
		if got := bestParts(c.k, profile(t, c.device)); got != c.want {
			t.Errorf("%s: %d parts, want %d", c.what, got, c.want)
		}
	}
}

// A matmul that does not use the fastest variant gives the reason.
func TestMatrixReason(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	caps.Matrix2 = nil
	_, reason, err := Select(samples["matmul f16 4096"], caps)
	if err != nil || !strings.Contains(reason, "passed over") ||
		!strings.Contains(reason, "no VK_NV_cooperative_matrix2") {
		t.Errorf("%q, %v", reason, err)
	}
}

// A value that is both A and B is two tiles.
func TestMatrixUnitsOfOneValue(t *testing.T) {
	apart := matrixMul(one, ir.D(128), ir.D(128), ir.D(128), ir.F16, true)
	same := matrixMul(one, ir.D(128), ir.D(128), ir.D(128), ir.F16, true)
	same.MatMuls[0].B = same.MatMuls[0].A
	s := kernel.CoopMat{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat,
		Workgroup: 128, Vec: 4, Subgroup: 32}, Tile: kernel.Tile{TileM: 32, TileN: 32, TileK: 64}},
		Fragment: kernel.Fragment{FragM: 16, FragN: 16, FragK: 16}, SubgroupsM: 2, SubgroupsN: 2}
	if have, want := MatrixUnits(same, s), MatrixUnits(apart, s); have != want {
		t.Errorf("the tiles take %d units of shared memory, want %d", have, want)
	}
}
