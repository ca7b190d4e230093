package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/passes/lower"
	"github.com/vkc-go/vkc/passes/plan"
)

// Collect compiles a graph to GLSL for a device, and records it. It needs no device and no GLSL compiler.
func Collect(ctx context.Context, g *ir.Graph, caps device.Caps, tuning device.Tuning) (*Record, error) {
	c := &collector{record: &Record{Title: g.Name, Target: caps.Name, Runs: []Run{}}, refs: map[string]Ref{},
		nodes: map[*kernel.Kernel]*Node{}}
	c.ref("") // so that the zero Ref is the empty text
	c.last = c.ops(g, nil)
	low, err := compiler.LowerObserved(ctx, g, caps, tuning, c.pass)
	if err != nil {
		return nil, err
	}
	c.program(low)
	for i := range low.Kernels {
		c.kernel(low, i, caps)
	}
	c.record.Strings = c.strings
	return c.record, nil
}

// collector makes a record.
type collector struct {
	record  *Record
	strings []string
	refs    map[string]Ref
	last    int // index of the graph after the last pass
	lastOps int // index of the last graph of ops
	// nodes has the nodes of the last graph of kernels, with the loops' bodies.
	nodes map[*kernel.Kernel]*Node
}

// maxAttr is the length of an attribute's text that a record keeps.
const maxAttr = 400

// ref returns the reference of a text.
func (c *collector) ref(s string) Ref {
	r, ok := c.refs[s]
	if !ok {
		r = Ref(len(c.strings))
		c.refs[s], c.strings = r, append(c.strings, s)
	}
	return r
}

// pass records a pass of the compiler, and the graph after it if the pass changed something.
func (c *collector) pass(e passes.Event) error {
	p := Pass{Name: e.Pass, Nanos: e.Elapsed.Nanoseconds(), Changed: e.Changed, Before: c.last, After: c.last}
	for _, row := range passes.Passes() {
		if row.Name == e.Pass {
			p.Why = row.Why
		}
	}
	if e.Changed {
		before := c.record.Graphs[c.last].Kind
		if e.State.Kernels != nil {
			p.After = c.kernels(e.State.Plan)
		} else {
			p.After = c.ops(e.State.Graph, e.State.Fusion)
		}
		// Ops and kernels cannot be compared.
		if before == c.record.Graphs[p.After].Kind {
			p.Removed, p.Added = difference(c.record.Graphs[p.Before].Nodes, c.record.Graphs[p.After].Nodes)
		}
		c.last = p.After
	}
	c.record.Passes = append(c.record.Passes, p)
	return nil
}

// ops records a graph of ops, and returns its index in the record. f is the fusion of ops into kernels, or nil before
// fusion.
func (c *collector) ops(g *ir.Graph, f *lower.Fusion) int {
	at := len(c.record.Graphs)
	c.lastOps = at
	c.record.Graphs = append(c.record.Graphs, Graph{Kind: OpGraph})
	results := map[*ir.Node][]string{}
	for _, o := range g.Outputs() {
		results[o.Node] = append(results[o.Node], "output "+ir.Printable(o.Name))
	}
	for _, u := range g.Updates() {
		results[u.Value] = append(results[u.Value], "state "+ir.Printable(u.State.Name()))
	}
	live := g.Live()
	nodes := make([]Node, len(g.Nodes()))
	for i, n := range g.Nodes() {
		rec := &nodes[i]
		*rec = Node{Op: c.ref(n.Op().String()), Type: c.ref(n.Type().String()), Name: c.ref(n.Name()),
			Pos: c.ref(n.Pos()), Out: c.ref(strings.Join(results[n], ", ")), Dead: !live[i],
			Leaf: n.Op().Class() == ir.ClassLeaf, Fixed: n.Op() == ir.OpWeight || n.Op() == ir.OpConst}
		for _, a := range n.Args() {
			rec.Args = append(rec.Args, a.ID())
		}
		rec.Attrs, rec.Body = c.attrs(n)
		if f != nil {
			rec.In, rec.Why = c.ref(f.Note(n)), c.ref(f.Why(n))
		}
	}
	c.record.Graphs[at].Nodes = nodes
	c.record.Graphs[at].Groups = findGroups(nodes, c.strings)
	return at
}

