package main

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// signs has, by operator, its part of a row program's name.
var signs = map[byte]string{'+': "Add", '-': "Sub", '*': "Mul", '/': "Div"}

// signed returns the instruction of an operator.
func (t floats) signed(sign byte) func(ops ...Op) {
	return map[byte]func(ops ...Op){'+': t.add, '-': t.sub, '*': t.mul, '/': t.div}[sign]
}

// rowPrograms generates the functions of row programs for a type of elements, see rowPrograms in package fast.
func (w width) rowPrograms(t floats) {
	for _, text := range []string{"+row", "-row", "*row", "/row", "-row -row", "-row -row *row", "-row -row *row *list",
		"-row -row *row *list +list", "*row *list", "-row *row +row", "-row exp", "-row exp *row"} {
		w.rowProgram(t, text, true, false)
	}
	for _, text := range []string{"-list exp *list", "-list -list", "/list"} { // of columns
		w.rowProgram(t, text, true, false)
	}
	w.rowProgram(t, "-row exp", true, true)
	w.rowProgram(t, "-row exp", false, true)
}

// rowProgram generates the function of a row program: primitives that follow each other, in one loop over the elements
// of each row. "-row" subtracts the row's number, and "*list" multiplies by the element of a list. stores says that the
// function stores the results, and sums that it adds up those of each row.
func (w width) rowProgram(t floats, text string, stores, sums bool) {
	steps, name := strings.Fields(text), rowProgramName(text, stores, sums)+t.suffix+w.suffix
	TEXT(name, NOSPLIT, "func(out, x, next, a, b, c, w, v "+t.pointer()+", sums *float64, rows, n int)")
	doc := []string{fmt.Sprintf("%s computes %q of each element x of rows, which have n elements. a, b and c have numbers",
		name, text), "of rows, and w and v are lists of n elements."}
	if sums {
		doc = append(doc, "It adds the results of each row to its element of sums. It prefetches next, which has as many",
			"elements as x.")
	}
	if !stores {
		doc = append(doc, "It does not store results.")
	}
	r := w.rowLoop(t)
	Doc(doc...)
	var out, total, next Register
	if sums {
		next = Load(Param("next"), GP64())
	}
	if stores {
		out = Load(Param("out"), GP64())
	}
	if sums {
		total = Load(Param("sums"), GP64())
	}
	numbers, lists := []string{"a", "b", "c"}, []string{"w", "v"}
	from := make([]Register, len(steps)) // by step: the address of its numbers or list
	ofRow := make([]values, len(steps))  // by step: the row's number in each element; nil if the step has none
	for i, s := range steps {
		switch s[1:] { // each step takes the next parameter of its kind
		case "row":
			from[i], numbers = Load(Param(numbers[0]), GP64()), numbers[1:]
			ofRow[i] = r.same(w.vector())
		case "list":
			from[i], lists = Load(Param(lists[0]), GP64()), lists[1:]
		}
	}
	endConstants := r.keepConstants(strings.Contains(text, "exp"))
	defer endConstants()
	var add func(p parts, y values)
	var finish func() [2]VecVirtual
	r.each(func() { // at the beginning of a row
		for i, y := range ofRow {
			if y != nil {
				r.broadcastElement(Mem{Base: from[i]}, y[0])
			}
		}
		if sums {
			add, finish = r.newSums(w.lanes())
		}
	}, func(p parts) { // for each block of the row
		if sums {
			r.prefetch(next)
		}
		y := p.load(r.block(r.x))
		for i, s := range steps {
			switch s[1:] {
			case "row":
				operate(t.signed(s[0]), ofRow[i], y)
			case "list":
				operate(t.signed(s[0]), p.load(r.block(from[i])), y)
			default:
				for _, v := range y {
					r.exp(v)
				}
			}
		}
		if stores {
			p.store(y, r.block(out))
		}
		if sums {
			add(p, y)
		}
	}, func() { // at the end of the row
		if sums {
			w.addLanes(finish(), Mem{Base: total})
			r.toNextRow(next)
			ADDQ(Imm(8), total)
		}
		for i, y := range ofRow {
			if y != nil {
				ADDQ(Imm(uint64(t.bytes)), from[i])
			}
		}
		if stores {
			r.toNextRow(out)
		}
	})
}

