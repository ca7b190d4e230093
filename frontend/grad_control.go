package frontend

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// copyOf adds the nodes of a graph, with given in place of some, and returns them by ID. What gradients see in place of
// a node they see in place of its copy.
func (b *Builder) copyOf(g *ir.Graph, given map[*ir.Node]Tensor) []Tensor {
	return b.copyNodes(g.Nodes(), given)
}

// copyNodes is copyOf for some nodes of a graph, which read no others but those that are given.
func (b *Builder) copyNodes(nodes []*ir.Node, given map[*ir.Node]Tensor) []Tensor {
	made := map[*ir.Node]Tensor{}
	maps.Copy(made, given)
	mapped := func(args []Tensor) []Tensor {
		var out []Tensor // nil of nil
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
	for _, n := range nodes { // once all are made, since the first result of several names the others
		if o, ok := b.opaques[n]; ok && given[n].IsZero() {
			b.opaques[made[n].node] = opaqueValue{mapped(o.args), o.rule, mapped(o.results)}
		}
	}
	return list
}

// gradOfIf is an if as well: each branch computes the gradients of its values.
func gradOfIf(c GradCall, want []bool) []Tensor {
	b, values := c.Result.b, c.Args[1:]
	wanted := indices(want[1:])
	branch := func(name string) func() []Tensor {
		g := c.Attrs.Graph(name)
		return func() []Tensor {
			body := b.current()
			given, params := map[*ir.Node]Tensor{}, make([]Tensor, len(wanted))
			for i, leaf := range g.Leaves(ir.OpInput) {
				given[leaf] = body.own("grad", i, values[i], values)
			}
			for i, v := range wanted {
				leaf := g.Leaves(ir.OpInput)[v]
				params[i] = given[leaf].itself()
				given[leaf] = params[i]
			}
			from := len(body.graph.Nodes())
			made := body.copyOf(g, given)
			var results, cotangents []Tensor
			for i, o := range g.Outputs() {
				if !c.grads[i].IsZero() {
					results = append(results, made[o.Node.ID()])
					cotangents = append(cotangents, body.own("grad", i, c.grads[i], c.grads))
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

// loopGrad is the gradient of a loop: the loop runs once more and keeps what its trips began with, as far as gradients
// read it; another loop goes over the trips from the last to the first (Werbos 1990).
type loopGrad struct {
	GradCall
	b      *Builder
	body   *ir.Graph
	trips  ir.Dim
	while  bool
	states []*ir.Node
	inputs []*ir.Node
	next   map[*ir.Node]*ir.Node // by state
	moving []int                 // the states that have gradients
	wanted []int                 // the inputs of which gradients are wanted
}

func gradOfLoop(c GradCall, want []bool) []Tensor {
	l := &loopGrad{GradCall: c, b: c.Result.b, body: c.Attrs.Graph("body"), trips: c.Attrs.Shape("trips")[0],
		while: c.Attrs.Bool("while"), next: map[*ir.Node]*ir.Node{}}
	l.states, l.inputs = l.body.Leaves(ir.OpState), l.body.Leaves(ir.OpInput)
	for _, u := range l.body.Updates() {
		l.next[u.State] = u.Value
	}
	l.findMoving(want)
	l.wanted = indices(want[len(l.states):])

	out := make([]Tensor, len(c.Args))
	if l.trips.Is(0) {
		copy(out, c.grads)
		return out
	}
	count, stacks := l.keep(l.readStates())
	var some Tensor
	if l.while {
		some = count.Gt(count.Lit(0))
	}
	r := l.b.loop("grad")
	defer r.outer.leave()
	var ends []Tensor // the reverse loop's own condition
	var at Tensor
	if l.while {
		goes, left := r.state(some), r.state(count)
		r.update(goes, left.Gt(left.Lit(1)))
		at = left.SubScalar(1)
		r.update(left, at)
		ends = []Tensor{goes, left}
	} else {
		i := r.counter()
		at = r.body.DimValue(l.trips).Sub(i.AddScalar(1))
		ends = []Tensor{i}
	}
	cotangents := make([]Tensor, len(l.moving))
	for k, i := range l.moving {
		cotangents[k] = r.stateOf(c.grads[i], l.states[i].DType(), l.states[i].Shape())
	}
	sums := make([]Tensor, len(l.wanted))
	for k, i := range l.wanted { // in f32 at least, since so many terms are added up
		sums[k] = r.stateOf(Tensor{}, widest(l.inputs[i].DType()), l.inputs[i].Shape())
	}
	begun := make([]Tensor, len(l.states))
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
			r.update(sums[k], sums[k].plus(d))
		}
	}
	all := r.end(l.trips, l.while)[len(ends):]
	for k, i := range l.moving {
		out[i] = all[k]
	}
	for k, i := range l.wanted {
		out[len(l.states)+i] = all[len(l.moving)+k]
	}
	return out
}

// findMoving finds the states that are computed from what a gradient is wanted of, in any trip.
func (l *loopGrad) findMoving(want []bool) {
	p := &pullback{b: l.b, active: make([]bool, len(l.body.Nodes()))}
	for i, leaf := range slices.Concat(l.states, l.inputs) {
		p.active[leaf.ID()] = want[i]
	}
	for changed := true; changed; {
		changed = false
		p.spread(l.body.Nodes())
		for _, s := range l.states {
			if v := l.next[s]; v != nil && p.active[v.ID()] && !p.active[s.ID()] {
				p.active[s.ID()], changed = true, true
			}
		}
	}
	for i, s := range l.states {
		if p.active[s.ID()] {
			l.moving = append(l.moving, i)
		}
	}
}

// trip adds what a trip computes to a body, of what it begins with, and returns the gradients of the moving states and
// of the wanted inputs; the zero Tensor for an input without one. A state that nothing is given for is zeros.
func (l *loopGrad) trip(body *Builder, begun, cotangents []Tensor) (states, inputs []Tensor) {
	given := map[*ir.Node]Tensor{}
	values := l.Args[len(l.states):]
	for i, leaf := range l.inputs {
		given[leaf] = body.own("grad", i, values[i], values)
	}
	for i, s := range l.states {
		if given[s] = begun[i]; begun[i].IsZero() {
			given[s] = body.zeros(s.Type())
		}
	}
	var params []Tensor
	own := func(leaf *ir.Node) { // so that each has a gradient of its own
		given[leaf] = given[leaf].itself()
		params = append(params, given[leaf])
	}
	for _, i := range l.moving {
		own(l.states[i])
	}
	for _, i := range l.wanted {
		own(l.inputs[i])
	}
	from := len(body.graph.Nodes())
	made := body.copyOf(l.body, given)
	results := make([]Tensor, len(l.moving))
	for k, i := range l.moving {
		results[k] = given[l.states[i]]
		if v := l.next[l.states[i]]; v != nil {
			results[k] = made[v.ID()]
		}
	}
	grads := newPullback(body, from, params).run(results, cotangents)
	for k := range l.moving {
		if grads[k].IsZero() {
			grads[k] = body.zeros(params[k].node.Type())
		}
		grads[k] = grads[k].as(params[k])
	}
	return grads[:len(l.moving)], grads[len(l.moving):]
}

// readStates finds the states whose values a trip's gradients read, by building them in a body that is thrown away.
func (l *loopGrad) readStates() []int {
	body := l.b.current().body("grad")
	defer body.outer.leave()
	leaf := func(i int, s *ir.Node) Tensor {
		return body.addHere(ir.OpInput, nil, attr("name", fmt.Sprintf("begun%d", i)), attr("dtype", s.DType()),
			attr("shape", s.Shape()))
	}
	begun := make([]Tensor, len(l.states))
	for i, s := range l.states {
		begun[i] = leaf(i, s)
	}
	cotangents := make([]Tensor, len(l.moving))
	for k, i := range l.moving {
		cotangents[k] = leaf(len(begun)+k, l.states[i])
	}
	states, inputs := l.trip(body, begun, cotangents)
	reads := make([]bool, len(body.graph.Nodes()))
	for _, t := range slices.Concat(states, inputs) {
		if !t.IsZero() {
			reads[t.node.ID()] = true
		}
	}
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

// keep runs the loop once more and returns how many trips it made, and by state what each of them began with.
func (l *loopGrad) keep(read []int) (count Tensor, stacks map[int]Tensor) {
	for _, i := range read {
		s := l.states[i]
		if n, each := l.trips.Max(), s.Shape().MaxElems(); each > 0 && n > maxKept/each {
			fail("grad", fmt.Errorf("the loop may make %d trips, and its gradient reads what each of them began with, "+
				"%s: more than %d elements. Give it a smaller bound", n, s.Type(), int64(maxKept)), l.Result)
		}
	}
	if len(read) == 0 && !l.while {
		return Tensor{}, nil
	}
	f := l.b.loop("grad")
	defer f.outer.leave()
	given := map[*ir.Node]Tensor{}
	for i, s := range l.states {
		given[s] = f.state(l.Args[i])
	}
	values := l.Args[len(l.states):]
	for i, leaf := range l.inputs {
		given[leaf] = f.body.own("grad", i, values[i], values)
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
	all := f.end(l.trips, l.while)[len(l.states):]
	stacks = map[int]Tensor{}
	for k, i := range read {
		stacks[i] = all[1+k]
	}
	return all[0], stacks
}

// maxKept is how many elements a tensor has at most.
const maxKept = 1<<32 - 1

// plus adds a gradient. Where it is a sum into zeros, as that of a slice is, only what it has is touched.
func (t Tensor) plus(d Tensor) Tensor {
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

// itself is t as a value of its own.
func (t Tensor) itself() Tensor { return t.b.add(ir.OpReshape, []Tensor{t}, attr("shape", t.Shape())) }

// widest is the dtype that sums of a float are added up in.
func widest(d ir.DType) ir.DType {
	if d == ir.F64 {
		return d
	}
	return ir.F32
}

// indices are those of true.
func indices(list []bool) []int {
	var at []int
	for i, is := range list {
		if is {
			at = append(at, i)
		}
	}
	return at
}

func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpIf:   gradOfIf,
		ir.OpLoop: gradOfLoop,
		// All results' gradients are taken at once, by the rule of what they are results of.
		ir.OpResult: func(GradCall, []bool) []Tensor { return nil },
	})
}
