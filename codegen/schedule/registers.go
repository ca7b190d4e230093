package schedule

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// Registers estimates how many 32-bit registers an invocation uses at the same time: for values that it keeps through
// its loops, such as accumulators, operands and cached elements. It returns 0 if unknown. The constants are fitted to
// driver reports (golden/drivers).
func Registers(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) int {
	return heuristicsOf(caps).registersOf(k, s)
}

// fits reports whether each invocation of a workgroup probably has enough registers.
func (h heuristics) fits(k *kernel.Kernel, s kernel.Schedule) bool {
	budget := h.registers
	if h.registerFile > 0 {
		budget = min(budget, h.registerFile/max(s.Config().Workgroup, 1))
	}
	return h.registersOf(k, s) <= budget
}

// registersOf estimates the number of 32-bit registers that an invocation needs.
func (h heuristics) registersOf(k *kernel.Kernel, s kernel.Schedule) int {
	const others = 28 // addresses, bounds, loop counters
	tile := func(rows, columns int) int { return rows*columns + rows + columns + others }
	switch s := s.(type) {
	case kernel.MatTile:
		return tile(s.ThreadM, s.ThreadN*len(k.MatMuls))
	case kernel.MatDirect:
		return tile(s.ThreadM, s.ThreadN*len(k.MatMuls))
	case kernel.MatVec:
		return h.matVecRegisters(k, s) + others
	case kernel.Row:
		return h.rowRegisters(k, s) + others
	case kernel.Recurrent:
		// The lane's part of the state, the operands of the times in flight, and the lane's part of y.
		operands := 4*StateQuads(k, s)*len(k.Recurrence.Vectors(k.KeyAxis())) + s.ThreadM + 1
		if s.Ahead {
			operands *= 2
		}
		return 4*StateQuads(k, s)*s.ThreadM + s.TileK*(operands+s.ThreadM) + others
	case kernel.FlashTile:
		// Scores, and the lane's part of the weighted values.
		sums := s.ThreadM * (s.ThreadN + 4*FlashQuads(flashShapeOf(k).Value, s.TileN/max(s.ThreadN, 1)))
		return sums + s.ThreadM + s.ThreadN + others
	case kernel.FlashVec:
		// The lane's part of each query and its weighted values, and of the current keys and values; and the scores.
		sh, lanes := flashShapeOf(k), max(s.LanesPerRow, 1)
		queries, values := 4*FlashQuads(sh.Dot, lanes), 4*FlashQuads(sh.Value, lanes)
		return s.ThreadM*(queries+values) + s.ThreadN*max(queries, values) + s.ThreadM*s.ThreadN + others
	case kernel.FlashMatrix:
		if s.Variant == kernel.VarFlashMatrix {
			return h.flashMatrixRegisters(flashShapeOf(k), s) + others + 8 // and the start of lines in shared memory
		}
	}
	return 0
}

// rowRegisters is the number of row elements that an invocation keeps in registers: because the schedule says so, or
// because the compiler unrolls the loops over the row.
func (h heuristics) rowRegisters(k *kernel.Kernel, s kernel.Row) int {
	n := k.Fold.Max()
	if s.Variant == kernel.VarSelect {
		return 2 * s.Cache // a key and an index of each element
	}
	if s.Variant == kernel.VarRowSerial && readsTwice(k) && k.Fold.IsStatic() && n <= h.unrolledRow {
		return int(n) * len(loadsAlong(k.Roots(), k.FoldAxis()))
	}
	return s.Cache
}

// matVecRegisters is the number of registers that an invocation of a matvec uses for its rows, columns and sums.
func (h heuristics) matVecRegisters(k *kernel.Kernel, s kernel.MatVec) int {
	rows, columns := s.ThreadM, s.ThreadN*len(k.MatMuls)
	lanes := int64(max(s.LanesPerRow, 1))
	if s.TileK == 0 || k.BlockRows() == ir.Invalid { // elements are read singly, also from blocks
		steps, each := 1, int64(4) // iterations that are unrolled; elements per load, one per register
		if s.Decode == kernel.DecodeWords {
			each = 16
		}
		if n := ceil.Div(k.Fold.Max(), lanes*each); k.Fold.IsStatic() && n*each*int64(rows*columns) <= h.unrolled {
			steps = int(n)
		}
		return rows*columns + 4*steps*(rows+columns)
	}
	// For each row: a run with its scale and sum. For each column: a run of quants of about four bits, scales and an
	// offset.
	row, column, scales := s.TileK, s.TileK/8, k.BlockRun(s).Scales()
	unpacked := 0 // registers for words of a row that the compiler unpacks
	switch {
	case s.RoundRows || readsBytes(k):
		words := s.TileK / 4 * s.RowBytes()
		row, column, unpacked = words, column*h.byteWord, words*(h.byteWord-1)
	case rows > maxResidentRows: // blocks are decoded whole
		row = min(row, 8)
	}
	if s.Coarsen > 0 && rowsResident(k, s) {
		row *= int(ceil.Div(k.Fold.Max(), lanes*int64(s.TileK)))
	}
	if s.Prefetch.Mode == kernel.PrefetchRegisters { // and the registers of the next pass, in addition
		columns *= 2
	}
	return s.Prefetch.Runs()*(rows*(row+unpacked)+columns*(column+scales+1)) + rows*(columns+2)
}

// flashMatrixRegisters is the number of registers that an invocation uses for fragments (queries, weights,
// accumulators, and the scores of two tiles), and for keys and values on their way to shared memory.
func (h heuristics) flashMatrixRegisters(sh flashShape, s kernel.FlashMatrix) int {
	lanes := s.Subgroup
	if h.operandLanes > 0 {
		lanes = min(lanes, h.operandLanes)
	}
	operands := s.FragM * (sh.Dot/FlashParts(s) + s.TileN) / 2 / max(lanes, 1)
	sums := s.FragM * (sh.Value/FlashParts(s) + 2*s.TileN) / max(s.Subgroup, 1)
	staged := s.TileN * (sh.Dot + sh.Value) / 2 / max(s.Workgroup, 1)
	return operands + sums + staged
}
