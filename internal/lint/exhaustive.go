package lint

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// enums lists the closed enums by package and name. Such a type has no values but its constants.
var enums = []string{"codegen/kernel.Family", "codegen/kernel.Variant"}

// Exhaustive requires a switch over a type in enums to name all constants or to have a default. So the author of a new
// kernel family finds every place that must handle it.
var Exhaustive = &analysis.Analyzer{
	Name: "vkcexhaustive",
	Doc:  "check that switches over closed enums name every constant or have a default",
	Run:  runExhaustive,
}

// runExhaustive checks all switches of a package.
func runExhaustive(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		for n := range ast.Preorder(file) {
			if s, ok := n.(*ast.SwitchStmt); ok && s.Tag != nil {
				checkSwitch(pass, s)
			}
		}
	}
	return nil, nil
}

// checkSwitch reports the constants that a switch over a closed enum leaves out, unless it has a default.
func checkSwitch(pass *analysis.Pass, s *ast.SwitchStmt) {
	named, ok := types.Unalias(pass.TypesInfo.TypeOf(s.Tag)).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return
	}
	rel, _ := relative(named.Obj().Pkg().Path())
	if !slices.Contains(enums, rel+"."+named.Obj().Name()) {
		return
	}
	handled := map[string]bool{}
	for _, clause := range s.Body.List {
		cases := clause.(*ast.CaseClause).List
		if cases == nil {
			return // a default
		}
		for _, c := range cases {
			if v := pass.TypesInfo.Types[c].Value; v != nil {
				handled[v.ExactString()] = true
			}
		}
	}
	var missing []string
	scope := named.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		c, ok := scope.Lookup(name).(*types.Const)
		if !ok || !types.Identical(c.Type(), named) {
			continue
		}
		if !handled[c.Val().ExactString()] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		pass.Reportf(s.Pos(), "this switch over %s.%s leaves out %s: add cases, or a default that holds for them",
			named.Obj().Pkg().Name(), named.Obj().Name(), strings.Join(missing, ", "))
	}
}
