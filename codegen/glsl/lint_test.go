package glsl_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// A linter for generated GLSL. It parses the generator's shaders and reports code that no person would write: constants
// that a compiler folds, tests with a known outcome, names that nothing reads, and duplicate functions.

// lint returns the findings in a shader, a line each.
func lint(source string) []string {
	l := &linter{ranges: map[string]bounds{}}
	if err := l.parse(source); err != nil {
		return []string{err.Error()}
	}
	l.unusedGlobals()
	l.twins()
	slices.Sort(l.problems)
	return slices.Compact(l.problems)
}

type linter struct {
	tokens    []string
	at        int
	workgroup float64
	globals   []string // names of buffers, shared memory and constants
	functions []function
	mentions  map[string]int
	problems  []string

	where  string            // the current function
	ranges map[string]bounds // of the variables in scope
	facts  []string          // conditions known to hold, innermost last
	locals map[string]*local
	arrays map[string]bool
}

type function struct {
	name   string
	params []string
	types  []string
	body   []string // tokens
}

// local is a variable, and how often it is read.
type local struct{ reads int }

type bounds struct{ lo, hi float64 }

var unknown = bounds{math.Inf(-1), math.Inf(1)}

func (b bounds) known() bool { return b.hi < math.Inf(1) || b.lo > math.Inf(-1) }

var lintToken = regexp.MustCompile(
	`^(?:(0x[0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?:[uUlL]+|lf|f|hf)?)|([A-Za-z_]\w*)|(\[\[\w+\]\]|"[^"]*"|<<=|>>=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\^\^|[-+*/%&|^]=|.))`)

// parse reads the whole shader.
func (l *linter) parse(source string) error {
	l.mentions = map[string]int{}
	var defines []string
	for _, line := range strings.Split(source, "\n") {
		line, _, _ = strings.Cut(line, "//")
		if strings.HasPrefix(line, "#") {
			if d, ok := strings.CutPrefix(line, "#define "); ok {
				defines = append(defines, lintToken.FindString(d))
			}
			continue
		}
		for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
			t := lintToken.FindString(line)
			l.tokens = append(l.tokens, t)
			line = line[len(t):]
		}
	}
	for _, t := range l.tokens {
		l.mentions[t]++
	}
	for _, d := range defines {
		l.globals = append(l.globals, d)
		l.mentions[d]++
	}
	for l.at < len(l.tokens) {
		if err := l.topLevel(); err != nil {
			return err
		}
	}
	return nil
}

func (l *linter) peek(ahead int) string {
	if l.at+ahead < len(l.tokens) {
		return l.tokens[l.at+ahead]
	}
	return ""
}

func (l *linter) next() string {
	t := l.peek(0)
	l.at++
	return t
}

func (l *linter) take(want string) bool {
	if l.peek(0) != want {
		return false
	}
	l.at++
	return true
}

