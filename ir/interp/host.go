package interp

import (
	"encoding/binary"
	"unsafe"

	"github.com/vkc-go/vkc/ir"
)

// Programs read inputs of 32 and 64 bits from the caller's memory without copying, and kernels of a backend compute
// such outputs directly in the caller's memory. Otherwise the copies would dominate ops such as a sum of two large
// tensors.

// littleEndian reports whether the machine stores floats in the byte order of tensors.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// listIn returns the bytes of a tensor as numbers without copying, or nil if byte order or alignment do not allow that.
func listIn[T int16 | int32 | int64 | float32 | float64](bytes []byte) []T {
	if !littleEndian || len(bytes) == 0 {
		return nil
	}
	first, size := unsafe.Pointer(unsafe.SliceData(bytes)), unsafe.Sizeof(T(0))
	if uintptr(first)%size != 0 {
		return nil
	}
	return unsafe.Slice((*T)(first), len(bytes)/int(size))
}

// valueIn returns a value in the memory of a tensor, or false if its elements have another format.
func valueIn(d *ir.Data) (v value, ok bool) {
	v = value{typ: d.DType, dims: d.Dims, lent: true}
	switch d.DType {
	case ir.F32:
		v.f32 = listIn[float32](d.Bytes)
	case ir.F64:
		v.f64 = listIn[float64](d.Bytes)
	case ir.I32, ir.U32:
		v.i32 = listIn[int32](d.Bytes)
	case ir.I64:
		v.i64 = listIn[int64](d.Bytes)
	default:
		// Elements of one byte need no alignment. listIn checks the alignment of two bytes.
		if isSmall(d.DType) && (d.DType.BlockBytes() == 1 || len(listIn[int16](d.Bytes)) > 0) {
			v.small = &Stored{DType: d.DType, Bytes: d.Bytes}
		}
		return v, v.small != nil
	}
	return v, v.f32 != nil || v.f64 != nil || v.i32 != nil || v.i64 != nil
}

// borrow returns the value of a host tensor. It uses the caller's memory if it can, and otherwise decodes the elements.
func borrow(d *ir.Data) (value, error) {
	if v, ok := valueIn(d); ok && v.small == nil {
		return v, nil
	}
	v, err := fromData(d)
	v.lent = d.DType.IsBlock()
	return v, err
}

// stored returns the value of a host tensor with elements of at most 16 bits. The value uses the caller's memory, in
// the format of tensors, if the elements are aligned and all bools are 0 or 1. Otherwise stored decodes the elements.
func stored(d *ir.Data) (value, error) {
	if v, ok := valueIn(d); ok && (d.DType != ir.Bool || areTruths(d.Bytes)) {
		return v, nil
	}
	return fromData(d)
}

// areTruths reports whether all bytes are 0 or 1. A bool tensor from outside may have any other byte for true.
func areTruths(list []byte) bool {
	var other uint64
	for ; len(list) >= 8; list = list[8:] {
		other |= binary.NativeEndian.Uint64(list)
	}
	for _, b := range list {
		other |= uint64(b)
	}
	return other&^0x0101010101010101 == 0 // only the lowest bit of a byte may be set
}

// disjointOutputs reports whether the memory of every output is disjoint from all inputs and other outputs.
func disjointOutputs(in, into map[string]*ir.Data) bool {
	for name, d := range into {
		for _, x := range in {
			if overlap(d.Bytes, x.Bytes) {
				return false
			}
		}
		for other, x := range into {
			if other != name && overlap(d.Bytes, x.Bytes) {
				return false
			}
		}
	}
	return true
}

// overlap reports whether two slices share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	from, to := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return from < to+uintptr(len(b)) && to < from+uintptr(len(a))
}

// planOutputs reports, by node ID, which outputs kernels may compute directly in the caller's memory. A node with
// several output names is none of them, because each output is a tensor of its own.
func (p *Program) planOutputs() []bool {
	list := make([]bool, len(p.graph.Nodes()))
	names := map[*ir.Node]int{}
	for _, o := range p.graph.Outputs() {
		names[o.Node]++
		id := o.Node.ID()
		t := o.Node.DType()
		// Only a kernel computes into given memory, and elements of blocks must be encoded.
		if p.kernels == nil || p.kernels[id] == nil || t.IsBlock() {
			continue
		}
		k := p.kernels[id]
		sameFormat := (!isWord(t) || k.Words) && (!isSmall(t) || k.Formats && p.formats.has(o.Node))
		list[id] = sameFormat && names[o.Node] == 1
	}
	return list
}

