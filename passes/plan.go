package passes

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
	"github.com/vkc-go/vkc/quant"
)

// lowerAll orders the clusters by level and makes their kernels.
func lowerAll(s *State) error {
	f := s.Fusion
	if cycles := f.sortClusters(); cycles != nil {
		for c := range cycles {
			return fmt.Errorf("kernel of %s waits for itself", c.name())
		}
	}
	clusters := slices.Clone(f.Clusters)
	slices.SortStableFunc(clusters, func(a, b *Cluster) int { return a.level - b.level })
	s.Plan = f.values.Graph
	for _, c := range clusters {
		kernels, err := f.lowerRuns(c)
		if err != nil {
			return fmt.Errorf("kernel of %s (%s): %w", c.name(), c.Kind, err)
		}
		for _, k := range kernels {
			s.Plan.Append(k)
		}
	}
	for v, n := range s.Graph.Nodes() {
		if s.pricer != nil && isFixed(n) && n.DType().IsBlock() {
			s.layOutWeight(v)
		}
	}
	return nil
}

// canonicalize brings every kernel into the form that is emitted.
func canonicalize(s *State) error {
	for _, id := range s.Plan.IDs() {
		s.Plan.Replace(id, kernel.Canonical(s.Plan.Kernel(id)))
	}
	return nil
}

// layOutWeight chooses how the blocks of a weight lie, before any pass asks what a
// kernel that reads them costs. One that copies them takes them as in the file.
func (s *State) layOutWeight(v plan.ValueID) {
	weight, ids := s.Plan.Value(v), s.Plan.Readers(v)
	readers := make([]*kernel.Kernel, len(ids))
	for i, id := range ids {
		readers[i] = s.Plan.Kernel(id)
		if slices.ContainsFunc(readers[i].Bindings, func(b kernel.Binding) bool {
			return b.Buffer == v && b.DType != weight.Type.DType
		}) {
			return
		}
	}
	weight.Layout = s.pricer.Layout(weight.Type.DType, readers)
	for _, k := range readers {
		for i := range k.Bindings {
			if k.Bindings[i].Buffer == v {
				k.Bindings[i].Layout = weight.Layout
			}
		}
	}
}

// planner lays out the buffers of a program.
type planner struct {
	p        *kernel.Program
	kernels  []*kernel.Kernel // by step
	scratch  int              // how many values of no node have buffers
	lifetime map[int][2]int   // by buffer: when it is first and last touched
	clock    int              // now; kernels that may run at a time have one
	weights  map[string]int   // by what a weight's buffer holds
	grids    int              // the buffers of gated steps; -1 where there are none
	gates    []*kernel.Kernel // with the region that each decides on
	gated    []int
}

// scope is a graph of kernels that the planner lays out: the program's own, or that of the body of a loop.
type scope struct {
	*planner
	s       *State
	buffers map[plan.ValueID]int
	inner   map[plan.KernelID]*scope // of loops
	// fixed are the kernels that run when the program is loaded, and what they make.
	fixed  map[plan.KernelID]bool
	ready  map[plan.ValueID]bool
	outer  *scope                        // around a body; nil
	stands map[plan.ValueID]plan.ValueID // of a body: for which values of outer its leaves stand
}

// layOutMemory makes the program: buffers, steps and barriers. Shaders and grids are
// filled in when the kernels have schedules.
func layOutMemory(s *State) error {
	pl := &planner{lifetime: map[int][2]int{}, weights: map[string]int{}, grids: -1,
		p: &kernel.Program{Name: s.Graph.Name}}
	root := pl.scope(s, nil, nil)
	if err := root.interfaceBuffers(); err != nil {
		return err
	}
	if err := root.prepared(); err != nil {
		return err
	}
	pl.p.Prepared = len(pl.p.Steps)
	if err := root.steps(func(id plan.KernelID) bool { return !root.fixed[id] }); err != nil {
		return err
	}
	if err := pl.finishGates(); err != nil {
		return err
	}
	pl.placeTemps()
	pl.barriers()
	pl.extents(root)
	s.Program, s.laidOut = pl.p, pl.kernels
	return nil
}

