package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/rta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// Unreached lists the functions of packages that none of their commands and tests reaches, each as
// FILE:LINE:COLUMN: NAME.
//
// The command deadcode of golang.org/x/tools finds the same, but takes four times as long: it reads the dependencies
// from their sources. Here they have types and no bodies. A dependency can only call functions that it gets as values
// and exported methods of values that it gets in interfaces. The analysis takes all of these as reached, because calls
// through package reflect reach them too.
func Unreached(dir string, patterns ...string) ([]string, error) {
	initial, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: dir, Tests: true}, patterns...)
	if err != nil {
		return nil, err
	}
	for _, p := range initial {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
	}
	prog, built := ssautil.Packages(initial, ssa.InstantiateGenerics)
	prog.Build()
	var roots []*ssa.Function
	for _, p := range ssautil.MainPackages(built) {
		roots = append(roots, p.Func("init"), p.Func("main"))
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("no command and no test in %s", strings.Join(patterns, " "))
	}
	// A package with tests is analyzed with and without them, and a generic function for each type that it has. These
	// functions have one position, and one of them must be reached.
	reached := map[token.Position]bool{}
	for f := range rta.Analyze(roots, false).Reachable {
		reached[prog.Fset.Position(f.Pos())] = true
	}
	var list []string
	for _, p := range initial {
		for _, file := range p.Syntax {
			if ast.IsGenerated(file) {
				continue
			}
			for _, decl := range file.Decls {
				d, ok := decl.(*ast.FuncDecl)
				if !ok || d.Name.Name == "init" || d.Name.Name == "_" {
					continue
				}
				if at := prog.Fset.Position(d.Name.Pos()); !reached[at] {
					f := p.TypesInfo.Defs[d.Name].(*types.Func)
					list = append(list, fmt.Sprintf("%s: %s", at, f.FullName()))
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
