package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
)

// rate is the speed of a tile; see [matrixTile].
type rate struct{ Efficiency, Alone float64 }

// TileRate is a tile of a table of heuristics, with its rates and the kernels that it suits.
type TileRate struct {
	Table RateTable
	Tile  string // as in [Rated]
	For   string // the kernels that it suits, "" for all
	// Efficiency is a fraction of the device's peak rate, Alone the same with one workgroup per core, or 0.
	Efficiency, Alone float64

	tile matrixTile
}

// Key identifies the tile among all tiles.
func (r TileRate) Key() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Table, r.Tile, r.For))
}

// Suits reports whether the tile is for a kernel with these traits, in the given measured tile.
func (r TileRate) Suits(t Traits, m Rated) bool {
	return r.Table == m.Table && r.Tile == m.Tile && r.tile.suits(t)
}

// Time estimates the nanoseconds of a kernel in the tile, without its launch and without regard to memory.
func (r TileRate) Time(m Rated, machine device.Machine, cores int64) float64 {
	tl := r.tile
	tl.Efficiency, tl.Alone = r.Efficiency, r.Alone
	return tl.time(m.Groups, cores, m.Flops, r.Table.peak(machine)) * m.Slow
}

// Square returns the facts of a square matmul of this size in the tile, or of an attention of as many queries and keys
// with 32 heads of 64 elements.
func (r TileRate) Square(size int64) Rated {
	sh, n := matShape{Batch: 1, M: size, N: size, K: size}, max(r.tile.MatMuls, 1)
	m := Rated{Table: r.Table, Tile: r.Tile, Slow: 1}
	if r.Table == RatesFlash {
		m.Groups, m.Flops = 32*ceil.Div(size, int64(r.tile.M)), tileFlops(r.tile.M, 1, 2*64*(size+flashStart), 1)
		return m
	}
	m.Groups, m.Flops = sh.workgroups(r.tile.M, r.tile.N/n), tileFlops(r.tile.M, r.tile.N/n, size, n)
	return m
}

// peak is the peak rate of a device for the tiles of a table, in thousands of operations per nanosecond.
func (t RateTable) peak(m device.Machine) float64 {
	switch t {
	case RatesMatrix:
		return m.MatrixF16
	case RatesBytes:
		return m.MatrixI8
	case RatesHalves:
		return m.MatrixF16 / 2
	}
	return m.VectorF32
}

// tileRates lists the tiles of all tables.
func (h *heuristics) tileRates() (all []TileRate) {
	h.eachRate(func(r TileRate, _, _ *float64) { all = append(all, r) })
	return all
}

// setRates sets the rates of each tile to the fitted rates for its key. Tiles without fitted rates keep their own.
func (h *heuristics) setRates(fitted map[string]rate) {
	h.eachRate(func(r TileRate, efficiency, alone *float64) {
		if f, ok := fitted[r.Key()]; ok {
			*efficiency, *alone = f.Efficiency, f.Alone
		}
	})
}

// eachRate calls f for each tile of each table, with pointers to its rates.
func (h *heuristics) eachRate(f func(r TileRate, efficiency, alone *float64)) {
	for _, t := range []struct {
		table RateTable
		tiles []matrixTile
	}{{RatesMatrix, h.matrixTiles}, {RatesBytes, h.byteTiles}, {RatesHalves, h.halvesTiles}} {
		for i := range t.tiles {
			tl := &t.tiles[i]
			named := *tl
			if t.table == RatesHalves {
				named.K = 0 // steps are as long as the format wants
			}
			r := TileRate{Table: t.table, Tile: named.name(), For: tl.restrictions(), Efficiency: tl.Efficiency,
				Alone: tl.Alone, tile: *tl}
			f(r, &tl.Efficiency, &tl.Alone)
		}
	}
	for _, t := range []struct {
		table RateTable
		tiles []ratedTile
	}{{RatesFloat, h.tiles}, {RatesFlash, h.flashTiles}} {
		for i := range t.tiles {
			tl := &t.tiles[i]
			r := TileRate{Table: t.table, Tile: tl.name(), Efficiency: tl.Efficiency, Alone: tl.Alone,
				tile: matrixTile{M: tl.M, N: tl.N}}
			f(r, &tl.Efficiency, &tl.Alone)
		}
	}
}

// restrictions describes the kernels that a tile is for, "" for all.
func (tl matrixTile) restrictions() string {
	var parts []string
	for _, p := range []struct {
		holds bool
		text  string
	}{{tl.Blocks, "blocks"}, {tl.Stored, "stored"}, {tl.Runs, "runs"}, {tl.NoRuns, "no-runs"}, {tl.Few, "few-rows"},
		{tl.MatMuls > 0, fmt.Sprint("matmuls=", tl.MatMuls)}} {
		if p.holds {
			parts = append(parts, p.text)
		}
	}
	return strings.Join(parts, " ")
}

