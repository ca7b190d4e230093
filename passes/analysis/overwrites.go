package analysis

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// A state is updated in place if its new value is the old one with some parts rewritten, and no kernel needs the old
// value after that. Kernels then write the parts into the state's buffer, one kernel per write. If an operand of a
// write depends on the old value, such as rows to be modified, it is computed into a buffer of its own first.

// Write is an op with a result that equals one of its arguments, the base, except for some parts.
type Write struct {
	Op   *ir.Node // a dynamic_update_slice, a scatter, or a where that keeps a state's elements
	base *ir.Node // the base, without reshapes
	Arg  int      // index of the base among Op's arguments
}

// WriteOf returns the write that has the result n, or a reshape of n as its result. ok is false if n is no such result.
func WriteOf(n *ir.Node) (w Write, ok bool) {
	w.Op = Unshaped(n)
	switch {
	case w.Op.Op() == ir.OpDynamicUpdateSlice || IsScatter(w.Op):
	case w.Op.Op() == ir.OpWhere && w.Op.Arg(0).DType() == ir.Bool && keepsState(w.Op, 2):
		w.Arg = 2
	case w.Op.Op() == ir.OpWhere && w.Op.Arg(0).DType() == ir.Bool && keepsState(w.Op, 1):
		w.Arg = 1
	default:
		return Write{}, false
	}
	w.base = Unshaped(w.Op.Arg(w.Arg))
	return w, true
}

// nextToBase returns the node after x on the way from a write's result to its base. x is the write or a reshape.
func (w Write) nextToBase(x *ir.Node) *ir.Node {
	if x == w.Op {
		return x.Arg(w.Arg)
	}
	return x.Arg(0)
}

// keepsState reports whether argument arg of a where is a state with the shape of the result.
func keepsState(where *ir.Node, arg int) bool {
	x := where.Arg(arg)
	return Unshaped(x).Op() == ir.OpState && x.Shape().Equal(where.Shape())
}

// IsScatter reports whether n writes rows or elements by index.
func IsScatter(n *ir.Node) bool {
	scatters := []ir.Op{ir.OpScatter, ir.OpScatterAdd, ir.OpIndexAdd, ir.OpScatterND, ir.OpScatterNDAdd}
	return slices.Contains(scatters, n.Op())
}

// Unshaped returns n, or the node below it if n is a reshape. A reshape to the same shape means a copy and is not
// skipped; see rewrite.SeparateBuffers.
func Unshaped(n *ir.Node) *ir.Node {
	for n.Op() == ir.OpReshape && !IsCopy(n) {
		n = n.Arg(0)
	}
	return n
}

// Values returns the operand with the new elements that a write stores.
func (w Write) Values() *ir.Node {
	switch {
	case IsScatter(w.Op):
		return w.Op.Arg(2)
	case w.Op.Op() == ir.OpWhere:
		return w.Op.Arg(3 - w.Arg)
	}
	return w.Op.Arg(1)
}

// paysInPlace reports whether a write should be in place: it writes no more elements than a copy of the state would.
// Elements in block formats can only be written in place.
func (w Write) paysInPlace() bool {
	return !IsScatter(w.Op) || w.Op.DType().IsBlock() || w.Values().Shape().MaxElems() <= w.Op.Shape().MaxElems()
}

// Overwrites records which states of a graph are updated in place.
//
// Kernels that read the old value of such a state must run before its first write. Later fusion may put any node that
// depends on the old value into such a kernel, so all these nodes must come before the first write. Operands of the
// state's own writes are an exception: if they are small, a kernel stores them in buffers before the first write. If
// the order is impossible, because the first write would have to run before itself, the state is written as a whole: a
// kernel computes the new value, and it is copied to the state.
type Overwrites struct {
	users   [][]*ir.Node            // by node: the nodes that have it as an argument
	shown   map[*ir.Node]int        // by node: the number of outputs and new values of states that it is
	updates map[*ir.Node]int        // by node: the number of states that it is the new value of
	InPlace map[*ir.Node][]*ir.Node // by state: the results of its writes in place, last first
	Whole   map[*ir.Node]string     // by state: the reason why it is written as a whole
	waiting map[*ir.Node][]*ir.Node // by node: the first writes of states that must come after it
	early   map[Edge]bool           // operands of writes that must be stored before the first write
	search  int                     // nodes that searches for an order may still visit; bounds the time
}