// extents notes which extents of a graph, and of the loops in it, values of symbols may make negative, but for those of
// buffers.
func (pl *planner) extents(sc *scope) {
	for _, n := range sc.s.Graph.Nodes() {
		for _, d := range n.Shape() {
			if d.MayBeNegative() && !slices.Contains(pl.p.Extents, d) &&
				!slices.ContainsFunc(pl.p.Buffers, func(b kernel.Buffer) bool { return slices.Contains(b.Shape, d) }) {
				pl.p.Extents = append(pl.p.Extents, d)
			}
		}
	}
	for _, id := range sc.s.Plan.IDs() {
		if body := sc.inner[id]; body != nil {
			pl.extents(body)
		}
	}
}

// scope makes the scope of a graph of kernels and of all loops in it.
func (pl *planner) scope(s *State, outer *scope, stands map[plan.ValueID]plan.ValueID) *scope {
	sc := &scope{planner: pl, s: s, buffers: map[plan.ValueID]int{}, inner: map[plan.KernelID]*scope{},
		fixed: map[plan.KernelID]bool{}, ready: map[plan.ValueID]bool{}, outer: outer, stands: stands}
	for _, name := range slices.Concat(s.Graph.Symbols(), s.Graph.Derived()) {
		bound, _ := s.Graph.SymbolBound(name)
		if symbol := (kernel.Symbol{Name: name, Bound: bound}); !slices.Contains(pl.p.Symbols, symbol) {
			pl.p.Symbols = append(pl.p.Symbols, symbol)
		}
	}
	ids := s.Plan.IDs()
	for _, id := range ids[:s.Plan.Once()] {
		k := s.Plan.Kernel(id)
		if sc.fixed[id] = k.CanPrepare(func(buffer int) bool { return sc.ready[buffer] }); sc.fixed[id] {
			for _, b := range k.Bindings {
				sc.ready[b.Buffer] = sc.ready[b.Buffer] || b.Write
			}
		}
	}
	for _, id := range ids {
		k := s.Plan.Kernel(id)
		if k.Loop == nil {
			continue
		}
		body := s.Fusion.bodies[k.Loop.Body]
		stands := map[plan.ValueID]plan.ValueID{body.Fusion.values.params: s.Fusion.values.params}
		for i, n := range slices.Concat(body.Graph.Leaves(ir.OpState), body.Graph.Leaves(ir.OpInput)) {
			stands[n.ID()] = k.Bindings[i].Buffer
		}
		sc.inner[id] = pl.scope(body, sc, stands)
	}
	return sc
}

// prepared lays out the kernels that run when the program is loaded.
func (sc *scope) prepared() error {
	if err := sc.steps(func(id plan.KernelID) bool { return sc.fixed[id] }); err != nil {
		return err
	}
	for _, id := range sc.s.Plan.IDs() {
		if body := sc.inner[id]; body != nil {
			if err := body.prepared(); err != nil {
				return err
			}
		}
	}
	return nil
}

// steps lays out some of the kernels, in order.
func (sc *scope) steps(which func(plan.KernelID) bool) error {
	level := -1
	for _, id := range sc.s.Plan.IDs() {
		if !which(id) {
			continue
		}
		if sc.s.Plan.Level(id) != level {
			level = sc.s.Plan.Level(id)
			sc.clock++
		}
		if body := sc.inner[id]; body != nil {
			if err := body.region(sc.s.Plan.Kernel(id)); err != nil {
				return err
			}
			level = -1
			continue
		}
		if err := sc.step(sc.s.Plan.Kernel(id)); err != nil {
			return err
		}
	}
	return nil
}

// region lays out the body of a loop: what is the same in every trip, and then the steps of a trip.
func (sc *scope) region(loop *kernel.Kernel) error {
	ids := sc.s.Plan.IDs()
	once := ids[:sc.s.Plan.Once()]
	if err := sc.steps(func(id plan.KernelID) bool { return !sc.fixed[id] && slices.Contains(once, id) }); err != nil {
		return err
	}
	sc.clock++
	begin, at := sc.clock, len(sc.p.Regions)
	sc.p.Regions = append(sc.p.Regions, kernel.Region{First: len(sc.p.Steps), Trips: loop.Loop.Trips,
		Gated: loop.Loop.While})
	if loop.Loop.While {
		condition, err := sc.outer.buffer(loop.Bindings[0].Buffer)
		if err != nil {
			return err
		}
		if err := sc.gate(condition, at); err != nil {
			return err
		}
	}
	if err := sc.steps(func(id plan.KernelID) bool { return !slices.Contains(once, id) }); err != nil {
		return err
	}
	region := &sc.p.Regions[at]
	if region.Count = len(sc.p.Steps) - region.First; region.Count == 0 {
		sc.p.Regions = slices.Delete(sc.p.Regions, at, at+1) // of a body that changes nothing
	}
	sc.clock++
	for _, st := range sc.p.Steps[len(sc.p.Steps)-region.Count:] {
		for _, b := range st.Binds {
			if life := sc.lifetime[b.Buffer]; life[0] < begin { // what was there before is so in every trip
				sc.lifetime[b.Buffer] = [2]int{life[0], sc.clock}
			}
		}
	}
	return nil
}

