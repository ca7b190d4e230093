package chat

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// method returns the method of a value with a name, or nil if there is none. A method that would modify a list or a
// mapping fails, as in Jinja's sandbox.
func method(x value, name string) *callable {
	var f func(r *run, a args) value
	switch x := x.(type) {
	case str:
		if of, ok := strMethods[name]; ok {
			f = func(r *run, a args) value { return of(r, x, a) }
		}
	case *list:
		f = listMethod(x, name)
	case *dict:
		f = dictMethod(x, name)
	}
	if f == nil {
		return nil
	}
	return &callable{name, f}
}

// listMethod returns the method of a list or tuple with a name, or nil if there is none. It fails for the name of a
// method that would modify a list.
func listMethod(x *list, name string) func(r *run, a args) value {
	switch name {
	case "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort":
		if x.kind == plain {
			fail("%q would change a list, which templates cannot: make a new list with +", name)
		}
	case "index":
		return func(r *run, a args) value {
			for i, v := range x.items {
				if equal(r, v, a.need(0, "value")) {
					return i
				}
			}
			fail("index: no such item in the list")
			return nil
		}
	case "count":
		return func(r *run, a args) value {
			n := 0
			for _, v := range x.items {
				if equal(r, v, a.need(0, "value")) {
					n++
				}
			}
			return n
		}
	case "copy":
		return func(*run, args) value { return &list{items: slices.Clone(x.items)} }
	}
	return nil
}

// dictMethod returns the method of a mapping with a name, or nil if there is none. It fails for the name of a method
// that would modify the mapping.
func dictMethod(x *dict, name string) func(r *run, a args) value {
	switch name {
	case "clear", "pop", "popitem", "setdefault", "update":
		fail("%q would change a mapping, which templates cannot: make a new one with dict()", name)
	case "get":
		return func(r *run, a args) value {
			key := a.need(0, "key")
			wantKey(r, key)
			if v, ok := x.get(r, key); ok {
				return v
			}
			return a.or(1, "default", nil)
		}
	case "items":
		return func(r *run, _ args) value { r.step(len(x.keys)); return x.items() }
	case "keys":
		return func(*run, args) value { return &list{items: x.keys} }
	case "values":
		return func(*run, args) value { return &list{items: x.values} }
	case "copy":
		return func(r *run, _ args) value { return fromArgs(r, args{list: []value{x}}) }
	}
	return nil
}

// strMethod is a method of a string.
type strMethod = func(r *run, s str, a args) value

// strMethods are the methods of strings.
var strMethods map[string]strMethod

// stripped returns a method that strips characters on some sides.
func stripped(left, right bool) strMethod {
	return func(r *run, s str, a args) value { return strip(r, s, a.or(0, "chars", nil), left, right) }
}

// allIn returns a method that tests whether all characters are in a class.
func allIn(in func(rune) bool) strMethod {
	return func(r *run, s str, _ args) value {
		return len(s) > 0 && !hasRune(s, func(c rune) bool { return !in(c) })
	}
}

// affixed returns a method that tests for a prefix or suffix, or for one of several.
func affixed(has func(r *run, s, sub str) bool) strMethod {
	return func(r *run, s str, a args) value {
		if l, ok := a.need(0, "prefix").(*list); ok {
			return slices.ContainsFunc(l.items, func(v value) bool { return has(r, s, printed(r, v)) })
		}
		return has(r, s, a.str(0, "prefix"))
	}
}

// pad returns a method that pads a string to a width on some sides.
func pad(left, right bool) strMethod {
	return func(r *run, s str, a args) value {
		a.need(0, "width")
		n := max(0, min(a.int(0, "width", 0), maxRange)-len(s))
		before, after := 0, 0
		switch {
		case left && right:
			before = n/2 + n&(n+len(s))&1 // as CPython: an odd space goes to the left if the width is odd
			after = n - before
		case left:
			before = n
		default:
			after = n
		}
		fill := text(" ")
		if len(a.list) > 1 {
			fill = a.str(1, "fillchar")
			if len(fill) != 1 {
				fail("the argument \"fillchar\" has %d characters: want one", len(fill))
			}
		}
		return joined(r, []value{slices.Repeat(fill, before), s, slices.Repeat(fill, after)}, nil)
	}
}

