// Package strictjson rejects JSON that readers may interpret differently (RFC 8259 allows that): duplicate names in an
// object, invalid UTF-8, and lone surrogates ([Check]). It also decodes JSON without passing over anything ([Decode]).
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Error describes an invalid value.
type Error struct {
	Place string // the value, such as messages[0].content; "" for the whole
	What  string // what is wrong, phrased to follow "it" or Place
}

// Error gives the place in the JSON, if it is not the whole, and the problem.
func (e *Error) Error() string {
	if e.Place == "" {
		return "it " + e.What
	}
	return e.Place + " " + e.What
}

// Check returns an *Error for the first invalid value, or a syntax error if data is not JSON.
func Check(data []byte) error {
	var any json.RawMessage
	if err := json.Unmarshal(data, &any); err != nil {
		return err
	}
	r := reader{data: data}
	r.value()
	if r.err != nil { // a nil *Error in an error interface would be non-nil
		return r.err
	}
	return nil
}

// Decode decodes JSON. It returns an error if data has a field that `to` does not have, invalid UTF-8, or text after
// the value. An unknown field is misspelled, or comes from another version of vkc, which may give other fields another
// meaning.
func Decode(data []byte, to any) error {
	if !utf8.Valid(data) {
		return errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text goes on after the value")
	}
	return nil
}

// reader traverses valid JSON.
type reader struct {
	data []byte
	at   int
	path []string // names, and list indices such as [3]
	err  *Error
}

// fail records an error at the current place, unless there is one already, and skips the rest.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		place := strings.TrimPrefix(strings.Join(r.path, ""), ".")
		r.err = &Error{place, fmt.Sprintf(format, args...)}
	}
	r.at = len(r.data)
}

// next skips white space and returns the byte after it, or 0 at the end.
func (r *reader) next() byte {
	for r.at < len(r.data) && strings.IndexByte(" \t\r\n", r.data[r.at]) >= 0 {
		r.at++
	}
	if r.at == len(r.data) {
		return 0
	}
	return r.data[r.at]
}

// value reads one JSON value, and fails on duplicate keys and on anything else that readers understand differently.
func (r *reader) value() {
	switch r.next() {
	case '"':
		r.text()
	case '{':
		names := map[string]bool{}
		r.list('}', func(int) {
			name := r.text()
			if names[name] {
				r.fail("has the key %.80q twice", name)
			}
			names[name] = true
			if r.next() == ':' {
				r.at++
			}
			r.path = append(r.path, "."+name)
			r.value()
		})
	case '[':
		r.list(']', func(i int) {
			r.path = append(r.path, "["+strconv.Itoa(i)+"]")
			r.value()
		})
	default:
		for r.at < len(r.data) && strings.IndexByte(",]} \t\r\n", r.data[r.at]) < 0 {
			r.at++
		}
	}
}

// list reads the items of an object or array up to its end byte, and calls part with the index of each. part reads the
// item and may extend the path, which list restores.
func (r *reader) list(end byte, part func(i int)) {
	r.at++
	depth := len(r.path)
	for i := 0; ; i++ {
		switch r.next() {
		case 0: // the data end or an error is known
			return
		case end:
			r.at++
			return
		case ',':
			r.at++
			r.next()
		}
		part(i)
		r.path = r.path[:depth]
	}
}

// text reads a string and returns it decoded. It fails if the string has half of a surrogate pair or bytes that are not
// UTF-8.
func (r *reader) text() string {
	from := r.at
	for r.at++; r.at < len(r.data) && r.data[r.at] != '"'; r.at++ {
		if r.data[r.at] != '\\' {
			continue
		}
		r.at++
		if r.at >= len(r.data) || r.data[r.at] != 'u' { // a short escape such as \n
			continue
		}
		code := r.unit(r.at + 1)
		r.at += 4
		if !utf16.IsSurrogate(code) {
			continue
		}
		if r.at+2 >= len(r.data) || r.data[r.at+1] != '\\' || r.data[r.at+2] != 'u' ||
			utf16.DecodeRune(code, r.unit(r.at+3)) == utf8.RuneError {
			r.fail(`has \u%04x, half of a character: want both halves, \ud83d\ude00 for example`, code)
			return ""
		}
		r.at += 6
	}
	r.at = min(r.at+1, len(r.data))
	raw := r.data[from:r.at]
	if !utf8.Valid(raw) {
		r.fail("has bytes that are not UTF-8")
		return ""
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		r.fail("is not a string: %v", err)
	}
	return text
}

// unit returns the number that the four hexadecimal digits at position `at` stand for.
func (r *reader) unit(at int) rune {
	n, err := strconv.ParseUint(string(r.data[min(at, len(r.data)):min(at+4, len(r.data))]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
