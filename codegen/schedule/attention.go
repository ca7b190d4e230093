package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// flashShape is the size of an attention with every symbol at its bound.
type flashShape struct {
	Batch, Groups, Heads, Queries, Keys int64 // Groups counts key heads, and Heads the query heads of each
	Dot                                 int   // extent of the contraction axis of Q*K
	Value                               int   // number of elements of a row's result
	Factor                              int   // extent of the contraction axis of an AttentionFactor, or 0
}

// flashShapeOf returns the size of an attention kernel.
func flashShapeOf(k *kernel.Kernel) flashShape {
	ax := k.AttentionAxes()
	queries := k.Parallel[ax.Query].Max()
	sh := flashShape{
		Batch:   min(points(k.Parallel[1:ax.Group]), maxBatch),
		Groups:  k.Parallel[ax.Group].Max(),
		Heads:   k.Parallel[ax.Head].Max(),
		Queries: queries,
		Keys:    k.KeysSeen(queries),
		Dot:     int(k.Attention.Dot.Add),
		Value:   int(k.Parallel[ax.Value].Add),
	}
	if f := k.Attention.Factor; f != nil {
		sh.Factor = int(f.Dot.Add)
	}
	return sh
}

// attentions lists the schedules of an attention. It prefers the largest tiles of rows that are mostly filled and give
// the device enough workgroups. Heads that share keys share a tile if one head's queries would not fill it.
func (h heuristics) attentions(k *kernel.Kernel, caps device.Caps) []Candidate {
	if k.CheckAttention() != nil {
		return nil
	}
	all := append(h.flashVecCandidates(k), append(h.flashMatrixCandidates(k, caps), h.flashTileCandidates(k)...)...)
	if n := flashSplitsOf(k); n > 1 { // a rewrite has split the keys already
		for i := range all {
			all[i].Schedule = withSplits(all[i].Schedule, n)
		}
	}
	return all
}

// maxVecRows is the maximum number of rows for which each invocation reads keys directly from memory. More rows share
// keys in tiles of shared memory.
const maxVecRows = 16

// flashVecCandidates lists schedules for an attention with few rows: at most maxVecRows, counting the queries of all
// heads that share keys. Each key and value is read once, which takes most of the time. Splitting the keys gives the
// device enough workgroups.
func (h heuristics) flashVecCandidates(k *kernel.Kernel) []Candidate {
	sh := flashShapeOf(k)
	rows := sh.Queries * sh.Heads
	if rows > maxVecRows || h.subgroup == 0 {
		return nil
	}
	candidate := func(lanes, keys, wg int) Candidate {
		s := sh.flashVec(lanes, keys, wg, h.subgroup)
		s.Splits = h.flashSplits(k, s.TileN)
		return Candidate{s,
			fmt.Sprintf("%d rows share %d keys, which are read once, in %d runs", rows, sh.Keys, max(s.Splits, 1))}
	}
	var all []Candidate
	// With so few groups, first try to give every core one workgroup.
	if sh.Batch*sh.Groups <= h.cores {
		all = h.flashOnePerCore(k, candidate(min(h.flashLanes, h.subgroup), h.flashKeys, h.flashWorkgroup), candidate)
	}
	// The measured numbers come first. Fewer keys, more lanes and smaller workgroups need fewer registers.
	for _, lanes := range []int{h.flashLanes, 2 * h.flashLanes, 4 * h.flashLanes} {
		lanes = min(lanes, h.subgroup)
		for keys := h.flashKeys; keys >= 1; keys /= 2 {
			for wg := h.flashWorkgroup; wg >= h.subgroup; wg /= 2 {
				all = append(all, candidate(lanes, keys, wg))
			}
		}
	}
	return all
}

