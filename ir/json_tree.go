package ir

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of graph.json files. Nodes, shapes and constants have separate limits.
const (
	maxJSONBytes = 1 << 30
	maxJSONDepth = 4*MaxBodyDepth + 8
)

// jsonKind is the type of a JSON value.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

var jsonKindNames = [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}

func (k jsonKind) String() string { return jsonKindNames[k] }

// jsonValue is a JSON value with its position in the file.
type jsonValue struct {
	kind  jsonKind
	pos   int         // byte offset
	end   int         // byte offset after it; 0 if the file has a syntax error inside it
	text  string      // of a string its value, of a number or boolean as written
	keys  []jsonKey   // of an object: the key of each item
	items []jsonValue // of an array or object
}

type jsonKey struct {
	name string
	pos  int
}

// field returns the value under a key of an object, or nil.
func (v *jsonValue) field(name string) *jsonValue {
	for i, k := range v.keys {
		if k.name == name {
			return &v.items[i]
		}
	}
	return nil
}

// pathTo returns the path from v to the innermost key or item at an offset, such as nodes[3].attrs.
func (v *jsonValue) pathTo(pos int) string {
	var b strings.Builder
	for {
		last := -1
		for i := range v.items {
			// end is 0 if a syntax error ended the item.
			if end := v.items[i].end; v.start(i) <= pos && (end == 0 || pos < end) {
				last = i
			}
		}
		if last < 0 {
			return b.String()
		}
		if v.kind == jsonArray {
			fmt.Fprintf(&b, "[%d]", last)
		} else {
			b.WriteString(pathKey(b.Len() == 0, v.keys[last].name))
		}
		v = &v.items[last]
	}
}

// start returns the position of item i, including its key.
func (v *jsonValue) start(i int) int {
	if v.kind == jsonObject {
		return v.keys[i].pos
	}
	return v.items[i].pos
}

// pathKey formats a key as a step of a path: ["name"] if it is no identifier, and otherwise name for the first step and
// .name for a later one.
func pathKey(first bool, name string) string {
	switch {
	case !IsIdent(name):
		return fmt.Sprintf("[%q]", clip(name))
	case first:
		return name
	}
	return "." + name
}

// jsonParser parses strict JSON (RFC 8259) into a tree: only UTF-8, no duplicate keys, no lone surrogates, nothing
// after the value. After the first error the parser is at the end of the text, and keeps that error.
type jsonParser struct {
	text  string
	pos   int
	depth int
	err   error
	at    int // position of err
}

// parseJSON returns the tree, or an error and its byte offset.
func parseJSON(text string) (root jsonValue, errPos int, err error) {
	p := &jsonParser{text: text}
	root = p.value()
	p.skipSpace()
	if p.err == nil && p.pos < len(p.text) {
		p.expected("the end of the file")
	}
	return root, p.at, p.err
}

// fail records the first error and skips the rest of the file.
func (p *jsonParser) fail(pos int, format string, args ...any) {
	if p.err == nil {
		p.err, p.at = fmt.Errorf(format, args...), pos
		p.pos = len(p.text)
	}
}

// expected fails at the next character.
func (p *jsonParser) expected(what string) {
	found := "the end of the file"
	if p.pos < len(p.text) {
		r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
		found = strconv.QuoteRune(r)
	}
	p.fail(p.pos, "found %s, expected %s", found, what)
}

func (p *jsonParser) skipSpace() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

// accept skips white space, and c if it is next. It reports whether c was there.
func (p *jsonParser) accept(c byte) bool {
	p.skipSpace()
	ok := p.pos < len(p.text) && p.text[p.pos] == c
	if ok {
		p.pos++
	}
	return ok
}

// value parses a value of any kind.
func (p *jsonParser) value() jsonValue {
	p.skipSpace()
	v := jsonValue{pos: p.pos}
	c := byte(0)
	if p.pos < len(p.text) {
		c = p.text[p.pos]
	}
	switch {
	case c == '{':
		v.kind = jsonObject
		p.object(&v)
	case c == '[':
		v.kind = jsonArray
		p.array(&v)
	case c == '"':
		v.kind, v.text = jsonString, p.str()
	case c == '-' || '0' <= c && c <= '9':
		v.kind, v.text = jsonNumber, p.number()
	default:
		p.literal(&v)
	}
	if p.err == nil {
		v.end = p.pos
	}
	return v
}

// literal reads true, false or null.
func (p *jsonParser) literal(v *jsonValue) {
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(p.text[p.pos:], word) {
			v.text = word
			if word != "null" {
				v.kind = jsonBool
			}
			p.pos += len(word)
			return
		}
	}
	p.expected("a JSON value")
}

