package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// A Word is a word that only this project once used, and the words of the field to write instead.
type Word struct {
	Pattern string // a regular expression, in lower case, for whole words
	Instead string
	// PagesOnly leaves comments and strings out, which still have some of it.
	PagesOnly bool
}

// Banned are the words that comments, strings and pages do without.
var Banned = []Word{
	{Pattern: `all but|but for|nothing but`, Instead: "except, only", PagesOnly: true},
	{Pattern: `anew`, Instead: "again"},
	{Pattern: `as it is|as it was`, Instead: "unchanged", PagesOnly: true},
	{Pattern: `beside`, Instead: "compared with, next to, in addition to, in parallel with", PagesOnly: true},
	{Pattern: `dot axis`, Instead: "contraction axis"},
	{Pattern: `eases?`, Instead: "reduces, helps"},
	{Pattern: `for want of`, Instead: "for lack of, because it lacks"},
	{Pattern: `foretells?|foretold`, Instead: "predicts; measures perplexity"},
	{Pattern: `matrix products?`, Instead: "matmul"},
	{Pattern: `matrix units?`, Instead: "tensor cores, cooperative matrices", PagesOnly: true},
	{Pattern: `meetings?`, Instead: "process group, collective, exchange", PagesOnly: true},
	{Pattern: `no number`, Instead: "NaN", PagesOnly: true},
	{Pattern: `octets?`, Instead: "eight elements, bytes", PagesOnly: true},
	{Pattern: `rows? of bytes|rows? of floats|products? of bytes`, Instead: "int8 rows, f32 rows, int8 matmul", PagesOnly: true},
	{Pattern: `that of|those of`, Instead: "repeat the noun", PagesOnly: true},
	{Pattern: `the like`, Instead: "name it"},
	{Pattern: `untold`, Instead: "not probed yet"},
	{Pattern: `whoever`, Instead: "name the actor"},
}

// CellWords is the largest number of words in a cell of a page's table. Longer text is a paragraph or a list.
const CellWords = 25

// Words reports banned words (see Banned) in comments, and in strings such as error messages and help texts. A test
// checks the pages of docs by the same list.
var Words = &analysis.Analyzer{
	Name: "vkcwords",
	Doc:  "check that comments and strings use the field's words",
	Run:  runWords,
}

// inComments matches any word that is banned in comments and strings, and inPages any that is banned in pages.
var inComments, inPages = banned(false), banned(true)

// banned returns a pattern of the words that pages must not have if pages is set, and otherwise of the fewer words that
// comments must not have either.
func banned(pages bool) *regexp.Regexp {
	var list []string
	for _, w := range Banned {
		if pages || !w.PagesOnly {
			list = append(list, w.Pattern)
		}
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(list, "|") + `)\b`)
}

// instead returns the words to write in place of one that was found.
func instead(found string) string {
	for _, w := range Banned {
		if regexp.MustCompile(`(?i)^(?:` + w.Pattern + `)$`).MatchString(found) {
			return w.Instead
		}
	}
	return ""
}

// runWords reports banned words in the comments and strings of a package.
func runWords(pass *analysis.Pass) (any, error) {
	report := func(n ast.Node, kind, text string) {
		for _, word := range inComments.FindAllString(text, -1) {
			pass.Reportf(n.Pos(), "a %s says %q: write plain English (%s)", kind, word, instead(word))
		}
	}
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, c := range group.List {
				report(c, "comment", c.Text)
			}
		}
		if pass.Pkg.Path() == module+"/internal/lint" {
			continue // its strings are the banned words
		}
		for n := range ast.Preorder(file) {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				report(lit, "string", lit.Value)
			}
		}
	}
	return nil, nil
}
