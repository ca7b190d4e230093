package fast

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Consecutive elementwise ops form one kernel, a chain. Their formulas in package ir's table of ops are compiled to a
// program of primitives: functions such as + that compute a block of elements, so that the operands stay in the L1
// cache. If a formula calls an unsupported function, the op's scalar reference becomes one primitive.

// block is the largest number of elements that a primitive computes at a time. As float32 they take 4 KiB
// (M-cpu-chains).
const block = 1024

// blockBytes is the size of one operand for a block. In 64 bits it has half as many elements.
const blockBytes = 4 * block

// number is the type of the elements of lists in which a kernel computes. Lists of integers have the integers' bits: a
// list of float32 has integers of 32 bits, and a list of float64 has integers of 64.
type number interface{ float32 | float64 }

// chain is a program in 32 bits.
type chain = chainOf[float32]

// chainOf is the program of one kernel. Its operands are lists of up to `block` elements, and instructions refer to
// them by index. Their order is: the arguments, the kept values, the row values, the constants, and the temporaries for
// results of instructions.
type chainOf[T number] struct {
	args        []*ir.Node
	reads       []bool       // by argument: whether the chain reads it
	kept        []*ir.Scalar // values that an earlier chain of a fold computed and left in memory; see foldChains
	row         []*ir.Scalar // row values of a fold, which are equal for all elements of a row
	spread      []bool       // by row value: whether an instruction outside of row programs (see rowProgram) reads it
	ofRow       []bool       // by argument: whether it is a list of a row program
	onlyFused   []bool       // by argument: whether only fused instructions read it
	constants   []T
	code        []instruction[T]
	temporaries int       // number of temporaries
	result      int       // the operand with the result
	work        int       // cost per element, in quarters of a multiply-add
	idle        sync.Pool // has *scratch that no worker uses
	layout      atomic.Pointer[chainLayout]
}

// chainLayout is the strides of a chain's arguments. Runs with the same extents share it.
type chainLayout struct {
	runExtents
	strides []strides // by argument
}

// addReaders adds the readers of a call's arguments to list.
func (p *chainOf[T]) addReaders(list []readerOf[T], c *interp.Call) []readerOf[T] {
	l := p.layout.Load()
	if l == nil || !l.are(c, c.Dims) {
		l = &chainLayout{runExtents: extentsOf(c, c.Dims)}
		for _, a := range c.Args {
			l.strides = append(l.strides, newStrides(a.Dims, c.Dims, nil))
		}
		p.layout.Store(l)
	}
	for i, a := range c.Args {
		list = append(list, readerWith[T](a, l.strides[i]))
	}
	return list
}

// instruction applies a primitive to operands `in` and stores the result in operand `out`. The result of the last
// instruction is the result of the program.
type instruction[T number] struct {
	*primitiveOf[T]
	out     int
	in      [3]int
	program *rowProgram // the row program that begins here, or nil
	fused   *fused      // this instruction and those that assembly computes with it, or nil
}

// scratch is the working memory in which one worker runs a chain.
type scratch[T number] struct {
	operands [][]T
	results  []T // in which results are computed if they are not in memory as T
	readers  []readerOf[T]
	buffers  [][]T // by argument: a buffer to which elements are copied if they are not contiguous; may be nil
	// If the chain runs row programs, rowElems is the number of elements of a row in a block, and numbers has a
	// number for each row of the block. operands then has these numbers repeated for each element, for other
	// instructions. Otherwise rowElems is 0.
	rowElems int
	numbers  [][]T
	columns  int       // the number of columns if the chain runs row programs of columns, and otherwise 0
	sums     []float64 // by row of a block: to which the chain's row program adds its results; may be nil
	next     []T       // elements that the row program after this one reads; may be nil
	repeated []bool    // by argument: whether its operand has one number, which every element of the block reads
	steps    []fusedStep
}

// compute implements interp.Kernel.Compute: it applies the instructions of a chain of elementwise ops to blocks of
// elements that stay in the cache, many blocks in parallel.
func (p *chainOf[T]) compute(c *interp.Call) error {
	const blocks = 8 // number of blocks in a task
	n := volume(c.Dims)
	tasks := ceil.Div(n, blocks*block)
	const quarters = 4 // of a multiply-add, the unit of p.work
	work := max(1, p.work*min(n, blocks*block)/quarters)
	if c.Serial(tasks, work) && tasks == 1 {
		s := p.scratch()
		s.readers = p.addReaders(s.readers[:0], c)
		p.task(resultsOf[T](c), s.readers, p.beginWith(s, s.readers), 0, n)
		return c.Context.Err()
	}
	readers, out := p.addReaders(nil, c), resultsOf[T](c)
	return c.Parallel(tasks, work, func(_, task int) {
		p.task(out, readers, p.begin(readers), task*blocks*block, min((task+1)*blocks*block, n))
	})
}

