package quant

import (
	"encoding/binary"
	"sync"

	"github.com/vkc-go/vkc/ir"
)

// Codebook returns the table that kernels need to decode t, or nil if the blocks alone suffice. Callers must not change
// it.
//
// The codebooks of iq2 and iq3 are u32 words of four levels, the first in the least significant byte; an entry of eight
// levels is two words. The codebook of iq1 has the byte 8*(v+1) for the level v, which is -1, 0 or 1. So a kernel can
// add the offset of -1/8 or 1/8 as -1 or 1 without a carry between bytes. The codebooks of iq4_nl, iq4_xs, mxfp4 and
// nvfp4 have the 16 levels of a nibble as f32.
func Codebook(t ir.DType) *ir.Data {
	if c := codecOf(t); c.codebook != nil {
		return c.codebook()
	}
	return nil
}

var ternaryBook = sync.OnceValue(func() *ir.Data {
	ternary := make([]uint64, len(gridIQ1S))
	for i, entry := range gridIQ1S {
		for j := range 8 {
			ternary[i] |= uint64(8*(int8(entry>>(8*j))+1)) << (8 * j)
		}
	}
	return packed8(ternary)
})

func wordsOf8(grid []uint64) func() *ir.Data {
	return sync.OnceValue(func() *ir.Data { return packed8(grid) })
}

// packed8 returns a codebook as words: the low and the high half of each entry of eight bytes.
func packed8(grid []uint64) *ir.Data {
	d := &ir.Data{DType: ir.U32, Dims: []int{2 * len(grid)}}
	for _, entry := range grid {
		d.Bytes = binary.LittleEndian.AppendUint64(d.Bytes, entry)
	}
	return d
}

// wordsOf4 returns a function that makes the codebook of a format with entries of four levels.
func wordsOf4(grid []uint32) func() *ir.Data {
	return sync.OnceValue(func() *ir.Data {
		d := &ir.Data{DType: ir.U32, Dims: []int{len(grid)}}
		for _, entry := range grid {
			d.Bytes = binary.LittleEndian.AppendUint32(d.Bytes, entry)
		}
		return d
	})
}

// levelsOf returns a function that makes the codebook of a format with 16 levels, as f32.
func levelsOf(values *[16]int8) func() *ir.Data {
	return sync.OnceValue(func() *ir.Data {
		levels := make([]float64, len(values))
		for i, v := range values {
			levels[i] = float64(v)
		}
		d := &ir.Data{DType: ir.F32, Dims: []int{len(levels)}, Bytes: make([]byte, 4*len(levels))}
		ir.EncodeFloats(d.Bytes, ir.F32, levels)
		return d
	})
}
