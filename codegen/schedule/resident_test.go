package schedule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// blockMul is a matmul of f32 rows with blocks along the contraction axis.
func blockMul(m, n, k int, t ir.DType, byteRows bool) *kernel.Kernel {
	mul := matrixMul(one, ir.D(m), ir.D(n), ir.D(k), ir.F16, true)
	b, p := kernel.NewBuilder(), mul.MatMuls[0]
	mul.Bindings[0].DType, mul.Bindings[1].DType, mul.Bindings[2].DType = ir.F32, t, ir.F32
	mul.MatMuls[0] = kernel.MatMul{A: b.Load(0, ir.F32, p.A.Index, "a"), B: b.Load(1, t, p.B.Index, "b"),
		Name: "acc", Operands: ir.F32, ByteRows: byteRows}
	mul.Stores[0].Value = b.Acc(0, ir.F32, "acc")
	if book := quant.Codebook(t); book != nil {
		mul.Bindings = append(mul.Bindings, kernel.Binding{Name: "codebook", DType: book.DType, Read: true,
			Elems: int64(book.Elems()), Codebook: t, Fixed: true})
	}
	return mul
}

// inPlaneLayout is a kernel with the blocks of its B in planes.
func inPlaneLayout(k *kernel.Kernel) *kernel.Kernel {
	k.Bindings[1].Layout = kernel.LayoutPlanes
	return k
}

// TestRoundableByCodebook: blocks with a codebook of floats are not multiplied as integers.
func TestRoundableByCodebook(t *testing.T) {
	for _, dt := range ir.DTypes() {
		if !dt.IsBlock() {
			continue
		}
		book := quant.Codebook(dt)
		k := blockMul(1, 64, 4096, dt, true)
		if want := book == nil || !book.DType.IsFloat(); roundable(k, false) != want || !roundable(k, true) {
			t.Errorf("%s: rows may become bytes %v, want %v; by lookup %v", dt, roundable(k, false), want,
				roundable(k, true))
		}
	}
	k := blockMul(1, 64, 4096, ir.Q4_0, true) // stands for a new format with levels
	k.Bindings = append(k.Bindings,
		kernel.Binding{Name: "codebook", DType: ir.F32, Read: true, Elems: 16, Codebook: ir.Q4_0, Fixed: true})
	if roundable(k, false) {
		t.Error("rows may become bytes to meet levels that are floats")
	}
}

func TestResidentLanes(t *testing.T) {
	for _, c := range []struct {
		depth int64
		run   int
		want  int
	}{
		{14336, 32, 448}, {14336, 64, 224}, {4096, 32, 128}, {11008, 32, 352}, {28672, 32, 448}, {53248, 32, 416},
		{256, 64, 32}, {1 << 20, 32, 512},
	} {
		if got := residentLanes(c.depth, c.run, 32, maxResidentLanes); got != c.want {
			t.Errorf("%d elements in runs of %d: %d lanes, want %d", c.depth, c.run, got, c.want)
		}
	}
}

