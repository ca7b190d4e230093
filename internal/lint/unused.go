package lint

import (
	"go/token"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/unused"
)

// Unused reports the objects that staticcheck's U1000 finds and itself only returns. go vet checks a package together
// with its tests, so an object that only tests use is used.
var Unused = &analysis.Analyzer{
	Name:     "vkcunused",
	Doc:      "check for constants, variables, functions, types and fields that nothing uses",
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run:      runUnused,
}

// runUnused reports the unused objects of a package.
func runUnused(pass *analysis.Pass) (any, error) {
	for _, o := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
		pass.Reportf(posOf(pass.Fset, o.Position), "%s %s is unused", o.Kind, o.Name)
	}
	return nil, nil
}

// posOf returns the Pos of a position in one of the files, which no line directive has moved.
func posOf(files *token.FileSet, at token.Position) token.Pos {
	found := token.NoPos
	for f := range files.Iterate {
		if f.Name() == at.Filename && at.Offset <= f.Size() {
			found = f.Pos(at.Offset)
		}
	}
	return found
}
