package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rowFold is a function that computes all steps of an op that folds rows, one row after the other. If the rows are
// columns, it computes as many as a vector has lanes at a time, and each lane has the elements of one row.
type rowFold struct {
	*rowLoop
	*columnRows // nil if the elements of a row are neighbours
	out         Register
	eps         Mem
	lists       []Register
}

// columnRows are rows whose elements take turns in memory: a vector has an element of each of some rows, and the vectors
// of the next elements follow. A function may change them. So that the processor reads and writes memory while it
// computes, one pass over the rows prefetches as many elements of two matrices, whose rows are `far` bytes apart: those
// that the next call takes, and the place of the results.
type columnRows struct {
	end       Register // the bytes of n vectors
	ahead     Register
	far, from Register // from is `far` times the number of the pass's element
	reduces   bool     // whether a row has one result; then out has the results
}

// number is a float64 number of a row: a scalar, or of columns a vector for each half of the rows.
type number []VecVirtual

// rowFolds generates the assembly functions of ops such as softmax, which compute rows of float32 from folds of the
// row; see rowFolds in package fast. A function exists for each number of lists by which results are multiplied, and
// that are then added.
func (w width) rowFolds() {
	for _, f := range []rowFoldOf{
		{"softmax", "e^(x-max)/sum(e^(x-max))", 0, expConstants, false, (*rowFold).softmax, nil},
		{"logSoftmax", "x-max-log(sum(e^(x-max)))", 0, expConstants, false, nil, (*rowFold).logSoftmax},
		{"logSumExp", "max+log(sum(e^(x-max)))", 0, expConstants, true, nil, (*rowFold).logSumExp},
		{"variance", "sum((x-mean)^2)/max(n-eps, 0)", 0, nil, true, (*rowFold).variance, nil},
		{"l2Normalize", "x/max(sqrt(sum(x^2)), eps)", 0, nil, false,
			func(f *rowFold) number { return f.rootMeanSquare(true) }, nil},
		{"rmsNorm", "x/sqrt(mean(x^2)+eps)", 1, nil, false,
			func(f *rowFold) number { return f.rootMeanSquare(false) }, nil},
		{"layerNorm", "(x-mean)/sqrt(variance+eps)", 2, nil, false, (*rowFold).layerNorm, nil},
	} {
		for lists := range f.lists + 1 {
			w.rowFold(f, lists)
		}
		if f.lists == 0 {
			w.columnFold(f)
		}
	}
	w.columnsMoved()
	w.columnParts("exponentials", "the greatest element and the sum of e^(x-greatest)", expConstants,
		func(f *rowFold) []number {
			greatest, sum := f.exponentials(false)
			return []number{f.wide(greatest), sum}
		})
	w.columnParts("squares", "the sum of the squares", nil,
		func(f *rowFold) []number { return []number{f.sumOfSquares()} })
	w.columnParts("moments", "the first element, and the sums of the differences from it and of their squares", nil,
		func(f *rowFold) []number {
			first, sum, square := f.rowMoments()
			return []number{first, sum, square}
		})
}

// rowFoldOf describes a function: how many lists it can have, which constants it uses, whether a row has one result,
// and the code for a row, which returns the row's check. Or late is the code for the results from the row's greatest
// element, in all lanes, and the logarithm of the sum of the row's exponentials.
type rowFoldOf struct {
	name, what string
	lists      int
	constants  []float32
	reduces    bool
	row        func(f *rowFold) (check number)
	late       func(f *rowFold, greatest VecVirtual, log number)
}

