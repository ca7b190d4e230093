package passes

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// A state is updated in place if its new value is the old one with some parts rewritten, and nothing that may run later
// reads the old value. Kernels then write those parts into the state's buffer, one kernel per write. An operand of a
// write that depends on the old value, such as modified rows, is stored first.
//
// write is a value computed from another one, its base, by rewriting parts.

// write is a value that equals another one, its base, except for some parts.
type write struct {
	op   *ir.Node // a dynamic_update_slice, a scatter, or a where that keeps a state's elements
	base *ir.Node
	arg  int // index of the base among op's arguments
}

// writeOf matches n as the result of a write, perhaps reshaped.
func writeOf(n *ir.Node) (w write, ok bool) {
	w.op = unshaped(n)
	switch {
	case w.op.Op() == ir.OpDynamicUpdateSlice || isScatter(w.op):
	case w.op.Op() == ir.OpWhere && w.op.Arg(0).DType() == ir.Bool && keepsState(w.op, 2):
		w.arg = 2
	case w.op.Op() == ir.OpWhere && w.op.Arg(0).DType() == ir.Bool && keepsState(w.op, 1):
		w.arg = 1
	default:
		return write{}, false
	}
	w.base = unshaped(w.op.Arg(w.arg))
	return w, true
}

// before returns the node before x on the chain from a write's value to its base: x reshapes it or writes into it.
func (w write) before(x *ir.Node) *ir.Node {
	if x == w.op {
		return x.Arg(w.arg)
	}
	return x.Arg(0)
}

// keepsState reports whether an argument of a where is a state of the result's size.
func keepsState(where *ir.Node, arg int) bool {
	x := where.Arg(arg)
	return unshaped(x).Op() == ir.OpState && x.Shape().Equal(where.Shape())
}

// isScatter reports whether n writes rows or elements by index.
func isScatter(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpScatter, ir.OpScatterAdd, ir.OpIndexAdd, ir.OpScatterND, ir.OpScatterNDAdd:
		return true
	}
	return false
}

// unshaped strips reshapes. A reshape to the same shape is a copy and stays; see ownValues.
func unshaped(n *ir.Node) *ir.Node {
	for n.Op() == ir.OpReshape && !isCopy(n) {
		n = n.Arg(0)
	}
	return n
}

// values returns the values that a write stores.
func (w write) values() *ir.Node {
	switch {
	case isScatter(w.op):
		return w.op.Arg(2)
	case w.op.Op() == ir.OpWhere:
		return w.op.Arg(3 - w.arg)
	}
	return w.op.Arg(1)
}

// suits reports whether a write is better in place: it writes no more elements than a copy would. Blocks can only be
// written in place.
func (w write) suits() bool {
	return !isScatter(w.op) || w.op.DType().IsBlock() || w.values().Shape().MaxElems() <= w.op.Shape().MaxElems()
}

// overwrites records which states of a graph are updated in place.
//
// Kernels that read the old value of such a state must run before its first write. They may fuse nodes that depend on
// the old value, so all of these nodes must come before the write, except the write's own operands; small ones of those
// are materialized first. A state whose first write would then depend on itself is written as a whole.
type overwrites struct {
	g       *ir.Graph
	users   [][]*ir.Node
	shown   map[*ir.Node]int        // number of outputs and updates of each node
	news    map[*ir.Node]int        // number of states with this node as the new value
	inPlace map[*ir.Node][]*ir.Node // by state, the values that successively occupy its buffer, last first
	whole   map[*ir.Node]string     // by state, the reason why it is written as a whole
	waiting map[*ir.Node][]*ir.Node // by node, the first writes that must come after it
	early   map[edge]bool           // operands of writes that are stored before the first write
	search  int                     // remaining nodes to visit in searches for an order
}

// edge is a value and one of its users.
type edge struct{ value, user *ir.Node }