// flashVec returns the schedule for few rows in which a group of `lanes` invocations reads `keys` keys per step. wg is
// the number of invocations of a workgroup, and subgroup the requested subgroup size.
func (sh flashShape) flashVec(lanes, keys, wg, subgroup int) kernel.FlashVec {
	rows := int(sh.Queries * sh.Heads)
	s := kernel.FlashVec{Launch: launch(kernel.VarFlashVec, wg, 4), Flash: kernel.Flash{Heads: int(sh.Heads)},
		LanesPerRow: lanes, TileM: rows, ThreadM: rows, TileN: wg / lanes * keys, ThreadN: keys}
	s.Subgroup = subgroup
	return s
}

// flashOnePerCore enlarges the workgroups of candidate c, which has at most one workgroup per core. It doubles the
// invocations until one step covers the average number of keys. If a core has too few registers for them, each
// invocation takes fewer keys (M-short-texts). candidate builds a candidate from the lanes of a group, the keys that a
// group reads per step, and the invocations of a workgroup. The result is the last enlarged candidate, or empty if c
// needs no change.
func (h heuristics) flashOnePerCore(k *kernel.Kernel, c Candidate,
	candidate func(lanes, keys, wg int) Candidate) (list []Candidate) {
	s := c.Schedule.(kernel.FlashVec)
	spills := func() bool { return h.registersOf(k, s)*s.Workgroup > flashRegisters }
	for s.Splits <= 1 && int64(s.TileN) < meanKeys(k) && 2*s.Workgroup <= h.flashMaxWorkgroup {
		s.Workgroup *= 2
		for s.ThreadN > 1 && spills() {
			s.ThreadN /= 2
		}
		if spills() {
			break
		}
		c = candidate(s.LanesPerRow, s.ThreadN, s.Workgroup)
		s, list = c.Schedule.(kernel.FlashVec), []Candidate{c}
	}
	return list
}

// flashRegisters is the number of registers per core on the devices that have h.flashMaxWorkgroup.
const flashRegisters = 64 << 10

// meanKeys is the average number of keys of an attention: half of the bound if the number of keys grows during
// decoding.
func meanKeys(k *kernel.Kernel) int64 {
	n := flashShapeOf(k).Keys
	if !k.Fold.IsStatic() {
		n = (n + 1) / 2
	}
	return n
}

// attentionTime estimates the time of an attention in nanoseconds, from its arithmetic. If the time is unknown, the
// string says why.
func (h heuristics) attentionTime(k *kernel.Kernel, caps device.Caps) (float64, string) {
	s, _, err := Select(k, caps)
	if err != nil {
		return 0, err.Error()
	}
	tile, rate, sh := AttentionTileOf(s), h.VectorF32, flashShapeOf(k)
	switch s.(type) {
	case kernel.FlashTile:
		// The rates of tiles are fitted to measurements, unlike the formula below.
		return least(h.flashTiles, func(tl ratedTile) float64 { return h.flashTileTime(tl, sh, flashSplitsOf(k)) }), ""
	case kernel.FlashMatrix:
		rate = h.MatrixF16
	}
	keys := k.KeysSeen(min(sh.Queries, int64(max(tile.queries(), 1))))
	flops := 2 * float64(sh.Batch*sh.Groups*sh.Heads) * float64(sh.Queries) * float64(keys) *
		float64(sh.Dot+sh.Value+sh.Factor)
	return flops / (rate * 1e3), "" // rate is in TFLOPS; a TFLOPS is 1e3 operations per ns
}

// flashSplits returns the number of parts into which to split the keys of an attention: a power of two, or 0 for no
// split. More parts fill an idle device, and keep each part within h.flashMaxKeys keys. Each part has at least two
// steps of `step` keys. The split must save more time than the launch of the kernel that joins the parts.
func (h heuristics) flashSplits(k *kernel.Kernel, step int) int {
	sh, splits := flashShapeOf(k), 1
	more := func() bool {
		idle := sh.Batch*sh.Groups*int64(2*splits) <= h.fill
		return idle || h.flashMaxKeys > 0 && sh.Keys > h.flashMaxKeys*int64(splits)
	}
	twoStepsEach := func() bool { return sh.Keys >= int64(2*splits*2*step) } // in twice as many parts
	for splits < maxSplits && more() && twoStepsEach() {
		splits *= 2
	}
	stored := func(e *kernel.Expr) int { return kernel.Widened(e).DType.BlockBytes() }
	run := float64(float64(meanKeys(k)) * float64(sh.Dot*stored(k.Attention.K)+sh.Value*stored(k.Attention.V))) // bytes
	rate := cmp.Or(h.flashGBps, h.CopyGBps/float64(h.cores))
	if saved := (run - run/float64(splits)) / rate; saved <= h.LaunchNs {
		return 0
	}
	return splits
}

