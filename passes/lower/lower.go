package lower

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
	"github.com/vkc-go/vkc/quant"
)

// lowerer makes the kernel of a cluster. It builds an expression for an element of each stored node, recursively from
// the arguments: a view reads its argument at other coordinates, an elementwise op applies to the elements of its
// arguments, a node that another cluster stores becomes a load, and a core of the cluster becomes the result of a loop.
type lowerer struct {
	exprs
	f     *Fusion
	c     *Cluster
	k     *kernel.Kernel
	bind  map[int]int                 // index of the binding, by the ID of the node that owns the buffer
	accs  map[*ir.Node][]*kernel.Expr // by core: the results of its loops
	first map[*ir.Node]*kernel.Expr   // by core, the first element of the row, for folds that need it
	memo  map[string]*kernel.Expr     // elements computed so far, by coordsKey
	ops   map[*ir.Node]bool           // nodes that the kernel computes
	names map[string]int              // number of bindings with a name
	waits map[*ir.Node]bool           // nodes already visited by waitFor
	// at are the current point's coordinates in space: in the folded tensor for row kernels, in the result for others.
	// kept are the coordinates without the folded axes.
	at, kept []kernel.Index
	space    ir.Shape
	// only is the range of a stored concat's arguments that this kernel stores; see Cluster.ranges. It is empty for
	// other kernels.
	only argRange

	// cuts means that a node needed at too large coordinates (see maxIndex) gets a cluster of its own. Otherwise it is
	// an error.
	cuts  bool
	grown bool // whether the current node's coordinates are larger than grownIndex
}

// numel returns the number of elements of a shape.
func numel(s ir.Shape) ir.Dim {
	n, err := s.Numel()
	bailout.Unless(err == nil, "counting the elements of %s: %w", s, err)
	return n
}

// tryLower returns the kernel of c if it stores all its tails, or the reason why c cannot be one kernel.
func (f *Fusion) tryLower(c *Cluster) (*kernel.Kernel, error) {
	c.Stored = c.tails
	return newLowerer(f, c).lower()
}

func newLowerer(f *Fusion, c *Cluster) *lowerer {
	return &lowerer{exprs: exprs{kernel.NewBuilder()}, f: f, c: c, k: &kernel.Kernel{}, bind: map[int]int{},
		accs: map[*ir.Node][]*kernel.Expr{}, first: map[*ir.Node]*kernel.Expr{}, memo: map[string]*kernel.Expr{},
		ops: map[*ir.Node]bool{}, names: map[string]int{}, waits: map[*ir.Node]bool{}}
}

