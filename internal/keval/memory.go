package keval

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// poison fills uninitialized memory: NaN as any float, -1 as any signed integer.
const poison = 0xff

// memory is the bytes of a buffer, or of the arena. tenant[i] is the buffer that last stored byte i.
type memory struct {
	bytes  []byte
	tenant []int32 // -1: none; nil for memory that the host filled
	base   int64   // offset of the buffer in bytes
}

// newMemory returns n bytes of poison that no buffer has stored.
func newMemory(n int64) memory {
	m := memory{bytes: make([]byte, n), tenant: make([]int32, n)}
	m.reset()
	return m
}

// reset fills the memory with poison that no buffer has stored.
func (m memory) reset() {
	for i := range m.bytes {
		m.bytes[i] = poison
		m.tenant[i] = -1
	}
}

// number is one scalar: f for float dtypes, i for all others.
type number struct {
	f float64
	i int64
	// undef says that the number was loaded from the buffer's memory, but beyond its run-time elements.
	undef bool
}

// float returns the number as a float. t is its dtype.
func (v number) float(t ir.DType) float64 {
	if t.IsFloat() {
		return v.f
	}
	return float64(v.i)
}

// put writes bytes of a buffer.
func (m memory) put(buf int, at int64, raw []byte) {
	copy(m.bytes[m.base+at:], raw)
	for i := range raw {
		if m.tenant != nil {
			m.tenant[m.base+at+int64(i)] = int32(buf)
		}
	}
}

// bytesAt returns size bytes of a buffer, which must have stored them itself. They hold element x.
func (r *run) bytesAt(buf int, x, at, size int64) []byte {
	mem := &r.m.mem[buf]
	at += mem.base
	if mem.tenant != nil && mem.tenant[at] != int32(buf) {
		fail("load of element %d of %s: that memory was last stored by %s", x, r.m.name(buf),
			r.m.name(int(mem.tenant[at])))
	}
	return mem.bytes[at : at+size]
}

// load reads element x of a binding.
func (r *run) load(bind int, x int64) number {
	b, buf := r.binding(bind)
	if !b.Read {
		fail("load from binding %d (%s), which is not declared read", bind, b.Name)
	}
	// Beyond the run-time elements, but inside the memory, a load gives an undefined value. Blocks have their own
	// checks.
	if x < 0 || x >= r.elemsOf(b, buf) || b.DType.IsBlock() {
		r.requireInside(b.DType, buf, x)
		if b.DType.IsBlock() {
			return r.loadBlock(buf, x)
		}
		return number{undef: true}
	}
	if b.Write {
		r.claim(buf, x, reading)
	}
	if per := int64(b.DType.BlockElems()); b.DType.IsPacked() {
		// Several elements share a byte: shift this one to its low bits.
		return decode(b.DType, []byte{r.bytesAt(buf, x, x/per, 1)[0] >> (x % per * int64(b.DType.Bits()))})
	}
	size := int64(b.DType.BlockBytes())
	return decode(b.DType, r.bytesAt(buf, x, x*size, size))
}

// loadBlock reads element x of a buffer in a block format. It decodes a whole weight at the first access.
func (r *run) loadBlock(buf int, x int64) number {
	b := r.m.prog.Buffers[buf]
	if isWritten(b.Kind) {
		return r.loadWritten(buf, x)
	}
	d, ok := r.m.decoded[buf]
	if !ok {
		n, err := b.DType.BytesFor(b.Shape.MaxElems())
		bailout.Check(err)
		d = make([]float32, b.Shape.MaxElems())
		blocks := r.m.mem[buf].bytes
		if b.Layout == kernel.LayoutPlanes {
			blocks = kernel.UnpackPlanes(b.DType, blocks, n/int64(b.DType.BlockBytes()))
		}
		// The buffer may have padding after these n bytes.
		r.decodeBlocks(d, buf, blocks[:n])
		r.m.decoded[buf] = d
	}
	return number{f: float64(d[x])}
}