// init fills strMethods. Its declaration cannot: the methods refer to functions that refer to it.
func init() {
	strMethods = map[string]strMethod{}
	for _, some := range []map[string]strMethod{caseMethods(), affixMethods(), splitMethods(), findMethods(),
		testMethods(), layoutMethods()} {
		maps.Copy(strMethods, some)
	}
}

// caseMethods returns the methods that change between lower and upper case.
func caseMethods() map[string]strMethod {
	return map[string]strMethod{
		"lower":    func(r *run, s str, _ args) value { return change(r, s, unicode.ToLower) },
		"upper":    func(r *run, s str, _ args) value { return change(r, s, unicode.ToUpper) },
		"casefold": func(r *run, s str, _ args) value { return change(r, s, unicode.ToLower) },
		"swapcase": func(r *run, s str, _ args) value {
			return change(r, s, func(c rune) rune {
				if unicode.IsUpper(c) {
					return unicode.ToLower(c)
				}
				return unicode.ToUpper(c)
			})
		},
		"capitalize": func(r *run, s str, _ args) value {
			s = change(r, s, unicode.ToLower)
			if len(s) > 0 {
				s[0] = unicode.ToUpper(unmarked(s[0])) | s[0]&mark
			}
			return s
		},
		"title": func(r *run, s str, _ args) value {
			inWord := false
			return change(r, s, func(c rune) rune {
				continues := inWord
				inWord = unicode.IsLetter(c)
				if continues {
					return unicode.ToLower(c)
				}
				return unicode.ToUpper(c)
			})
		},
	}
}

// affixMethods returns the methods about the beginning and the end of a string.
func affixMethods() map[string]strMethod {
	return map[string]strMethod{
		"strip": stripped(true, true), "lstrip": stripped(true, false), "rstrip": stripped(false, true),
		"startswith": affixed(hasPrefix),
		"endswith":   affixed(hasSuffix),
		"removeprefix": func(r *run, s str, a args) value {
			if p := a.str(0, "prefix"); hasPrefix(r, s, p) {
				return s[len(p):]
			}
			return s
		},
		"removesuffix": func(r *run, s str, a args) value {
			if p := a.str(0, "suffix"); hasSuffix(r, s, p) {
				return s[:len(s)-len(p)]
			}
			return s
		},
	}
}

// splitMethods returns the methods that split and join strings.
func splitMethods() map[string]strMethod {
	return map[string]strMethod{
		"split": func(r *run, s str, a args) value {
			return texts(splitBy(r, s, a.or(0, "sep", nil), a.int(1, "maxsplit", -1)))
		},
		"rsplit": rsplit,
		"splitlines": func(r *run, s str, a args) value {
			if !truth(a.or(0, "keepends", false)) {
				return texts(lines(r, s))
			}
			var all []str
			for len(s) > 0 {
				n, end := line(s)
				all, s = append(all, s[:n+end]), s[n+end:]
			}
			return texts(all)
		},
		"partition": func(r *run, s str, a args) value {
			sep := a.str(0, "sep")
			i := find(r, s, sep)
			if i < 0 {
				return &list{items: []value{s, str{}, str{}}, kind: tuple}
			}
			return &list{items: []value{s[:i], sep, s[i+len(sep):]}, kind: tuple}
		},
		"rpartition": func(r *run, s str, a args) value {
			sep := a.str(0, "sep")
			i := findLast(r, s, sep)
			if i < 0 {
				return &list{items: []value{str{}, str{}, s}, kind: tuple}
			}
			return &list{items: []value{s[:i], sep, s[i+len(sep):]}, kind: tuple}
		},
		"join": func(r *run, s str, a args) value { return joined(r, iterate(r, a.need(0, "iterable")), s) },
	}
}

// rsplit implements the method rsplit: it splits at the last maxsplit separators.
func rsplit(r *run, s str, a args) value {
	parts := splitBy(r, s, a.or(0, "sep", nil), -1)
	if most := a.int(1, "maxsplit", -1); most >= 0 && len(parts) > most+1 {
		// The first result is everything up to the first split: the parts before it and the separators between them.
		// parts share the memory of s, so a capacity tells where in s a part begins.
		first := len(parts) - most
		begin := cap(s) - cap(parts[0])
		end := cap(s) - cap(parts[first-1]) + len(parts[first-1])
		parts = append([]str{s[begin:end]}, parts[first:]...)
	}
	return texts(parts)
}

