package schedule

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// normalize drops options that a kernel does not allow, and fills in fields that follow from the kernel and the device.
// So the printed form of a normalized schedule describes the generated code. Normalizing twice changes nothing more.
func normalize(k *kernel.Kernel, schedule kernel.Schedule, caps device.Caps) kernel.Schedule {
	if family := familyOf(schedule); family == "" || family != k.Family ||
		family == kernel.FamilyMatMul && checkMatMulShape(k) != nil {
		return schedule
	}
	switch s := schedule.(type) {
	case kernel.Points:
		if s.Variant == kernel.VarMap {
			s.Vec = mapWidth(k, s.Vec)
		}
		return s
	case kernel.MapTile:
		s.Vec = mapWidth(k, s.Vec)
		return s
	case kernel.Row:
		if s.Variant != kernel.VarSelect {
			return normalizeRow(k, s)
		}
	case kernel.Lanes:
		if k.Family == kernel.FamilyScan {
			return normalizeScan(k, s)
		}
	case kernel.MatVec:
		return normalizeMatVec(k, s, caps)
	case kernel.CoopMat2:
		if s.TileK > 0 {
			s.HideSteps = hidesSteps(k, s)
		}
		return s
	}
	return schedule
}

// mapWidth limits a map's vector width to the number of adjacent elements.
func mapWidth(k *kernel.Kernel, most int) int {
	inner := len(k.Parallel) - 1
	most = min(most, mapVec(k))
	if most <= 1 {
		return 1
	}
	return k.VectorWidth(inner, k.Parallel[inner], most, k.Roots(), k.Stores)
}

// normalizeRow limits the vector width. It also sets the number of elements that an invocation keeps in registers: its
// whole share of the row, if several passes need a value and s.Cache allows that many, and otherwise none. A kernel
// does not rely on subgroups that hold no two lanes of a row.
func normalizeRow(k *kernel.Kernel, s kernel.Row) kernel.Row {
	if lanesApart(k, s) {
		s.Subgroup = 0
	}
	s.Vec = rowWidth(k, rowVec(k, s.Vec))
	given, each := s.Cache, ceil.Div(k.Fold.Max(), int64(max(s.LanesPerRow, 1)*s.Vec))*int64(s.Vec)
	s.Cache = 0
	if k.Fold.IsStatic() && each > 0 && each <= int64(given) && len(k.Kept()) > 0 {
		s.Cache = int(each)
	}
	return s
}

// lanesApart reports whether the lanes of a row are in different subgroups, because a subgroup has at most one lane of
// each row of the workgroup.
func lanesApart(k *kernel.Kernel, s kernel.Row) bool {
	return s.Variant == kernel.VarRowGroup && s.LanesPerRow > 0 && LanesAcross(k, s) &&
		s.Subgroup < 2*(s.Workgroup/s.LanesPerRow)
}

// normalizeScan limits the vector width of a scan, so that neither a row nor the part of it up to k.Limit ends inside a
// vector.
func normalizeScan(k *kernel.Kernel, s kernel.Lanes) kernel.Lanes {
	s.Vec = rowWidth(k, scanVec(k, s.Vec))
	return s
}

// rowWidth limits the vector width along a row to most, and to the number of adjacent elements.
func rowWidth(k *kernel.Kernel, most int) int {
	stores := slices.DeleteFunc(slices.Clone(k.Stores), func(s kernel.Store) bool { return !s.PerElement })
	return k.VectorWidth(k.FoldAxis(), k.Fold, most, k.Roots(), stores)
}

// ManyRows is the number of rows from which a matvec decodes blocks completely, including scales. That takes one
// operation per element. The alternative scales the sums of a strip and subtracts sums of rows, which takes one
// operation per strip of every row.
const ManyRows = 3