// TestResidentCheck refuses rows that would not be resident, or must not round them.
func TestResidentCheck(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	resident := matVecSchedule(matShape{M: 1}, 448, 4*14, 4, 448, 32)
	resident.Coarsen, resident.TileK = 14, 32
	rounds := resident
	rounds.RoundRows = true
	with := func(s kernel.MatVec, change func(*kernel.MatVec)) kernel.MatVec {
		change(&s)
		return s
	}
	prefetch := func(p kernel.Prefetch) func(*kernel.MatVec) {
		return func(s *kernel.MatVec) { s.Prefetch = p }
	}
	made := func(prefetch string) string {
		return "= matvec wg=448 rows=1x56 vec=4 run=32 " + prefetch +
			"coarsen=14 rounds subgroup=32 lanes=448 strips int_dot"
	}
	slow := h100
	slow.Features.IntegerDotProduct = false
	for _, c := range []struct {
		what string
		k    *kernel.Kernel
		s    kernel.Schedule
		caps device.Caps
		want string // in the error, or none
	}{
		{"resident", blockMul(1, 14336, 14336, ir.Q4_0, false), resident, h100, ""},
		{"rounded", blockMul(1, 14336, 14336, ir.Q4_0, true), rounds, h100, ""},
		{"passes that do not divide the tile", blockMul(1, 14336, 14336, ir.Q4_0, false), with(resident,
			func(s *kernel.MatVec) { s.Coarsen = 15 }), h100, "divide"},
		{"rows that may not be rounded", blockMul(1, 14336, 14336, ir.Q4_0, false), rounds, h100,
			"may not become bytes"},
		{"levels of any size", blockMul(1, 14336, 14336, ir.IQ4_NL, true), rounds, h100, "may not become bytes"},
		{"rows too long", blockMul(1, 128, 1<<20, ir.Q4_0, true), rounds, h100,
			"= matvec wg=448 rows=1x56 vec=4 coarsen=14 subgroup=32 lanes=448"},
		{"no passes", blockMul(1, 14336, 14336, ir.Q4_0, true), with(rounds, func(s *kernel.MatVec) {
			s.Coarsen,
				s.TileN = 0, 4
		}), h100, ""},
		{"no passes, longer than resident", blockMul(1, 128, 1<<15, ir.Q4_0, true), with(rounds,
			func(s *kernel.MatVec) { s.Coarsen, s.TileN, s.LanesPerRow, s.Workgroup = 0, 4, 32, 32 }), h100, ""},
		{"no passes, no blocks at once", blockMul(1, 14336, 14336, ir.Q4_0, true), with(rounds,
			func(s *kernel.MatVec) { s.Coarsen, s.TileN, s.TileK = 0, 4, 0 }), h100,
			"= matvec wg=448 rows=1x4 vec=4 subgroup=32 lanes=448"},
		{"sectors", inPlaneLayout(blockMul(1, 14336, 14336, ir.Q4_0, true)), with(rounds, prefetch(sectors(2))), h100,
			made("prefetch=sectors:2 ")},
		{"more sectors than the first pass has", inPlaneLayout(blockMul(1, 14336, 14336, ir.Q4_0, true)),
			with(rounds, prefetch(sectors(9))), h100, made("prefetch=sectors:2 ")},
		{"sectors of rows that are not quantized", blockMul(1, 14336, 14336, ir.Q4_0, false),
			with(resident, prefetch(sectors(1))), h100, "= matvec wg=448 rows=1x56 vec=4 run=32 coarsen=14 " +
				"subgroup=32 lanes=448 strips chained"},
		{"sectors in no passes", blockMul(1, 14336, 14336, ir.Q4_0, false),
			with(with(resident, prefetch(sectors(1))), func(s *kernel.MatVec) { s.Coarsen, s.TileN = 0, 4 }), h100,
			"= matvec wg=448 rows=1x4 vec=4 run=32 subgroup=32 lanes=448 strips"},
		{"cache", blockMul(1, 14336, 14336, ir.Q4_0, true), with(rounds, prefetch(toCache)), h100,
			made("prefetch=cache ")},
		{"cache, of rows that are not quantized", blockMul(1, 14336, 14336, ir.Q4_0, false),
			with(resident, prefetch(toCache)), h100, "= matvec wg=448 rows=1x56 vec=4 run=32 coarsen=14 " +
				"subgroup=32 lanes=448 strips chained"},
		{"registers", inPlaneLayout(blockMul(1, 14336, 14336, ir.Q4_0, true)), with(rounds, prefetch(toRegisters)),
			h100, made("prefetch=registers ")},
		{"registers, of blocks in several reads", inPlaneLayout(blockMul(1, 14336, 14336, ir.Q5_0, true)),
			with(rounds, prefetch(toRegisters)), h100, made("prefetch=cache ")},
		{"runs of resident rows", blockMul(1, 14336, 14336, ir.Q4_0, true), with(rounds, prefetch(runs(2))), h100,
			made("")},
		{"digits", blockMul(1, 14336, 4096, ir.Q4_0, false), with(rounds, func(s *kernel.MatVec) {
			s.Digits,
				s.LanesPerRow, s.Workgroup = 3, 128, 128
		}), h100, ""},
		{"digits of sums that do not fit", blockMul(1, 14336, 4096, ir.Q8_0, false), with(rounds,
			func(s *kernel.MatVec) { s.Digits, s.LanesPerRow, s.Workgroup = 3, 128, 128 }), h100,
			"not blocks of small integers"},
		{"two digits", blockMul(1, 14336, 4096, ir.Q4_0, false), with(rounds, func(s *kernel.MatVec) {
			s.Digits,
				s.LanesPerRow, s.Workgroup = 2, 128, 128
		}), h100, "2 digits"},
		{"no dot products", blockMul(1, 14336, 14336, ir.Q4_0, true), rounds, slow, "dot products"},
		{"small subgroups", blockMul(1, 14336, 14336, ir.Q4_0, true), with(rounds,
			func(s *kernel.MatVec) { s.Subgroup = 4 }), h100, "subgroup"},
	} {
		got, err := New(c.k, c.s, c.caps)
		expect(t, c.what, got, err, c.want)
	}
}