func (pl *planner) add(kind kernel.BufferKind, name string, t ir.Type, segments ...kernel.Segment) (int, error) {
	n, err := t.MaxBytes()
	if err != nil {
		return 0, err
	}
	pl.p.Buffers = append(pl.p.Buffers, kernel.Buffer{Kind: kind, Name: name, DType: t.DType, Shape: t.Shape,
		Bytes: max(align(n, 16), 16), Segments: segments})
	return len(pl.p.Buffers) - 1, nil
}

func align(n, to int64) int64 { return (n + to - 1) / to * to }

// interfaceBuffers makes the buffers and ports of inputs, outputs and states.
func (pl *scope) interfaceBuffers() error {
	g := pl.s.Graph
	port := func(kind kernel.BufferKind, name string, n *ir.Node) (kernel.Port, error) {
		i, ok := pl.buffers[n.ID()]
		if !ok {
			var err error
			if i, err = pl.add(kind, name, n.Type()); err != nil {
				return kernel.Port{}, err
			}
			pl.buffers[n.ID()] = i
		}
		return kernel.Port{Name: name, Buffer: i, DType: n.DType(), Shape: n.Shape()}, nil
	}
	for _, n := range g.Leaves(ir.OpInput) {
		p, err := port(kernel.BufInput, n.Name(), n)
		if err != nil {
			return err
		}
		pl.p.Inputs = append(pl.p.Inputs, p)
	}
	for _, n := range g.Leaves(ir.OpState) {
		p, err := port(kernel.BufState, n.Name(), n)
		if err != nil {
			return err
		}
		p.Init = ir.InitialOf(n).String()
		pl.p.States = append(pl.p.States, p)
	}
	for _, o := range g.Outputs() {
		p, err := port(kernel.BufOutput, o.Name, o.Node)
		if err != nil {
			return err
		}
		pl.p.Outputs = append(pl.p.Outputs, p)
	}
	return nil
}

// buffer returns the buffer that holds a value.
func (pl *scope) buffer(id plan.ValueID) (int, error) {
	if i, ok := pl.buffers[id]; ok {
		return i, nil
	}
	if outer, ok := pl.stands[id]; ok {
		return pl.outer.buffer(outer)
	}
	v := pl.s.Plan.Value(id)
	kind, name, t := kernel.BufTemp, "", v.Type
	var segments []kernel.Segment
	switch {
	case v.Origin == plan.Params:
		kind, name = kernel.BufParams, "params"
		t.Shape = ir.ShapeOf(len(pl.p.Symbols))
	case v.Origin == plan.Fault:
		kind, name = kernel.BufFault, fmt.Sprintf("fault of %s", v.Node)
	case v.Origin == plan.Codebook:
		d := quant.Codebook(t.DType)
		kind, name = kernel.BufWeight, t.DType.String()+" codebook"
		t = ir.Type{DType: d.DType, Shape: ir.ShapeOf(d.Dims...)}
		segments = []kernel.Segment{{DType: d.DType, Dims: d.Dims, Data: d.Bytes}}
	case v.Origin == plan.Const || v.Origin == plan.Weight:
		kind, segments = kernel.BufWeight, weightSegments(v.Node)
		name = segments[0].Weight
		if len(segments) > 1 {
			name = fmt.Sprintf("%s and %d more", name, len(segments)-1)
		} else if name == "" {
			name = "const " + v.Node.String()
		}
	case v.Node == nil:
		name = fmt.Sprintf("scratch %d", pl.scratch)
		pl.scratch++
	default:
		name = fmt.Sprintf("%s %s", v.Node, v.Node.Op())
	}
	if kind == kernel.BufTemp && pl.isPrepared(id) {
		kind = kernel.BufPrepared
	}
	shared := ""
	if len(segments) > 0 && segments[0].Weight != "" { // loops and what is around them may read one weight
		shared = fmt.Sprintf("%+v %s %s", segments, t, v.Layout)
		if i, ok := pl.weights[shared]; ok {
			pl.buffers[id] = i
			return i, nil
		}
	}
	i, err := pl.add(kind, name, t, segments...)
	if pl.buffers[id] = i; err == nil && v.Layout != kernel.LayoutBlocks {
		b := &pl.p.Buffers[i]
		b.Layout = v.Layout
		b.Bytes, err = b.Layout.Bytes(b.DType, b.Shape.MaxElems())
	}
	if shared != "" {
		pl.weights[shared] = i
	}
	return i, err
}

