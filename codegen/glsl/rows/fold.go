package rows

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// fold has the variables of one phase while its code is being written.
type fold struct {
	kernel.Phase
	typ   string    // compute type of value
	value expr.Expr // the accumulated value, or the extremum so far
	place expr.Expr // the coordinate of the argmax or argmin, or nil
	lost  expr.Expr // the rounding error of a compensated sum, or nil
}

// maxPlainSum is the largest number of floats that an invocation adds up without compensation. Each addition loses up
// to half a unit in the last place, so longer sums are compensated. Then only the addition of the invocations' sums
// loses precision, a few units for each doubling of their number. So does the addition of the sums of several kernels.
const maxPlainSum = 32

// foldStage writes a stage: one pass over the row that folds the given phases, and the exchange of the results between
// the row's lanes. number is the number of the stage.
func (r *Writer) foldStage(number int, phases []int) {
	folds := make([]fold, len(phases))
	var roots []*kernel.Expr
	for i, p := range phases {
		phase := r.K.Phases[p]
		r.phaseComment(i, describe(phase))
		folds[i] = r.beginFold(phase)
		if phase.Combine == kernel.CombineSum && folds[i].typ == "float" &&
			r.K.Fold.Max() > maxPlainSum*int64(r.Lanes) {
			folds[i].lost = r.Variable("float", phase.Name+"_lost", expr.Of("0.0"))
		}
		roots = append(roots, phase.Value)
	}
	// the values that this stage is the first to compute
	kept := slices.DeleteFunc(r.kept(), func(v *kernel.Expr) bool { return r.first[v] != number })
	slotRoots := slices.Concat(roots, kept)
	r.eachElement(number, slotRoots, nil, func() {
		values := r.EvalAll(slotRoots...)
		for i, v := range kept {
			r.Assign(expr.At(r.cached[v], r.slotIndex()), values[len(roots)+i])
		}
		for i, f := range folds {
			r.accumulate(f, values[i])
		}
	})
	for i, f := range folds {
		if f.lost != nil {
			// Add the compensation to the sum.
			r.Helper("sum_with", f.typ)
			r.Assign(f.value, expr.Call("sum_with", f.value, f.lost))
		}
		if r.Lanes > 1 {
			r.exchange(f)
		}
		name := f.value
		if f.place != nil {
			name = r.finishPlace(f)
		}
		r.BindAcc(phases[i], name)
	}
}

// phaseComment writes the comment about the i-th phase of a stage. Only the first one begins a paragraph.
func (r *Writer) phaseComment(i int, s string) {
	if i == 0 {
		r.Comment("%s.", s)
	} else {
		r.Scope.Write(&syntax.Comment{Text: "// " + s + "."})
	}
}

// beginFold declares the variables of a fold, and sets them to the fold of no elements.
func (r *Writer) beginFold(p kernel.Phase) fold {
	t := kernel.AccType(p.Value.DType)
	f := fold{Phase: p, typ: r.ComputeType(t)}
	r.NeedType(f.typ)
	if !p.Combine.IsPlace() {
		f.value = r.Variable(f.typ, p.Name, r.identity(p))
		return f
	}
	f.value = r.Variable(f.typ, p.Name+"_value", r.identity(p))
	f.place = r.Variable("int", p.Name, expr.Of(noPlace))
	return f
}

// noPlace stands for the coordinate of no element. Every candidate beats it, and finishPlace finds it in empty rows.
const noPlace = "0x7fffffff"

// identity returns the fold of no elements, such as 0 for a sum.
func (r *Writer) identity(p kernel.Phase) expr.Expr {
	acc := kernel.AccType(p.Value.DType)
	// Literal takes the value for floats, and then that for integers.
	lo, hi := ir.IntRange(p.Value.DType)
	switch p.Combine {
	case kernel.CombineSum:
		return r.Literal(acc, 0, 0)
	case kernel.CombineProd:
		return r.Literal(acc, 1, 1)
	case kernel.CombineMax, kernel.CombineArgmax:
		return r.Literal(acc, math.Inf(-1), lo)
	case kernel.CombineMin, kernel.CombineArgmin:
		return r.Literal(acc, math.Inf(1), hi)
	}
	r.Fail("unknown fold %q", p.Combine)
	return expr.Of("0")
}

// accumulate folds one more element into f.
func (r *Writer) accumulate(f fold, value expr.Expr) {
	// Accumulate in a wider type than the elements'.
	v := r.Coerce(r.ComputeType(f.Value.DType), f.typ, value)
	if f.lost != nil {
		r.Helper("sum_exactly", f.typ)
		r.Do("sum_exactly", f.value, f.lost, v)
		return
	}
	if f.place == nil {
		r.foldInto(f, f.value, v)
		return
	}
	place := expr.Call("int", r.Axis(r.K.FoldAxis()))
	// takeIfBetter uses v twice.
	if !expr.IsPlain(v) {
		v = r.Variable(f.typ, "candidate", v)
	}
	r.takeIfBetter(f, v, place)
}

