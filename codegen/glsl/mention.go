package glsl

import "strings"

// eachName calls visit with the names in a piece of text but for its comments:
// words that follow no dot.
func eachName(s string, visit func(from, to int)) {
	if at := strings.Index(s, "//"); at >= 0 {
		s = s[:at]
	}
	for i := 0; i < len(s); {
		if !isNameByte(s[i]) {
			i++
			continue
		}
		from := i
		for i < len(s) && isNameByte(s[i]) {
			i++
		}
		if isLetter(s[from]) && (from == 0 || s[from-1] != '.') {
			visit(from, i)
		}
	}
}

// mentioned reports whether a name stands in a text.
func mentioned(t, name string) bool { return len(mentions(t, name)) > 0 }

// mentions returns where a name stands in a text of many lines.
func mentions(t, name string) (at []int) {
	if !strings.Contains(t, name) {
		return nil
	}
	start := 0
	for line := range strings.Lines(t) {
		eachName(line, func(from, to int) {
			if line[from:to] == name {
				at = append(at, start+from)
			}
		})
		start += len(line)
	}
	return at
}

// usedByName reports whether texts mention a function without calling it.
func usedByName(name string, texts []*string) bool {
	for _, t := range texts {
		for _, at := range mentions(*t, name) {
			if !strings.HasPrefix((*t)[at+len(name):], "(") {
				return true
			}
		}
	}
	return false
}

// renamed is a text with other names.
func renamed(text string, names map[string]string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		at := 0
		eachName(line, func(from, to int) {
			if n, ok := names[line[from:to]]; ok {
				b.WriteString(line[at:from] + n)
				at = to
			}
		})
		b.WriteString(line[at:])
	}
	return b.String()
}