// lowerCluster makes the kernels of a cluster. Most clusters become one kernel. A concat of many tensors becomes one
// kernel per range of arguments (Cluster.ranges). Kernels that zero the results of a custom kernel come before it.
func (f *Fusion) lowerCluster(c *Cluster) ([]*kernel.Kernel, error) {
	if c.ranges == nil {
		k, err := newLowerer(f, c).lower()
		if err != nil || k.Custom == nil {
			return []*kernel.Kernel{k}, err
		}
		zeros, err := f.zeroed(c, k)
		return append(zeros, k), err
	}
	var list []*kernel.Kernel
	for _, args := range c.ranges {
		l := newLowerer(f, c)
		l.only = args
		k, err := l.buildKernel(l.lowerMap)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

// lower makes the kernel of cluster l.c, by its kind.
func (l *lowerer) lower() (*kernel.Kernel, error) {
	if err := l.f.ctx.Err(); err != nil {
		return nil, err
	}
	return l.buildKernel(func() {
		for _, n := range l.c.Cores {
			l.ops[n] = true
		}
		switch l.c.Kind {
		case ClusterMap:
			l.lowerMap()
		case ClusterRow:
			l.lowerRow()
		case ClusterMatMul:
			l.lowerMatMul()
		case ClusterScan:
			l.lowerScan()
		case ClusterSort:
			l.lowerSort()
		case ClusterAttention:
			l.lowerAttention()
		case ClusterRecurrence:
			l.lowerRecurrence()
		case ClusterQuantize:
			l.lowerQuantize()
		case ClusterGroup:
			l.lowerGroup()
		case ClusterUpdate:
			l.lowerUpdate()
		case ClusterCustom:
			l.lowerCustom()
		case ClusterLoop:
			l.lowerLoop()
		}
	})
}

// buildKernel calls build, which adds axes, bindings and stores to the kernel, and completes the kernel: it binds
// codebooks and symbols, checks the limits, and names it. build bails out if the kernel cannot be built.
func (l *lowerer) buildKernel(build func()) (_ *kernel.Kernel, err error) {
	defer bailout.Caught(&err)
	build()
	l.bindCodebooks()
	// A kernel that reads a value waits for its writers anyway.
	l.k.After = slices.DeleteFunc(l.k.After, func(v int) bool {
		return slices.ContainsFunc(l.k.Bindings, func(b kernel.Binding) bool { return b.Read && b.Buffer == v })
	})
	slices.Sort(l.k.After)
	if len(l.k.Symbols()) > 0 {
		l.k.Bindings = append(l.k.Bindings,
			kernel.Binding{Name: "params", DType: ir.U32, Read: true, Buffer: l.f.Plan.Params, Params: true})
	}
	l.k.Ops, l.k.Name = l.opNames()
	if l.k.Loop != nil { // the limits apply to the kernels of its body
		return l.k, nil
	}
	if err := l.checkOverwrites(); err != nil {
		return nil, err
	}
	if n, most := len(l.k.Bindings), l.f.Limits.Bindings; n > most && l.k.Custom == nil {
		return nil, fmt.Errorf("the kernel would bind %d buffers, more than %d", n, most)
	}
	return l.k, nil
}

// bindCodebooks binds the codebook of every block format that the kernel reads.
func (l *lowerer) bindCodebooks() {
	bound := map[ir.DType]bool{}
	for _, b := range l.k.Bindings {
		d := quant.Codebook(b.DType)
		if d == nil || bound[b.DType] {
			continue
		}
		bound[b.DType] = true
		l.k.Bindings = append(l.k.Bindings,
			kernel.Binding{Name: b.DType.String() + "_codebook", DType: d.DType, Read: true,
				Buffer: l.f.Plan.Codebook(b.DType), Elems: int64(d.Elems()), Codebook: b.DType, Fixed: true})
	}
}

// opNames returns the kernel's ops in graph order, and the kernel's name. The name consists of at most three ops: the
// cores and the last op, or the ops other than views if there is no core.
func (l *lowerer) opNames() (ops []string, name string) {
	nodes := slices.SortedFunc(maps.Keys(l.ops), func(a, b *ir.Node) int { return a.ID() - b.ID() })
	var cores, computed []string // computed: the ops other than views
	for _, n := range nodes {
		ops = append(ops, n.Op().String())
		if isCore(n) {
			cores = append(cores, n.Op().String())
		}
		if !isView(n) {
			computed = append(computed, n.Op().String())
		}
	}
	parts := computed
	if len(cores) > 0 {
		parts = cores
		if last := nodes[len(nodes)-1]; !isCore(last) && !isView(last) {
			parts = append(parts, last.Op().String())
		}
	}
	if len(parts) == 0 { // only views, or no op at all
		parts = []string{"copy"}
	}
	if len(ops) == 0 {
		ops = []string{"copy"}
	}
	parts = slices.Compact(parts)
	if len(parts) > 3 {
		parts = append(parts[:2:2], parts[len(parts)-1])
	}
	return ops, strings.Join(parts, "_")
}

// exprs builds expressions. Its methods know neither the cluster nor the kernel.
type exprs struct{ b *kernel.Builder }

// op, f32, i32 and is apply an op: to the given dtype, to f32, to i32, or to bool.
func (l exprs) op(op ir.Op, t ir.DType, args ...*kernel.Expr) *kernel.Expr {
	return l.b.Apply(op, t, nil, args...)
}

func (l exprs) f32(op ir.Op, args ...*kernel.Expr) *kernel.Expr { return l.op(op, ir.F32, args...) }
func (l exprs) i32(op ir.Op, args ...*kernel.Expr) *kernel.Expr { return l.op(op, ir.I32, args...) }
func (l exprs) is(op ir.Op, args ...*kernel.Expr) *kernel.Expr  { return l.op(op, ir.Bool, args...) }

// hinted returns e with the name that it has in the shader's source.
func hinted(name string, e *kernel.Expr) *kernel.Expr {
	e.Hint = name
	return e
}

// parallel adds parallel axes to the kernel and returns the point's coordinates along them.
func (l *lowerer) parallel(shape ir.Shape) []kernel.Index {
	at := make([]kernel.Index, len(shape))
	for i, d := range shape {
		at[i] = kernel.Axis(len(l.k.Parallel), d)
		l.k.Parallel = append(l.k.Parallel, d)
	}
	return at
}

// lowerMap makes a kernel in which each point computes one element of the results.
func (l *lowerer) lowerMap() {
	l.k.Family = kernel.FamilyMap
	// Elements of a block cannot be stored one by one, so whole blocks are copied.
	if slices.ContainsFunc(l.c.tails, func(n *ir.Node) bool { return n.DType().IsBlock() }) {
		l.lowerCopy()
		return
	}
	l.space = l.c.tails[0].Shape()
	// The kernel stores only some arguments of a concat (see lowerCluster).
	if l.only != (argRange{}) {
		l.lowerConcatRange(l.c.tails[0])
		return
	}
	l.at = l.parallel(l.space)
	for _, n := range l.c.Stored {
		bailout.Unless(n.Shape().Equal(l.space), "shapes %s and %s differ", n.Shape(), l.space)
		l.store(n, l.at, perPoint)
	}
}

// lowerConcatRange makes a kernel that stores the arguments l.only of concat n.
func (l *lowerer) lowerConcatRange(n *ir.Node) {
	axis := analysis.Axis(n)
	begin := kernel.Const(0)
	for _, a := range n.Args()[:l.only.first] {
		begin = begin.Plus(kernel.DimIndex(a.Shape()[axis]))
	}
	length := ir.D(0)
	for _, a := range n.Args()[l.only.first:l.only.end] {
		length = bailout.Must(length.Sum(a.Shape()[axis]))
	}
	part := slices.Clone(l.space)
	part[axis] = length
	l.at = l.parallel(part)
	l.at[axis] = l.at[axis].Plus(begin)
	l.store(n, l.at, perPoint)
}

// indexOf converts an integer value to an index between 0 and last, and clamps it. Indices are computed in i32, so
// values of other dtypes are clamped to that range first.
func (l exprs) indexOf(v *kernel.Expr, last kernel.Index) kernel.Index {
	switch v.Kind {
	case kernel.ExprConst:
		return kernel.Clamp(kernel.Const(min(max(v.Int, 0), math.MaxInt32)), last)
	case kernel.ExprIndex:
		return kernel.Clamp(v.Index, last)
	}
	switch t := v.DType; t {
	case ir.I64:
		v = l.op(ir.OpMax, t, v, l.b.Integer(t, 0))
		fallthrough
	case ir.U32:
		v = l.op(ir.OpMin, t, v, l.b.Integer(t, math.MaxInt32))
		v = l.b.Cast(ir.I32, v)
	}
	return kernel.ValueIndex(v, last)
}

// How often a kernel stores a value, see kernel.Store.PerElement: once per point of its parallel axes, such as a row's
// sum, or once per element along its fold axis, such as each element of a row.
const (
	perPoint   = false
	perElement = true
)

// store adds a store of the element of n at coordinates at.
func (l *lowerer) store(n *ir.Node, at []kernel.Index, perElement bool) {
	v := l.value(n, at)
	l.k.Stores = append(l.k.Stores, kernel.Store{Bind: l.binding(n, writing), Index: kernel.Linear(n.Shape(), at),
		Value: kernel.Unstored(v), PerElement: perElement})
}

// reshaped returns the coordinates in shape `from` of the element with coordinates at in shape `to`, which has as many
// elements. Equal leading and trailing axes keep their coordinates.
func reshaped(from, to ir.Shape, at []kernel.Index) []kernel.Index {
	head, tail := 0, 0
	for head < len(from) && head < len(to) && from[head] == to[head] {
		head++
	}
	for tail < len(from)-head && tail < len(to)-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	middle := kernel.Unflatten(from[head:len(from)-tail], kernel.Linear(to[head:len(to)-tail], at[head:len(to)-tail]))
	return slices.Concat(at[:head], middle, at[len(to)-tail:])
}

// access says whether a kernel reads or writes a buffer.
type access bool

const (
	reading access = false
	writing access = true
)

// binding returns the index of the kernel's binding of n's buffer, and adds it at the first call.
func (l *lowerer) binding(n *ir.Node, how access) int {
	buffer := l.f.bufferNode(n)
	id := buffer.ID()
	i, ok := l.bind[id]
	if !ok {
		i = len(l.k.Bindings)
		l.bind[id] = i
		l.k.Bindings = append(l.k.Bindings, kernel.Binding{Name: l.bufferName(n, how), DType: n.DType(), Buffer: id,
			Elems: n.Shape().MaxElems(), Fixed: analysis.IsFixed(buffer), Layout: l.f.Plan.Value(id).Layout,
			KeepsDecoded: l.f.keepsDecoded && analysis.IsFixed(buffer) && n.DType().IsBlock()})
	}
	if how == writing {
		l.k.Bindings[i].Write = true
	} else {
		l.k.Bindings[i].Read = true
	}
	return i
}

// bufferNode returns the node that owns the buffer of n: the state if n is its new value, the loop's result if n is its
// initial value, or else n.
func (f *Fusion) bufferNode(n *ir.Node) *ir.Node {
	for s := f.overwrites(n); s != nil; s = f.overwrites(n) {
		n = s
	}
	return n
}

// checkOverwrites returns an error if the kernel reads and writes the same buffer, because an invocation could then
// overwrite an element that another one has yet to read. Maps and recurrences may do so if every invocation reads only
// the element that it writes: it reads the element first.
func (l *lowerer) checkOverwrites() error {
	for i, b := range l.k.Bindings {
		if !b.Read || !b.Write || l.k.Custom != nil && l.k.Custom.Zeroed(i) {
			continue
		}
		bad := l.k.Family != kernel.FamilyMap && l.k.Family != kernel.FamilyRecurrence
		kernel.Walk(l.k.Roots(), func(e *kernel.Expr) {
			for _, s := range l.k.Stores {
				if e.Kind == kernel.ExprLoad && e.Bind == i && s.Bind == i && !e.Index.Equal(s.Index) {
					bad = true
				}
			}
		})
		if bad {
			return errOverwrites
		}
	}
	return nil
}

// errOverwrites means that a kernel would read elements that its other invocations may have overwritten.
var errOverwrites = errors.New("it would overwrite elements that it has yet to read")

// bufferName returns a readable name for a binding. All weights are called "weight", so that the kernels of all layers
// of a model have the same source.
func (l *lowerer) bufferName(n *ir.Node, how access) string {
	name := n.Op().String()
	switch {
	case how == writing && l.c.Kind == ClusterUpdate:
		name = "state"
	case how == writing:
		name = "out"
		if len(l.c.Stored) > 1 {
			name = "out_" + n.Op().String()
		}
	case n.Op() == ir.OpWeight || analysis.IsPacked(n):
		name = "weight"
	case n.Op() == ir.OpInput:
		name = ident(n.Name())
	}
	l.names[name]++
	if c := l.names[name]; c > 1 {
		name = fmt.Sprintf("%s_%d", name, c)
	}
	return name
}

// ident turns a name into a GLSL identifier of at most 43 bytes. A run of bytes that an identifier cannot have becomes
// one underscore, because GLSL reserves names with two underscores in a row.
func ident(s string) string {
	var out []byte
	for _, r := range []byte(s) {
		// The prefix x allows r to be a digit, which cannot begin an identifier.
		if !ir.IsIdent("x"+string(r)) || r == '_' {
			if len(out) > 0 && out[len(out)-1] != '_' {
				out = append(out, '_')
			}
			continue
		}
		out = append(out, r)
	}
	name := strings.Trim(string(out[:min(len(out), 40)]), "_")
	if !ir.IsIdent(name) {
		name = "in_" + name
	}
	return strings.TrimSuffix(name, "_")
}

// errNotIdentity means that a kernel needs a result of its own loop that another invocation computes.
var errNotIdentity = errors.New("the next op reads it at other coordinates")

// requireSame bails out unless two elements have the same coordinates, so that one invocation computes both.
func requireSame(a, b []kernel.Index) {
	if !slices.EqualFunc(a, b, func(x, y kernel.Index) bool { return x.Equal(y) }) {
		bailout.Check(errNotIdentity)
	}
}

// coordsKey returns the key in memo of an element of n.
func coordsKey(n *ir.Node, at []kernel.Index) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", n.ID())
	for _, x := range at {
		b.WriteString("|")
		b.WriteString(x.String())
	}
	return b.String()
}

// value returns the element of n at coordinates at, rounded to n's dtype. Devices may compute with more precision or
// range than that; later ops in the same kernel must see the same value as in the reference.
func (l *lowerer) value(n *ir.Node, at []kernel.Index) *kernel.Expr {
	// sizeOf takes time, so only elements that a node with large coordinates needs are checked.
	if l.grown && sizeOf(at) > maxIndex {
		bailout.Check(errIndex)
	}
	key := coordsKey(n, at)
	if e, ok := l.memo[key]; ok {
		return e
	}
	e := l.compute(n, at)
	if !n.DType().IsBlock() { // elements of blocks are decoded to f32
		e = l.b.Cast(n.DType(), e)
	}
	if e.Hint == "" && e.Kind == kernel.ExprApply {
		e.Hint = n.Op().String()
	}
	l.memo[key] = e
	return e
}

// compute returns node n at coordinates at, as value does, but without rounding it to n's dtype. It loads nodes that
// other clusters store.
func (l *lowerer) compute(n *ir.Node, at []kernel.Index) *kernel.Expr {
	if h := l.f.storedBy[n.ID()]; h != nil && h != l.c {
		return l.load(n, at)
	}
	if analysis.IsLeaf(n) {
		return l.leaf(n, at)
	}
	l.ops[n] = true
	if slices.Contains(l.c.Cores, n) {
		return l.coreResult(n, at)
	}
	bailout.Unless(!isCore(n), "%s (%s) is not placed", n, n.Op())
	// l.cuts is set while cutIndices searches for chains with large indices. Then such a node gets a cluster here.
	if !l.cuts || n.DType().IsBlock() {
		return l.inline(n, at)
	}
	e, err := l.tryInline(n, at)
	if errors.Is(err, errIndex) {
		l.f.newCluster(ClusterMap, n)
		l.f.why[n.ID()] = "stored: " + errIndex.Error()
		return l.load(n, at)
	}
	bailout.Check(err)
	return e
}

// inline returns the element of n, which the kernel computes from n's arguments.
func (l *lowerer) inline(n *ir.Node, at []kernel.Index) *kernel.Expr {
	grown := l.grown
	l.grown = sizeOf(at) > grownIndex
	e := l.pointwise(n, at)
	l.grown = grown
	return e
}

// tryInline returns the element of n, as inline does, or the error with which inline would bail out.
func (l *lowerer) tryInline(n *ir.Node, at []kernel.Index) (_ *kernel.Expr, err error) {
	defer func(grown bool) { l.grown = grown }(l.grown)
	defer bailout.Caught(&err)
	return l.inline(n, at), nil
}

// load returns the load of an element of n from its buffer.
func (l *lowerer) load(n *ir.Node, at []kernel.Index) *kernel.Expr {
	bind := l.binding(n, reading)
	return l.b.Load(bind, n.DType(), kernel.Linear(n.Shape(), at), l.k.Bindings[bind].Name)
}

// leaf returns the element of a leaf: a number that the kernel knows, or a load.
func (l *lowerer) leaf(n *ir.Node, at []kernel.Index) *kernel.Expr {
	switch n.Op() {
	case ir.OpConst:
		if v, ok := n.Number(); ok {
			return l.b.Number(n.DType(), v)
		}
	case ir.OpIota:
		axis := analysis.Axis(n)
		return l.b.Cast(n.DType(), l.b.FromIndex(at[axis]))
	case ir.OpDimValue:
		return l.b.FromIndex(kernel.DimIndex(n.Attrs().Shape("dim")[0]))
	}
	return l.load(n, at)
}
