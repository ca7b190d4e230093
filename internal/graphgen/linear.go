package graphgen

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// linear adds an op for Fourier transforms or linear algebra.
func (g *generator) linear() *ir.Node {
	if g.rng.IntN(2) == 0 {
		return g.factored()
	}
	x := g.pick(func(n *ir.Node) bool {
		// The transform adds an axis for real and imaginary parts.
		last := n.Rank() - 1
		return isFloat(n) && last >= 0 && last < 5 && n.Shape()[last].IsStatic() && n.Shape()[last].Add <= 1024
	})
	if x == nil {
		return nil
	}
	// A maximum of no elements is infinite, and a transform of infinities depends on the device.
	x = g.add(ir.OpRFFT, []*ir.Node{g.add(ir.OpTanh, []*ir.Node{x})})
	switch g.rng.IntN(4) {
	case 0:
		return x
	case 1:
		if x == nil {
			return nil
		}
		// An even or odd length: both have this number of frequencies.
		n := 2*(x.Shape()[x.Rank()-2].Add-1) + int64(g.rng.IntN(2))
		return g.add(ir.OpIRFFT, []*ir.Node{x}, attr("n", n))
	}
	return g.add(ir.OpFFT, []*ir.Node{x}, attr("inverse", g.rng.IntN(2) == 0))
}

// factored adds an op of linear algebra. Numbers that grow along the diagonal dominate its matrix, so that the matrix
// is positive definite, its eigenvalues are apart, and rounding changes no result much.
func (g *generator) factored() *ir.Node {
	n := 1 + g.rng.IntN(7)
	t := g.oneOf(g.float, ir.F32, ir.F16, ir.BF16)
	matrix := ir.ShapeOf(n, n)
	// count adds a matrix whose elements are their own coordinates along the axis.
	count := func(axis int) *ir.Node {
		return g.add(ir.OpIota, nil, attr("dtype", t), attr("shape", matrix), attr("axis", axis))
	}
	row := count(0)
	small := g.add(ir.OpAffine, []*ir.Node{g.add(ir.OpTanh, []*ir.Node{g.leaf(matrix, t)})}, attr("mul", 0.05),
		attr("add", 0.0))
	// The diagonal has 2, 3, 4 and so on, and other elements are small.
	x := g.add(ir.OpWhere, []*ir.Node{g.add(ir.OpEq, []*ir.Node{row, count(1)}),
		g.add(ir.OpAffine, []*ir.Node{row}, attr("mul", 1.0), attr("add", 2.0)), small})
	switch g.rng.IntN(4) {
	case 0:
		return g.add(ir.OpCholesky, []*ir.Node{x})
	case 1:
		return g.add(ir.OpQR, []*ir.Node{x})
	case 2:
		return g.add(ir.OpEigH, []*ir.Node{x})
	}
	b := g.leaf(ir.ShapeOf(n, 1+g.rng.IntN(5)), t)
	return g.add(ir.OpTriangularSolve, []*ir.Node{x, b}, attr("lower", g.rng.IntN(2) == 0),
		attr("transpose", g.rng.IntN(2) == 0))
}

// linear bounds the results of Fourier transforms and of factored. Each element of a transform is a sum of all elements
// of its row, and rounding one of them changes all.
func (b *Bound) linear(n *ir.Node, args []Bound) {
	x := args[0]
	switch n.Op() {
	case ir.OpCholesky, ir.OpQR, ir.OpEigH:
		b.Lo, b.Hi = -4, 4
		b.Err = 8*x.Err + 256
		return
	case ir.OpTriangularSolve:
		m := 2 * args[1].mag()
		b.Lo, b.Hi = -m, m
		b.Err = 8*x.Err*m + 2*args[1].Err + 256*m
		return
	}
	rows := n.Arg(0).Shape()
	elements := float64(rows[len(rows)-1].Max())
	// Complex elements have two parts, on the last axis.
	if n.Op() != ir.OpRFFT {
		elements *= 2 * float64(rows[len(rows)-2].Max())
	}
	m := elements * x.mag()
	b.Lo, b.Hi = -m, m
	b.Err = elements*x.Err + 256*m
	if math.IsNaN(b.Err) {
		b.Bad = true
	}
}
