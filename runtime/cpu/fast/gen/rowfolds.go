package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rowFold is a function that computes all steps of an op that folds rows, one row after the other.
type rowFold struct {
	*rowLoop
	out   Register
	eps   Mem
	lists []Register
}

// rowFolds generates the assembly functions of ops such as softmax, which compute rows of float32 from folds of the
// row; see rowFolds in package fast. A function exists for each number of lists by which results are multiplied, and
// that are then added.
func (w width) rowFolds() {
	for _, f := range []rowFoldOf{
		{"softmax", "e^(x-max)/sum(e^(x-max))", 0, expConstants, false, (*rowFold).softmax},
		{"logSoftmax", "x-max-log(sum(e^(x-max)))", 0, expConstants, false, (*rowFold).logSoftmax},
		{"logSumExp", "max+log(sum(e^(x-max)))", 0, expConstants, true, (*rowFold).logSumExp},
		{"variance", "sum((x-mean)^2)/max(n-eps, 0)", 0, nil, true, (*rowFold).variance},
		{"l2Normalize", "x/max(sqrt(sum(x^2)), eps)", 0, nil, false,
			func(f *rowFold) VecVirtual { return f.rootMeanSquare(true) }},
		{"rmsNorm", "x/sqrt(mean(x^2)+eps)", 1, nil, false,
			func(f *rowFold) VecVirtual { return f.rootMeanSquare(false) }},
		{"layerNorm", "(x-mean)/sqrt(variance+eps)", 2, nil, false, (*rowFold).layerNorm},
	} {
		for lists := range f.lists + 1 {
			w.rowFold(f, lists)
		}
	}
}

