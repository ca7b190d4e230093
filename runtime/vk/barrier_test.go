package vk

import "testing"

// TestBarrierWords: a barrier makes the writes before it available, and makes them visible to the reads and the writes
// after it. The numbers are Vulkan's.
func TestBarrierWords(t *testing.T) {
	type half struct{ stages, access uint64 }
	before := map[Stage]half{ // VK_PIPELINE_STAGE_2_*, and the writes among VK_ACCESS_2_*
		StageCompute:  {0x800, 0x40},
		StageTransfer: {0x1000, 0x1000},
		StageIndirect: {0x2, 0},
		StageHost:     {0x4000, 0x4000},
	}
	after := map[Stage]half{
		StageCompute:  {0x800, 0x20 | 0x40},
		StageTransfer: {0x1000, 0x800 | 0x1000},
		StageIndirect: {0x2, 0x1},
		StageHost:     {0x4000, 0x2000 | 0x4000},
	}
	of := func(table map[Stage]half, stages Stage) (sum half) {
		for stage, h := range table {
			if stages&stage != 0 {
				sum.stages, sum.access = sum.stages|h.stages, sum.access|h.access
			}
		}
		return sum
	}
	for from := Stage(0); from < 16; from++ {
		for to := Stage(0); to < 16; to++ {
			a, b := of(before, from), of(after, to)
			words := appendBarrier(nil, from, to)
			if len(words) != barrierWords || words[0] != uint64(opBarrier)|(barrierWords-1)<<32 ||
				words[1] != a.stages|b.stages<<32 || words[2] != a.access|b.access<<32 {
				t.Errorf("from stages %#x to %#x: %#x, want stages %#x to %#x, accesses %#x to %#x", from, to, words,
					a.stages, b.stages, a.access, b.access)
			}
		}
	}
}
