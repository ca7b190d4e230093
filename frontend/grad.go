package frontend

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
)

// Grad returns the gradient of a loss, a scalar of a float dtype, with respect to each of the params: float tensors
// that the loss is computed from. A gradient has the type of its param. Gradients are tensors like any other, so the
// gradient of a gradient gives second derivatives.
//
// It is an error if the loss does not depend on a param, because training it would do nothing. If an op without a
// gradient breaks the dependency, the error names the op; docs/OPS.md lists the ops with gradients.
func Grad(loss Tensor, params ...Tensor) []Tensor {
	loss.must("grad")
	if loss.Rank() != 0 {
		fail("grad", fmt.Errorf("the loss is %s, want a scalar: take its Sum or Mean, or use VJP", loss), loss)
	}
	return VJP([]Tensor{loss}, []Tensor{loss.seed()}, params...)
}

// seed returns the gradient of a loss with respect to itself, which is 1.
func (t Tensor) seed() Tensor {
	if !t.DType().IsFloat() {
		fail("grad", fmt.Errorf("the loss is %s, which has no gradient: want a float", t), t)
	}
	return t.Lit(1)
}

// VJP returns, for each of the params, the vector-Jacobian product of the results: the gradient of
// sum(results[i]*cotangents[i]). Each cotangent has its result's type.
func VJP(results, cotangents []Tensor, params ...Tensor) []Tensor {
	const op = "vjp"
	if len(results) == 0 || len(results) != len(cotangents) {
		panic(fmt.Sprintf("frontend: VJP of %d results with %d cotangents: want one per result, and at least one",
			len(results), len(cotangents)))
	}
	b := results[0].Builder()
	b.checkArgs(op, results...)
	b.checkArgs(op, cotangents...)
	b.checkArgs(op, params...)
	for i, y := range results {
		if !y.DType().IsFloat() || !y.node.Type().Equal(cotangents[i].node.Type()) {
			fail(op, fmt.Errorf("result %d is %s and its cotangent %s: want the same float type", i, y, cotangents[i]),
				y, cotangents[i])
		}
	}
	p := newPullback(b, 0, params)
	grads := p.run(results, cotangents)
	for i, g := range grads {
		if g.IsZero() {
			fail("grad", fmt.Errorf("there is no gradient for param %d, %s: %s", i, params[i],
				p.explainMissing(results, params[i])), results...)
		}
	}
	return grads
}

// StopGradient returns t, but Grad treats the result as a constant.
func (t Tensor) StopGradient() Tensor {
	t.must("stop_gradient")
	same := t.Reshape(t.Shape())
	t.b.opaque(same, nil, func(GradCall, []bool) []Tensor { return nil })
	return same
}

// GradCall describes a node with a known gradient to the node's gradient rule.
type GradCall struct {
	Args   []Tensor // the op's operands
	Attrs  ir.Attrs // its attributes
	Result Tensor   // its result, the one at Output if a custom kernel has several
	Output int
	Grad   Tensor // the gradient of the loss with respect to Result, of its type

	grads []Tensor // for a control op or Remat: the gradients of all its results; the zero Tensor if one has none
}

// RegisterGrad sets the gradient rule of a custom op. Call it once, where the program registers the op. rule returns
// the gradient of the loss with respect to each operand, or the zero Tensor for none. The gradient of a broadcast
// operand may have the result's shape; it is then summed. For an op with several results, rule is called for each
// result with a gradient. It may be called from several goroutines.
func RegisterGrad(op ir.Op, rule func(c GradCall) []Tensor) {
	if op.Info().Custom == nil {
		panic(fmt.Sprintf("frontend: RegisterGrad of %s, which is not a custom op: vkc has the gradients of its own "+
			"ops", op))
	}
	customGrads.Store(op, gradRule(func(c GradCall, _ []bool) []Tensor { return rule(c) }))
}

var customGrads sync.Map // of gradRule, by ir.Op

// gradRule returns the gradients of a call's operands, or the zero Tensor for an operand without a gradient. It may
// leave out the gradient of operand i if want[i] is false. The caller casts the gradients, and sums them over broadcast
// axes.
type gradRule func(c GradCall, want []bool) []Tensor

// gradRules has the gradient rule of each op with a gradient. Init functions fill it, because rules call functions that
// read it.
var gradRules = map[ir.Op]gradRule{}

// gradRows adds rules to gradRules.
func gradRows(rows map[ir.Op]gradRule) {
	for op, r := range rows {
		gradRules[op] = r
	}
}

// each returns a rule that calls f for each wanted operand i.
func each(f func(c GradCall, i int) Tensor) gradRule {
	return func(c GradCall, want []bool) []Tensor {
		out := make([]Tensor, len(c.Args))
		for i, w := range want {
			if w {
				out[i] = f(c, i)
			}
		}
		return out
	}
}

// first returns a rule for ops with a gradient for their first operand alone, which f returns.
func first(f func(c GradCall) Tensor) gradRule {
	return func(c GradCall, want []bool) []Tensor {
		if !want[0] {
			return nil
		}
		return []Tensor{f(c)}
	}
}

