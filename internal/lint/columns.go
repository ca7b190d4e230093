package lint

import (
	"go/ast"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const (
	columns  = 120
	tabWidth = 4
)

// Columns limits the length of lines; a tab counts as four columns. Longer lines are allowed if they hold one element
// of a composite literal, since these are rows of a table and are read down their columns. Raw strings, generated files
// and the output of examples are exempt.
var Columns = &analysis.Analyzer{
	Name: "vkccolumns",
	Doc:  "check that no line has more than 120 columns, rows of tables aside",
	Run:  runColumns,
}

// runColumns reports the lines of a package that have more than the allowed number of columns. Generated files and the
// lines of tableRows are exempt.
func runColumns(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		if ast.IsGenerated(file) {
			continue
		}
		source, err := pass.ReadFile(pass.Fset.File(file.FileStart).Name())
		if err != nil {
			return nil, err
		}
		rows := tableRows(pass, file)
		for i, line := range strings.Split(string(source), "\n") {
			width := len([]rune(line)) + (tabWidth-1)*strings.Count(line, "\t")
			if width > columns && !rows[i+1] {
				pos := pass.Fset.File(file.FileStart).LineStart(i + 1)
				pass.Reportf(pos, "a line of %d columns: it may have %d", width, columns)
			}
		}
	}
	return nil, nil
}

// tableRows returns the lines that hold a complete element of a multi-line composite literal, a part of a raw string,
// or the output of an example.
func tableRows(pass *analysis.Pass, file *ast.File) map[int]bool {
	rows := map[int]bool{}
	for n := range ast.Preorder(file) {
		if lit, ok := n.(*ast.CompositeLit); ok {
			for _, e := range lit.Elts {
				line := pass.Fset.Position(e.Pos()).Line
				if line > pass.Fset.Position(lit.Lbrace).Line && line == pass.Fset.Position(e.End()).Line {
					rows[line] = true
				}
			}
		}
		if raw, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(raw.Value, "`") {
			markLines(pass, raw, rows)
		}
	}
	for _, comment := range file.Comments {
		if strings.HasPrefix(comment.Text(), "Output:") {
			markLines(pass, comment, rows)
		}
	}
	return rows
}

func markLines(pass *analysis.Pass, n ast.Node, lines map[int]bool) {
	for line := pass.Fset.Position(n.Pos()).Line; line <= pass.Fset.Position(n.End()).Line; line++ {
		lines[line] = true
	}
}
