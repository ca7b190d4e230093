package main

import (
	"fmt"
	"math"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rowFold is the code of a function that computes all steps of an op that folds rows, one row after the other. If the
// rows are columns, it computes as many rows at a time as a vector has lanes: lane i has the elements of row i.
type rowFold struct {
	*rowLoop
	*columnRows            // nil if the elements of a row are neighbours
	out         Register   // the results
	eps         Mem        // the op's attribute
	lists       []Register // a factor and a summand of the results, or none
}

// values is a block of values: as many as a vector has lanes of float32, in a vector of float32 or two of float64.
type values []VecVirtual

// parts says which elements of a block to load or store: for each vector of the block, all or its first ones.
type parts []*partial

// floats is a type of elements, with its instructions.
type floats struct {
	suffix                  string // of the names of functions
	bytes                   int    // of an element
	add, sub, mul, div, max func(ops ...Op)
}

var (
	singles = floats{"", 4, VADDPS, VSUBPS, VMULPS, VDIVPS, VMAXPS}
	wides   = floats{"Doubles", 8, VADDPD, VSUBPD, VMULPD, VDIVPD, VMAXPD}
)

// areWide reports whether the elements are float64.
func (t floats) areWide() bool { return t.bytes == 8 }

// log2 returns the logarithm of n, a power of 2: by how many bits to shift a number of elements of n bytes.
func log2(n int) uint64 { return uint64(bits.Len(uint(n)) - 1) }

// pointer is the type of a list of elements.
func (t floats) pointer() string { return fmt.Sprintf("*float%d", 8*t.bytes) }

// parts generates code that returns the parts of a block with its first n elements.
func (w width) parts(t floats, n Register) parts {
	if !t.areWide() {
		return parts{w.partial(n)}
	}
	var list parts
	if w.size == 64 {
		bits := GP64() // two for each element, because a mask has a bit for 32 bits
		MOVL(U32(1<<32-1), bits.As32())
		words := GP64()
		LEAQ(Mem{Base: n, Index: n, Scale: 1}, words)
		BZHIQ(words, bits, bits)
		for range 2 {
			mask := K()
			KMOVW(bits.As32(), mask)
			SHRQ(Imm(16), bits)
			list = append(list, &partial{width: w, mask: mask})
		}
		return list
	}
	for _, half := range w.halves(w.maskOf(n)) {
		mask := w.vector()
		VPMOVSXDQ(half, mask)
		list = append(list, &partial{width: w, mask: mask})
	}
	return list
}

// areWhole reports whether the parts are whole vectors.
func (p parts) areWhole() bool { return p[0].mask == nil }

// load generates code that loads the parts of a block.
func (p parts) load(from Mem) values {
	list := make(values, len(p))
	for i, part := range p {
		list[i] = part.vector()
		part.load(from.Offset(i*part.size), list[i])
	}
	return list
}

// store generates code that stores the parts of a block.
func (p parts) store(y values, to Mem) {
	for i, part := range p {
		part.store(y[i], to.Offset(i*part.size))
	}
}

// operate generates code that replaces y by the results of an instruction on y and x, for example y-x.
func operate(of func(ops ...Op), x, y values) {
	for i := range y {
		of(x[i], y[i], y[i])
	}
}

// columnRows describes rows in the form of package fast's columnBlock: a vector has element 0 of each of some rows, the
// next vector has element 1, and so on. A function may change them. One pass over them also prefetches two matrices:
// the elements of the next call, and the place of the results. So memory works while the processor computes.
type columnRows struct {
	end     Register // the bytes of n vectors
	ahead   Register // the matrix of the next call
	far     Register // the distance between rows of the matrices, in bytes
	from    Register // far times the number of the pass's element
	reduces bool     // whether a row has one result; otherwise the place of the results is prefetched
}

// number is a float64 number of each row that is computed at a time: a scalar in an XMM register for one row. For
// columns it is two vectors, each for half of the rows.
type number []VecVirtual

// rowFolds generates the functions of ops such as softmax, which compute a row from folds of it; see rowFolds in
// package fast. Each function has a version for each number of lists (weights): the results are multiplied by the
// first list, and the second is added.
func (w width) rowFolds(t floats) {
	for _, f := range []rowFoldOf{
		{name: "softmax", what: "e^(x-max)/sum(e^(x-max))", exps: true, row: (*rowFold).softmax},
		{name: "logSoftmax", what: "x-max-log(sum(e^(x-max)))", exps: true, late: (*rowFold).logSoftmax},
		{name: "logSumExp", what: "max+log(sum(e^(x-max)))", exps: true, reduces: true, late: (*rowFold).logSumExp},
		{name: "variance", what: "sum((x-mean)^2)/max(n-eps, 0)", reduces: true, row: (*rowFold).variance},
		{name: "l2Normalize", what: "x/max(sqrt(sum(x^2)), eps)",
			row: func(f *rowFold) number { return f.rootMeanSquare(true) }},
		{name: "rmsNorm", what: "x/sqrt(mean(x^2)+eps)", lists: 1,
			row: func(f *rowFold) number { return f.rootMeanSquare(false) }},
		{name: "layerNorm", what: "(x-mean)/sqrt(variance+eps)", lists: 2, row: (*rowFold).layerNorm},
	} {
		for lists := range f.lists + 1 {
			w.rowFold(t, f, lists)
		}
		if f.lists == 0 {
			w.columnFold(t, f)
		}
	}
	w.columnsMoved(t)
	w.columnParts(t, "exponentials", "the greatest element and the sum of e^(x-greatest)", true,
		func(f *rowFold) []number {
			greatest, sum := f.exponentials(false)
			finite := f.double(-math.MaxFloat64) // differences from it are numbers
			return []number{f.apply(maxOf, f.wide(greatest), number{finite, finite}), sum}
		})
	w.columnParts(t, "squares", "the sum of the squares", false,
		func(f *rowFold) []number { return []number{f.sumOfSquares()} })
	w.columnParts(t, "moments", "a number near the mean, and the sums of the differences from it and of their squares", false,
		func(f *rowFold) []number {
			first, sum, square := f.rowMoments()
			return []number{first, sum, square}
		})
}

// rowFoldOf describes a function. It has either row or late.
type rowFoldOf struct {
	name, what string
	lists      int  // the most lists that the function takes
	exps       bool // the function computes exponentials
	reduces    bool // a row has one result

	// row generates the code of a row, and returns the row's check.
	row func(f *rowFold) (check number)

	// late generates the code for the results of a row, given its greatest element and the logarithm of the sum of its
	// exponentials.
	late func(f *rowFold, greatest values, log number)
}

// rowFold generates one of these functions, with the given number of lists.
func (w width) rowFold(t floats, of rowFoldOf, lists int) {
	name := of.name + []string{"Rows", "ListRows", "ListsRows"}[lists] + t.suffix + w.suffix
	TEXT(name, NOSPLIT, "func(out, x, w, v "+t.pointer()+", checks *float64, eps float64, rows, n int)")
	Doc(fmt.Sprintf("%s sets out to %s of the elements x of rows, which have n elements,", name, of.what),
		[]string{"", "multiplied by the list w, ", "multiplied by the list w and added to v, "}[lists]+
			"and each of checks to a number that is finite in the elements' type if the row's values are.")
	f := &rowFold{rowLoop: w.rowLoop(t), out: Load(Param("out"), GP64())}
	for _, list := range []string{"w", "v"}[:lists] {
		f.lists = append(f.lists, Load(Param(list), GP64()))
	}
	checks := Load(Param("checks"), GP64())
	eps, _ := Param("eps").Resolve()
	f.eps = eps.Addr
	f.some = w.parts(t, f.rest)
	endConstants := f.keepConstants(of.exps)
	defer endConstants()
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
	f.toNextRow(f.x)
	switch {
	case results && of.reduces:
		ADDQ(Imm(uint64(f.bytes)), f.out)
	case results:
		f.toNextRow(f.out)
	}
}

// batches generates a loop over batches of rows: first the folds of each row, then the logarithms of all sums of the
// batch in vectors, and then the results of each row. The logarithm of a single row would take as long as the
// exponentials of four vectors.
func (f *rowFold) batches(of rowFoldOf, checks Register) {
	const batch = 8
	greatest, sums := AllocLocal(f.bytes*batch), AllocLocal(8*batch)
	count, k, back := GP64(), GP64(), GP64() // rows of the batch, the number of a row, and the way back in bytes
	each := func(name string, body func()) { // generates a loop over the rows of the batch
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
		if f.areWide() {
			VMOVSD(top[0].AsX(), greatest.Idx(k, 8))
		} else {
			VMOVSS(top[0].AsX(), greatest.Idx(k, 4))
		}
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
	MOVQ(count, back) // to the first row of the batch
	IMULQ(f.n, back)
	SHLQ(Imm(log2(f.bytes)), back)
	SUBQ(back, f.x)
	each("late", func() {
		top, log := f.repeated(greatest.Idx(k, uint8(f.bytes))), XMM()
		VMOVSD(sums.Idx(k, 8), log)
		of.late(f, top, number{log})
		f.nextRow(of, true)
	})
	JMP(LabelRef("batch"))
}

// repeated generates code that loads one element into all lanes of a block.
func (f *rowFold) repeated(from Mem) values {
	y := f.vector()
	f.broadcastElement(from, y)
	return f.same(y)
}

// columnFold generates the variant of a function that computes a vector of columns at a time: each lane has a row.
func (w width) columnFold(t floats, of rowFoldOf) {
	name := of.name + "Columns" + t.suffix + w.suffix
	TEXT(name, NOSPLIT, "func(x, out, ahead "+t.pointer()+", checks *float64, eps float64, n, far, cols int)")
	what := []string{fmt.Sprintf("%s replaces the n elements x of cols rows, which are a multiple of the lanes, by", name),
		of.what + "."}
	if of.reduces {
		what = []string{fmt.Sprintf("%s sets out to %s of the n elements x", name, of.what),
			"of cols rows, which are a multiple of the lanes."}
	}
	Doc(append(what, "The rows of a block take turns in x, see columnsIn. The function may change x. Each of checks is finite in",
		"the elements' type if the row's values are. It prefetches matrices whose rows are far elements apart: ahead, and",
		"out if x has the results.")...)
	f := w.newColumns(t)
	f.out, f.reduces = Load(Param("out"), GP64()), of.reduces
	checks := Load(Param("checks"), GP64())
	eps, _ := Param("eps").Resolve()
	f.eps = eps.Addr
	defer f.keepConstants(of.exps)()
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
		ADDQ(U32(f.blockBytes()), f.out)
		ADDQ(U32(2*w.size), checks)
	})
}