// task computes elements lo to end of a result with scratch memory s, which it gives back.
func (p *chainOf[T]) task(out results[T], readers []readerOf[T], s *scratch[T], lo, end int) {
	defer p.end(s)
	step := blockBytes / int(unsafe.Sizeof(T(0)))
	for ; lo < end; lo += step {
		n := min(step, end-lo)
		p.read(readers, lo, n, s)
		list := s.operands[p.result][:n]
		if len(p.code) > 0 { // otherwise the result is an argument, which put rounds
			list = out.block(lo, n, s.results)
			p.apply(list, s)
		}
		out.put(lo, list)
	}
}

// begin returns scratch memory for a run that reads arguments with readers. The caller calls end after the run.
func (p *chainOf[T]) begin(readers []readerOf[T]) *scratch[T] {
	return p.beginWith(p.scratch(), readers)
}

// beginWith prepares scratch memory s for a run, and returns s. It reads the arguments that have a single element, once
// for all blocks.
func (p *chainOf[T]) beginWith(s *scratch[T], readers []readerOf[T]) *scratch[T] {
	for i := range p.args {
		if p.reads[i] && readers[i].repeats() {
			list := s.buffer(i)
			if p.onlyFused[i] && canFuse() {
				list = list[:fusedElems]
			}
			readers[i].read(list, 0)
		}
	}
	return s
}

// end gives scratch memory back: from then on a run on another goroutine may use it. It clears what refers to
// arguments, so that s does not keep their memory alive.
func (p *chainOf[T]) end(s *scratch[T]) {
	clear(s.operands[:len(p.args)+len(p.kept)])
	clear(s.readers)
	clear(s.steps)
	s.rowElems, s.columns, s.sums, s.next = 0, 0, nil, nil
	p.idle.Put(s)
}

// run computes elements lo to lo+len(out) of the result.
func (p *chainOf[T]) run(out []T, readers []readerOf[T], lo int, s *scratch[T]) {
	p.read(readers, lo, len(out), s)
	p.apply(out, s)
}

// read sets the operands of the arguments to their values for n elements of the result, from element lo on. An argument
// is read in place if it is stored as the chain needs it. Otherwise its elements are copied or repeated in scratch
// memory.
func (p *chainOf[T]) read(readers []readerOf[T], lo, n int, s *scratch[T]) {
	for i := range p.args {
		elems := n
		if s.rowElems > 0 && p.ofRow[i] {
			elems = min(s.rowElems, n) // the same elements serve every row
		}
		s.repeated[i] = false
		switch at := &readers[i]; {
		case !p.reads[i]:
		case at.repeats(): // beginWith has read it
			s.operands[i], s.repeated[i] = s.buffers[i], true
		case p.onlyFused[i] && canFuse() && at.repeatsFor(lo, n):
			s.operands[i], s.repeated[i] = s.buffer(i)[:fusedElems], true
			at.read(s.operands[i][:1], lo)
			fillOf(s.operands[i], s.operands[i][0])
		case at.direct(lo, elems) != nil:
			s.operands[i] = at.direct(lo, elems)
		default:
			s.operands[i] = s.buffer(i)[:elems]
			at.read(s.operands[i], lo)
		}
	}
}

// apply runs the instructions for the operands in s, and stores the result in out. Several successive instructions may
// be one step, in assembly.
func (p *chainOf[T]) apply(out []T, s *scratch[T]) {
	n, last := len(out), len(p.code)-1
	for i := 0; i <= last; i++ {
		c := &p.code[i]
		runsProgram := c.program != nil && (s.rowElems > 0 || s.columns > 0)
		runsFused := !runsProgram && c.fused != nil && canFuse()
		switch { // continue after the instructions of the step
		case runsProgram:
			i += c.program.length - 1
		case runsFused:
			i += c.fused.length - 1
		}
		to := out
		if i < last { // only the last instruction stores to out
			to = s.operands[p.code[i].out][:n]
		}
		switch {
		case runsProgram:
			s.runProgram(c, to, nil, n)
		case runsFused:
			p.runFused(c.fused, to, s)
		default:
			c.apply(to, s.operands[c.in[0]], s.operands[c.in[1]], s.operands[c.in[2]])
		}
	}
}

// narrowed returns the address of a list's first element as a float32. T must be float32.
func narrowed[T number](list []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(list))) }

// scratch returns scratch memory for one worker, with the constants in it: idle memory if there is some, or else new
// memory.
func (p *chainOf[T]) scratch() *scratch[T] {
	if s, ok := p.idle.Get().(*scratch[T]); ok {
		return s
	}
	lists := len(p.args) + len(p.kept)
	s := &scratch[T]{buffers: make([][]T, len(p.args)), operands: make([][]T, lists), results: make([]T, block),
		repeated: make([]bool, len(p.args))}
	for range len(p.row) + len(p.constants) + p.temporaries {
		s.operands = append(s.operands, make([]T, block))
	}
	for i, x := range p.constants {
		fillOf(s.operands[lists+len(p.row)+i], x)
	}
	return s
}