// rowProgramName returns the name of a row program's function, without suffixes: "-row exp" with sums has the name
// rowsSubRowExpSum, or rowsSubRowExpOnlySum if it does not store results.
func rowProgramName(text string, stores, sums bool) string {
	name := "rows"
	for _, s := range strings.Fields(text) {
		operand := s
		if sign := signs[s[0]]; sign != "" {
			name += sign
			operand = s[1:]
		}
		name += strings.ToUpper(operand[:1]) + operand[1:]
	}
	switch {
	case sums && stores:
		name += "Sum"
	case sums:
		name += "OnlySum"
	}
	return name
}

// narrowSums adds up float32 numbers. It adds a few vectors in float32, with small errors, and then adds their sum to a
// float64 sum.
type narrowSums struct {
	width
	acc    [2]VecVirtual // the float64 sums, for each half of a vector
	narrow VecVirtual    // the float32 sums
	step   int           // how much the register `at` of add grows from vector to vector
}

// newNarrowSums generates code that sets sums to 0. step is field step of the sums.
func (w width) newNarrowSums(step int) *narrowSums {
	return &narrowSums{w, [2]VecVirtual{w.zero(), w.zero()}, w.zero(), step}
}

// add generates code that adds y, the part p of a row from element at on. It changes y outside of the part.
func (s *narrowSums) add(p *partial, at Register, y VecVirtual) {
	p.clear(y)
	if p.mask == nil {
		// Every 8 vectors, but not before the first, the float32 sums go to the float64 sums.
		const few = 8
		TESTQ(U32(few*s.step-1), at)
		JNZ(LabelRef("sum"))
		TESTQ(at, at)
		JZ(LabelRef("sum"))
		s.widen()
		VXORPS(s.narrow, s.narrow, s.narrow)
		Label("sum")
	}
	VADDPS(y, s.narrow, s.narrow)
}

// widen generates code that adds the float32 sums to the others.
func (s *narrowSums) widen() {
	for i, half := range s.halves(s.narrow) {
		d := s.vector()
		VCVTPS2PD(half, d)
		VADDPD(d, s.acc[i], s.acc[i])
	}
}

// finish generates code that returns the sums.
func (s *narrowSums) finish() [2]VecVirtual {
	s.widen()
	return s.acc
}

// addLanes generates code that adds the sum of the lanes of acc to the float64 number at m. It changes acc.
func (w width) addLanes(acc [2]VecVirtual, m Mem) {
	add := func(x, acc VecVirtual) { VADDPD(x, acc, acc) }
	add(acc[1], acc[0])
	w.foldLanes(acc[0], acc[1], add)
	VADDSD(m, acc[0].AsX(), acc[0].AsX())
	VMOVSD(acc[0].AsX(), m)
}

// moments generates the assembly function that sums, for each row, the differences from its first element and their
// squares.
func (w width) moments() {
	TEXT("moments"+w.suffix, NOSPLIT, "func(sums, squares, firsts *float64, x, ahead *float32, rows, n int, begin bool)")
	Doc(fmt.Sprintf("moments%s adds the elements of each row, less the row's element of firsts, to its element of sums, and",
		w.suffix), "their squares to squares. Rows have n elements. firsts has numbers that float32 can represent. If begin is true, it",
		"sets them to the first elements. It prefetches ahead, which has as many elements as x.")
	r := w.rowLoop(singles)
	sums, squares := Load(Param("sums"), GP64()), Load(Param("squares"), GP64())
	firsts, begin := Load(Param("firsts"), GP64()), Load(Param("begin"), GP8())
	ahead := Load(Param("ahead"), GP64())
	m := w.newMoments()
	narrow := m.narrow
	r.each(func() {
		TESTB(begin, begin)
		JZ(LabelRef("begun"))
		VMOVSS(Mem{Base: r.x}, narrow.AsX())
		VCVTSS2SD(narrow.AsX(), narrow.AsX(), narrow.AsX())
		VMOVSD(narrow.AsX(), Mem{Base: firsts})
		Label("begun")
		VBROADCASTSD(Mem{Base: firsts}, m.first[0])
		// The same number as float32.
		VCVTSD2SS(Mem{Base: firsts}, narrow.AsX(), narrow.AsX())
		VBROADCASTSS(narrow.AsX(), narrow)
		for i := range 2 {
			VXORPD(m.total[i], m.total[i], m.total[i])
			VXORPD(m.square[i], m.square[i], m.square[i])
		}
	}, func(p parts) {
		r.prefetch(ahead)
		m.add(m.differing(r, p[0]))
	}, func() {
		w.addLanes(m.total, Mem{Base: sums})
		w.addLanes(m.square, Mem{Base: squares})
		r.toNextRow(ahead)
		for _, list := range []Register{sums, squares, firsts} {
			ADDQ(Imm(8), list)
		}
	})
}