// attrs returns the attributes of a node that its type does not show, and the index of the graph of its body.
func (c *collector) attrs(n *ir.Node) (text Ref, body int) {
	var list []string
	for i, spec := range n.Op().Info().Attrs {
		switch v := n.Attrs()[i].Value.(type) {
		case *ir.Graph:
			last := c.lastOps
			if v != nil {
				body = c.ops(v, nil)
			}
			c.lastOps = last // the graph of the body is not the last one
			continue
		case *ir.Data:
			if v != nil && v.Elems() > 16 { // too many to show
				list = append(list, fmt.Sprintf("%s=%s%v", spec.Name, v.DType, v.Dims))
				continue
			}
		}
		s := ir.FormatAttr(n.Attrs()[i].Value)
		inType := n.Op().Class() == ir.ClassLeaf && (spec.Name == "dtype" || spec.Name == "shape")
		isDefault := spec.Default != nil && ir.FormatAttr(spec.Default) == s
		if spec.Name == "name" || inType || isDefault {
			continue
		}
		list = append(list, spec.Name+"="+cut(s, maxAttr))
	}
	return c.ref(strings.Join(list, ", ")), body
}

// cut shortens a text to n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// kernels records a graph of kernels, and returns its index.
func (c *collector) kernels(g *plan.Graph) int {
	at := len(c.record.Graphs)
	c.record.Graphs = append(c.record.Graphs, Graph{Kind: KernelGraph})
	var nodes []Node
	var made []int                   // by kernel: its node
	nodeOf := map[plan.ValueID]int{} // the node that a value comes from: its last writer so far, or a leaf
	once := g.Once()                 // number of kernels that run once, when the program is loaded
	for i, k := range g.Kernels() {
		n := Node{Op: c.ref(k.Name), Type: c.ref(extents(k)), Name: c.ref(""), Attrs: c.ref(strings.Join(k.Ops, ", "))}
		if i < once {
			n.In = c.ref("once, when loaded")
		} else {
			n.In = c.ref(string(k.Family))
		}
		for _, b := range k.Bindings {
			v := g.Value(b.Buffer)
			if !b.Read || v.Origin == plan.Params || v.Origin == plan.Codebook || v.Origin == plan.Fault {
				continue
			}
			from, ok := nodeOf[b.Buffer]
			if !ok {
				from = len(nodes)
				nodeOf[b.Buffer] = from
				nodes = append(nodes, c.value(v))
			}
			if !slices.Contains(n.Args, from) {
				n.Args = append(n.Args, from)
			}
		}
		var outs []string
		for _, b := range k.Bindings {
			if v := g.Value(b.Buffer); b.Write && g.Outlives(b.Buffer) && v.Node != nil {
				outs = append(outs, c.outlives(g, v))
			}
			if b.Write {
				nodeOf[b.Buffer] = len(nodes) // the node of this kernel, appended below
			}
		}
		n.Out = c.ref(strings.Join(slices.Compact(outs), ", "))
		if k.Loop != nil {
			n.Body = c.kernels(g.Bodies[k.Loop.Body])
		}
		nodes, made = append(nodes, n), append(made, len(nodes))
	}
	c.record.Graphs[at].Nodes = nodes
	c.record.Graphs[at].Groups = findGroups(nodes, c.strings)
	for i, k := range g.Kernels() {
		c.nodes[k] = &nodes[made[i]]
	}
	return at
}

// outlives returns the name of the output or state that has a value after the run, for people.
func (c *collector) outlives(g *plan.Graph, v *plan.Value) string {
	if v.Origin == plan.State {
		return "state " + ir.Printable(v.Node.Name())
	}
	for _, o := range g.Ops.Outputs() {
		if o.Node == v.Node {
			return "output " + ir.Printable(o.Name)
		}
	}
	return "output"
}

// value returns the node of a value that exists before the first kernel runs: an input, state, weight or constant.
func (c *collector) value(v *plan.Value) Node {
	n := Node{Op: c.ref("value"), Type: c.ref(v.Type.String()), Leaf: true,
		Fixed: v.Origin == plan.Weight || v.Origin == plan.Const}
	switch v.Origin {
	case plan.Input:
		n.Op = c.ref("input")
	case plan.State:
		n.Op = c.ref("state")
	case plan.Weight:
		n.Op = c.ref("weight")
	case plan.Const:
		n.Op = c.ref("const")
	}
	if v.Node != nil {
		n.Name = c.ref(leafName(v.Node))
	}
	return n
}

// leafName returns the name of a leaf. Of weights that are concatenated, it returns the first one's.
func leafName(n *ir.Node) string {
	for n.Name() == "" && len(n.Args()) > 0 {
		n = n.Arg(0)
	}
	return n.Name()
}

