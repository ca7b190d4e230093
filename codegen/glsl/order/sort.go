// Package order writes kernels that sort rows, select the first elements of a row's order, or group elements by number.
package order

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/rows"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// EmitSort writes a kernel that sorts each row in shared memory by a bitonic network (Batcher 1968). It sorts pairs of
// key and coordinate. No two pairs are equal, so the order is stable although the network is not. Keys are compared as
// unsigned integers.
func EmitSort(e *emit.Emitter) {
	r := sorter{rows.New(e, e.Sched.(kernel.Lanes).LanesPerRow, true)}
	e.OverSpace(r.Place, func() {
		p := r.shareSlots(schedule.SortSlots(e.K))
		r.loadKeys(p)
		r.sortByNetwork(p)
		r.storeSlots(p)
		r.LeaveShared()
	})
}

// sorter sorts the pairs of key and coordinate of each row.
type sorter struct{ *rows.Writer }

// sortSlots is a row's pairs of key and coordinate in shared memory.
type sortSlots struct {
	n           int       // number of slots, a power of two
	keys, order expr.Expr // the shared arrays of keys and of coordinates
	first       expr.Expr // the row's first slot in the arrays, or nil for 0
}

// key and from return the key and the coordinate in slot i of the row.
func (p sortSlots) key(i expr.Expr) expr.Expr  { return expr.At(p.keys, expr.Join("+", p.first, i)) }
func (p sortSlots) from(i expr.Expr) expr.Expr { return expr.At(p.order, expr.Join("+", p.first, i)) }

// shareSlots declares n slots for each row of the workgroup.
func (r sorter) shareSlots(n int) sortSlots {
	p := sortSlots{n: n, keys: r.Share("uint", "keys", n*r.Rows), order: r.Share("uint", "order", n*r.Rows)}
	if r.Rows > 1 {
		row := expr.Binary("/", r.Local, expr.Uint(r.Lanes))
		p.first = r.Variable("uint", "first", expr.Binary("*", row, expr.Uint(n)))
	}
	return p
}

// lanesOver opens a loop in which the row's lanes share the positions from 0 to n-1.
func (r sorter) lanesOver(base string, n expr.Expr) expr.Expr {
	return r.OpenFor("", base, r.Thread, n, expr.Uint(r.Lanes))
}

// loadKeys fills the slots with the row's pairs. Slots past the end of the row get the largest key.
func (r sorter) loadKeys(p sortSlots) {
	r.Comment("The keys of the row.")
	j := r.lanesOver("j", expr.Uint(p.n))
	key := r.keyOf(j, int64(p.n))
	r.Assign(p.key(j), key)
	r.Assign(p.from(j), j)
	r.Close()
	r.Barrier()
}

// keyOf declares a variable with the key of element j, which is below places. Past the end of the row it is the largest
// key.
func (r sorter) keyOf(j expr.Expr, places int64) expr.Expr {
	whole := r.K.Fold.IsStatic() && r.K.Fold.Add == places
	key := r.Variable("uint", "key", expr.Of("0xffffffffu"))
	if !whole {
		r.OpenIf(expr.Binary("<", j, r.Dim(r.K.Fold)))
	}
	r.OpenScope()
	r.BindAxis(r.K.FoldAxis(), j)
	r.Assign(key, r.sortKey(r.K.Phases[0]))
	r.Close()
	if !whole {
		r.Close()
	}
	return key
}

// sortKey returns a uint that is larger for elements that come later in the order.
func (r sorter) sortKey(p kernel.Phase) expr.Expr {
	v := r.Eval(p.Value)
	typ := r.ComputeType(p.Value.DType)
	key := v
	switch typ {
	case "float":
		r.Helper("float_order", "float")
		key = expr.Call("float_order", v)
	case "int":
		// Flipping the sign bit orders negative numbers before positive ones.
		key = expr.Binary("^", expr.Call("uint", v), expr.Of("0x80000000u"))
	}
	if p.Combine == kernel.CombineOrderDown {
		key = expr.Unary("~", key)
	}
	return key
}

// sortByNetwork sorts the slots by a bitonic network. Each round merges pairs of sorted sequences, one ascending and
// one descending, into sequences of twice the length (size). A merge compares slots at decreasing distances.
func (r sorter) sortByNetwork(p sortSlots) {
	r.Comment("Sort runs of growing size.")
	size := r.OpenShifts("", "size", expr.Uint(2), "<=", expr.Uint(p.n))
	r.OpenShifts("", "distance", expr.Binary(">>", size, expr.Uint(1)), ">", expr.Uint(0))
	pair := r.lanesOver("pair", expr.Uint(p.n/2))
	// a is slot number `pair` among the slots with a 0 at the bit of distance, which is a power of two.
	r.Variables("uint", syntax.Var{Name: "a", Init: expr.Format("2u * %s - (%[1]s & distance - 1u)", pair)},
		syntax.Var{Name: "b", Init: expr.Format("a + distance")})
	a, b := expr.Of("a"), expr.Of("b")
	r.Variables("uint", syntax.Var{Name: "key_a", Init: p.key(a)}, syntax.Var{Name: "key_b", Init: p.key(b)},
		syntax.Var{Name: "from_a", Init: p.from(a)}, syntax.Var{Name: "from_b", Init: p.from(b)})
	r.Exactly("bool", "later", expr.Format("key_a > key_b || key_a == key_b && from_a > from_b"))
	// A sequence is sorted upwards if its slots have a 0 at the bit of size, and otherwise downwards.
	r.OpenIf(expr.Format("later == ((a & size) == 0u)"))
	r.Assign(p.key(a), expr.Of("key_b"))
	r.Assign(p.key(b), expr.Of("key_a"))
	r.Assign(p.from(a), expr.Of("from_b"))
	r.Assign(p.from(b), expr.Of("from_a"))
	r.Close()
	r.Close()
	r.Barrier()
	r.Close()
	r.Close()
}

// storeSlots writes the stores for the first K.Take elements of the sorted row. The stores read the element's index in
// the unsorted row as accumulator 0.
func (r sorter) storeSlots(p sortSlots) {
	r.Comment("Store each place of the order.")
	if r.Valid != nil {
		r.OpenIf(r.Valid)
		defer r.Close()
	}
	place := r.lanesOver("place", r.Dim(r.K.Take))
	r.OpenScope()
	r.BindAxis(r.K.FoldAxis(), place)
	r.BindAcc(0, r.Variable("int", "from", expr.Call("int", p.from(place))))
	r.StoreAll(r.K.Stores)
	r.Close()
	r.Close()
}
