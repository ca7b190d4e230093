package interp

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// Options adjusts a Program. The zero value means the defaults.
type Options struct {
	// Weights provides the graph's weights. It may be nil for a graph without weights.
	Weights ir.WeightSource

	// Workers limits the goroutines that share an op; zero means one per core. Results do not depend on it.
	Workers int

	// MemoryLimit limits the bytes of the values that are alive at a time, without weights, at 8 bytes per element.
	// Zero means no limit of the program. New and Run return an error if they need more, or more than the machine, a
	// control group or ulimit allows.
	MemoryLimit int64

	// Share is another program. The new program uses Share's weights if Weights is nil, and shares its states of the
	// same names.
	Share *Program

	// Replace, if set, lets a backend compute nodes: it returns kernels by node ID, and nil for nodes that the
	// interpreter computes. Only nodes of a float dtype that float32 can represent may have a kernel. Values between
	// nodes are then float32, except f64, and results have the bits of the kernels.
	Replace func(g *ir.Graph) []*Kernel

	// Poison fills kernel memory with NaN before use and after its value dies. Tests use it to detect reads of
	// uninitialized or freed elements.
	Poison bool

	// Context, if set, cancels New, which computes all nodes that depend only on weights.
	Context context.Context

	fixed map[*ir.Node]value // of a body: inputs that are constants of the program around it
}

// workers returns the number of goroutines.
func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// memoryLimit returns the limit in bytes.
func (o Options) memoryLimit() int64 {
	if o.MemoryLimit > 0 {
		return o.MemoryLimit
	}
	return math.MaxInt64
}

// Program is a graph prepared for running: weights are decoded, and everything that depends only on them is computed
// once. It is safe for concurrent use; runs of a graph that updates states are serialized.
type Program struct {
	*prepared
	idle   sync.Pool // of *exec, between runs
	states *states
	own    []*value // by number (see step.state): the graph's states, in the memory of states
}

// prepared is the part of a program that does not change after New. Programs made by WithStates share it.
type prepared struct {
	graph   *ir.Graph
	opt     Options
	consts  []value // by node ID: the constants that runs use
	plan    plan
	kernels []*Kernel   // by node ID: the kernels of Options.Replace; nil without it
	packed  [][]float32 // by node ID: the argument that the node's kernel packed; nil for none
	inPlace nodeSet     // the nodes that may overwrite argument 0, a state; nil if none of the program may
	dims    [][]int     // by node ID: the extents of results that depend on no symbol
	views   nodeSet     // the nodes that may return a view of argument 0
	formats nodeSet     // the nodes with values that may be in the format of tensors
	direct  nodeSet     // the outputs that kernels compute in the caller's memory
	bodies  *bodies
	packs   *packs
}

// states holds the values that a program keeps between runs.
type states struct {
	running sync.RWMutex // held by runs: for writing if they update states, otherwise for reading
	mu      sync.Mutex   // guards the fields below, and the values
	values  map[string]*value
	aliased bool // two states may share elements, so runs must not write in place
}

// New prepares a graph. If weights are missing or differ from the graph's declarations, it returns an [*ir.WeightError]
// that lists them all.
func New(g *ir.Graph, opt Options) (*Program, error) {
	if opt.Share != nil && opt.Weights == nil {
		opt.Weights = opt.Share.opt.Weights
	}
	p, err := prepare(g, opt)
	if err != nil {
		return nil, err
	}
	if err := p.shareStates(); err != nil {
		return nil, err
	}
	p.states.mu.Lock()
	defer p.states.mu.Unlock()
	// Once one program may let two states share elements, no program with these states may write in place.
	p.states.aliased = p.states.aliased || p.inPlace == nil
	return p, nil
}

// prepare makes a program without states. It plans the runs, computes the constants, and then decides which values runs
// can compute in place, as views, or in the caller's memory.
func prepare(g *ir.Graph, opt Options) (*Program, error) {
	p := &Program{prepared: &prepared{graph: g, opt: opt, bodies: newBodies(opt), packs: sharedPacks(opt)},
		states: &states{values: map[string]*value{}}}
	if opt.Replace != nil {
		p.kernels = opt.Replace(g)
	}
	var targets []*ir.Node
	for _, o := range g.Outputs() {
		targets = append(targets, o.Node)
	}
	for _, u := range g.Updates() {
		targets = append(targets, u.Value)
	}
	isConst := constants(g.Nodes(), opt.fixed)
	known := func(n *ir.Node) bool { return isConst[n.ID()] }
	p.plan = newPlan(g.Nodes(), targets, p.kernels, known)
	if err := p.computeConstants(isConst); err != nil {
		return nil, err
	}
	p.fixBodies(isConst)
	p.views = p.planViews()
	p.formats = p.planFormats()
	p.inPlace, p.direct = p.planStates(), p.planOutputs()
	var err error
	if p.dims, err = staticDims(g.Nodes()); err != nil {
		return nil, err
	}
	for _, n := range p.plan.nodes {
		s, dims := &p.plan.steps[n.ID()], p.dims[n.ID()]
		if p.views.has(n) { // kernels copy
			s.view, s.replaced = true, nil
		}
		s.shares = p.kernels != nil && s.replaced == nil && !s.view && p.sharesElements(n)
		s.mayShare = p.mayShare(n)
		if dims != nil && len(ir.Results(n)) <= 1 {
			if _, err := ir.ByteSize(n.DType(), dims); err == nil { // else the run returns the error
				s.need = bytesOf(n.DType(), dims)
			}
		}
	}
	for i, n := range g.Leaves(ir.OpState) {
		p.plan.steps[n.ID()].state = i
	}
	for id, leaves := range p.leaving() {
		p.plan.steps[id].leaves = leaves
	}
	return p, nil
}

