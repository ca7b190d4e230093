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
		end, said := 0, false // the last line of the previous declaration, and whether it was documented
		check := func(n ast.Node, documented bool, name *ast.Ident, exported bool) {
			said = documented || said && pass.Fset.Position(n.Pos()).Line == end+1
			end = pass.Fset.Position(n.End()).Line
			if exported && name.IsExported() && !said {
				pass.Reportf(name.Pos(),
					"%s has no comment: say what it is, with shapes and units, or unexport it", name.Name)
			}
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				check(d, d.Doc != nil, d.Name, exportedReceiver(d) && !ofErrors(d))
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						check(s, d.Doc != nil || s.Doc != nil || s.Comment != nil, s.Name, true)
					case *ast.ValueSpec:
						check(s, d.Doc != nil || s.Doc != nil || s.Comment != nil, s.Names[0], true)
					}
				}
			}
		}
	}
	return nil, nil
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
