package ir

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable returns a name from a file in a form that is safe to print: unchanged if all characters are printable and
// none is a quote, otherwise as a Go string literal. So a name can neither send terminal escapes nor end a line or a
// comment.
func Printable(name string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) || r == '"' || r == '\\' }
	if name == "" || name != strings.TrimSpace(name) || !utf8.ValidString(name) || strings.ContainsFunc(name, hidden) {
		return strconv.Quote(name)
	}
	return name
}

// Titled formats the name of a graph or program for messages: `program "mlp"`, or `the program` if it has no name.
func Titled(kind, name string) string {
	if name == "" {
		return "the " + kind
	}
	return kind + " " + strconv.Quote(name)
}