// TestPrefetchDepth refuses depths outside of each mode's limits, and modes that do not exist. The first pass has ten
// sectors per invocation.
func TestPrefetchDepth(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	rounds := matVecSchedule(matShape{M: 1}, 448, 20, 20, 448, 32)
	rounds.Coarsen, rounds.TileK, rounds.RoundRows = 1, 32, true
	streams := rounds
	streams.Coarsen, streams.RoundRows = 0, false
	depth := func(mode kernel.PrefetchMode, n int) kernel.Prefetch { return kernel.Prefetch{Mode: mode, Depth: n} }
	for _, c := range []struct {
		s    kernel.MatVec
		p    kernel.Prefetch
		want string
	}{
		{rounds, sectors(1), "prefetch=sectors:1"}, {rounds, sectors(8), "prefetch=sectors:8"},
		{rounds, sectors(9), "depth 9, want 1 to 8"}, {rounds, sectors(0), "depth 0, want 1 to 8"},
		{rounds, sectors(-1), "depth -1, want 1 to 8"}, {streams, runs(2), "prefetch=runs:2"},
		{streams, runs(16), "prefetch=runs:16"}, {streams, runs(17), "depth 17, want 2 to 16"},
		{streams, runs(1), "depth 1, want 2 to 16"}, {rounds, depth(kernel.PrefetchCache, 1), "depth 1, want 0 to 0"},
		{rounds, depth(kernel.PrefetchRegisters, 2), "depth 2, want 0 to 0"},
		{streams, depth(kernel.PrefetchNone, 1), "depth 1, want 0 to 0"},
		{rounds, depth("line", 0), `unknown prefetch mode "line"`},
	} {
		c.s.Prefetch = c.p
		got, err := New(inPlaneLayout(blockMul(1, 14336, 14336, ir.Q4_0, c.s.RoundRows)), c.s, h100)
		if said := fmt.Sprint(got, err); !strings.Contains(said, c.want) || strings.HasPrefix(c.want, "prefetch=") !=
			(err == nil) {
			t.Errorf("%+v: %s, error %v, want %s", c.p, got, err, c.want)
		}
	}
}

// TestResidentTile: rows pass through shared memory in whole blocks, a share for
// every invocation.
func TestResidentTile(t *testing.T) {
	s := matVecSchedule(matShape{M: 1}, 448, 4, 4, 448, 32)
	s.Coarsen, s.TileK = 1, 32
	for _, c := range []struct {
		depth, lanes int
		dtype        ir.DType
		want         int
	}{
		{14336, 448, ir.Q4_0, 896}, {14336, 448, ir.Q4_K, 896}, {1024, 32, ir.Q4_K, 256}, {2048, 96, ir.Q4_0, 576},
		{11264, 352, ir.Q4_K, 704}, {8448, 288, ir.Q4_K, 0},
	} {
		s.Workgroup, s.LanesPerRow = c.lanes, c.lanes
		if got := ResidentTile(blockMul(1, 64, c.depth, c.dtype, false), s); got != c.want {
			t.Errorf("%d of %s on %d lanes: tile of %d quads, want %d", c.depth, c.dtype, c.lanes, got, c.want)
		}
	}
}