// definedBy returns a rule that differentiates f, which builds the op's result from other ops.
func definedBy(f func(c GradCall) Tensor) gradRule {
	return func(c GradCall, want []bool) []Tensor {
		b := c.Grad.b
		c.Args = slices.Clone(c.Args)
		var params []Tensor
		for i, w := range want {
			if w { // a copy, because a tensor may be several operands, each with a gradient of its own
				c.Args[i] = c.Args[i].freshCopy()
				params = append(params, c.Args[i])
			}
		}
		from := len(b.graph.Nodes()) // f's nodes come after these, and only they are differentiated
		y := f(c)
		grads := newPullback(b, from, params).run([]Tensor{y}, []Tensor{c.Grad.as(y)})
		out := make([]Tensor, len(c.Args))
		for i, w := range want {
			if w {
				out[i], grads = grads[0], grads[1:]
			}
		}
		return out
	}
}

// opaque overrides the gradient rule of t's node: gradients go to args by rule, instead of to the node's operands by
// the op's rule.
func (b *Builder) opaque(t Tensor, args []Tensor, rule gradRule) {
	b.opaques[t.node] = opaqueValue{args: args, rule: rule}
}

// opaqueValue is the overriding rule of a node, see opaque.
type opaqueValue struct {
	args []Tensor
	rule gradRule
	// results, if not nil, are several results with a common rule. It gets the gradients of all of them, in
	// GradCall.grads. The node is the first of the results.
	results []Tensor
}

// pullback propagates gradients from results back to params, through the nodes with an ID of at least `from`.
type pullback struct {
	b      *Builder
	from   int
	params []Tensor
	active []bool // by node ID: gradients pass through the node, because it is a param or depends on one by floats
}

// newPullback returns a pullback to params through the nodes with an ID of at least `from`.
func newPullback(b *Builder, from int, params []Tensor) *pullback {
	nodes := b.graph.Nodes()
	p := &pullback{b: b, from: from, params: params, active: make([]bool, len(nodes))}
	for _, t := range params {
		p.active[t.node.ID()] = t.DType().IsFloat()
	}
	p.markActive(nodes[from:])
	return p
}

// markActive marks nodes as active if they have a gradient and an active operand.
func (p *pullback) markActive(nodes []*ir.Node) {
	for _, n := range nodes {
		if !n.DType().IsFloat() && ir.Results(n) == nil || n.Op().Info().NoGrad != "" {
			continue
		}
		for _, a := range p.operands(n) {
			p.active[n.ID()] = p.active[n.ID()] || p.active[a.node.ID()]
		}
	}
}

// operands returns the tensors that a node's gradient propagates to.
func (p *pullback) operands(n *ir.Node) []Tensor {
	if o, ok := p.b.opaques[n]; ok {
		return o.args
	}
	args := make([]Tensor, len(n.Args()))
	for i, a := range n.Args() {
		args[i] = Tensor{p.b, a}
	}
	return args
}

// run returns the gradient of each param, or the zero Tensor if no path leads from a result to it. cotangents has the
// gradients of results.
func (p *pullback) run(results, cotangents []Tensor) []Tensor {
	grads := make([]Tensor, len(p.active)) // by node ID
	for i, y := range results {
		grads[y.node.ID()] = sumOf(grads[y.node.ID()], cotangents[i])
	}
	// A node's users have larger IDs. So in descending order, a node's gradient is complete when it is propagated.
	for id := len(p.active) - 1; id >= p.from; id-- {
		n := p.b.graph.Nodes()[id]
		if p.active[id] && (p.takesAllResults(n) || !grads[id].IsZero()) {
			p.propagate(n, grads)
		}
	}
	out := make([]Tensor, len(p.params))
	for i, t := range p.params {
		out[i] = grads[t.node.ID()]
	}
	return out
}

// propagate adds a node's gradient to the gradients of its operands. grads has the gradient of each node, by ID.
func (p *pullback) propagate(n *ir.Node, grads []Tensor) {
	args := p.operands(n)
	want, some := make([]bool, len(args)), false
	for i, a := range args {
		want[i] = p.active[a.node.ID()] && a.DType().IsFloat()
		some = some || want[i]
	}
	if !some {
		return // n is a param that depends on no other param
	}
	c := GradCall{Args: args, Attrs: n.Attrs(), Result: Tensor{p.b, n}, Output: ir.OutputIndex(n), Grad: grads[n.ID()]}
	if p.takesAllResults(n) {
		c.grads = p.resultGrads(n, grads)
		if !slices.ContainsFunc(c.grads, func(g Tensor) bool { return !g.IsZero() }) {
			return
		}
	}
	for i, g := range p.rule(n)(c, want) {
		if want[i] && !g.IsZero() {
			id := args[i].node.ID()
			grads[id] = sumOf(grads[id], g.sumTo(args[i].Shape()).as(args[i]))
		}
	}
}

