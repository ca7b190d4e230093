package schedule

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// maxVariants is the maximum number of schedules of a kernel that Variants returns.
const maxVariants = 128

// Variants lists the schedules to measure for a kernel on a device; [New] accepts all of them. The first is the choice
// of [Select]. The others are its other [Candidates] and more schedules of all variants, ordered by similarity to the
// first, so that a short measurement tries the most promising ones. It returns nil if the device lacks a feature that
// the kernel needs.
func Variants(k *kernel.Kernel, caps device.Caps) []Candidate {
	if len(Missing(k, caps)) > 0 {
		return nil
	}
	var all []ranked // the cost is the distance to the first
	seen := map[kernel.Schedule]bool{}
	add := func(c Candidate, maxDistance float64) {
		if len(all) > 0 { // keep the number of splits that the kernel has
			c.Schedule = withSplits(c.Schedule, AttentionTileOf(all[0].Schedule).Splits)
		}
		if seen[c.Schedule] || check(k, c.Schedule, caps) != nil {
			return
		}
		seen[c.Schedule] = true
		if len(all) > 0 {
			maxDistance = min(maxDistance, distance(all[0].Schedule, c.Schedule))
		}
		all = append(all, ranked{c, maxDistance})
	}
	for _, c := range Candidates(k, caps) {
		add(c, float64(len(all))/2) // the heuristics' order counts as similarity: two ranks for a doubling
	}
	if len(all) == 0 {
		return nil
	}
	for _, s := range space(k, caps) {
		add(Candidate{normalize(k, s, caps), "to be measured"}, math.Inf(1))
	}
	list := append([]Candidate{all[0].Candidate}, byCost(all[1:])...)
	return list[:min(len(list), maxVariants)]
}

// variantDistance is the distance (see distance) between schedules of different variants, or between a schedule that
// quantizes rows and one that does not.
const variantDistance = 2

// distance measures how much two schedules differ: the number of doublings of their numeric fields that lead from one
// to the other, where a change from 0 counts as one.
func distance(a, b kernel.Schedule) float64 {
	d := 0.0
	vecA, _ := a.(kernel.MatVec)
	vecB, _ := b.(kernel.MatVec)
	if a.Config().Variant != b.Config().Variant || vecA.RoundRows != vecB.RoundRows {
		d = variantDistance
	}
	numbersA, numbersB := kernel.Numbers(a), kernel.Numbers(b)
	names := maps.Clone(numbersA)
	maps.Copy(names, numbersB)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch n, m := numbersA[name], numbersB[name]; {
		case n == m:
		case n <= 0 || m <= 0:
			d++
		default:
			d += math.Abs(math.Log2(n / m))
		}
	}
	return d
}

// space lists schedules of all variants of a kernel's family; [New] rejects many of them.
func space(k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	if list := families[k.Family].space; list != nil {
		return list(k, caps)
	}
	return nil
}

// doublings yields from, 2*from, 4*from, and so on, while they are at most to.
func doublings(from, to int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := from; n <= to; n *= 2 {
			if !yield(n) {
				return
			}
		}
	}
}

// groupSpace lists schedules of kernels that group elements.
func groupSpace(*kernel.Kernel, device.Caps) []kernel.Schedule {
	var all []kernel.Schedule
	for wg := range doublings(smallest, maxGroupLanes) {
		all = append(all, launch(kernel.VarGroup, wg, 1))
	}
	return all
}

// mapSpace lists schedules of maps: plain ones, and transposing ones if the map has a transposition.
func mapSpace(k *kernel.Kernel, _ device.Caps) []kernel.Schedule {
	var all []kernel.Schedule
	for wg := range doublings(32, 1024) {
		for vec := range doublings(1, mapVec(k)) {
			s := kernel.Points{Launch: launch(kernel.VarMap, wg, vec)}
			all = append(all, s)
			for s.Coarsen = 2; s.Coarsen <= maxCoarsen; s.Coarsen *= 2 {
				all = append(all, s) // checkCoarsen rejects it if points share nothing
			}
		}
	}
	if _, ok := TranspositionOf(k); !ok {
		return all
	}
	for wg := range doublings(32, 512) {
		for m := range doublings(16, 128) {
			for n := range doublings(16, 128) {
				all = append(all, kernel.MapTile{Launch: launch(kernel.VarMapTile, wg, 4), TileM: m, TileN: n})
			}
		}
	}
	return all
}

