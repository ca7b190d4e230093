package fast

import (
	"golang.org/x/sys/cpu"

	"github.com/vkc-go/vkc/ir"
)

// assemblies returns the assembly that this processor can run: for every arm64 processor, and also for processors with
// instructions for dot products of bytes.
func assemblies() []*assembly {
	neon := assembly{
		name: "neon", lanes: 4, dots1x4: dots1x4, tile: dots4x4, tileCols: 4, weigh4: weigh4, weigh1: weigh1,
		dots: byFormat[dotsOf]{ir.F16: dots1x4F16, ir.BF16: dots1x4BF16, ir.Q8_0: dots1x4Q8_0, ir.Q4_0: dots1x4Q4_0},
		decoders: byFormat[decoder]{ir.F16: widenF16, ir.BF16: widenBF16, ir.Q8_0: decodeQ8_0,
			ir.Q4_0: decodeQ4_0},
	}
	list := []*assembly{&neon}
	if cpu.ARM64.HasASIMDDP {
		dotprod := neon
		dotprod.name = "dotprod"
		dotprod.byteDots = byFormat[byteDotsOf]{ir.Q8_0: byteDotsQ8_0, ir.Q4_0: byteDotsQ4_0}
		list = append(list, &dotprod)
	}
	return list
}
