package ir

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable returns a name from a file as people may be shown it: as it is
// where it is one plain word, else as a Go string in quotes. So a name can
// neither command a terminal, nor end a line or a comment, nor pass for
// something else of the line it stands in.
func Printable(name string) string {
	plain := func(r rune) bool { return strconv.IsPrint(r) && r != ' ' && r != '"' && r != '\\' }
	if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return strconv.Quote(name)
	}
	return name
}
