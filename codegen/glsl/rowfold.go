package glsl

import (
	"math"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// fold holds the variables of one phase while the phase is being written.
type fold struct {
	kernel.Phase
	typ   string // of value
	value text   // the accumulated or compared value
	place text   // the index of the argmax or argmin, or nil
	lost  text   // the rounding error of a long sum, or nil
}

// maxPlainSum is the largest number of floats that an invocation adds up plainly. A plain sum of equal numbers loses up
// to half a unit in the last place with each addition. So longer sums are compensated. Then the error of any sum is a
// few units for each doubling of the invocations that share it, and for each kernel that it takes.
const maxPlainSum = 32

// foldStage writes one pass over the row and the exchange between its lanes.
func (r *rowWriter) foldStage(number int, phases []int) {
	folds := make([]fold, len(phases))
	var roots []*kernel.Expr
	for i, p := range phases {
		phase := r.k.Phases[p]
		r.commentOnce(i, describe(phase))
		folds[i] = r.beginFold(phase)
		if phase.Combine == kernel.CombineSum && folds[i].typ == "float" &&
			r.k.Fold.Max() > maxPlainSum*int64(r.lanes) {
			folds[i].lost = r.variable("float", phase.Name+"_lost", primary("0.0"))
		}
		roots = append(roots, phase.Value)
	}
	kept := r.keptFrom(number)
	slotRoots := append(append([]*kernel.Expr(nil), roots...), kept...)
	r.eachElement(number, slotRoots, nil, func() {
		values := r.eval(slotRoots...)
		for i, v := range kept {
			r.assign(elementAt(r.cached[v], r.slotIndex()), values[len(roots)+i])
		}
		for i, f := range folds {
			r.accumulate(f, values[i])
		}
	})
	for i, f := range folds {
		if f.lost != nil {
			r.helper("sum_with", f.typ)
			r.assign(f.value, call("sum_with", f.value, f.lost))
		}
		if r.lanes > 1 {
			r.exchange(f)
		}
		name := f.value
		if f.place != nil {
			name = r.finishPlace(f)
		}
		r.bindAcc(phases[i], name)
	}
}

func (r *rowWriter) commentOnce(i int, s string) {
	if i == 0 {
		r.comment("%s.", s)
	} else {
		r.line("// %s.", s)
	}
}

// beginFold declares the variables of a fold, set to its identity.
func (r *rowWriter) beginFold(p kernel.Phase) fold {
	t := accType(p)
	f := fold{Phase: p, typ: r.computeType(t)}
	r.needType(f.typ)
	if !isArg(p.Combine) {
		f.value = r.variable(f.typ, p.Name, r.identity(p))
		return f
	}
	f.value = r.variable(f.typ, p.Name+"_value", r.identity(p))
	f.place = r.variable("int", p.Name, primary("0x7fffffff"))
	return f
}

// identity is the fold of no elements.
func (r *rowWriter) identity(p kernel.Phase) text {
	acc := accType(p)
	lo, hi := ir.IntRange(p.Value.DType)
	switch p.Combine {
	case kernel.CombineSum:
		return r.literal(acc, 0, 0)
	case kernel.CombineProd:
		return r.literal(acc, 1, 1)
	case kernel.CombineMax, kernel.CombineArgmax:
		return r.literal(acc, math.Inf(-1), lo)
	case kernel.CombineMin, kernel.CombineArgmin:
		return r.literal(acc, math.Inf(1), hi)
	}
	r.fail("unknown fold %q", p.Combine)
	return primary("0")
}

// accumulate folds in one element.
func (r *rowWriter) accumulate(f fold, value text) {
	v := r.coerce(r.computeType(f.Value.DType), f.typ, value)
	if f.lost != nil {
		r.helper("sum_exactly", f.typ)
		r.line("sum_exactly(%s, %s, %s);", f.value, f.lost, v)
		return
	}
	if f.place == nil {
		r.combine(f, f.value, v)
		return
	}
	place := call("int", r.axis(r.k.FoldAxis()))
	if !isPlain(v) {
		v = r.variable(f.typ, "candidate", v)
	}
	r.takeIfBetter(f, v, place)
}

// combine folds v into a variable.
func (r *rowWriter) combine(f fold, into, v text) { r.scope.write(r.combining(f, into, v)) }

// combining is the statement that folds v into a variable.
func (r *rowWriter) combining(f fold, into, v text) syntax.Stmt {
	op := map[kernel.Combine]string{kernel.CombineSum: "+=", kernel.CombineProd: "*="}[f.Combine]
	if op == "" || f.typ == pair {
		return &syntax.Assign{To: into, Op: "=", Value: r.combined(f, into, v)}
	}
	return &syntax.Assign{To: into, Op: op, Value: v}
}

// combined prints the fold of two values.
func (r *rowWriter) combined(f fold, a, b text) text {
	switch f.Combine {
	case kernel.CombineSum:
		return r.operate(f.typ, "+", a, b)
	case kernel.CombineProd:
		return r.operate(f.typ, "*", a, b)
	}
	name := string(f.Combine)
	if f.typ == "float" || f.typ == "double" {
		name = "nan_" + name
	}
	return call(r.function(name, f.typ), a, b)
}

// beats prints whether value a at index i comes before value b at index j.
func (r *rowWriter) beats(f fold, a, i, b, j text) text {
	name := string(f.Combine) + "_beats"
	if f.typ != "float" && f.typ != "double" {
		name += "_int"
	}
	r.helper(name, f.typ)
	return call(name, a, i, b, j)
}

// finishPlace sets the index of an extremum to 0 if the row is empty.
func (r *rowWriter) finishPlace(f fold) text {
	if r.k.Fold.Min() > 0 {
		return f.place
	}
	r.line("if (%s == 0x7fffffff) %s = 0; // the row is empty", f.place, f.place)
	return f.place
}

// shuffleOps are the subgroup operations that exchange values.
const shuffleOps = device.SubgroupBasic | device.SubgroupShuffle

// bySubgroup reports whether lanes exchange values inside subgroups.
func (r *rowWriter) bySubgroup() bool {
	if r.sched.Subgroup <= 1 || r.lanes < 2 || r.sched.Workgroup%r.sched.Subgroup != 0 ||
		!r.caps.SubgroupOps.Has(shuffleOps) {
		return false
	}
	for _, p := range r.k.Phases {
		if r.computeType(accType(p)) == "int64_t" && !r.caps.Features.SubgroupExtendedTypes {
			return false
		}
	}
	return true
}

// exchange combines the lanes' results of a row. All lanes end with the same bits.
func (r *rowWriter) exchange(f fold) {
	if !r.bySubgroup() {
		r.exchangeShared(f)
		return
	}
	r.need(NeedSubgroupBasic, NeedSubgroupShuffle)
	if f.typ == "int64_t" {
		r.need(NeedSubgroupTypes)
	}
	within := min(r.lanes, r.sched.Subgroup)
	r.open("[[unroll]] for (uint distance = %du; distance > 0u; distance >>= 1u)", within/2)
	shuffled := func(x text) text { return call("subgroupShuffleXor", x, primary("distance")) }
	if f.place == nil {
		r.combine(f, f.value, shuffled(f.value))
	} else {
		r.takeIfBetter(f, r.variable(f.typ, "other", shuffled(f.value)),
			r.variable("int", "other_place", shuffled(f.place)))
	}
	r.close()
	if r.lanes > within {
		r.exchangeSubgroups(f)
	}
}

// takeIfBetter replaces the extremum by another value that comes before it.
func (r *rowWriter) takeIfBetter(f fold, value, place text) {
	r.open("if (%s)", r.beats(f, value, place, f.value, f.place))
	r.assign(f.value, value)
	r.assign(f.place, place)
	r.close()
}

// exchangeSubgroups combines the results of a row's subgroups. One invocation of each subgroup writes the subgroup's
// result, and every lane folds them in the same order.
func (r *rowWriter) exchangeSubgroups(f fold) {
	parts := r.lanes / r.sched.Subgroup
	names := []text{r.share(f.typ, f.value.Text+"_parts", r.sched.Workgroup/r.sched.Subgroup)}
	vars := []text{f.value}
	if f.place != nil {
		names = append(names, r.share("int", f.place.Text+"_places", r.sched.Workgroup/r.sched.Subgroup))
		vars = append(vars, f.place)
	}
	r.open("if (gl_SubgroupInvocationID == 0u)")
	for i, n := range names {
		r.line("%s[gl_SubgroupID] = %s;", n, vars[i])
	}
	r.close()
	r.barrier()
	first := primary("0u")
	if r.rows > 1 {
		first = r.firstPart(parts)
	}
	part := func(n text) text {
		if r.rows > 1 {
			return binary("+", first, n)
		}
		return n
	}
	for i, n := range names {
		r.line("%s = %s[%s];", vars[i], n, first)
	}
	at := part(uintLit(1))
	if parts > 2 {
		at = part(r.openFor(unroll, "n", uintLit(1), uintLit(parts), uintLit(1)))
		defer r.close()
	}
	if f.place == nil {
		r.combine(f, f.value, elementAt(names[0], at))
		return
	}
	r.takeIfBetter(f, elementAt(names[0], at), elementAt(names[1], at))
}

// firstPart is the start of the row's parts in shared memory.
func (r *rowWriter) firstPart(parts int) text {
	if r.part == nil {
		r.part = r.variable("uint", "part", binary("*", binary("/", r.local, uintLit(r.lanes)), uintLit(parts)))
	}
	return r.part
}

// exchangeShared combines the lanes by a tree in shared memory.
func (r *rowWriter) exchangeShared(f fold) {
	values := r.laneArray(f.typ, "")
	var places text
	r.assign(elementAt(values, r.local), f.value)
	if f.place != nil {
		places = r.laneArray("int", "place_")
		r.assign(elementAt(places, r.local), f.place)
	}
	r.barrier()
	r.open("for (uint half_row = %du; half_row > 0u; half_row >>= 1u)", r.lanes/2)
	r.open("if (%s < half_row)", r.thread)
	partner := binary("+", r.local, primary("half_row"))
	if places == nil {
		r.assign(f.value, r.combined(f, f.value, elementAt(values, partner)))
	} else {
		r.takeIfBetter(f, elementAt(values, partner), elementAt(places, partner))
		r.assign(elementAt(places, r.local), f.place)
	}
	r.assign(elementAt(values, r.local), f.value)
	r.close()
	r.barrier()
	r.close()
	first := primary("0u")
	if r.rows > 1 {
		first = binary("-", r.local, r.thread)
	}
	r.line("%s = %s[%s];", f.value, values, first)
	if places != nil {
		r.line("%s = %s[%s];", f.place, places, first)
	}
}

// laneArray returns shared memory with a slot for every invocation. Folds of one type use it in turn.
func (r *rowWriter) laneArray(typ, kind string) text {
	key := kind + typ
	if name, ok := r.arrays[key]; ok {
		r.line("barrier(); // until all have read what the last fold left")
		return name
	}
	name := r.share(typ, kind+"lanes", r.sched.Workgroup)
	r.arrays[key] = name
	return name
}