// sharesElements reports whether the value of a node that the interpreter computes certainly has the elements of its
// argument in the same memory: the node only changes extents, or casts to f32 floats that kernels have in 32 bits
// already.
func (p *Program) sharesElements(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpReshape, ir.OpSqueeze, ir.OpUnsqueeze:
		return true
	case ir.OpTranspose:
		dims := p.dims[n.Arg(0).ID()]
		return dims != nil && inOrder(dims, n.Attrs().Ints("perm"))
	case ir.OpCast:
		from := n.Arg(0).DType()
		return n.DType() == ir.F32 && from.IsFloat() && !from.IsBlock() && from != ir.F64
	}
	return false
}

// computeConstants sets p.consts to the values of the constant nodes that runs read, in the forms that the backend's
// kernels take. isConst reports, by node ID, which nodes are constant.
func (p *Program) computeConstants(isConst []bool) error {
	g, live := p.graph, p.graph.Live()
	used := slices.DeleteFunc(g.Leaves(ir.OpWeight), func(n *ir.Node) bool { return !live[n.ID()] })
	weights, err := loadWeights(used, p.opt)
	if err != nil {
		return err
	}
	ctx := p.opt.Context
	if ctx == nil {
		ctx = context.Background()
	}
	var read []*ir.Node
	for i, n := range g.Nodes() {
		if isConst[i] && p.plan.uses[i] > 0 {
			read = append(read, n)
		}
	}
	if p.consts, err = evalConstants(ctx, g.Nodes(), read, weights, p.opt); err != nil || p.kernels == nil {
		return err
	}
	if err := mmap.Guard(p.decodeConstants); err != nil {
		return err
	}
	return p.packConstants(ctx, isConst)
}

// staticDims returns, by node ID, the extents of the nodes that depend on no symbol.
func staticDims(nodes []*ir.Node) ([][]int, error) {
	dims := make([][]int, len(nodes))
	for i, n := range nodes {
		if !n.Shape().IsStatic() {
			continue
		}
		var err error
		if dims[i], err = n.Shape().Eval(nil); err != nil {
			return nil, nodeError(n, err)
		}
	}
	return dims, nil
}

// constants reports, by node ID, which nodes depend only on weights, constants and fixed inputs, and on no symbol.
func constants(nodes []*ir.Node, fixed map[*ir.Node]value) []bool {
	is := make([]bool, len(nodes))
	for i, n := range nodes {
		_, is[i] = fixed[n]
		if is[i] {
			continue
		}
		is[i] = n.Op() != ir.OpInput && n.Op() != ir.OpState && needsNoSymbol(n) &&
			!slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return !is[a.ID()] })
	}
	return is
}

// needsNoSymbol reports whether a node, including the nodes of its bodies, can be computed without the value of a
// symbol.
func needsNoSymbol(n *ir.Node) bool {
	extents := n.Shape()
	switch n.Op() {
	case ir.OpDimValue:
		extents = n.Attrs().Shape("dim")
	case ir.OpLoop:
		extents = append(slices.Clone(extents), n.Attrs().Shape("trips")...)
	}
	return extents.IsStatic() && !slices.ContainsFunc(n.Bodies(), func(g *ir.Graph) bool {
		return slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool { return !needsNoSymbol(n) })
	})
}

// evalConstants computes the targets, which are constant, and returns the values of nodes by ID.
func evalConstants(ctx context.Context, all, targets []*ir.Node, weights map[*ir.Node]value,
	opt Options) ([]value, error) {
	plan := newPlan(all, targets, nil, func(*ir.Node) bool { return false })
	x := &exec{
		ctx: ctx, workers: opt.workers(), limit: opt.memoryLimit(),
		env: env{leaf: func(n *ir.Node) (value, error) {
			if v, ok := opt.fixed[n]; ok {
				return v, nil
			}
			return weights[n], nil
		}, bodies: newBodies(opt)},
		vals: make([]value, len(all)), uses: plan.uses, steps: plan.steps, narrow: true,
	}
	if err := x.run(plan.nodes); err != nil {
		return nil, err
	}
	return x.vals, nil
}