// until skips to a token outside of brackets, and returns the skipped tokens.
func (l *linter) until(ends ...string) []string {
	start, depth := l.at, 0
	for l.at < len(l.tokens) {
		t := l.tokens[l.at]
		if depth == 0 && slices.Contains(ends, t) {
			break
		}
		switch t {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		l.at++
	}
	return l.tokens[start:l.at]
}

func (l *linter) report(format string, args ...any) {
	l.problems = append(l.problems, l.where+": "+fmt.Sprintf(format, args...))
}

func (l *linter) topLevel() error {
	switch l.peek(0) {
	case "layout":
		head := l.until(";", "{")
		if i := slices.Index(head, "local_size_x"); i >= 0 {
			l.workgroup = number(head[i+2])
		}
		if l.take("{") {
			inside := l.until("}")
			l.at++
			// An array that is reached by address has the name of its macro.
			if i := slices.Index(inside, "["); i > 0 && !slices.Contains(head, "buffer_reference") {
				l.globals = append(l.globals, inside[i-1])
			}
		}
		l.take(";")
		return nil
	case "spirv_execution_mode":
		l.until(";")
		l.at++
		return nil
	case "shared", "const":
		line := l.until(";")
		l.at++
		name := ""
		for i, t := range line {
			if t == "=" || t == "[" && i > 2 {
				break
			}
			if isName(t) {
				name = t
			}
		}
		l.globals = append(l.globals, name)
		return nil
	case "precise":
		l.at++
	case ";":
		l.at++
		return nil
	case "struct":
		l.until(";")
		l.at++
		return nil
	}
	return l.function()
}

func isName(t string) bool {
	return t != "" && (t[0] == '_' || t[0] >= 'a' && t[0] <= 'z' || t[0] >= 'A' && t[0] <= 'Z')
}

func (l *linter) function() error {
	start := l.at
	l.next()
	if l.peek(0) == "<" {
		l.until("(")
	}
	f := function{name: l.next()}
	if !l.take("(") {
		return fmt.Errorf("top level: cannot read %v", l.tokens[start:min(start+8, len(l.tokens))])
	}
	params := l.until(")")
	l.at++
	l.where = f.name
	l.locals, l.ranges, l.facts, l.arrays = map[string]*local{}, map[string]bounds{}, nil, map[string]bool{}
	out := map[string]bool{}
	for _, p := range splitTop(params, ",") {
		if len(p) == 0 {
			continue
		}
		name := p[len(p)-1]
		typ := p[:len(p)-1]
		if lintTypes.MatchString(name) { // a parameter that only callers need has no name
			f.params, f.types = append(f.params, ""), append(f.types, strings.Join(p, " "))
			continue
		}
		if i := slices.Index(p, "["); i > 0 {
			name, typ = p[i-1], p[:i-1]
		}
		f.params, f.types = append(f.params, name), append(f.types, strings.Join(typ, " "))
		out[name] = p[0] == "out" || p[0] == "inout"
		l.locals[name] = &local{}
		if slices.Contains(typ, "uint") {
			l.ranges[name] = bounds{0, math.MaxUint32}
		}
	}
	if !l.take("{") {
		l.take(";")
		return nil
	}
	body := l.at
	l.until("}")
	f.body = l.tokens[body:l.at]
	l.functions = append(l.functions, f)
	l.at = body
	if err := l.block(); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	for name, v := range l.locals {
		if v.reads == 0 && !out[name] {
			l.report("nothing reads %s", name)
		}
	}
	return nil
}

func splitTop(tokens []string, sep string) (parts [][]string) {
	depth, start := 0, 0
	for i, t := range tokens {
		switch t {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case sep:
			if depth == 0 {
				parts, start = append(parts, tokens[start:i]), i+1
			}
		}
	}
	return append(parts, tokens[start:])
}

func (l *linter) unusedGlobals() {
	l.where = "top level"
	for _, g := range l.globals {
		if l.mentions[g] < 2 {
			l.report("nothing uses %s", g)
		}
	}
	for _, f := range l.functions {
		if f.name != "main" && l.mentions[f.name] < 2 {
			l.report("nothing calls %s", f.name)
		}
	}
}

// twins reports functions that differ only in names.
func (l *linter) twins() {
	l.where = "top level"
	same := map[string]string{} // functions by the first of their kind
	seen := map[string]string{}
	for _, f := range l.functions {
		names := map[string]string{}
		for i, p := range f.params {
			if p == "" {
				continue
			}
			names[p] = fmt.Sprintf("$%d", i)
		}
		body := make([]string, len(f.body))
		for i, t := range f.body {
			body[i] = t
			if n, ok := names[t]; ok && (i == 0 || f.body[i-1] != ".") {
				body[i] = n
			} else if first, ok := same[t]; ok {
				body[i] = first
			}
		}
		key := strings.Join(f.types, ",") + "{" + strings.Join(body, " ")
		if first, ok := seen[key]; ok && first != f.name {
			l.report("%s and %s are the same", first, f.name)
			same[f.name] = first
			continue
		}
		seen[key] = f.name
	}
}
