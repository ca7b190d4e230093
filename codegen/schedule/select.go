package schedule

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// Candidate is a schedule that is worth trying, and the reason.
type Candidate struct {
	Schedule kernel.Schedule
	Reason   string
}

// ranked is a candidate and its cost, such as its estimated time.
type ranked struct {
	Candidate
	cost float64
}

// sortByCost sorts candidates by increasing cost.
func sortByCost(list []ranked) {
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.cost, b.cost) })
}

// byCost returns candidates by increasing cost.
func byCost(list []ranked) []Candidate {
	sortByCost(list)
	all := make([]Candidate, len(list))
	for i, r := range list {
		all[i] = r.Candidate
	}
	return all
}

// shrinking lists a candidate for each workgroup size from wg down, because a device may not support the first.
func shrinking(wg int, of func(wg int) Candidate) []Candidate {
	var all []Candidate
	for ; wg >= smallest; wg /= 2 {
		all = append(all, of(wg))
	}
	return all
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

// launch is the launch of a variant without a subgroup size.
func launch(v kernel.Variant, wg, vec int) kernel.Launch {
	return kernel.Launch{Variant: v, Workgroup: wg, Vec: vec}
}

// Candidates lists the schedules that are worth trying for a kernel on a device, by decreasing expected speed.
// Schedules that probably need too many registers come last. [New] may reject some of them.
func Candidates(k *kernel.Kernel, caps device.Caps) []Candidate {
	h := heuristicsOf(caps)
	var all, spilling []Candidate
	for _, c := range h.candidates(k, caps) {
		c.Schedule = normalize(k, c.Schedule, caps)
		if !h.fits(k, c.Schedule) { // it probably needs too many registers
			spilling = append(spilling, c)
		} else {
			all = append(all, c)
		}
	}
	return append(all, spilling...)
}

// Select returns the first of [Candidates] that can run, and the reason for it, which also names rejected candidates.
// If the kernel needs a feature that the device lacks, it returns a [MissingError].
func Select(k *kernel.Kernel, caps device.Caps) (s kernel.Schedule, reason string, err error) {
	if gaps := Missing(k, caps); len(gaps) > 0 {
		return s, "", &MissingError{Kernel: k.Name, Device: caps.Name, Gaps: gaps}
	}
	var first error
	for i, c := range Candidates(k, caps) {
		err := check(k, c.Schedule, caps)
		if err == nil {
			reason = fmt.Sprintf("%s: %s", device.Class(caps), c.Reason)
			if i > 0 {
				reason += fmt.Sprintf(" (%d passed over; the first: %v)", i, first)
			}
			return c.Schedule, reason, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = fmt.Errorf("no variant runs family %q", k.Family)
	}
	return s, "", fmt.Errorf("schedule: no schedule for kernel %s on %s; the first tried: %w", k.Name, caps.Name, first)
}

// smallest is the smallest workgroup size to try.
const smallest = 8

// maps lists schedules of a map, with vectors as wide as the alignment allows. Workgroups shrink until there are enough
// of them and the device supports their size.
func (h heuristics) maps(k *kernel.Kernel) []Candidate {
	vec := mapVec(k)
	n := points(k.Parallel) / int64(vec)
	wg := h.mapWorkgroup
	for wg > 64 && n/int64(wg) < h.fill {
		wg /= 2
	}
	return shrinking(wg, func(wg int) Candidate {
		return Candidate{kernel.Points{Launch: launch(kernel.VarMap, wg, vec)},
			fmt.Sprintf("%d points, up to %d neighbours each", points(k.Parallel), vec)}
	})
}

// rows lists schedules of a row kernel. One invocation folds a row if rows are short or interleaved in memory;
// otherwise several lanes share a row.
func (h heuristics) rows(k *kernel.Kernel) []Candidate {
	rows, windows, serial, group := points(k.Parallel), h.windows(k), h.serialRows(k), h.groupRows(k)
	switch {
	case len(windows) > 0 || k.Fold.Max() <= h.rowSerial:
		return slices.Concat(windows, serial, group)
	case rowsInterleaved(k) && rows >= h.fill*int64(h.rowWorkgroup)/4 && !h.keptByGroup(k, serial[0], group[0]):
		for i := range serial {
			serial[i].Reason = fmt.Sprintf("%d rows side by side in memory: neighbouring invocations read neighbours",
				rows)
		}
		return append(serial, group...)
	}
	return append(group, serial...)
}

// longReread is the longest row that one invocation may read twice if several lanes could keep it in registers. Rows of
// 64 take 1.75 times as long on an H200 if they are read twice. Shorter ones were not measured (M-kept-rows).
const longReread = 32

// keptByGroup reports whether rows that are read twice stay in registers only if several lanes share a row.
func (h heuristics) keptByGroup(k *kernel.Kernel, serial, group Candidate) bool {
	kept := func(c Candidate) bool { return c.Schedule.(kernel.Row).Cache > 0 }
	return kept(group) && !kept(serial) && k.Fold.Max() > max(h.unrolledRow, longReread)
}

// serialRows lists schedules with one invocation per row.
func (h heuristics) serialRows(k *kernel.Kernel) []Candidate {
	vec, cache := rowVec(k, 4), 0
	if n := k.Fold.Max(); readsTwice(k) && k.Fold.IsStatic() && n <= int64(h.rowCache) {
		cache = ceil.Multiple(int(n), vec)
	}
	wg := min(h.rowWorkgroup, 64)
	// Small workgroups are faster in the row kernel that joins the parts of a split attention (M-decode).
	if few := max(h.subgroup, 32); h.subgroup > 0 && wg > few && points(k.Parallel) < h.fill*int64(wg) {
		wg = few
	}
	return shrinking(wg, func(wg int) Candidate {
		return Candidate{kernel.Row{Launch: launch(kernel.VarRowSerial, wg, vec), LanesPerRow: 1, Cache: cache},
			fmt.Sprintf("rows of %s fit one invocation each", k.Fold)}
	})
}

// perLane is the number of elements of a row that a lane should have. full says that the workgroup is large enough: a
// larger one waits longer at its barriers, so a lane keeps as much of the row as it can (M-kept-rows).
func (h heuristics) perLane(full bool) int64 {
	if full {
		return int64(h.rowCache)
	}
	return h.rowPerLane
}

// groupRows lists schedules with about rowPerLane elements per lane. If there are too few rows to fill the device, a
// row has more lanes. A workgroup has at least sideRows rows, so that it reads whole lines of interleaved rows, unless
// some cores would then have no workgroup.
func (h heuristics) groupRows(k *kernel.Kernel) []Candidate {
	var all []Candidate
	fold, rows, side := k.Fold.Max(), points(k.Parallel), sideRows(k)
	if rows/int64(side) < h.onePerCore() {
		side = 1
	}
	vec, most := rowVec(k, 4), max(h.rowLanes/side, 2)
	kept := side > 1 && readsTwice(k) && k.Fold.IsStatic()
	// Half a line is a whole sector, and still faster than reading rows twice.
	sector := h.rowLanes / max(side/2, 1)
	if kept && fold > int64(most*h.rowCache) && fold <= int64(sector*h.rowCache) {
		most = sector
	}
	lanes := 2
	for lanes < most && int64(lanes)*h.perLane(kept && lanes*side >= h.rowWorkgroup) < fold {
		lanes *= 2
	}
	for lanes < most && rows*int64(lanes) < h.fill*int64(h.rowWorkgroup) && int64(lanes*vec*2) <= fold {
		lanes *= 2
	}
	for ; lanes >= 2; lanes /= 2 {
		wg := min(max(lanes*side, h.rowWorkgroup), max(h.rowLanes, h.rowWorkgroup))
		all = append(all, h.groupRow(k, lanes, wg, vec, h.subgroup))
		// The same through shared memory, and with smaller workgroups if the device needs them.
		for ; wg >= max(lanes, smallest); wg /= 2 {
			all = append(all, h.groupRow(k, lanes, wg, vec, 0))
		}
	}
	return all
}

// keptRows returns the number of workgroups that read interleaved rows once, in whole lines (see
// [kernel.FormKeptRows]). ok is false if an invocation's share of a row does not fit its registers.
func (h heuristics) keptRows(w kernel.Work) (groups int64, ok bool) {
	side := int64(max(lineBytes/w.Format.BlockBytes(), 1))
	lanes := int64(h.rowLanes) / side
	return ceil.Div(w.Rows.Max(), side), lanes > 0 && ceil.Div(w.Depth.Max(), lanes) <= int64(h.rowCache)
}

// groupRow returns the schedule of a row kernel with the given number of lanes per row, which exchange partial results.
func (h heuristics) groupRow(k *kernel.Kernel, lanes, wg, vec, subgroup int) Candidate {
	s := kernel.Row{Launch: kernel.Launch{Variant: kernel.VarRowGroup, Workgroup: wg, Vec: vec, Subgroup: subgroup},
		LanesPerRow: lanes}
	each := ceil.Multiple(int(min(ceil.Div(k.Fold.Max(), int64(lanes)), 1<<20)), vec)
	if readsTwice(k) && k.Fold.IsStatic() && each <= h.rowCache {
		s.Cache = each
	}
	return Candidate{s, fmt.Sprintf("rows of %s, %d elements per lane", k.Fold, each)}
}

// matVecs lists matvec schedules, for matmuls of few rows. Their time is about the time to read B once.
func (h heuristics) matVecs(k *kernel.Kernel) []Candidate {
	sh := matShapeOf(k)
	if sh.M > mostMatVecRows {
		return nil
	}
	parts := matVecParts(sh.M)
	sh.M, sh.Batch = ceil.Div(sh.M, parts), sh.Batch*parts // each part of the rows is like a matmul of its own
	all := append(h.residentVecs(k, sh), h.lookupVecs(k, sh)...)
	v := h.fewRows(k, sh)
	for wg := max(h.vecWorkgroup, v.lanes, v.workgroup); wg >= smallest; wg /= 2 {
		if FoldContiguous(k, k.MatMuls[0].B, len(k.Parallel)-1) {
			all = append(all, h.alongFold(k, sh, wg)...)
		} else {
			all = append(all, h.acrossColumns(sh, wg))
		}
	}
	return all
}

// alongFold lists schedules where the lanes that share a sum take adjacent elements along the contraction axis.
func (h heuristics) alongFold(k *kernel.Kernel, sh matShape, wg int) []Candidate {
	var all []Candidate
	reason := fmt.Sprintf("%d rows: B is read once, along the contraction", sh.M)
	v := h.fewRows(k, sh)
	// add adds a schedule in which `lanes` invocations share a sum. They add it up by shuffles in subgroups of the
	// given size or, if that is 0, in shared memory.
	add := func(lanes, subgroup int) {
		if lanes > wg {
			return
		}
		cols := h.columnsAlongFold(k, sh, v, wg/lanes)
		s := matVecSchedule(sh, lanes, wg/lanes*cols, cols, wg, subgroup)
		s.TileK, s.Prefetch, s.Subnormals, s.Tables = v.run, v.prefetch, v.subnormals, v.tables
		if v.unchanged {
			s.TileM, s.ThreadM = v.rows, v.rows
		}
		for s.TileK > shortestRun && !h.fits(k, s) {
			s.TileK /= 2
		}
		if v.staged {
			s.StageRows = true
			all = append(all, Candidate{s, reason + ", rows through shared memory"})
			s.StageRows = false // the same without staging, in case staging needs too much shared memory
		}
		all = append(all, Candidate{s, reason})
	}
	switch {
	case h.subgroup > 0 && v.partSubgroup:
		add(min(v.lanes, wg), 0)
	case h.subgroup > 0:
		add(h.lanesAlongFold(sh, v, wg), h.subgroup)
	}
	add(min(h.vecLanes, wg), 0)
	return all
}

// columnsAlongFold returns the number of columns that each invocation of a matvec computes. A workgroup has `sums`
// groups of lanes, and the lanes of a group share their columns. The result is v.columns, or less to avoid idle cores
// and spilling.
func (h heuristics) columnsAlongFold(k *kernel.Kernel, sh matShape, v blockVec, sums int) int {
	fewest := h.vecColumns
	switch {
	case blocksOf(k) != ir.Invalid:
		fewest = 1
	case v.unchanged: // measurements with fewer columns were slower, even if they fill the device
		fewest = v.columns
	}
	cols := v.columns
	for cols > fewest && sh.Batch*ceil.Div(sh.N, int64(sums*cols)) < h.onePerCore() {
		cols /= 2
	}
	for cols > 1 && h.vecSums > 0 && sh.M*int64(cols) > h.vecSums {
		cols /= 2
	}
	return cols
}

// lanesAlongFold returns the number of invocations that share a sum of a matvec. It is a multiple of the subgroup size:
// v.lanes, but not more than there are runs in the contraction axis. It is larger, up to wg, if there would otherwise
// be too few workgroups of wg invocations.
func (h heuristics) lanesAlongFold(sh matShape, v blockVec, wg int) int {
	lanes, run := h.subgroup, max(v.run, shortestRun)
	for lanes < v.lanes && int64(lanes*run) < sh.K {
		lanes *= 2
	}
	lanes = min(lanes, wg)
	each := run // elements that a lane should have at least
	if sh.M <= 1 {
		each = shortestRun // M-batch has the reason for more rows
	}
	for lanes < wg && sh.Batch*ceil.Div(sh.N*int64(lanes), int64(wg)) < h.fill && int64(lanes*each) <= sh.K {
		lanes *= 2
	}
	return lanes
}

// shortestRun is the minimum number of elements of a block that an invocation reads at once.
const shortestRun = 8

// fewRows returns how a matmul of few rows should read B.
func (h heuristics) fewRows(k *kernel.Kernel, sh matShape) blockVec {
	if b := blocksOf(k); b != ir.Invalid {
		return h.blockVecFor(k, b, sh)
	}
	for _, v := range h.vecRows {
		if int64(v.rows) >= sh.M && v.suits(sh) {
			return v
		}
	}
	return blockVec{columns: h.vecColumns}
}

// acrossColumns returns a schedule where adjacent lanes take adjacent columns. If columns alone do not fill the device,
// groups of lanes share the contraction axis. At least 16 columns stay adjacent, so that whole memory sectors are read.
func (h heuristics) acrossColumns(sh matShape, wg int) Candidate {
	lanes := 1
	for lanes*32 <= wg && sh.Batch*ceil.Div(sh.N*int64(lanes), int64(wg)) < h.fill && int64(lanes)*16 <= sh.K {
		lanes *= 2
	}
	return Candidate{matVecSchedule(sh, lanes, wg/lanes, 1, wg, 0),
		fmt.Sprintf("%d rows: B is read once, along its columns", sh.M)}
}

// matVecSchedule returns a matvec schedule for all rows of sh: lanes invocations share a sum, and a workgroup of wg
// invocations computes tileN columns, threadN of them in each invocation.
func matVecSchedule(sh matShape, lanes, tileN, threadN, wg, subgroup int) kernel.MatVec {
	m := int(max(sh.M, 1))
	return kernel.MatVec{Launch: kernel.Launch{Variant: kernel.VarMatVec, Workgroup: wg, Vec: 4, Subgroup: subgroup},
		Tile: kernel.Tile{TileM: m, TileN: tileN}, LanesPerRow: lanes, ThreadM: m, ThreadN: threadN}
}

// TuningKey identifies a kernel in a [device.Tuning] by its structure: family, extents, dtypes, sizes of buffers and
// expressions. Kernels that differ only in names of buffers or symbols have the same key.
func TuningKey(k *kernel.Kernel) string {
	sum := sha256.Sum256([]byte(k.Identity().Structure))
	return hex.EncodeToString(sum[:])
}

// SelectTuned returns the schedule that a tuning has for the kernel, and true for tuned, if the device can run it.
// Otherwise it returns the result of [Select], and false. reason says why the schedule was chosen.
func SelectTuned(k *kernel.Kernel, caps device.Caps, tuning device.Tuning) (s kernel.Schedule, reason string,
	tuned bool, err error) {
	var won device.Tuned
	if len(tuning) > 0 {
		won, tuned = tuning[TuningKey(k)]
	}
	if !tuned {
		s, reason, err = Select(k, caps)
		return s, reason, false, err
	}
	var unfit error
	won.Schedule, unfit = New(k, won.Schedule, caps)
	if unfit == nil {
		unfit = checkWhole(k, won.Schedule)
	}
	if unfit == nil {
		return won.Schedule, won.String(), true, nil
	}
	s, reason, err = Select(k, caps)
	if err == nil {
		reason += fmt.Sprintf(" (not what tuning says: %v)", unfit)
	}
	return s, reason, false, err
}