// rowFold generates one of these functions, with the given number of lists.
func (w width) rowFold(of rowFoldOf, lists int) {
	name := of.name + []string{"Rows", "ListRows", "ListsRows"}[lists] + w.suffix
	TEXT(name, NOSPLIT, "func(out, x, w, v *float32, checks *float64, eps float64, rows, n int)")
	Doc(fmt.Sprintf("%s sets out to %s of the elements x of rows, which have n elements,", name, of.what),
		[]string{"", "multiplied by the list w, ", "multiplied by the list w and added to v, "}[lists]+
			"and each of checks to a number that is finite in float32 if the row's values are.")
	f := &rowFold{rowLoop: w.rowLoop(), out: Load(Param("out"), GP64())}
	for _, list := range []string{"w", "v"}[:lists] {
		f.lists = append(f.lists, Load(Param(list), GP64()))
	}
	checks := Load(Param("checks"), GP64())
	eps, _ := Param("eps").Resolve()
	f.eps = eps.Addr
	f.some = w.partial(f.rest)
	defer w.keepConstants(of.constants...)()
	if of.late != nil {
		f.batches(of, checks)
	} else {
		f.eachRow(of, checks)
	}
	Label("stop")
	VZEROUPPER()
	RET()
}

// eachRow generates the loop over rows, and the end of the function.
func (f *rowFold) eachRow(of rowFoldOf, checks Register) {
	Label("row")
	TESTQ(f.rows, f.rows)
	JZ(LabelRef("stop"))
	check := of.row(f)
	VMOVSD(check[0].AsX(), Mem{Base: checks})
	ADDQ(Imm(8), checks)
	f.nextRow(of, true)
	DECQ(f.rows)
	JMP(LabelRef("row"))
}

// nextRow generates code that goes to the next row of the elements and, if results is true, of the results.
func (f *rowFold) nextRow(of rowFoldOf, results bool) {
	LEAQ(Mem{Base: f.x, Index: f.n, Scale: 4}, f.x)
	switch {
	case results && of.reduces:
		ADDQ(Imm(4), f.out)
	case results:
		LEAQ(Mem{Base: f.out, Index: f.n, Scale: 4}, f.out)
	}
}

// batches generates the loop over rows in batches, each of as many rows as there are logarithms in a vector. The
// logarithm of a row alone takes as long as the exponentials of four vectors.
func (f *rowFold) batches(of rowFoldOf, checks Register) {
	const batch = 8
	greatest, sums := AllocLocal(4*batch), AllocLocal(8*batch)
	count, k, back := GP64(), GP64(), GP64()
	each := func(name string, body func()) {
		XORQ(k, k)
		Label(name)
		body()
		INCQ(k)
		CMPQ(k, count)
		JLT(LabelRef(name))
	}
	Label("batch")
	TESTQ(f.rows, f.rows)
	JZ(LabelRef("stop"))
	MOVQ(U32(batch), count)
	CMPQ(f.rows, count)
	CMOVQLT(f.rows, count)
	SUBQ(count, f.rows)
	each("fold", func() {
		top, sum := f.exponentials(false)
		VMOVSS(top.AsX(), greatest.Idx(k, 4))
		VMOVSD(sum[0].AsX(), sums.Idx(k, 8))
		VMOVSD(sum[0].AsX(), Mem{Base: checks})
		ADDQ(Imm(8), checks)
		f.nextRow(of, false)
	})
	for at := 0; at < 8*batch; at += f.size {
		y := f.vector()
		VMOVUPD(sums.Offset(at), y)
		f.logDouble(y, false)
		VMOVUPD(y, sums.Offset(at))
	}
	MOVQ(count, back)
	IMULQ(f.n, back)
	SHLQ(Imm(2), back)
	SUBQ(back, f.x)
	each("late", func() {
		top, log := f.vector(), XMM()
		VBROADCASTSS(greatest.Idx(k, 4), top)
		VMOVSD(sums.Idx(k, 8), log)
		of.late(f, top, number{log})
		f.nextRow(of, true)
	})
	JMP(LabelRef("batch"))
}

