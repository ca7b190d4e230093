package npy

import (
	"math"
	"strconv"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

// header is the header dict of an array. The positions are in the file, for errors.
type header struct {
	descr    string
	fortran  bool
	shape    []int
	descrPos int64
	shapePos int64
}

// scanner reads the part of Python's literal syntax that NumPy writes: a dict of strings, bools and a tuple of
// integers.
type scanner struct {
	src  filefmt.Source
	text []byte
	base int64 // position of text in the file
	pos  int   // in text
}

// parseHeader parses a header such as {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, a literal of Python
// with its keys in any order. base is the position of text in the file.
func parseHeader(src filefmt.Source, text []byte, base int64) (*header, error) {
	s := &scanner{src: src, text: text, base: base}
	h := new(header)
	seen := make(map[string]bool)
	if err := s.expect('{'); err != nil {
		return nil, err
	}
	for !s.accept('}') {
		if err := s.member(h, seen); err != nil {
			return nil, err
		}
		if !s.accept(',') && s.peek() != '}' {
			return nil, s.unexpected("',' or '}'")
		}
	}
	s.skipSpace()
	if s.pos != len(text) {
		return nil, s.unexpected("nothing after the dict")
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return nil, s.errorf("the header has no %q", key)
		}
	}
	return h, nil
}

// member parses a key and its value into h. seen has the keys before.
func (s *scanner) member(h *header, seen map[string]bool) error {
	key, err := s.str()
	if err != nil {
		return err
	}
	if seen[key] {
		return s.errorf("the header has %q twice", key)
	}
	seen[key] = true
	if err := s.expect(':'); err != nil {
		return err
	}
	s.skipSpace()
	at := s.base + int64(s.pos)
	switch key {
	case "descr":
		h.descrPos = at
		if s.peek() == '[' {
			return s.errorf("the elements are records: save each field as an array of its own")
		}
		h.descr, err = s.str()
	case "fortran_order":
		h.fortran, err = s.bool()
	case "shape":
		h.shapePos = at
		h.shape, err = s.tuple()
	default:
		err = s.errorf("the header has %q: want descr, fortran_order and shape only", key)
	}
	return err
}

func (s *scanner) errorf(format string, args ...any) error {
	return s.src.Errorf(s.base+int64(s.pos), format, args...)
}

// unexpected returns the error for a character other than the wanted one.
func (s *scanner) unexpected(want string) error {
	if s.pos >= len(s.text) {
		return s.errorf("the header ends: want %s", want)
	}
	return s.errorf("the header has %q: want %s", s.text[s.pos], want)
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.text) && (s.text[s.pos] == ' ' || s.text[s.pos] == '\n') {
		s.pos++
	}
}

// peek returns the next byte that is not a space, or 0 at the end.
func (s *scanner) peek() byte {
	s.skipSpace()
	if s.pos >= len(s.text) {
		return 0
	}
	return s.text[s.pos]
}

// accept skips byte b. It returns false if another byte comes next.
func (s *scanner) accept(b byte) bool {
	ok := s.peek() == b
	if ok {
		s.pos++
	}
	return ok
}

// expect skips byte b, or returns an error.
func (s *scanner) expect(b byte) error {
	if !s.accept(b) {
		return s.unexpected(strconv.QuoteRune(rune(b)))
	}
	return nil
}

// str parses a quoted string without escapes.
func (s *scanner) str() (string, error) {
	quote := s.peek()
	if quote != '\'' && quote != '"' {
		return "", s.unexpected("a quoted string")
	}
	start := s.pos + 1
	for end := start; end < len(s.text) && s.text[end] != '\\'; end++ {
		if s.text[end] == quote {
			s.pos = end + 1
			return string(s.text[start:end]), nil
		}
	}
	return "", s.errorf("a string without escapes does not end")
}

// bool reads True or False.
func (s *scanner) bool() (bool, error) {
	s.skipSpace()
	switch word := s.word(); word {
	case "True":
		return true, nil
	case "False":
		return false, nil
	default:
		s.pos -= len(word)
		return false, s.unexpected("True or False")
	}
}

// word reads letters and digits, possibly none.
func (s *scanner) word() string {
	start := s.pos
	for s.pos < len(s.text) && isAlnum(s.text[s.pos]) {
		s.pos++
	}
	return string(s.text[start:s.pos])
}

func isAlnum(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// tuple reads a tuple of integers: () or (3,) or (2, 3).
func (s *scanner) tuple() ([]int, error) {
	if err := s.expect('('); err != nil {
		return nil, err
	}
	dims := []int{}
	comma := true // a comma, or the start, stands before
	for !s.accept(')') {
		if !comma {
			return nil, s.unexpected("',' or ')'")
		}
		if len(dims) == ir.MaxRank {
			return nil, s.errorf("the shape has more than %d axes", ir.MaxRank)
		}
		d, err := s.dim()
		if err != nil {
			return nil, err
		}
		dims = append(dims, d)
		comma = s.accept(',')
	}
	if len(dims) == 1 && !comma {
		return nil, s.errorf("the shape is a number in brackets: want a tuple, (%d,)", dims[0])
	}
	return dims, nil
}

// dim reads an extent.
func (s *scanner) dim() (int, error) {
	s.skipSpace()
	word := s.word()
	n, err := strconv.ParseUint(word, 10, 63)
	if err != nil || n > math.MaxInt {
		s.pos -= len(word)
		return 0, s.errorf("the shape has an axis of %q: want an integer from 0 to %d",
			s.text[s.pos:min(len(s.text), s.pos+20)], math.MaxInt)
	}
	return int(n), nil
}