// newOverwrites decides which states of a graph can be updated in place. decided means that an earlier pass chose
// already: then states updated by a copy are not in place.
func newOverwrites(g *ir.Graph, decided bool) *overwrites {
	o := &overwrites{g: g, users: g.Users(), shown: map[*ir.Node]int{}, news: map[*ir.Node]int{},
		inPlace: map[*ir.Node][]*ir.Node{}, whole: map[*ir.Node]string{}, waiting: map[*ir.Node][]*ir.Node{},
		early: map[edge]bool{}, search: 4 * len(g.Nodes())}
	for _, out := range g.Outputs() {
		o.shown[out.Node]++
	}
	for _, u := range g.Updates() {
		o.shown[u.Value]++
		o.news[newValue(u)]++
	}
	for _, u := range g.Updates() {
		o.decide(u, decided)
	}
	return o
}

// writes returns the ops that write states in place.
func (o *overwrites) writes() map[*ir.Node]bool {
	all := map[*ir.Node]bool{}
	for _, values := range o.inPlace {
		for _, n := range values {
			w, _ := writeOf(n)
			all[w.op] = true
		}
	}
	return all
}

// only reports whether n has no readers except these.
func (o *overwrites) only(readers map[*ir.Node]bool, n *ir.Node) bool {
	return o.shown[n] == 0 && !slices.ContainsFunc(o.users[n.ID()], func(x *ir.Node) bool { return !readers[x] })
}

// storesFirst reports whether a user's operand is stored before the first write.
func (o *overwrites) storesFirst(operand, user *ir.Node) bool { return o.early[edge{operand, user}] }

// onlyUpdates reports whether n is the new value of one state, and nothing else.
func (o *overwrites) onlyUpdates(n *ir.Node) bool {
	return len(o.users[n.ID()]) == 0 && o.shown[n] == 1
}

// once reports whether one node reads n, once, and nothing else.
func (o *overwrites) once(n *ir.Node) bool { return len(o.users[n.ID()]) == 1 && o.shown[n] == 0 }

// decide determines whether a state is updated in place, or why not.
func (o *overwrites) decide(u ir.Update, decided bool) {
	values, own, why := o.chain(u)
	switch {
	case why != "":
	case isCopy(u.Value), !decided && !o.order(u.State, own, values):
		why = "the old value is needed where the new one is, or after it"
	default:
		o.inPlace[u.State] = values
		return
	}
	o.whole[u.State] = why
}

// isCopy reports whether n is a reshape to the same shape.
func isCopy(n *ir.Node) bool { return n.Op() == ir.OpReshape && n.Shape().Equal(n.Arg(0).Shape()) }

// newValue returns the new value of a state, without a copy.
func newValue(u ir.Update) *ir.Node {
	if isCopy(u.Value) {
		return u.Value.Arg(0)
	}
	return u.Value
}

// opAt describes a node for an error: its op and, if known, its source position.
func opAt(n *ir.Node) string {
	if n.Pos() == "" {
		return fmt.Sprintf("%s = %s", n, n.Op())
	}
	return n.Pos() + ": " + n.Op().String()
}

// whyNot returns why a write is not in place.
func (o *overwrites) whyNot(w write) string {
	for {
		next, ok := writeOf(w.base)
		if !ok {
			break
		}
		w = next
	}
	if why := o.whole[w.base]; why != "" {
		return why
	}
	return fmt.Sprintf("no state is updated with it, or not the one that %s is", w.base)
}

// chain follows a state's new value through writes back to the old value. It returns the values on the way, last first,
// and the nodes that are part of the writes, or why the state cannot be updated in place.
func (o *overwrites) chain(u ir.Update) (values []*ir.Node, own map[*ir.Node]bool, why string) {
	value := newValue(u)
	switch {
	case o.shown[u.State] > 0:
		return nil, nil, "its old value is an output or another state's new value"
	case o.news[value] > 1:
		return nil, nil, "another state has the same new value"
	}
	own = map[*ir.Node]bool{} // writes, and the shapes that they are seen in
	for n := value; n != u.State; {
		w, ok := writeOf(n)
		switch {
		case !ok:
			return nil, nil, fmt.Sprintf("%s is not a write of parts of the old value", n)
		case unshaped(w.values()) == u.State:
			return nil, nil, fmt.Sprintf("%s writes the old value itself, which may move it", w.op)
		case !w.suits():
			return nil, nil, fmt.Sprintf("%s writes more than a copy does", w.op)
		}
		values = append(values, n)
		for x := n; x != w.base; x = w.before(x) {
			if x != value && !o.only(own, x) {
				return nil, nil, fmt.Sprintf("%s is needed elsewhere, too", x)
			}
			own[x] = true
		}
		for _, x := range o.regions(w) {
			own[x] = true
		}
		if n = w.base; n != u.State && !o.only(own, n) {
			return nil, nil, fmt.Sprintf("%s is needed elsewhere, too", n)
		}
	}
	for _, e := range o.takenBy(values) {
		if x := unshaped(e.value); x == u.State || own[x] {
			return nil, nil, fmt.Sprintf("%s writes what the state has elsewhere", e.user)
		}
	}
	return values, own, ""
}

