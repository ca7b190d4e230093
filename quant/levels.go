package quant

import (
	"encoding/binary"
	"sync"

	"github.com/vkc-go/vkc/ir"
)

// Codebook returns the table that kernels need to decode t, or nil where the
// blocks say it all. Callers must not change it.
//
// The codebooks of iq2 and iq3 are u32 words of four levels, the first in the
// least significant byte; an entry of eight levels is two words. Those of iq1
// hold 8*(v+1) for the ternary v, so that eighths can be added to bytes without
// a carry. iq4_nl, iq4_xs and mxfp4 have the 16 levels of a nibble as f32.
func Codebook(t ir.DType) *ir.Data { return codebooks()[t] }

var codebooks = sync.OnceValue(func() map[ir.DType]*ir.Data {
	ternary := make([]uint64, len(gridIQ1S))
	for i, entry := range gridIQ1S {
		for j := range 8 {
			ternary[i] |= uint64(8*(int8(entry>>(8*j))+1)) << (8 * j)
		}
	}
	iq1 := wordsOf8(ternary)
	iq4 := levelsOf(valuesIQ4NL[:])
	return map[ir.DType]*ir.Data{
		ir.IQ1_S: iq1, ir.IQ1_M: iq1,
		ir.IQ2_XXS: wordsOf8(gridIQ2XXS[:]), ir.IQ2_XS: wordsOf8(gridIQ2XS[:]), ir.IQ2_S: wordsOf8(gridIQ2S[:]),
		ir.IQ3_XXS: wordsOf4(gridIQ3XXS[:]), ir.IQ3_S: wordsOf4(gridIQ3S[:]),
		ir.IQ4_NL: iq4, ir.IQ4_XS: iq4, ir.MXFP4: levelsOf(valuesMXFP4[:]),
	}
})

func wordsOf8(grid []uint64) *ir.Data {
	d := &ir.Data{DType: ir.U32, Dims: []int{2 * len(grid)}}
	for _, entry := range grid {
		d.Bytes = binary.LittleEndian.AppendUint64(d.Bytes, entry)
	}
	return d
}

func wordsOf4(grid []uint32) *ir.Data {
	d := &ir.Data{DType: ir.U32, Dims: []int{len(grid)}}
	for _, entry := range grid {
		d.Bytes = binary.LittleEndian.AppendUint32(d.Bytes, entry)
	}
	return d
}

func levelsOf(values []int8) *ir.Data {
	levels := make([]float64, len(values))
	for i, v := range values {
		levels[i] = float64(v)
	}
	d := &ir.Data{DType: ir.F32, Dims: []int{len(levels)}, Bytes: make([]byte, 4*len(levels))}
	ir.EncodeFloats(d.Bytes, ir.F32, levels)
	return d
}
