package keval

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// quantize encodes the elements of the fold axis as one block and stores it.
func (r *run) quantize(fold int64) error {
	s := r.k.Stores[0]
	t := r.k.Quantized()
	if r.m.opt.Encode == nil {
		return fmt.Errorf("%s needs an encoder", t)
	}
	x := make([]float32, t.BlockElems())
	err := r.eachElement(fold, func(j int64) error {
		v, err := r.value(s.Value)
		if err == nil && v.undef {
			err = fmt.Errorf("the value depends on memory that holds nothing")
		}
		x[j] = float32(v.float(s.Value.DType))
		return err
	})
	if err != nil {
		return err
	}
	raw := make([]byte, t.BlockBytes())
	if err := r.m.opt.Encode(raw, t, x); err != nil {
		return err
	}
	block, err := r.index(s.Index)
	if err != nil {
		return err
	}
	return r.storeBlock(s.Bind, block, raw)
}

// storeBlock stores a block in a binding. block counts whole blocks.
func (r *run) storeBlock(bind int, block int64, raw []byte) error {
	b, buf, err := r.binding(bind)
	if err != nil {
		return err
	}
	if n := r.elems[buf] / int64(b.DType.BlockElems()); !b.Write || block < 0 || block >= n {
		return fmt.Errorf("block %d of %s, which has %d (declared written: %v)", block, r.m.name(buf), n, b.Write)
	}
	if err := r.claim(buf, block, true); err != nil {
		return err
	}
	mem := r.m.mem[buf]
	at := mem.base + block*int64(len(raw))
	copy(mem.bytes[at:], raw)
	for i := range raw {
		if mem.tenant != nil {
			mem.tenant[at+int64(i)] = int32(buf)
		}
	}
	return nil
}

// loadWritten reads element x of a buffer of blocks that a kernel wrote. It decodes the element's block at each access.
func (r *run) loadWritten(buf int, x int64) (number, error) {
	t, mem := r.m.prog.Buffers[buf].DType, r.m.mem[buf]
	size := int64(t.BlockBytes())
	at := mem.base + x/int64(t.BlockElems())*size
	if mem.tenant != nil && mem.tenant[at] != int32(buf) {
		return number{}, fmt.Errorf("load of element %d of %s: that memory was last stored by %s", x, r.m.name(buf),
			r.m.name(int(mem.tenant[at])))
	}
	var d [256]float32
	values := d[:t.BlockElems()]
	if r.m.opt.Decode == nil {
		return number{}, fmt.Errorf("%s needs a decoder", r.m.name(buf))
	}
	if err := r.m.opt.Decode(values, t, mem.bytes[at:at+size]); err != nil {
		return number{}, err
	}
	return number{f: float64(values[x%int64(len(values))])}, nil
}

// isWritten reports whether steps write buffers of this kind.
func isWritten(k kernel.BufferKind) bool {
	return k == kernel.BufTemp || k == kernel.BufState || k == kernel.BufOutput
}