// extents returns the axes of a kernel, for people.
func extents(k *kernel.Kernel) string {
	s := ir.Shape(k.Parallel).String()
	if k.Family != kernel.FamilyMap && k.Loop == nil && k.Custom == nil {
		s += " fold " + k.Fold.String()
	}
	return s
}

// program records the shaders, decisions and buffers of a program.
func (c *collector) program(low *compiler.Lowered) {
	r, p := c.record, low.Program
	r.Title = cmp.Or(r.Title, p.Name, "graph")
	r.Arena, r.Apart = p.ArenaBytes, p.TempBytes
	r.Kernels, r.Shaders, r.Decisions = []Kernel{}, []Shader{}, []Decision{}
	first := make([]*kernel.Kernel, len(low.GLSL)) // by shader: a kernel that it computes; nil for persistent ones
	for i, st := range p.Steps {
		for _, one := range st.Kernels() {
			first[one.Shader] = low.Kernels[i]
		}
	}
	for i, source := range low.GLSL {
		r.Shaders = append(r.Shaders, Shader{Name: p.Shaders[i].Name, Source: source,
			Lines: c.lines(source, low.Origins(i), first[i])})
	}
	for _, d := range low.Decisions {
		r.Decisions = append(r.Decisions, Decision{Rule: d.Rule, Kernel: d.Kernel, What: d.What, Of: d.Of,
			Before: d.Before, After: d.After, Margin: d.Margin, Taken: d.Taken, Note: d.Note})
	}
	lives := lifetimes(p)
	for i, b := range p.Buffers {
		r.Buffers = append(r.Buffers, Buffer{Kind: b.Kind, Name: bufferName(b), Bytes: b.Bytes, Offset: b.Offset,
			Type: c.ref(ir.Type{DType: b.DType, Shape: b.Shape}.String()), First: lives[i][0], Last: lives[i][1]})
	}
}

// ownerOf returns the op of a kernel to which lines without an op of their own belong. It is the op that has the
// kernel's loop, such as matmul, or the only op that the kernel computes. It is "" if there is neither.
func ownerOf(k *kernel.Kernel) string {
	var computed []string
	for _, name := range k.Ops {
		op, err := ir.ParseOp(name)
		if err != nil || op.Class() == ir.ClassLeaf || op.Class() == ir.ClassView {
			continue
		}
		if k.Family != kernel.FamilyMap && !inline[op.Class()] {
			return name
		}
		computed = append(computed, name)
	}
	if len(computed) == 1 {
		return computed[0]
	}
	return ""
}

// inline has the classes of ops that kernels of other ops compute on the way.
var inline = map[ir.Class]bool{ir.ClassElementwise: true, ir.ClassIndexing: true, ir.ClassRandom: true}

// lines returns the ops of each line of a shader, given those that the code generator noted (origins). In main, a
// statement of a loop without an op belongs to the kernel's owner. So does an op that is not in the graph, such as the
// exp of a softmax; it follows the owner in the list.
func (c *collector) lines(source string, origins [][]string, k *kernel.Kernel) []Ref {
	owner := ""
	if k != nil {
		owner = ownerOf(k)
	}
	refs := make([]Ref, len(origins))
	inMain := false
	for i, line := range strings.Split(strings.TrimSuffix(source, "\n"), "\n") {
		inMain = inMain || strings.HasPrefix(line, "void main()")
		ops := origins[i]
		isStatement := strings.HasSuffix(line, ";")
		if owner == "" || !inMain || !isStatement && len(ops) == 0 {
			refs[i] = c.ref(strings.Join(ops, ", "))
			continue
		}
		var own, parts []string
		for _, op := range ops {
			if op == "load" || slices.Contains(k.Ops, op) {
				own = append(own, op)
			} else {
				parts = append(parts, op)
			}
		}
		switch {
		case len(parts) > 0:
			own = append(own, owner+": "+strings.Join(parts, ", "))
		case len(own) == 0 && k.Family != kernel.FamilyMap:
			own = append(own, owner)
		}
		refs[i] = c.ref(strings.Join(own, ", "))
	}
	return refs
}

// bufferName names a buffer, or the first of the weights that are concatenated in it.
func bufferName(b kernel.Buffer) string {
	if n := len(b.Segments); n > 1 {
		return fmt.Sprintf("%s and %d more", cmp.Or(b.Segments[0].Weight, "constant"), n-1)
	}
	return b.Name
}