// flashTileCandidates lists tiles by increasing estimated time. Each tile is listed once with its best number of key
// splits, and once with the number that the kernel has. Tiles that fit every device follow.
func (h heuristics) flashTileCandidates(k *kernel.Kernel) []Candidate {
	sh := flashShapeOf(k)
	var list []ranked
	for _, tl := range h.flashTiles {
		heads, best := flashHeads(sh, tl.M), h.bestFlashSplits(k, tl)
		for _, splits := range slices.Compact([]int{best, flashSplitsOf(k)}) {
			groups, time := sh.workgroups(tl.M)*int64(splits), h.flashTileTime(tl, sh, splits)
			if splits > flashSplitsOf(k) { // a rule must first split the kernel
				time = h.flashSplitTime(tl, sh, splits)
			}
			reason := fmt.Sprintf("%d queries of %d heads a tile, %d keys: %d workgroups", tl.M/heads, heads, tl.N,
				groups)
			for _, subgroup := range slices.Compact([]int{h.subgroup, 0}) { // 0: without subgroup operations
				s := tl.flashSchedule(heads, subgroup)
				if splits > 1 {
					s.Splits = splits
				}
				list = append(list, ranked{Candidate{s, reason}, time})
			}
		}
	}
	all := byCost(list)
	for _, tl := range generic(device.Caps{}).flashTiles {
		heads := flashHeads(sh, tl.M)
		reason := fmt.Sprintf("%d queries of %d heads a small tile, %d keys", tl.M/heads, heads, tl.N)
		all = append(all, Candidate{tl.flashSchedule(heads, 0), reason})
	}
	return all
}

// flashSplitsOf is the number of parts into which the keys of an attention have been split already, 1 for no split.
func flashSplitsOf(k *kernel.Kernel) int { return int(k.Parallel[k.AttentionAxes().Split].Add) }

// bestFlashSplits is the fastest number of key splits of an attention in a tile. If the keys are split already, or
// extents are symbolic, it is the present number.
func (h heuristics) bestFlashSplits(k *kernel.Kernel, tl ratedTile) int {
	sh, best := flashShapeOf(k), flashSplitsOf(k)
	if best > 1 || !k.Fold.IsStatic() || !k.Parallel[k.AttentionAxes().Query].IsStatic() {
		return best
	}
	least := h.flashTileTime(tl, sh, 1)
	for n := 2; n <= maxSplits && int64(n*tl.N) <= sh.Keys; n++ {
		if time := h.flashSplitTime(tl, sh, n); time < least {
			best, least = n, time
		}
	}
	return best
}

// splitMargin is the minimum expected speedup for splitting an attention's keys.
const splitMargin = 1 / 0.9

// workgroups is the number of workgroups of an attention in tiles of the given number of rows, without splits.
func (sh flashShape) workgroups(rows int) int64 {
	heads := int64(flashHeads(sh, rows))
	return sh.Batch * sh.Groups * sh.Heads / heads * ceil.Div(sh.Queries*heads, int64(rows))
}

// flashStart is the fixed cost of a workgroup, in keys (M-flash-f32).
const flashStart = 64

// flashTileTime estimates the nanoseconds of an attention in a tile with the given number of splits.
func (h heuristics) flashTileTime(tl ratedTile, sh flashShape, splits int) float64 {
	groups, depth := sh.work(tl, splits)
	row := matrixTile{M: tl.M, N: 1, Efficiency: tl.Efficiency, Alone: tl.Alone}
	return h.matrixTime(row, groups, depth, h.VectorF32)
}