// order orders everything that depends on a state's old value, except its own writes, before its first write, the last
// of values. It reports whether that is possible.
func (o *overwrites) order(state *ir.Node, own map[*ir.Node]bool, values []*ir.Node) bool {
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
	apart := map[edge]bool{}
	for _, e := range o.takenBy(values) {
		apart[e] = canStoreFirst(e.user, e.value)
	}
	old, ok := o.reach(readers, func(n *ir.Node) []*ir.Node {
		return slices.DeleteFunc(slices.Clone(o.users[n.ID()]), func(u *ir.Node) bool { return apart[edge{n, u}] })
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
	for e, may := range apart {
		if may && old[e.value] {
			o.early[e] = true
		}
	}
	return true
}

// canStoreFirst reports whether storing a write's operand that depends on the old value moves less memory than copying
// the state. A where would need an operand as large as the state.
func canStoreFirst(write, taken *ir.Node) bool {
	return write.Op() != ir.OpWhere && !write.DType().IsBlock() &&
		taken.Shape().MaxElems() <= write.Shape().MaxElems()/2
}

// takenBy returns the operands of the writes that make some values, except their bases.
func (o *overwrites) takenBy(values []*ir.Node) (all []edge) {
	for _, n := range values {
		w, _ := writeOf(n)
		all = append(all, o.takes(w)...)
	}
	return all
}

// takes returns the operands of a write except its base.
func (o *overwrites) takes(w write) (all []edge) {
	for {
		inner, region, ok := o.nested(w)
		for i, x := range w.op.Args() {
			if i != w.arg && !(ok && i == 1) && !slices.Contains(region, x) {
				all = append(all, edge{x, w.op})
			}
		}
		if !ok {
			return all
		}
		w = inner
	}
}

// reach returns nodes and everything reachable from them, or false if the search takes too long.
func (o *overwrites) reach(nodes []*ir.Node, follow func(*ir.Node) []*ir.Node) (map[*ir.Node]bool, bool) {
	seen := map[*ir.Node]bool{}
	for next := slices.Clone(nodes); len(next) > 0; o.search-- {
		if o.search == 0 {
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

// nested returns the inner write if a write stores a modified region of its own base: a write along another axis with
// no other effect. region is the slice of the base.
func (o *overwrites) nested(w write) (inner write, region []*ir.Node, ok bool) {
	if w.op.Op() != ir.OpDynamicUpdateSlice || w.op.DType().IsBlock() || w.op.Attrs().Bool("wrap") {
		return write{}, nil, false
	}
	inner.op = w.op.Arg(1)
	for inner.op.Op() == ir.OpReshape && !isCopy(inner.op) && o.once(inner.op) {
		inner.op = inner.op.Arg(0)
	}
	if inner.op.Op() != ir.OpDynamicUpdateSlice || !o.once(inner.op) {
		return write{}, nil, false
	}
	inner.base = inner.op.Arg(0)
	at := inner.base
	for at.Op() == ir.OpReshape && o.once(at) {
		region = append(region, at)
		at = at.Arg(0)
	}
	ok = at.Op() == ir.OpDynamicSlice && o.once(at) && at.Arg(0) == w.op.Arg(0) && at.Arg(1) == w.op.Arg(2) &&
		at.Attrs().Int("axis") == w.op.Attrs().Int("axis") && at.Shape().Equal(w.op.Arg(1).Shape())
	return inner, append(region, at), ok
}

// regions returns the slices of a write's base that nested writes along further axes modify.
func (o *overwrites) regions(w write) (all []*ir.Node) {
	for {
		inner, region, ok := o.nested(w)
		if !ok {
			return all
		}
		all, w = append(all, region...), inner
	}
}
