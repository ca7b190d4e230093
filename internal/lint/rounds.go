package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Rounds finds sums of products of floats, such as x*y + z, in the packages that define numbers. Go may compute such a
// sum with one rounding. It does so on arm64, ppc64, s390x and riscv64, but on amd64 only for GOAMD64=v3. The same
// graph would then have other bits there. An explicit conversion of the product, float64(x*y), rounds it on every
// machine; [math.FMA] rounds once on every machine. The product may also be a variable's value.
var Rounds = &analysis.Analyzer{
	Name: "vkcrounds",
	Doc:  "check that products of floats are rounded before they are added, in the packages that define numbers",
	Run:  runRounds,
}

// numbers are the packages that define numbers.
var numbers = []string{"ir", "ir/interp", "runtime/cpu", "runtime/cpu/fast", "quant"}

func runRounds(pass *analysis.Pass) (any, error) {
	if rel, ours := relative(pass.Pkg.Path()); !ours || !slices.Contains(numbers, rel) {
		return nil, nil
	}
	for _, file := range sources(pass) {
		products := map[types.Object]bool{} // variables that are products somewhere
		for n := range ast.Preorder(file) {
			a, ok := n.(*ast.AssignStmt)
			if !ok || len(a.Lhs) != len(a.Rhs) {
				continue
			}
			for i, to := range a.Lhs {
				id, ok := to.(*ast.Ident)
				sets := a.Tok == token.ASSIGN || a.Tok == token.DEFINE
				if ok && (a.Tok == token.MUL_ASSIGN && isFloat(pass, to) || sets && isProduct(pass, nil, a.Rhs[i])) {
					products[pass.TypesInfo.ObjectOf(id)] = true
				}
			}
		}
		report := func(at ast.Node, terms ...ast.Expr) {
			for _, term := range terms {
				if isProduct(pass, products, term) {
					pass.Reportf(at.Pos(), "a product of floats is added, with one rounding on some machines and two "+
						"on others: convert the product, as in float64(x*y), or use math.FMA")
					return
				}
			}
		}
		for n := range ast.Preorder(file) {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.ADD || n.Op == token.SUB {
					report(n, n.X, n.Y)
				}
			case *ast.AssignStmt:
				if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
					report(n, n.Lhs[0], n.Rhs[0])
				}
			}
		}
	}
	return nil, nil
}

// isProduct reports whether an expression is a product of floats that is not rounded yet.
func isProduct(pass *analysis.Pass, products map[types.Object]bool, e ast.Expr) bool {
	e = ast.Unparen(e)
	if !isFloat(pass, e) {
		return false
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return e.Op == token.MUL
	case *ast.UnaryExpr:
		return isProduct(pass, products, e.X)
	case *ast.Ident:
		return products[pass.TypesInfo.ObjectOf(e)]
	}
	return false
}

// isFloat reports whether an expression is a float or complex number that is not constant, or may be one, of a type
// parameter.
func isFloat(pass *analysis.Pass, e ast.Expr) bool {
	tv := pass.TypesInfo.Types[e]
	t := tv.Type
	if id, ok := e.(*ast.Ident); ok {
		if o := pass.TypesInfo.ObjectOf(id); o != nil {
			t = o.Type()
		}
	}
	if t == nil || tv.Value != nil {
		return false
	}
	return mayBeFloat(t)
}

// mayBeFloat reports whether a type, or one that it stands for as a constraint, is one of floats.
func mayBeFloat(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.TypeParam:
		return mayBeFloat(t.Constraint())
	case *types.Union:
		for term := range t.Terms() {
			if mayBeFloat(term.Type()) {
				return true
			}
		}
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Info()&(types.IsFloat|types.IsComplex) != 0
	case *types.Interface:
		for e := range u.EmbeddedTypes() {
			if mayBeFloat(e) {
				return true
			}
		}
	}
	return false
}
