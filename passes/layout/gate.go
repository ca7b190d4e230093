package layout

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// wordsPerStep is the number of workgroup counts of a dispatch: x, y and z.
const wordsPerStep = 3

// addGate adds the first step of a while loop's region. The loop has a fixed number of trips, and the steps of a trip
// are dispatched indirectly. If the loop's condition is true, the gate copies their workgroup counts from buffer
// "grids" to buffer "gated grids". Otherwise it writes zeros, so that the trip does nothing. condition is the buffer of
// the loop's condition, and region the index of its region. finishGates fills in the number of steps.
func (sc *scope) addGate(condition, region int) {
	pl := sc.planner
	if pl.grids < 0 {
		counts := ir.Type{DType: ir.U32, Shape: ir.ShapeOf(0)}
		pl.grids = pl.add(kernel.BufGrids, "grids", counts)
		pl.add(kernel.BufGated, "gated grids", counts)
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
}

// finishGates sets the range of workgroup counts that each gate copies: the counts of its region's steps. It is called
// after all steps are laid out.
func (pl *planner) finishGates() {
	if len(pl.gates) == 0 {
		return
	}
	gated := pl.p.Gated() // the steps that gates decide on
	words := int64(wordsPerStep * len(gated))
	for i := range 2 { // the counts, and the counts that gates write
		b := &pl.p.Buffers[pl.grids+i]
		b.Shape, b.Bytes = ir.ShapeOf(int(words)), max(ceil.Multiple(4*words, 16), 16)
	}
	for i, k := range pl.gates {
		r := pl.p.Regions[pl.gated[i]]
		first := int64(0) // index of the region's steps among the gated ones; the gate itself is not gated
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
}
