// Package lint has the rules of this repository that a program can check. Each is an analyzer, with the reason for the
// rule in its documentation. scripts/test runs them through vkclint, together with the rules of go vet and staticcheck.
package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// module is the path of the module that the rules describe.
const module = "github.com/vkc-go/vkc"

// Analyzers lists the analyzers of this package, which vkclint runs on the whole module.
var Analyzers = []*analysis.Analyzer{Imports, Caught, Exhaustive, Clock, Columns, Documented, Rebuilt, Rounds, Unused,
	Words}

// relative returns the path below the module's own, "." for the module itself.
func relative(path string) (rel string, ours bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// within reports whether path is folder or below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// fileName returns the base name of pos's file.
func fileName(pass *analysis.Pass, pos token.Pos) string {
	return filepath.Base(pass.Fset.File(pos).Name())
}

// sources returns the package's files without tests and generated files.
func sources(pass *analysis.Pass) []*ast.File {
	return slices.DeleteFunc(slices.Clone(pass.Files), func(f *ast.File) bool {
		return ast.IsGenerated(f) || strings.HasSuffix(fileName(pass, f.FileStart), "_test.go")
	})
}

// called returns the full name of the function that a call names with a selector, such as "fmt.Println" or
// "(*bytes.Buffer).Len". It returns "" for other nodes.
func called(pass *analysis.Pass, n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if fn, ok := pass.TypesInfo.Uses[selector.Sel].(*types.Func); ok {
		return fn.FullName()
	}
	return ""
}