// Edge is a value and one of its users.
type Edge struct{ Value, user *ir.Node }

// NewOverwrites decides which states of a graph can be updated in place.
func NewOverwrites(g *ir.Graph) *Overwrites { return newOverwrites(g, false) }

// DecidedOverwrites returns the decisions of the pass `interface` (rewrite.SeparateBuffers). That pass inserted a copy
// before each update that is not in place.
func DecidedOverwrites(g *ir.Graph) *Overwrites { return newOverwrites(g, true) }

// newOverwrites decides for each update of a state which ops write the state's memory. decided says that an earlier
// decision has inserted copies into the graph; see DecidedOverwrites.
func newOverwrites(g *ir.Graph, decided bool) *Overwrites {
	o := &Overwrites{users: g.Users(), shown: map[*ir.Node]int{}, updates: map[*ir.Node]int{},
		InPlace: map[*ir.Node][]*ir.Node{}, Whole: map[*ir.Node]string{}, waiting: map[*ir.Node][]*ir.Node{},
		early: map[Edge]bool{}, search: 4 * len(g.Nodes())}
	for _, out := range g.Outputs() {
		o.shown[out.Node]++
	}
	for _, u := range g.Updates() {
		o.shown[u.Value]++
		o.updates[newValue(u)]++
	}
	for _, u := range g.Updates() {
		o.decide(u, decided)
	}
	return o
}

// Writes returns the ops that write states in place.
func (o *Overwrites) Writes() map[*ir.Node]bool {
	all := map[*ir.Node]bool{}
	for _, values := range o.InPlace {
		for _, n := range values {
			w, _ := WriteOf(n)
			all[w.Op] = true
		}
	}
	return all
}

// onlyReadBy reports whether all nodes that read n are in the set readers, and n is neither an output nor a state's new
// value.
func (o *Overwrites) onlyReadBy(readers map[*ir.Node]bool, n *ir.Node) bool {
	return o.shown[n] == 0 && !slices.ContainsFunc(o.users[n.ID()], func(x *ir.Node) bool { return !readers[x] })
}

// StoresFirst reports whether an operand of a write must be stored before the state's first write.
func (o *Overwrites) StoresFirst(operand, user *ir.Node) bool { return o.early[Edge{operand, user}] }

// OnlyUpdates reports whether n is one output or one state's new value, and no node reads it.
func (o *Overwrites) OnlyUpdates(n *ir.Node) bool {
	return len(o.users[n.ID()]) == 0 && o.shown[n] == 1
}

// ReadOnce reports whether exactly one argument of one node is n, and n is neither an output nor a state's new value.
func (o *Overwrites) ReadOnce(n *ir.Node) bool { return len(o.users[n.ID()]) == 1 && o.shown[n] == 0 }

// decide decides whether a state is updated in place, and records the result in InPlace or Whole. If decided is true,
// an earlier decision has inserted a copy before each update that is not in place, so every other update is.
func (o *Overwrites) decide(u ir.Update, decided bool) {
	values, own, why := o.chain(u)
	if why == "" && (IsCopy(u.Value) || !decided && !o.order(u.State, own, values)) {
		why = "the old value is needed where the new one is, or after it"
	}
	if why != "" {
		o.Whole[u.State] = why
		return
	}
	o.InPlace[u.State] = values
}

// IsCopy reports whether n is a reshape to the same shape.
func IsCopy(n *ir.Node) bool { return n.Op() == ir.OpReshape && n.Shape().Equal(n.Arg(0).Shape()) }

// newValue returns the new value of a state. If that is a copy, it returns the copied value.
func newValue(u ir.Update) *ir.Node {
	if IsCopy(u.Value) {
		return u.Value.Arg(0)
	}
	return u.Value
}

