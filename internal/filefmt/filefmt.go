// Package filefmt holds code that the readers and writers of tensor files share: errors with a position in a file,
// suggestions for unknown names, sizes of tensors, and atomic writing.
package filefmt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is an error in the content of a file, as opposed to an I/O error.
type Error struct {
	Format string // file format, such as "gguf"
	Path   string // empty if the content did not come from a file
	Pos    int64  // byte offset in the file
	Msg    string // what was found, and what was expected
}

// Error returns "format: path: at byte N: message".
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s: at byte %d: %s", e.Format, e.Pos, e.Msg)
	}
	return fmt.Sprintf("%s: %s: at byte %d: %s", e.Format, e.Path, e.Pos, e.Msg)
}

// Source names the file that is being read.
type Source struct {
	Format string
	Path   string
}

// Errorf returns an *Error about the byte at pos.
func (s Source) Errorf(pos int64, format string, args ...any) error {
	return &Error{Format: s.Format, Path: s.Path, Pos: pos, Msg: fmt.Sprintf(format, args...)}
}

// Unknown returns the error for a name that a file does not have. It says how many names there are and lists the
// nearest ones. kind is the noun for one of them, such as "tensor".
func (s Source) Unknown(kind, name string, have []string) error {
	where := s.Format
	if s.Path != "" {
		where += ": " + s.Path
	}
	return &unknown{fmt.Sprintf("%s: no %s %q", where, kind, name), len(have), Nearest(name, have, 3)}
}

// unknown is the error for a name that a file does not have.
type unknown struct {
	text    string
	count   int
	nearest []string
}

// Error lists the nearest names.
func (e *unknown) Error() string {
	if e.count == 0 {
		return e.text + ": the file has none"
	}
	return fmt.Sprintf("%s among %d; nearest: %s", e.text, e.count, strings.Join(e.nearest, ", "))
}

// Nearest returns the nearest names in the file, for errors that list several.
func (e *unknown) Nearest() []string { return e.nearest }

// The cost of an edit distance is proportional to the product of both lengths. Nearest limits the bytes of a name and
// the number of names.
const (
	maxBytesCompared = 128
	maxNamesCompared = 4096
)

// Nearest returns up to n names of have that resemble name, for an error message: ordered by edit distance and then
// alphabetically. It examines only the first names of a very long list.
func Nearest(name string, have []string, n int) []string {
	type scored struct {
		name     string
		distance int
	}
	have = have[:min(len(have), maxNamesCompared)]
	all := make([]scored, len(have))
	for i, h := range have {
		all[i] = scored{h, editDistance(clip(name), clip(h))}
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	names := make([]string, 0, n)
	for _, s := range all[:min(n, len(all))] {
		names = append(names, s.name)
	}
	return names
}

func clip(s string) string { return s[:min(len(s), maxBytesCompared)] }

// editDistance returns the Levenshtein distance: the least number of bytes to insert, delete or replace that makes a
// into b.
func editDistance(a, b string) int {
	// row[j] is the distance of the first i bytes of a to the first j bytes of b. It starts with i = 0.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0] // of one byte less in both
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