// work returns the number of workgroups of an attention in a tile with the given number of splits, and the number of
// multiplications for each row of the tile.
func (sh flashShape) work(tl ratedTile, splits int) (groups, depth int64) {
	keys := ceil.Multiple(ceil.Div(sh.Keys, int64(splits)), int64(tl.N))
	return sh.workgroups(tl.M) * int64(splits), (keys + flashStart) * int64(sh.Dot+sh.Value+sh.Factor)
}

// flashSplitTime is flashTileTime plus the time to store and join the results of the splits, all times splitMargin.
func (h heuristics) flashSplitTime(tl ratedTile, sh flashShape, splits int) float64 {
	rows := float64(sh.Batch*sh.Groups*sh.Heads) * float64(sh.Queries)
	join := h.LaunchNs + 8*float64(splits)*rows*float64(sh.Value+2)/h.CopyGBps
	return (h.flashTileTime(tl, sh, splits) + join) * splitMargin
}

// flashSchedule returns the tile's schedule for the given number of heads per tile and subgroup size. Lanes that do not
// fit a subgroup exchange values in shared memory.
func (t ratedTile) flashSchedule(heads, subgroup int) kernel.FlashTile {
	if lanes := t.N / t.ThreadN; !powerOfTwo(lanes) || lanes > subgroup {
		subgroup = 0
	}
	return kernel.FlashTile{Launch: kernel.Launch{Variant: kernel.VarFlashTile, Workgroup: t.workgroup(), Vec: 4,
		Subgroup: subgroup}, Tile: kernel.Tile{TileM: t.M, TileN: t.N, TileK: t.K}, Flash: kernel.Flash{Heads: heads},
		RegisterTile: kernel.RegisterTile{Paired: t.Paired, Steps: t.Steps}, ThreadM: t.ThreadM, ThreadN: t.ThreadN}
}

// flashHeads is the number of query heads that share a tile with the given number of rows. It is all heads of a key
// head if their number divides the rows and the queries of one head would not fill the tile, and otherwise 1.
func flashHeads(sh flashShape, rows int) int {
	if sh.Heads > 1 && sh.Queries < int64(rows) && int64(rows)%sh.Heads == 0 {
		return int(sh.Heads)
	}
	return 1
}

// headsFirst reports whether an attention's grid has heads in x and tiles of queries in y. It does so for causal
// attentions. Then the tiles that see the most keys start first, for all heads (see attention.placeAxis of package
// glsl), and the tiles that end last are short (M-causal). All heads then read their keys and values at the same time,
// so these must not be much larger than the cache.
func headsFirst(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) bool {
	sh := flashShapeOf(k)
	_, onMatrices := s.(kernel.FlashMatrix)
	bytes := sh.Groups * sh.Keys * int64(sh.Dot+sh.Value) * int64(ir.F16.BlockBytes())
	return k.Attention.Causal && onMatrices && sh.Queries > int64(AttentionTileOf(s).queries()) &&
		bytes <= 2*heuristicsOf(caps).cache
}

// AttentionGrid puts tiles of queries in x and heads in y, or the other way round if headsFirst. Batch axes and splits
// go to z. If a dimension is longer than the device allows, all factors go to x.
func AttentionGrid(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) (MatGrid, error) {
	ax, tile := k.AttentionAxes(), AttentionTileOf(s)
	queries := []AxisTiles{{ax.Query, max(tile.queries(), 1)}}
	var heads []AxisTiles
	if tile.Heads == 1 {
		heads = append(heads, AxisTiles{ax.Head, 1})
	}
	heads = append(heads, AxisTiles{ax.Group, 1})
	var outer []AxisTiles
	// The axes before the key heads are split and batch.
	for i := ax.Group - 1; i >= 0; i-- {
		outer = append(outer, AxisTiles{i, 1})
	}
	first := MatGrid{queries, heads, outer}
	if headsFirst(k, s, caps) {
		first = MatGrid{heads, queries, outer}
	}
	// Take the first layout that the device allows.
	layouts := []MatGrid{
		first,
		{slices.Concat(queries, heads), nil, outer},
		{slices.Concat(queries, heads, outer), nil, nil},
	}
	for _, g := range layouts {
		if g.fits(k, caps) {
			return g, nil
		}
	}
	return MatGrid{}, fmt.Errorf("schedule: kernel %s: an attention over %v in tiles of %d rows has more workgroups "+
		"than %s allows; split the batch",
		k.Name, k.Parallel, tile.Rows, caps.Name)
}

