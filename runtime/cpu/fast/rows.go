package fast

import (
	"math"
	"slices"
	"unsafe"
)

// rowPrograms lists the consecutive primitives that assembly computes in one loop over the elements of each row. A
// primitive's first operand is the result of the one before. The second one is the row's number ("-row"), or the
// element of a list that is the same for all rows ("*list").
var rowPrograms = [...]string{"+row", "-row", "*row", "/row", "-row -row", "-row exp", "*row *list", "-row -row *row",
	"-row -row *row *list", "-row -row *row *list +list", normalizing, "-row exp *row"}

// normalizing is a row program that group_norm calls.
const normalizing = "-row *row +row"

// rowFunctions has the assembly functions for one of rowPrograms, for rows of n elements. They read the rows x, the
// numbers of the rows (a, b and c), and the lists w and v.
//
// Function each stores the results in out. Function sum also adds up the results of each row in sums, and onlySum
// does only that. They add a few float32 results at a time in float32, and these sums in float64. Both prefetch next,
// which has as many elements as x. Function columns is for rows that are columns of x: it stores results, and w and v
// have a number per column. Only each is never nil.
type rowFunctions[T number] struct{ each, sum, onlySum, columns rowFunction[T] }

type rowFunction[T number] func(out, x, next, a, b, c, w, v *T, sums *float64, rows, n int)

// rowProgram is one of rowPrograms in a chain.
type rowProgram struct {
	index   int   // in rowPrograms
	length  int   // the number of instructions
	numbers []int // the row values, as indices in chainOf.row
	lists   []int // the operands with lists
}

// findPrograms finds the row programs in the code, the longest first, by the number of their first instruction.
// Operands of instructions are still numbers of values. uses has, by value, how many instructions read it, and the
// chain's result.
func (b *compilerOf[T]) findPrograms(uses []int) map[int]*rowProgram {
	found := map[int]*rowProgram{}
	if len(b.row) == 0 {
		return found
	}
	for i := range b.code {
		c := &b.code[i]
		if b.values[c.in[0]].row != nil && (c.name == "+" || c.name == "*") {
			// The number of the row is the second operand.
			c.in = [3]int{c.in[1], c.in[0], c.in[1]}
		}
	}
	for i := 0; i < len(b.code); i++ {
		text, p := "", rowProgram{} // the program from instruction i to k, as rowPrograms writes it
		for k := i; k < len(b.code); k++ {
			c := b.code[k]
			switch x, y := c.in[0], b.values[c.in[1]]; {
			case k > i && (x != b.code[k-1].out || uses[x] > 1), b.values[x].row != nil:
				text = "" // no program has this instruction
			case c.in[1] == x: // a function of one number
				text += " " + c.name
			case y.row != nil:
				text += " " + c.name + "row"
				p.numbers = append(p.numbers, c.in[1])
			case y.arg != nil && len(y.arg.Shape()) == 1:
				text += " " + c.name + "list"
				p.lists = append(p.lists, c.in[1])
			default:
				text = ""
			}
			if text == "" {
				break
			}
			usedElsewhere := func(list int) bool { return uses[list] > count(p.lists, list) }
			index := slices.Index(rowPrograms[:], text[1:])
			if index >= 0 && !slices.ContainsFunc(p.lists, usedElsewhere) {
				found[i] = &rowProgram{index, k + 1 - i, slices.Clone(p.numbers), slices.Clone(p.lists)}
			}
		}
		if p := found[i]; p != nil {
			i += p.length - 1
		}
	}
	return found
}

// count returns how often a list has x.
func count(list []int, x int) (n int) {
	for _, y := range list {
		if y == x {
			n++
		}
	}
	return n
}

// setPrograms sets field program of the instructions that begin row programs. Map programs has the row programs by the
// index of their first instruction, with numbers of values, and `at` has the operand of each value. setPrograms also
// sets p.spread, the row values that other instructions read, and p.ofRow, the arguments that are lists of a row's
// elements.
func (p *chainOf[T]) setPrograms(programs map[int]*rowProgram, at []int) {
	p.spread, p.ofRow = make([]bool, len(p.row)), make([]bool, len(p.args))
	first := len(p.args) + len(p.kept)
	spread := func(operand int) {
		if i := operand - first; i >= 0 && i < len(p.row) {
			p.spread[i] = true
		}
	}
	spread(p.result)
	for i := 0; i < len(p.code); i++ {
		r := programs[i]
		if r == nil {
			for _, v := range p.code[i].in {
				spread(v)
			}
			continue
		}
		for k, v := range r.numbers {
			r.numbers[k] = at[v] - first
		}
		for k, v := range r.lists {
			r.lists[k] = at[v]
			p.ofRow[at[v]] = true
		}
		p.code[i].program = r
		i += r.length - 1 // skip the other instructions of the program
	}
}

