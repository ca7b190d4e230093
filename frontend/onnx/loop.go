package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// If the carried values of a loop keep their types, its body is built once, as the body of a loop op. Otherwise the
// loop is unrolled, which requires that the number of trips is known when the graph is built.

// tryEach returns the results of the first of the functions that succeeds. It drops the problems that earlier functions
// have noted. If all functions fail, tryEach fails as the last one does.
func (c *call) tryEach(ways ...func() []*value) []*value {
	problems, needed := len(c.problems), len(c.needed)
	for i, way := range ways {
		last := i == len(ways)-1
		if last {
			return way()
		}
		var results []*value
		if err := caught(func() { results = way() }); err == nil && len(c.problems) == problems {
			return results
		}
		c.problems, c.needed = c.problems[:problems], c.needed[:needed]
	}
	return nil
}

// trip builds one trip of a loop from its number, i32[], and the carried values. It returns the condition for the next
// trip (the zero Tensor if the loop has no condition), the carried values of the next trip, and the values to stack.
type trip func(i tensor, carried []*value) (goes tensor, next, outs []*value)

// looped builds a loop op with the given body. trips is the largest number of trips, goes the condition of the first
// trip, and first has the carried values of the first trip. results has the last carried values, followed by the
// stacks. If the loop has a condition, only as many rows of the stacks are valid as there were trips.
func (c *call) looped(trips ir.Dim, goes tensor, first []*value, body trip) (
	results []*value, scanned frontend.Scanned) {
	from, around := merged(c.in), c.trips // the model's inputs that the results depend on; trips of the loops around
	defer func() { c.trips = around }()
	var made []*value // results of the body
	s := c.b.ScanWhile(trips, goes, c.whole(first), func(i tensor, carried []tensor) (tensor, []tensor, []tensor) {
		given := make([]*value, len(carried))
		for k, t := range carried {
			given[k] = &value{tensor: t, from: first[k].from}
		}
		c.trips = append(slices.Clip(around), i)
		goesOn, next, outs := body(i, given)
		made = slices.Concat(next, outs)
		from = merged([]*value{{from: from}, {from: merged(made)}})
		return goesOn, c.whole(next), c.whole(outs)
	})
	stacks := valuesOf(s.Stacks, from)
	if !goes.IsZero() {
		for _, v := range stacks {
			v.valid = &validPart{axis: 0, count: s.Count}
		}
	}
	results = append(valuesOf(s.Last, from), stacks...)
	markLike(results, made)
	return results, s
}

// loopNode is a node Loop with its inputs.
type loopNode struct {
	c     *call
	body  *Graph
	limit *value // the maximum number of trips; nil if unlimited
	goes  *value // whether the first trip runs; nil if it always does
	first []*value
}

// loop builds Loop in the first way that succeeds: as a loop op with a number of trips, as a loop op with a condition,
// or unrolled.
func loop(c *call) []*value {
	l := newLoop(c)
	first, known := true, true // the condition of the first trip, and whether it is known when the graph is built
	if l.goes != nil {
		first, known = truth(l.goes)
	}
	trips := l.trips()
	var ways []func() []*value
	if trips != nil && known && first {
		ways = append(ways, l.forLoop)
	}
	ways = append(ways, l.whileLoop)
	if known && (l.limit == nil || trips != nil && trips.IsStatic()) {
		ways = append(ways, l.unrolled)
	}
	return c.tryEach(ways...)
}

// newLoop reads the inputs of a node Loop.
func newLoop(c *call) *loopNode {
	l := &loopNode{c: c, body: c.graphAttr("body"), first: c.from(2)}
	if len(l.body.Outputs) < 1+len(l.first) {
		c.fail("its body has %d outputs: want a condition and %d carried values", len(l.body.Outputs),
			len(l.first))
	}
	if c.has(0) {
		l.limit = c.in[0]
		if n, _, ok := dimsOf(l.limit); ok && len(n) == 1 && n[0].IsStatic() && n[0].Add > maxTrips {
			l.limit = nil // exporters write such a limit for a loop that only a condition ends
		}
	}
	if c.has(1) {
		l.goes = c.in[1]
	}
	return l
}

// from returns the inputs from number first on, all of which must be given.
func (c *call) from(first int) []*value {
	for i := first; i < len(c.in); i++ {
		c.input(i)
	}
	return c.in[min(first, len(c.in)):]
}