// columnParts generates a function of the results of parts of columns.
func (w width) columnParts(t floats, name, what string, exps bool, row func(f *rowFold) []number) {
	name += "OfColumns" + t.suffix + w.suffix
	TEXT(name, NOSPLIT, "func(results *float64, x, ahead "+t.pointer()+", n, far, stride, cols int)")
	Doc(fmt.Sprintf("%s finds %s of cols", name, what),
		"rows, which are a multiple of the lanes, of n elements x. The rows of a block take turns, see columnsIn. Each row",
		"has several results, which are stride numbers from each other. The function prefetches ahead, a matrix whose rows",
		"are far elements apart.")
	f := w.newColumns(t)
	f.reduces = true
	results, stride := Load(Param("results"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(3), stride)
	defer f.keepConstants(exps)()
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

// columnsMoved generates the functions that copy columns of a matrix to blocks of their own, and back.
func (w width) columnsMoved(t floats) {
	for _, name := range []string{"columnsIn", "columnsOut"} {
		TEXT(name+t.suffix+w.suffix, NOSPLIT, "func(dst, src "+t.pointer()+", n, apart, cols int)")
		if full := name + t.suffix + w.suffix; name == "columnsIn" {
			Doc(fmt.Sprintf("%s copies n rows of cols elements, which are apart elements from each other, to dst: first", full),
				"a block of each row, then the next block of each row, and so on.")
		} else {
			Doc(fmt.Sprintf("%s copies src to n rows of cols elements, which are apart elements from each other: src has", full),
				"first a block of each row, then the next block of each row, and so on.")
		}
		load := func(param string) Register { return Load(Param(param), GP64()) }
		matrix, blocks := load("src"), load("dst")
		if name == "columnsOut" {
			matrix, blocks = blocks, matrix
		}
		f := &rowFold{rowLoop: &rowLoop{width: w, floats: t}}
		// whole is the size of a row's whole vectors, in bytes. rest counts the elements after them. step is the
		// distance between two blocks of a row.
		n, apart, whole, rest, step := load("n"), load("apart"), load("cols"), GP64(), GP64()
		shift := Imm(log2(t.bytes))
		SHLQ(shift, apart)
		MOVQ(whole, rest)
		ANDQ(Imm(uint64(w.lanes()-1)), rest)
		SUBQ(rest, whole)
		SHLQ(shift, whole)
		IMUL3Q(U32(f.blockBytes()), n, step)
		move := func(p parts, row, column Mem) {
			if name == "columnsIn" {
				f.all().store(p.load(row), column)
			} else {
				p.store(f.all().load(column), row)
			}
		}
		some, at, to := w.parts(t, rest), GP64(), GP64()
		Label("row")
		XORQ(at, at)
		MOVQ(blocks, to)
		Label("vector")
		CMPQ(at, whole)
		JGE(LabelRef("rest"))
		move(f.all(), Mem{Base: matrix, Index: at, Scale: 1}, Mem{Base: to})
		ADDQ(U32(f.blockBytes()), at)
		ADDQ(step, to)
		JMP(LabelRef("vector"))
		Label("rest")
		TESTQ(rest, rest)
		JZ(LabelRef("done"))
		move(some, Mem{Base: matrix, Index: at, Scale: 1}, Mem{Base: to})
		Label("done")
		ADDQ(apart, matrix)
		ADDQ(U32(f.blockBytes()), blocks)
		DECQ(n)
		JNZ(LabelRef("row"))
		VZEROUPPER()
		RET()
	}
}

// newColumns generates the beginning of a function of columns.
func (w width) newColumns(t floats) *rowFold {
	load := func(name string) Register { return Load(Param(name), GP64()) }
	f := &rowFold{rowLoop: &rowLoop{width: w, floats: t, x: load("x"), n: load("n"), at: GP64()},
		columnRows: &columnRows{end: GP64(), ahead: load("ahead"), far: load("far"), from: GP64()}}
	SHLQ(Imm(log2(t.bytes)), f.far)
	IMUL3Q(U32(f.blockBytes()), f.n, f.end)
	return f
}

// eachVector generates a loop over the vectors of columns, and the end of the function.
func (f *rowFold) eachVector(vector func()) {
	cols := Load(Param("cols"), GP64())
	Label("vector")
	vector()
	ADDQ(f.end, f.x)
	ADDQ(U32(f.blockBytes()), f.ahead)
	SUBQ(Imm(uint64(f.lanes())), cols)
	JNZ(LabelRef("vector"))
	VZEROUPPER()
	RET()
}

// prefetchLater generates code that prefetches what later calls need, see columnRows.
func (f *rowFold) prefetchLater() {
	if f.columnRows == nil {
		return
	}
	for line := 0; line < f.blockBytes(); line += 64 {
		PREFETCHT1(Mem{Base: f.ahead, Index: f.from, Scale: 1, Disp: line})
		if !f.reduces {
			PREFETCHT1(Mem{Base: f.out, Index: f.from, Scale: 1, Disp: line})
		}
	}
	ADDQ(f.far, f.from)
}

// storeNumber generates code that stores a number of each column.
func (f *rowFold) storeNumber(y number, to Register) {
	for i, half := range y {
		VMOVUPD(half, Mem{Base: to, Disp: f.size * i})
	}
}

// pass generates a loop over the blocks of a row, or over the elements of columns.
func (f *rowFold) pass(name string, block func(p parts)) {
	if f.columnRows == nil {
		f.rowLoop.pass(name, block)
		return
	}
	XORQ(f.at, f.at)
	XORQ(f.from, f.from)
	Label(name)
	block(f.all())
	ADDQ(U32(f.blockBytes()), f.at)
	CMPQ(f.at, f.end)
	JLT(LabelRef(name))
}

// load generates code that loads elements of the row.
func (f *rowFold) load(p parts) values {
	if f.columnRows != nil {
		return p.load(f.place())
	}
	return p.load(f.block(f.x))
}

// keep generates code that stores y for a later pass, which calls kept.
func (f *rowFold) keep(p parts, y values) { p.store(y, f.place()) }

// kept generates code that loads what keep stored.
func (f *rowFold) kept(p parts) values { return p.load(f.place()) }

// place returns the place of a block of results. Columns have it where the elements are.
func (f *rowFold) place() Mem {
	if f.columnRows != nil {
		return Mem{Base: f.x, Index: f.at, Scale: 1}
	}
	return f.block(f.out)
}

// store generates code that stores results y, multiplied by the first list and added to the second.
func (f *rowFold) store(p parts, y values) {
	for i, list := range f.lists {
		operate([]func(ops ...Op){f.mul, f.add}[i], p.load(f.block(list)), y)
	}
	p.store(y, f.place())
}

// broadcast generates code that returns a block in which each element is the number of its row, rounded to the
// elements' type.
func (f *rowFold) broadcast(x number) values {
	switch {
	case f.columnRows != nil && f.areWide():
		return values(x)
	case f.columnRows != nil:
		return values{f.join([2]VecVirtual{f.narrow(x[0]), f.narrow(x[1])})}
	}
	to := f.vector()
	if f.areWide() {
		VBROADCASTSD(x[0].AsX(), to)
		return values{to, to}
	}
	narrow := XMM()
	VCVTSD2SS(x[0].AsX(), x[0].AsX(), narrow)
	VBROADCASTSS(narrow, to)
	return values{to}
}

// wide generates code that does the opposite of broadcast: it returns the number of each row, as float64, from a
// block in which each element has the number of its row.
func (f *rowFold) wide(x values) number {
	switch {
	case f.columnRows != nil && f.areWide():
		return number(x)
	case f.columnRows == nil:
		to := XMM()
		if f.areWide() {
			VMOVAPD(x[0].AsX(), to)
		} else {
			VCVTSS2SD(x[0].AsX(), x[0].AsX(), to)
		}
		return number{to}
	}
	var to number
	for _, half := range f.halves(x[0]) {
		to = append(to, f.vector())
		VCVTPS2PD(half, to[len(to)-1])
	}
	return to
}

// total generates code that returns the sum of each row: of all elements of two vectors of float64 numbers or, for
// columns, the vectors, which have a sum per lane.
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

// number generates code that returns one number for each row: the scalar x.
func (f *rowFold) number(x Op) number {
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
	return f.number(n)
}

// inverse generates code that returns 1/x.
func (f *rowFold) inverse(x number) number {
	one := f.double(1)
	return f.apply(divOf, x, number{one, one})
}

// exponentials generates code that returns the greatest element of the row, in all lanes, and the sum of
// e^(x-greatest). If keeps is true, it keeps these exponentials.
func (f *rowFold) exponentials(keeps bool) (greatest values, sum number) {
	lowest := f.bits(math.Float32bits(float32(math.Inf(-1))))
	if f.areWide() {
		lowest = f.double(math.Inf(-1))
	}
	for range f.vectors() {
		y := f.vector()
		VMOVAPS(lowest, y)
		greatest = append(greatest, y)
	}
	f.pass("greatest", func(p parts) {
		for i, y := range f.load(p) {
			if !p.areWhole() {
				f.blend(p[i].mask, y, lowest, y) // elements after the row
			}
			f.max(greatest[i], y, greatest[i])
		}
	})
	if f.columnRows == nil {
		f.greatestLane(greatest)
	}
	step := f.lanes()
	if f.columnRows != nil {
		step = f.blockBytes()
	}
	add, sums := f.newSums(step)
	f.pass("exp", func(p parts) {
		y := f.load(p)
		f.prefetchLater()
		operate(f.sub, greatest, y)
		for _, y := range y {
			f.expOf(y, keeps)
		}
		if keeps {
			f.keep(p, y)
		}
		add(p, y)
	})
	sum = f.total(sums())
	if f.columnRows != nil { // if all elements are -inf, the terms are NaN, and the sum must be 0
		for i, top := range f.wide(greatest) {
			some := f.compareDoubles(differ, top, f.double(math.Inf(-1)))
			f.blendDoubles(some, sum[i], f.zero(), sum[i])
		}
	}
	return greatest, sum
}

// expOf generates code that replaces y, a vector of elements less the greatest, by exponentials. If results is false,
// they are only terms of a sum that has a term of 1, so tiny ones may be wrong.
func (f *rowFold) expOf(y VecVirtual, results bool) {
	switch {
	case f.areWide() && results:
		f.expDouble(y)
	case f.areWide():
		f.expOfSumDouble(y)
	case results:
		f.expBelow(y)
	default:
		f.expOfSum(y)
	}
}

// greatestLane generates code that sets all lanes of a block to the greatest one.
func (f *rowFold) greatestLane(block values) {
	x := block[0]
	if f.areWide() {
		other := block[1]
		VMAXPD(other, x, x)
		f.foldLanes(x, other, func(y, x VecVirtual) { VMAXPD(y, x, x) })
		block[1] = x
		return
	}
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
	f.pass("finish", func(p parts) {
		y := f.kept(p)
		operate(f.mul, by, y)
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
func (f *rowFold) logSoftmax(greatest values, log number) {
	by := f.broadcast(log)
	f.pass("finish", func(p parts) {
		y := f.load(p)
		operate(f.sub, greatest, y)
		operate(f.sub, by, y)
		f.store(p, y)
	})
}

// logSumExp generates the code for the result of a row of logsumexp, see rowFoldOf.late.
func (f *rowFold) logSumExp(greatest values, log number) {
	f.put(f.apply(addOf, log, f.wide(greatest)))
}

// put generates code that stores the result of a row that has only one.
func (f *rowFold) put(x number) {
	switch {
	case f.columnRows != nil:
		f.all().store(f.broadcast(x), Mem{Base: f.out})
		return
	case f.areWide():
		VMOVSD(x[0].AsX(), Mem{Base: f.out})
		return
	}
	narrow := XMM()
	VCVTSD2SS(x[0].AsX(), x[0].AsX(), narrow)
	VMOVSS(narrow, Mem{Base: f.out})
}

// sumOfSquares generates code that returns the sum of the squares.
func (f *rowFold) sumOfSquares() number {
	acc := [2]VecVirtual{f.zero(), f.zero()}
	f.pass("squares", func(p parts) {
		f.prefetchLater()
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
		root = f.apply(maxOf, f.number(f.eps), f.sqrt(sum))
	} else {
		root = f.inverse(f.sqrt(f.apply(addOf, f.number(f.eps), f.apply(divOf, f.count(), sum))))
	}
	by := f.broadcast(root)
	scale := f.mul
	if l2 {
		scale = f.div
	}
	f.pass("finish", func(p parts) {
		y := f.load(p)
		operate(scale, by, y)
		f.store(p, y)
	})
	return f.apply(addOf, sum, root)
}

// doubles generates code that returns a block's elements of the row as two vectors of float64 numbers.
func (f *rowFold) doubles(p parts) (to [2]VecVirtual) {
	if f.areWide() {
		return [2]VecVirtual(f.load(p))
	}
	from := f.block(f.x)
	halves := [2]Op{from, from.Offset(f.size / 2)}
	if !p.areWhole() || f.columnRows != nil {
		parts := f.halves(f.load(p)[0])
		halves = [2]Op{parts[0], parts[1]}
	}
	for i, half := range halves {
		to[i] = f.vector()
		VCVTPS2PD(half, to[i])
	}
	return to
}

// rowMoments generates code that returns a number near the row's mean, and the sums of the differences from it and of
// their squares. The number is the first element: float64 has enough digits for the differences of float32. Elements of
// float64 are first compared with their first one, and then with the mean that this gives.
func (f *rowFold) rowMoments() (near, sum, square number) {
	m := f.newMoments()
	var first values
	if f.columnRows != nil {
		first = f.all().load(Mem{Base: f.x})
	} else {
		first = f.repeated(Mem{Base: f.x})
	}
	near = f.wide(first)
	if f.areWide() {
		m.first = [2]VecVirtual(first)
		total := [2]VecVirtual{f.zero(), f.zero()}
		f.pass("mean", func(p parts) {
			for i, y := range f.differing(m, p) {
				VSUBPD(m.first[i], y, y)
				VADDPD(y, total[i], total[i])
			}
		})
		near = f.apply(addOf, near, f.apply(divOf, f.count(), f.total(total)))
		m.first = [2]VecVirtual(f.broadcast(near))
	} else if f.columnRows != nil {
		m.narrow = first[0]
		copy(m.first[:], near)
	} else {
		m.narrow = first[0]
		VBROADCASTSD(near[0], m.first[0])
	}
	f.pass("moments", func(p parts) {
		f.prefetchLater()
		switch {
		case f.areWide():
			for i, y := range f.differing(m, p) {
				VSUBPD(m.first[i], y, y)
				m.addDifference(i, y)
			}
		case f.columnRows != nil:
			parts := f.halves(f.load(p)[0])
			m.add([2]Op{parts[0], parts[1]})
		default:
			m.add(m.differing(f.rowLoop, p[0]))
		}
	})
	return near, f.total(m.total), f.total(m.square)
}

// differing generates code that loads elements of float64. Lanes after the end of the row get the number that m
// subtracts from all elements, so that their difference is 0.
func (f *rowFold) differing(m *moments, p parts) values {
	y := f.load(p)
	if !p.areWhole() {
		for i := range y {
			f.blend(p[i].mask, y[i], m.first[i], y[i])
		}
	}
	return y
}

// variance generates the code for a row of variance.
func (f *rowFold) variance() number {
	_, sum, square := f.rowMoments()
	n := f.count()
	zero := f.zero()
	count := f.apply(maxOf, number{zero, zero}, f.apply(subOf, f.number(f.eps), n))
	squares := f.apply(subOf, f.apply(divOf, n, f.apply(mulOf, sum, sum)), square)
	result := f.apply(divOf, count, squares)
	f.put(result)
	return result
}

// layerNorm generates the code for a row of layer_norm. It moves the sums of differences from the first element to a
// number near the mean (start, rounded to the elements' type), and subtracts first that number and then the rest of the
// mean from the elements, so that few digits are lost.
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
	root := f.inverse(f.sqrt(f.apply(addOf, f.number(f.eps), variance)))
	less, by := f.broadcast(mean), f.broadcast(root)
	f.pass("finish", func(p parts) {
		y := f.load(p)
		operate(f.sub, from, y)
		operate(f.sub, less, y)
		operate(f.mul, by, y)
		f.store(p, y)
	})
	// The check is not finite for magnitudes beyond 1e19 or 1e154, which are left to other code.
	start = f.apply(mulOf, start, start)
	return f.apply(addOf, start, f.apply(addOf, square, root))
}
