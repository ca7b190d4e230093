package ir

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable returns a name from a file as people may be shown it: as it is
// where all of it is seen and nothing is quoted, else as a Go string in quotes.
// So a name can neither command a terminal nor end a line or a comment.
func Printable(name string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) || r == '"' || r == '\\' }
	if name == "" || name != strings.TrimSpace(name) || !utf8.ValidString(name) || strings.ContainsFunc(name, hidden) {
		return strconv.Quote(name)
	}
	return name
}

// Titled names a graph or a program in messages: `program "mlp"`, or `the program` where it has no name.
func Titled(kind, name string) string {
	if name == "" {
		return "the " + kind
	}
	return kind + " " + strconv.Quote(name)
}
