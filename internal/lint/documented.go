package lint

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

// Documented requires a comment for every exported name. One comment suffices for a group, and for adjacent
// declarations without a blank line between them.
var Documented = &analysis.Analyzer{
	Name: "vkcdocumented",
	Doc:  "check that exported names are documented",
	Run:  runDocumented,
}

// runDocumented reports exported names without a comment.
func runDocumented(pass *analysis.Pass) (any, error) {
	if pass.Pkg.Name() == "main" {
		return nil, nil
	}
	for _, file := range sources(pass) {
		c := commentChecker{pass: pass}
		for _, decl := range file.Decls {
			c.checkDecl(decl)
		}
	}
	return nil, nil
}

// commentChecker checks the declarations of a file in order.
type commentChecker struct {
	pass       *analysis.Pass
	end        int  // the last line of the previous declaration
	documented bool // whether the previous declaration has a comment of its own, or shares one
}

// checkDecl checks a declaration at the top level of the file.
func (c *commentChecker) checkDecl(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		c.check(d, d.Doc != nil, d.Name, exportedReceiver(d) && !ofErrors(d))
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				c.check(s, d.Doc != nil || s.Doc != nil || s.Comment != nil, s.Name, true)
			case *ast.ValueSpec:
				c.check(s, d.Doc != nil || s.Doc != nil || s.Comment != nil, s.Names[0], true)
			}
		}
	}
}

// check reports declaration n of a name if it has no comment, but needs one because it is exported.
func (c *commentChecker) check(n ast.Node, hasComment bool, name *ast.Ident, exported bool) {
	adjacent := c.pass.Fset.Position(n.Pos()).Line == c.end+1
	c.documented = hasComment || c.documented && adjacent
	c.end = c.pass.Fset.Position(n.End()).Line
	if exported && name.IsExported() && !c.documented {
		c.pass.Reportf(name.Pos(),
			"%s has no comment: say what it is, with shapes and units, or unexport it", name.Name)
	}
}

// ofErrors reports whether a method is one that package errors calls.
func ofErrors(d *ast.FuncDecl) bool {
	return d.Recv != nil && (d.Name.Name == "Error" || d.Name.Name == "Unwrap" || d.Name.Name == "Is")
}

// exportedReceiver reports whether a declaration is a function without a receiver, or a method of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	// Strip the pointer and type parameters of *T[A, B].
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
