package fast

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Kernels read and write elements of at most 16 bits in their narrow format in memory, and convert them block by
// block. So a tensor takes a half or a quarter of the bytes, and has no copy in 32 bits.

// format describes how elements of a dtype of at most 16 bits are converted to 32 bits, as floats or words, and back.
type format struct {
	// load and store convert n elements, a multiple of lanes; nil without assembly. store rounds floats.
	load  func(dst *float32, src *byte, n int)
	store func(dst *byte, src *float32, n int)
	// get and put convert one element. put rounds floats.
	get func(src []byte) float32
	put func(dst []byte, x float32)
}

// formats has the formats of dtypes of at most 16 bits.
var formats = map[ir.DType]*format{
	ir.U8: {get: func(src []byte) float32 { return bitsOfWord(int32(src[0])) }, put: putByte},
	ir.I8: {get: func(src []byte) float32 { return bitsOfWord(int32(int8(src[0]))) }, put: putByte},
	ir.U16: {get: func(src []byte) float32 { return bitsOfWord(int32(binary.LittleEndian.Uint16(src))) },
		put: putHalf},
	ir.I16: {get: func(src []byte) float32 { return bitsOfWord(int32(int16(binary.LittleEndian.Uint16(src)))) },
		put: putHalf},
	ir.Bool: {get: func(src []byte) float32 { return bitsOfWord(int32(src[0])) }, put: putByte},
	ir.BF16: {get: func(src []byte) float32 {
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(src)) << 16)
	}, put: func(dst []byte, x float32) {
		bits := math.Float32bits(x)
		if x != x {
			bits |= 1 << 22 // NaN stays NaN without the lower bits
		} else {
			bits += 0x7fff + bits>>16&1 // to the nearest, of two the even one
		}
		binary.LittleEndian.PutUint16(dst, uint16(bits>>16))
	}},
	ir.F16:    floatFormat(ir.F16),
	ir.F8E4M3: floatFormat(ir.F8E4M3),
	ir.F8E5M2: floatFormat(ir.F8E5M2),
}

func putByte(dst []byte, x float32) { dst[0] = byte(word(x)) }
func putHalf(dst []byte, x float32) { binary.LittleEndian.PutUint16(dst, uint16(word(x))) }

// floatFormat returns the format of a dtype of floats, with a table of all its floats.
func floatFormat(t ir.DType) *format {
	size := t.BlockBytes()
	table := sync.OnceValue(func() []float32 {
		// list has every pattern of the dtype's bits, as little-endian bytes.
		list, wide := make([]byte, size<<(8*size)), make([]float64, 1<<(8*size))
		for i := range wide {
			list[i*size] = byte(i)
			if size == 2 {
				list[i*size+1] = byte(i >> 8)
			}
		}
		ir.DecodeFloats(wide, t, list)
		floats := make([]float32, len(wide))
		for i, x := range wide {
			floats[i] = float32(x)
		}
		return floats
	})
	return &format{get: func(src []byte) float32 {
		if size == 1 {
			return table()[src[0]]
		}
		return table()[binary.LittleEndian.Uint16(src)]
	}, put: func(dst []byte, x float32) { ir.EncodeFloats(dst[:size], t, []float64{float64(x)}) }}
}

func init() {
	for t, f := range assembledFormats() {
		formats[t].load, formats[t].store = f.load, f.store
	}
}

// parts has memory for a block of float32 elements, through which elements are converted from 64 bits to their format
// or back. On the stack it would be cleared for each block.
var parts = sync.Pool{New: func() any { return new([block]float32) }}

// loader returns the function load of a readerOf for elements in the format of tensors: it sets dst to elements from,
// from+step and so on.
func loader[T number](s *interp.Stored) func(dst []T, from, step int) {
	f, size := formats[s.DType], s.DType.BlockBytes()
	read := func(dst []float32, from, step int) {
		whole := 0
		if step == 1 && f.load != nil && len(dst) >= lanes {
			whole = len(dst) / lanes * lanes
			src := s.Bytes[from*size : (from+whole)*size] // the assembly checks no bounds
			f.load(&dst[0], &src[0], whole)
		}
		for i := whole; i < len(dst); i++ {
			dst[i] = f.get(s.Bytes[(from+i*step)*size:])
		}
	}
	if same, ok := any(read).(func(dst []T, from, step int)); ok { // T is float32
		return same
	}
	ofFloats := s.DType.IsFloat()
	return func(dst []T, from, step int) {
		room := parts.Get().(*[block]float32)
		defer parts.Put(room)
		for len(dst) > 0 {
			part := room[:min(len(dst), block)]
			read(part, from, step)
			if wide := any(dst[:len(part)]).([]float64); ofFloats {
				doublesOf(wide, part)
			} else {
				longsOf(wide, wordsOf(part))
			}
			dst, from = dst[len(part):], from+len(part)*step
		}
	}
}

// storer returns the function store of results for elements in the format of tensors: it stores a list from element
// `at` on. Floats are rounded as if once: those of 64 bits are first rounded to odd float32 (see oddFloatsOf).
func storer[T number](s *interp.Stored) func(at int, list []T) {
	f, size := formats[s.DType], s.DType.BlockBytes()
	write := func(at int, list []float32) {
		dst, whole := s.Bytes[at*size:(at+len(list))*size], 0
		if f.store != nil && len(list) >= lanes {
			whole = len(list) / lanes * lanes
			f.store(&dst[0], &list[0], whole)
		}
		for i, x := range list[whole:] {
			f.put(dst[(whole+i)*size:], x)
		}
	}
	if same, ok := any(write).(func(at int, list []T)); ok { // T is float32
		return same
	}
	ofFloats := s.DType.IsFloat()
	return func(at int, list []T) {
		room := parts.Get().(*[block]float32)
		defer parts.Put(room)
		for len(list) > 0 {
			part := room[:min(len(list), block)]
			if wide := any(list[:len(part)]).([]float64); ofFloats {
				oddFloatsOf(part, wide)
			} else {
				lowWordsOf(wordsOf(part), wide)
			}
			write(at, part)
			list, at = list[len(part):], at+len(part)
		}
	}
}
