package frontend

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// copyOf copies the nodes of a graph, and returns the copies by node ID. A node with a tensor in `given` is replaced by
// that tensor. Copies keep the gradient rules set by opaque.
func (b *Builder) copyOf(g *ir.Graph, given map[*ir.Node]Tensor) []Tensor {
	return b.copyNodes(g.Nodes(), given)
}

// copyNodes copies some nodes of a graph, and returns the copies in the order of nodes. A node may only read earlier
// nodes of the list, and nodes in `given`. A node with a tensor in `given` is replaced by that tensor. Copies keep the
// gradient rules set by opaque.
func (b *Builder) copyNodes(nodes []*ir.Node, given map[*ir.Node]Tensor) []Tensor {
	made := maps.Clone(given)
	if made == nil {
		made = map[*ir.Node]Tensor{}
	}
	mapped := func(args []Tensor) []Tensor {
		var out []Tensor // nil for nil
		for _, a := range args {
			out = append(out, made[a.node])
		}
		return out
	}
	list := make([]Tensor, len(nodes))
	for i, n := range nodes {
		if _, ok := given[n]; !ok {
			args := make([]Tensor, len(n.Args()))
			for j, a := range n.Args() {
				args[j] = made[a]
			}
			made[n] = b.add(n.Op(), args, n.Attrs()...)
		}
		list[i] = made[n]
	}
	// After all copies are made, because the rule of the first of several results names the others.
	for _, n := range nodes {
		if o, ok := b.opaques[n]; ok && given[n].IsZero() {
			b.opaques[made[n].node] = opaqueValue{mapped(o.args), o.rule, mapped(o.results)}
		}
	}
	return list
}

// gradOfIf is the gradient rule of an if: another if, in which each branch computes the gradients of the captured
// values.
func gradOfIf(c GradCall, want []bool) []Tensor {
	b, values := c.Result.b, c.Args[1:] // the captured values, in the order of each body's inputs
	wanted := indices(want[1:])
	branch := func(name string) func() []Tensor {
		g := c.Attrs.Graph(name)
		return func() []Tensor {
			body := b.current()
			given, params := map[*ir.Node]Tensor{}, make([]Tensor, len(wanted))
			for i, leaf := range g.Leaves(ir.OpInput) {
				given[leaf] = body.ownTensor("grad", i, values[i], values)
			}
			for i, v := range wanted {
				leaf := g.Leaves(ir.OpInput)[v]
				params[i] = given[leaf].freshCopy()
				given[leaf] = params[i]
			}
			from := len(body.graph.Nodes()) // the pullback visits the copies only
			made := body.copyOf(g, given)
			var results, cotangents []Tensor
			for i, o := range g.Outputs() {
				if !c.grads[i].IsZero() {
					results = append(results, made[o.Node.ID()])
					cotangents = append(cotangents, body.ownTensor("grad", i, c.grads[i], c.grads))
				}
			}
			grads := newPullback(body, from, params).run(results, cotangents)
			for i, d := range grads {
				if d.IsZero() {
					d = body.zeros(params[i].node.Type())
				}
				grads[i] = d.as(params[i])
			}
			return grads
		}
	}
	out := make([]Tensor, len(c.Args))
	for i, d := range b.If(c.Args[0], branch("then"), branch("else")) {
		out[1+wanted[i]] = d
	}
	return out
}

// loopGrad builds the gradient of a loop. A first loop repeats the original loop, and stores the states at the start of
// each trip if gradients read them. A second loop then visits the trips from last to first (Werbos 1990).
type loopGrad struct {
	GradCall
	b              *Builder
	body           *ir.Graph
	trips          ir.Dim // the number of trips, or with a condition the largest number
	while          bool   // the loop has a condition
	states         []*ir.Node
	inputs         []*ir.Node
	next           map[*ir.Node]*ir.Node // by state: the value in the next trip
	statesWithGrad []int                 // indices of the states with gradients
	wanted         []int                 // indices of the inputs with wanted gradients
}

