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
	// Weights gives the graph's weights. It may be nil for a graph that has none.
	Weights ir.WeightSource

	// Workers bounds the goroutines that share an op; zero means one per core.
	// Results do not depend on it.
	Workers int

	// MemoryLimit bounds the bytes of values alive at once, at 8 bytes per
	// element, weights left out; zero means no limit but the host's. New and Run
	// end in an error where they need more than that, or than the machine, a control
	// group or ulimit leaves the process.
	MemoryLimit int64

	// Share is another program, whose weights this one takes where it is given
	// none, and whose states of equal names it reads and updates too.
	Share *Program

	// Replace, if set, is how a backend computes nodes of a graph itself, by node ID: nil leaves a node to
	// its definition here. Only nodes of floats that float32 holds may have a kernel. Values are then float32
	// between nodes, but for those of f64, and the promises about bits are those of the kernels.
	Replace func(g *ir.Graph) []*Kernel

	// Poison fills memory of kernels with NaN before they are given it, and as soon as no value lies there: for tests,
	// which see so what reads an element that nothing has set, or a value whose memory was given away.
	Poison bool

	// Context, if set, ends New early, which computes what depends on weights alone.
	Context context.Context
}

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

func (o Options) memoryLimit() int64 {
	if o.MemoryLimit > 0 {
		return o.MemoryLimit
	}
	return math.MaxInt64
}

// Program is a graph made ready to run: weights decoded and everything that
// depends on them alone computed, once. It may be used by several goroutines;
// runs of a graph that updates states happen one after the other.
type Program struct {
	*prepared
	idle   sync.Pool // of *exec, between runs
	states *states
}

// prepared is what programs have in common that differ in their states alone.
type prepared struct {
	graph   *ir.Graph
	opt     Options
	consts  []value // by node ID: the constants that runs use
	plan    plan
	kernels []*Kernel // by node ID: what Options.Replace gave; nil without it
	inPlace []bool    // by node ID: which may write their result over argument 0, a state
	dims    [][]int   // by node ID: the extents of results, where they depend on no symbol
	views   []bool    // by node ID: which may give a part of argument 0 without copying it
	direct  []bool    // by node ID: the outputs that kernels compute where the caller finds them
	bodies  *bodies
}

// states are what programs keep between runs.
type states struct {
	running sync.RWMutex // held during runs: for writing where they update states, for reading where they read them
	mu      sync.Mutex   // guards what follows
	values  map[string]value
	aliased bool // a program may leave two states on the same elements, so that none writes in place
}

// New prepares a graph. It returns an [*ir.WeightError], which names all of them, if
// weights are missing or differ from what the graph declares.
func New(g *ir.Graph, opt Options) (*Program, error) {
	if opt.Share != nil && opt.Weights == nil {
		opt.Weights = opt.Share.opt.Weights
	}
	p, err := prepare(g, opt)
	if err != nil {
		return nil, err
	}
	if err := p.firstStates(); err != nil {
		return nil, err
	}
	p.states.mu.Lock()
	defer p.states.mu.Unlock()
	p.states.aliased = p.states.aliased || p.inPlace == nil
	return p, nil
}

// prepare makes a program without states.
func prepare(g *ir.Graph, opt Options) (*Program, error) {
	p := &Program{prepared: &prepared{graph: g, opt: opt, bodies: newBodies(opt)},
		states: &states{values: map[string]value{}}}
	if opt.Replace != nil {
		p.kernels = opt.Replace(g)
	}
	live := g.Live()
	var targets []*ir.Node
	for _, o := range g.Outputs() {
		targets = append(targets, o.Node)
	}
	for _, u := range g.Updates() {
		targets = append(targets, u.Value)
	}
	isConst := constants(g.Nodes())
	known := func(n *ir.Node) bool { return isConst[n.ID()] }
	p.plan = newPlan(g.Nodes(), targets, p.kernels, known)
	var frontier []*ir.Node
	for i, n := range g.Nodes() {
		if isConst[i] && p.plan.uses[i] > 0 {
			frontier = append(frontier, n)
		}
	}
	used := slices.DeleteFunc(g.Leaves(ir.OpWeight), func(n *ir.Node) bool { return !live[n.ID()] })
	weights, err := loadWeights(used, opt)
	if err != nil {
		return nil, err
	}
	ctx := opt.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if p.consts, err = evalConstants(ctx, g.Nodes(), frontier, weights, opt); err != nil {
		return nil, err
	}
	if p.kernels != nil {
		if err := mmap.Guard(p.decodeConstants); err != nil {
			return nil, err
		}
	}
	p.inPlace, p.views, p.direct = p.planStates(), p.planViews(), p.planOutputs()
	p.dims = make([][]int, len(g.Nodes()))
	for i, n := range g.Nodes() {
		if n.Shape().IsStatic() {
			if p.dims[i], err = n.Shape().Eval(nil); err != nil {
				return nil, nodeError(n, err)
			}
		}
	}
	return p, nil
}

