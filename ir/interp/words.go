package interp

import (
	"encoding/binary"
	"math"

	"github.com/vkc-go/vkc/ir"
)

// Programs with kernels of a backend keep integers of at most 32 bits, and bools, as 32-bit words: in half the memory
// of int64, and in the caller's memory if possible. Kernels compute words. The interpreter computes int64, so a node
// without a kernel gets its arguments converted, unless it only moves elements.

// isWord reports whether elements of a dtype are kept as words. Those of u32 are the bits of an int32.
func isWord(t ir.DType) bool { return !t.IsFloat() && !t.IsBlock() && t.BlockBytes() <= 4 }

// movesWords reports whether an op moves elements of its arguments without converting them. It can compute words.
func movesWords(op ir.Op) bool {
	switch op {
	case ir.OpReshape, ir.OpSqueeze, ir.OpUnsqueeze, ir.OpTranspose, ir.OpSlice, ir.OpBroadcast, ir.OpFlip, ir.OpRoll,
		ir.OpGather, ir.OpIndexSelect, ir.OpGatherND, ir.OpEmbedding, ir.OpConcat, ir.OpDynamicSlice,
		ir.OpDynamicUpdateSlice, ir.OpScatter, ir.OpScatterAdd, ir.OpIndexAdd, ir.OpScatterND, ir.OpScatterNDAdd,
		ir.OpIf, ir.OpLoop, ir.OpResult:
		return true
	}
	return false
}

// decodeWords decodes integers or bools from the format of tensors.
func decodeWords(dst []int32, t ir.DType, src []byte) {
	switch t {
	case ir.Bool:
		for i := range dst {
			dst[i] = 0
			if src[i] != 0 {
				dst[i] = 1
			}
		}
	case ir.U8:
		for i := range dst {
			dst[i] = int32(src[i])
		}
	case ir.I8:
		for i := range dst {
			dst[i] = int32(int8(src[i]))
		}
	case ir.U16:
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case ir.I16:
		for i := range dst {
			dst[i] = int32(int16(binary.LittleEndian.Uint16(src[2*i:])))
		}
	case ir.I32, ir.U32:
		if list := listIn[int32](src); list != nil {
			copy(dst, list)
			return
		}
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint32(src[4*i:]))
		}
	default: // 4-bit integers, two to a byte
		list := make([]int64, len(dst))
		ir.DecodeInts(list, t, src)
		for i, x := range list {
			dst[i] = int32(x)
		}
	}
}

// encodeWords encodes integers or bools to the format of tensors, from which decodeWords reads them.
func encodeWords(dst []byte, t ir.DType, src []int32) {
	switch t.Bits() {
	case 8:
		for i, x := range src {
			dst[i] = byte(x)
		}
	case 16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(x))
		}
	case 32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(x))
		}
	default: // 4-bit integers, two to a byte
		ir.EncodeInts(dst, t, value{i32: src}.ints())
	}
}

// ints returns the elements of an integer or bool value.
func (v value) ints() []int64 {
	if v.i32 == nil {
		return v.i64
	}
	out := make([]int64, len(v.i32))
	mask := int64(-1)
	if v.typ == ir.U32 {
		mask = math.MaxUint32
	}
	for j, x := range v.i32 {
		out[j] = int64(x) & mask
	}
	return out
}

// words returns the elements of an integer or bool value of at most 32 bits.
func (v value) words() []int32 {
	if v.i64 == nil {
		return v.i32
	}
	out := make([]int32, len(v.i64))
	for j, x := range v.i64 {
		out[j] = int32(x)
	}
	return out
}

// first returns the first element of an integer or bool value.
func (v value) first() int64 {
	if v.i32 != nil {
		v.i32 = v.i32[:1]
	}
	return v.ints()[0]
}