// Run computes the graph's outputs, by name, from its inputs, and then applies all state updates. After an error it
// applies none. symbols gives values of symbols by name, and may be nil if input shapes determine all of them (see
// ir.BindSymbols). Run stops soon after ctx ends and returns its error.
func (p *Program) Run(ctx context.Context, in map[string]*ir.Data,
	symbols map[string]int64) (map[string]*ir.Data, error) {
	return p.RunInto(ctx, in, symbols, nil)
}

// RunInto runs the program as Run does, and writes some outputs to memory of the caller: into has tensors for them, by
// output name, with the dtypes and dims of this run. After an error their content is undefined.
func (p *Program) RunInto(ctx context.Context, in map[string]*ir.Data, symbols map[string]int64,
	into map[string]*ir.Data) (map[string]*ir.Data, error) {
	bound, err := ir.BindInputs(p.graph, in, symbols)
	if err != nil {
		return nil, err
	}
	switch {
	// A run that updates states excludes all others, a run that reads them only the updating ones.
	case len(p.graph.Updates()) > 0:
		p.states.running.Lock()
		defer p.states.running.Unlock()
	case len(p.graph.Leaves(ir.OpState)) > 0:
		p.states.running.RLock()
		defer p.states.running.RUnlock()
	}
	inPlace := p.inPlace
	if p.states.areAliased() {
		inPlace = nil
	}
	x := p.recorder(p.workingMemory(), inPlace)
	disjoint := disjointOutputs(in, into)
	x.ctx, x.env = ctx, env{symbols: bound, leaf: p.leafOf(in, x.snapshot(p), disjoint), bodies: p.bodies}
	x.direct = p.direct
	// The outputs can be computed in the caller's memory, as this overwrites no input that is still needed.
	if disjoint {
		x.given = p.outputMemory(into)
	}
	out, err := p.results(x, into)
	if err != nil {
		x.undo.all()
		return nil, err
	}
	p.commit(x.vals)
	p.recycle(x)
	return out, nil
}

// workingMemory returns the working memory of a run, reused from an earlier run if possible.
func (p *Program) workingMemory() *exec {
	if x, ok := p.idle.Get().(*exec); ok {
		return x
	}
	return p.newWorkingMemory()
}

// newWorkingMemory returns new working memory of a run.
func (p *Program) newWorkingMemory() *exec {
	return &exec{workers: p.opt.workers(), limit: p.opt.memoryLimit(), poison: p.opt.Poison,
		vals: slices.Clone(p.consts), uses: slices.Clone(p.plan.uses), steps: p.plan.steps, kernels: p.kernels,
		packed: p.packed, formats: p.formats, dims: p.dims}
}

// recycle resets a run's working memory for reuse, and drops its references to the caller's tensors.
func (p *Program) recycle(x *exec) {
	recorded := x.recording
	x.recording = nil
	for _, u := range p.graph.Updates() { // these values moved to the states
		x.vals[u.Value.ID()] = p.consts[u.Value.ID()]
	}
	if r := x.repeat; r != nil {
		for _, id := range r.moved {
			x.forget(id)
		}
	} else {
		for _, n := range p.plan.nodes {
			x.forget(n.ID())
		}
		copy(x.uses, p.plan.uses)
	}
	if recorded != nil {
		x.calls = nil // the recording has them
		recorded.begin(x)
	}
	clear(x.args[:cap(x.args)])
	clear(x.before)
	x.call = call{}
	for _, c := range x.calls {
		c.forget()
	}
	x.undo.forget()
	x.ctx, x.env, x.live, x.inPlace, x.direct, x.given, x.made = nil, env{}, 0, nil, nil, nil, nil
	p.idle.Put(x)
}

// results runs the nodes and returns the outputs. It stores them in the tensors of into, if given.
func (p *Program) results(x *exec, into map[string]*ir.Data) (map[string]*ir.Data, error) {
	if err := x.run(p.plan.nodes); err != nil {
		return nil, err
	}
	out := make(map[string]*ir.Data, len(p.graph.Outputs()))
	for _, o := range p.graph.Outputs() {
		err := mmap.Guard(func() (err error) {
			out[o.Name], err = x.output(o.Node, into[o.Name])
			return err
		})
		if err != nil {
			return nil, nodeError(o.Node, err)
		}
	}
	return out, nil
}

// leafOf returns the function that reads inputs and states for a run. before has the values of the states from before
// the run. disjoint means that no output shares memory with an input, so that inputs need not be copied.
func (p *Program) leafOf(in map[string]*ir.Data, before []value, disjoint bool) func(n *ir.Node) (value, error) {
	return func(n *ir.Node) (value, error) {
		switch {
		case n.Op() == ir.OpState:
			return before[p.plan.steps[n.ID()].state], nil
		case !disjoint:
			return fromData(in[n.Name()])
		case p.formats.has(n):
			return stored(in[n.Name()])
		}
		return borrow(in[n.Name()])
	}
}
