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

// withEpilogue returns the kernel that computes a convolution or matmul and the chain after it, which ends with node n,
// or nil if there is none. The chain must be the only user. withEpilogue sets absorbed, by ID, for the nodes other than
// n that the kernel computes.
func (c *chains) withEpilogue(n *ir.Node, absorbed []bool) *interp.Kernel {
	if isWide(n) || !c.canEnd(n) {
		return nil
	}
	inside := slices.Clone(absorbed)
	members := c.membersFor(n, inside)
	var own *ir.Node
	for _, m := range members {
		for _, a := range m.Args() {
			if (own == nil || a.ID() > own.ID()) && !c.constant[a.ID()] && a.Shape().Equal(n.Shape()) &&
				c.usedBy(a, members) && c.takesEpilogue(a) {
				own = a
			}
		}
	}
	if own == nil {
		return nil
	}
	copy(absorbed, inside)
	absorbed[own.ID()] = true
	b := newCompiler()
	element := b.value(value[float32]{arg: own})
	if name, ok := b.rounding(own.DType()); ok {
		element = b.instruction(primitives[name], []int{element})
	}
	b.of[own] = element
	e := &epilogue{chain: b.compile(c, members)}
	var more []*ir.Node
	for i, a := range e.args {
		if a == own {
			e.own, e.reads[i] = i, false
		} else {
			more = append(more, a)
		}
	}
	return c.contraction(own, e, more)
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

// contraction returns the kernel of a convolution, or of a matmul of integers, or nil if n is something else. e is nil
// or the epilogue, and more has the epilogue's arguments other than n.
func (c *chains) contraction(n *ir.Node, e *epilogue, more []*ir.Node) *interp.Kernel {
	k := &interp.Kernel{Args: slices.Clone(n.Args()), Packs: 1, Stored: -1, Words: true, Fills: true, Rounds: e != nil}
	switch q := c.quantized(n); {
	case q != nil:
		q.after = e
		q.complete(k)
	case ofIntegers(n):
		completeInts(k, n, e)
	case convolves(n, ir.OpConv) || convolves(n, ir.OpConvTranspose):
		f := &convolution{node: n, after: e, phases: phasesOf(n)}
		k.Compute, k.Pack = f.compute, func(t interp.Tensor) []float32 { return f.pack(t.Floats, t.Dims) }
	default:
		return nil
	}
	k.Args = append(k.Args, more...)
	return k
}

// epilogueRun is an epilogue with its arguments in one run.
type epilogueRun struct {
	*epilogue
	readers []argReader
}

// run returns the epilogue for a run, or nil if there is none. The call's last arguments are the epilogue's.
func (e *epilogue) run(c *interp.Call) *epilogueRun {
	if e == nil {
		return nil
	}
	r := &epilogueRun{e, make([]argReader, len(e.args))}
	at := len(c.Args) - (len(e.args) - 1)
	for i := range r.readers {
		if i != e.own {
			r.readers[i] = newArgReader(c.Args[at], c.Dims, nil)
			at++
		}
	}
	return r
}

// apply applies the epilogue to lines of n neighbouring elements of the result. The first line begins at element first,
// and the lines are `apart` elements from each other in out, which has all elements of the result.
func (r *epilogueRun) apply(out []float32, first, n, apart, lines int) {
	if r == nil {
		return
	}
	if n == apart { // the lines follow each other
		lines, n = 1, lines*n
	}
	s := r.begin(r.readers)
	defer r.idle.Put(s)
	for line := range lines {
		for at := 0; at < n; at += block {
			from := first + line*apart + at
			to := out[from:][:min(block, n-at)]
			r.read(r.readers, from, len(to), s)
			s.operands[r.own] = to
			r.chain.apply(to, s)
		}
	}
	clear(s.operands[:len(r.args)])
}