// constants reports, by node ID, which nodes depend on nothing but weights and
// constants.
func constants(nodes []*ir.Node) []bool {
	is := make([]bool, len(nodes))
	for i, n := range nodes {
		is[i] = n.Op() != ir.OpInput && n.Op() != ir.OpState && needsNoSymbol(n) &&
			!slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return !is[a.ID()] })
	}
	return is
}

// needsNoSymbol reports whether a node can be computed from its arguments without the value of a symbol, as can all
// nodes of its bodies.
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

// evalConstants computes constant nodes and returns their values by node ID.
func evalConstants(ctx context.Context, all, targets []*ir.Node, weights map[*ir.Node]value,
	opt Options) ([]value, error) {
	pl := newPlan(all, targets, nil, func(*ir.Node) bool { return false })
	x := &exec{
		ctx: ctx, workers: opt.workers(), limit: opt.memoryLimit(),
		env: env{leaf: func(n *ir.Node) (value, error) { return weights[n], nil },
			bodies: newBodies(opt)},
		vals: make([]value, len(all)), uses: pl.uses, narrow: true,
	}
	if err := x.run(pl.nodes); err != nil {
		return nil, err
	}
	return x.vals, nil
}

// Run computes the graph's outputs, by name, from its inputs, and then applies
// its state updates, all of them or, on an error, none. symbols gives values
// of symbols by name and may be nil where input shapes determine all of them
// (see ir.BindSymbols). It stops soon after ctx ends and returns its error.
func (p *Program) Run(ctx context.Context, in map[string]*ir.Data,
	symbols map[string]int64) (map[string]*ir.Data, error) {
	return p.RunInto(ctx, in, symbols, nil)
}

// RunInto is Run with memory for some outputs, by name, which must have their dtype and dims in this run. What it holds
// after an error is undefined.
func (p *Program) RunInto(ctx context.Context, in map[string]*ir.Data, symbols map[string]int64,
	into map[string]*ir.Data) (map[string]*ir.Data, error) {
	bound, err := ir.BindInputs(p.graph, in, symbols)
	if err != nil {
		return nil, err
	}
	switch {
	case len(p.graph.Updates()) > 0:
		p.states.running.Lock()
		defer p.states.running.Unlock()
	case len(p.graph.Leaves(ir.OpState)) > 0:
		p.states.running.RLock()
		defer p.states.running.RUnlock()
	}
	x := p.ready()
	apart := liesApart(in, into)
	x.ctx, x.env = ctx, env{symbols: bound, leaf: p.leafOf(in, apart), bodies: p.bodies}
	x.inPlace, x.direct = nil, p.direct
	if !p.states.areAliased() {
		x.inPlace = p.inPlace
	}
	if apart {
		x.made = p.given(into)
	}
	out, err := p.results(x, into)
	if err != nil {
		x.undo.all()
		return nil, err
	}
	p.commit(x.vals)
	p.rest(x)
	return out, nil
}

// ready returns what a run works with.
func (p *Program) ready() *exec {
	if x, ok := p.idle.Get().(*exec); ok {
		return x
	}
	return &exec{workers: p.opt.workers(), limit: p.opt.memoryLimit(), poison: p.opt.Poison,
		vals: slices.Clone(p.consts), uses: slices.Clone(p.plan.uses), kernels: p.kernels, views: p.views, dims: p.dims}
}

// rest makes what a run used ready for the next.
func (p *Program) rest(x *exec) {
	for _, u := range p.graph.Updates() { // what states hold has left
		x.vals[u.Value.ID()] = p.consts[u.Value.ID()]
	}
	for _, n := range p.plan.nodes {
		x.forget(n.ID())
	}
	copy(x.uses, p.plan.uses)
	clear(x.undo)
	clear(x.args[:cap(x.args)])
	clear(x.at.Args[:cap(x.at.Args)])
	x.call, x.at = call{}, Call{Args: x.at.Args[:0]}
	x.ctx, x.env, x.undo, x.live, x.direct, x.made = nil, env{}, x.undo[:0], 0, nil, nil
	p.idle.Put(x)
}

// results runs the nodes and returns the outputs, those in into where the caller wants them.
func (p *Program) results(x *exec, into map[string]*ir.Data) (map[string]*ir.Data, error) {
	if err := x.run(p.plan.nodes); err != nil {
		return nil, err
	}
	out := make(map[string]*ir.Data, len(p.graph.Outputs()))
	for _, o := range p.graph.Outputs() {
		err := mmap.Guard(func() (err error) {
			out[o.Name], err = x.take(o.Node, into[o.Name])
			return err
		})
		if err != nil {
			return nil, nodeError(o.Node, err)
		}
	}
	return out, nil
}

// leafOf returns how a run reads inputs, which it may take as they lie if nothing is written there, and states.
// All states are read as they are now, before the run.
func (p *Program) leafOf(in map[string]*ir.Data, apart bool) func(n *ir.Node) (value, error) {
	before := p.snapshot()
	return func(n *ir.Node) (value, error) {
		if n.Op() == ir.OpState {
			return before[n.Name()], nil
		}
		if apart {
			return lend(in[n.Name()])
		}
		return fromData(in[n.Name()])
	}
}