// TestResidentGroups: short rows share workgroups, and rows that leave room on a core run in pairs. Rows of floats are
// resident if measurements support it.
func TestResidentGroups(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	for _, c := range []struct {
		dtype    ir.DType
		n, depth int
		rounds   bool
		want     string
	}{
		{ir.Q4_0, 4096, 4096, true, "wg=512 rows=1x16 vec=4 run=32 prefetch=cache coarsen=1 rounds"},
		{ir.Q4_0, 32000, 4096, true, "wg=512 rows=1x48 vec=4 run=32 prefetch=cache coarsen=3 rounds"},
		{ir.Q4_0, 4096, 11008, true, "wg=704 rows=1x16 vec=4 run=32 prefetch=cache coarsen=2 rounds"},
		{ir.Q4_0, 14336, 14336, true, "wg=448 rows=1x28 vec=4 run=32 prefetch=cache coarsen=7 rounds"},
		{ir.Q5_0, 4096, 11008, true, "wg=704 rows=1x16 vec=4 run=32 coarsen=2 rounds"},
		{ir.Q4_K, 4096, 11008, true, "wg=384 rows=1x16 vec=4 run=64 coarsen=2 rounds"},
		{ir.Q5_K, 14336, 14336, true, "wg=224 rows=1x56 vec=4 run=64 coarsen=14 rounds"},
		{ir.Q4_0, 8192, 2048, true, "wg=256 rows=1x16 vec=4 run=32 prefetch=cache coarsen=1 rounds"},
		{ir.Q4_0, 5120, 5120, true, "wg=160 rows=1x8 vec=4 run=32 prefetch=cache coarsen=2 rounds"},
		{ir.Q4_K, 4096, 4096, true, "wg=64 rows=1x4 vec=4 run=64 coarsen=1 rounds"},
		{ir.Q4_0, 14336, 14336, false, "wg=448 rows=1x56 vec=4 run=32 subnormals coarsen=7"},
		{ir.Q4_0, 4096, 11008, false, "wg=256 rows=1x8 vec=4 run=16 subnormals"},
		{ir.Q5_K, 4096, 14336, false, "wg=224 rows=1x16 vec=4 run=64 subnormals coarsen=2"},
		{ir.Q5_K, 14336, 14336, false, "wg=128 rows=1x8 vec=4 run=32 subnormals"},
	} {
		s, reason, err := Select(blockMul(1, c.n, c.depth, c.dtype, c.rounds), h100)
		if err != nil || !strings.Contains(s.String(), c.want) {
			t.Errorf("%s %dx%d: %s (%s), error %v, want %s", c.dtype, c.n, c.depth, s, reason, err, c.want)
		}
	}
}

// TestResidentProducts: gate and up, which one row meets together, take workgroups of two groups.
func TestResidentProducts(t *testing.T) {
	k := blockMul(1, 11008, 4096, ir.Q4_0, true)
	k.MatMuls = append(k.MatMuls, k.MatMuls[0])
	s, reason, err := Select(k, profile(t, "nvidia-h100"))
	want := "wg=256 rows=1x32 vec=4 run=32 prefetch=cache coarsen=4 rounds"
	if err != nil || !strings.Contains(s.String(), want) {
		t.Errorf("%s (%s), error %v, want %s", s, reason, err, want)
	}
}

// TestResidentSelect: one row is resident on a device that was measured, as bytes where
// it may be, in passes that leave no core idle; more rows become bytes before.
func TestResidentSelect(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	for _, c := range []struct {
		n      int
		rounds bool
		want   string
	}{
		{14336, true, "wg=448 rows=1x56 vec=4 run=32 coarsen=14 rounds"},
		{4096, true, "wg=448 rows=1x16 vec=4 run=32 coarsen=4 rounds"},
		{1024, true, "wg=448 rows=1x4 vec=4 run=32 coarsen=1 rounds"},
		{64, true, "wg=448 rows=1x1 vec=4 run=32 coarsen=1 rounds"},
		{128256, true, "wg=448 rows=1x488 vec=4 run=32 coarsen=122 rounds"},
		{256000, true, "wg=448 rows=1x512 vec=4 run=32 coarsen=128 rounds"},
		{14336, false, "wg=448 rows=1x56 vec=4 run=32 subnormals coarsen=7"},
	} {
		s, reason, err := Select(blockMul(1, c.n, 14336, ir.Q5_0, c.rounds), h100)
		if err != nil || !strings.Contains(s.String(), c.want) {
			t.Errorf("%d columns: %s (%s), error %v, want %s", c.n, s, reason, err, c.want)
		}
	}
	s, _, err := Select(blockMul(1, 1<<17, 28672, ir.Q5_0, true), h100)
	if vec, _ := s.(kernel.MatVec); err != nil || !vec.RoundRows || vec.Coarsen != 62 {
		t.Errorf("rows of 28672: %s, error %v, want them rounded in fewer passes", s, err)
	}
	if WantsBytes(ir.Q5_0, one, ir.D(4096), h100) || !WantsBytes(ir.Q5_0, ir.D(2), ir.D(4096), h100) {
		t.Error("rows of Q5_0 become bytes before the product if and only if there are several")
	}
}