// Rated has the facts from which the heuristics estimate the time of a schedule in tiles, except the rate of its tile.
// A table of rates and these facts give an estimate, which can be compared with a measured time.
type Rated struct {
	Table  RateTable `json:"table"`
	Tile   string    `json:"tile"`          // its shape and layout
	Groups int64     `json:"groups"`        // workgroups
	Flops  float64   `json:"flops"`         // of a workgroup
	Slow   float64   `json:"slow"`          // the slowdown factor of the tile for the kernel
	Why    string    `json:"why,omitempty"` // the reason for Slow
}

// RateTable names a table of tiles with rates.
type RateTable string

// The tables of tiles.
const (
	RatesMatrix RateTable = "matrix" // matmuls on cooperative matrices
	RatesBytes  RateTable = "bytes"  // matmuls of int8 on cooperative matrices
	RatesHalves RateTable = "halves" // matmuls of exact rows by blocks, with rows as two f16 values
	RatesFloat  RateTable = "float"  // matmuls on ordinary arithmetic
	RatesFlash  RateTable = "flash"  // attentions on ordinary arithmetic
)

// Traits are the facts of a kernel that decide which tiles suit it, and the least time that it takes.
type Traits struct {
	Rows    int64   `json:"rows"`             // of A; 0 for an attention
	MatMuls int     `json:"products"`         // number of matmuls
	Blocks  bool    `json:"blocks,omitempty"` // B has blocks
	Runs    bool    `json:"runs,omitempty"`   // operands are contiguous only in runs
	ReadNs  float64 `json:"read_ns"`          // nanoseconds to read the inputs once
	StoreNs float64 `json:"store_ns"`         // nanoseconds to store the results
}

// TraitsOf returns the traits of a matmul or an attention.
func TraitsOf(k *kernel.Kernel, caps device.Caps) Traits {
	h := heuristicsOf(caps)
	t := Traits{MatMuls: max(len(k.MatMuls), 1), ReadNs: h.readTime(k), StoreNs: h.storeTime(k)}
	if k.Family == kernel.FamilyMatMul && len(k.Parallel) >= 2 {
		t.Rows, t.Blocks, t.Runs = matShapeOf(k).M, readsAnyBlocks(k), inRuns(k)
	}
	return t
}

// readsAnyBlocks reports whether the B of some matmul has blocks.
func readsAnyBlocks(k *kernel.Kernel) bool {
	return slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool { return k.ReadsBlocks(p.B) })
}

// suits reports whether a tile is for kernels with these traits.
func (tl matrixTile) suits(t Traits) bool {
	return (!tl.Blocks || t.Blocks) && (!tl.Stored || !t.Blocks) && (!tl.Runs || t.Runs) && (!tl.NoRuns || !t.Runs) &&
		(!tl.Few || t.Rows <= int64(tl.M)) && (tl.MatMuls == 0 || tl.MatMuls == t.MatMuls)
}

// RatedOf returns the facts by which the time of a kernel's schedule is estimated. It returns false for a schedule that
// no [RateTable] covers.
func RatedOf(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) (Rated, bool) {
	h := heuristicsOf(caps)
	_, bytes := ByteMatMuls(k)
	table := RatesMatrix
	if bytes {
		table = RatesBytes
	}
	n := len(k.MatMuls)
	switch s := s.(type) {
	case kernel.CoopMat2:
		tl := matrixTile{Variant: s.Variant, Workgroup: s.Workgroup, M: s.TileM, N: n * s.TileN, K: s.TileK,
			PiecesM: s.PiecesM, PiecesN: s.PiecesN, Unroll: s.Unroll}
		return h.ratedMatrix(k, s, table, tl), true
	case kernel.CoopMat:
		tl := matrixTile{Variant: s.Variant, SubgroupsM: s.SubgroupsM, SubgroupsN: s.SubgroupsN, M: s.TileM,
			N: n * s.TileN, K: s.TileK, OneStage: s.OneStage}
		return h.ratedMatrix(k, s, table, tl), true
	case kernel.Skinny: // only its form with rows as two f16 has tiles, and then subgroups
		tl := matrixTile{Variant: s.Variant, SubgroupsM: s.SubgroupsM, SubgroupsN: s.SubgroupsN, M: s.TileM,
			N: s.TileN, Stages: s.Stages}
		sh := matShapeOf(k)
		return Rated{Table: RatesHalves, Tile: tl.name(), Groups: sh.workgroups(tl.M, tl.N),
			Flops: tileFlops(tl.M, tl.N, sh.K, 1), Slow: 1}, s.SubgroupsM > 0
	case kernel.MatTile:
		tl := ratedTile{tile: tile{s.TileM, s.TileN, s.TileK, s.ThreadM, s.ThreadN}, Stages: s.Stages,
			Paired: s.Paired, Steps: s.Steps}
		sh := matShapeOf(k)
		depth := ceil.Multiple(sh.K, int64(tl.K)) // whole steps
		return Rated{Table: RatesFloat, Tile: tl.name(), Groups: sh.workgroups(tl.M, tl.N),
			Flops: tileFlops(tl.M, tl.N, depth, n), Slow: 1}, !bytes
	case kernel.FlashTile:
		tl := ratedTile{tile: tile{s.TileM, s.TileN, s.TileK, s.ThreadM, s.ThreadN}, Paired: s.Paired, Steps: s.Steps}
		groups, depth := flashShapeOf(k).work(tl, max(s.Splits, 1))
		flops := tileFlops(tl.M, 1, depth, 1)
		return Rated{Table: RatesFlash, Tile: tl.name(), Groups: groups, Flops: flops, Slow: 1}, true
	}
	return Rated{}, false
}