// flashTileShared is the shared memory of the flash_tile variant, in bytes: tiles of queries and keys, the weights, a
// step of values, and, without subgroups, the partial results of a row's lanes.
func flashTileShared(k *kernel.Kernel, s kernel.FlashTile) int {
	sh := flashShapeOf(k)
	n := (s.TileM+s.TileN)*TilePitch(s.TileK)*16 + s.TileM*(s.TileN+1)*4 + s.TileK*ValueQuads(sh.Value)*16
	if s.Steps {
		n = ((FlashDepth(k, s)+s.TileN)*StepPitch(s.TileM) + 2*FlashStage(k, s)) * 16
	}
	if s.Subgroup == 0 {
		n += s.TileM * (s.TileN / max(s.ThreadN, 1)) * 4
	}
	return n
}

// FlashDepth is the number of elements of each query that a flash_tile workgroup keeps in shared memory if its tiles
// are stored step by step: the contraction axis rounded up to whole steps.
func FlashDepth(k *kernel.Kernel, s kernel.FlashTile) int {
	return ceil.Multiple(flashShapeOf(k).Dot, s.TileK)
}

// FlashStage is the number of vectors of four in a step of keys or of values, whichever is larger.
func FlashStage(k *kernel.Kernel, s kernel.FlashTile) int {
	return s.TileK * max(StepPitch(s.TileN), ValueQuads(flashShapeOf(k).Value))
}

// ValueQuads is the number of vec4 for n elements.
func ValueQuads(n int) int { return (n + 3) / 4 }

// checkFlashTile returns an error if an attention cannot run with a flash_tile schedule.
func checkFlashTile(k *kernel.Kernel, s kernel.FlashTile, caps device.Caps) error {
	switch {
	case s.TileM < 1 || s.TileN < 1 || s.ThreadM < 1 || s.ThreadN < 1 || s.Heads < 1:
		return fmt.Errorf("tiles, thread tiles and heads must be at least 1")
	case s.TileK < 4 || s.TileK%4 != 0:
		return fmt.Errorf("steps of %d along the contraction axis are not a multiple of 4, the vectors of staged "+
			"operands", s.TileK)
	case s.TileM%s.ThreadM != 0 || s.TileN%s.ThreadN != 0 || s.TileN%s.TileK != 0:
		return fmt.Errorf("thread tiles or steps do not divide the tile")
	case s.Workgroup != s.TileM/s.ThreadM*(s.TileN/s.ThreadN):
		return fmt.Errorf("the tile takes %d invocations", s.TileM/s.ThreadM*(s.TileN/s.ThreadN))
	}
	if err := checkFlash(k, s, caps); err != nil {
		return err
	}
	if err := checkRegisterTile(s.RegisterTile, s.TileM/s.ThreadM, s.TileN/s.ThreadN, s.ThreadM,
		s.ThreadN); err != nil {
		return err
	}
	if s.Steps && flashShapeOf(k).Factor > 0 {
		return fmt.Errorf("factors of weights are computed from tiles that are kept row by row")
	}
	return checkFlashLanes(k, s)
}

