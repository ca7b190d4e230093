package chat

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// printed returns a value as Python's str prints it.
func printed(r *run, v value) str {
	switch v := withoutMarkup(v).(type) {
	case str:
		return v
	case undefined:
		return nil
	}
	return repr(r, v)
}

// repr returns a value as Python's repr prints it.
func repr(r *run, v value) str {
	w := writer{r: r}
	w.repr(v)
	return w.out
}

// writer collects a string, and counts its characters as steps of the run.
type writer struct {
	r   *run
	out str
}

func (w *writer) add(s str) {
	w.r.step(len(s))
	w.out = append(w.out, s...)
}

func (w *writer) write(s string) { w.add(text(s)) }

// repr writes a value as Python's repr does.
func (w *writer) repr(v value) {
	w.r.beginLevel()
	defer w.r.endLevel()
	switch v := withoutMarkup(v).(type) {
	case nil:
		w.write("None")
	case bool:
		if v {
			w.write("True")
		} else {
			w.write("False")
		}
	case int:
		w.write(strconv.Itoa(v))
	case float64:
		w.write(floatText(v, "inf", "nan"))
	case str:
		w.quote(v)
	case *list:
		open, end := "[", "]"
		if v.kind == tuple {
			open, end = "(", ")"
		}
		w.write(open)
		for i, x := range v.items {
			if i > 0 {
				w.write(", ")
			}
			w.repr(x)
		}
		if v.kind == tuple && len(v.items) == 1 {
			w.write(",")
		}
		w.write(end)
	case *dict:
		w.write("{")
		for i, k := range v.keys {
			if i > 0 {
				w.write(", ")
			}
			w.repr(k)
			w.write(": ")
			w.repr(v.values[i])
		}
		w.write("}")
	case undefined:
		w.write("Undefined")
	case *namespace:
		w.write("<Namespace ")
		w.repr(v.dict)
		w.write(">")
	default:
		w.write("<function>")
	}
}

// quote writes a string in quotes, with unprintable characters escaped, as Python's repr does.
func (w *writer) quote(s str) {
	q := '\''
	has := func(r rune) bool { return slices.ContainsFunc(s, func(c rune) bool { return unmarked(c) == r }) }
	if has('\'') && !has('"') {
		q = '"' // Python prefers the quote that needs no escape
	}
	w.add(str{q})
	for _, c := range s {
		switch r := unmarked(c); {
		case w.backslashed(c, q):
		case r == ' ' || unicode.IsPrint(r):
			w.add(str{c})
		case r < 0x100:
			w.escape(c, `\x`+hex(r, 2))
		case r < 0x10000:
			w.escape(c, `\u`+hex(r, 4))
		default:
			w.escape(c, `\U`+hex(r, 8))
		}
	}
	w.add(str{q})
}

// escape writes s in place of the character c, with the mark of c.
func (w *writer) escape(c rune, s string) {
	for _, r := range s {
		w.add(str{r | c&mark})
	}
}

// backslashed writes c with a backslash if both Python and JSON escape it so: the quote, a backslash, \n, \r and \t. It
// reports whether it has written c.
func (w *writer) backslashed(c, quote rune) bool {
	switch unmarked(c) {
	case quote, '\\':
		w.add(str{'\\' | c&mark, c})
	case '\n':
		w.escape(c, `\n`)
	case '\r':
		w.escape(c, `\r`)
	case '\t':
		w.escape(c, `\t`)
	default:
		return false
	}
	return true
}

// hex formats r as at least that many hex digits.
func hex(r rune, digits int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, digits-len(s))) + s
}

// floatText formats a float as Python's repr does. inf and nan are the words for infinity and NaN.
func floatText(f float64, inf, nan string) string {
	switch {
	case math.IsNaN(f):
		return nan
	case math.IsInf(f, 1):
		return inf
	case math.IsInf(f, -1):
		return "-" + inf
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	exp, _ := strconv.Atoi(s[strings.IndexByte(s, 'e')+1:])
	if exp < -4 || exp >= 16 { // beyond these limits, Python writes an exponent
		return s
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// jsonStyle holds the options of Python's json.dumps.
type jsonStyle struct {
	indent      str  // of a nesting level
	lines       bool // one item a line
	item, key   str  // separators after items and keys
	ascii, sort bool // escape non-ASCII characters; sort keys
}

// json writes a value as Python's json.dumps does.
func (w *writer) json(v value, style jsonStyle, depth int) {
	w.r.beginLevel()
	defer w.r.endLevel()
	switch v := withoutMarkup(v).(type) {
	case nil:
		w.write("null")
	case bool:
		w.write(strconv.FormatBool(v))
	case int:
		w.write(strconv.Itoa(v))
	case float64:
		w.write(floatText(v, "Infinity", "NaN"))
	case str:
		w.jsonText(v, style.ascii)
	case *list:
		if v.kind == generator {
			fail("a generator cannot become JSON: want a list, as the filter list makes")
		}
		w.jsonItems("[", "]", len(v.items), style, depth, func(i int) { w.json(v.items[i], style, depth+1) })
	case *dict:
		order := make([]int, len(v.keys))
		for i := range order {
			order[i] = i
		}
		if style.sort {
			slices.SortStableFunc(order, func(a, b int) int { return compare(w.r, v.keys[a], v.keys[b]) })
		}
		w.jsonItems("{", "}", len(order), style, depth, func(i int) {
			w.jsonKey(v.keys[order[i]], style)
			w.add(style.key)
			w.json(v.values[order[i]], style, depth+1)
		})
	default:
		fail("a %s cannot become JSON: want strings, numbers, lists and mappings", typeName(v))
	}
}

// jsonItems writes n items between brackets, at a nesting depth.
func (w *writer) jsonItems(open, closing string, n int, style jsonStyle, depth int, item func(i int)) {
	newline := func(depth int) {
		if style.lines && n > 0 {
			w.write("\n")
			for range depth {
				w.add(style.indent)
			}
		}
	}
	w.write(open)
	for i := range n {
		if i > 0 {
			w.add(style.item)
		}
		newline(depth + 1)
		item(i)
	}
	newline(depth)
	w.write(closing)
}

// jsonKey writes the key of a JSON object. Python's json.dumps also allows numbers, booleans and None, written as
// strings.
func (w *writer) jsonKey(key value, style jsonStyle) {
	if s, ok := withoutMarkup(key).(str); ok {
		w.jsonText(s, style.ascii)
		return
	}
	switch withoutMarkup(key).(type) {
	case nil, bool, int, float64:
	default:
		fail("a key is a %s, which JSON does not allow: want a string or a number", describe(key))
	}
	k := writer{r: w.r}
	k.json(key, style, 0)
	w.jsonText(k.out, style.ascii)
}

// jsonText writes a JSON string. With ascii, it escapes characters that are not ASCII.
func (w *writer) jsonText(s str, ascii bool) {
	w.write(`"`)
	for _, c := range s {
		switch r := unmarked(c); {
		case w.backslashed(c, '"'):
		case r == '\b':
			w.escape(c, `\b`)
		case r == '\f':
			w.escape(c, `\f`)
		case r < ' ' || ascii && r > '~' && r < 0x10000:
			w.escape(c, `\u`+hex(r, 4))
		case ascii && r >= 0x10000:
			w.escape(c, `\u`+hex(0xd800+(r-0x10000)>>10, 4)+`\u`+hex(0xdc00+(r-0x10000)&0x3ff, 4))
		default:
			w.add(str{c})
		}
	}
	w.write(`"`)
}