// isPrepared reports whether a value is made when the program is loaded, and read later.
func (pl *scope) isPrepared(id plan.ValueID) bool {
	later := func(k plan.KernelID) bool { return !pl.fixed[k] }
	return pl.ready[id] && slices.ContainsFunc(pl.s.Plan.Readers(id), later)
}

// isFixed reports whether a node's buffer is filled when the program is loaded.
func isFixed(n *ir.Node) bool {
	return n.Op() == ir.OpWeight || n.Op() == ir.OpConst || isPacked(n)
}

func weightSegments(n *ir.Node) []kernel.Segment {
	if n.Op() == ir.OpConst {
		d := n.Attrs().Data("data")
		return []kernel.Segment{{DType: d.DType, Dims: d.Dims, Data: d.Bytes}}
	}
	parts := []*ir.Node{n}
	if isPacked(n) {
		parts = n.Args()
	}
	segments := make([]kernel.Segment, len(parts))
	for i, w := range parts {
		dims, _ := w.Shape().Eval(nil) // weights are static
		segments[i] = kernel.Segment{Weight: w.Name(), DType: w.DType(), Dims: dims}
	}
	return segments
}

func (pl *scope) step(k *kernel.Kernel) error {
	st := kernel.Step{Name: k.Name, Ops: k.Ops, Flops: kernelFlops(k)}
	accesses := countAccesses(k)
	if err := pl.fault(k); err != nil {
		return err
	}
	for i, b := range k.Bindings {
		buf, err := pl.buffer(b.Buffer)
		if err != nil {
			return err
		}
		st.Binds = append(st.Binds, kernel.Bind{Buffer: buf, Read: b.Read, Write: b.Write})
		st.Moved += min(pl.p.Buffers[buf].Bytes, mapBytes(k, b.DType, accesses[i]),
			windowBytes(k, i, pl.p.Buffers[buf].Bytes))
		pl.touch(buf)
	}
	pl.p.Steps, pl.kernels = append(pl.p.Steps, st), append(pl.kernels, k)
	return nil
}

// touch notes that a buffer is used now.
func (pl *planner) touch(buf int) {
	life, ok := pl.lifetime[buf]
	if !ok {
		life[0] = pl.clock
	}
	life[1] = pl.clock
	pl.lifetime[buf] = life
}

// fault gives the host the word in which a kernel notes a fault.
func (pl *scope) fault(k *kernel.Kernel) error {
	if k.Fault == nil {
		return nil
	}
	id := k.Bindings[k.Fault.Bind].Buffer
	buf, err := pl.buffer(id)
	if err != nil {
		return err
	}
	n := pl.s.Plan.Value(id).Node
	pl.p.Faults = append(pl.p.Faults, kernel.FaultPort{Buffer: buf, Op: fmt.Sprintf("%s %s", n, n.Op()),
		Why: quant.Refusal(n.DType()), Elems: int64(n.DType().BlockElems())})
	return nil
}

// countAccesses counts the loads and stores of each binding that one point makes.
func countAccesses(k *kernel.Kernel) map[int]int64 {
	n := map[int]int64{}
	kernel.Walk(k.Roots(), func(e *kernel.Expr) {
		if e.Kind == kernel.ExprLoad {
			n[e.Bind]++
		}
	})
	for _, s := range k.Stores {
		n[s.Bind]++
	}
	return n
}

