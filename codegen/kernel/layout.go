package kernel

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Layout says how the blocks of a buffer lie in memory.
type Layout string

// The layouts.
const (
	// LayoutBlocks has whole blocks one after another, as files do.
	LayoutBlocks Layout = ""
	// LayoutPlanes has each part of the blocks in a plane of its own, so that
	// neighbouring invocations which read it touch neighbouring, aligned bytes:
	// see [PlanesOf]. Only weights have it; they are taken apart when loaded.
	LayoutPlanes Layout = "planes"
)

// Plane is a part of a block: Bytes bytes from byte At of it on.
type Plane struct {
	Name      string
	At, Bytes int
}

// planeAlign is the alignment of planes in a buffer: the widest load.
const planeAlign = 16

// PlanesOf returns the planes of a block format in the order in which they lie
// in a buffer, or nil for a dtype that has none.
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

// PlaneBase returns the byte of a buffer of that many blocks at which plane i
// begins; i = len(PlanesOf(t)) is where the last one ends. Each begins at a
// multiple of 16 bytes.
func PlaneBase(t ir.DType, i int, blocks int64) int64 {
	base := int64(0)
	for _, p := range PlanesOf(t)[:i] {
		base += (blocks*int64(p.Bytes) + planeAlign - 1) / planeAlign * planeAlign
	}
	return base
}

// Bytes returns the size of a buffer of that many elements of a dtype in the
// layout, a multiple of 16 and at least 16.
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
	return max((n+planeAlign-1)/planeAlign*planeAlign, planeAlign), nil
}

// PackPlane fills dst with what a plane has from byte first on, of the blocks in
// src, whole ones one after another. They must reach as far as dst does.
func PackPlane(dst []byte, t ir.DType, p Plane, src []byte, first int64) {
	size := t.BlockBytes()
	skip := int(first % int64(p.Bytes)) // of the first part
	src = src[first/int64(p.Bytes)*int64(size):]
	for at := p.At; len(dst) > 0; at += size {
		dst = dst[copy(dst, src[at+skip:at+p.Bytes]):]
		skip = 0
	}
}

// UnpackPlanes is the inverse of packing all planes: it returns whole blocks,
// that many, from a buffer of planes.
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

// PackPlanes returns the buffer of planes of the blocks in src.
func PackPlanes(t ir.DType, src []byte) []byte {
	blocks := int64(len(src) / t.BlockBytes())
	out := make([]byte, PlaneBase(t, len(PlanesOf(t)), blocks))
	for i, p := range PlanesOf(t) {
		PackPlane(out[PlaneBase(t, i, blocks):][:blocks*int64(p.Bytes)], t, p, src, 0)
	}
	return out
}