// buffer returns the buffer for argument i, of `block` elements.
func (s *scratch[T]) buffer(i int) []T {
	if s.buffers[i] == nil {
		s.buffers[i] = make([]T, block)
	}
	return s.buffers[i]
}

// chains finds the chains of a graph.
type chains struct {
	nodes    []*ir.Node
	constant []bool // by node ID, see interp.IsConstant
	uses     []int  // by node ID: how often the node is an argument of a node, an output or the new value of a state
}

// newChains returns the chains of a graph. It counts how often live nodes, outputs and updates of states use each
// node.
func newChains(g *ir.Graph) *chains {
	c := &chains{nodes: g.Nodes(), constant: interp.IsConstant(g), uses: make([]int, len(g.Nodes()))}
	live := g.Live()
	for i, n := range c.nodes {
		for _, a := range n.Args() {
			if live[i] {
				c.uses[a.ID()]++
			}
		}
	}
	for _, o := range g.Outputs() {
		c.uses[o.Node.ID()]++
	}
	for _, u := range g.Updates() {
		c.uses[u.Value.ID()]++
	}
	return c
}

// chainFor returns the kernel of the chain that computes node root, or nil if there is none. All members of the chain
// have root's shape, and no node outside of the chain uses them, except root. chainFor sets absorbed, by ID, for the
// members other than root: they need no kernels.
func (c *chains) chainFor(root *ir.Node, absorbed []bool) *interp.Kernel {
	if !c.canEnd(root) {
		return nil
	}
	k := &interp.Kernel{Stored: -1, Fills: true, Words: true, Rounds: true, Formats: true}
	members := c.membersFor(root, absorbed)
	if isWide(root) {
		p := compile[float64](c, members)
		k.Compute, k.Args = p.compute, p.args
	} else {
		p := compile[float32](c, members)
		k.Compute, k.Args = p.compute, p.args
	}
	return k
}

// canEnd reports whether a node can be the last one of a chain.
func (c *chains) canEnd(root *ir.Node) bool {
	if c.constant[root.ID()] || c.uses[root.ID()] == 0 || !computable(root) {
		return false
	}
	if root.Op() != ir.OpCast {
		return true
	}
	// The interpreter makes no copy for a cast to the same dtype. It makes none for a cast of a narrow float to f32
	// either, because kernels compute that in 32 bits already. But inputs have narrow floats in memory.
	x := root.Arg(0)
	free := root.DType() == ir.F32 && isNarrow(x.DType()) && x.Op() != ir.OpInput
	return x.DType() != root.DType() && !free
}

// membersFor returns the members of the chain that computes root, sorted by ID. It sets absorbed for those other than
// root.
func (c *chains) membersFor(root *ir.Node, absorbed []bool) []*ir.Node {
	members, inside := []*ir.Node{root}, map[*ir.Node]int{} // inside counts how often members use a node
	for i := 0; i < len(members); i++ {
		for _, a := range members[i].Args() {
			inside[a]++
			onlyInside := inside[a] == c.uses[a.ID()] // now that all users have been counted
			if onlyInside && !c.constant[a.ID()] && computable(a) && isWide(a) == isWide(root) &&
				a.Shape().Equal(root.Shape()) {
				members = append(members, a)
				absorbed[a.ID()] = true
			}
		}
	}
	slices.SortFunc(members, func(a, b *ir.Node) int { return a.ID() - b.ID() })
	return members
}

// isWide reports whether a chain must compute node n in 64 bits: n has an argument or a result of 64 bits. There are
// two exceptions for i64: the condition of where, and the argument of a cast that gives the same result by way of
// float32.
func isWide(n *ir.Node) bool {
	to := n.DType()
	canRead := n.Op() == ir.OpCast && isNarrow(to) && !roundsTwice(to)
	for i, a := range n.Args() {
		if a.DType() == ir.F64 || a.DType() == ir.I64 && !canRead && !(n.Op() == ir.OpWhere && i == 0) {
			return true
		}
	}
	return to == ir.F64 || to == ir.I64
}

// roundsTwice reports whether an integer may be rounded twice if it is converted to float32 and then to dtype t.
// float32 represents all integers up to 2^24, so this happens only if t has larger numbers.
func roundsTwice(t ir.DType) bool { return t != ir.F32 && ir.RoundTo(1<<24, t) == 1<<24 }

// computable reports whether a chain may contain a node: an elementwise op on floats, integers and bools.
func computable(n *ir.Node) bool {
	info := n.Op().Info()
	hasFormula := info.Float != nil || info.Int != nil
	if info.Class != ir.ClassElementwise || !hasFormula || info.Custom != nil || n.DType().IsBlock() {
		return false
	}
	return unblocked(n)
}
