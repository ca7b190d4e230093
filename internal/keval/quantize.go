package keval

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
)

// quantize encodes the elements of the fold axis as one block and stores it.
func (r *run) quantize(fold int64) {
	s := r.k.Stores[0]
	t := r.k.Quantized()
	if r.m.opt.Encode == nil {
		fail("%s needs an encoder", t)
	}
	x := make([]float32, t.BlockElems())
	r.eachElement(fold, func(j int64) {
		v := r.value(s.Value)
		if v.undef {
			fail("the value depends on memory that holds nothing")
		}
		x[j] = float32(v.float(s.Value.DType))
	})
	raw := make([]byte, t.BlockBytes())
	bailout.Check(r.m.opt.Encode(raw, t, x))
	r.storeBlock(s.Bind, r.index(s.Index), raw)
}

// storeBlock stores a block in a binding. block counts whole blocks.
func (r *run) storeBlock(bind int, block int64, raw []byte) {
	b, buf := r.binding(bind)
	if n := r.elems[buf] / int64(b.DType.BlockElems()); !b.Write || block < 0 || block >= n {
		fail("block %d of %s, which has %d (declared written: %v)", block, r.m.name(buf), n, b.Write)
	}
	r.claim(buf, block, writing)
	r.m.mem[buf].put(buf, block*int64(len(raw)), raw)
}

// loadWritten reads element x of a buffer of blocks that a kernel wrote. It decodes the element's block at each access.
func (r *run) loadWritten(buf int, x int64) number {
	t := r.m.prog.Buffers[buf].DType
	size := int64(t.BlockBytes())
	raw := r.bytesAt(buf, x, x/int64(t.BlockElems())*size, size)
	// No block has more elements.
	var d [256]float32
	values := d[:t.BlockElems()]
	r.decodeBlocks(values, buf, raw)
	return number{f: float64(values[x%int64(len(values))])}
}

// isWritten reports whether steps write buffers of this kind.
func isWritten(k kernel.BufferKind) bool {
	return k == kernel.BufTemp || k == kernel.BufState || k == kernel.BufOutput
}