// foldInto writes the statement that folds v into a variable.
func (r *Writer) foldInto(f fold, into, v expr.Expr) { r.Scope.Write(r.foldStatement(f, into, v)) }

// foldStatement returns the statement that folds v into a variable. Sums and products of one word have an operator.
func (r *Writer) foldStatement(f fold, into, v expr.Expr) syntax.Stmt {
	op := map[kernel.Combine]string{kernel.CombineSum: "+=", kernel.CombineProd: "*="}[f.Combine]
	if op == "" || f.typ == emit.Pair {
		return &syntax.Assign{To: into, Op: "=", Value: r.foldOf(f, into, v)}
	}
	return &syntax.Assign{To: into, Op: op, Value: v}
}

// foldOf returns the fold of two values.
func (r *Writer) foldOf(f fold, a, b expr.Expr) expr.Expr {
	switch f.Combine {
	case kernel.CombineSum:
		return r.Operate(f.typ, "+", a, b)
	case kernel.CombineProd:
		return r.Operate(f.typ, "*", a, b)
	}
	name := string(f.Combine)
	// GLSL's own max and min do not specify the result for NaN.
	if f.typ == "float" || f.typ == "double" {
		name = "nan_" + name
	}
	return expr.Call(r.Function(name, f.typ), a, b)
}

// beats returns the condition that value a at coordinate i is a better argmax or argmin than value b at coordinate j.
func (r *Writer) beats(f fold, a, i, b, j expr.Expr) expr.Expr {
	name := string(f.Combine) + "_beats"
	if f.typ != "float" && f.typ != "double" {
		name += "_int"
	}
	r.Helper(name, f.typ)
	return expr.Call(name, a, i, b, j)
}

// finishPlace sets the coordinate of an extremum to 0 if the row is empty.
func (r *Writer) finishPlace(f fold) expr.Expr {
	if r.K.Fold.Min() > 0 {
		return f.place
	}
	r.When(expr.Binary("==", f.place, expr.Of(noPlace)), emit.Set(f.place, expr.Int(0)))
	r.Note("the row is empty")
	return f.place
}

// shuffleOps are the subgroup operations that lanes need to exchange values.
const shuffleOps = device.SubgroupBasic | device.SubgroupShuffle

// bySubgroup reports whether lanes exchange values by subgroup shuffles.
func (r *Writer) bySubgroup() bool {
	fullSubgroups := r.Launch.Subgroup > 1 && r.Launch.Workgroup%r.Launch.Subgroup == 0
	if !fullSubgroups || r.Lanes < 2 || !r.Caps.SubgroupOps.Has(shuffleOps) {
		return false
	}
	// Shuffles of 64-bit integers are a feature of their own.
	has64Bits := slices.ContainsFunc(r.K.Phases, func(p kernel.Phase) bool {
		return r.ComputeType(kernel.AccType(p.Value.DType)) == "int64_t"
	})
	return !has64Bits || r.Caps.Features.SubgroupExtendedTypes
}

// exchange folds the results of a row's lanes. All lanes end with the same bits.
func (r *Writer) exchange(f fold) {
	if !r.bySubgroup() {
		r.exchangeShared(f)
		return
	}
	r.Need(emit.NeedSubgroupBasic, emit.NeedSubgroupShuffle)
	if f.typ == "int64_t" {
		r.Need(emit.NeedSubgroupTypes)
	}
	step := 1 // distance between neighbouring lanes of a row
	if r.Across {
		step = r.Rows
	}
	lanes := min(r.Lanes, r.Launch.Subgroup/step) // the row's lanes in one subgroup
	// For each bit of the lanes' numbers, the two lanes that differ only in this bit exchange their values.
	distance := r.OpenShifts(emit.Unroll, "distance", expr.Uint(lanes/2*step), ">", expr.Uint(step/2))
	shuffled := func(x expr.Expr) expr.Expr { return expr.Call("subgroupShuffleXor", x, distance) }
	if f.place == nil {
		r.foldInto(f, f.value, shuffled(f.value))
	} else {
		r.takeIfBetter(f, r.Variable(f.typ, "other", shuffled(f.value)),
			r.Variable("int", "other_place", shuffled(f.place)))
	}
	r.Close()
	if r.Lanes > lanes {
		r.exchangeSubgroups(f)
	}
}

// takeIfBetter replaces the extremum by another value if that comes before it.
func (r *Writer) takeIfBetter(f fold, value, place expr.Expr) {
	r.OpenIf(r.beats(f, value, place, f.value, f.place))
	r.Assign(f.value, value)
	r.Assign(f.place, place)
	r.Close()
}