// maxTrips is the largest limit that counts as a limit: exporters write a larger one for a loop without a limit.
const maxTrips = 1<<31 - 1

// trips returns the maximum number of trips if it is known when the graph is built, and otherwise nil.
func (l *loopNode) trips() *ir.Dim {
	if l.limit == nil {
		return nil
	}
	if n, _, ok := dimsOf(l.limit); ok && len(n) == 1 {
		return &n[0]
	}
	return nil
}

// trip builds the body for trip i.
func (l *loopNode) trip(i *value, carried []*value) (goes *value, next, outs []*value) {
	yes := &value{data: &ir.Data{DType: ir.Bool, Bytes: []byte{1}}}
	out := l.c.subgraph(l.body, append([]*value{i, yes}, carried...))
	return out[0], out[1 : 1+len(l.first)], out[1+len(l.first):]
}

// forLoop builds a loop op with a number of trips that is known when the graph is built. It fails if the condition
// can become false.
func (l *loopNode) forLoop() []*value {
	results, _ := l.c.looped(*l.trips(), tensor{}, l.first,
		func(i tensor, carried []*value) (_ tensor, next, outs []*value) {
			goes, next, outs := l.trip(&value{tensor: i.Cast(ir.I64), from: []string{}}, carried)
			if is, known := truth(goes); !is || !known {
				l.c.fail("the condition changes")
			}
			return tensor{}, next, outs
		})
	return results
}

// whileLoop builds a loop op that ends by its condition, or by a limit that is only known in a run.
func (l *loopNode) whileLoop() []*value {
	goes, trips := l.c.b.Const(true), l.trips()
	if l.goes != nil {
		goes = l.c.asTensor(l.goes).Reshape()
	}
	var limit tensor        // the limit if only a run knows it
	bounded := trips == nil // a loop op needs a largest number of trips, which the caller gives as a bound
	if bounded {
		bound, ok := l.c.options.Bounds[l.c.node.title()]
		if !ok { // note which inputs must become constants instead
			l.c.needed = append(l.c.needed, merged(l.c.in[:min(2, len(l.c.in))])...)
			l.c.fail("its number of trips is known only in a run: give an upper bound under the node's name, "+
				"%q", l.c.node.title())
		}
		trips = &ir.Dim{Add: int64(bound)}
		if l.limit != nil {
			limit = l.c.asTensor(l.limit).Reshape()
		}
	}
	withinLimit := func(goes, i tensor) tensor { // whether trip i runs, if its condition is goes
		if limit.IsZero() {
			return goes
		}
		return goes.And(i.Cast(limit.DType()).Lt(limit))
	}
	results, s := l.c.looped(*trips, withinLimit(goes, l.c.b.Const(int32(0))), l.first,
		func(i tensor, carried []*value) (tensor, []*value, []*value) {
			again, next, outs := l.trip(&value{tensor: i.Cast(ir.I64), from: []string{}}, carried)
			return withinLimit(l.c.asTensor(again).Reshape(), i.AddScalar(1)), next, outs
		})
	if bounded {
		l.c.addUnfinishedOutput(s.Goes)
	}
	return results
}

// addUnfinishedOutput adds a graph output with the condition of the trip after the last possible one. If it is true,
// the loop would have continued beyond its bound, and the results are wrong: see ir.Unfinished.
func (c *call) addUnfinishedOutput(goes tensor) {
	if goes.Builder() != c.b {
		c.fail("its number of trips is known only in a run, and vkc does not support that in the body of another loop")
	}
	name := c.node.title() + ir.Unfinished
	if c.taken[name] {
		c.fail("another node has the same name, so a bound would be ambiguous: give the nodes different names")
	}
	c.taken[name] = true
	c.b.Output(name, goes)
	c.loops = append(c.loops, name)
}