// rowFoldOf describes a function: how many lists it can have, which constants it uses, whether a row has one result,
// and the code for a row, which returns the row's check.
type rowFoldOf struct {
	name, what string
	lists      int
	constants  []float32
	reduces    bool
	row        func(f *rowFold) (check VecVirtual)
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
	Label("row")
	TESTQ(f.rows, f.rows)
	JZ(LabelRef("stop"))
	check := of.row(f)
	VMOVSD(check.AsX(), Mem{Base: checks})
	ADDQ(Imm(8), checks)
	LEAQ(Mem{Base: f.x, Index: f.n, Scale: 4}, f.x)
	if of.reduces {
		ADDQ(Imm(4), f.out)
	} else {
		LEAQ(Mem{Base: f.out, Index: f.n, Scale: 4}, f.out)
	}
	DECQ(f.rows)
	JMP(LabelRef("row"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// load generates code that loads elements of the row.
func (f *rowFold) load(p *partial) VecVirtual {
	y := f.vector()
	p.load(Mem{Base: f.x, Index: f.at, Scale: 4}, y)
	return y
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
	p.store(y, Mem{Base: f.out, Index: f.at, Scale: 4})
}

// broadcast generates code that returns a float64 number, rounded to float32, in all elements of a vector.
func (f *rowFold) broadcast(x VecVirtual) VecVirtual {
	narrow, to := XMM(), f.vector()
	VCVTSD2SS(x.AsX(), x.AsX(), narrow)
	VBROADCASTSS(narrow, to)
	return to
}

// total generates code that returns the sum of the elements of two vectors of float64 numbers.
func (f *rowFold) total(acc [2]VecVirtual) VecVirtual {
	VADDPD(acc[1], acc[0], acc[0])
	f.foldLanes(acc[0], acc[1], func(x, acc VecVirtual) { VADDPD(x, acc, acc) })
	return acc[0].AsX().(VecVirtual)
}

// scalar generates code that returns the result of an instruction on two float64 numbers.
func scalar(of func(ops ...Op), y, x Op) VecVirtual {
	to := XMM()
	of(y, x, to)
	return to
}

func addOf(ops ...Op) { VADDSD(ops...) }
func subOf(ops ...Op) { VSUBSD(ops...) }
func mulOf(ops ...Op) { VMULSD(ops...) }
func divOf(ops ...Op) { VDIVSD(ops...) }

// count generates code that returns the number of a row's elements.
func (f *rowFold) count() VecVirtual {
	n := XMM()
	VXORPD(n, n, n)
	VCVTSI2SDQ(f.n, n, n)
	return n
}

// inverse generates code that returns 1/x.
func (f *rowFold) inverse(x VecVirtual) VecVirtual {
	one := avx2.double(1).AsX().(VecVirtual)
	return scalar(divOf, x, one)
}

// exponentials generates code that returns the greatest element of the row, in all lanes, and the sum of
// e^(x-greatest). If stores is true, it stores these exponentials.
func (f *rowFold) exponentials(stores bool) (greatest, sum VecVirtual) {
	lowest := f.bits(math.Float32bits(float32(math.Inf(-1))))
	greatest = f.vector()
	VMOVAPS(lowest, greatest)
	f.pass("greatest", func(p *partial) {
		y := f.load(p)
		if p.mask != nil {
			f.blend(p.mask, y, lowest, y) // elements after the row
		}
		VMAXPS(greatest, y, greatest)
	})
	if f.size == 64 {
		high := YMM()
		VEXTRACTF64X4(Imm(1), greatest, high)
		VMAXPS(high, greatest.AsY(), greatest.AsY())
	}
	high := XMM()
	VEXTRACTF128(Imm(1), greatest.AsY(), high)
	VMAXPS(high, greatest.AsX(), greatest.AsX())
	for _, lanes := range []uint64{0x4e, 0xb1} { // exchange pairs, then neighbours
		VPERMILPS(Imm(lanes), greatest.AsX(), high)
		VMAXPS(high, greatest.AsX(), greatest.AsX())
	}
	VBROADCASTSS(greatest.AsX(), greatest)
	sums := f.newNarrowSums()
	f.pass("exp", func(p *partial) {
		y := f.load(p)
		VSUBPS(greatest, y, y)
		f.expBelow(y)
		if stores {
			p.store(y, Mem{Base: f.out, Index: f.at, Scale: 4})
		}
		sums.add(p, f.at, y)
	})
	return greatest, f.total(sums.finish())
}

// softmax generates the code for a row of softmax.
func (f *rowFold) softmax() VecVirtual {
	_, sum := f.exponentials(true)
	by := f.broadcast(f.inverse(sum))
	f.pass("finish", func(p *partial) {
		y := f.vector()
		p.load(Mem{Base: f.out, Index: f.at, Scale: 4}, y)
		VMULPS(by, y, y)
		f.store(p, y)
	})
	return sum
}

// logarithm generates code that returns the logarithm of a float64 number, in all lanes.
func (f *rowFold) logarithm(x VecVirtual) VecVirtual {
	log := f.vector()
	VBROADCASTSD(x, log)
	f.logDouble(log, false)
	return log
}

// logSoftmax generates the code for a row of log_softmax.
func (f *rowFold) logSoftmax() VecVirtual {
	greatest, sum := f.exponentials(false)
	by := f.broadcast(f.logarithm(sum))
	f.pass("finish", func(p *partial) {
		y := f.load(p)
		VSUBPS(greatest, y, y)
		VSUBPS(by, y, y)
		f.store(p, y)
	})
	return sum
}

// logSumExp generates the code for a row of logsumexp.
func (f *rowFold) logSumExp() VecVirtual {
	greatest, sum := f.exponentials(false)
	log := f.logarithm(sum)
	wide := XMM()
	VCVTSS2SD(greatest.AsX(), greatest.AsX(), wide)
	f.put(scalar(addOf, log.AsX(), wide))
	return sum
}

// put generates code that stores the result of a row that has only one.
func (f *rowFold) put(x VecVirtual) {
	narrow := XMM()
	VCVTSD2SS(x, x, narrow)
	VMOVSS(narrow, Mem{Base: f.out})
}

// rootMeanSquare generates the code for a row of rms_norm or, if l2 is true, of l2_normalize. It returns a check, which
// is finite if the row's values are.
func (f *rowFold) rootMeanSquare(l2 bool) VecVirtual {
	acc := [2]VecVirtual{f.zero(), f.zero()}
	f.pass("squares", func(p *partial) {
		for i, half := range f.doubles(p) {
			VFMADD231PD(half, half, acc[i])
		}
	})
	sum := f.total(acc)
	root := XMM()
	if l2 {
		VSQRTSD(sum, sum, root)
		VMAXSD(f.eps, root, root)
	} else {
		root = scalar(addOf, f.eps, scalar(divOf, f.count(), sum))
		VSQRTSD(root, root, root)
		root = f.inverse(root)
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
	return scalar(addOf, sum, root)
}

// doubles generates code that returns a vector's elements of the row as two vectors of float64 numbers.
func (f *rowFold) doubles(p *partial) (to [2]VecVirtual) {
	halves := [2]Op{Mem{Base: f.x, Index: f.at, Scale: 4}, Mem{Base: f.x, Index: f.at, Scale: 4, Disp: f.size / 2}}
	if p.mask != nil {
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
func (f *rowFold) rowMoments() (first, sum, square VecVirtual) {
	m := f.newMoments()
	VBROADCASTSS(Mem{Base: f.x}, m.narrow)
	first = XMM()
	VCVTSS2SD(m.narrow.AsX(), m.narrow.AsX(), first)
	VBROADCASTSD(first, m.first)
	f.pass("moments", func(p *partial) { m.add(f.rowLoop, p) })
	return first, f.total(m.total), f.total(m.square)
}

// variance generates the code for a row of variance.
func (f *rowFold) variance() VecVirtual {
	_, sum, square := f.rowMoments()
	count, zero, n := XMM(), XMM(), f.count()
	VXORPD(zero, zero, zero)
	VSUBSD(f.eps, n, count)
	VMAXSD(zero, count, count)
	squares := scalar(subOf, scalar(divOf, n, scalar(mulOf, sum, sum)), square)
	result := scalar(divOf, count, squares)
	f.put(result)
	return result
}

// layerNorm generates the code for a row of layer_norm: of deviations from the first element, see momentsOf in package
// fast.
func (f *rowFold) layerNorm() VecVirtual {
	first, sum, square := f.rowMoments()
	n := f.count()
	start := scalar(addOf, first, scalar(divOf, n, sum))
	from := f.broadcast(start)
	rounded := XMM()
	VCVTSS2SD(from.AsX(), from.AsX(), rounded)
	apart := scalar(subOf, rounded, first)
	shift := scalar(mulOf, n, apart)
	dev := scalar(addOf, shift, sum)
	squares := scalar(addOf, square, scalar(mulOf, apart, scalar(addOf, sum, dev)))
	mean := scalar(divOf, n, dev)
	variance := scalar(subOf, scalar(mulOf, mean, mean), scalar(divOf, n, squares))
	root := scalar(addOf, f.eps, variance)
	VSQRTSD(root, root, root)
	root = f.inverse(root)
	less, by := f.broadcast(mean), f.broadcast(root)
	f.pass("finish", func(p *partial) {
		y := f.load(p)
		VSUBPS(from, y, y)
		VSUBPS(less, y, y)
		VMULPS(by, y, y)
		f.store(p, y)
	})
	VMULSD(start, start, start) // rows of magnitudes beyond 1e19 are left to other code
	return scalar(addOf, start, scalar(addOf, square, root))
}
