package onnx

import (
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

var contractOps = table{
	"MatMul": tensorOp(func(c *call) tensor {
		a, b := c.x(0), c.x(1)
		if a.Rank() > 0 && b.Rank() > 0 {
			c.agree(a.Dim(-1), b.Dim(max(b.Rank()-2, 0)))
		}
		return matmul(a, b)
	}),
	"Gemm":   tensorOp(gemm),
	"FC":     tensorOp(fullyConnected),
	"Einsum": tensorOp(einsum),
	"Det":    tensorOp(det),
}

// matmul multiplies as NumPy does: a vector on the left is a row, a vector on the right is a column, and the result
// lacks the axis of a vector.
func matmul(a, b tensor) tensor {
	rowOnly, columnOnly := a.Rank() == 1, b.Rank() == 1
	if rowOnly {
		a = a.Unsqueeze(0)
	}
	if columnOnly {
		b = b.Unsqueeze(1)
	}
	y := anyMatMul(a, b) // [..., rows, columns]
	if columnOnly {
		y = y.Squeeze(-1)
	}
	if rowOnly {
		if columnOnly {
			return y.Squeeze(-1)
		}
		return y.Squeeze(-2)
	}
	return y
}

// exactF32 is the number of products of two 8-bit integers that f32 can sum exactly: it has all integers up to 1<<24.
const exactF32 = 1 << 24 / (255 * 255)

// anyMatMul computes a matmul for every dtype. Integers of up to 16 bits are multiplied as floats, in a type that
// represents the sums exactly. Sums of wider integers wrap.
func anyMatMul(a, b tensor) tensor {
	t := a.DType()
	if t.IsFloat() {
		return a.MatMul(b)
	}
	if t.BlockBytes() >= 4 { // no float type represents all sums, so products are summed as integers
		// [..., rows, inner, 1] * [..., 1, inner, columns], summed over inner
		return a.Unsqueeze(-1).Mul(b.Unsqueeze(-3)).Sum(-2)
	}
	via := ir.F64
	if t.BlockBytes() == 1 && a.Dim(-1).Max() <= exactF32 {
		via = ir.F32
	}
	return a.Cast(via).MatMul(b.Cast(via)).Cast(t)
}

// gemm builds Gemm: alpha*a*b + beta*c, with optional transposes of a and b.
func gemm(c *call) tensor {
	a, b, beta := c.x(0), c.x(1), c.floatAttr("beta", 1)
	if c.flag("transA", false) {
		a = a.T()
	}
	if c.flag("transB", false) {
		b = b.T()
	}
	y := anyMatMul(a, b)
	if alpha := c.floatAttr("alpha", 1); alpha != 1 {
		y = y.MulScalar(alpha)
	}
	if !c.has(2) {
		return y
	}
	bias := c.x(2)
	if beta != 1 {
		bias = bias.MulScalar(beta)
	}
	return y.Add(bias)
}

// fullyConnected builds FC, an op in files of opset 1 that were converted from Caffe2.
func fullyConnected(c *call) tensor {
	x, w := c.x(0), c.x(1)
	return x.Reshape(x.Dim(0), -1).MatMulT(w).Add(c.x(2))
}

// einsum multiplies tensors with a letter for each axis. Axes with equal letters are matched. Letters that the result
// lacks are summed.
func einsum(c *call) tensor {
	c.must("equation", AttrString)
	terms, result, err := c.einsumTerms()
	if err != "" {
		c.fail("equation %q: %s", c.textAttr("equation", ""), err)
	}
	y, letters := c.einsumOperand(c.x(0), terms[0])
	for i := 1; i < len(terms); i++ {
		next, nextLetters := c.einsumOperand(c.x(i), terms[i])
		later := result + strings.Join(terms[i+1:], "") // letters that are still needed
		y, letters = contract(y, letters, next, nextLetters, later)
	}
	y, letters = sumAbsent(y, letters, result)
	return permuted(y, letters, result)
}

// einsumTerms parses the equation of Einsum into the letters of each operand and of the result. The axes of an ellipsis
// get Greek capitals as letters. fault is the text of an error, or "".
func (c *call) einsumTerms() (terms []string, result, fault string) {
	equation := strings.ReplaceAll(c.textAttr("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms = strings.Split(left, ",")
	if len(terms) != len(c.in) {
		return nil, "", "the number of terms differs from the number of inputs"
	}
	const dots = "..."
	dotted := make([]int, len(terms)) // by term: the number of axes that the ellipsis stands for
	for i, term := range terms {
		if !strings.Contains(term, dots) {
			continue
		}
		dotted[i] = c.x(i).Rank() - (len(term) - len(dots))
		if dotted[i] < 0 || dotted[i] > ir.MaxRank {
			return nil, "", "a term has more letters than its input has axes"
		}
	}
	// Ellipses broadcast: the axes of a shorter one are the last axes of the longest one.
	longest := slices.Max(dotted)
	capitals := []rune("ΑΒΓΔΕΖΗΘ")[:longest]
	for i, term := range terms {
		terms[i] = strings.Replace(term, dots, string(capitals[longest-dotted[i]:]), 1)
	}
	if explicit {
		return terms, strings.Replace(right, dots, string(capitals), 1), ""
	}
	// Without an arrow the result has the letters that occur once, in alphabetical order.
	all := []rune(strings.Join(terms, ""))
	var once []rune
	for _, l := range all {
		if strings.Count(string(all), string(l)) == 1 && !slices.Contains(capitals, l) {
			once = append(once, l)
		}
	}
	slices.Sort(once)
	return terms, string(capitals) + string(once), ""
}

// einsumOperand returns an operand of Einsum and its letters, each once. For a letter that occurs twice it takes the
// diagonal of the two axes.
func (c *call) einsumOperand(x tensor, term string) (operand tensor, letters []rune) {
	letters = []rune(term)
	if len(letters) != x.Rank() {
		c.fail("a term of %d letters for %s", len(letters), x)
	}
	for i := 0; i < len(letters); i++ {
		for j := len(letters) - 1; j > i; j-- {
			if letters[i] != letters[j] {
				continue
			}
			s := x.Shape()
			on := c.b.Iota(ir.I32, i, s).Eq(c.b.Iota(ir.I32, j, s))
			x = on.Where(x, x.Lit(0)).Sum(j)
			letters = slices.Delete(letters, j, j+1)
		}
	}
	return x, letters
}

// sumAbsent sums x over the axes with letters that do not occur in `later`. It also returns the remaining letters.
func sumAbsent(x tensor, letters []rune, later string) (sum tensor, remaining []rune) {
	var axes []int
	var left []rune
	for i, l := range letters {
		if strings.ContainsRune(later, l) {
			left = append(left, l)
		} else {
			axes = append(axes, i)
		}
	}
	if len(axes) == 0 {
		return x, letters
	}
	return x.Sum(axes...), left
}

// permuted transposes the axes of x, which have the letters from, to the order of the letters to. A letter that only
// `to` has becomes an axis of extent 1.
func permuted(x tensor, from []rune, to string) tensor {
	var perm, ones []int
	for i, l := range []rune(to) {
		if at := slices.Index(from, l); at >= 0 {
			perm = append(perm, at)
		} else {
			ones = append(ones, i)
		}
	}
	if !slices.IsSorted(perm) {
		x = x.Transpose(perm...)
	}
	if len(ones) > 0 {
		x = x.Unsqueeze(ones...)
	}
	return x
}

// contract multiplies two operands of an einsum and sums over the letters that are not needed any more. `later` has the
// letters of the einsum's result and of operands that follow. contract returns the product with its letters. It uses
// a batched matmul if it can.
func contract(a tensor, aLetters []rune, b tensor, bLetters []rune, later string) (y tensor, letters []rune) {
	// Letters that only one operand has are summed before the multiplication.
	a, aLetters = sumAbsent(a, aLetters, later+string(bLetters))
	b, bLetters = sumAbsent(b, bLetters, later+string(aLetters))
	var batch, rows, inner, columns []rune
	for _, l := range aLetters {
		switch {
		case !slices.Contains(bLetters, l):
			rows = append(rows, l)
		case strings.ContainsRune(later, l):
			batch = append(batch, l)
		default:
			inner = append(inner, l)
		}
	}
	for _, l := range bLetters {
		if !slices.Contains(aLetters, l) {
			columns = append(columns, l)
		}
	}
	kept := slices.Concat(batch, rows, columns)
	flatRows, err1 := extents(a, aLetters, rows).Numel()
	flatInner, err2 := extents(a, aLetters, inner).Numel()
	flatColumns, err3 := extents(b, bLetters, columns).Numel()
	// Without a contraction, or with extents that cannot be multiplied, contract broadcasts, multiplies and sums.
	if len(inner) == 0 || err1 != nil || err2 != nil || err3 != nil || !a.DType().IsFloat() {
		all := string(slices.Concat(kept, inner))
		product := permuted(a, aLetters, all).Mul(permuted(b, bLetters, all))
		return sumAbsent(product, []rune(all), later)
	}
	batches := extents(a, aLetters, batch)
	x := permuted(a, aLetters, string(slices.Concat(batch, rows, inner))).Reshape(batches, flatRows, flatInner)
	w := permuted(b, bLetters, string(slices.Concat(batch, inner, columns)))
	w = w.Reshape(extents(b, bLetters, batch), flatInner, flatColumns)
	y = x.MatMul(w)
	return y.Reshape(y.Shape()[:len(batch)], extents(a, aLetters, rows), extents(b, bLetters, columns)), kept
}

// extents returns the extents of x along the axes with the letters `of`. letters has the letters of all axes of x.
func extents(x tensor, letters, of []rune) ir.Shape {
	s := make(ir.Shape, len(of))
	for i, l := range of {
		s[i] = x.Shape()[slices.Index(letters, l)]
	}
	return s
}

// maxDet is the largest number of rows of a matrix for Det, because the elimination is unrolled.
const maxDet = 64

// det computes the determinant by Gaussian elimination with partial pivoting (Golub and Van Loan 2013, 3.4): the
// product of the pivots, with a sign for the row exchanges.
func det(c *call) tensor {
	x := c.x(0)
	if x.Rank() < 2 || !x.Dim(-1).IsStatic() || x.Dim(-1) != x.Dim(-2) || x.Dim(-1).Static() > maxDet ||
		x.Dim(-1).Static() < 1 {
		c.fail("input %s: want matrices of 1 to %d rows and as many columns", x, maxDet)
	}
	lead := x.Shape()[:x.Rank()-2]
	matrices := c.numel(lead)
	n := x.Dim(-1).Static()
	a, y := x.Reshape(matrices, n, n), c.b.Full(x.DType(), 1, matrices, 1, 1) // y is the product of the pivots
	for ; n > 1; n-- {                                                        // the rows and columns left in a
		at := a.Slice(2, 0, 1).Abs().ArgmaxKeep(1) // [matrices, 1, 1]
		row := a.Gather(1, at.Broadcast(matrices, 1, n))
		pivot := row.Slice(2, 0, 1)
		exchanged := at.Gt(at.Lit(0))
		y = y.Mul(exchanged.Where(pivot.Neg(), pivot))
		// The other rows: the first row takes the place of the pivot row.
		rest := at.Eq(c.b.Arange(ir.I32, 1, 1, n-1).Reshape(1, n-1, 1)).Where(a.Slice(1, 0, 1), a.Slice(1, 1, n))
		// If the pivot is 0, the whole column is, and the divisor does not matter.
		factor := rest.Slice(2, 0, 1).Div(pivot.Eq(pivot.Lit(0)).Where(pivot.Lit(1), pivot))
		a = rest.Slice(2, 1, n).Sub(factor.Mul(row.Slice(2, 1, n)))
	}
	return y.Mul(a).Reshape(lead)
}
