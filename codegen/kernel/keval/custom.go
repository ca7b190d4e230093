package keval

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// custom runs a custom kernel by its op's Go reference: it reads every element of the arguments and stores every
// element of the results. It cannot check which elements the GLSL itself accesses.
func (r *run) custom() error {
	c := r.k.Custom
	op := c.Op.Info().Custom
	args := make([]*ir.Data, c.Args)
	for i := range args {
		d, err := r.tensor(i, c.Types[i])
		if err != nil {
			return fmt.Errorf("argument %s: %w", c.Name(i), err)
		}
		args[i] = d
	}
	out, err := op.Evaluate(args, c.Attrs, c.Types[c.Args:], r.symbols)
	if err != nil {
		return err
	}
	for i, d := range out {
		size := d.DType.BlockBytes()
		for x := range d.Elems() {
			v := decode(d.DType, d.Bytes[x*size:(x+1)*size])
			if err := r.store(c.Args+i, int64(x), v, d.DType); err != nil {
				return fmt.Errorf("result %s: %w", c.Name(c.Args+i), err)
			}
		}
	}
	return nil
}

// tensor returns the contents of a binding.
func (r *run) tensor(bind int, t ir.Type) (*ir.Data, error) {
	dims, err := t.Shape.Eval(r.symbols)
	if err != nil {
		return nil, err
	}
	d, err := ir.NewData(t.DType, dims...)
	if err != nil {
		return nil, err
	}
	if t.DType.IsBlock() {
		mem := r.m.mem[r.step.Binds[bind].Buffer]
		copy(d.Bytes, mem.bytes[mem.base:])
		return d, nil
	}
	size := t.DType.BlockBytes()
	for x := range d.Elems() {
		v, err := r.load(bind, int64(x))
		if err != nil {
			return nil, err
		}
		encode(d.Bytes[x*size:(x+1)*size], t.DType, v, t.DType)
	}
	return d, nil
}

// checkCustom checks that the bindings of a custom kernel agree with the types of its call.
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