// columnFold generates a function of columns.
func (w width) columnFold(of rowFoldOf) {
	name := of.name + "Columns" + w.suffix
	TEXT(name, NOSPLIT, "func(x, out, ahead *float32, checks *float64, eps float64, n, far, cols int)")
	what := []string{fmt.Sprintf("%s replaces the n elements x of cols rows, which are a multiple of the lanes, by", name),
		of.what + "."}
	if of.reduces {
		what = []string{fmt.Sprintf("%s sets out to %s of the n elements x", name, of.what),
			"of cols rows, which are a multiple of the lanes."}
	}
	Doc(append(what, "The rows of a vector take turns in x, see columnsIn. The function may change x. Each of checks is finite in",
		"float32 if the row's values are. It prefetches matrices whose rows are far elements apart: ahead, and out if x",
		"has the results.")...)
	f := w.newColumns()
	f.out, f.reduces = Load(Param("out"), GP64()), of.reduces
	checks := Load(Param("checks"), GP64())
	eps, _ := Param("eps").Resolve()
	f.eps = eps.Addr
	defer w.keepConstants(of.constants...)()
	row := of.row
	if of.late != nil {
		row = func(f *rowFold) number {
			greatest, sum := f.exponentials(false)
			of.late(f, greatest, f.logarithm(sum))
			return sum
		}
	}
	f.eachVector(func() {
		f.storeNumber(row(f), checks)
		ADDQ(Imm(uint64(w.size)), f.out)
		ADDQ(U32(2*w.size), checks)
	})
}