// outputMemory returns, by node ID, the caller's memory into which kernels may compute outputs.
func (p *Program) outputMemory(into map[string]*ir.Data) map[int]*ir.Data {
	made := map[int]*ir.Data{}
	for _, o := range p.graph.Outputs() {
		if d := into[o.Name]; d != nil && p.direct.has(o.Node) {
			if _, ok := valueIn(d); ok {
				made[o.Node.ID()] = d
			}
		}
	}
	return made
}

// newResult sets out to the value that a kernel fills. A node that is an output gets the caller's memory or, if the
// caller gave none, memory of the new output. Other nodes get a reusable buffer.
func (x *exec) newResult(out *value, k *Kernel, n *ir.Node, dims []int) (err error) {
	t := n.DType()
	if t.IsBlock() || !k.Words && isWord(t) {
		*out, err = makeValue(t, dims)
		return err
	}
	if x.direct.has(n) {
		made, ok, err := x.newOutput(k, n, dims)
		if ok || err != nil {
			*out = made
			return err
		}
	}
	return x.setBuffered(out, k, n, dims)
}

// newOutput returns the value of an output, in the memory of its tensor. It returns false if the tensor has another
// format than the value.
func (x *exec) newOutput(k *Kernel, n *ir.Node, dims []int) (out value, ok bool, err error) {
	d, given := x.given[n.ID()]
	if !given {
		if d, err = newData(n.DType(), dims); err != nil {
			return value{}, false, err
		}
	}
	out, ok = valueIn(d)
	if !ok {
		return value{}, false, nil
	}
	out.dims = dims
	if x.made == nil {
		x.made = map[int]*ir.Data{}
	}
	x.made[n.ID()] = d
	x.prepare(&out, k, !given)
	return out, true, nil
}

// setBuffered sets out to a value in a reusable buffer. Buffers have elements of 32 bits; wider and smaller elements
// use their memory.
func (x *exec) setBuffered(out *value, k *Kernel, n *ir.Node, dims []int) (err error) {
	t, count := n.DType(), elems(dims)
	*out = value{typ: t, dims: dims}
	wide := t == ir.F64 || t == ir.I64
	small := isSmall(t) && k.Formats && x.formats.has(n)
	if size := t.BlockBytes(); wide || small {
		count = (count*size + 3) / 4 // elements of the buffer
	}
	if out.buf, err = x.buffer(count, x.steps[n.ID()].leaves); err != nil {
		return err
	}
	switch list := out.buf.floats[:count]; {
	case small:
		out.small = &Stored{DType: t, Bytes: as[byte](list)[:elems(dims)*t.BlockBytes()]}
	case t == ir.F64:
		out.f64 = as[float64](list)
	case wide:
		out.i64 = as[int64](list)
	case t.IsFloat():
		out.f32 = list
	default:
		out.i32 = as[int32](list)
	}
	x.prepare(out, k, false)
	return nil
}

// as returns the memory of a list as elements of another type.
func as[T byte | int32 | int64 | float32 | float64, S float32 | float64 | int64 | int32](list []S) []T {
	n := len(list) * int(unsafe.Sizeof(S(0))) / int(unsafe.Sizeof(T(0)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(list))), n)
}

// prepare initializes the memory of a kernel's result: to zero, or to poison for a kernel that fills it. zeroed means
// that the memory is zero already.
func (x *exec) prepare(out *value, k *Kernel, zeroed bool) {
	usePoison := k.Fills && x.poison
	// A kernel that fills the memory, and memory that is zero, need nothing.
	if !usePoison && (k.Fills || zeroed) {
		return
	}
	// as reinterprets a slice, so that all formats are cleared or poisoned as f32.
	list := out.f32
	switch {
	case out.small != nil && usePoison:
		fill(out.small.Bytes, 0x7d)
	case out.small != nil:
		clear(out.small.Bytes)
	case out.f64 != nil:
		list = as[float32](out.f64)
	case out.i64 != nil:
		list = as[float32](out.i64)
	case out.i32 != nil:
		list = as[float32](out.i32)
	}
	if usePoison {
		poison(list)
	} else {
		clear(list)
	}
}

// output returns the output that node n computed, in the given memory unless that is nil.
func (x *exec) output(n *ir.Node, given *ir.Data) (*ir.Data, error) {
	d := x.made[n.ID()]
	switch {
	case d != nil && (given == nil || d == given):
		return d, nil
	case given == nil:
		return x.vals[n.ID()].data()
	}
	x.vals[n.ID()].encode(given)
	return given, nil
}
