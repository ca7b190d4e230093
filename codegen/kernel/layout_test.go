package kernel_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestPlanesCoverBlocks checks that every block format has planes, and that they
// are all of a block in order.
func TestPlanesCoverBlocks(t *testing.T) {
	for _, dt := range ir.DTypes() {
		planes, at := kernel.PlanesOf(dt), 0
		for _, p := range planes {
			if p.At != at || p.Bytes < 1 || p.Name == "" {
				t.Errorf("%s: plane %+v, want one from byte %d on", dt, p, at)
			}
			at += p.Bytes
		}
		if want := dt.BlockBytes(); dt.IsBlock() && at != want || !dt.IsBlock() && planes != nil {
			t.Errorf("%s: planes of %d bytes, blocks of %d", dt, at, want)
		}
	}
}

// TestPackPlanes takes blocks apart, whole and in pieces of any length, and puts
// them together again.
func TestPackPlanes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dt := range ir.BlockFormats() {
		const blocks = 37
		src := make([]byte, blocks*dt.BlockBytes())
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		packed := kernel.PackPlanes(dt, src)
		for i, p := range kernel.PlanesOf(dt) {
			base := kernel.PlaneBase(dt, i, blocks)
			if base%16 != 0 {
				t.Errorf("%s: plane %s begins at byte %d", dt, p.Name, base)
			}
			for b := range blocks {
				want := src[b*dt.BlockBytes()+p.At:][:p.Bytes]
				if have := packed[int(base)+b*p.Bytes:][:p.Bytes]; !bytes.Equal(have, want) {
					t.Fatalf("%s: plane %s of block %d is %x, want %x", dt, p.Name, b, have, want)
				}
			}
			pieces := make([]byte, blocks*p.Bytes)
			for at := 0; at < len(pieces); {
				n := min(1+r.IntN(50), len(pieces)-at)
				kernel.PackPlane(pieces[at:at+n], dt, p, src, int64(at))
				at += n
			}
			if !bytes.Equal(pieces, packed[base:][:len(pieces)]) {
				t.Fatalf("%s: plane %s is another in pieces", dt, p.Name)
			}
		}
		if !bytes.Equal(kernel.UnpackPlanes(dt, packed, blocks), src) {
			t.Errorf("%s: blocks put together are others", dt)
		}
	}
}

func TestLayoutBytes(t *testing.T) {
	for _, c := range []struct {
		layout kernel.Layout
		t      ir.DType
		elems  int64
		want   int64 // 0: an error
	}{
		{kernel.LayoutBlocks, ir.Q4_0, 96, 64},
		{kernel.LayoutPlanes, ir.Q4_0, 96, 16 + 48},
		{kernel.LayoutPlanes, ir.Q4_0, 0, 16},
		{kernel.LayoutBlocks, ir.F32, 3, 16},
		{kernel.LayoutPlanes, ir.F32, 3, 0},
		{kernel.LayoutPlanes, ir.Q4_0, 33, 0},
		{"columns", ir.Q4_0, 96, 0},
	} {
		have, err := c.layout.Bytes(c.t, c.elems)
		if have != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%d of %s in layout %q: %d bytes (%v), want %d", c.elems, c.t, c.layout, have, err, c.want)
		}
	}
}

// TestCheckLayout: a program may have blocks of weights in planes, and nothing else.
func TestCheckLayout(t *testing.T) {
	weight := func() kernel.Buffer {
		return kernel.Buffer{Kind: kernel.BufWeight, Name: "w", DType: ir.Q4_0, Shape: ir.ShapeOf(2, 64),
			Bytes: 16 + 64, Layout: kernel.LayoutPlanes,
			Segments: []kernel.Segment{{Weight: "w", DType: ir.Q4_0, Dims: []int{2, 64}}}}
	}
	for name, c := range map[string]struct {
		change func(*kernel.Buffer)
		ok     bool
	}{
		"planes":         {func(*kernel.Buffer) {}, true},
		"too small":      {func(b *kernel.Buffer) { b.Bytes = 64 }, false},
		"an input":       {func(b *kernel.Buffer) { b.Kind, b.Segments = kernel.BufInput, nil }, false},
		"unknown layout": {func(b *kernel.Buffer) { b.Layout = "columns" }, false},
		"no blocks":      {func(b *kernel.Buffer) { b.DType, b.Segments[0].DType = ir.F32, ir.F32 }, false},
	} {
		b := weight()
		c.change(&b)
		p := &kernel.Program{Buffers: []kernel.Buffer{b}}
		if err := p.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
