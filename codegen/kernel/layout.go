package kernel

import (
	"fmt"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// Layout is the memory layout of a buffer's blocks.
type Layout string

// The layouts.
const (
	// LayoutBlocks has whole blocks one after another, as files do.
	LayoutBlocks Layout = ""
	// LayoutPlanes stores each part of the blocks in a separate plane, so that adjacent invocations read adjacent,
	// aligned bytes: see [PlanesOf]. Only weights use it; loading rearranges them.
	LayoutPlanes Layout = "planes"
)

// Plane is one part of a block format, such as the scales: Bytes bytes from byte At of each block.
type Plane struct {
	Name      string
	At, Bytes int
}

// planeAlign is the alignment of planes in a buffer, the size in bytes of the widest load.
const planeAlign = 16

// PlanesOf returns the planes of a block format in their order in a buffer, or nil for a dtype without planes.
func PlanesOf(t ir.DType) []Plane {
	f, ok := ir.BlockFormatOf(t)
	if !ok {
		return nil
	}
	planes := make([]Plane, len(f.Parts))
	for i, p := range f.Parts {
		end := f.Bytes
		if i+1 < len(f.Parts) {
			end = f.Parts[i+1].At
		}
		planes[i] = Plane{p.Name, p.At, end - p.At}
	}
	return planes
}

// PlaneBase returns the byte offset of plane i in a buffer with the given number of blocks. For i = len(PlanesOf(t)) it
// returns the end of the last plane. Planes begin at multiples of 16 bytes.
func PlaneBase(t ir.DType, i int, blocks int64) int64 {
	base := int64(0)
	for _, p := range PlanesOf(t)[:i] {
		base += ceil.Multiple(blocks*int64(p.Bytes), planeAlign)
	}
	return base
}

// Bytes returns the size of a buffer of elems elements in the layout, a multiple of 16 and at least 16.
func (l Layout) Bytes(t ir.DType, elems int64) (int64, error) {
	n, err := t.BytesFor(elems)
	if err != nil {
		return 0, err
	}
	switch {
	case l == LayoutPlanes && len(PlanesOf(t)) > 0:
		n = PlaneBase(t, len(PlanesOf(t)), elems/int64(t.BlockElems()))
	case l != LayoutBlocks:
		return 0, fmt.Errorf("%s has no layout %q", t, l)
	}
	return max(ceil.Multiple(n, planeAlign), planeAlign), nil
}

// PackPlane fills dst with the bytes of plane p of the blocks in src, from byte first of the plane on. src holds whole
// consecutive blocks, enough for dst.
func PackPlane(dst []byte, t ir.DType, p Plane, src []byte, first int64) {
	size := t.BlockBytes()
	skip := int(first % int64(p.Bytes)) // bytes of the first block's part that come before first
	src = src[first/int64(p.Bytes)*int64(size):]
	for at := p.At; len(dst) > 0; at += size {
		n := copy(dst, src[at+skip:at+p.Bytes])
		dst, skip = dst[n:], 0
	}
}

// UnpackPlanes returns the given number of whole blocks from a buffer of planes, as [PackPlanes] made it.
func UnpackPlanes(t ir.DType, src []byte, blocks int64) []byte {
	size := int64(t.BlockBytes())
	out := make([]byte, blocks*size)
	for i, p := range PlanesOf(t) {
		from := src[PlaneBase(t, i, blocks):]
		for b := range blocks {
			copy(out[b*size+int64(p.At):][:p.Bytes], from[b*int64(p.Bytes):])
		}
	}
	return out
}

// PackPlanes returns the contents of a buffer that holds the blocks in src as planes.
func PackPlanes(t ir.DType, src []byte) []byte {
	blocks := int64(len(src) / t.BlockBytes())
	out := make([]byte, PlaneBase(t, len(PlanesOf(t)), blocks))
	for i, p := range PlanesOf(t) {
		PackPlane(out[PlaneBase(t, i, blocks):][:blocks*int64(p.Bytes)], t, p, src, 0)
	}
	return out
}