// gradOfLoop is the gradient rule of a loop; see loopGrad.
func gradOfLoop(c GradCall, want []bool) []Tensor {
	l := &loopGrad{GradCall: c, b: c.Result.b, body: c.Attrs.Graph("body"), trips: c.Attrs.Shape("trips")[0],
		while: c.Attrs.Bool("while"), next: map[*ir.Node]*ir.Node{}}
	l.states, l.inputs = l.body.Leaves(ir.OpState), l.body.Leaves(ir.OpInput)
	for _, u := range l.body.Updates() {
		l.next[u.State] = u.Value
	}
	l.findStatesWithGrad(want)
	l.wanted = indices(want[len(l.states):])

	out := make([]Tensor, len(c.Args))
	if l.trips.Is(0) { // the results are the first states, and do not depend on the inputs
		copy(out, c.grads)
		for _, i := range l.wanted {
			out[len(l.states)+i] = c.Args[len(l.states)+i].zeros()
		}
		return out
	}
	// Run the loop again, to store the states that the gradients read.
	count, stacks := l.storeStates(l.readStates())
	var ran Tensor // of a while loop: whether it made a trip
	if l.while {
		ran = count.Gt(count.Lit(0))
	}
	// A second loop goes through the trips from the last to the first.
	r := l.b.loop("grad")
	defer r.outer.endBody()
	at := l.countDown(r, ran, count)
	counters := len(r.first) // the states that countDown has declared
	cotangents := make([]Tensor, len(l.statesWithGrad))
	for k, i := range l.statesWithGrad {
		cotangents[k] = r.stateOf(c.grads[i], l.states[i].DType(), l.states[i].Shape())
	}
	sums := make([]Tensor, len(l.wanted))
	for k, i := range l.wanted { // in at least f32, because many terms are summed
		sums[k] = r.stateOf(Tensor{}, widest(l.inputs[i].DType()), l.inputs[i].Shape())
	}
	begun := make([]Tensor, len(l.states)) // the states at the start of trip number `at`
	for i := range l.states {
		if stack, ok := stacks[i]; ok {
			begun[i] = stack.IndexSelect(0, at.Reshape(1)).Squeeze(0)
		}
	}
	grads, parts := l.trip(r.body, begun, cotangents)
	for k, d := range grads {
		r.update(cotangents[k], d)
	}
	for k, d := range parts {
		if !d.IsZero() {
			r.update(sums[k], sums[k].addGrad(d))
		}
	}
	all := r.end(l.trips, l.while)[counters:]
	// Its last states are the gradients: of the loop's first states, and of the inputs.
	for k, i := range l.statesWithGrad {
		out[i] = all[k]
	}
	for k, i := range l.wanted {
		out[len(l.states)+i] = all[len(l.statesWithGrad)+k]
	}
	return out
}

// countDown declares the states with which the reverse loop r counts, and returns the number of the original loop's
// trip that r differentiates: first the last trip. The original loop made `count` trips if it has a condition, and
// otherwise l.trips. ran is the condition of the first trip of r.
func (l *loopGrad) countDown(r *loopBuilder, ran, count Tensor) Tensor {
	if !l.while {
		i := r.counter()
		return r.body.DimValue(l.trips).Sub(i.AddScalar(1))
	}
	goes, left := r.state(ran), r.state(count)
	r.update(goes, left.Gt(left.Lit(1)))
	at := left.SubScalar(1)
	r.update(left, at)
	return at
}

// findStatesWithGrad finds the states that depend, in any trip, on a value with a wanted gradient, and lists their
// indices in statesWithGrad. Only these states have gradients.
func (l *loopGrad) findStatesWithGrad(want []bool) {
	p := &pullback{b: l.b, active: make([]bool, len(l.body.Nodes()))}
	for i, leaf := range slices.Concat(l.states, l.inputs) {
		p.active[leaf.ID()] = want[i]
	}
	// A state may depend on another state of the trip before, so repeat until nothing changes.
	for changed := true; changed; {
		changed = false
		p.markActive(l.body.Nodes())
		for _, s := range l.states {
			if v := l.next[s]; v != nil && p.active[v.ID()] && !p.active[s.ID()] {
				p.active[s.ID()], changed = true, true
			}
		}
	}
	for i, s := range l.states {
		if p.active[s.ID()] {
			l.statesWithGrad = append(l.statesWithGrad, i)
		}
	}
}

// trip adds the computation of one trip to a body, and the computation of its gradients. begun has the states at the
// start of the trip, and the zero Tensor for zeros. cotangents has the gradients of the states in statesWithGrad after
// the trip. trip returns the gradients of these states before the trip, and of the wanted inputs: the zero Tensor for
// an input without a gradient.
func (l *loopGrad) trip(body *Builder, begun, cotangents []Tensor) (states, inputs []Tensor) {
	given := map[*ir.Node]Tensor{}
	values := l.Args[len(l.states):]
	for i, leaf := range l.inputs {
		given[leaf] = body.ownTensor("grad", i, values[i], values)
	}
	for i, s := range l.states {
		given[s] = begun[i]
		if begun[i].IsZero() {
			given[s] = body.zeros(s.Type())
		}
	}
	var params []Tensor
	withGrad := func(leaf *ir.Node) { // a copy, because the same tensor may be given for several leaves
		given[leaf] = given[leaf].freshCopy()
		params = append(params, given[leaf])
	}
	for _, i := range l.statesWithGrad {
		withGrad(l.states[i])
	}
	for _, i := range l.wanted {
		withGrad(l.inputs[i])
	}
	from := len(body.graph.Nodes())
	made := body.copyOf(l.body, given)
	results := make([]Tensor, len(l.statesWithGrad))
	for k, i := range l.statesWithGrad {
		results[k] = given[l.states[i]]
		if v := l.next[l.states[i]]; v != nil {
			results[k] = made[v.ID()]
		}
	}
	grads := newPullback(body, from, params).run(results, cotangents)
	for k := range l.statesWithGrad {
		if grads[k].IsZero() {
			grads[k] = body.zeros(params[k].node.Type())
		}
		grads[k] = grads[k].as(params[k])
	}
	return grads[:len(l.statesWithGrad)], grads[len(l.statesWithGrad):]
}

