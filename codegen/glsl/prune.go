package glsl

import (
	"regexp"
	"slices"
	"strings"
)

// What writers declare in case that something needs it, and nothing did, is taken
// out again: variables of a block when it ends, functions and their parameters once
// the text is whole.

// declaration is a line that gives a variable its only value.
var declaration = regexp.MustCompile(`^ *(?:const )?[a-z]\w* ([A-Za-z]\w*) = .*;$`)

// eachName calls visit with the names in a piece of text but for its comments:
// words that follow no dot.
func eachName(s string, visit func(from, to int)) {
	if at := strings.Index(s, "//"); at >= 0 {
		s = s[:at]
	}
	for i := 0; i < len(s); {
		if !isLetter(s[i]) && (s[i] < '0' || s[i] > '9') {
			i++
			continue
		}
		from := i
		for i < len(s) && (isLetter(s[i]) || s[i] >= '0' && s[i] <= '9') {
			i++
		}
		if isLetter(s[from]) && (from == 0 || s[from-1] != '.') {
			visit(from, i)
		}
	}
}

var (
	// empty is a line that declares a variable or an array and gives it no value.
	empty = regexp.MustCompile(`^ *[a-z]\w* ([A-Za-z]\w*)(?:\[\w+\])?;$`)
	// assignment is a line that does no more than to change a variable or an element of an array.
	assignment = regexp.MustCompile(`^ *([A-Za-z]\w*)(?:\[[^=]*\])?(?:\.\w+)? [-+*/|&^]?= [^=].*;$`)
	// block is a line that begins a block which does nothing by itself.
	block = regexp.MustCompile(`^ *(?:\[\[\w+\]\] )?(?:for|if) \(.*\) \{$`)
)

// pruned returns the lines of a block without variables that nothing reads: neither their declarations,
// nor what changes them, nor loops and branches that do nothing else.
func pruned(lines []string) []string {
	for {
		n := len(lines)
		if lines = withoutBlocks(withoutUnread(withoutUnused(lines))); len(lines) == n {
			return lines
		}
	}
}

// withoutUnread leaves out variables that are only assigned.
func withoutUnread(lines []string) []string {
	unread := map[string]bool{}
	for _, l := range lines {
		if m := empty.FindStringSubmatch(l); m != nil {
			unread[m[1]] = true
		}
	}
	if len(unread) == 0 {
		return lines
	}
	for _, l := range lines {
		target := ""
		for _, of := range []*regexp.Regexp{empty, assignment} {
			if m := of.FindStringSubmatchIndex(l); m != nil {
				target, l = l[m[2]:m[3]], l[m[3]:]
				break
			}
		}
		eachName(l, func(from, to int) {
			if name := l[from:to]; name != target {
				delete(unread, name)
			}
		})
	}
	if len(unread) == 0 {
		return lines
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		for _, of := range []*regexp.Regexp{empty, assignment} {
			if m := of.FindStringSubmatch(l); m != nil && unread[m[1]] {
				return true
			}
		}
		return false
	})
}

// withoutBlocks leaves out loops and branches around nothing.
func withoutBlocks(lines []string) []string {
	for i := 0; i+1 < len(lines); i++ {
		if block.MatchString(lines[i]) && strings.TrimSpace(lines[i+1]) == "}" {
			return withoutBlocks(slices.Delete(slices.Clone(lines), i, i+2))
		}
	}
	return lines
}

// withoutUnused leaves out declarations of what no later line mentions.
func withoutUnused(lines []string) []string {
	mentioned := map[string]bool{}
	drop := map[int]bool{}
	for i := len(lines) - 1; i >= 0; i-- {
		if m := declaration.FindStringSubmatch(lines[i]); m != nil && !mentioned[m[1]] {
			drop[i] = true
			continue
		}
		eachName(lines[i], func(from, to int) { mentioned[lines[i][from:to]] = true })
	}
	if len(drop) == 0 {
		return lines
	}
	var kept []string
	for i, l := range lines {
		if !drop[i] {
			kept = append(kept, l)
		}
	}
	return kept
}

// definition is the head of a function, or the name of a constant.
var definition = regexp.MustCompile(`(?m)^(?:#define (\w+) |[a-z]\w* (\w+)\((.*)\) \{$)`)