// rowSpace lists schedules of row kernels and scans: with one invocation per row, and with lanes that share a row.
func rowSpace(serial, group kernel.Variant, caps device.Caps) []kernel.Lanes {
	var all []kernel.Lanes
	for vec := range doublings(1, 4) {
		for wg := range doublings(32, 256) {
			all = append(all, kernel.Lanes{Launch: launch(serial, wg, vec), LanesPerRow: 1})
		}
		for lanes := range doublings(2, 1024) {
			for wg := range doublings(max(lanes, 32), 1024) {
				for _, subgroup := range subgroups(caps) {
					s := kernel.Lanes{Launch: launch(group, wg, vec), LanesPerRow: lanes}
					s.Subgroup = subgroup
					all = append(all, s)
				}
			}
		}
	}
	return all
}

func scanSpace(_ *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	return schedules(rowSpace(kernel.VarScanSerial, kernel.VarScanGroup, caps))
}

// schedules converts a list of schedules of one type to a list of the interface type.
func schedules[P kernel.Schedule](list []P) (all []kernel.Schedule) {
	for _, s := range list {
		all = append(all, s)
	}
	return all
}

// foldSpace lists schedules of row kernels, with and without keeping the row in registers.
func foldSpace(k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	all := windowSpace(k)
	for _, lanes := range rowSpace(kernel.VarRowSerial, kernel.VarRowGroup, caps) {
		s := kernel.Row{Launch: lanes.Launch, LanesPerRow: lanes.LanesPerRow}
		all = append(all, s)
		each := int64(roundUp(int(min(ceilDiv(k.Fold.Max(), int64(s.LanesPerRow)), maxCached+1)), s.Vec))
		if readsTwice(k) && k.Fold.IsStatic() && each <= maxCached {
			s.Cache = int(each)
			all = append(all, s)
		}
	}
	return all
}

// sortSpace lists schedules of sorts and selections.
func sortSpace(k *kernel.Kernel, _ device.Caps) []kernel.Schedule {
	var all []kernel.Schedule
	for wg := range doublings(2, 1024) {
		selected := selectSchedule(k, wg)
		selected.Cache = min(selected.Cache, maxSelectCache)
		all = append(all, kernel.Lanes{Launch: launch(kernel.VarSort, wg, 1), LanesPerRow: wg}, selected)
	}
	return all
}

// subgroups returns the subgroup sizes to try: the device's, if kernels can rely on it, and 0 for none.
func subgroups(caps device.Caps) []int {
	if n := subgroupOf(caps); n > 0 {
		return []int{n, 0}
	}
	return []int{0}
}

// matVecSpace lists schedules of the matvec variant, for matmuls of few rows.
func matVecSpace(k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	sh := matShapeOf(k)
	if sh.M > mostMatVecRows || len(k.MatMuls) == 0 {
		return nil
	}
	sh.M = ceilDiv(sh.M, matVecParts(sh.M))
	columns := 1 // lanes along the columns have one each
	if FoldContiguous(k, k.MatMuls[0].B, len(k.Parallel)-1) {
		columns = 8
	}
	readings := blockReadings(k, caps)
	var all []kernel.Schedule
	for wg := range doublings(32, 512) {
		for lanes := range doublings(1, wg) {
			for cols := range doublings(1, columns) {
				for _, r := range readings {
					for _, subgroup := range subgroups(caps) {
						s := matVecSchedule(sh, lanes, wg/lanes*cols, cols, wg, subgroup)
						s.TileK, s.Prefetch, s.Subnormals, s.Tables, s.Copies, s.StageRows = r.TileK, r.Prefetch,
							r.Subnormals, r.Tables, r.Copies, r.StageRows
						all = append(all, s)
					}
				}
			}
		}
	}
	return append(all, residentSpace(k, sh, caps)...)
}

// residentSpace lists the schedules of a matvec that keeps its row in registers.
func residentSpace(k *kernel.Kernel, sh matShape, caps device.Caps) []kernel.Schedule {
	subgroup := subgroupOf(caps)
	if blocksOf(k) == ir.Invalid || subgroup == 0 {
		return nil
	}
	var all []kernel.Schedule
	for _, r := range blockReadings(k, caps) {
		if r.Prefetch.Mode != kernel.PrefetchNone || r.StageRows {
			continue
		}
		lanes := residentLanes(sh.K, r.TileK, subgroup, maxResidentLanes)
		for cols := range doublings(1, 16) {
			for passes := range doublings(1, 32) {
				s := matVecSchedule(sh, lanes, cols*passes, cols, lanes, subgroup)
				s.Coarsen, s.TileK, s.Subnormals, s.Tables, s.Copies = passes, r.TileK, r.Subnormals, r.Tables, r.Copies
				all = append(all, s)
				all = append(all, roundings(k, s)...)
			}
		}
	}
	return all
}

