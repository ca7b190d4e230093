package target

import "github.com/vkc-go/vkc/codegen/kernel"

// Registers estimates how many registers of 32 bits an invocation of a kernel has in use at once, by what it keeps
// through its loops: sums, operands, cached elements. It is 0 where nothing is known, as of what matrix units keep. The
// constants fit what drivers report (golden/drivers).
func Registers(k *kernel.Kernel, s kernel.Schedule) int {
	const others = 28 // addresses, bounds, loop counters
	switch s.Variant {
	case kernel.VarMatTile, kernel.VarMatDirect:
		return s.ThreadM*s.ThreadN*len(k.Products) + s.ThreadM + s.ThreadN*len(k.Products) + others
	case kernel.VarRowSerial, kernel.VarRowGroup:
		return s.Cache + others
	case kernel.VarSelect:
		return 2*s.Cache + others // a key and an index of each element
	case kernel.VarFlashTile:
		// Scores, and the part of the weighted values that a lane sums up.
		sums := s.ThreadM * (s.ThreadN + 4*FlashQuads(flashShapeOf(k).Value, s.TileN/max(s.ThreadN, 1)))
		return sums + s.ThreadM + s.ThreadN + others
	case kernel.VarFlashVec:
		// A lane's part of each query, and of its weighted values; of the keys at hand, and of their values; scores.
		sh, lanes := flashShapeOf(k), max(s.LanesPerRow, 1)
		queries, values := 4*FlashQuads(sh.Dot, lanes), 4*FlashQuads(sh.Value, lanes)
		return s.ThreadM*(queries+values) + s.ThreadN*max(queries, values) + s.ThreadM*s.ThreadN + others
	default:
		return 0
	}
}