// moments sums the differences of elements from one number of their row, and their squares.
type moments struct {
	width
	first         [2]VecVirtual // the number as float64, for each half of a vector
	narrow        VecVirtual    // as float32
	one           VecVirtual
	total, square [2]VecVirtual
}

// newMoments generates code that sets the sums to 0. The caller sets the number.
func (w width) newMoments() *moments {
	first := w.vector()
	return &moments{w, [2]VecVirtual{first, first}, w.vector(), w.double(1), [2]VecVirtual{w.zero(), w.zero()},
		[2]VecVirtual{w.zero(), w.zero()}}
}

// differing generates code that returns the elements of part p of a row, as two halves. Lanes after the end of the row
// get the number that m subtracts from all elements, so that their difference is 0.
func (m *moments) differing(r *rowLoop, p *partial) [2]Op {
	if p.mask == nil {
		return [2]Op{Mem{Base: r.x, Index: r.at, Scale: 4}, Mem{Base: r.x, Index: r.at, Scale: 4, Disp: m.size / 2}}
	}
	y := m.vector()
	p.load(Mem{Base: r.x, Index: r.at, Scale: 4}, y)
	m.blend(p.mask, y, m.narrow, y)
	parts := m.halves(y)
	return [2]Op{parts[0], parts[1]}
}

// add generates code that adds the halves of a vector of elements.
func (m *moments) add(halves [2]Op) {
	for i, half := range halves {
		d := m.vector()
		VCVTPS2PD(half, d)
		VSUBPD(m.first[i], d, d)
		m.addDifference(i, d)
	}
}

// addDifference generates code that adds the differences d to the sums for half i of a vector.
func (m *moments) addDifference(i int, d VecVirtual) {
	VFMADD231PD(m.one, d, m.total[i]) // other units than VADDPD's compute it
	VFMADD231PD(d, d, m.square[i])
}

// rowLoop is a loop over the rows of a list, and in it over the blocks of a row. A block has as many elements as a
// vector has float32 lanes: a vector of float32, or two of float64.
type rowLoop struct {
	width
	floats
	x, rows, n, at Register
	whole, rest    Register // the numbers of elements in whole blocks, and after these
	some           parts    // the elements after the whole blocks
}

// rowLoop generates the beginning of a function of rows: of the parameters x, rows and n.
func (w width) rowLoop(t floats) *rowLoop {
	r := &rowLoop{width: w, floats: t, x: Load(Param("x"), GP64()), rows: Load(Param("rows"), GP64()),
		n: Load(Param("n"), GP64()), at: GP64(), whole: GP64(), rest: GP64()}
	MOVQ(r.n, r.rest)
	ANDQ(Imm(uint64(w.lanes()-1)), r.rest)
	MOVQ(r.n, r.whole)
	SUBQ(r.rest, r.whole)
	return r
}

