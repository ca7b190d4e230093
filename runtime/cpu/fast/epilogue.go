package fast

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// epilogue is a chain that the kernel of a convolution or matmul applies to the node's elements, in place and in parts,
// while they are in the cache.
type epilogue struct {
	*chain
	own int // the chain's argument that is the node
}

// withEpilogue returns the kernel that computes a convolution or matmul together with the chain after it. Node n is the
// last of that chain. withEpilogue returns nil if there is no such chain, or if nodes outside of it use the
// convolution's or matmul's result. It sets absorbed, by ID, for the nodes other than n that the kernel computes.
func (c *chains) withEpilogue(n *ir.Node, absorbed []bool) *interp.Kernel {
	own, e, more := c.epilogueOf(n, absorbed)
	if own == nil {
		return nil
	}
	return c.contraction(own, e, more, absorbed)
}

// epilogueOf returns the epilogue e that ends with node n. It also returns own, the convolution or matmul before e, and
// more, the other arguments of e. It sets absorbed, by ID, for the nodes of e before n and for own. It returns nil if n
// ends no epilogue.
func (c *chains) epilogueOf(n *ir.Node, absorbed []bool) (own *ir.Node, e *epilogue, more []*ir.Node) {
	if isWide(n) || !c.canEnd(n) {
		return nil, nil, nil
	}
	inside := slices.Clone(absorbed)
	members := c.membersFor(n, inside)
	// Among the arguments, the last convolution or matmul that only the chain uses.
	for _, m := range members {
		for _, a := range m.Args() {
			isLater := own == nil || a.ID() > own.ID()
			if isLater && !c.constant[a.ID()] && a.Shape().Equal(n.Shape()) && c.usedBy(a, members) &&
				c.takesEpilogue(a) {
				own = a
			}
		}
	}
	if own == nil {
		return nil, nil, nil
	}
	copy(absorbed, inside)
	absorbed[own.ID()] = true
	b := newCompiler()
	element := b.value(value[float32]{arg: own})
	if name, ok := b.rounding(own.DType()); ok {
		element = b.instruction(primitives[name], []int{element})
	}
	b.of[own] = element
	e = &epilogue{chain: b.compile(c, members)}
	// The epilogue reads the result of own from registers or the cache, and the rest as arguments.
	for i, a := range e.args {
		if a == own {
			e.own, e.reads[i] = i, false
		} else {
			more = append(more, a)
		}
	}
	return own, e, more
}

// usedBy reports whether only the members of a chain use node a.
func (c *chains) usedBy(a *ir.Node, members []*ir.Node) bool {
	uses := 0
	for _, m := range members {
		for _, x := range m.Args() {
			if x == a {
				uses++
			}
		}
	}
	return uses == c.uses[a.ID()]
}

// takesEpilogue reports whether the kernel of a node can apply an epilogue.
func (c *chains) takesEpilogue(n *ir.Node) bool {
	return convolves(n, ir.OpConv) || ofIntegers(n) || c.quantized(n) != nil
}

// contraction returns the kernel of node n if it is a convolution or a matmul of integers, and otherwise nil. e is nil
// or the epilogue, and more has the epilogue's arguments other than n. contraction sets absorbed, by ID, for the nodes
// before n that the kernel computes too.
func (c *chains) contraction(n *ir.Node, e *epilogue, more []*ir.Node, absorbed []bool) *interp.Kernel {
	k := &interp.Kernel{Args: slices.Clone(n.Args()), Packs: 1, Stored: -1, Words: true, Fills: true, Rounds: e != nil}
	switch q := c.quantized(n); {
	case q != nil:
		q.after, k.Formats = e, true
		q.complete(k)
	case ofIntegers(n):
		k.Formats = true
		completeInts(k, n, e)
	case convolves(n, ir.OpConv) || convolves(n, ir.OpConvTranspose):
		f := &convolution{node: n, after: e, phases: phasesOf(n)}
		k.Compute, k.Pack = f.compute, func(t interp.Tensor) []float32 { return f.packConstant(t.Floats, t.Dims) }
		var args []*ir.Node
		if f.before, args = c.depthwiseBefore(n, absorbed); f.before != nil {
			k.Args[0], more = args[0], slices.Concat(args[1:], more)
		}
	default:
		return nil
	}
	k.Args = append(k.Args, more...)
	return k
}

// epilogueRun is an epilogue in one run, or no epilogue: it completes results.
type epilogueRun struct {
	*epilogue
	readers []argReader
	scratch []*scratch[float32]          // by worker, nil until it is needed
	out     []float32                    // the results, if they have 32 bits
	store   func(at int, list []float32) // stores results in another format, from number at on
}

// run returns the epilogue for a run with results of extents dims. The last ones of args are the epilogue's arguments
// other than own. e may be nil.
func (e *epilogue) run(c *interp.Call, args []interp.Tensor, dims []int) *epilogueRun {
	r := &epilogueRun{epilogue: e}
	if c.Stored != nil {
		r.store = storer[float32](c.Stored)
	} else {
		r.out = outOf(c)
	}
	if e == nil {
		return r
	}
	r.readers, r.scratch = make([]argReader, len(e.args)), make([]*scratch[float32], c.Workers())
	at := len(args) - (len(e.args) - 1)
	for i := range r.readers {
		if i != e.own {
			r.readers[i] = newArgReader(args[at], dims, nil)
			at++
		}
	}
	return r
}

// end releases memory after a run.
func (r *epilogueRun) end() {
	for _, s := range r.scratch {
		if s != nil {
			r.chain.end(s)
		}
	}
}

// lines returns the memory in which a kernel computes lines of n results, and the distance between lines there. The
// first line begins with result number first, and the lines are `apart` results apart. The memory is that of the
// results, or room if the results have another format.
func (r *epilogueRun) lines(room []float32, first, n, apart int) (list []float32, stride int) {
	if r.store != nil {
		return room, n
	}
	return r.out[first:], apart
}

// apply completes lines of n neighbouring results: it applies the chain and stores them. list and stride are the memory
// that method lines returned for first, n and apart.
func (r *epilogueRun) apply(worker int, list []float32, stride, first, n, apart, lines int) {
	if n == apart { // the lines follow each other
		lines, n = 1, lines*n
	}
	for line := range lines {
		from, to := first+line*apart, list[line*stride:][:n]
		if r.epilogue != nil {
			r.chainAll(worker, to, from)
		}
		if r.store != nil {
			r.store(from, to)
		}
	}
}

// chainAll applies the chain to a list of results, in place. first is the number of the list's first element among the
// results.
func (r *epilogueRun) chainAll(worker int, list []float32, first int) {
	s := r.scratch[worker]
	if s == nil {
		s = r.begin(r.readers)
		r.scratch[worker] = s
	}
	for at := 0; at < len(list); at += block {
		to := list[at:min(at+block, len(list))]
		r.read(r.readers, first+at, len(to), s)
		s.operands[r.own] = to
		r.chain.apply(to, s)
	}
}

// zeros sets all results to the results of sums without terms.
func (r *epilogueRun) zeros(c *interp.Call) error {
	defer r.end()
	n := volume(c.Dims)
	list, _ := r.lines(c.Room(0, n), 0, n, n)
	clear(list[:n])
	r.apply(0, list, n, 0, n, n, 1)
	return nil
}