// unrolled builds the body once for each trip. It fails if the condition of a trip is not known when the graph is
// built.
func (l *loopNode) unrolled() []*value {
	state, trips, going := slices.Clone(l.first), maxCalls, true
	if l.limit != nil {
		trips = l.trips().Static()
	}
	if l.goes != nil {
		going, _ = truth(l.goes)
	}
	collected := make([][]*value, len(l.body.Outputs)-1-len(l.first)) // by stacked result: its values by trip
	for i := 0; i < trips && going; i++ {
		goes, next, outs := l.trip(dimsValue(ir.Shape{ir.D(i)}, true), state)
		is, known := truth(goes)
		if !known {
			l.c.needed = append(l.c.needed, goes.from...)
			l.c.fail("its number of trips depends on %q: make that a constant, or give an upper bound under the "+
				"node's name, %q", goes.from, l.c.node.title())
		}
		going, state = is, next
		for k, v := range outs {
			collected[k] = append(collected[k], v)
		}
	}
	results := copies(state)
	for i, parts := range collected {
		if !l.c.wants(len(l.first) + i) {
			results = append(results, nil) // it may have no trips, and so no known shape
			continue
		}
		results = append(results, stackOf(l.c.joined(parts, 0, true), parts))
	}
	return results
}

// stackOf returns a tensor, the stack of the given parts, as a value.
func stackOf(stack tensor, parts []*value) *value {
	v := &value{tensor: stack, from: merged(parts)}
	for _, part := range parts {
		markLike([]*value{v}, []*value{part})
	}
	return v
}

// scanned is a node Scan with its inputs and attributes, in the form of opset 9.
type scanned struct {
	c       *call
	body    *Graph
	axes    []int    // by scanned input: the axis to scan
	back    []bool   // by scanned input: whether it is scanned from its end
	outAxes []int    // by output: the axis to stack along
	outBack []bool   // by output: whether it is stacked from its end
	first   []*value // first carried values
	over    []*value // scanned inputs
	length  tensor   // number of valid steps, i64[]; the zero Tensor for all
}

// scan builds Scan, which runs a body for each slice of its inputs.
func scan(c *call) []*value {
	s := c.newScan(0)
	s.axes, s.back = c.intsAttr("scan_input_axes"), flags(c.intsAttr("scan_input_directions"))
	s.outAxes, s.outBack = c.intsAttr("scan_output_axes"), flags(c.intsAttr("scan_output_directions"))
	return s.steps()
}

// newScan returns the Scan with the inputs from number `from` on: first carried values, and then scanned inputs.
func (c *call) newScan(from int) *scanned {
	n := c.mustInt("num_scan_inputs")
	carried := len(c.in) - from - n
	s := &scanned{c: c, body: c.graphAttr("body")}
	if n < 1 || carried < 0 || len(s.body.Outputs) < carried {
		c.fail("num_scan_inputs is %d of %d inputs, but its body has %d outputs", n, len(c.in), len(s.body.Outputs))
	}
	all := c.from(from)
	s.first, s.over = all[:carried], all[carried:]
	return s
}

// flags converts integers to bools: all numbers except 0 are true.
func flags(list []int) []bool {
	out := make([]bool, len(list))
	for i, n := range list {
		out[i] = n != 0
	}
	return out
}

// at returns element i of a list, or zero if the list is shorter.
func at[T any](list []T, i int) (t T) {
	if i < len(list) {
		return list[i]
	}
	return t
}

// extent returns the number of steps: the extent of the scanned axes, which must be equal. xs has the scanned inputs.
func (s *scanned) extent(xs []tensor) (steps ir.Dim) {
	for i, x := range xs {
		d := x.Shape()[s.c.axis(at(s.axes, i), x.Rank())]
		if i > 0 && d != steps {
			s.c.fail("it iterates over %s and %s elements: want the same number", steps, d)
		}
		steps = d
	}
	return steps
}

// steps builds the Scan as a loop op. If that fails, it unrolls the steps.
func (s *scanned) steps() []*value {
	xs := s.c.whole(s.over)
	ways := []func() []*value{func() []*value { return s.loop(xs) }}
	if s.extent(xs).IsStatic() && s.length.IsZero() {
		ways = append(ways, func() []*value { return s.unrolled(xs) })
	}
	return s.c.tryEach(ways...)
}

// step builds the body for one step. element(i, back) returns the step's element of scanned input i.
func (s *scanned) step(carried []*value, element func(i int, back bool) tensor) (next, outs []*value) {
	inputs := slices.Clone(carried)
	for i, v := range s.over {
		inputs = append(inputs, &value{tensor: element(i, at(s.back, i)), from: v.from})
	}
	out := s.c.subgraph(s.body, inputs)
	return out[:len(s.first)], out[len(s.first):]
}

