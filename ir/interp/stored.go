package interp

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// Stored is a tensor's elements in the format of files and tensors: blocks, or elements of at most 16 bits, row-major.
type Stored struct {
	DType ir.DType
	Bytes []byte
}

// Decode sets dst to the elements starting at first, which must be the start of a block.
func (s *Stored) Decode(dst []float32, first int) error {
	elems, size := s.DType.BlockElems(), s.DType.BlockBytes()
	src := s.Bytes[first/elems*size : (first+len(dst))/elems*size]
	if s.DType.IsBlock() {
		return quant.Dequantize(dst, s.DType, src)
	}
	decodeNarrow(dst, s.DType, src)
	return nil
}

// storedFloats reports whether weights of the dtype may stay in their storage format. That saves memory only for 16-bit
// floats.
func storedFloats(t ir.DType) bool { return t == ir.F16 || t == ir.BF16 }

// stored returns the elements in their storage format, or nil if the value is decoded.
func (v *value) stored() *Stored {
	if v.block != nil {
		return &v.block.Stored
	}
	return v.small
}

// decoded returns the value with stored elements decoded to float32 or words.
func (v value) decoded() (value, error) {
	if v.small == nil {
		return v, nil
	}
	d, err := fromData(&ir.Data{DType: v.small.DType, Dims: v.dims, Bytes: v.small.Bytes})
	d.typ = v.typ // f32 for 16-bit floats that were cast
	return d, err
}

// isSmall reports whether programs with kernels may have elements of a dtype in the format of tensors. Kernels take
// elements that are only stored as floats or words.
func isSmall(t ir.DType) bool { return !t.IsBlock() && !t.StorageOnly() && t.BlockBytes() <= 2 }

// planFormats reports, by node ID, which nodes may have values in the format of tensors: nodes with elements of at most
// 16 bits, if only outputs and kernels that accept the format use them.
func (p *Program) planFormats() []bool {
	list := make([]bool, len(p.graph.Nodes()))
	if p.kernels == nil {
		return list
	}
	for i, n := range p.graph.Nodes() {
		list[i] = isSmall(n.DType())
	}
	for _, u := range p.graph.Updates() {
		list[u.Value.ID()] = false
	}
	for _, n := range slices.Backward(p.plan.nodes) {
		k := p.kernels[n.ID()]
		// The interpreter only reshapes elements in this format, and it makes the views.
		accepts := k != nil && k.Formats && !p.views.has(n) || k == nil && reshapes(n) && list[n.ID()]
		for _, a := range argsOf(n, p.kernels) {
			list[a.ID()] = list[a.ID()] && accepts
		}
	}
	return list
}

// keepsStored reports whether an op can pass on floats in their storage format, without computing with them.
func keepsStored(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpReshape, ir.OpSqueeze, ir.OpUnsqueeze:
		return true
	case ir.OpCast: // float32 represents the stored values exactly
		return n.DType() == ir.F32
	}
	return false
}

// decodeConstants decodes the constants in storage format, unless only kernels that accept that format use them: such
// weights are never decoded as a whole. 16-bit floats that were computed from weights, such as a transposed matrix, are
// converted to that format if only such kernels use them. Integers become words, unless a kernel reads them as int64.
func (p *Program) decodeConstants() error {
	keep, ints := p.constantFormats()
	for i, v := range p.consts {
		switch {
		case keep[i] && v.small != nil: // it has this format already
		case keep[i]:
			d, err := v.data()
			if err != nil {
				return err
			}
			p.consts[i] = value{typ: v.typ, dims: v.dims, small: &Stored{DType: v.typ, Bytes: d.Bytes}}
		case ints[i]:
			p.consts[i] = v.wide()
		default:
			d, err := v.decoded()
			if err != nil {
				return err
			}
			p.consts[i] = d.narrow()
		}
	}
	return nil
}

// constantFormats reports, by node ID, which constants keep or get the storage format, and which ones a kernel reads as
// int64.
func (p *Program) constantFormats() (keep, ints []bool) {
	keep, ints = make([]bool, len(p.consts)), make([]bool, len(p.consts))
	for i, v := range p.consts {
		keep[i] = v.small != nil || storedFloats(v.typ) && (v.f32 != nil || v.f64 != nil)
	}
	// Outputs and new values of states leave the program decoded.
	for _, o := range p.graph.Outputs() {
		keep[o.Node.ID()] = false
	}
	for _, u := range p.graph.Updates() {
		keep[u.Value.ID()] = false
	}
	for _, n := range p.plan.nodes {
		k := p.kernels[n.ID()]
		for i, a := range argsOf(n, p.kernels) {
			keep[a.ID()] = keep[a.ID()] && k != nil && (k.Stored == i || k.Formats)
			ints[a.ID()] = ints[a.ID()] || k != nil && !k.Words && isWord(a.DType())
		}
	}
	return keep, ints
}

