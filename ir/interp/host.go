package interp

import (
	"encoding/binary"
	"unsafe"

	"github.com/vkc-go/vkc/ir"
)

// Programs read inputs of f32, i32 and u32 from the caller's memory without copying, and kernels of a backend compute
// such outputs directly in the caller's memory. Otherwise the copies would dominate ops such as a sum of two large
// tensors.

// littleEndian reports whether the machine stores floats in the byte order of tensors.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// floatsIn returns the elements of an f32 tensor without copying, or nil if byte order or alignment do not allow that.
func floatsIn(d *ir.Data) []float32 {
	if d.DType != ir.F32 || !littleEndian || len(d.Bytes) == 0 {
		return nil
	}
	first := unsafe.Pointer(unsafe.SliceData(d.Bytes))
	if uintptr(first)%unsafe.Alignof(float32(0)) != 0 {
		return nil
	}
	return unsafe.Slice((*float32)(first), len(d.Bytes)/4)
}

// borrow is like fromData, but without a copy, if the data can be used in the caller's memory.
func borrow(d *ir.Data) (value, error) {
	if n := floatsIn(d); n != nil {
		return value{typ: d.DType, dims: d.Dims, f32: n, lent: true}, nil
	}
	if w := wordsIn(d); w != nil {
		return value{typ: d.DType, dims: d.Dims, i32: w, lent: true}, nil
	}
	v, err := fromData(d)
	v.lent = d.DType.IsBlock()
	return v, err
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
		list[id] = p.kernels != nil && p.kernels[id] != nil && names[o.Node] == 1 &&
			(o.Node.DType() == ir.F32 || p.kernels[id].Words && (o.Node.DType() == ir.I32 || o.Node.DType() == ir.U32))
	}
	return list
}

// outputMemory returns, by node ID, the caller's memory into which kernels may compute outputs.
func (p *Program) outputMemory(into map[string]*ir.Data) map[int]*ir.Data {
	made := map[int]*ir.Data{}
	for _, o := range p.graph.Outputs() {
		if d := into[o.Name]; d != nil && p.direct[o.Node.ID()] && (floatsIn(d) != nil || wordsIn(d) != nil) {
			made[o.Node.ID()] = d
		}
	}
	return made
}

// newResult returns the value that a kernel fills. It is in the caller's memory if the node is an output with memory
// given for it, and otherwise in a reusable buffer.
func (x *exec) newResult(k *Kernel, n *ir.Node, dims []int) (value, error) {
	words := k.Words && isWord(n.DType())
	if !n.DType().IsFloat() && !words {
		return makeValue(n.DType(), dims)
	}
	out, clean := value{typ: n.DType(), dims: dims}, k.Fills
	if x.direct != nil && x.direct[n.ID()] {
		d := x.made[n.ID()]
		if d == nil {
			var err error
			if d, err = newData(n.DType(), dims); err != nil {
				return value{}, err
			}
			clean = true
		}
		if out.f32 = floatsIn(&ir.Data{DType: ir.F32, Bytes: d.Bytes}); out.f32 != nil {
			out.lent = true
			if x.made == nil {
				x.made = map[int]*ir.Data{}
			}
			x.made[n.ID()] = d
		}
	}
	if out.f32 == nil {
		var err error
		if out.buf, err = x.buffer(elems(dims)); err != nil {
			return value{}, err
		}
		clean = k.Fills
		out.f32 = out.buf.floats[:elems(dims)]
	}
	switch {
	case !clean:
		clear(out.f32)
	case k.Fills && x.poison:
		poison(out.f32)
	}
	if words {
		out.i32, out.f32 = asWords(out.f32), nil
	}
	return out, nil
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
