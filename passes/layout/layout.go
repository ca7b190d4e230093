package layout

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
	"github.com/vkc-go/vkc/quant"
)

// planner makes the steps and buffers of a program.
type planner struct {
	p        *kernel.Program
	kernels  []*kernel.Kernel // by step
	scratch  int              // number of values with buffers and no node
	lifetime map[int][2]int   // by buffer: the times of its first and last access
	clock    int              // current time; kernels that may run concurrently have the same time
	weights  map[string]int   // buffers of weights, by their contents; loops and the code around them share these
	grids    int              // buffer of the gated steps' workgroup counts; grids+1 has the gated counts; -1: none
	gates    []*kernel.Kernel // the gates of while loops
	gated    []int            // by gate: the index of its region
}

// scope is a graph of kernels that the planner lays out: the whole program's, or a loop body's.
type scope struct {
	*planner
	g       *plan.Graph
	buffers map[plan.ValueID]int
	inner   map[plan.KernelID]*scope // scopes of loop bodies, by loop
	// fixed are the kernels that run only once, when the program is loaded. ready are their results.
	fixed  map[plan.KernelID]bool
	ready  map[plan.ValueID]bool
	outer  *scope                        // scope around a body; nil for the program
	leaves map[plan.ValueID]plan.ValueID // for a body: the values of outer that its inputs and states are
}

// Program makes the program of a graph of kernels: buffers, steps and barriers. Package compiler fills in shaders and
// grids later. Program also returns the kernel of each step, including the kernels of loop bodies.
func Program(g *plan.Graph) (_ *kernel.Program, _ []*kernel.Kernel, err error) {
	defer bailout.Caught(&err)
	pl := &planner{lifetime: map[int][2]int{}, weights: map[string]int{}, grids: -1,
		p: &kernel.Program{Name: g.Ops.Name}}
	pl.layOut(pl.scope(g, nil, nil))
	return pl.p, pl.kernels, nil
}

// layOut makes the whole program: preparing steps first, then the steps of a run.
func (pl *planner) layOut(root *scope) {
	root.makeInterface()
	root.layOutPrepared()
	pl.p.Prepared = len(pl.p.Steps)
	root.layOutSteps(func(id plan.KernelID) bool { return !root.fixed[id] })
	pl.finishGates()
	pl.placeTemps()
	if testing.Testing() { // every test that plans also verifies the plan
		bailout.Check(pl.p.CheckArena())
	}
	pl.insertBarriers()
	pl.recordExtents(root)
}

// recordExtents records in the program the extents of nodes that could be negative for some values of symbols, in a
// graph and its loops, so that a run can check them. Extents of buffers are left out: they are checked anyway.
func (pl *planner) recordExtents(sc *scope) {
	for _, n := range sc.g.Ops.Nodes() {
		for _, d := range n.Shape() {
			if d.MayBeNegative() && !slices.Contains(pl.p.Extents, d) &&
				!slices.ContainsFunc(pl.p.Buffers, func(b kernel.Buffer) bool { return slices.Contains(b.Shape, d) }) {
				pl.p.Extents = append(pl.p.Extents, d)
			}
		}
	}
	for _, id := range sc.g.IDs() {
		if body := sc.inner[id]; body != nil {
			pl.recordExtents(body)
		}
	}
}

// scope makes the scope of a graph of kernels, and the scopes of the loops in it.
func (pl *planner) scope(g *plan.Graph, outer *scope, leaves map[plan.ValueID]plan.ValueID) *scope {
	sc := &scope{planner: pl, g: g, buffers: map[plan.ValueID]int{}, inner: map[plan.KernelID]*scope{},
		fixed: map[plan.KernelID]bool{}, ready: map[plan.ValueID]bool{}, outer: outer, leaves: leaves}
	for _, name := range slices.Concat(g.Ops.Symbols(), g.Ops.Derived()) {
		bound, _ := g.Ops.SymbolBound(name)
		if symbol := (kernel.Symbol{Name: name, Bound: bound}); !slices.Contains(pl.p.Symbols, symbol) {
			pl.p.Symbols = append(pl.p.Symbols, symbol)
		}
	}
	ids := g.IDs()
	for _, id := range ids[:g.Once()] { // in a loop's body, some of these depend on values of the run
		k := g.Kernel(id)
		sc.fixed[id] = k.CanPrepare(func(buffer int) bool { return sc.ready[buffer] })
		if sc.fixed[id] {
			for _, b := range k.Bindings {
				sc.ready[b.Buffer] = sc.ready[b.Buffer] || b.Write
			}
		}
	}
	for _, id := range ids {
		k := g.Kernel(id)
		if k.Loop == nil {
			continue
		}
		body := g.Bodies[k.Loop.Body]
		around := map[plan.ValueID]plan.ValueID{body.Params: g.Params}
		for i, n := range slices.Concat(body.Ops.Leaves(ir.OpState), body.Ops.Leaves(ir.OpInput)) {
			around[n.ID()] = k.Bindings[i].Buffer
		}
		sc.inner[id] = pl.scope(body, sc, around)
	}
	return sc
}

// layOutPrepared lays out the kernels that run when the program is loaded, of this scope and its loops.
func (sc *scope) layOutPrepared() {
	sc.layOutSteps(func(id plan.KernelID) bool { return sc.fixed[id] })
	for _, id := range sc.g.IDs() {
		if body := sc.inner[id]; body != nil {
			body.layOutPrepared()
		}
	}
}