// checkFlashLanes returns an error if the lanes that share a row are not in one subgroup, or have too many sums for
// their registers.
func checkFlashLanes(k *kernel.Kernel, s kernel.FlashTile) error {
	lanes, apart := s.TileN/s.ThreadN, 1
	if s.Paired && lanes > 1 {
		apart = 2 // the lanes of two rows alternate
	}
	if s.Subgroup > 0 && (apart*lanes > s.Subgroup || !powerOfTwo(lanes)) {
		return fmt.Errorf("%d lanes of a row are not a power of two within a subgroup of %d", lanes, s.Subgroup)
	}
	sh, scores := flashShapeOf(k), s.ThreadN
	if sh.Factor > 0 { // the factors of weights take as many registers as the scores
		scores *= 2
	}
	if n := s.ThreadM * (scores + 4*FlashQuads(sh.Value, lanes)); n > maxAccumulators {
		return fmt.Errorf("%d sums per invocation, more than %d spill", n, maxAccumulators)
	}
	return nil
}

// checkFlash checks the requirements that all attention variants have.
func checkFlash(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	sh, t := flashShapeOf(k), AttentionTileOf(s)
	// The gradients of queries and keys multiply weights by a factor, which only flash_tile computes.
	if _, tile := s.(kernel.FlashTile); sh.Factor > 0 && !tile {
		return fmt.Errorf("factors of weights are computed in tiles, by %s", kernel.VarFlashTile)
	}
	if t.Heads < 1 || t.Heads != 1 && (int64(t.Heads) != sh.Heads || t.Rows%t.Heads != 0) {
		return fmt.Errorf("%d heads a tile, want 1 or the %d that share keys, which must divide %d rows", t.Heads,
			sh.Heads, t.Rows)
	}
	if err := checkSplits(k, t); err != nil {
		return err
	}
	_, err := AttentionGrid(k, s, caps)
	return err
}

// maxFlashVec limits the elements of queries, sums and scores that an invocation of flash_vec keeps in registers
// (M-flash-shapes).
const maxFlashVec = 160

// checkFlashVec returns an error if an attention cannot run with a flash_vec schedule.
func checkFlashVec(k *kernel.Kernel, s kernel.FlashVec, caps device.Caps) error {
	sh := flashShapeOf(k)
	switch {
	case s.Subgroup == 0:
		return fmt.Errorf("the lanes that share a key must be in a subgroup whose size is relied on")
	case !powerOfTwo(s.LanesPerRow) || s.LanesPerRow > s.Subgroup:
		return fmt.Errorf("%d lanes a key are not a power of two within a subgroup of %d", s.LanesPerRow, s.Subgroup)
	case s.TileM < 1 || s.ThreadM != s.TileM || s.ThreadN < 1 || s.TileN != s.Workgroup/s.LanesPerRow*s.ThreadN:
		return fmt.Errorf("every invocation has all %d rows and %d keys, a step %d", s.TileM, s.ThreadN,
			s.Workgroup/s.LanesPerRow*s.ThreadN)
	}
	// For each of TileM rows, a lane has its part of the query and of the sums, and the scores of its keys.
	if n := s.TileM * (4*FlashQuads(sh.Dot, s.LanesPerRow) + 4*FlashQuads(sh.Value, s.LanesPerRow) +
		s.ThreadN); n > maxFlashVec {
		return fmt.Errorf("%d queries, sums and scores per invocation, more than %d spill", n, maxFlashVec)
	}
	return checkFlash(k, s, caps)
}

// flashVecShared is the shared memory, in bytes, that the subgroups of a flash_vec workgroup use to combine their
// results: each row's sums, its largest score and its sum of weights.
func flashVecShared(k *kernel.Kernel, s kernel.FlashVec) int {
	subgroups := s.Workgroup / max(s.Subgroup, 1)
	if subgroups == 1 {
		return 0
	}
	return subgroups * s.TileM * (ValueQuads(flashShapeOf(k).Value)*16 + 8)
}

// maxSplits limits the key splits of an attention, because the kernel that joins the parts loops over them.
const maxSplits = 128

