package kernel

import (
	"fmt"
	"maps"
	"slices"

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

// cut begins a plane at a byte of the block.
type cut struct {
	at   int
	name string
}

// planeCuts says where the blocks of a format are cut. A part is what is read
// together: quants, their high bits, signs, scales.
var planeCuts = map[ir.DType][]cut{
	ir.Q4_0:    {{0, "scale"}, {2, "quants"}},
	ir.Q4_1:    {{0, "scale"}, {4, "quants"}},
	ir.Q5_0:    {{0, "scale"}, {2, "high"}, {6, "quants"}},
	ir.Q5_1:    {{0, "scale"}, {4, "high"}, {8, "quants"}},
	ir.Q8_0:    {{0, "scale"}, {2, "quants"}},
	ir.Q8_1:    {{0, "scale"}, {4, "quants"}},
	ir.Q2_K:    {{0, "scales"}, {16, "quants"}, {80, "scale"}},
	ir.Q3_K:    {{0, "high"}, {32, "quants"}, {96, "scales"}, {108, "scale"}},
	ir.Q4_K:    {{0, "scales"}, {16, "quants"}},
	ir.Q5_K:    {{0, "scales"}, {16, "high"}, {48, "quants"}},
	ir.Q6_K:    {{0, "quants"}, {128, "high"}, {192, "scales"}, {208, "scale"}},
	ir.Q8_K:    {{0, "scale"}, {4, "quants"}, {260, "sums"}},
	ir.IQ1_S:   {{0, "scale"}, {2, "quants"}, {34, "high"}},
	ir.IQ1_M:   {{0, "quants"}, {32, "high"}, {48, "scales"}},
	ir.IQ2_XXS: {{0, "scale"}, {2, "quants"}},
	ir.IQ2_XS:  {{0, "scale"}, {2, "quants"}, {66, "scales"}},
	ir.IQ2_S:   {{0, "scale"}, {2, "quants"}, {34, "signs"}, {66, "high"}, {74, "scales"}},
	ir.IQ3_XXS: {{0, "scale"}, {2, "quants"}, {66, "signs"}},
	ir.IQ3_S:   {{0, "scale"}, {2, "quants"}, {66, "high"}, {74, "signs"}, {106, "scales"}},
	ir.IQ4_NL:  {{0, "scale"}, {2, "quants"}},
	ir.IQ4_XS:  {{0, "scales"}, {8, "quants"}},
	ir.MXFP4:   {{0, "scale"}, {1, "quants"}},
	ir.TQ1_0:   {{0, "quants"}, {48, "high"}, {52, "scale"}},
	ir.TQ2_0:   {{0, "quants"}, {64, "scale"}},
}

// PlanesOf returns the planes of a block format in the order in which they lie
// in a buffer, or nil for a dtype that has none.
func PlanesOf(t ir.DType) []Plane {
	var planes []Plane
	cuts := planeCuts[t]
	for i, c := range cuts {
		end := t.BlockBytes()
		if i+1 < len(cuts) {
			end = cuts[i+1].at
		}
		planes = append(planes, Plane{c.name, c.at, end - c.at})
	}
	return planes
}

// PlaneFormats returns the block formats that have planes, in the order of their
// dtypes.
func PlaneFormats() []ir.DType {
	return slices.Sorted(maps.Keys(planeCuts))
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
	case l == LayoutPlanes && len(planeCuts[t]) > 0:
		n = PlaneBase(t, len(planeCuts[t]), elems/int64(t.BlockElems()))
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
	out := make([]byte, PlaneBase(t, len(planeCuts[t]), blocks))
	for i, p := range PlanesOf(t) {
		PackPlane(out[PlaneBase(t, i, blocks):][:blocks*int64(p.Bytes)], t, p, src, 0)
	}
	return out
}