// takesAllResults reports whether the rule of n takes the gradients of several results together. n is the first of
// these results, so run reaches it last.
func (p *pullback) takesAllResults(n *ir.Node) bool {
	if o, ok := p.b.opaques[n]; ok {
		return o.results != nil
	}
	return ir.Results(n) != nil
}

// resultGrads returns the gradients of all results of node n, for which takesAllResults is true. grads is by node ID.
func (p *pullback) resultGrads(n *ir.Node, grads []Tensor) []Tensor {
	if o, ok := p.b.opaques[n]; ok {
		list := make([]Tensor, len(o.results))
		for i, y := range o.results {
			list[i] = grads[y.node.ID()]
		}
		return list
	}
	list := make([]Tensor, len(ir.Results(n)))
	// The node itself stands for its first result, and nodes of op result for the others.
	list[0] = grads[n.ID()]
	for _, m := range p.b.graph.Nodes()[n.ID()+1 : len(p.active)] {
		if m.Op() == ir.OpResult && m.Arg(0) == n && !grads[m.ID()].IsZero() {
			i := m.Attrs().Int("index")
			list[i] = sumOf(list[i], grads[m.ID()])
		}
	}
	return list
}

// rule returns the gradient rule of a node's op, or the rule set for this node, and fails if there is none.
func (p *pullback) rule(n *ir.Node) gradRule {
	if o, ok := p.b.opaques[n]; ok {
		return o.rule
	}
	if r := gradRules[n.Op()]; r != nil {
		return r
	}
	if r, ok := customGrads.Load(n.Op()); ok {
		return r.(gradRule)
	}
	why := "package frontend has no gradient for it"
	if n.Op().Info().Custom != nil {
		why = "register one with frontend.RegisterGrad, or stop the gradient with StopGradient"
	}
	fail("grad", fmt.Errorf("op %s has no gradient: %s", n.Op(), why), Tensor{p.b, n})
	return nil
}

// explainMissing explains why a param has no gradient: every path to it leads through an op without a gradient, or
// there is no path.
func (p *pullback) explainMissing(results []Tensor, param Tensor) string {
	if !param.DType().IsFloat() {
		return fmt.Sprintf("a value of %s has none", param.DType())
	}
	reached := make([]bool, len(p.active))
	for _, y := range results {
		reached[y.node.ID()] = true
	}
	nodes := p.b.graph.Nodes()
	uses := make([]bool, len(p.active)) // by node: whether it depends on param
	uses[param.node.ID()] = true
	for _, n := range nodes[:len(uses)] {
		for _, a := range n.Args() {
			uses[n.ID()] = uses[n.ID()] || uses[a.ID()]
		}
	}
	for id := len(uses) - 1; id > param.node.ID(); id-- {
		n := nodes[id]
		if !reached[id] || !uses[id] {
			continue
		}
		if why := n.Op().Info().NoGrad; why != "" {
			return fmt.Sprintf("the result depends on it through %s, without a gradient: %s", n.Op(), why)
		}
		if _, ok := p.b.opaques[n]; ok && len(p.operands(n)) == 0 {
			return "the result depends on it through StopGradient"
		}
		for _, a := range n.Args() {
			reached[a.ID()] = true
		}
	}
	if reached[param.node.ID()] {
		return "the result depends on it only through values that are not floats"
	}
	return "the result does not depend on it"
}

// sumOf adds two gradients. a may be the zero Tensor.
func sumOf(a, b Tensor) Tensor {
	if a.IsZero() {
		return b
	}
	return a.Add(b)
}

// as returns t cast to the dtype of u.
func (t Tensor) as(u Tensor) Tensor { return t.to(u.DType()) }

// wide returns a float tensor as f32, or unchanged if it is f32 or f64.
func (t Tensor) wide() Tensor {
	if d := t.DType(); d == ir.F64 || d == ir.F32 {
		return t
	}
	return t.Cast(ir.F32)
}

// sumTo reverses a broadcast of shape `to` to the shape of t: it sums t over the axes that `to` lacks or has with
// extent 1. If t is smaller than `to`, it broadcasts t.
func (t Tensor) sumTo(to ir.Shape) Tensor {
	have := t.Shape()
	if have.Equal(to) {
		return t
	}
	var summed []int
	for i := range have {
		// at is the axis of `to` that corresponds to axis i: shapes are aligned on the right.
		if at := i - len(have) + len(to); at < 0 || to[at].Is(1) && !have[i].Is(1) {
			summed = append(summed, i)
		}
	}
	if len(summed) > 0 {
		t = t.SumKeep(summed...)
	}
	if extra := t.Rank() - len(to); extra > 0 {
		t = t.Reshape(t.Shape()[extra:])
	}
	if !t.Shape().Equal(to) {
		t = t.Broadcast(to)
	}
	return t
}

// zeros returns a tensor of zeros with the type of t.
func (t Tensor) zeros() Tensor { return t.Lit(0).Broadcast(t.Shape()) }

var errSymbolicWindow = errors.New("the gradient of the weights needs fixed extents")
