package vk

import (
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

const (
	// planeChunk is the number of bytes of a quantized weight that are split into planes at a time (see
	// kernel.PlanesOf). A chunk stays in the CPU's cache while all of its planes are packed, so memory or the file is
	// read once.
	planeChunk = 16 << 20
	// planePiece is the smallest number of bytes of a plane for which another goroutine pays off.
	planePiece = 256 << 10
)

// layOutPlanes converts a weight to planes, as [layOut] does: it splits the blocks as it writes them to staging memory.
// parts has the weight's bytes; each part has whole blocks. layOutPlanes calls put for each range of the buffer, with a
// function that fills the range, and done with the number of bytes converted since the last call.
func layOutPlanes(b *kernel.Buffer, parts [][]byte,
	put func(at, size int64, fill fillFunc) error, done func(n int64)) error {
	size := int64(b.DType.BlockBytes())
	blocks := b.Shape.MaxElems() / int64(b.DType.BlockElems())
	block := int64(0) // index of the next block
	for _, part := range parts {
		for len(part) > 0 {
			n := min(planeChunk/size, int64(len(part))/size)
			chunk := part[:n*size]
			for i, p := range kernel.PlanesOf(b.DType) {
				at := kernel.PlaneBase(b.DType, i, blocks) + block*int64(p.Bytes)
				err := put(at, n*int64(p.Bytes), func(dst []byte, at int64) error {
					return packPlane(dst, b.DType, p, chunk, at)
				})
				if err != nil {
					return err
				}
			}
			done(n * size)
			part, block = part[n*size:], block+n
		}
	}
	done(b.Bytes - blocks*size) // padding between planes
	return nil
}

// packPlane fills dst with the bytes of plane p from position first on, from the blocks src of dtype t, as
// kernel.PackPlane does, but on all cores. src may be part of a mapped file, so it returns the error of reading the
// file.
func packPlane(dst []byte, t ir.DType, p kernel.Plane, src []byte, first int64) error {
	each := max(planePiece, ceil.Div(len(dst), runtime.GOMAXPROCS(0)))
	var pieces errgroup.Group
	for at := 0; at < len(dst); at += each {
		pieces.Go(func() error {
			return mmap.Guard(func() error {
				kernel.PackPlane(dst[at:min(at+each, len(dst))], t, p, src, first+int64(at))
				return nil
			})
		})
	}
	return pieces.Wait()
}