// normalizeMatVec determines how a matvec decodes B. It clears the options that need B as rows of quantized blocks if B
// is something else, and the options that keep the rows of A in shared memory if they do not fit.
func normalizeMatVec(k *kernel.Kernel, given kernel.MatVec, caps device.Caps) kernel.MatVec {
	if given.Workgroup < 1 || given.LanesPerRow < 1 || given.ThreadN < 1 || given.TileK < 0 {
		return given // [New] rejects it
	}
	s := kernel.MatVec{Launch: given.Launch, Coarsen: given.Coarsen, LanesPerRow: given.LanesPerRow, Tile: given.Tile,
		ThreadM: given.ThreadM, ThreadN: given.ThreadN, Tables: given.Tables, Decode: kernel.DecodeQuads}
	s.TileK = 0
	fits := given.Coarsen == 0 || rowsResident(k, given)
	if k.BlockRows() == ir.Invalid || given.TileK == 0 || !fits {
		if takesFourWords(k) {
			s.Decode = kernel.DecodeWords
		}
		return s
	}
	run := k.BlockRun(given)
	s.TileK, s.RoundRows = given.TileK, given.RoundRows
	byteRows := caps.Features.IntegerDotProduct && 4*run.Quads <= kernel.RoundedGroup && rowsOfBytes(k)
	s.Decode = decodeOf(k, given, run, byteRows)
	levels := run.Form.Levels && s.Decode != kernel.DecodeLookup // quants are floats
	s.IntDot = s.RoundRows || byteRows && !levels
	if _, table := LookupTableOf(run.DType); table && s.Decode == kernel.DecodeLookup {
		s.Copies = given.Copies
	}
	strips := s.Decode == kernel.DecodeStrips
	if strips && s.RoundRows && s.Coarsen > 0 && s.ThreadM == 1 && takesDigits(run) {
		s.Digits = given.Digits
	}
	s.Subnormals = given.Subnormals && (s.Decode == kernel.DecodePacked || !s.IntDot && !levels)
	s.Chained = strips && !s.IntDot && s.ThreadM == 1 && (s.Coarsen > 0 || readsLong(k, run))
	s.StageRows = given.StageRows && !s.IntDot && k.Fold.IsStatic() &&
		s.LanesPerRow%(run.DType.BlockElems()/run.Elems) == 0
	s.Prefetch = normalizePrefetch(k, s, given.Prefetch)
	return s
}

// decodeOf returns how a matvec decodes a run of a block. byteRows says that its rows are stored as int8. If neither a
// lookup nor a faster way suits the format, it decodes the run strip by strip.
func decodeOf(k *kernel.Kernel, s kernel.MatVec, run kernel.BlockRun, byteRows bool) kernel.Decode {
	row, _ := ir.BlockFormatOf(run.DType)
	// intDot: the quants and the row are small integers, which the kernel multiplies by integer dot products.
	planes, intDot := allPlanes(k), s.RoundRows || byteRows && !run.Form.Levels
	// packed: the run is 16 bytes of four 2-bit quants each, which can be multiplied without unpacking them first.
	packed := row.Packed != nil && run.Quads == 4 && run.Strips == kernel.PackedFields
	switch {
	case planes && looksUp(run, s, s.RoundRows || byteRows):
		return kernel.DecodeLookup
	case s.ThreadM >= ManyRows && !intDot && s.Coarsen == 0:
		return kernel.DecodeWhole
	case packed && planes && intDot && s.ThreadM == 1:
		return kernel.DecodePacked
	}
	return kernel.DecodeStrips
}