// roundings lists variants of a schedule with a resident row that also quantize the row.
func roundings(k *kernel.Kernel, s kernel.MatVec) []kernel.Schedule {
	var all []kernel.Schedule
	s.RoundRows, s.Subnormals = true, false
	for _, s.Digits = range []int{0, maxDigits} {
		if s.Digits == 0 && !roundable(k, s.Copies > 0) || s.Digits > 0 && !holdsIntegers(k, false) {
			continue
		}
		for _, s.Prefetch.Mode = range []kernel.PrefetchMode{kernel.PrefetchNone, kernel.PrefetchCache,
			kernel.PrefetchRegisters} {
			all = append(all, s)
		}
	}
	return all
}

// blockReadings lists ways to read the quantized blocks of a matvec, as schedules with only the fields TileK,
// Subnormals, Prefetch, StageRows, Tables and Copies set. Quants become floats by way of subnormal halves (Subnormals)
// if devices of this class preserve them. If the matvec reads no blocks, it returns one zero schedule.
func blockReadings(k *kernel.Kernel, caps device.Caps) []kernel.MatVec {
	b := blocksOf(k)
	if b == ir.Invalid {
		return []kernel.MatVec{{}}
	}
	subnormals := heuristicsOf(caps).subnormals
	var plain []kernel.MatVec
	for run := range doublings(8, 64) {
		s := kernel.MatVec{Tile: kernel.Tile{TileK: run}, Subnormals: subnormals && !readsBytes(k)}
		ahead, staged := s, s
		ahead.Prefetch, staged.StageRows = runs(2), true
		plain = append(plain, s, staged, ahead)
	}
	if tableBytes(k) == 0 {
		return plain
	}
	all := slices.Clone(plain)
	for _, s := range plain {
		s.Tables = true
		all = append(all, s)
		for s.Copies = range doublings(1, maxCopies) {
			all = append(all, s)
		}
	}
	return all
}

// tileSpace lists tiles of up to maxM rows, and of up to 128 columns, for workgroups of 32 to 512 invocations.
func tileSpace(maxM int) []tile {
	var all []tile
	for m := range doublings(8, maxM) {
		for n := range doublings(8, 128) {
			for tm := range doublings(1, 8) {
				for tn := range doublings(1, 8) {
					t := tile{M: m, N: n, ThreadM: tm, ThreadN: tn}
					if wg := t.workgroup(); wg < 32 || wg > 512 {
						continue
					}
					for t.K = range doublings(8, 32) {
						all = append(all, t)
					}
				}
			}
		}
	}
	return all
}