// OpAt describes a node for an error: its op and, if known, its source position.
func OpAt(n *ir.Node) string {
	if n.Pos() == "" {
		return fmt.Sprintf("%s = %s", n, n.Op())
	}
	return n.Pos() + ": " + n.Op().String()
}

// WhyNot returns the reason why a write is not in place.
func (o *Overwrites) WhyNot(w Write) string {
	for next, ok := WriteOf(w.base); ok; next, ok = WriteOf(w.base) {
		w = next
	}
	if why := o.Whole[w.base]; why != "" {
		return why
	}
	return fmt.Sprintf("its result updates no state, or a state other than its base %s", w.base)
}

// chain follows a state's new value through writes back to the old value. values are the results of these writes, last
// first. own is the set of all nodes on the way, including reshapes and the slices of nested writes (see Nested). why
// is the reason if the state cannot be updated in place.
func (o *Overwrites) chain(u ir.Update) (values []*ir.Node, own map[*ir.Node]bool, why string) {
	value := newValue(u)
	switch {
	case o.shown[u.State] > 0:
		return nil, nil, "its old value is an output, or the new value of another state"
	case o.updates[value] > 1:
		return nil, nil, "another state has the same new value"
	}
	own = map[*ir.Node]bool{}
	// n goes from the new value to the old one, a write at a time.
	for n := value; n != u.State; {
		w, ok := WriteOf(n)
		switch {
		case !ok:
			return nil, nil, fmt.Sprintf("%s is not a write of parts of the old value", n)
		case Unshaped(w.Values()) == u.State:
			return nil, nil, fmt.Sprintf("%s writes the old value itself, which may move it", w.Op)
		case !w.paysInPlace():
			return nil, nil, fmt.Sprintf("%s writes more than a copy does", w.Op)
		}
		values = append(values, n)
		// The write and its reshapes may have no other readers, or these would see later values.
		for x := n; x != w.base; x = w.nextToBase(x) {
			if x != value && !o.onlyReadBy(own, x) {
				return nil, nil, fmt.Sprintf("something else needs %s too", x)
			}
			own[x] = true
		}
		for _, x := range o.regions(w) {
			own[x] = true
		}
		if n = w.base; n != u.State && !o.onlyReadBy(own, n) {
			return nil, nil, fmt.Sprintf("something else needs %s too", n)
		}
	}
	for _, e := range o.Operands(values) { // the state's memory would change before it is read
		if x := Unshaped(e.Value); x == u.State || own[x] {
			return nil, nil, fmt.Sprintf("%s writes elements that the state has elsewhere", e.user)
		}
	}
	return values, own, ""
}

// order records that every node that depends on a state's old value, except the state's own writes, comes before its
// first write. It returns false if that is impossible, because such a node depends on the first write. own are the
// nodes of the state's own writes, and values their results, last first.
func (o *Overwrites) order(state *ir.Node, own map[*ir.Node]bool, values []*ir.Node) bool {
	first := values[len(values)-1]
	var readers []*ir.Node
	for _, x := range o.users[state.ID()] {
		if !own[x] {
			readers = append(readers, x)
		}
	}
	if len(readers) == 0 {
		return true
	}
	canStore := map[Edge]bool{} // by operand of the state's writes
	for _, e := range o.Operands(values) {
		canStore[e] = canStoreFirst(e.user, e.Value)
	}
	// old are the nodes that depend on the old value; an operand that is stored first ends the dependency.
	old, ok := o.reach(readers, func(n *ir.Node) []*ir.Node {
		return slices.DeleteFunc(slices.Clone(o.users[n.ID()]), func(u *ir.Node) bool { return canStore[Edge{n, u}] })
	})
	if !ok {
		return false
	}
	later, ok := o.reach([]*ir.Node{first}, func(n *ir.Node) []*ir.Node {
		return slices.Concat(o.users[n.ID()], o.waiting[n])
	})
	for n := range old {
		ok = ok && !later[n]
	}
	if !ok {
		return false
	}
	for n := range old {
		o.waiting[n] = append(o.waiting[n], first)
	}
	for e, may := range canStore {
		if may && old[e.Value] {
			o.early[e] = true
		}
	}
	return true
}

