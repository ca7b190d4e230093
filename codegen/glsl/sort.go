package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
)

// emitSort writes a kernel that orders each row in shared memory by a bitonic
// network (Batcher 1968). It sorts pairs of key and coordinate, which are never
// equal, so that the order is the stable one although the network is not; keys
// are compared as unsigned numbers.
func (e *emitter) emitSort() {
	e.k = kernel.Collapse(e.k)
	r := &rowWriter{emitter: e, group: true, lanes: e.sched.Workgroup, rows: 1}
	s := e.newSpace()
	if e.err != nil || e.emptySpace(s) {
		return
	}
	opened := e.outerLoops(s)
	opened += r.sharedRows(s)
	places := target.SortPlaces(e.k)
	keys, order := r.sharedArray("uint", "keys", places), r.sharedArray("uint", "order", places)
	r.loadKeys(keys, order, places)
	r.network(keys, order, places)
	r.storePlaces(order)
	if r.scope != r.root {
		r.line("barrier(); // before shared memory is used for other rows")
	}
	for range opened {
		e.close()
	}
}

// lanesOver opens a loop of the workgroup over n positions.
func (r *rowWriter) lanesOver(base, n string) text {
	return primary(r.openLoop(base, func(name string) string {
		return fmt.Sprintf("for (uint %s = %s; %s < %s; %s += %du)", name, r.local.s, name, n, name, r.sched.Workgroup)
	}))
}

// loadKeys fills the places; those past the row come after all others.
func (r *rowWriter) loadKeys(keys, order string, places int) {
	r.comment("The keys of the row.")
	j := r.lanesOver("j", uintLit(int64(places)).s)
	key := r.keyOf(j, int64(places))
	r.line("%s[%s] = %s;", keys, j.s, key)
	r.line("%s[%s] = %s;", order, j.s, j.s)
	r.close()
	r.line("barrier();")
}

// keyOf returns a variable with the key at place j of some, the last key of all
// where the row has fewer elements.
func (r *rowWriter) keyOf(j text, places int64) string {
	whole := r.k.Fold.IsStatic() && r.k.Fold.Add == places
	key := r.variable("uint", "key", primary("0xffffffffu"))
	if !whole {
		r.openGuard("if (%s < %s)", j.s, r.dim(r.k.Fold).s)
	}
	r.openScope()
	r.bindAxis(r.k.FoldAxis(), j)
	r.line("%s = %s;", key, r.sortKey(r.k.Phases[0]).s)
	r.close()
	if !whole {
		r.close()
	}
	return key
}

// sortKey prints a number that is larger the later an element comes.
func (r *rowWriter) sortKey(p kernel.Phase) text {
	r.plan([]*kernel.Expr{p.Value}, nil)
	v := r.emitter.value(p.Value)
	if !isExact(p.Value) {
		v = r.round(p.Value.DType, v)
	}
	typ := computeType(p.Value.DType)
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

// network sorts the places: runs of size places, which alternate in direction,
// are merged by comparing ever nearer ones.
func (r *rowWriter) network(keys, order string, places int) {
	r.comment("Sort runs of growing size.")
	r.open("for (uint size = 2u; size <= %du; size <<= 1u)", places)
	r.open("for (uint distance = size >> 1u; distance > 0u; distance >>= 1u)")
	pair := r.lanesOver("pair", uintLit(int64(places/2)).s)
	r.line("uint a = 2u * %s - (%s & distance - 1u), b = a + distance;", pair.s, pair.s)
	r.line("uint key_a = %s[a], key_b = %s[b], from_a = %s[a], from_b = %s[b];", keys, keys, order, order)
	r.line("bool later = key_a > key_b || key_a == key_b && from_a > from_b;")
	r.open("if (later == ((a & size) == 0u))")
	r.line("%s[a] = key_b;", keys)
	r.line("%s[b] = key_a;", keys)
	r.line("%s[a] = from_b;", order)
	r.line("%s[b] = from_a;", order)
	r.close()
	r.close()
	r.line("barrier();")
	r.close()
	r.close()
}

// storePlaces stores what belongs to each place of the order.
func (r *rowWriter) storePlaces(order string) {
	r.comment("Store each place of the order.")
	place := r.lanesOver("place", r.dim(r.k.Take).s)
	r.openScope()
	r.bindAxis(r.k.FoldAxis(), place)
	r.bindAcc(0, r.variable("int", "from", call("int", primary(order+"["+place.s+"]"))))
	r.storeAll(r.k.Stores)
	r.close()
	r.close()
}
