package layout

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// wordsPerStep is how many workgroup counts a dispatch has.
const wordsPerStep = 3

// gate lays out the first step of a region that may end early. It copies the workgroup counts of the following steps if
// the condition is true, and otherwise stores zeros. The number of these steps is known after all steps are laid out.
func (sc *scope) gate(condition, region int) error {
	pl := sc.planner
	if pl.grids < 0 {
		counts := ir.Type{DType: ir.U32, Shape: ir.ShapeOf(0)}
		grids, err := pl.add(kernel.BufGrids, "grids", counts)
		if err == nil {
			_, err = pl.add(kernel.BufGated, "gated grids", counts)
		}
		if err != nil {
			return err
		}
		pl.grids = grids
	}
	k := &kernel.Kernel{Name: "gate", Family: kernel.FamilyMap, Ops: []string{"loop"}, Bindings: []kernel.Binding{
		{Name: "condition", DType: ir.Bool, Read: true, Elems: 1},
		{Name: "grids", DType: ir.U32, Read: true}, {Name: "gated", DType: ir.U32, Write: true},
	}}
	st := kernel.Step{Name: k.Name, Ops: k.Ops, Binds: []kernel.Bind{{Buffer: condition, Read: true},
		{Buffer: pl.grids, Read: true}, {Buffer: pl.grids + 1, Write: true}}}
	pl.touch(condition)
	pl.p.Steps, pl.kernels = append(pl.p.Steps, st), append(pl.kernels, k)
	pl.gates, pl.gated = append(pl.gates, k), append(pl.gated, region)
	pl.clock++
	return nil
}

// finishGates sets each gate's range to the workgroup counts of its region's steps, now that all steps are laid out.
func (pl *planner) finishGates() error {
	if len(pl.gates) == 0 {
		return nil
	}
	gated := pl.p.Gated()
	words := int64(wordsPerStep * len(gated))
	for i := range 2 {
		b := &pl.p.Buffers[pl.grids+i]
		b.Shape, b.Bytes = ir.ShapeOf(int(words)), max(align(4*words, 16), 16)
	}
	for i, k := range pl.gates {
		r := pl.p.Regions[pl.gated[i]]
		first := int64(0)
		for first < int64(len(gated)) && gated[first] <= r.First {
			first++
		}
		k.Parallel = []ir.Dim{ir.D(wordsPerStep * (r.Count - 1))}
		for j := range k.Bindings[1:] {
			k.Bindings[1+j].Elems = words
		}
		at := kernel.Axis(0, k.Parallel[0]).Plus(kernel.Const(wordsPerStep * first))
		b := kernel.NewBuilder()
		counts := b.Apply(ir.OpWhere, ir.U32, nil, b.Load(0, ir.Bool, kernel.Const(0), "condition"),
			b.Load(1, ir.U32, at, "grids"), b.Integer(ir.U32, 0))
		k.Stores = []kernel.Store{{Bind: 2, Index: at, Value: counts}}
	}
	return nil
}