// loop builds the body once, as the body of a loop op. It returns the last carried values, followed by the stacks.
func (s *scanned) loop(xs []tensor) []*value {
	steps, goes := s.extent(xs), tensor{}
	within := func(i tensor) tensor { return i.Cast(s.length.DType()).Lt(s.length) }
	if !s.length.IsZero() {
		goes = within(s.c.b.Const(int32(0)))
	}
	results, _ := s.c.looped(steps, goes, s.first, func(i tensor, carried []*value) (tensor, []*value, []*value) {
		next, outs := s.step(carried, func(k int, back bool) tensor {
			place := i
			if back {
				place = s.c.b.DimValue(steps).Sub(i.AddScalar(1))
			}
			axis := s.c.axis(at(s.axes, k), xs[k].Rank()) // the axis along which input k is scanned
			return xs[k].IndexSelect(axis, place.Reshape(1)).Squeeze(axis)
		})
		if s.length.IsZero() {
			return tensor{}, next, outs
		}
		return within(i.AddScalar(1)), next, outs
	})
	for k, v := range results[len(s.first):] {
		v.valid = nil // elements beyond a sequence's length are zeros
		if at(s.outBack, k) {
			v.tensor = v.tensor.Flip(0)
		}
		// The loop op stacks along axis 0: move it to the output's axis.
		if axis := s.c.axis(at(s.outAxes, k), v.tensor.Rank()); axis != 0 {
			perm := slices.Insert(axesFrom(1, v.tensor.Rank()), axis, 0)
			v.tensor = v.tensor.Transpose(perm...)
		}
	}
	return results
}

// unrolled builds the body once for each step.
func (s *scanned) unrolled(xs []tensor) []*value {
	collected := make([][]*value, len(s.body.Outputs)-len(s.first)) // by stacked result: its values by step
	state, steps := slices.Clone(s.first), s.extent(xs).Static()
	for step := range steps {
		next, outs := s.step(state, func(k int, back bool) tensor {
			if back {
				return xs[k].Index(at(s.axes, k), steps-1-step)
			}
			return xs[k].Index(at(s.axes, k), step)
		})
		state = next
		for k, v := range outs {
			if at(s.outBack, k) {
				collected[k] = slices.Insert(collected[k], 0, v)
			} else {
				collected[k] = append(collected[k], v)
			}
		}
	}
	results := copies(state)
	for k, parts := range collected {
		results = append(results, stackOf(s.c.joined(parts, at(s.outAxes, k), true), parts))
	}
	return results
}

// scanBatch builds Scan of opset 8, which scans each sequence of a batch: a loop inside a loop. Sequences may have
// different lengths.
func (c *call) scanBatch() []*value {
	all := c.newScan(1)
	c.whole(all.first) // become tensors here, outside of the loop's body
	batch := c.whole(all.over)[0].Dim(0)
	ways := []func() []*value{func() []*value {
		results, _ := c.looped(batch, tensor{}, nil, func(i tensor, _ []*value) (_ tensor, next, outs []*value) {
			return tensor{}, nil, all.sequence(i)
		})
		return results
	}}
	if batch.IsStatic() && batch.Static() > 0 { // each sequence by itself
		ways = append(ways, func() []*value {
			parts := make([][]*value, len(all.body.Outputs))
			for i := range batch.Static() {
				for k, v := range all.sequence(c.b.Const(int32(i))) {
					parts[k] = append(parts[k], v)
				}
			}
			results := make([]*value, len(parts))
			for k, list := range parts {
				results[k] = &value{tensor: c.joined(list, 0, true), from: merged(list)}
			}
			return results
		})
	}
	return c.tryEach(ways...)
}

// sequence builds the Scan of sequence number i of the batch: a Scan of slices of the inputs.
func (all *scanned) sequence(i tensor) []*value {
	c := all.c
	slicesAt := func(values []*value) []*value {
		out := make([]*value, len(values))
		for k, v := range values {
			out[k] = &value{tensor: c.asTensor(v).IndexSelect(0, i.Reshape(1)).Squeeze(0), from: v.from}
		}
		return out
	}
	s := &scanned{c: c, body: all.body, back: flags(c.intsAttr("directions"))}
	s.first, s.over = slicesAt(all.first), slicesAt(all.over)
	if c.has(0) {
		s.length = c.x(0).IndexSelect(0, i.Reshape(1)).Reshape()
	}
	return s.steps()
}