// pruneFunctions leaves out functions that nothing calls, and parameters that
// their function does not use, along with what calls pass for them. The functions
// come in the order of the text, so that each is called by later ones alone; rest
// is what stands after them.
func pruneFunctions(functions, rest []string) ([]string, []string) {
	texts := append(slices.Clone(functions), rest...)
	n := len(functions)
	// What a function does without may have been all that its callers needed theirs for.
	for i := range n {
		m := definition.FindStringSubmatchIndex(texts[i])
		if m == nil || m[4] < 0 {
			continue
		}
		name := texts[i][m[4]:m[5]]
		_, byName := calls(name, texts[i+1:])
		for _, place := range slices.Backward(unusedParameters(texts[i][m[6]:m[7]], texts[i][m[1]:])) {
			if byName && place < elementParameters {
				texts[i] = texts[i][:m[5]] + unnamed(texts[i][m[5]:], place)
				continue
			}
			texts[i] = texts[i][:m[5]] + dropArgument(texts[i][m[5]:], place)
			for j := i + 1; j < len(texts); j++ {
				texts[j] = dropArguments(texts[j], name, place)
			}
		}
	}
	for i := n - 1; i >= 0; i-- {
		m := definition.FindStringSubmatch(texts[i])
		if m == nil {
			continue
		}
		if used, _ := calls(m[1]+m[2], texts[i+1:]); !used {
			texts = slices.Delete(texts, i, i+1)
			n--
		}
	}
	return texts[:n:n], texts[n:]
}

// elementParameters is how many parameters coopMatPerElementNV gives a function: row,
// column and element. Those that it passes on follow its name.
const elementParameters = 3

// calls reports whether texts mention a function, and whether they do so without
// calling it.
func calls(name string, texts []string) (used, byName bool) {
	for _, t := range texts {
		for _, at := range mentions(t, name) {
			used = true
			byName = byName || !strings.HasPrefix(t[at+len(name):], "(")
		}
	}
	return used, byName
}

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

// unusedParameters returns the places of parameters that a body does not mention.
func unusedParameters(params, body string) (places []int) {
	for i, p := range strings.Split(params, ", ") {
		name, _, _ := strings.Cut(p[strings.LastIndexByte(p, ' ')+1:], "[") // of an array
		if p != "" && len(mentions(body, name)) == 0 {
			places = append(places, i)
		}
	}
	return places
}

// dropArguments leaves one argument out of all calls of a function.
func dropArguments(t, name string, place int) string {
	for _, at := range slices.Backward(mentions(t, name)) {
		end := at + len(name)
		switch {
		case strings.HasPrefix(t[end:], "("):
			t = t[:end] + dropArgument(t[end:], place)
		case strings.HasPrefix(t[end:], ", "):
			rest := dropArgument("("+t[end+len(", "):], place-elementParameters)[1:]
			if !strings.HasPrefix(rest, ")") {
				rest = ", " + rest
			}
			t = t[:end] + rest
		}
	}
	return t
}

// unnamed takes the name off one of the parameters that a text begins with.
func unnamed(t string, place int) string {
	params := strings.Split(t[1:strings.IndexByte(t, ')')], ", ")
	old := params[place]
	params[place] = old[:strings.LastIndexByte(old, ' ')]
	return "(" + strings.Join(params, ", ") + t[strings.IndexByte(t, ')'):]
}

// dropArgument leaves one out of the arguments in the brackets that a text begins
// with.
func dropArgument(t string, place int) string {
	depth, n, start := 0, 0, 1
	for i := 0; i < len(t); i++ {
		switch t[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		if depth > 1 || depth == 1 && t[i] != ',' {
			continue
		}
		if n == place {
			switch {
			case depth == 1: // the next follows: it takes this one's place
				return t[:start] + strings.TrimPrefix(t[i+1:], " ")
			case n > 0:
				return strings.TrimSuffix(t[:start], ", ") + t[i:]
			}
			return t[:start] + t[i:]
		}
		if depth == 0 {
			return t
		}
		n, start = n+1, i+2 // after ", "
	}
	return t
}