// lifetimes returns, by buffer, the first and last step that may access it, or -1 and -1. Steps between two barriers
// may run at the same time. A region is a range of steps that repeats, so a buffer that is in use before it stays in
// use until its end.
func lifetimes(p *kernel.Program) [][2]int {
	// By step, the first and the last step between the same two barriers.
	begin, end := make([]int, len(p.Steps)), make([]int, len(p.Steps))
	for i := range p.Steps {
		begin[i] = i
		if i > 0 && !p.Steps[i].Barrier {
			begin[i] = begin[i-1]
		}
	}
	for i := len(p.Steps) - 1; i >= 0; i-- {
		end[i] = i
		if i+1 < len(p.Steps) && begin[i+1] != i+1 {
			end[i] = end[i+1]
		}
	}
	lives := slices.Repeat([][2]int{{-1, -1}}, len(p.Buffers))
	for i, st := range p.Steps {
		for _, b := range st.Binds {
			life := &lives[b.Buffer]
			if life[0] < 0 {
				life[0] = begin[i]
			}
			life[1] = max(life[1], end[i])
			for _, r := range p.Regions {
				if last := r.First + r.Count - 1; life[0] < r.First && r.First <= i && i <= last {
					life[1] = max(life[1], last)
				}
			}
		}
	}
	return lives
}

// kernel records step i of a program.
func (c *collector) kernel(low *compiler.Lowered, i int, caps device.Caps) {
	k, st := low.Kernels[i], low.Program.Steps[i]
	rec := Kernel{Name: st.Name, Family: string(k.Family), Ops: st.Ops, Schedule: st.Schedule, Reason: low.Reasons[i],
		Grid: gridText(st.Grid), Shader: st.Shader, Flops: st.Flops, Moved: st.Moved, Barrier: st.Barrier,
		Once: i < low.Program.Prepared, Text: k.String()}
	for _, a := range st.Alternatives {
		rec.Reason += fmt.Sprintf("; for %s <= %d %s", a.Symbol.Name, a.Symbol.Bound, a.Schedule)
	}
	if e := schedule.NewPricer(caps).Price(kernel.Rewrite{After: []*kernel.Kernel{k}, LastSplit: true}); e.Note == "" {
		rec.Price = e.After
	}
	var weights []string
	for _, b := range st.Binds {
		rec.Binds = append(rec.Binds, Bind{Buffer: b.Buffer, Write: b.Write, Read: b.Read})
		for _, s := range low.Program.Buffers[b.Buffer].Segments {
			weights = append(weights, s.Weight)
		}
	}
	for j, d := range c.record.Decisions {
		// A rule may have renamed the kernel. It still reads the same weights.
		about := slices.ContainsFunc(d.Of, func(w string) bool { return slices.Contains(weights, w) })
		if about || len(weights) == 0 && d.Kernel == k.Name {
			rec.Decisions = append(rec.Decisions, j)
		}
	}
	rec.Nodes, rec.Stored = nodesOf(low.Plan, k)
	if n := c.nodes[k]; n != nil {
		n.Step = i + 1
	}
	c.record.Kernels = append(c.record.Kernels, rec)
}

// nodesOf returns the nodes of the op graph that a kernel computes, and the nodes that it stores. A node that no kernel
// stores is computed by each kernel that needs it.
func nodesOf(g *plan.Graph, k *kernel.Kernel) (nodes, stored []int) {
	if !slices.Contains(g.Kernels(), k) {
		return nil, nil // it belongs to a loop's body
	}
	seen := map[*ir.Node]bool{}
	var visit func(n *ir.Node)
	visit = func(n *ir.Node) {
		if seen[n] || n.Op().Class() == ir.ClassLeaf {
			return
		}
		seen[n] = true
		nodes = append(nodes, n.ID())
		for _, a := range n.Args() {
			if len(g.Writers(a.ID())) == 0 {
				visit(a)
			}
		}
	}
	for _, b := range k.Bindings {
		if n := g.Value(b.Buffer).Node; b.Write && n != nil && n.Op().Class() != ir.ClassLeaf {
			stored = append(stored, n.ID())
			visit(n)
		}
	}
	slices.Sort(nodes)
	return nodes, stored
}

// gridText returns the number of workgroups along x, y and z as a formula, such as "⌈M/64⌉·B × 8 × 1".
func gridText(g kernel.Grid) string {
	var dims []string
	for _, d := range g {
		var factors []string
		for _, f := range d {
			if f.Tile == 1 {
				factors = append(factors, f.Extent.String())
			} else {
				factors = append(factors, fmt.Sprintf("⌈%s/%d⌉", f.Extent, f.Tile))
			}
		}
		dims = append(dims, cmp.Or(strings.Join(factors, "·"), "1"))
	}
	return strings.Join(dims, " × ")
}