// findMethods returns the methods that search for a part of a string.
func findMethods() map[string]strMethod {
	return map[string]strMethod{
		"find":  func(r *run, s str, a args) value { return find(r, s, a.str(0, "sub")) },
		"rfind": func(r *run, s str, a args) value { return findLast(r, s, a.str(0, "sub")) },
		"rindex": func(r *run, s str, a args) value {
			i := findLast(r, s, a.str(0, "sub"))
			if i < 0 {
				fail("rindex: no such part in the string")
			}
			return i
		},
		"index": func(r *run, s str, a args) value {
			i := find(r, s, a.str(0, "sub"))
			if i < 0 {
				fail("index: no such part in the string")
			}
			return i
		},
		"count": func(r *run, s str, a args) value {
			sub := a.str(0, "sub")
			if len(sub) == 0 {
				return len(s) + 1
			}
			return len(split(r, s, sub, -1)) - 1
		},
		"replace": func(r *run, s str, a args) value {
			return replace(r, s, a.str(0, "old"), a.str(1, "new"), a.or(2, "count", nil))
		},
	}
}

// testMethods returns the methods that test the characters of a string.
func testMethods() map[string]strMethod {
	return map[string]strMethod{
		"isdigit": allIn(unicode.IsDigit), "isdecimal": allIn(unicode.IsDigit), "isnumeric": allIn(unicode.IsNumber),
		"isalpha": allIn(unicode.IsLetter), "isspace": allIn(unicode.IsSpace),
		"isalnum": allIn(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isascii": func(_ *run, s str, _ args) value {
			return !hasRune(s, func(c rune) bool { return c > 0x7f })
		},
		"isprintable": func(_ *run, s str, _ args) value {
			return !hasRune(s, func(c rune) bool { return !unicode.IsPrint(c) })
		},
		"isidentifier": func(_ *run, s str, _ args) value {
			other := func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }
			return len(s) > 0 && !unicode.IsDigit(unmarked(s[0])) && !hasRune(s, other)
		},
		"istitle": isTitle,
		"isupper": func(r *run, s str, _ args) value { return tests["upper"](r, s, args{}) },
		"islower": func(r *run, s str, _ args) value { return tests["lower"](r, s, args{}) },
	}
}

// layoutMethods returns the methods that pad and format.
func layoutMethods() map[string]strMethod {
	return map[string]strMethod{
		"expandtabs": expandTabs,
		"ljust":      pad(false, true), "rjust": pad(true, false), "center": pad(true, true),
		"zfill": func(r *run, s str, a args) value {
			n := max(0, min(a.int(0, "width", 0), maxRange)-len(s))
			return joined(r, []value{slices.Repeat(text("0"), n), s}, nil)
		},
		"format": braces,
	}
}

// isTitle reports whether each word begins with a capital and has no other capitals.
func isTitle(r *run, s str, _ args) value {
	r.step(len(s))
	inWord, any := false, false
	for _, c := range s {
		c = unmarked(c)
		switch {
		case unicode.IsUpper(c) && inWord, unicode.IsLower(c) && !inWord:
			return false
		case unicode.IsUpper(c), unicode.IsLower(c):
			inWord, any = true, true
		default:
			inWord = false
		}
	}
	return any
}

// expandTabs replaces each tab by spaces, up to the next column that is a multiple of the tab size.
func expandTabs(r *run, s str, a args) value {
	size, column := min(a.int(0, "tabsize", 8), maxRange), 0
	w := writer{r: r}
	for i, c := range s {
		switch unmarked(c) {
		case '\t':
			if size > 0 {
				n := size - column%size
				w.add(slices.Repeat(str{' ' | c&mark}, n))
				column += n
			}
			continue
		case '\n', '\r':
			column = -1 // the column after the line end is 0
		}
		w.add(s[i : i+1])
		column++
	}
	return w.out
}

// findLast returns the index of the last occurrence of sub, or -1.
func findLast(r *run, s, sub str) int {
	for i := len(s) - len(sub); i >= 0; i-- {
		r.step(0)
		if hasPrefix(r, s[i:], sub) {
			return i
		}
	}
	return -1
}

