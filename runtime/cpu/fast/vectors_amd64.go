package fast

import (
	"golang.org/x/sys/cpu"

	"github.com/vkc-go/vkc/internal/disabled"
	"github.com/vkc-go/vkc/ir"
)

// vectors reports whether this processor has AVX2, which the functions need that exist for one width only.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C && cpu.X86.HasBMI2

// assemblies returns the assembly that this processor can run, for each width of vectors, the narrowest first.
func assemblies() []*assembly {
	if !vectors {
		return nil
	}
	list := []*assembly{{
		name: "avx2", lanes: 8, dots1x4: dots1x4, tile: dots4x3, tileCols: 3, weigh4: weigh4, weigh1: weigh1,
		dots: map[ir.DType]dotsOf{ir.F16: dots1x4F16, ir.BF16: dots1x4BF16, ir.Q8_0: dots1x4Q8_0, ir.Q4_0: dots1x4Q4_0,
			ir.Q4_K: dots1x4Q4_K, ir.Q6_K: dots1x4Q6_K},
		decoders: map[ir.DType]decoder{ir.F16: widenF16, ir.BF16: widenBF16, ir.Q8_0: decodeQ8_0, ir.Q4_0: decodeQ4_0,
			ir.Q4_K: decodeQ4_K, ir.Q6_K: decodeQ6_K},
		pairs: []intDots{{4, pairs4}, {2, pairs2}, {1, pairs1}},
	}}
	if x := cpu.X86; x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI {
		list = append(list, &assembly{
			name: disabled.AVX512, lanes: 16, dots1x4: dots1x4Z, tile: dots4x6Z, tileCols: 6, weigh4: weigh4Z,
			weigh1: weigh1Z,
			dots: map[ir.DType]dotsOf{ir.F16: dots1x4F16Z, ir.BF16: dots1x4BF16Z, ir.Q8_0: dots1x4Q8_0Z,
				ir.Q4_0: dots1x4Q4_0Z, ir.Q4_K: dots1x4Q4_KZ, ir.Q6_K: dots1x4Q6_KZ},
			decoders: map[ir.DType]decoder{ir.F16: widenF16Z, ir.BF16: widenBF16Z, ir.Q8_0: decodeQ8_0Z,
				ir.Q4_0: decodeQ4_0Z, ir.Q4_K: decodeQ4_KZ, ir.Q6_K: decodeQ6_KZ},
			pairs: []intDots{{8, pairs8Z}, {4, pairs4Z}, {2, pairs2Z}, {1, pairs1Z}},
			quads: []intDots{{8, quads8Z}, {4, quads4Z}, {2, quads2Z}, {1, quads1Z}},
		})
	}
	return list
}

// byteDots has the assembly for [multiplyBytes], by the block format of b.
var byteDots = map[ir.DType]func(out *float32, a *int8, scales, sums *float32, b *byte, ldb, n int){
	ir.Q8_0: byteDotsQ8_0, ir.Q4_0: byteDotsQ4_0, ir.Q4_K: byteDotsQ4_K, ir.Q6_K: byteDotsQ6_K,
}

// reductions has the assembly of reducers, by their names.
var reductions = map[string]reduction{
	"sum":        {sumList, sumEach},
	"sumSquares": {sumSquaresList, sumSquaresEach},
	"least":      {leastList, leastEach},
	"greatest":   {greatestList, greatestEach},
}

func init() {
	if !vectors {
		clear(reductions)
		clear(byteDots)
	}
}

// exps replaces each x by exp(x-shift).
func exps(x []float32, shift float32) {
	whole := len(x) / lanes * lanes
	if !vectors || whole == 0 {
		expsPlain(x, shift)
		return
	}
	expVectors(&x[0], shift, whole)
	expsPlain(x[whole:], shift)
}

// fill sets all elements of a list to x.
func fill(list []float32, x float32) {
	whole := 0
	if vectors && len(list) >= lanes {
		whole = len(list) / lanes * lanes
		repeatVectors(&list[0], x, whole)
	}
	fillPlain(list[whole:], x)
}

// assembled returns the assembly of primitives, by name.
func assembled() map[string]func(out, x, y, z *float32, n int) {
	if !vectors {
		return nil
	}
	return map[string]func(out, x, y, z *float32, n int){
		"+": addVectors, "-": subVectors, "*": mulVectors, "/": divVectors,
		"<": lessVectors, "<=": atMostVectors, ">": moreVectors, ">=": atLeastVectors,
		"==": equalVectors, "!=": differVectors, "?:": chooseVectors,
		"nan_min": minVectors, "nan_max": maxVectors, "neg": negVectors, "abs": absVectors,
		"sqrt": sqrtVectors, "floor": floorVectors, "ceil": ceilVectors, "roundEven": roundVectors,
		"trunc": truncVectors, "exp": expOfVectors, roundings[ir.F16]: toF16Vectors, roundings[ir.BF16]: toBF16Vectors,
	}
}
