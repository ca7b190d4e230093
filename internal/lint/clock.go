package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Clock finds tests with limits in wall-clock time: a test must also pass on a busy machine. Measurement files,
// *_speed_test.go and *_bench_test.go, are exempt. So is a line with a comment that begins with "clock:" and says why
// no limit depends on it.
var Clock = &analysis.Analyzer{
	Name: "vkcclock",
	Doc:  "check that no test has a limit in wall-clock time",
	Run:  runClock,
}

// limits are the functions that end something after a time.
var limits = []string{
	"time.After", "time.AfterFunc", "time.NewTimer", "time.Tick",
	"context.WithTimeout", "context.WithTimeoutCause", "context.WithDeadline", "context.WithDeadlineCause",
}

const busy = "a busy machine needs longer; " +
	"or say behind the line, in a comment // clock: WHY, why no limit depends on it"

// runClock reports limits in wall-clock time in the tests of a package.
func runClock(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		name := fileName(pass, file.FileStart)
		measures := strings.HasSuffix(name, "_speed_test.go") || strings.HasSuffix(name, "_bench_test.go")
		if !strings.HasSuffix(name, "_test.go") || measures {
			continue
		}
		excused := excusedLines(pass, file)
		took := map[types.Object]bool{} // variables with a measured duration
		for n := range ast.Preorder(file) {
			if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
				for i, to := range a.Lhs {
					if id, ok := to.(*ast.Ident); ok && elapsed(pass, took, a.Rhs[i]) {
						took[pass.TypesInfo.ObjectOf(id)] = true
					}
				}
			}
			if excused[pass.Fset.Position(n.Pos()).Line] {
				continue
			}
			if fn := called(pass, n); slices.Contains(limits, fn) {
				pass.Reportf(n.Pos(), "%s in a test: wait for the event itself, since %s", fn, busy)
			}
			b, ok := n.(*ast.BinaryExpr)
			if ok && compares(b.Op) && (elapsed(pass, took, b.X) || elapsed(pass, took, b.Y)) {
				pass.Reportf(n.Pos(), "a test compares how long something took: count what is done, since %s", busy)
			}
		}
	}
	return nil, nil
}

// excusedLines returns the lines of a file with a comment that begins with "clock:".
func excusedLines(pass *analysis.Pass, file *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "// clock: ") {
				lines[pass.Fset.Position(c.Pos()).Line] = true
			}
		}
	}
	return lines
}

func compares(op token.Token) bool {
	return op == token.LSS || op == token.LEQ || op == token.GTR || op == token.GEQ
}

// elapsed reports whether an expression contains a measured duration.
func elapsed(pass *analysis.Pass, took map[types.Object]bool, e ast.Expr) bool {
	for n := range ast.Preorder(e) {
		if fn := called(pass, n); fn == "time.Since" || fn == "(time.Time).Sub" {
			return true
		}
		if id, ok := n.(*ast.Ident); ok && took[pass.TypesInfo.ObjectOf(id)] {
			return true
		}
	}
	return false
}