// layOutSteps lays out the kernels for which `which` returns true, in order.
func (sc *scope) layOutSteps(which func(plan.KernelID) bool) {
	level := -1 // of the last kernel; kernels of one level may run at the same time
	for _, id := range sc.g.IDs() {
		if !which(id) {
			continue
		}
		if sc.g.Level(id) != level {
			level = sc.g.Level(id)
			sc.clock++
		}
		if body := sc.inner[id]; body != nil {
			body.layOutRegion(sc.g.Kernel(id))
			level = -1 // the next kernel must not run at the same time as the loop
			continue
		}
		sc.addStep(sc.g.Kernel(id))
	}
}

// layOutRegion lays out a loop's body: first the kernels that run once before the trips, then the steps of a trip,
// which form a region that is repeated.
func (sc *scope) layOutRegion(loop *kernel.Kernel) {
	ids := sc.g.IDs()
	once := ids[:sc.g.Once()]
	sc.layOutSteps(func(id plan.KernelID) bool { return !sc.fixed[id] && slices.Contains(once, id) })
	sc.clock++
	begin, at := sc.clock, len(sc.p.Regions)
	sc.p.Regions = append(sc.p.Regions, kernel.Region{First: len(sc.p.Steps), Trips: loop.Loop.Trips,
		Gated: loop.Loop.While})
	if loop.Loop.While {
		sc.addGate(sc.outer.buffer(loop.Bindings[0].Buffer), at)
	}
	sc.layOutSteps(func(id plan.KernelID) bool { return !slices.Contains(once, id) })
	steps := sc.p.Steps[sc.p.Regions[at].First:]
	sc.p.Regions[at].Count = len(steps)
	if len(steps) == 0 { // the body has no kernels
		sc.p.Regions = slices.Delete(sc.p.Regions, at, at+1)
	}
	sc.clock++
	for _, st := range steps {
		for _, b := range st.Binds {
			// Every trip reads or writes a buffer that was in use before the loop, so it is live until the loop's end.
			if life := sc.lifetime[b.Buffer]; life[0] < begin {
				sc.lifetime[b.Buffer] = [2]int{life[0], sc.clock}
			}
		}
	}
}

// addStep adds the step of a kernel.
func (sc *scope) addStep(k *kernel.Kernel) {
	st := kernel.Step{Name: k.Name, Ops: k.Ops, Flops: kernelFlops(k)}
	accesses := countAccesses(k)
	sc.addFault(k)
	for i, b := range k.Bindings {
		buf := sc.buffer(b.Buffer)
		st.Binds = append(st.Binds, kernel.Bind{Buffer: buf, Read: b.Read, Write: b.Write})
		st.Moved += min(sc.p.Buffers[buf].Bytes, mapBytes(k, b.DType, accesses[i]),
			windowBytes(k, i, sc.p.Buffers[buf].Bytes))
		sc.touch(buf)
	}
	sc.p.Steps, sc.kernels = append(sc.p.Steps, st), append(sc.kernels, k)
}

// touch records an access to a buffer at the current time, which extends the buffer's lifetime.
func (pl *planner) touch(buf int) {
	life, ok := pl.lifetime[buf]
	if !ok {
		life[0] = pl.clock
	}
	life[1] = pl.clock
	pl.lifetime[buf] = life
}

// addFault registers the buffer in which a kernel reports a fault to the host: an element that it has no result for.
func (sc *scope) addFault(k *kernel.Kernel) {
	if k.Fault == nil {
		return
	}
	id := k.Bindings[k.Fault.Bind].Buffer
	n := sc.g.Value(id).Node
	sc.p.Faults = append(sc.p.Faults, kernel.FaultPort{Buffer: sc.buffer(id), Op: n.Op().String(),
		Why: quant.Refusal(n.DType()), Elems: int64(n.DType().BlockElems())})
}

// insertBarriers inserts a barrier before every step with a data hazard: the step accesses data that another one since
// the last barrier wrote, or writes data that such a step read. Two steps that write different elements of a buffer
// have no hazard.
func (pl *planner) insertBarriers() {
	borders := pl.p.Borders()
	var since []access // since the last barrier
	for i := range pl.p.Steps {
		st := &pl.p.Steps[i]
		if pl.p.Begins(i) {
			since = nil
		}
		own := make([]access, len(st.Binds))
		for n, b := range st.Binds {
			own[n] = access{b, pl.kernels[i], n}
		}
		st.Barrier = borders[i] || slices.ContainsFunc(own, func(a access) bool {
			return slices.ContainsFunc(since, func(b access) bool { return pl.conflict(a, b) })
		})
		if st.Barrier {
			since = nil
		}
		since = append(since, own...)
	}
}

// access is one binding of a step.
type access struct {
	kernel.Bind
	k     *kernel.Kernel
	index int // of the binding
}

// conflict reports whether two accesses must be separated by a barrier.
func (pl *planner) conflict(a, b access) bool {
	apart := func() bool { return a.Buffer == b.Buffer && kernel.WriteApart(a.k, a.index, b.k, b.index) }
	return (a.Write || b.Write) && pl.p.Overlap(a.Buffer, b.Buffer) && !apart()
}

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