// decodeBlocks decodes whole blocks of a buffer.
func (r *run) decodeBlocks(to []float32, buf int, blocks []byte) {
	if r.m.opt.Decode == nil {
		fail("%s needs a decoder", r.m.name(buf))
	}
	bailout.Check(r.m.opt.Decode(to, r.m.prog.Buffers[buf].DType, blocks))
}

// store writes element x of a binding.
func (r *run) store(bind int, x int64, v number, t ir.DType) {
	b, buf := r.binding(bind)
	if !b.Write {
		fail("store to binding %d (%s), which is not declared written", bind, b.Name)
	}
	if n := r.elemsOf(b, buf); x < 0 || x >= n {
		fail("element %d of %s is outside its %d elements", x, r.m.name(buf), n)
	}
	r.claim(buf, x, writing)
	var raw [8]byte
	size := b.DType.BlockBytes()
	encode(raw[:size], b.DType, v, t)
	if per := int64(b.DType.BlockElems()); b.DType.IsPacked() {
		mem, shift := r.m.mem[buf], x%per*int64(b.DType.Bits())
		// the byte's other elements
		other := mem.bytes[mem.base+x/per] &^ (byte(1<<b.DType.Bits()-1) << shift)
		r.m.mem[buf].put(buf, x/per, []byte{other | raw[0]<<shift})
		return
	}
	r.m.mem[buf].put(buf, x*int64(size), raw[:size])
}

// Arguments of claim.
const (
	reading = false
	writing = true
)

// claim records that the current point reads element x of a buffer that this step writes, or writes it if write is set.
// It fails if another point writes the element too, because on a device both may run at the same time.
func (r *run) claim(buf int, x int64, write bool) {
	if r.touched[buf] == nil {
		r.touched[buf] = make([]touch, r.elems[buf])
	}
	at, point := &r.touched[buf][x], r.point+1
	// Even the same point must not store an element twice.
	if at.writer != 0 && (write || at.writer != point) {
		fail("element %d of %s is stored by points %d and %d of one step (or read by one of them)", x, r.m.name(buf),
			at.writer-1, r.point)
	}
	if write && at.reader != 0 && at.reader != point {
		fail("element %d of %s is read by point %d and stored by point %d of one step", x, r.m.name(buf),
			at.reader-1, r.point)
	}
	if write {
		at.writer = point
	} else if at.reader == 0 {
		at.reader = point
	}
}

// binding returns a binding and the buffer that the step attaches to it.
func (r *run) binding(i int) (*kernel.Binding, int) {
	if i < 0 || i >= len(r.k.Bindings) {
		fail("no binding %d", i)
	}
	return &r.k.Bindings[i], r.step.Binds[i].Buffer
}

// elemsOf is the run-time number of elements of a buffer, as the binding counts them. A binding may view blocks as
// words.
func (r *run) elemsOf(b *kernel.Binding, buf int) int64 {
	if b.DType != r.m.prog.Buffers[buf].DType {
		return b.Elems
	}
	return r.elems[buf]
}

// requireInside fails if element x is outside of the buffer's memory, which is sized for the bounds of all symbols.
func (r *run) requireInside(t ir.DType, buf int, x int64) {
	n := r.m.prog.Buffers[buf].Bytes / int64(t.BlockBytes()) * int64(t.BlockElems())
	if x < 0 || x >= n {
		fail("element %d of %s is outside its memory of %d", x, r.m.name(buf), n)
	}
}

// decode returns the element of dtype t that the bytes encode.
func decode(t ir.DType, raw []byte) number {
	if t.IsFloat() {
		var v [1]float64
		ir.DecodeFloats(v[:], t, raw)
		return number{f: v[0]}
	}
	var v [1]int64
	ir.DecodeInts(v[:], t, raw)
	return number{i: v[0]}
}

// encode stores a value of dtype from as dtype t, rounding floats and wrapping integers.
func encode(dst []byte, t ir.DType, v number, from ir.DType) {
	switch {
	case t.IsFloat():
		ir.EncodeFloats(dst, t, []float64{v.float(from)})
	case from.IsFloat():
		ir.EncodeInts(dst, t, []int64{ir.FloatToInt(v.f, t)})
	default:
		ir.EncodeInts(dst, t, []int64{v.i})
	}
}
