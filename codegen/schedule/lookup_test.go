package schedule

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// planesVec is a matmul of rows of floats with blocks in the planes layout.
func planesVec(t ir.DType, rows int) *kernel.Kernel {
	k := matMul(one, ir.D(rows), ir.D(512), ir.D(512), t, true)
	k.Bindings[1].Layout = kernel.LayoutPlanes
	k.Bindings = append(k.Bindings, kernel.Binding{Name: "codebook", DType: ir.U32, Elems: 2048, Codebook: t})
	return k
}

func TestCheckLookup(t *testing.T) {
	good := kernel.MatVec{Launch: kernel.Launch{Variant: kernel.VarMatVec, Workgroup: 64, Vec: 4},
		Tile: kernel.Tile{TileM: 1, TileN: 2, TileK: 32}, LanesPerRow: 32, ThreadM: 1, ThreadN: 1, Tables: true,
		Copies: 2}
	blocks := planesVec(ir.IQ2_XS, 1)
	blocks.Bindings[1].Layout = kernel.LayoutBlocks
	for _, c := range []struct {
		what   string
		k      *kernel.Kernel
		change func(*kernel.MatVec)
		want   string // in the error; empty for none
	}{
		{"neighbours", planesVec(ir.IQ2_XS, 1), func(*kernel.MatVec) {}, ""},
		{"short runs", planesVec(ir.IQ2_XS, 1), func(s *kernel.MatVec) { s.TileK = 8 }, ""},
		{"nibbles", planesVec(ir.IQ4_NL, 1), func(*kernel.MatVec) {}, ""},
		{"two rows", planesVec(ir.IQ3_S, 2), func(s *kernel.MatVec) { s.TileM, s.ThreadM = 2, 2 }, ""},
		{"rows in shared memory besides", planesVec(ir.IQ2_XXS, 1), func(s *kernel.MatVec) { s.StageRows = true }, ""},

		{"no tables", planesVec(ir.IQ2_XS, 1), func(s *kernel.MatVec) { s.Tables = false }, "has none"},
		{"no codebook", planesVec(ir.Q4_0, 1), func(*kernel.MatVec) {},
			"= matvec wg=64 rows=1x2 vec=4 run=32 tables lanes=32 strips chained"},
		{"odd copies", planesVec(ir.IQ2_XS, 1), func(s *kernel.MatVec) { s.Copies = 3 }, "power of two"},
		{"negative copies", planesVec(ir.IQ2_XS, 1), func(s *kernel.MatVec) { s.Copies = -1 },
			"= matvec wg=64 rows=1x2 vec=4 run=32 tables lanes=32 strips"},
		{"many copies", planesVec(ir.IQ2_XS, 1), func(s *kernel.MatVec) { s.Copies = 64 }, "up to 32"},
		{"more than shared memory", planesVec(ir.IQ2_S, 1), func(s *kernel.MatVec) { s.Copies = 32 }, "shared memory"},
		{"a plane of quads only", planesVec(ir.IQ4_NL, 1), func(s *kernel.MatVec) { s.TileK = 16 },
			"= matvec wg=64 rows=1x2 vec=4 run=16 tables lanes=32 strips"},
		{"rows that want quads", planesVec(ir.IQ2_XS, 3), func(s *kernel.MatVec) { s.TileM, s.ThreadM = 3, 3 },
			"= matvec wg=64 rows=3x2 vec=4 run=32 tables lanes=32 whole"},
		{"whole blocks", blocks, func(*kernel.MatVec) {},
			"= matvec wg=64 rows=1x2 vec=4 run=32 tables lanes=32 strips"},
		{"more sums than entries", planesVec(ir.IQ2_XXS, 1), func(s *kernel.MatVec) {
			s.Copies, s.Workgroup, s.TileN, s.ThreadN = 1, 256, 64, 8
		}, "no room"},
	} {
		s := good
		c.change(&s)
		got, err := New(c.k, s, profile(t, "nvidia-h100"))
		expect(t, c.what, got, err, c.want)
	}
}

// TestLookupTables checks the size of the tables in shared memory of 48 KiB. The devices on which table copies were
// measured have that much.
func TestLookupTables(t *testing.T) {
	for _, dtype := range ir.BlockFormats() {
		table, ok := LookupTableOf(dtype)
		if !ok {
			continue
		}
		k := planesVec(dtype, 1)
		if size := lookupTableBytes(k, 1); size < table.Entries*table.Bytes || size > 40<<10 {
			t.Errorf("%s: %d bytes", dtype, size)
		}
		if table.Signs.Entries > 0 && table.Signs.Copies*table.Signs.Bytes != 128 {
			t.Errorf("%s: copies of a sign take %d bytes, want one of every bank", dtype,
				table.Signs.Copies*table.Signs.Bytes)
		}
	}
}