// mapBytes is about how many bytes a map, or a kernel that makes blocks, reads and writes at most of a buffer that
// each of its points, or each element of a block, accesses some times: of a large state, only the slice that it writes.
func mapBytes(k *kernel.Kernel, t ir.DType, accesses int64) int64 {
	points := ir.Shape(k.Parallel).MaxElems()
	if k.Family == kernel.FamilyQuantize && points <= math.MaxInt32 {
		points *= k.Fold.Max()
	} else if k.Family != kernel.FamilyMap {
		return math.MaxInt64
	}
	if accesses == 0 || points > math.MaxInt32 || accesses > math.MaxInt16 {
		return math.MaxInt64
	}
	blocks := points*accesses/int64(max(t.BlockElems(), 1)) + 1
	return blocks * int64(t.BlockBytes())
}

// windowBytes is about how many of a buffer's bytes an attention reads as keys or values
// where a window leaves most out.
func windowBytes(k *kernel.Kernel, bind int, all int64) int64 {
	a, used := k.Attention, false
	if a == nil || a.Window == 0 {
		return all
	}
	kernel.Walk([]*kernel.Expr{a.K, a.V}, func(e *kernel.Expr) {
		used = used || e.Kind == kernel.ExprLoad && e.Bind == bind
	})
	if !used {
		return all
	}
	seen := k.KeysSeen(k.Parallel[k.AttentionAxes().Query].Max())
	return int64(float64(all) * float64(seen) / float64(max(k.Fold.Max(), 1)))
}

// kernelFlops counts arithmetic operations at the bound of every symbol.
func kernelFlops(k *kernel.Kernel) int64 {
	points := ir.Shape(k.Parallel).MaxElems()
	if k.Family == kernel.FamilyAttention {
		ax := k.AttentionAxes()
		value, splits := k.Parallel[ax.Value].Max(), k.Parallel[ax.Split].Max()
		return 2 * (points / max(value*splits, 1)) * k.KeysSeen(1) * (k.Attention.VectorElems() + value)
	}
	if k.Family == kernel.FamilyMatMul {
		return 2 * points * k.Fold.Max() * int64(len(k.Products))
	}
	per := int64(0)
	kernel.Walk(k.Roots(), func(e *kernel.Expr) {
		if e.Kind == kernel.ExprApply {
			n := int64(1)
			if k.Family == kernel.FamilyRow && e.Uses(k.FoldAxis()) || k.Family == kernel.FamilyScan ||
				k.Family == kernel.FamilySort {
				n = k.Fold.Max()
			}
			per += n
		}
	})
	for range k.Phases {
		per += k.Fold.Max()
	}
	if k.Family == kernel.FamilyGroup {
		per += k.Fold.Max()
	}
	return points * per
}

// arenaAlign is the alignment of temporaries: no device asks for more of a
// storage buffer's offset.
const arenaAlign = 256

// placeTemps gives each temporary a range of the arena: largest first, at the
// lowest offset where no temporary alive at the same level is.
func (pl *planner) placeTemps() {
	var temps []int
	for i, b := range pl.p.Buffers {
		if b.Kind == kernel.BufTemp {
			temps = append(temps, i)
			pl.p.TempBytes += align(b.Bytes, arenaAlign)
		}
	}
	slices.SortStableFunc(temps, func(a, b int) int { return int(pl.p.Buffers[b].Bytes - pl.p.Buffers[a].Bytes) })
	var levels []int
	for _, t := range temps {
		levels = append(levels, pl.lifetime[t][0], pl.lifetime[t][1])
	}
	taken := newShelves(levels)
	for _, t := range temps {
		size := align(pl.p.Buffers[t].Bytes, arenaAlign)
		at := taken.lowest(pl.lifetime[t], size)
		taken.take(pl.lifetime[t], at, at+size)
		pl.p.Buffers[t].Offset = at
		pl.p.ArenaBytes = max(pl.p.ArenaBytes, at+size)
	}
}

// barriers puts a barrier before every step that touches what a step since
// the last barrier wrote, or writes what one has read.
func (pl *planner) barriers() {
	borders := pl.p.Borders()
	since := touched{pl: pl}
	since.clear()
	for i := range pl.p.Steps {
		st := &pl.p.Steps[i]
		if pl.p.Begins(i) {
			since.clear()
		}
		st.Barrier = slices.ContainsFunc(st.Binds, since.conflicts) || borders[i]
		if st.Barrier {
			since.clear()
		}
		for _, b := range st.Binds {
			since.add(b)
		}
	}
}