// checkSplits checks the number of key splits of a schedule. For a whole attention the schedule may request splits. For
// an attention that is split already it must have the same number.
func checkSplits(k *kernel.Kernel, s AttentionTile) error {
	have := k.Parallel[k.AttentionAxes().Split].Add
	switch {
	case s.Splits < 0 || s.Splits > maxSplits:
		return fmt.Errorf("%d splits, want 0 to %d", s.Splits, maxSplits)
	case have > 1 && int64(s.Splits) != have:
		return fmt.Errorf("%d splits for an attention of %d", s.Splits, have)
	case s.Splits > 1 && k.Fold.IsStatic() && int64(s.Splits-1)*splitLength(k, s) >= leastSeen(k):
		return fmt.Errorf("the last of %d splits of %d keys would see none", s.Splits, splitLength(k, s))
	}
	return nil
}

// checkWhole returns an error if a schedule requests splits for an attention that was not split. Tuned schedules are
// looked up after the passes, and it is then too late to split.
func checkWhole(k *kernel.Kernel, s kernel.Schedule) error {
	if n := AttentionTileOf(s).Splits; n > 1 && k.Parallel[k.AttentionAxes().Split].Is(1) {
		return fmt.Errorf("%d splits for an attention that has not been split", n)
	}
	return nil
}

// AttentionTile is the part that the schedules of all attention variants have.
type AttentionTile struct {
	Rows, Heads int // query rows of a tile, and the heads that share it
	Step        int // keys per iteration: a tile, or two on cooperative matrices
	Splits      int
}

// AttentionTileOf returns the tile of an attention's schedule. It is zero for other schedules.
func AttentionTileOf(s kernel.Schedule) AttentionTile {
	switch s := s.(type) {
	case kernel.FlashTile:
		return AttentionTile{s.TileM, s.Heads, s.TileN, s.Splits}
	case kernel.FlashVec:
		return AttentionTile{s.TileM, s.Heads, s.TileN, s.Splits}
	case kernel.FlashMatrix:
		return AttentionTile{s.TileM, s.Heads, 2 * s.TileN, s.Splits}
	}
	return AttentionTile{}
}

// queries is the number of queries of each head in the tile.
func (t AttentionTile) queries() int { return t.Rows / max(t.Heads, 1) }

// withSplits returns an attention's schedule with n splits. It returns other schedules unchanged.
func withSplits(s kernel.Schedule, n int) kernel.Schedule {
	switch s := s.(type) {
	case kernel.FlashTile:
		s.Splits = n
		return s
	case kernel.FlashVec:
		s.Splits = n
		return s
	case kernel.FlashMatrix:
		s.Splits = n
		return s
	}
	return s
}

// splitLength is the number of keys in a split, a multiple of the step. The last split may be shorter.
func splitLength(k *kernel.Kernel, s AttentionTile) int64 {
	step := int64(max(s.Step, 1))
	return ceil.Div(SplitKeys(k, s).Max(), int64(s.Splits)*step) * step
}

// SplitKeys is the number of keys that the splits of the attention divide among themselves. Without a window these are
// all keys. With a window they are the keys that some row of a workgroup can see, rounded up to a step.
func SplitKeys(k *kernel.Kernel, s AttentionTile) ir.Dim {
	if k.Attention.Window == 0 {
		return k.Fold
	}
	most := k.Attention.Window + int64(s.queries()+s.Step)
	if most >= k.Fold.Max() {
		return k.Fold
	}
	return ir.D(int(most))
}

// leastSeen is the number of keys that every row sees at least.
func leastSeen(k *kernel.Kernel) int64 {
	switch a := k.Attention; {
	case !a.Causal:
		return k.Fold.Max()
	case a.Reversed && a.Window > 0:
		return 0
	case a.Reversed:
		return 1
	}
	// The last of Q queries sees all K keys, so the first sees K-Q+1.
	least := k.Fold.Max() - k.Parallel[k.AttentionAxes().Query].Max() + 1
	if w := k.Attention.Window; w > 0 {
		return min(least, w)
	}
	return least
}

// FlashQuads is the number of vec4 that each lane keeps of a row's result of value elements, divided among lanes.
func FlashQuads(value, lanes int) int { return ceil.Div(ValueQuads(value), lanes) }