// rowOfBytes changes operand A of a matmul to int8 times a scale.
func rowOfBytes(k *kernel.Kernel) {
	b, a := kernel.NewBuilder(), k.MatMuls[0].A
	k.Bindings[0].DType = ir.I8
	k.Bindings = append(k.Bindings, binding("scales", ir.F32, one))
	k.MatMuls[0].A = b.Apply(ir.OpMul, ir.F32, nil, b.Cast(ir.F32, b.Load(0, ir.I8, a.Index, "a")),
		b.Load(3, ir.F32, kernel.Const(0), "scale"))
}

// TestLookupVecs: there is one workgroup per core, the largest in which an invocation has several columns. If a row of
// floats is resident, there are several passes.
func TestLookupVecs(t *testing.T) {
	h100 := profile(t, "nvidia-h100") // 132 cores
	for _, c := range []struct {
		bytes          bool // of the row
		columns, depth int
		workgroup      int // 0 for no such schedule
		lanes          int
		each, passes   int
	}{
		{true, 14336, 14336, 1024, 64, 7, 0},
		{true, 28672, 8192, 1024, 64, 7, 0}, // in two rounds
		{true, 4096, 14336, 512, 64, 4, 0},
		{true, 1024, 14336, 0, 0, 0, 0}, // too few columns to fill tables for
		{true, 4096, 1024, 512, 32, 2, 0},
		{false, 14336, 14336, 896, 448, 7, 8},
		{false, 4096, 14336, 1024, 128, 4, 0},
		{false, 14336, 4096, 1024, 128, 7, 2},
		{false, 1024, 14336, 0, 0, 0, 0},
		{false, 512, 14336, 0, 0, 0, 0},
		{false, 14336, 28672, 0, 0, 0, 0}, // too long a row to hold
		{false, 1 << 22, 256, 0, 0, 0, 0}, // too many sums
	} {
		k := blockMul(1, c.columns, c.depth, ir.IQ2_XS, false)
		if c.bytes {
			rowOfBytes(k)
		}
		all := heuristicsOf(h100).lookupVecs(k, matShapeOf(k))
		if len(all) == 0 {
			all = []Candidate{{Schedule: kernel.MatVec{}}}
		}
		s := all[0].Schedule.(kernel.MatVec)
		if s.Workgroup != c.workgroup || s.LanesPerRow != c.lanes || s.ThreadN != c.each || s.Coarsen != c.passes ||
			(s.Copies == 0) != (c.workgroup == 0) {
			t.Errorf("%dx%d by %v: %s", c.columns, c.depth, map[bool]string{true: "bytes", false: "floats"}[c.bytes], s)
		}
	}
}

// TestLookupRounded: if measurements support it and a core has a moderate number of columns, a matmul rounds its row
// itself. It uses as many table copies as fit next to a long row.
func TestLookupRounded(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	for _, c := range []struct {
		dtype          ir.DType
		columns, depth int
		rounds         bool
		copies         int
	}{
		{ir.IQ4_NL, 14336, 14336, true, 32},
		{ir.IQ4_NL, 14336, 18432, true, 16},
		{ir.IQ4_NL, 14336, 1 << 16, false, 0}, // no room for the row
		{ir.IQ4_NL, 1024, 14336, false, 0},    // too few columns
		{ir.IQ4_NL, 128256, 4096, false, 0},   // many rounds, each of which would round
		{ir.IQ2_XXS, 14336, 14336, false, 0},  // slower with fewer copies,
		{ir.IQ2_XXS, 4096, 14336, true, 8},    // but by few columns
	} {
		k := blockMul(1, c.columns, c.depth, c.dtype, true)
		k.Bindings[1].Layout = kernel.LayoutPlanes
		k.Bindings = append(k.Bindings, kernel.Binding{Name: "codebook", DType: ir.U32, Elems: 2048, Codebook: c.dtype})
		chosen, reason, err := Select(k, h100)
		s, _ := chosen.(kernel.MatVec)
		if err != nil || s.RoundRows != c.rounds || c.rounds && s.Copies != c.copies {
			t.Errorf("%s %dx%d: %s (%s), error %v, want it to round: %v, in %d copies", c.dtype, c.columns, c.depth,
				chosen, reason, err, c.rounds, c.copies)
		}
		if before := WantsBytes(c.dtype, one, ir.D(c.columns), h100); before == c.rounds && c.depth < 1<<16 {
			t.Errorf("%s %dx%d: rows become bytes before the product: %v", c.dtype, c.columns, c.depth, before)
		}
	}
}