// normalizePrefetch drops a mode that a matvec does not have, and limits sectors to the first pass. Blocks that cannot
// stay in registers are loaded into the cache.
func normalizePrefetch(k *kernel.Kernel, s kernel.MatVec, p kernel.Prefetch) kernel.Prefetch {
	run, planes := k.BlockRun(s), allPlanes(k)
	early := s.RoundRows && s.Coarsen > 0 // blocks can be loaded early, before the rows are quantized
	row, _ := ir.BlockFormatOf(run.DType)
	none := kernel.Prefetch{}
	switch p.Mode {
	case kernel.PrefetchRuns:
		if s.RoundRows || s.Coarsen > 0 {
			return none
		}
	case kernel.PrefetchCache, kernel.PrefetchRegisters:
		if !early || s.Decode != kernel.DecodeStrips || !run.Form.NeedsSums() {
			return none
		}
		if p.Mode == kernel.PrefetchRegisters && !(planes && run.SharedScale && row.Decode.ReadsOnce()) {
			p.Mode = kernel.PrefetchCache
		}
	case kernel.PrefetchSectors:
		if !early || !planes {
			return none
		}
		most := ceil.Div(PrefetchSectors(k, s), s.Workgroup)
		if most == 0 {
			return none
		}
		p.Depth = min(p.Depth, most)
	}
	return p
}

// looksUp reports whether a run is decoded an octet (eight quants) at a time. Octets of base-3 digits are decoded by
// multiplication with constants, and only for integer rows (ints). Other octets are decoded by a table, which needs
// s.Copies.
func looksUp(r kernel.BlockRun, s kernel.MatVec, ints bool) bool {
	f, ok := ir.BlockFormatOf(r.DType)
	switch {
	case !ok || f.Octets == nil || r.Quads%2 != 0 || r.Form.FieldsApart() && !r.SharedScale:
		return false
	case f.Octets.Masks == ir.ThirdMasks:
		return ints && r.Elems == r.DType.BlockElems()
	}
	return s.Copies > 0 && (ints || s.ThreadM < ManyRows)
}

// readsLong reports whether the quants of every strip (the elements that share a scale) are read eight or sixteen bytes
// at a time, and no two strips share their bytes. A matvec of floats then keeps one running sum over the strips of
// several scales. Otherwise a separate sum for each strip is faster (M-matvec-blocks).
func readsLong(k *kernel.Kernel, r kernel.BlockRun) bool {
	return !slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool {
		b := k.Bindings[kernel.Widened(p.B).Bind]
		return !r.Wide(b) && !r.Pairs(b)
	})
}

// allPlanes reports whether the operands B of all matmuls are stored in planes.
func allPlanes(k *kernel.Kernel) bool {
	return !slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool {
		return k.Bindings[kernel.Widened(p.B).Bind].Layout != kernel.LayoutPlanes
	})
}

// rowsOfBytes reports whether every A is int8 with a scale per group, contiguous along the contraction axis.
func rowsOfBytes(k *kernel.Kernel) bool {
	return !slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool {
		bytes, scale, ok := k.ByteRows(p.A)
		return !ok || !bytes.Index.Adjacent(k.FoldAxis(), 16) || !k.InGroups(scale)
	})
}

// takesFourWords reports whether all operands are int8 and contiguous along the contraction axis in whole units of 16
// elements, four words.
func takesFourWords(k *kernel.Kernel) bool {
	if _, ok := ByteMatMuls(k); !ok || !DivisibleBy(k.Fold, 16) {
		return false
	}
	for _, p := range k.MatMuls {
		for _, v := range []*kernel.Expr{p.A, p.B} {
			if v.Kind != kernel.ExprLoad || k.Bindings[v.Bind].Write || k.Bindings[v.Bind].DType.IsBlock() ||
				!v.Index.Adjacent(k.FoldAxis(), 16) {
				return false
			}
		}
	}
	return true
}

// PrefetchSectors is the number of 32-byte sectors of the largest plane that a workgroup's first pass reads.
func PrefetchSectors(k *kernel.Kernel, s kernel.MatVec) int {
	t := k.BlockRows()
	plane := kernel.PlanesOf(t)[LargestPlane(t)]
	perColumn := int(k.Fold.Add) / t.BlockElems() * plane.Bytes / SectorBytes
	return s.TileN / max(s.Coarsen, 1) * perColumn
}