// readStates returns the indices of the states that the gradients of a trip read. It builds the gradients in a body,
// and discards the body.
func (l *loopGrad) readStates() []int {
	body := l.b.current().beginBody("grad")
	defer body.outer.endBody()
	leaf := func(i int, s *ir.Node) Tensor {
		name := body.unusedName(Tensor{}, "begun", i)
		return body.addHere(ir.OpInput, nil, attr("name", name), attr("dtype", s.DType()),
			attr("shape", s.Shape()))
	}
	begun := make([]Tensor, len(l.states))
	for i, s := range l.states {
		begun[i] = leaf(i, s)
	}
	cotangents := make([]Tensor, len(l.statesWithGrad))
	for k, i := range l.statesWithGrad {
		cotangents[k] = leaf(len(begun)+k, l.states[i])
	}
	states, inputs := l.trip(body, begun, cotangents)
	reads := make([]bool, len(body.graph.Nodes()))
	for _, t := range slices.Concat(states, inputs) {
		if !t.IsZero() {
			reads[t.node.ID()] = true
		}
	}
	// Mark everything that the gradients depend on: users come before their operands.
	for id := len(reads) - 1; id >= 0; id-- {
		for _, a := range body.graph.Nodes()[id].Args() {
			reads[a.ID()] = reads[a.ID()] || reads[id]
		}
	}
	var list []int
	for i, t := range begun {
		if reads[t.node.ID()] {
			list = append(list, i)
		}
	}
	return list
}

// storeStates repeats the loop, and stores the states with indices in `read`. It returns the number of trips and, by
// index of the state, a stack of the state's values at the start of each trip. If the loop has no condition, and
// nothing is to be stored, it returns nothing.
func (l *loopGrad) storeStates(read []int) (count Tensor, stacks map[int]Tensor) {
	for _, i := range read {
		s := l.states[i]
		if n, each := l.trips.Max(), s.Shape().MaxElems(); each > 0 && n > maxKept/each {
			fail("grad", fmt.Errorf("the loop may make %d trips, and its gradient keeps the values at the beginning "+
				"of each, %s: more than %d elements. Give it a smaller bound", n, s.Type(), int64(maxKept)), l.Result)
		}
	}
	if len(read) == 0 && !l.while {
		return Tensor{}, nil
	}
	f := l.b.loop("grad")
	defer f.outer.endBody()
	given := map[*ir.Node]Tensor{}
	for i, s := range l.states {
		given[s] = f.state(l.Args[i])
	}
	values := l.Args[len(l.states):]
	for i, leaf := range l.inputs {
		given[leaf] = f.body.ownTensor("grad", i, values[i], values)
	}
	at := f.counter()
	made := f.body.copyOf(l.body, given)
	for s, v := range l.next {
		f.update(given[s], made[v.ID()])
	}
	kept := make([]Tensor, len(read))
	for k, i := range read {
		kept[k] = given[l.states[i]]
	}
	f.stack(l.trips, at, kept)
	all := f.end(l.trips, l.while)[len(l.states):] // without the states' last values
	stacks = map[int]Tensor{}
	for k, i := range read {
		stacks[i] = all[1+k]
	}
	return all[0], stacks
}

// maxKept is the largest number of elements of a stack of states.
const maxKept = 1<<32 - 1

// addGrad returns t+d, the sum of two gradients. If d is an index_add to zeros, as the gradient of a gather is, it adds
// the slices to t instead.
func (t Tensor) addGrad(d Tensor) Tensor {
	n := d.node
	if n.Op() == ir.OpIndexAdd && d.DType() == t.DType() && isZeros(n.Arg(0)) {
		return t.apply(ir.OpIndexAdd, []Tensor{{d.b, n.Arg(1)}, {d.b, n.Arg(2)}}, n.Attrs()...)
	}
	return t.Add(d.to(t.DType()))
}

// isZeros reports whether a node is a broadcast of the constant 0.
func isZeros(n *ir.Node) bool {
	if n.Op() != ir.OpBroadcast || n.Arg(0).Op() != ir.OpConst {
		return false
	}
	list, err := n.Arg(0).Attrs().Data("data").Floats()
	return err == nil && len(list) == 1 && list[0] == 0
}

// freshCopy returns a new node with the value of t, so that the two have separate gradients.
func (t Tensor) freshCopy() Tensor {
	return t.b.add(ir.OpReshape, []Tensor{t}, attr("shape", t.Shape()))
}

// widest returns the dtype in which sums of a float dtype accumulate: f64 for f64, else f32.
func widest(d ir.DType) ir.DType {
	if d == ir.F64 {
		return d
	}
	return ir.F32
}

// indices lists the indices of true elements.
func indices(list []bool) []int {
	var at []int
	for i, is := range list {
		if is {
			at = append(at, i)
		}
	}
	return at
}

// init adds the gradient rules of branches and loops.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpIf:   gradOfIf,
		ir.OpLoop: gradOfLoop,
		// The rule of the if or loop takes the gradients of all its results together.
		ir.OpResult: func(GradCall, []bool) []Tensor { return nil },
	})
}