// matTileSpace lists schedules of matmuls in tiles of shared memory, with each layout and number of stages.
func matTileSpace() []kernel.Schedule {
	var all []kernel.Schedule
	wide := []tile{{128, 128, 8, 8, 16}, {128, 128, 8, 16, 8}, {128, 256, 8, 8, 16}, {256, 128, 8, 16, 8}}
	for _, t := range append(tileSpace(128), wide...) {
		s := t.schedule()
		// The usual number, and the other one: 0 means one stage.
		for _, s.Stages = range []int{s.Stages, 2 - s.Stages} {
			for _, s.Paired = range []bool{false, true} {
				for _, s.Steps = range []bool{false, true} {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// directSpace lists schedules of the direct variant. It spreads rows evenly over tiles, as the candidates do.
func directSpace(k *kernel.Kernel) []kernel.Schedule {
	sh := matShapeOf(k)
	if sh.M < 2 || !cheapOperands(k) {
		return nil
	}
	var all []kernel.Schedule
	for most := range doublings(2, 16) {
		rows := int(ceilDiv(sh.M, ceilDiv(sh.M, int64(most)))) // spread evenly over the fewest tiles
		for columns := range doublings(1, 8) {
			for depth := range doublings(4, 16) {
				for wg := range doublings(smallest, 256) {
					all = append(all, directSchedule(rows, columns, depth, wg))
				}
			}
		}
	}
	return all
}

// minPieces is the minimum number of accumulators of a coopmat2 tile that makes dividing it into several matrices
// worthwhile.
const minPieces = 128 * 256

// matrixSpace lists schedules on cooperative matrices. Large coopmat2 tiles are also tried with unrolled steps, up to
// the number that was the fastest in measurements (36: see matrixTile.Unroll), and with accumulators that are divided
// into two or four matrices.
func matrixSpace(k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	if _, ok := MatrixDType(k); !ok || !caps.Features.CooperativeMatrix {
		return nil
	}
	var all []kernel.Schedule
	scaleK := 1 // depth counts f16 elements; as many bytes hold twice as many int8 elements
	if _, bytes := ByteMatMuls(k); bytes {
		scaleK = 2
	}
	add := func(t matrixTile) {
		t.K *= scaleK
		s, ok := t.schedule(k, caps)
		if !ok {
			return
		}
		all = append(all, s)
		one, ok := s.(kernel.CoopMat)
		if !ok || one.Subgroup == 0 {
			return
		}
		// Some devices have several subgroup sizes, such as waves of 32 and 64.
		for n := max(int(caps.MinSubgroupSize), 1); n <= int(caps.MaxSubgroupSize); n *= 2 {
			if n != one.Subgroup && caps.CanRelyOn(n) {
				other := one
				other.Subgroup, other.Workgroup = n, one.SubgroupsM*one.SubgroupsN*n
				all = append(all, other)
			}
		}
	}
	for m := range doublings(16, 256) {
		for n := range doublings(16, 256) {
			for depth := range doublings(16, 64) {
				t := matrixTile{M: m, N: n, K: depth}
				for _, tl := range slices.Concat(t.coopMat2Space(), t.coopMatSpace()) {
					add(tl)
				}
			}
		}
	}
	return all
}

// coopMat2Space lists the ways to compute a tile with matrices of workgroup scope.
func (tl matrixTile) coopMat2Space() (all []matrixTile) {
	tl.Variant = kernel.VarCoopMat2
	for tl.Workgroup = range doublings(64, 512) {
		all = append(all, tl)
		if tl.M*tl.N >= 128*128 {
			unrolled := tl
			unrolled.Unroll = 36
			all = append(all, unrolled)
		}
		if tl.M*tl.N < minPieces { // slower in measurements
			continue
		}
		for _, pieces := range [][2]int{{2, 1}, {1, 2}, {2, 2}} {
			divided := tl
			divided.PiecesM, divided.PiecesN = pieces[0], pieces[1]
			all = append(all, divided)
		}
	}
	return all
}

// coopMatSpace lists the ways to compute a tile with matrices of subgroup scope.
func (tl matrixTile) coopMatSpace() (all []matrixTile) {
	tl.Variant = kernel.VarCoopMat
	for tl.SubgroupsM = range doublings(1, 4) {
		for tl.SubgroupsN = range doublings(1, 4) {
			for _, tl.OneStage = range []bool{false, true} {
				all = append(all, tl)
			}
		}
	}
	return all
}

// flashSpace lists schedules of an attention, in tiles and, for few rows, with keys read directly from memory.
func flashSpace(k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	sh := flashShapeOf(k)
	var all []kernel.Schedule
	for _, t := range tileSpace(64) {
		// A tile has the queries of one head, or of all heads that share keys.
		heads := []int{1}
		if h := flashHeads(sh, t.M); h != 1 {
			heads = append(heads, h)
		}
		for _, h := range heads {
			for _, subgroup := range subgroups(caps) {
				for _, steps := range []bool{false, true} {
					all = append(all, ratedTile{tile: t, Paired: steps, Steps: steps}.flashSchedule(h, subgroup))
				}
			}
		}
	}
	return append(all, flashVecSpace(sh, caps)...)
}

// flashVecSpace lists schedules of an attention of few rows that reads keys directly from memory.
func flashVecSpace(sh flashShape, caps device.Caps) []kernel.Schedule {
	rows, subgroup := sh.Queries*sh.Heads, subgroupOf(caps)
	if rows > maxVecRows || subgroup == 0 {
		return nil
	}
	var all []kernel.Schedule
	for wg := range doublings(subgroup, 512) {
		for lanes := range doublings(2, subgroup) {
			for keys := range doublings(1, 8) {
				all = append(all, sh.flashVec(lanes, keys, wg, subgroup))
			}
		}
	}
	return all
}

// Label describes a kernel briefly for people: its family, its extents, and the dtype of the largest tensor that it
// reads.
func Label(k *kernel.Kernel) string {
	text := string(k.Family)
	switch {
	case k.Family == kernel.FamilyMatMul && len(k.Parallel) >= 2:
		sh := matShapeOf(k)
		text += fmt.Sprintf(" %dx%dx%d", sh.M, sh.N, sh.K)
		if sh.Batch > 1 {
			text += fmt.Sprintf(" x%d", sh.Batch)
		}
	case k.Family == kernel.FamilyMap || k.Custom != nil:
		text += fmt.Sprintf(" %d", points(k.Parallel))
	default:
		text += fmt.Sprintf(" %dx%d", points(k.Parallel), k.Fold.Max())
	}
	largest := -1
	for i, b := range k.Bindings {
		if !b.Write && (largest < 0 || b.Elems > k.Bindings[largest].Elems) {
			largest = i
		}
	}
	if largest >= 0 {
		text += " " + k.Bindings[largest].DType.String()
	}
	return text
}