// canStoreFirst reports whether storing an operand of a write in a buffer moves less memory than a copy of the state. A
// where has an operand as large as the state, so storing that never pays.
func canStoreFirst(write, operand *ir.Node) bool {
	return write.Op() != ir.OpWhere && !write.DType().IsBlock() &&
		operand.Shape().MaxElems() <= write.Shape().MaxElems()/2
}

// Operands returns the operands, except the bases, of the writes with the given results.
func (o *Overwrites) Operands(values []*ir.Node) (all []Edge) {
	for _, n := range values {
		w, _ := WriteOf(n)
		all = append(all, o.operandsOf(w)...)
	}
	return all
}

// operandsOf returns the operands, except the base, of a write and of the writes nested in it.
func (o *Overwrites) operandsOf(w Write) (all []Edge) {
	for {
		inner, region, ok := o.Nested(w)
		for i, x := range w.Op.Args() {
			nested := ok && i == 1 // the next round lists the operands of the inner write instead
			if i != w.Arg && !nested && !slices.Contains(region, x) {
				all = append(all, Edge{x, w.Op})
			}
		}
		if !ok {
			return all
		}
		w = inner
	}
}

// reach returns the set of nodes reachable from the given ones, inclusive, or false if the search takes too long.
// follow returns the successors of a node.
func (o *Overwrites) reach(nodes []*ir.Node, follow func(*ir.Node) []*ir.Node) (map[*ir.Node]bool, bool) {
	seen := map[*ir.Node]bool{}
	for next := slices.Clone(nodes); len(next) > 0; o.search-- {
		if o.search == 0 { // all searches of a graph share this limit
			return nil, false
		}
		n := next[len(next)-1]
		next = next[:len(next)-1]
		if !seen[n] {
			seen[n] = true
			next = append(next, follow(n)...)
		}
	}
	return seen, true
}

// Nested matches a write along two axes: w writes a slice of its own base back to the position that the slice was taken
// from, after an inner write has changed a part of the slice. So only the elements of the inner write change. region
// has the node of the slice and its reshapes.
func (o *Overwrites) Nested(w Write) (inner Write, region []*ir.Node, ok bool) {
	if w.Op.Op() != ir.OpDynamicUpdateSlice || w.Op.DType().IsBlock() || w.Op.Attrs().Bool("wrap") {
		return Write{}, nil, false
	}
	inner.Op = w.Op.Arg(1)
	for inner.Op.Op() == ir.OpReshape && !IsCopy(inner.Op) && o.ReadOnce(inner.Op) {
		inner.Op = inner.Op.Arg(0)
	}
	if inner.Op.Op() != ir.OpDynamicUpdateSlice || !o.ReadOnce(inner.Op) {
		return Write{}, nil, false
	}
	inner.base = inner.Op.Arg(0)
	slice := inner.base
	for slice.Op() == ir.OpReshape && o.ReadOnce(slice) {
		region = append(region, slice)
		slice = slice.Arg(0)
	}
	if slice.Op() != ir.OpDynamicSlice || !o.ReadOnce(slice) {
		return Write{}, nil, false
	}
	sameStart := slice.Arg(1) == w.Op.Arg(2) && slice.Attrs().Int("axis") == w.Op.Attrs().Int("axis")
	ok = slice.Arg(0) == w.Op.Arg(0) && sameStart && slice.Shape().Equal(w.Op.Arg(1).Shape())
	return inner, append(region, slice), ok
}

// regions returns the slice nodes of all writes nested in w (see Nested).
func (o *Overwrites) regions(w Write) (all []*ir.Node) {
	for {
		inner, region, ok := o.Nested(w)
		if !ok {
			return all
		}
		all, w = append(all, region...), inner
	}
}