// each generates a whole function: a loop over rows with code before a row's elements, for each block of elements, and
// after them.
func (r *rowLoop) each(before func(), block func(p parts), after func()) {
	r.some = r.parts(r.floats, r.rest) // the last block of a row
	Label("row")
	TESTQ(r.rows, r.rows)
	JZ(LabelRef("stop"))
	before()
	r.pass("", block)
	after()
	r.toNextRow(r.x)
	DECQ(r.rows)
	JMP(LabelRef("row"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// pass generates a loop over the blocks of a row. The labels of the loop begin with name. The last block may be a part.
func (r *rowLoop) pass(name string, block func(p parts)) {
	XORQ(r.at, r.at)
	TESTQ(r.whole, r.whole)
	JZ(LabelRef(name + "rest"))
	Label(name + "next")
	block(r.all())
	ADDQ(Imm(uint64(r.lanes())), r.at)
	CMPQ(r.at, r.whole)
	JLT(LabelRef(name + "next"))
	Label(name + "rest")
	TESTQ(r.rest, r.rest)
	JZ(LabelRef(name + "done"))
	block(r.some)
	Label(name + "done")
}

// toNextRow generates code that goes to the next row of a list.
func (r *rowLoop) toNextRow(list Register) {
	LEAQ(Mem{Base: list, Index: r.n, Scale: uint8(r.bytes)}, list)
}

// block returns the place of a block of a row's list.
func (r *rowLoop) block(list Register) Mem {
	return Mem{Base: list, Index: r.at, Scale: uint8(r.bytes)}
}

// prefetch generates code that prefetches a block of a row's list.
func (r *rowLoop) prefetch(list Register) {
	for line := 0; line < r.blockBytes(); line += 64 {
		PREFETCHT1(r.block(list).Offset(line))
	}
}

// blockBytes is the size of a block of elements.
func (r *rowLoop) blockBytes() int { return r.lanes() * r.bytes }

// vectors is the number of vectors of a block.
func (r *rowLoop) vectors() int { return r.bytes / 4 }

// all returns the parts of a whole block.
func (r *rowLoop) all() parts {
	list := make(parts, r.vectors())
	for i := range list {
		list[i] = &partial{width: r.width}
	}
	return list
}

// same returns a block of vectors that are all y.
func (r *rowLoop) same(y VecVirtual) values { return slices.Repeat(values{y}, r.vectors()) }

// broadcastElement generates code that loads one element into all lanes of a vector.
func (r *rowLoop) broadcastElement(from Mem, to VecVirtual) {
	if r.areWide() {
		VBROADCASTSD(from, to)
	} else {
		VBROADCASTSS(from, to)
	}
}

// exp generates code that replaces y by e^y.
func (r *rowLoop) exp(y VecVirtual) {
	if r.areWide() {
		r.expDouble(y)
	} else {
		r.width.exp(y)
	}
}

// keepConstants generates code that loads the constants of exponentials, if the function has any, see
// width.keepConstants.
func (r *rowLoop) keepConstants(exps bool) (end func()) {
	switch {
	case !exps:
		return func() {}
	case r.areWide():
		return r.keepDoubles(expDoubleConstants...)
	}
	return r.width.keepConstants(expConstants...)
}

// newSums generates code that sets sums in float64 to 0. It returns two generators of code: add adds block y to the
// sums and clears the elements of y outside of its parts, and finish returns the sums. step is how much the register
// `at` grows from block to block.
func (r *rowLoop) newSums(step int) (add func(p parts, y values), finish func() [2]VecVirtual) {
	if r.areWide() {
		acc := [2]VecVirtual{r.zero(), r.zero()}
		return func(p parts, y values) {
			for i, v := range y {
				p[i].clear(v)
				VADDPD(v, acc[i], acc[i])
			}
		}, func() [2]VecVirtual { return acc }
	}
	sums := r.newNarrowSums(step)
	return func(p parts, y values) { sums.add(p[0], r.at, y[0]) }, sums.finish
}

// partial is the first elements of a vector, or all of them if the mask is nil.
type partial struct {
	width
	mask Op
}

// partial generates the mask of the first n elements of a vector, for n below the number of lanes.
func (w width) partial(n Register) *partial {
	if w.size == 64 {
		bits, mask := GP64(), K()
		MOVQ(U32(0xffff), bits)
		BZHIQ(n, bits, bits)
		KMOVW(bits.As32(), mask)
		return &partial{width: w, mask: mask}
	}
	return &partial{width: w, mask: w.maskOf(n)}
}

// load generates code that loads the elements of the part. The others become 0, and the processor does not read them
// from memory.
func (p *partial) load(from Mem, to VecVirtual) {
	switch {
	case p.mask == nil:
		VMOVUPS(from, to)
	case p.size == 64:
		VMOVUPS_Z(from, p.mask, to)
	default:
		VMASKMOVPS(from, p.mask, to)
	}
}

// store generates code that stores the elements of the part.
func (p *partial) store(from VecVirtual, to Mem) {
	switch {
	case p.mask == nil:
		VMOVUPS(from, to)
	case p.size == 64:
		VMOVUPS(from, p.mask, to)
	default:
		VMASKMOVPS(from, p.mask, to)
	}
}

// clear generates code that sets elements outside of the part to 0.
func (p *partial) clear(y VecVirtual) {
	switch {
	case p.mask == nil:
	case p.size == 64:
		VMOVUPS_Z(y, p.mask, y)
	default:
		VANDPS(p.mask, y, y)
	}
}