// exchangeSubgroups folds the results of a row's subgroups. Each subgroup writes its result of each of its rows to
// shared memory, and every lane folds the results of its row in the same order.
func (r *Writer) exchangeSubgroups(f fold) {
	subgroups := r.Launch.Workgroup / r.Launch.Subgroup
	// A subgroup has lanes of one row, or of all rows of the workgroup. parts is the number of subgroups that share a
	// row, and held the number of rows in a subgroup.
	parts, held := r.Lanes/r.Launch.Subgroup, 1
	if r.Across { // every subgroup has lanes of every row
		parts, held = subgroups, r.Rows
	}
	arrays, vars := r.shareParts(f, subgroups, held)
	first := r.firstPart(parts)
	for i, array := range arrays {
		r.Assign(vars[i], expr.At(array, first))
	}
	at := expr.Plus(first, expr.Uint(held))
	if parts > 2 { // with two parts, the loop would have one iteration
		n := r.OpenFor(emit.Unroll, "n", expr.Uint(1), expr.Uint(parts), expr.Uint(1))
		if held > 1 {
			n = expr.Times(n, held)
		}
		at = expr.Plus(first, n)
		defer r.Close()
	}
	if f.place == nil {
		r.foldInto(f, f.value, expr.At(arrays[0], at))
		return
	}
	r.takeIfBetter(f, expr.At(arrays[0], at), expr.At(arrays[1], at))
}

// shareParts writes the results of each subgroup to shared memory, one for each of its `held` rows. It returns the
// shared arrays and the variables of a result: the value, and the place if the fold has one.
func (r *Writer) shareParts(f fold, subgroups, held int) (arrays, vars []expr.Expr) {
	arrays, vars = []expr.Expr{r.Share(f.typ, f.value.Text+"_parts", subgroups*held)}, []expr.Expr{f.value}
	if f.place != nil {
		arrays = append(arrays, r.Share("int", f.place.Text+"_places", subgroups*held))
		vars = append(vars, f.place)
	}
	lane, part := expr.Of("gl_SubgroupInvocationID"), expr.Of("gl_SubgroupID")
	if r.Across {
		r.OpenIf(expr.Binary("<", lane, expr.Uint(held)))
		part = expr.Flat(part, held, r.column)
	} else {
		r.OpenIf(expr.Binary("==", lane, expr.Of("0u")))
	}
	for i, array := range arrays {
		r.Assign(expr.At(array, part), vars[i])
	}
	r.Close()
	r.Barrier()
	return arrays, vars
}

// firstPart returns the index in shared memory of the result of a row's first subgroup. The row has parts results, one
// for each of its subgroups.
func (r *Writer) firstPart(parts int) expr.Expr {
	switch {
	case r.Across:
		return r.column
	case r.Rows == 1:
		return expr.Of("0u")
	case r.part == nil:
		r.part = r.Variable("uint", "part", expr.Binary("*", expr.Binary("/", r.Local, expr.Uint(r.Lanes)),
			expr.Uint(parts)))
	}
	return r.part
}

// exchangeShared folds the results of a row's lanes in shared memory, as a tree. In the end all lanes read the result
// of the row's first lane.
func (r *Writer) exchangeShared(f fold) {
	values := r.laneArray(f.typ, "")
	var places expr.Expr
	r.Assign(expr.At(values, r.Local), f.value)
	if f.place != nil {
		places = r.laneArray("int", "place_")
		r.Assign(expr.At(places, r.Local), f.place)
	}
	r.Barrier()
	// In each step the first half of the lanes folds the results of the other half.
	half := r.OpenShifts("", "half_row", expr.Uint(r.Lanes/2), ">", expr.Uint(0))
	r.OpenIf(expr.Binary("<", r.Thread, half))
	partner := expr.Binary("+", r.Local, half)
	if r.Across {
		partner = expr.Binary("+", r.Local, expr.Times(half, r.Rows))
	}
	if places == nil {
		r.Assign(f.value, r.foldOf(f, f.value, expr.At(values, partner)))
	} else {
		r.takeIfBetter(f, expr.At(values, partner), expr.At(places, partner))
		r.Assign(expr.At(places, r.Local), f.place)
	}
	r.Assign(expr.At(values, r.Local), f.value)
	r.Close()
	r.Barrier()
	r.Close()
	first := expr.Of("0u")
	switch {
	case r.Across:
		first = r.column
	case r.Rows > 1:
		first = expr.Binary("-", r.Local, r.Thread)
	}
	r.Assign(f.value, expr.At(values, first))
	if places != nil {
		r.Assign(f.place, expr.At(places, first))
	}
}

// laneArray returns a shared array of a type with an element for every invocation. All folds of that type use the same
// array, one after another. kind distinguishes arrays of values ("") from arrays of coordinates ("place_").
func (r *Writer) laneArray(typ, kind string) expr.Expr {
	key := kind + typ
	if name, ok := r.Arrays[key]; ok {
		r.Barrier("until all have read what the last fold left")
		return name
	}
	name := r.Share(typ, kind+"lanes", r.Launch.Workgroup)
	r.Arrays[key] = name
	return name
}
