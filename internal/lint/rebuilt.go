package lint

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

const kernels = module + "/codegen/kernel"

// Rebuilt requires kernel.Map for deriving a kernel from another: only Map may copy a kernel or copy its fields in a
// literal. A hand-written list of fields would miss the next new field.
var Rebuilt = &analysis.Analyzer{
	Name: "vkcrebuilt",
	Doc:  "check that kernels are made of other kernels by kernel.Map alone",
	Run:  runRebuilt,
}

// runRebuilt reports kernels that are copied field by field, except in kernel.Map, which exists for that.
func runRebuilt(pass *analysis.Pass) (any, error) {
	for _, file := range sources(pass) {
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && pass.TypesInfo.Defs[fn.Name].(*types.Func).FullName() == kernels+".Map" {
				continue
			}
			checkRebuilt(pass, decl)
		}
	}
	return nil, nil
}

// checkRebuilt reports copies of a kernel, and literals with a kernel's fields, in a declaration.
func checkRebuilt(pass *analysis.Pass, decl ast.Decl) {
	// Nodes that do not copy the kernel: assignment targets, and operands of selectors and of &.
	uncopied := map[ast.Node]bool{}
	for n := range ast.Preorder(decl) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			uncopied[ast.Unparen(n.X)] = true
		case *ast.UnaryExpr:
			uncopied[ast.Unparen(n.X)] = n.Op == token.AND
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				uncopied[to] = true
			}
		case *ast.CompositeLit:
			checkLiteral(pass, n)
		}
		switch n := n.(type) {
		case *ast.CompositeLit, *ast.CallExpr, *ast.ParenExpr: // new, or seen inside
		case ast.Expr:
			if t := pass.TypesInfo.Types[n]; t.IsValue() && isKernel(t.Type) && !uncopied[n] {
				pass.Reportf(n.Pos(), "this copies a kernel: make another of it by kernel.Map, which knows all fields")
			}
		}
	}
}

// checkLiteral reports fields of a kernel literal that are copied from another kernel.
func checkLiteral(pass *analysis.Pass, lit *ast.CompositeLit) {
	if !isKernel(pointee(pass.TypesInfo.TypeOf(lit))) {
		return
	}
	for _, elt := range lit.Elts {
		field, ok := elt.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		for n := range ast.Preorder(field.Value) {
			from, ok := n.(*ast.SelectorExpr)
			if ok && isKernel(pointee(pass.TypesInfo.TypeOf(from.X))) && from.Sel.Name == field.Key.(*ast.Ident).Name {
				pass.Reportf(from.Pos(), "this literal takes over %s of another kernel: make one of it by "+
					"kernel.Map, which knows all fields", from.Sel.Name)
			}
		}
	}
}

func isKernel(t types.Type) bool { return t != nil && types.TypeString(t, nil) == kernels+".Kernel" }

// pointee returns the type that a pointer points to, and other types as they are.
func pointee(t types.Type) types.Type {
	if p, ok := t.(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}
