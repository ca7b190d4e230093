package interp

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
)

func init() { // assigned here because bodies look up their nodes in the table
	kernels[ir.OpIf], kernels[ir.OpLoop], kernels[ir.OpResult] = branch, loop, result
}

// bodies caches the programs of control ops' bodies. A program is made when its body first runs.
type bodies struct {
	opt   Options
	fixed map[bodyKey]map[*ir.Node]value // the constants that bodies take as inputs
	mu    sync.Mutex
	made  map[bodyKey]*Program
}

// bodyKey is a body of a node.
type bodyKey struct {
	node *ir.Node
	body *ir.Graph
}

func newBodies(opt Options) *bodies {
	opt.Weights, opt.Share, opt.Context, opt.fixed = nil, nil, nil, nil
	return &bodies{opt: opt, fixed: map[bodyKey]map[*ir.Node]value{}, made: map[bodyKey]*Program{}}
}

// program returns the program of a node's body, and prepares it on the first call. ctx is the context of a run, because
// the context in Options was for New only and may be cancelled since. Other callers wait while a body is prepared.
func (b *bodies) program(ctx context.Context, n *ir.Node, g *ir.Graph) (*Program, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := bodyKey{n, g}
	if p := b.made[key]; p != nil {
		return p, nil
	}
	opt := b.opt
	opt.Context, opt.fixed = ctx, b.fixed[key]
	p, err := prepare(g, opt)
	if err == nil {
		b.made[key] = p
	}
	return p, err
}

// fixBodies finds the constants that bodies take as inputs. A body's program computes once what depends only on them,
// and packs them.
func (p *Program) fixBodies(isConst []bool) {
	for _, n := range p.plan.nodes {
		for _, g := range n.Bodies() {
			fixed := map[*ir.Node]value{}
			first := 1               // the argument that is the body's first input: after the condition of an if
			if n.Op() == ir.OpLoop { // after the initial values of the states
				first = len(g.Leaves(ir.OpState))
			}
			for i, leaf := range g.Leaves(ir.OpInput) {
				if a := n.Arg(first + i); isConst[a.ID()] && leaf.Shape().IsStatic() {
					fixed[leaf] = p.consts[a.ID()]
				}
			}
			p.bodies.fixed[bodyKey{n, g}] = fixed
		}
	}
}

// body runs p, the program of a control op's body, with the given values of its leaves. It returns the values of the
// nodes in results.
func (c *call) body(p *Program, leaves map[*ir.Node]value, results []*ir.Node) ([]value, error) {
	x := p.workingMemory()
	x.ctx, x.env = c.ctx, env{symbols: c.env.symbols, bodies: p.bodies,
		leaf: func(n *ir.Node) (value, error) { return leaves[n], nil }}
	x.inPlace, x.limit = p.inPlace, c.left
	if err := x.run(p.plan.nodes); err != nil {
		x.undo.all() // undoes the writes in place
		return nil, err
	}
	out := make([]value, len(results))
	for i, n := range results {
		var err error
		if out[i], err = x.vals[n.ID()].detached().decoded(); err != nil {
			return nil, err
		}
	}
	// The results leave the run, so x forgets them before recycle reuses the memory of its values. Constants stay.
	for _, n := range results {
		x.vals[n.ID()] = p.consts[n.ID()]
	}
	p.recycle(x)
	return out, nil
}

// assign sets the values of leaves, in declaration order.
func assign(leaves map[*ir.Node]value, list []*ir.Node, values []value) {
	for i, n := range list {
		leaves[n] = values[i]
	}
}

// combineResults combines several results into the value of a control op: the first, with the others in its field
// more. A result that is itself the value of a control op loses its own more.
func combineResults(results []value) value {
	for i := range results {
		results[i].more = nil
	}
	first := results[0]
	first.more = results[1:]
	return first
}

// branch computes op if: it runs the body that the condition selects.
func branch(c *call) (value, error) {
	name := "else"
	if c.args[0].first() != 0 {
		name = "then"
	}
	g := c.attrs().Graph(name)
	p, err := c.env.bodies.program(c.ctx, c.node, g)
	if err != nil {
		return value{}, err
	}
	leaves := map[*ir.Node]value{}
	// The first argument is the condition.
	assign(leaves, g.Leaves(ir.OpInput), c.args[1:])
	var nodes []*ir.Node
	for _, o := range g.Outputs() {
		nodes = append(nodes, o.Node)
	}
	results, err := c.body(p, leaves, nodes)
	if err != nil {
		return value{}, fmt.Errorf("%s: %w", name, err)
	}
	return combineResults(results), nil
}

// loop computes op loop: each trip runs the body with the carried values as its states.
func loop(c *call) (value, error) {
	g := c.attrs().Graph("body")
	p, err := c.env.bodies.program(c.ctx, c.node, g)
	if err != nil {
		return value{}, err
	}
	trips, err := c.attrs().Shape("trips")[0].Eval(c.env.symbols)
	if err != nil {
		return value{}, err
	}
	states, updates := g.Leaves(ir.OpState), g.Updates()
	carried := slices.Clone(c.args[:len(states)])
	leaves := map[*ir.Node]value{}
	assign(leaves, g.Leaves(ir.OpInput), c.args[len(states):])
	newValues, changed := make([]*ir.Node, len(updates)), make([]int, len(updates)) // changed indexes carried
	for i, u := range updates {
		newValues[i], changed[i] = u.Value, slices.Index(states, u.State)
		if p.inPlace.has(u.Value) { // the first trip would overwrite the loop's argument
			carried[changed[i]] = carried[changed[i]].clone()
		}
	}
	for trip := range trips {
		if err := c.ctx.Err(); err != nil {
			return value{}, err
		}
		if c.attrs().Bool("while") && carried[0].first() == 0 {
			break
		}
		assign(leaves, states, carried)
		next, err := c.body(p, leaves, newValues)
		if err != nil {
			return value{}, fmt.Errorf("trip %d: %w", trip, err)
		}
		for i, at := range changed {
			carried[at] = next[i]
		}
	}
	return combineResults(carried), nil
}

// result returns one of an op's results after the first.
func result(c *call) (value, error) { return c.args[0].more[c.attrs().Int("index")-1], nil }

// clone returns a deep copy.
func (v value) clone() value {
	v.f64, v.f32, v.i64, v.i32 = slices.Clone(v.f64), slices.Clone(v.f32), slices.Clone(v.i64), slices.Clone(v.i32)
	if v.block != nil {
		v.block = newBlocks(v.typ, slices.Clone(v.block.Bytes))
	}
	if v.small != nil {
		v.small = &Stored{DType: v.typ, Bytes: slices.Clone(v.small.Bytes)}
	}
	v.buf, v.more, v.lent = nil, nil, false
	return v
}