// packs has packed weights, which programs with the same weights share.
type packs struct {
	mu   sync.Mutex
	made map[packKey][]float32
}

// packKey is the name of a weight and the form in which it is packed, see [Kernel.Form].
type packKey struct{ weight, form string }

// sharedPacks returns the packed weights of Options.Share if it has the same weights, or an empty set.
func sharedPacks(opt Options) *packs {
	if s := opt.Share; s != nil && opt.Weights != nil && sameSource(opt.Weights, s.opt.Weights) {
		return s.packs
	}
	return &packs{made: map[packKey][]float32{}}
}

// sameSource reports whether a equals b. Sources that Go cannot compare, such as maps, count as different.
func sameSource(a, b ir.WeightSource) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

// pack is the argument of a node to pack.
type pack struct {
	node *ir.Node
	key  packKey // empty if programs cannot share the result
	from Tensor
	err  error
}

// packConstants packs the constant arguments of kernels. It drops constants that nothing else needs.
func (p *Program) packConstants(ctx context.Context, isConst []bool) error {
	p.packs.mu.Lock()
	defer p.packs.mu.Unlock()
	p.packed = make([][]float32, len(p.consts))
	var list []pack
	for _, n := range p.plan.nodes {
		t, ok := p.argumentToPack(n, isConst)
		if !ok {
			continue
		}
		p.packed[n.ID()] = p.packs.made[t.key] // packed for another program or node
		if p.packed[n.ID()] != nil {
			continue
		}
		size := 4 * int64(elems(t.from.Dims))
		if t.from.Stored != nil {
			size = bytesOf(t.from.DType, t.from.Dims)
		}
		if err := hostmem.Check(size); err != nil {
			if t.from.Stored != nil {
				continue // the kernel also takes it from the file
			}
			return nodeError(n, err)
		}
		list = append(list, t)
	}
	err := parallel(ctx, p.opt.workers(), len(list), taskWork, func(_, task int) {
		t := &list[task]
		t.err = mmap.Guard(func() error { p.packed[t.node.ID()] = p.kernels[t.node.ID()].Pack(t.from); return nil })
	})
	for _, t := range list {
		if err = cmp.Or(err, t.err); err != nil {
			return nodeError(t.node, err)
		}
		if t.key != (packKey{}) { // only weights with a name are shared
			p.packs.made[t.key] = p.packed[t.node.ID()]
		}
	}
	p.dropPacked(isConst)
	return nil
}

// argumentToPack returns the constant argument that the node's kernel packs, or false if there is none in a format that
// kernels pack.
func (p *Program) argumentToPack(n *ir.Node, isConst []bool) (pack, bool) {
	k := p.kernels[n.ID()]
	if k == nil || k.Pack == nil {
		return pack{}, false
	}
	w := argsOf(n, p.kernels)[k.Packs]
	if !isConst[w.ID()] {
		return pack{}, false
	}
	v, t := p.consts[w.ID()], pack{node: n}
	if k.Form != "" && w.Op() == ir.OpWeight {
		t.key = packKey{w.Name(), k.Form}
	}
	t.from = Tensor{DType: v.typ, Dims: v.dims, Floats: v.f32, Words: v.i32, Stored: v.small}
	if v.block != nil && k.Stored == k.Packs {
		t.from.Stored = v.stored()
	}
	return t, t.from.Floats != nil || t.from.Words != nil || t.from.Stored != nil
}

// dropPacked drops the elements of the constants that are only needed packed. Dtypes and dims stay.
func (p *Program) dropPacked(isConst []bool) {
	needed := make([]bool, len(p.consts))
	for _, o := range p.graph.Outputs() {
		needed[o.Node.ID()] = true
	}
	for _, u := range p.graph.Updates() {
		needed[u.Value.ID()] = true
	}
	for _, n := range p.plan.nodes {
		k := p.kernels[n.ID()]
		for i, a := range argsOf(n, p.kernels) {
			// packed: the kernel reads only the packed form of this argument.
			packed := k != nil && k.Pack != nil && k.Packs == i && p.packed[n.ID()] != nil
			needed[a.ID()] = needed[a.ID()] || !packed
		}
	}
	for i := range p.consts {
		if isConst[i] && !needed[i] {
			p.consts[i].f32, p.consts[i].i32 = nil, nil
			if s := p.consts[i].small; s != nil {
				p.consts[i].small = &Stored{DType: s.DType}
			}
			if p.consts[i].block != nil {
				p.consts[i].block = newBlocks(p.consts[i].typ, nil)
			}
		}
	}
}
