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

// pruneFunctions leaves out definitions that nothing uses, and parameters that their function does not use, along with
// what calls pass for them. Definitions come in the order of the text, so that each is used by later ones alone. What
// users define and the lines of main come last; of these only the calls change.
func pruneFunctions(own, users []definition, main []string) []definition {
	own = slices.Clone(own)
	var bodies []*string // of all of the text
	for _, d := range append(pointers(own), pointers(users)...) {
		bodies = append(bodies, &d.body)
	}
	for i := range main {
		bodies = append(bodies, &main[i])
	}
	// What a function does without may have been all that its callers needed theirs for.
	for i := range own {
		d, later := &own[i], bodies[i+1:]
		byName := usedByName(d.name, later)
		for place, p := range slices.Backward(d.params) {
			switch {
			case mentioned(d.body, parameter(p)):
			case byName && place < elementParameters:
				d.params[place] = p[:strings.LastIndexByte(p, ' ')]
			default:
				d.params = slices.Delete(d.params, place, place+1)
				for _, t := range later {
					*t = dropArguments(*t, d.name, place)
				}
			}
		}
	}
	for i := len(own) - 1; i >= 0; i-- {
		if !slices.ContainsFunc(bodies[i+1:], func(t *string) bool { return mentioned(*t, own[i].name) }) {
			own[i].name, own[i].body = "", "" // which mentions nothing any more
		}
	}
	return slices.DeleteFunc(own, func(d definition) bool { return d.name == "" })
}

// pointers are the addresses of definitions.
func pointers(list []definition) []*definition {
	all := make([]*definition, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}

// elementParameters is how many parameters coopMatPerElementNV gives a function: row,
// column and element. Those that it passes on follow its name.
const elementParameters = 3

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