// lines splits a string at the line ends that Python recognizes.
func lines(r *run, s str) (all []str) {
	r.step(len(s))
	for len(s) > 0 {
		n, end := line(s)
		all, s = append(all, s[:n]), s[n+end:]
	}
	return all
}

// line returns the length of the first line of a string, and the length of its line end.
func line(s str) (n, end int) {
	for i, c := range s {
		switch unmarked(c) {
		case '\r':
			if i+1 < len(s) && unmarked(s[i+1]) == '\n' {
				return i, 2
			}
			return i, 1
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
			return i, 1
		}
	}
	return len(s), 0
}

func hasRune(s str, is func(rune) bool) bool {
	return slices.ContainsFunc(s, func(c rune) bool { return is(unmarked(c)) })
}

// texts returns a list value of strings.
func texts(parts []str) *list {
	l := &list{}
	for _, p := range parts {
		l.items = append(l.items, p)
	}
	return l
}

// change applies f to each character of a string. Characters keep their marks.
func change(r *run, s str, f func(rune) rune) str {
	r.step(len(s))
	out := make(str, len(s))
	for i, c := range s {
		out[i] = f(unmarked(c)) | c&mark
	}
	return out
}

// strip removes characters in chars, or white space if chars is None, from the left end, the right end or both ends of
// a string.
func strip(r *run, s str, chars value, left, right bool) str {
	r.step(len(s))
	const fewChars = 16 // up to that many, a search is faster than a map
	in := unicode.IsSpace
	if set, ok := chars.(str); ok {
		r.step(len(s) * min(len(set), fewChars))
		in = func(c rune) bool { return strings.ContainsRune(set.String(), c) }
		if len(set) > fewChars {
			table := map[rune]bool{}
			for _, c := range set {
				table[unmarked(c)] = true
			}
			in = func(c rune) bool { return table[c] }
		}
	}
	for left && len(s) > 0 && in(unmarked(s[0])) {
		s = s[1:]
	}
	for right && len(s) > 0 && in(unmarked(s[len(s)-1])) {
		s = s[:len(s)-1]
	}
	return s
}

func hasSuffix(r *run, s, sub str) bool {
	return len(sub) <= len(s) && hasPrefix(r, s[len(s)-len(sub):], sub)
}

// splitBy splits a string at a separator, or at runs of white space if sep is None. It splits at most `most` times,
// unless that is negative.
func splitBy(r *run, s str, sep value, most int) (parts []str) {
	switch sep := sep.(type) {
	case str:
		return split(r, s, sep, most)
	case nil:
		r.step(len(s))
		for {
			s = strip(r, s, nil, true, false)
			n := slices.IndexFunc(s, func(c rune) bool { return unicode.IsSpace(unmarked(c)) })
			switch {
			case len(s) == 0:
				return parts
			case n < 0 || most >= 0 && len(parts) == most:
				return append(parts, strip(r, s, nil, false, true))
			}
			parts, s = append(parts, s[:n]), s[n:]
		}
	}
	fail("a separator is a %s: want a string", describe(sep))
	return nil
}

// split splits a string at a separator, at most `most` times unless that is negative.
func split(r *run, s, sep str, most int) (parts []str) {
	if len(sep) == 0 {
		fail("the separator is empty: want one character or more")
	}
	for most != 0 {
		i := find(r, s, sep)
		if i < 0 {
			break
		}
		parts, s = append(parts, s[:i]), s[i+len(sep):]
		most--
	}
	return append(parts, s)
}

// replace returns s with occurrences of old replaced by with, at most count of them if count is an integer. As in
// Python, an empty old occurs before each character and at the end.
func replace(r *run, s, old, with str, count value) str {
	most, limited := count.(int)
	if !limited || most < 0 {
		most = -1 // all of them
	}
	w := writer{r: r}
	if len(old) == 0 {
		for i, c := range s {
			if most < 0 || i < most {
				w.add(with)
			}
			w.add(str{c})
		}
		if most < 0 || len(s) < most {
			w.add(with)
		}
		return w.out
	}
	for i, p := range split(r, s, old, most) {
		if i > 0 {
			w.add(with)
		}
		w.add(p)
	}
	return w.out
}
