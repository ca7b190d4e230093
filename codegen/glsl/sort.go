package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// emitSort writes a kernel that sorts each row in shared memory by a bitonic network (Batcher 1968). It sorts pairs of
// key and coordinate. No two pairs are equal, so the order is stable although the network is not. Keys are compared as
// unsigned numbers.
func emitSort(e *emitter) {
	r := sorter{newRowWriter(e, e.sched.LanesPerRow, true)}
	e.overSpace(r.place, func() {
		p := r.sharedPlaces(schedule.SortPlaces(e.k))
		r.loadKeys(p)
		r.network(p)
		r.storePlaces(p)
		r.leaveShared()
	})
}

// sorter orders pairs of a key and a coordinate, for each row.
type sorter struct{ *rowWriter }

// sortPlaces are the pairs of a row in shared memory.
type sortPlaces struct {
	n           int  // a power of two
	keys, order text // the arrays
	first       text // added to a slot of the row, or nil
}

// key and from are element i of the pairs of the row.
func (p sortPlaces) key(i text) text  { return elementAt(p.keys, joined("+", p.first, i)) }
func (p sortPlaces) from(i text) text { return elementAt(p.order, joined("+", p.first, i)) }

// sharedPlaces declares n pairs for each row of the workgroup.
func (r sorter) sharedPlaces(n int) sortPlaces {
	p := sortPlaces{n: n, keys: r.share("uint", "keys", n*r.rows), order: r.share("uint", "order", n*r.rows)}
	if r.rows > 1 {
		row := binary("/", r.local, uintLit(r.lanes))
		p.first = r.variable("uint", "first", binary("*", row, uintLit(n)))
	}
	return p
}

// lanesOver opens a loop of the row's lanes over n positions.
func (r sorter) lanesOver(base string, n text) text {
	return r.openFor("", base, r.thread, n, uintLit(r.lanes))
}

// loadKeys fills the slots. Keys past the row sort after all others.
func (r sorter) loadKeys(p sortPlaces) {
	r.comment("The keys of the row.")
	j := r.lanesOver("j", uintLit(p.n))
	key := r.keyOf(j, int64(p.n))
	r.assign(p.key(j), key)
	r.assign(p.from(j), j)
	r.close()
	r.barrier()
}

// keyOf returns a variable with the key at j. Past the end of a shorter row, that is the largest key.
func (r sorter) keyOf(j text, places int64) text {
	whole := r.k.Fold.IsStatic() && r.k.Fold.Add == places
	key := r.variable("uint", "key", primary("0xffffffffu"))
	if !whole {
		r.openIf(binary("<", j, r.dim(r.k.Fold)))
	}
	r.openScope()
	r.bindAxis(r.k.FoldAxis(), j)
	r.assign(key, r.sortKey(r.k.Phases[0]))
	r.close()
	if !whole {
		r.close()
	}
	return key
}

// sortKey prints a number that is larger for later elements.
func (r sorter) sortKey(p kernel.Phase) text {
	r.plan([]*kernel.Expr{p.Value}, nil)
	v := r.emitter.value(p.Value)
	typ := r.computeType(p.Value.DType)
	key := v
	switch typ {
	case "float":
		r.helper("float_order", "float")
		key = call("float_order", v)
	case "int":
		key = binary("^", call("uint", v), primary("0x80000000u"))
	}
	if p.Combine == kernel.CombineOrderDown {
		key = unary("~", key)
	}
	return key
}

// network sorts the slots. It merges runs of size slots, which alternate in direction, and compares slots at falling
// distances.
func (r sorter) network(p sortPlaces) {
	r.comment("Sort runs of growing size.")
	r.open("for (uint size = 2u; size <= %du; size <<= 1u)", p.n)
	r.open("for (uint distance = size >> 1u; distance > 0u; distance >>= 1u)")
	pair := r.lanesOver("pair", uintLit(p.n/2))
	r.line("uint a = 2u * %s - (%s & distance - 1u), b = a + distance;", pair, pair)
	a, b := primary("a"), primary("b")
	r.line("uint key_a = %s, key_b = %s, from_a = %s, from_b = %s;", p.key(a), p.key(b), p.from(a), p.from(b))
	r.line("bool later = key_a > key_b || key_a == key_b && from_a > from_b;")
	r.open("if (later == ((a & size) == 0u))")
	r.assign(p.key(a), primary("key_b"))
	r.assign(p.key(b), primary("key_a"))
	r.assign(p.from(a), primary("from_b"))
	r.assign(p.from(b), primary("from_a"))
	r.close()
	r.close()
	r.barrier()
	r.close()
	r.close()
}

// storePlaces stores the results for each slot of the order.
func (r sorter) storePlaces(p sortPlaces) {
	r.comment("Store each place of the order.")
	if r.valid != nil {
		r.openIf(r.valid)
		defer r.close()
	}
	place := r.lanesOver("place", r.dim(r.k.Take))
	r.openScope()
	r.bindAxis(r.k.FoldAxis(), place)
	r.bindAcc(0, r.variable("int", "from", call("int", p.from(place))))
	r.storeAll(r.k.Stores)
	r.close()
	r.close()
}