// ratedMatrix returns the facts for the estimate of a tile on cooperative matrices. tl.N counts the columns of all
// matmuls of the kernel, which have tl.N/n columns each.
func (h heuristics) ratedMatrix(k *kernel.Kernel, s kernel.Schedule, table RateTable, tl matrixTile) Rated {
	sh, n := matShapeOf(k), len(k.MatMuls)
	slow := h.slowdown(k, s)
	return Rated{Table: table, Tile: tl.name(), Groups: sh.workgroups(tl.M, tl.N/n),
		Flops: tileFlops(tl.M, tl.N/n, sh.K, n), Slow: slow.factor, Why: slow.why}
}

// tileFlops is the number of operations of a workgroup that computes a tile.
func tileFlops(m, n int, depth int64, matmuls int) float64 {
	return 2 * float64(m*n*matmuls) * float64(depth)
}

// name describes the shape and layout of a tile on cooperative matrices, as "coopmat 128x64x32 stages=2" does. It
// leaves out the tile's rates and the conditions on its kernels. It prints no K if K is 0: then the kernel's format
// determines the length of a step.
func (tl matrixTile) name() string {
	parts := []string{fmt.Sprintf("%s %dx%d", tl.Variant, tl.M, tl.N)}
	if tl.K > 0 {
		parts[0] += fmt.Sprint("x", tl.K)
	}
	if tl.Workgroup > 0 {
		parts = append(parts, fmt.Sprint("wg=", tl.Workgroup))
	}
	if tl.SubgroupsM > 0 {
		parts = append(parts, fmt.Sprintf("subgroups=%dx%d", tl.SubgroupsM, tl.SubgroupsN))
	}
	if tl.PiecesM > 1 || tl.PiecesN > 1 {
		parts = append(parts, fmt.Sprintf("pieces=%dx%d", max(tl.PiecesM, 1), max(tl.PiecesN, 1)))
	}
	if tl.Stages > 1 {
		parts = append(parts, fmt.Sprint("stages=", tl.Stages))
	}
	if tl.OneStage {
		parts = append(parts, "one-stage")
	}
	if tl.Unroll > 0 {
		parts = append(parts, "unrolled")
	}
	return strings.Join(parts, " ")
}

// name describes a tile without its rates.
func (t ratedTile) name() string {
	parts := []string{fmt.Sprintf("%dx%dx%d threads=%dx%d", t.M, t.N, t.K, t.ThreadM, t.ThreadN)}
	if max(t.schedule().Stages, t.Stages) > 1 {
		parts = append(parts, "stages=2")
	}
	if t.Paired {
		parts = append(parts, "paired")
	}
	if t.Steps {
		parts = append(parts, "steps")
	}
	return strings.Join(parts, " ")
}

// RatedCandidates lists the choice of [Select] for a kernel, and its other candidates in tiles with rates in the same
// table. It returns nil if the choice has no such tile.
func RatedCandidates(k *kernel.Kernel, caps device.Caps) []Candidate {
	s, reason, err := Select(k, caps)
	if err != nil {
		return nil
	}
	first, ok := RatedOf(k, s, caps)
	if !ok {
		return nil
	}
	all := []Candidate{{s, reason}}
	seen := map[kernel.Schedule]bool{s: true}
	for _, c := range Candidates(k, caps) {
		c.Schedule = withSplits(c.Schedule, AttentionTileOf(s).Splits) // as in Variants
		r, ok := RatedOf(k, c.Schedule, caps)
		if !ok || r.Table != first.Table || seen[c.Schedule] || refusal(k, c.Schedule, caps) != nil {
			continue
		}
		seen[c.Schedule] = true
		all = append(all, c)
	}
	return all
}
