package keval

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// runCustom runs a custom kernel by its op's Go reference: it reads every element of the arguments and stores every
// element of the results. It cannot check which elements the GLSL itself accesses.
func (r *run) runCustom() {
	c := r.k.Custom
	op := c.Op.Info().Custom
	args := make([]*ir.Data, c.Args)
	for i := range args {
		r.doing, r.number = "argument", i
		args[i] = r.tensor(i, c.Types[i])
	}
	out, err := op.Evaluate(args, c.Attrs, c.Types[c.Args:], r.symbols)
	bailout.Check(err)
	for i, d := range out {
		r.doing, r.number = "result", i
		size := d.DType.BlockBytes()
		for x := range d.Elems() {
			r.store(c.Args+i, int64(x), decode(d.DType, d.Bytes[x*size:(x+1)*size]), d.DType)
		}
	}
}

// tensor returns the contents of a binding. It checks each load, except from quantized weights, which only the host
// writes.
func (r *run) tensor(bind int, t ir.Type) *ir.Data {
	dims, err := t.Shape.Eval(r.symbols)
	bailout.Check(err)
	d, err := ir.NewData(t.DType, dims...)
	bailout.Check(err)
	if t.DType.IsBlock() {
		mem := r.m.mem[r.step.Binds[bind].Buffer]
		copy(d.Bytes, mem.bytes[mem.base:])
		return d
	}
	size := t.DType.BlockBytes()
	for x := range d.Elems() {
		element := d.Bytes[x*size : (x+1)*size]
		loaded := t.DType // the binding's dtype is the tensor's: encode does not convert
		encode(element, t.DType, r.load(bind, int64(x)), loaded)
	}
	return d
}

// checkCustom checks that the bindings of a custom kernel agree with the types of its call. A kernel with symbols has
// one more binding: the last one has the values of the symbols.
func checkCustom(k *kernel.Kernel) error {
	c := k.Custom
	if c == nil || len(k.Bindings) < len(c.Types) || len(k.Bindings) > len(c.Types)+1 || c.Args >= len(c.Types) {
		return fmt.Errorf("a custom kernel of %d bindings without the call that they are for", len(k.Bindings))
	}
	for i, t := range c.Types {
		if b := k.Bindings[i]; b.DType != t.DType || b.Read != (i < c.Args || c.Zeroed(i)) || b.Write != (i >= c.Args) {
			return fmt.Errorf("binding %d (%s) does not fit %s", i, b.Name, t)
		}
	}
	return nil
}