// touched is what steps since the last barrier have read and written: buffers,
// and bytes of the arena.
type touched struct {
	pl                *planner
	written           map[int]bool // by buffer that is touched: whether it is written
	arena, arenaWrite spans
}

func (t *touched) clear() {
	t.written = map[int]bool{}
	t.arena, t.arenaWrite = t.arena[:0], t.arenaWrite[:0]
}

// bytes returns the bytes of the arena that a buffer takes, if it lies there.
func (t *touched) bytes(buffer int) (from, to int64, ok bool) {
	b := t.pl.p.Buffers[buffer]
	return b.Offset, b.Offset + align(b.Bytes, arenaAlign), b.Kind == kernel.BufTemp
}

func (t *touched) add(b kernel.Bind) {
	from, to, ok := t.bytes(b.Buffer)
	switch {
	case !ok:
		t.written[b.Buffer] = t.written[b.Buffer] || b.Write
		return
	case b.Write:
		t.arenaWrite.add(from, to)
	}
	t.arena.add(from, to)
}

// conflicts reports whether a step that binds b must wait for those before it.
func (t *touched) conflicts(b kernel.Bind) bool {
	from, to, ok := t.bytes(b.Buffer)
	if !ok {
		written, before := t.written[b.Buffer]
		return written || before && b.Write
	}
	seen := t.arenaWrite
	if b.Write {
		seen = t.arena
	}
	_, met := seen.meets(from, to)
	return met
}

// PrintPlan writes the buffers and steps for a reader.
func PrintPlan(w io.Writer, p *kernel.Program) {
	once := ""
	if p.Prepared > 0 {
		once = fmt.Sprintf(", %d of them once when it is loaded", p.Prepared)
	}
	fmt.Fprintf(w, "%s: %d kernels%s, %d barriers, arena %d bytes (%d without sharing)\n",
		ir.Titled("program", p.Name), len(p.Steps), once, countBarriers(p), p.ArenaBytes, p.TempBytes)
	for i, b := range p.Buffers {
		fmt.Fprintf(w, "  buffer %d %s %s : %s, %d bytes", i, b.Kind, ir.Printable(b.Name),
			ir.Type{DType: b.DType, Shape: b.Shape}, b.Bytes)
		if b.Kind == kernel.BufTemp {
			fmt.Fprintf(w, " at %d", b.Offset)
		}
		if b.Layout != kernel.LayoutBlocks {
			fmt.Fprintf(w, " in %s", b.Layout)
		}
		fmt.Fprintln(w)
	}
	for i, st := range p.Steps {
		switch {
		case p.Prepared > 0 && i == 0:
			fmt.Fprintln(w, "  once, when loaded")
		case p.Prepared > 0 && i == p.Prepared:
			fmt.Fprintln(w, "  every run")
		case st.Barrier:
			fmt.Fprintln(w, "  barrier")
		}
		for _, r := range p.Regions {
			if r.First == i {
				gate := ""
				if r.Gated {
					gate = ", as long as its first step says so"
				}
				fmt.Fprintf(w, "  %s times%s: steps %d to %d\n", r.Trips, gate, r.First, r.First+r.Count-1)
			}
		}
		for _, k := range p.Persistent {
			if k.First == i {
				fmt.Fprintf(w, "  %s: steps %d to %d [%s] ; %s\n", k.Dispatch.Name, i, i+k.Count-1, binds(k.Dispatch),
					k.Dispatch.Schedule)
			}
		}
		fmt.Fprintf(w, "  step %d %s [%s] ; %s", i, st.Name, binds(st), strings.Join(st.Ops, ", "))
		if st.Schedule != "" {
			fmt.Fprintf(w, " ; %s", st.Schedule)
		}
		fmt.Fprintln(w)
	}
}

// binds says which buffers a step reads and writes.
func binds(st kernel.Step) string {
	var list []string
	for _, b := range st.Binds {
		mode := "r"
		if b.Write {
			mode = "w"
			if b.Read {
				mode = "rw"
			}
		}
		list = append(list, fmt.Sprintf("%s%d", mode, b.Buffer))
	}
	return strings.Join(list, " ")
}

func countBarriers(p *kernel.Program) int {
	n := 0
	for _, st := range p.Steps {
		if st.Barrier {
			n++
		}
	}
	return n
}