// columnParts generates a function of the results of parts of columns.
func (w width) columnParts(name, what string, constants []float32, row func(f *rowFold) []number) {
	name += "OfColumns" + w.suffix
	TEXT(name, NOSPLIT, "func(results *float64, x, ahead *float32, n, far, stride, cols int)")
	Doc(fmt.Sprintf("%s finds %s of cols", name, what),
		"rows, which are a multiple of the lanes, of n elements x. The rows of a vector take turns, see columnsIn. Each row",
		"has several results, which are stride numbers from each other. The function prefetches ahead, a matrix whose rows",
		"are far elements apart.")
	f := w.newColumns()
	f.reduces = true
	results, stride := Load(Param("results"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(3), stride)
	defer w.keepConstants(constants...)()
	f.eachVector(func() {
		to := GP64()
		MOVQ(results, to)
		for i, y := range row(f) {
			if i > 0 {
				ADDQ(stride, to)
			}
			f.storeNumber(y, to)
		}
		ADDQ(U32(2*w.size), results)
	})
}

// columnsMoved generates the functions that copy columns of a matrix to vectors of their own, and back.
func (w width) columnsMoved() {
	for _, name := range []string{"columnsIn", "columnsOut"} {
		TEXT(name+w.suffix, NOSPLIT, "func(dst, src *float32, n, apart, cols int)")
		if name == "columnsIn" {
			Doc(fmt.Sprintf("%s%s copies n rows of cols elements, which are apart elements from each other, to dst: first", name,
				w.suffix), "a vector of each row, then the next vector of each row, and so on.")
		} else {
			Doc(fmt.Sprintf("%s%s copies src to n rows of cols elements, which are apart elements from each other: src has", name,
				w.suffix), "first a vector of each row, then the next vector of each row, and so on.")
		}
		load := func(name string) Register { return Load(Param(name), GP64()) }
		matrix, vectors := load("src"), load("dst")
		if name == "columnsOut" {
			matrix, vectors = vectors, matrix
		}
		n, apart, whole, rest, step := load("n"), load("apart"), load("cols"), GP64(), GP64()
		SHLQ(Imm(2), apart)
		MOVQ(whole, rest)
		ANDQ(Imm(uint64(w.lanes()-1)), rest)
		SUBQ(rest, whole)
		SHLQ(Imm(2), whole)
		IMUL3Q(U32(w.size), n, step)
		move := func(p *partial, row, column Mem) {
			y := w.vector()
			if name == "columnsIn" {
				p.load(row, y)
				VMOVUPS(y, column)
			} else {
				VMOVUPS(column, y)
				p.store(y, row)
			}
		}
		some, at, to := w.partial(rest), GP64(), GP64()
		Label("row")
		XORQ(at, at)
		MOVQ(vectors, to)
		Label("vector")
		CMPQ(at, whole)
		JGE(LabelRef("rest"))
		move(&partial{width: w}, Mem{Base: matrix, Index: at, Scale: 1}, Mem{Base: to})
		ADDQ(Imm(uint64(w.size)), at)
		ADDQ(step, to)
		JMP(LabelRef("vector"))
		Label("rest")
		TESTQ(rest, rest)
		JZ(LabelRef("done"))
		move(some, Mem{Base: matrix, Index: at, Scale: 1}, Mem{Base: to})
		Label("done")
		ADDQ(apart, matrix)
		ADDQ(Imm(uint64(w.size)), vectors)
		DECQ(n)
		JNZ(LabelRef("row"))
		VZEROUPPER()
		RET()
	}
}

// newColumns generates the beginning of a function of columns.
func (w width) newColumns() *rowFold {
	load := func(name string) Register { return Load(Param(name), GP64()) }
	f := &rowFold{rowLoop: &rowLoop{width: w, x: load("x"), n: load("n"), at: GP64()}, columnRows: &columnRows{
		end: GP64(), ahead: load("ahead"), far: load("far"), from: GP64()}}
	SHLQ(Imm(2), f.far)
	IMUL3Q(U32(w.size), f.n, f.end)
	return f
}

// eachVector generates a loop over the vectors of columns, and the end of the function.
func (f *rowFold) eachVector(vector func()) {
	cols := Load(Param("cols"), GP64())
	Label("vector")
	vector()
	ADDQ(f.end, f.x)
	ADDQ(Imm(uint64(f.size)), f.ahead)
	SUBQ(Imm(uint64(f.lanes())), cols)
	JNZ(LabelRef("vector"))
	VZEROUPPER()
	RET()
}

// prefetch generates code that prefetches what later calls need, see columnRows.
func (f *rowFold) prefetch() {
	if f.columnRows == nil {
		return
	}
	PREFETCHT1(Mem{Base: f.ahead, Index: f.from, Scale: 1})
	if !f.reduces {
		PREFETCHT1(Mem{Base: f.out, Index: f.from, Scale: 1})
	}
	ADDQ(f.far, f.from)
}

// storeNumber generates code that stores a number of each column.
func (f *rowFold) storeNumber(y number, to Register) {
	for i, half := range y {
		VMOVUPD(half, Mem{Base: to, Disp: f.size * i})
	}
}

// pass generates a loop over the vectors of a row, or over the elements of columns.
func (f *rowFold) pass(name string, vector func(p *partial)) {
	if f.columnRows == nil {
		f.rowLoop.pass(name, vector)
		return
	}
	XORQ(f.at, f.at)
	XORQ(f.from, f.from)
	Label(name)
	vector(&partial{width: f.width})
	ADDQ(Imm(uint64(f.size)), f.at)
	CMPQ(f.at, f.end)
	JLT(LabelRef(name))
}

// load generates code that loads elements of the row.
func (f *rowFold) load(p *partial) VecVirtual {
	y, from := f.vector(), Mem{Base: f.x, Index: f.at, Scale: 4}
	if f.columnRows != nil {
		from = f.place()
	}
	p.load(from, y)
	return y
}

// keep generates code that stores y for a later pass, which calls kept.
func (f *rowFold) keep(p *partial, y VecVirtual) { p.store(y, f.place()) }

// kept generates code that loads what keep stored.
func (f *rowFold) kept(p *partial) VecVirtual {
	y := f.vector()
	p.load(f.place(), y)
	return y
}

// place returns the place of a vector of results. Columns have it where the elements are.
func (f *rowFold) place() Mem {
	if f.columnRows != nil {
		return Mem{Base: f.x, Index: f.at, Scale: 1}
	}
	return Mem{Base: f.out, Index: f.at, Scale: 4}
}

// store generates code that stores results y, multiplied by the first list and added to the second.
func (f *rowFold) store(p *partial, y VecVirtual) {
	for i, list := range f.lists {
		z := f.vector()
		p.load(Mem{Base: list, Index: f.at, Scale: 4}, z)
		if i == 0 {
			VMULPS(z, y, y)
		} else {
			VADDPS(z, y, y)
		}
	}
	p.store(y, f.place())
}

// broadcast generates code that returns a number, rounded to float32, in all elements of a vector, or in the column's.
func (f *rowFold) broadcast(x number) VecVirtual {
	if f.columnRows != nil {
		return f.join([2]VecVirtual{f.narrow(x[0]), f.narrow(x[1])})
	}
	narrow, to := XMM(), f.vector()
	VCVTSD2SS(x[0].AsX(), x[0].AsX(), narrow)
	VBROADCASTSS(narrow, to)
	return to
}

// wide generates code that returns the float32 number that all elements of a vector have, or those of the columns.
func (f *rowFold) wide(x VecVirtual) number {
	if f.columnRows == nil {
		to := XMM()
		VCVTSS2SD(x.AsX(), x.AsX(), to)
		return number{to}
	}
	var to number
	for _, half := range f.halves(x) {
		to = append(to, f.vector())
		VCVTPS2PD(half, to[len(to)-1])
	}
	return to
}

// total generates code that returns the sum of the elements of two vectors of float64 numbers, or those of the columns.
func (f *rowFold) total(acc [2]VecVirtual) number {
	if f.columnRows != nil {
		return acc[:]
	}
	VADDPD(acc[1], acc[0], acc[0])
	f.foldLanes(acc[0], acc[1], func(x, acc VecVirtual) { VADDPD(x, acc, acc) })
	return number{acc[0]}
}

// arithmetic is an instruction for one float64 number and for a vector.
type arithmetic struct{ scalar, packed func(ops ...Op) }

var (
	addOf = arithmetic{func(ops ...Op) { VADDSD(ops...) }, func(ops ...Op) { VADDPD(ops...) }}
	subOf = arithmetic{func(ops ...Op) { VSUBSD(ops...) }, func(ops ...Op) { VSUBPD(ops...) }}
	mulOf = arithmetic{func(ops ...Op) { VMULSD(ops...) }, func(ops ...Op) { VMULPD(ops...) }}
	divOf = arithmetic{func(ops ...Op) { VDIVSD(ops...) }, func(ops ...Op) { VDIVPD(ops...) }}
	maxOf = arithmetic{func(ops ...Op) { VMAXSD(ops...) }, func(ops ...Op) { VMAXPD(ops...) }}
)

// apply generates code that returns the result of an instruction on two numbers.
func (f *rowFold) apply(of arithmetic, y, x number) number {
	if f.columnRows == nil {
		to := XMM()
		of.scalar(y[0].AsX(), x[0].AsX(), to)
		return number{to}
	}
	to := number{f.vector(), f.vector()}
	for i := range to {
		of.packed(y[i], x[i], to[i])
	}
	return to
}

// sqrt generates code that returns the square root of a number.
func (f *rowFold) sqrt(x number) number {
	if f.columnRows == nil {
		to := XMM()
		VSQRTSD(x[0].AsX(), x[0].AsX(), to)
		return number{to}
	}
	to := number{f.vector(), f.vector()}
	for i := range to {
		VSQRTPD(x[i], to[i])
	}
	return to
}

// same generates code that returns one number for each row: the scalar x.
func (f *rowFold) same(x Op) number {
	if f.columnRows == nil {
		to := XMM()
		VMOVSD(x, to)
		return number{to}
	}
	to := f.vector()
	VBROADCASTSD(x, to)
	return number{to, to}
}

// count generates code that returns the number of a row's elements.
func (f *rowFold) count() number {
	n := XMM()
	VXORPD(n, n, n)
	VCVTSI2SDQ(f.n, n, n)
	if f.columnRows == nil {
		return number{n}
	}
	return f.same(n)
}

// inverse generates code that returns 1/x.
func (f *rowFold) inverse(x number) number {
	one := f.double(1)
	return f.apply(divOf, x, number{one, one})
}

// exponentials generates code that returns the greatest element of the row, in all lanes, and the sum of
// e^(x-greatest). If keeps is true, it keeps these exponentials.
func (f *rowFold) exponentials(keeps bool) (greatest VecVirtual, sum number) {
	lowest := f.bits(math.Float32bits(float32(math.Inf(-1))))
	if f.columnRows != nil { // if all elements are -inf, the sum is 0
		lowest = f.constant(-math.MaxFloat32)
	}
	greatest = f.vector()
	VMOVAPS(lowest, greatest)
	f.pass("greatest", func(p *partial) {
		y := f.load(p)
		if p.mask != nil && f.columnRows == nil {
			f.blend(p.mask, y, lowest, y) // elements after the row
		}
		VMAXPS(greatest, y, greatest)
	})
	if f.columnRows == nil {
		f.greatestLane(greatest)
	}
	sums := f.newNarrowSums()
	if f.columnRows != nil {
		sums.step = f.size
	}
	f.pass("exp", func(p *partial) {
		y := f.load(p)
		f.prefetch()
		VSUBPS(greatest, y, y)
		switch {
		case keeps:
			f.expBelow(y)
			f.keep(p, y)
		case f.columnRows != nil: // without a term of 1 the sum is 0
			f.expBelow(y)
		default:
			f.expOfSum(y)
		}
		sums.add(p, f.at, y)
	})
	return greatest, f.total(sums.finish())
}

// greatestLane generates code that sets all lanes of x to the greatest one.
func (f *rowFold) greatestLane(x VecVirtual) {
	if f.size == 64 {
		high := YMM()
		VEXTRACTF64X4(Imm(1), x, high)
		VMAXPS(high, x.AsY(), x.AsY())
	}
	high := XMM()
	VEXTRACTF128(Imm(1), x.AsY(), high)
	VMAXPS(high, x.AsX(), x.AsX())
	for _, lanes := range []uint64{0x4e, 0xb1} { // exchange pairs, then neighbours
		VPERMILPS(Imm(lanes), x.AsX(), high)
		VMAXPS(high, x.AsX(), x.AsX())
	}
	VBROADCASTSS(x.AsX(), x)
}

// softmax generates the code for a row of softmax.
func (f *rowFold) softmax() number {
	_, sum := f.exponentials(true)
	by := f.broadcast(f.inverse(sum))
	f.pass("finish", func(p *partial) {
		y := f.kept(p)
		VMULPS(by, y, y)
		f.store(p, y)
	})
	return sum
}

// logarithm generates code that returns the logarithms of numbers of columns.
func (f *rowFold) logarithm(x number) number {
	to := number{f.vector(), f.vector()}
	for i, log := range to {
		VMOVAPD(x[i], log)
		f.logDouble(log, false)
	}
	return to
}

// logSoftmax generates the code for the results of a row of log_softmax, see rowFoldOf.late.
func (f *rowFold) logSoftmax(greatest VecVirtual, log number) {
	by := f.broadcast(log)
	f.pass("finish", func(p *partial) {
		y := f.load(p)
		VSUBPS(greatest, y, y)
		VSUBPS(by, y, y)
		f.store(p, y)
	})
}

// logSumExp generates the code for the result of a row of logsumexp, see rowFoldOf.late.
func (f *rowFold) logSumExp(greatest VecVirtual, log number) {
	f.put(f.apply(addOf, log, f.wide(greatest)))
}

// put generates code that stores the result of a row that has only one.
func (f *rowFold) put(x number) {
	if f.columnRows != nil {
		VMOVUPS(f.broadcast(x), Mem{Base: f.out})
		return
	}
	narrow := XMM()
	VCVTSD2SS(x[0].AsX(), x[0].AsX(), narrow)
	VMOVSS(narrow, Mem{Base: f.out})
}

// sumOfSquares generates code that returns the sum of the squares.
func (f *rowFold) sumOfSquares() number {
	acc := [2]VecVirtual{f.zero(), f.zero()}
	f.pass("squares", func(p *partial) {
		f.prefetch()
		for i, half := range f.doubles(p) {
			VFMADD231PD(half, half, acc[i])
		}
	})
	return f.total(acc)
}

// rootMeanSquare generates the code for a row of rms_norm or, if l2 is true, of l2_normalize. It returns a check, which
// is finite if the row's values are.
func (f *rowFold) rootMeanSquare(l2 bool) number {
	sum := f.sumOfSquares()
	var root number
	if l2 {
		root = f.apply(maxOf, f.same(f.eps), f.sqrt(sum))
	} else {
		root = f.inverse(f.sqrt(f.apply(addOf, f.same(f.eps), f.apply(divOf, f.count(), sum))))
	}
	by := f.broadcast(root)
	f.pass("finish", func(p *partial) {
		y := f.load(p)
		if l2 {
			VDIVPS(by, y, y)
		} else {
			VMULPS(by, y, y)
		}
		f.store(p, y)
	})
	return f.apply(addOf, sum, root)
}

// doubles generates code that returns a vector's elements of the row as two vectors of float64 numbers.
func (f *rowFold) doubles(p *partial) (to [2]VecVirtual) {
	halves := [2]Op{Mem{Base: f.x, Index: f.at, Scale: 4}, Mem{Base: f.x, Index: f.at, Scale: 4, Disp: f.size / 2}}
	if p.mask != nil || f.columnRows != nil {
		parts := f.halves(f.load(p))
		halves = [2]Op{parts[0], parts[1]}
	}
	for i, half := range halves {
		to[i] = f.vector()
		VCVTPS2PD(half, to[i])
	}
	return to
}

// rowMoments generates code that returns the row's first element, and the sums of the differences from it and of their
// squares.
func (f *rowFold) rowMoments() (first, sum, square number) {
	m := f.newMoments()
	if f.columnRows != nil {
		VMOVUPS(Mem{Base: f.x}, m.narrow)
		first = f.wide(m.narrow)
		copy(m.first[:], first)
	} else {
		VBROADCASTSS(Mem{Base: f.x}, m.narrow)
		first = f.wide(m.narrow)
		VBROADCASTSD(first[0], m.first[0])
	}
	f.pass("moments", func(p *partial) {
		f.prefetch()
		if f.columnRows != nil {
			parts := f.halves(f.load(p))
			m.add([2]Op{parts[0], parts[1]})
		} else {
			m.add(m.differing(f.rowLoop, p))
		}
	})
	return first, f.total(m.total), f.total(m.square)
}

// variance generates the code for a row of variance.
func (f *rowFold) variance() number {
	_, sum, square := f.rowMoments()
	n := f.count()
	zero := f.zero()
	count := f.apply(maxOf, number{zero, zero}, f.apply(subOf, f.same(f.eps), n))
	squares := f.apply(subOf, f.apply(divOf, n, f.apply(mulOf, sum, sum)), square)
	result := f.apply(divOf, count, squares)
	f.put(result)
	return result
}

// layerNorm generates the code for a row of layer_norm: of deviations from the first element, see momentsOf in package
// fast.
func (f *rowFold) layerNorm() number {
	first, sum, square := f.rowMoments()
	n := f.count()
	start := f.apply(addOf, first, f.apply(divOf, n, sum))
	from := f.broadcast(start)
	apart := f.apply(subOf, f.wide(from), first)
	shift := f.apply(mulOf, n, apart)
	dev := f.apply(addOf, shift, sum)
	squares := f.apply(addOf, square, f.apply(mulOf, apart, f.apply(addOf, sum, dev)))
	mean := f.apply(divOf, n, dev)
	variance := f.apply(subOf, f.apply(mulOf, mean, mean), f.apply(divOf, n, squares))
	root := f.inverse(f.sqrt(f.apply(addOf, f.same(f.eps), variance)))
	less, by := f.broadcast(mean), f.broadcast(root)
	f.pass("finish", func(p *partial) {
		y := f.load(p)
		VSUBPS(from, y, y)
		VSUBPS(less, y, y)
		VMULPS(by, y, y)
		f.store(p, y)
	})
	start = f.apply(mulOf, start, start) // rows of magnitudes beyond 1e19 are left to other code
	return f.apply(addOf, start, f.apply(addOf, square, root))
}
