package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Rounds finds sums of products of floats, such as x*y + z. Go may compute such a sum with one rounding. It does so on
// arm64, ppc64, s390x and riscv64, but on amd64 only for GOAMD64=v3. The results of a graph, and the kernels chosen for
// it, would then differ there. An explicit conversion of the product, float64(x*y), rounds it on every machine;
// [math.FMA] rounds once on every machine. The product may also be the value of a variable or a field, or the result of
// a function that the compiler may inline.
var Rounds = &analysis.Analyzer{
	Name: "vkcrounds",
	Doc:  "check that products of floats are rounded before they are added, except in measurements and drawings",
	Run:  runRounds,
}

// roundsAnyhow are the folders of packages that this check leaves out. There the result of x*y + z may depend on the
// processor, which rounds x*y first or not. The packages measure, draw or bound errors, or show how to use the module.
var roundsAnyhow = []string{"bench", "examples", "internal/chart", "internal/graphgen", "internal/quantreport"}

// runRounds finds variables, fields and functions that are products of floats, and then reports sums of products that
// are not rounded first.
func runRounds(pass *analysis.Pass) (any, error) {
	rel, ours := relative(pass.Pkg.Path())
	if !ours || slices.ContainsFunc(roundsAnyhow, func(folder string) bool { return within(rel, folder) }) {
		return nil, nil
	}
	products := productsOf(pass)
	for _, file := range sources(pass) {
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

// productsOf returns the variables, fields and functions that are a product of floats somewhere in the package.
func productsOf(pass *analysis.Pass) map[types.Object]bool {
	products := map[types.Object]bool{}
	for _, file := range sources(pass) {
		for n := range ast.Preorder(file) {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					sets := len(n.Lhs) == len(n.Rhs) && (n.Tok == token.ASSIGN || n.Tok == token.DEFINE)
					if n.Tok == token.MUL_ASSIGN && isFloat(pass, to) || sets && isProduct(pass, nil, n.Rhs[i]) ||
						sets && returnsProduct(pass, n.Rhs[i]) {
						products[named(pass, to)] = true
					}
				}
			case *ast.CompositeLit:
				for i, e := range n.Elts {
					if field, value := fieldOf(pass, n, i, e); isProduct(pass, nil, value) {
						products[field] = true
					}
				}
			case *ast.FuncDecl:
				if n.Body != nil && bodyReturnsProduct(pass, n.Body) {
					products[pass.TypesInfo.Defs[n.Name]] = true
				}
			}
		}
	}
	delete(products, nil) // an expression without a name
	return products
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
	case *ast.CallExpr:
		return products[named(pass, e.Fun)]
	}
	return products[named(pass, e)]
}

// named returns the variable, field or function that an expression names, or nil. For a generic function or a method of
// a generic type it is the declared one.
func named(pass *analysis.Pass, e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return origin(pass.TypesInfo.ObjectOf(e))
	case *ast.SelectorExpr:
		return origin(pass.TypesInfo.ObjectOf(e.Sel))
	case *ast.IndexExpr:
		if fn, ok := named(pass, e.X).(*types.Func); ok {
			return fn
		}
	}
	return nil
}

// fieldOf returns the field, or nil, that element i of a literal sets, and its value.
func fieldOf(pass *analysis.Pass, lit *ast.CompositeLit, i int, e ast.Expr) (field types.Object, value ast.Expr) {
	if pair, ok := e.(*ast.KeyValueExpr); ok {
		return named(pass, pair.Key), pair.Value
	}
	if t := pass.TypesInfo.TypeOf(lit); t != nil {
		if s, ok := t.Underlying().(*types.Struct); ok {
			return origin(s.Field(i)), e
		}
	}
	return nil, e
}

// origin returns the declared function or variable that o is an instance of.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}

// returnsProduct reports whether an expression is a function literal that returns a product of floats that is not
// rounded.
func returnsProduct(pass *analysis.Pass, e ast.Expr) bool {
	lit, ok := ast.Unparen(e).(*ast.FuncLit)
	return ok && bodyReturnsProduct(pass, lit.Body)
}

// bodyReturnsProduct reports whether a function body returns a product of floats that is not rounded.
func bodyReturnsProduct(pass *analysis.Pass, body *ast.BlockStmt) bool {
	for n := range ast.Preorder(body) {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 && isProduct(pass, nil, r.Results[0]) {
			return true
		}
	}
	return false
}

// isFloat reports whether an expression is not constant, and has a float or complex type, or a type parameter that
// allows one.
func isFloat(pass *analysis.Pass, e ast.Expr) bool {
	tv := pass.TypesInfo.Types[e]
	t := tv.Type
	// The type of a declared name is at its object: Types has expressions only.
	if id, ok := e.(*ast.Ident); ok {
		if o := pass.TypesInfo.ObjectOf(id); o != nil {
			t = o.Type()
		}
	}
	if t == nil || tv.Value != nil { // constants are computed exactly
		return false
	}
	return mayBeFloat(t)
}

// mayBeFloat reports whether a type is a float, or a type parameter or constraint that allows one.
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