// enter counts the nesting depth, which bounds the parser's recursion, and fails at the limit.
func (p *jsonParser) enter() bool {
	if p.depth == maxJSONDepth {
		p.fail(p.pos, "nested more than %d deep", maxJSONDepth)
		return false
	}
	p.depth++
	return true
}

// array parses the items of an array into v.
func (p *jsonParser) array(v *jsonValue) {
	if !p.enter() {
		return
	}
	p.accept('[')
	for !p.accept(']') && p.err == nil {
		if len(v.items) > 0 && !p.accept(',') {
			p.expected(`"," or "]"`)
		}
		v.items = append(v.items, p.value())
	}
	p.depth--
}

// object parses the keys and items of an object into v.
func (p *jsonParser) object(v *jsonValue) {
	if !p.enter() {
		return
	}
	p.accept('{')
	seen := map[string]bool{}
	for !p.accept('}') && p.err == nil {
		if len(v.items) > 0 && !p.accept(',') {
			p.expected(`"," or "}"`)
		}
		p.skipSpace()
		key := jsonKey{pos: p.pos}
		if p.pos == len(p.text) || p.text[p.pos] != '"' {
			p.expected("a key in quotes")
		}
		key.name = p.str()
		if p.err != nil {
			return
		}
		if seen[key.name] {
			p.fail(key.pos, "key %q is given twice", clip(key.name))
		}
		seen[key.name] = true
		if !p.accept(':') {
			p.expected(`":"`)
		}
		v.keys = append(v.keys, key)
		v.items = append(v.items, p.value())
	}
	p.depth--
}

// number skips a number of the JSON grammar and returns it as written.
func (p *jsonParser) number() string {
	start := p.pos
	p.oneOf("-")
	if !p.oneOf("0") {
		p.digits()
	}
	if p.oneOf(".") {
		p.digits()
	}
	if p.oneOf("eE") {
		p.oneOf("+-")
		p.digits()
	}
	return p.text[start:p.pos]
}

// oneOf skips the next byte if it is in set, and reports whether it was.
func (p *jsonParser) oneOf(set string) bool {
	ok := p.pos < len(p.text) && strings.IndexByte(set, p.text[p.pos]) >= 0
	if ok {
		p.pos++
	}
	return ok
}

// digits skips one or more digits.
func (p *jsonParser) digits() {
	start := p.pos
	for p.oneOf("0123456789") {
	}
	if p.pos == start {
		p.expected("a digit")
	}
}

// str reads a string. Most have no escapes and share the file's memory.
func (p *jsonParser) str() string {
	start := p.pos + 1
	if p.err != nil {
		return ""
	}
	for i := start; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '"':
			p.pos = i + 1
			return p.unescape(start, p.text[start:i])
		case c == '\\':
			i++
		case c < ' ':
			p.fail(i, "control character %q in a string: write it as an escape", c)
			return ""
		}
	}
	p.fail(p.pos, "the string has no closing quote")
	return ""
}

// unescape decodes the inside of a string that begins at pos.
func (p *jsonParser) unescape(pos int, s string) string {
	if !utf8.ValidString(s) {
		p.fail(pos, "the string is not UTF-8")
		return ""
	}
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for s != "" {
		plain, rest, ok := strings.Cut(s, `\`)
		b.WriteString(plain)
		if !ok {
			break
		}
		r, size, err := escape(rest)
		if err != nil {
			p.fail(pos, "%w", err)
			return ""
		}
		b.WriteRune(r)
		s = rest[size:]
	}
	return b.String()
}

var errEscape = errors.New(
	`bad escape in a string: want \" \\ \/ \b \f \n \r \t or \u and 4 hex digits, surrogates in pairs`)

// escape decodes an escape sequence after its backslash and returns its length.
func escape(s string) (r rune, size int, err error) {
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(from, s[0]); i >= 0 {
		return rune(to[i]), 1, nil
	}
	hi, ok := hex4(s)
	if !ok {
		return 0, 0, errEscape
	}
	if !utf16.IsSurrogate(hi) {
		return hi, 5, nil // u and four digits
	}
	if len(s) < 6 || s[5] != '\\' {
		return 0, 0, errEscape
	}
	lo, ok := hex4(s[6:])
	pair := utf16.DecodeRune(hi, lo)
	if !ok || pair == utf8.RuneError {
		return 0, 0, errEscape
	}
	return pair, 11, nil // two escapes, and a backslash between them
}

// hex4 reads the letter u and four hex digits of a Unicode escape.
func hex4(s string) (rune, bool) {
	if len(s) < 5 || s[0] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(s[1:5], 16, 16)
	return rune(v), err == nil
}
