package reply

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// literals reads values as Python writes them, and returns their JSON.
type literals struct {
	s      string
	at     int
	assign string   // stands between a name and its value in fields
	quotes []string // marks around strings; a longer one comes before its prefix
	depth  int
}

func (l *literals) rest() string { return l.s[l.at:] }

func (l *literals) space() { l.at = len(l.s) - len(strings.TrimLeft(l.rest(), " \t\r\n")) }

// take skips a mark, if it is next.
func (l *literals) take(mark string) bool {
	if !strings.HasPrefix(l.rest(), mark) {
		return false
	}
	l.at += len(mark)
	return true
}

// fails returns the state if an expected mark is not there: more text may have it, or not.
func (l *literals) fails(mark string) state {
	if strings.HasPrefix(mark, l.rest()) {
		return partial
	}
	return not
}

// fields reads names and values up to the mark end, and returns them as a JSON object. A name may have quotes.
func (l *literals) fields(end string) (object string, st state) {
	return l.list("{", "}", end, func() (string, state) {
		l.space()
		key, st := l.quoted()
		if st != whole {
			n := nameLength(l.rest())
			if n == 0 { // partial, if more text may complete a quoted name or the mark
				return "", max(st, l.fails(l.assign))
			}
			key = quote(l.rest()[:n]) // a name without quotes
			l.at += n
		}
		l.space()
		if !l.take(l.assign) && !l.take(":") {
			return "", l.fails(l.assign)
		}
		value, st := l.value()
		return key + ":" + value, st
	})
}

// list reads items between commas up to the mark end, and returns them between open and close, as JSON.
func (l *literals) list(open, close, end string, item func() (string, state)) (text string, st state) {
	l.depth++
	defer func() { l.depth-- }()
	if l.depth > maxDepth {
		return "", not
	}
	var items []string
	for {
		l.space()
		ended := l.take(end)
		if !ended && len(items) > 0 {
			if !l.take(",") {
				return "", l.fails(",")
			}
			l.space()
			ended = l.take(end) // a comma may follow the last item
		}
		if ended {
			return open + strings.Join(items, ",") + close, whole
		}
		one, st := item()
		if st != whole {
			return "", st
		}
		items = append(items, one)
	}
}

// value reads one value.
func (l *literals) value() (text string, st state) {
	l.space()
	if text, st := l.quoted(); st != not {
		return text, st
	}
	switch {
	case l.take("["):
		return l.list("[", "]", "]", l.value)
	case l.take("("):
		return l.list("[", "]", ")", l.value)
	case l.take("{"):
		return l.fields("}")
	}
	word, _, found := cutAny(l.rest(), ",)]} \t\r\n")
	if !found {
		return "", partial // a longer word may follow
	}
	l.at += len(word)
	if json, ok := map[string]string{"True": "true", "False": "false", "None": "null"}[word]; ok {
		return json, whole
	}
	if json.Valid([]byte(word)) {
		return word, whole
	}
	return "", not
}

// cutAny cuts s before the first of some characters.
func cutAny(s, chars string) (before, after string, found bool) {
	i := strings.IndexAny(s, chars)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i:], true
}

// escapes are the characters that a backslash and a letter stand for.
var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '0': "\x00", '\n': "", 'b': "\b", 'f': "\f"}

// codeLengths are the hex digits of a character's number after a backslash and a letter.
var codeLengths = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// code reads the code of a character in hexadecimal digits, after a backslash and a letter such as u. It leaves the
// position at the last digit, which the caller skips. Two codes that are the halves of a surrogate pair are one
// character, as in JSON.
func (l *literals) code() (c rune, ok bool) {
	read := func(at int) (rune, int) {
		if at >= len(l.s) {
			return 0, 0
		}
		n := codeLengths[l.s[at]]
		if n == 0 || at+n >= len(l.s) {
			return 0, 0
		}
		v, err := strconv.ParseUint(l.s[at+1:at+1+n], 16, 32)
		if err != nil || v > utf8.MaxRune {
			return 0, 0
		}
		return rune(v), n
	}
	c, n := read(l.at)
	if n == 0 {
		return 0, false
	}
	// l.at is at the letter, so the next escape begins n+1 bytes later, and its letter is one byte after that.
	if utf16.IsSurrogate(c) && strings.HasPrefix(l.s[l.at+n+1:], `\u`) {
		low, more := read(l.at + n + 2)
		if both := utf16.DecodeRune(c, low); both != utf8.RuneError {
			c, n = both, n+2+more
		}
	}
	l.at += n
	return c, true
}

// quoted reads a string between two equal quotes, and returns it as JSON. st is partial if the text ends within the
// string, and not if no string begins here.
func (l *literals) quoted() (text string, st state) {
	for _, mark := range l.quotes { // longer quotes first; strings in quotes of more than 3 bytes have no escapes
		if len(l.rest()) < len(mark) && l.rest() != "" && strings.HasPrefix(mark, l.rest()) {
			return "", partial
		}
		if !l.take(mark) {
			continue
		}
		var b strings.Builder
		for ; l.rest() != ""; l.at++ {
			c := l.s[l.at]
			if l.take(mark) {
				return quote(b.String()), whole
			}
			if c != '\\' || len(mark) > 3 || l.at+1 == len(l.s) {
				b.WriteByte(c)
				continue
			}
			l.at++
			if text, ok := escapes[l.s[l.at]]; ok {
				b.WriteString(text)
			} else if c, ok := l.code(); ok {
				b.WriteRune(c)
			} else {
				b.WriteByte(l.s[l.at])
			}
		}
		return "", partial
	}
	return "", not
}

// quote returns a string as JSON.
func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil { // strings always encode
		return `""`
	}
	return string(data)
}