// rowFunctions returns the assembly of the chain if all of its code is one row program, or nil.
func (p *chainOf[T]) rowFunctions() *rowFunctions[T] {
	functions := rowFoldsOf[T](vector).programs
	if functions == nil || len(p.code) == 0 {
		return nil
	}
	r := p.code[0].program
	if r == nil || r.length < len(p.code) {
		return nil
	}
	return &functions[r.index]
}

// byRow prepares scratch memory s so that row programs (see rowPrograms) can run on whole rows of n elements: they then
// read one number per row, and lists of n elements. It does nothing if there is no assembly, or if an argument that
// programs use as a list is not the same for all rows.
func (p *chainOf[T]) byRow(s *scratch[T], readers []readerOf[T], n int) {
	if rowFoldsOf[T](vector).programs == nil {
		return
	}
	for i, is := range p.ofRow {
		if is && !readers[i].isRow(n) {
			return
		}
	}
	s.rowElems = min(n, block)
	p.makeNumbers(s)
}

// byColumn prepares a chain for rows that are columns, if there is assembly for all of its row programs. The programs
// then read a list with a number for each column.
func (p *chainOf[T]) byColumn(s *scratch[T], columns int) {
	functions := rowFoldsOf[T](vector).programs
	if functions == nil || slices.Contains(p.ofRow, true) {
		return
	}
	for _, c := range p.code {
		if c.program != nil && functions[c.program.index].columns == nil {
			return
		}
	}
	s.columns = columns
	p.makeNumbers(s)
}

// makeNumbers makes the memory for numbers of row programs.
func (p *chainOf[T]) makeNumbers(s *scratch[T]) {
	for len(s.numbers) < len(p.row) {
		s.numbers = append(s.numbers, make([]T, block))
	}
}

// isRow reports whether an argument is a list of n elements for each row of n elements.
func (p *strides) isRow(n int) bool {
	last := len(p.dims) - 1
	return last < 0 || p.dims[last] == n && p.steps[last] == 1 && (last == 0 || last == 1 && p.steps[0] == 0)
}

// runProgram runs the row program that begins with instruction c, for n elements. It stores the results in out unless
// out is nil, and adds up the results of each row in sums unless sums is nil.
func (s *scratch[T]) runProgram(c *instruction[T], out []T, sums []float64, n int) {
	f, x := &rowFoldsOf[T](vector).programs[c.program.index], s.operands[c.in[0]][:n]
	if s.columns > 0 {
		var lists [2]*T
		for i, v := range c.program.numbers {
			lists[i] = &s.numbers[v][:s.columns][0] // the assembly checks no bounds
		}
		f.columns(&out[0], &x[0], nil, nil, nil, nil, lists[0], lists[1], nil, n/s.columns, s.columns)
		return
	}
	elems := min(s.rowElems, n)
	rows := n / elems
	var numbers [3]*T
	for i, v := range c.program.numbers {
		numbers[i] = &s.numbers[v][:rows][0] // the assembly checks no bounds
	}
	var lists [2]*T
	for i, v := range c.program.lists {
		lists[i] = &s.operands[v][:elems][0]
	}
	function, to := f.each, (*float64)(nil)
	if sums != nil {
		function, to = f.sum, &sums[:rows][0]
		if out == nil {
			function = f.onlySum
		}
	}
	function(unsafe.SliceData(out), &x[0], &orSelf(s.next, x)[0], numbers[0], numbers[1], numbers[2], lists[0],
		lists[1], to, rows, elems)
}

// orSelf returns the list ahead, which assembly prefetches, or x if ahead has fewer elements.
func orSelf[T number](ahead, x []T) []T {
	if len(ahead) < len(x) {
		return x
	}
	return ahead
}

// normalize sets each element of out to (x-mean)*scale+bias. spread is at least the largest magnitude of x-mean. It
// does nothing and returns false if there is no assembly, or float32 could overflow or lose digits before the result.
func normalize(out, x []float32, mean, spread, scale, bias float64) bool {
	const most = 0x1p100
	tooSmall := math.Abs(scale) < 1/most && scale != 0
	largest := max(math.Abs(mean), spread, math.Abs(scale), math.Abs(spread*scale)+math.Abs(bias))
	functions := rowFoldsOf[float32](vector).programs
	if functions == nil || len(out) == 0 || tooSmall || !(largest < most) { // also if it is NaN
		return false
	}
	from, by := float32(mean), float32(scale)
	add := float32(float64((float64(from)-mean)*scale) + bias) // makes up for the rounding of mean
	x = x[:len(out)]                                           // the assembly checks no bounds
	function := functions[slices.Index(rowPrograms[:], normalizing)].each
	function(&out[0], &x[0], &x[0], &from, &by, &add, nil, nil, nil, 1, len(out))
	return true
}
