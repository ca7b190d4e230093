package glsl_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A linter for generated GLSL: it parses what the generator writes and reports what
// nobody would write by hand: what a compiler folds, tests whose outcome is known,
// names that nothing reads, two functions that are one.

// lint returns what is wrong with a text, a line each.
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

	where  string            // the function at hand
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

// parse reads the whole text.
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

// until skips to the token, brackets balanced, and returns what was skipped.
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
			// What an address refers to goes by the name that is defined for it.
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

// block reads statements to the closing brace. What is known in it is forgotten after.
func (l *linter) block() error {
	facts, ranges, locals := len(l.facts), cloneMap(l.ranges), cloneMap(l.locals)
	for !l.take("}") {
		if l.at >= len(l.tokens) {
			return fmt.Errorf("a block has no end")
		}
		if err := l.statement(); err != nil {
			return err
		}
	}
	for name, v := range l.locals {
		if locals[name] != v {
			if v.reads == 0 {
				l.report("nothing reads %s", name)
			}
			if outer := locals[name]; outer != nil {
				l.locals[name] = outer
			} else {
				delete(l.locals, name)
			}
		}
	}
	l.facts, l.ranges = l.facts[:facts], ranges
	return nil
}

func cloneMap[V any](m map[string]V) map[string]V {
	out := map[string]V{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

var lintTypes = regexp.MustCompile(
	`^(?:bool|u?int(?:8|16|32|64)?(?:_t)?|float(?:16|64)?(?:_t)?|double|bfloat16_t|[iubd]?vec[234]|[iu](?:8|16|64)vec[234]|f16vec[234]|bf16vec[234]|[iu]?coopmat|coopmat|tensorLayoutNV|tensorViewNV)$`)

func (l *linter) statement() error {
	t := l.peek(0)
	switch {
	case t == "{":
		l.at++
		return l.block()
	case t == ";":
		l.at++
		return nil
	case t == "[[unroll]]" || t == "[[dont_unroll]]":
		l.at++
		return l.statement()
	case t == "for":
		return l.loop()
	case t == "while":
		l.at += 2
		l.condition(l.expression())
		l.at++
		return l.statement()
	case t == "do":
		l.at++
		if err := l.statement(); err != nil {
			return err
		}
		l.at += 2
		l.condition(l.expression())
		l.at += 2
		return nil
	case t == "if":
		return l.branch()
	case t == "return":
		l.at++
		if l.take(";") {
			return nil
		}
		l.expression()
	case t == "break" || t == "continue" || t == "discard":
		l.at++
	case t == "const" || t == "precise" || lintTypes.MatchString(t) && l.peek(1) != "(":
		l.declaration()
	default:
		l.expression()
	}
	if !l.take(";") {
		return fmt.Errorf("cannot read %q at %v", l.peek(0), l.tokens[max(0, l.at-8):min(l.at+8, len(l.tokens))])
	}
	return nil
}

// declaration reads one up to its semicolon.
func (l *linter) declaration() {
	constant := false
	for l.peek(0) == "const" || l.peek(0) == "precise" {
		constant = constant || l.next() == "const"
	}
	typ := l.next()
	if l.take("<") {
		for !l.take(">") {
			if t := l.next(); l.locals[t] != nil {
				l.locals[t].reads++
			}
		}
	}
	for {
		name := l.next()
		array := false
		for l.take("[") {
			array = true
			if !l.take("]") {
				l.expression()
				l.take("]")
			}
		}
		r := unknown
		if typ == "uint" {
			r = bounds{0, math.MaxUint32}
		}
		v := &local{}
		if l.take("=") {
			x := l.assignment()
			if typ == "uint" || typ == "int" {
				r = x.r
			}
			if !constant && x.constant && !l.assignedLater(name) && !array {
				l.report("%s is the constant %s", name, x.s)
			}
		}
		if l.assignedLater(name) {
			r = unknown
			if typ == "uint" {
				r = bounds{0, math.MaxUint32}
			}
		}
		if old := l.locals[name]; old != nil && old.reads == 0 {
			l.report("nothing reads %s", name)
		}
		l.locals[name], l.ranges[name] = v, r
		if !l.take(",") {
			return
		}
	}
}

// assignedLater reports whether the rest of the function changes a variable.
func (l *linter) assignedLater(name string) bool {
	depth := 0
	for i := l.at; i < len(l.tokens) && depth >= 0; i++ {
		switch t := l.tokens[i]; t {
		case "{":
			depth++
		case "}":
			depth--
		case name:
			if i > 0 && l.tokens[i-1] == "." {
				continue
			}
			j := i + 1
			for j < len(l.tokens) && (l.tokens[j] == "[" || l.tokens[j] == ".") {
				if l.tokens[j] == "." {
					j += 2
					continue
				}
				for d := 0; j < len(l.tokens); j++ {
					if l.tokens[j] == "[" {
						d++
					} else if l.tokens[j] == "]" {
						if d--; d == 0 {
							j++
							break
						}
					}
				}
			}
			if j < len(l.tokens) && assignment[l.tokens[j]] || l.tokens[j] == "++" || l.tokens[j] == "--" ||
				l.tokens[i-1] == "++" || l.tokens[i-1] == "--" {
				return true
			}
			// An argument may be for output.
			if prev := l.tokens[i-1]; (prev == "," || prev == "(") && (l.tokens[j] == "," || l.tokens[j] == ")") &&
				l.outCall(i) {
				return true
			}
		}
	}
	return false
}

// outCall reports whether the argument at token i is one of a function that writes
// its arguments.
func (l *linter) outCall(i int) bool {
	depth, place := 0, 0
	for i--; i > 0; i-- {
		switch l.tokens[i] {
		case ")", "]":
			depth++
		case "[":
			depth--
		case ",":
			if depth == 0 {
				place++
			}
		case "(":
			if depth == 0 {
				return l.writes(l.tokens[i-1], place)
			}
			depth--
		case ";", "{", "}":
			return false
		}
	}
	return false
}

// writes reports whether a function writes its argument at a place.
func (l *linter) writes(name string, place int) bool {
	switch name {
	case "umulExtended", "imulExtended":
		return place >= 2
	case "uaddCarry", "usubBorrow":
		return place == 2
	case "frexp", "modf":
		return place == 1
	case "coopMatLoad", "coopMatLoadTensorNV":
		return place == 0
	case "coopMatPerElementNV", "coopMatReduceNV", "coopMatTransposeNV":
		return place == 0
	}
	for _, f := range l.functions {
		if f.name == name && place < len(f.types) &&
			(strings.HasPrefix(f.types[place], "out ") || strings.HasPrefix(f.types[place], "inout ")) {
			return true
		}
	}
	return false
}

var assignment = map[string]bool{"=": true, "+=": true, "-=": true, "*=": true, "/=": true, "%=": true, "&=": true,
	"|=": true, "^=": true, "<<=": true, ">>=": true}

func (l *linter) loop() error {
	l.at += 2 // for (
	facts, ranges, locals := len(l.facts), cloneMap(l.ranges), cloneMap(l.locals)
	name := ""
	if !l.take(";") {
		if lintTypes.MatchString(l.peek(0)) {
			name = l.peek(1)
			start := l.at
			l.declaration()
			// Its first value, as a lower bound where it only grows.
			end := l.at
			l.at = start + 3
			first := l.silently(l.assignment)
			l.at = end
			l.ranges[name] = bounds{first.r.lo, math.MaxUint32}
			if first.r.lo < 0 || math.IsInf(first.r.lo, 0) {
				l.ranges[name] = unknown
			}
			l.take(";")
			// A loop that counts down has the first value at most.
			i := l.at
			cond := l.until(";")
			l.at++
			step := l.until(")")
			l.at = i
			down := slices.Contains(step, ">>=") || slices.Contains(step, "-=") || slices.Contains(step, "--") ||
				slices.Contains(step, "/=")
			if down {
				l.ranges[name] = bounds{0, first.r.hi}
			} else if slices.Contains(step, "=") {
				l.ranges[name] = unknown
			}
			if len(cond) > 2 && cond[0] == name && cond[1] == "<" && !down {
				l.at += 2
				limit := l.silently(func() expr { return l.binary(lintPrec["<"] + 1) })
				l.at = i
				r := l.ranges[name]
				if r.known() && first.r.lo == first.r.hi && limit.r.hi <= first.r.lo {
					l.report("the loop over %s never runs", name)
				}
				if first.constant && limit.constant && slices.Equal(step, []string{"++", name}) &&
					limit.r.lo == first.r.lo+1 {
					l.report("the loop over %s runs once", name)
				}
				l.expression()
				l.take(";")
				if r.known() && !math.IsInf(limit.r.hi, 0) {
					l.ranges[name] = bounds{r.lo, min(r.hi, max(r.lo, limit.r.hi-1))}
				}
				l.facts = append(l.facts, strings.Join(cond, " "))
			} else {
				l.until(";")
				l.at = i
				l.expression()
				l.take(";")
			}
		} else {
			l.expression()
			l.take(";")
			l.expression()
			l.take(";")
		}
	} else {
		l.expression()
		l.take(";")
	}
	if !l.take(")") {
		reads := l.locals[name]
		before := 0
		if reads != nil {
			before = reads.reads
		}
		l.expression()
		if reads != nil {
			reads.reads = before
		}
		l.take(")")
	}
	if err := l.statement(); err != nil {
		return err
	}
	if v := l.locals[name]; v != nil && locals[name] != v {
		if outer := locals[name]; outer != nil {
			l.locals[name] = outer
		} else {
			delete(l.locals, name)
		}
	}
	l.facts, l.ranges = l.facts[:facts], ranges
	return nil
}

// silently evaluates without counting or reporting.
func (l *linter) silently(f func() expr) expr {
	problems, reads := len(l.problems), map[*local]int{}
	for _, v := range l.locals {
		reads[v] = v.reads
	}
	x := f()
	l.problems = l.problems[:problems]
	for v, n := range reads {
		v.reads = n
	}
	return x
}

func (l *linter) branch() error {
	l.at += 2 // if (
	cond := l.expression()
	l.condition(cond)
	l.take(")")
	facts := len(l.facts)
	l.facts = append(l.facts, conjuncts(cond.s)...)
	start := l.at
	if err := l.statement(); err != nil {
		return err
	}
	leaves := slices.Contains([]string{"return", "continue", "break"}, l.tokens[start]) ||
		l.tokens[start] == "{" && slices.Contains([]string{"return", "continue", "break"}, l.tokens[start+1])
	l.facts = l.facts[:facts]
	if l.take("else") {
		return l.statement()
	}
	if leaves {
		for _, c := range strings.Split(cond.s, " || ") {
			if n := negated(c); n != "" {
				l.facts = append(l.facts, n)
			}
		}
	}
	return nil
}

func conjuncts(s string) []string {
	if strings.Contains(s, "||") || strings.Contains(s, "?") {
		return []string{s}
	}
	return strings.Split(s, " && ")
}

// negated returns the opposite of a comparison.
func negated(s string) string {
	for _, p := range [][2]string{{" >= ", " < "}, {" < ", " >= "}, {" == ", " != "}} {
		if a, b, ok := strings.Cut(s, p[0]); ok && strings.Count(s, p[0]) == 1 && !strings.Contains(s, "&&") {
			return a + p[1] + b
		}
	}
	return ""
}

// condition reports a test whose outcome is known.
func (l *linter) condition(x expr) {
	for _, c := range conjuncts(x.s) {
		if slices.Contains(l.facts, c) {
			l.report("%s is known to hold", c)
		}
	}
}

// expr is what the linter knows of an expression.
type expr struct {
	s        string // its tokens
	constant bool   // a literal or made of literals alone
	float    bool
	r        bounds
}

func (l *linter) expression() expr {
	x := l.assignment()
	for l.take(",") {
		x = l.assignment()
	}
	return x
}

func (l *linter) assignment() expr {
	start := l.at
	reads := map[*local]int{}
	var target *local
	if v := l.locals[l.peek(0)]; v != nil {
		target = v
		reads[v] = v.reads
	}
	x := l.ternary()
	op := l.peek(0)
	if !assignment[op] {
		return x
	}
	l.at++
	if target != nil {
		target.reads = reads[target] // being written is not being read
		if l.tokens[start+1] == "[" {
			// What its index mentions was read all the same.
			for _, t := range l.tokens[start+1 : l.at-1] {
				if l.locals[t] == target {
					target.reads++
				}
			}
		}
	}
	y := l.assignment()
	if y.constant && l.neutral(strings.TrimSuffix(op, "="), y, true) {
		l.report("%s %s %s does nothing", x.s, op, y.s)
	}
	return expr{s: x.s + " " + op + " " + y.s, r: unknown}
}

func (l *linter) ternary() expr {
	c := l.binary(1)
	if !l.take("?") {
		return c
	}
	l.condition(c)
	if c.constant {
		l.report("%s is constant", c.s)
	}
	a := l.assignment()
	if !l.take(":") {
		return c
	}
	b := l.assignment()
	if a.s == b.s {
		l.report("both sides of %s ? : are %s", c.s, a.s)
	}
	return expr{s: c.s + " ? " + a.s + " : " + b.s, float: a.float, r: bounds{min(a.r.lo, b.r.lo), max(a.r.hi, b.r.hi)}}
}

var lintPrec = map[string]int{"||": 1, "^^": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, ">": 8,
	"<=": 8, ">=": 8,
	"<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "%": 11}

func (l *linter) binary(least int) expr {
	a := l.unary()
	for {
		op := l.peek(0)
		p := lintPrec[op]
		if p == 0 || p < least {
			return a
		}
		l.at++
		b := l.binary(p + 1)
		a = l.join(op, a, b)
	}
}

// smallest is how GLSL spells the smallest int, which has no literal.
var smallest = regexp.MustCompile(`^- ?(2147483647|0x7fffffff|9223372036854775807L|0x7fffffffffffffffL) - 1L?$`)

// join checks an operation.
func (l *linter) join(op string, a, b expr) expr {
	x := expr{s: a.s + " " + op + " " + b.s, constant: a.constant && b.constant, float: a.float || b.float, r: unknown}
	switch {
	case x.constant && smallest.MatchString(x.s):
	case x.constant:
		l.report("%s is constant", x.s)
	case l.neutral(op, b, true) || l.neutral(op, a, false):
		l.report("%s does nothing", x.s)
	case a.constant && isZero(a) && !a.float && slices.Contains([]string{"*", "/", "%", "&", "<<", ">>"}, op),
		b.constant && isZero(b) && !b.float && slices.Contains([]string{"*", "&"}, op),
		b.constant && !b.float && op == "%" && b.r.lo == 1:
		l.report("%s is 0", x.s)
	case b.constant && lastConstant(a.s, op) != "" && slices.Contains([]string{"+", "*", "/"}, op) && !x.float:
		l.report("%s has two constants", x.s)
	}
	x.r = combine(op, a.r, b.r)
	if lintPrec[op] == 8 || lintPrec[op] == 7 {
		l.compare(op, a, b)
	}
	return x
}

// lastConstant returns the number that a text ends in after the operator, as in a * 2.
func lastConstant(s, op string) string {
	f := strings.Fields(s)
	if len(f) >= 3 && f[len(f)-2] == op && isLiteral(f[len(f)-1]) && f[len(f)-3] != "(" {
		return f[len(f)-1]
	}
	return ""
}

func isLiteral(t string) bool { return t != "" && t[0] >= '0' && t[0] <= '9' }

func isZero(x expr) bool { return x.r.lo == 0 && x.r.hi == 0 }

// neutral reports whether an operand leaves the other as it is.
func (l *linter) neutral(op string, x expr, right bool) bool {
	if !x.constant || x.r.lo != x.r.hi {
		return false
	}
	switch v := x.r.lo; op {
	case "+":
		return v == 0 && !x.float // adding 0.0 changes -0.0
	case "|", "^":
		return v == 0
	case "-", "<<", ">>":
		return v == 0 && right && !x.float
	case "*":
		return v == 1
	case "/":
		return v == 1 && right
	}
	return false
}

func combine(op string, a, b bounds) bounds {
	whole := func(lo, hi float64) bounds {
		if math.IsNaN(lo) || math.IsNaN(hi) || lo < 0 || hi > math.MaxUint32 {
			return unknown
		}
		return bounds{lo, hi}
	}
	nonneg := a.lo >= 0 && b.lo >= 0
	switch {
	case op == "%" && b.lo > 0 && a.lo >= 0:
		return bounds{0, min(a.hi, b.hi-1)}
	case op == "/" && nonneg && b.lo > 0:
		return whole(math.Floor(a.lo/b.hi), math.Floor(a.hi/b.lo))
	case op == "&" && a.lo >= 0 && b.lo >= 0:
		return bounds{0, min(a.hi, b.hi)}
	case op == "&" && b.lo >= 0:
		return bounds{0, b.hi}
	case op == "+" && nonneg:
		return whole(a.lo+b.lo, a.hi+b.hi)
	case op == "-" && nonneg:
		return whole(a.lo-b.hi, a.hi-b.lo)
	case op == "*" && nonneg:
		return whole(a.lo*b.lo, a.hi*b.hi)
	case op == ">>" && nonneg && b.lo == b.hi:
		return whole(math.Floor(a.lo/math.Exp2(b.lo)), math.Floor(a.hi/math.Exp2(b.lo)))
	case op == ">>" && nonneg:
		return whole(0, a.hi)
	case op == "|" && nonneg:
		return whole(max(a.lo, b.lo), a.hi+b.hi)
	}
	return unknown
}

// compare reports a comparison whose outcome ranges prove.
func (l *linter) compare(op string, a, b expr) {
	if a.float || b.float {
		return
	}
	proven := false
	switch op {
	case "<":
		proven = a.r.hi < b.r.lo || a.r.lo >= b.r.hi
	case "<=":
		proven = a.r.hi <= b.r.lo || a.r.lo > b.r.hi
	case ">":
		proven = a.r.lo > b.r.hi || a.r.hi <= b.r.lo
	case ">=":
		proven = a.r.lo >= b.r.hi || a.r.hi < b.r.lo
	case "==", "!=":
		proven = a.r.hi < b.r.lo || a.r.lo > b.r.hi || a.r.known() && a.r == b.r && a.r.lo == a.r.hi
	}
	if proven {
		l.report("the outcome of %s %s %s is known", a.s, op, b.s)
	}
}

func (l *linter) unary() expr {
	switch op := l.peek(0); op {
	case "-", "!", "~", "+":
		l.at++
		x := l.unary()
		x.s = op + " " + x.s
		if op == "-" && x.constant {
			x.r = bounds{-x.r.hi, -x.r.lo}
		} else {
			x.r = unknown
		}
		if op != "-" && x.constant {
			l.report("%s is constant", x.s)
		}
		return x
	case "++", "--":
		l.at++
		x := l.unary()
		return expr{s: op + " " + x.s, r: unknown}
	}
	return l.postfix()
}

func number(t string) float64 {
	if strings.HasPrefix(t, "0x") {
		n, _ := strconv.ParseUint(strings.TrimRight(t[2:], "uUlL"), 16, 64)
		return float64(n)
	}
	t = strings.TrimRight(t, "uUlLf")
	v, _ := strconv.ParseFloat(strings.TrimSuffix(t, "h"), 64)
	return v
}

// foldable are the conversions that a number could be written in the type of.
var foldable = map[string]bool{"float": true, "int": true, "uint": true, "int64_t": true, "double": true, "bool": true}

func (l *linter) postfix() expr {
	t := l.next()
	var x expr
	switch {
	case t == "(":
		x = l.expression()
		l.take(")")
		x.s = "( " + x.s + " )"
	case isLiteral(t) || t == "true" || t == "false":
		x = expr{s: t, constant: true, float: strings.Contains(t, ".") || strings.Contains(t, "e") &&
			!strings.HasPrefix(t, "0x")}
		v := number(t)
		x.r = bounds{v, v}
	default:
		x = expr{s: t, r: unknown}
		if lintTypes.MatchString(t) && l.take("<") { // a matrix type
			for !l.take(">") {
				l.at++
			}
		}
		if v := l.locals[t]; v != nil {
			v.reads++
			if r, ok := l.ranges[t]; ok {
				x.r = r
			}
		}
		switch t {
		case "gl_LocalInvocationIndex":
			x.r = bounds{0, l.workgroup - 1}
		case "gl_SubgroupInvocationID", "gl_SubgroupID":
			x.r = bounds{0, l.workgroup - 1}
		}
	}
	for {
		switch l.peek(0) {
		case "(":
			x = l.call(t)
		case "[":
			l.at++
			if l.take("]") {
				x.s += " [ ]"
				continue
			}
			i := l.expression()
			l.take("]")
			x = expr{s: x.s + " [ " + i.s + " ]", r: unknown}
		case ".":
			l.at++
			field := l.next()
			x = expr{s: x.s + " . " + field, r: unknown}
			if l.peek(0) == "(" { // length()
				continue
			}
			if x.s == "gl_LocalInvocationID . x" {
				x.r = bounds{0, l.workgroup - 1}
			}
			if strings.HasPrefix(x.s, "gl_") {
				x.r = bounds{max(0, x.r.lo), min(math.MaxUint32, x.r.hi)}
			}
		case "++", "--":
			x = expr{s: x.s + " " + l.next(), r: unknown}
		default:
			return x
		}
	}
}

func (l *linter) call(name string) expr {
	l.at++
	var args []expr
	start := l.at
	for !l.take(")") {
		if l.at >= len(l.tokens) {
			return expr{r: unknown}
		}
		v := l.locals[l.peek(0)]
		if v != nil && l.writes(name, len(args)) && (l.peek(1) == "," || l.peek(1) == ")") {
			switch name {
			case "umulExtended", "uaddCarry", "coopMatPerElementNV":
				v.reads++ // there is no form of it without a place for its result
			}
			args = append(args, expr{s: l.next(), r: unknown})
		} else {
			args = append(args, l.assignment())
		}
		l.take(",")
	}
	x := expr{s: name + " ( " + strings.Join(l.tokens[start:l.at], " "), r: unknown}
	if len(args) == 1 {
		a := args[0]
		if foldable[name] && a.constant && !smallest.MatchString(a.s) {
			l.report("%s is constant", x.s)
		}
		if (name == "uint" || name == "int" || name == "int64_t") && !a.float {
			x.r = a.r
			if name == "uint" && a.r.lo < 0 {
				x.r = bounds{0, math.MaxUint32}
			}
			if strings.HasPrefix(a.s, name+" (") && closes(a.s) {
				l.report("%s converts twice", x.s)
			}
		}
	}
	switch {
	case name == "min" && len(args) == 2 && !args[0].float:
		for i := range args {
			a, b := args[i], args[1-i]
			if a.r.hi <= b.r.lo {
				l.report("%s is %s", x.s, a.s)
			}
			if slices.Contains(l.facts, a.s+" < "+strings.TrimSuffix(b.s, " - 1u")) && strings.HasSuffix(b.s, " - 1u") {
				l.report("%s is %s, as was checked", x.s, a.s)
			}
			if b.constant && slices.Contains(l.facts, fmt.Sprintf("%s < %.0fu", a.s, b.r.hi+1)) {
				l.report("%s is %s, as was checked", x.s, a.s)
			}
		}
		x.r = bounds{min(args[0].r.lo, args[1].r.lo), min(args[0].r.hi, args[1].r.hi)}
	case name == "max" && len(args) == 2 && !args[0].float:
		for i := range args {
			if args[i].r.lo >= args[1-i].r.hi {
				l.report("%s is %s", x.s, args[i].s)
			}
		}
		x.r = bounds{max(args[0].r.lo, args[1].r.lo), max(args[0].r.hi, args[1].r.hi)}
	case name == "clamp" && len(args) == 3 && !args[1].float && args[1].constant:
		if args[0].r.lo >= args[1].r.lo && args[0].r.hi <= args[2].r.hi {
			l.report("%s changes nothing", x.s)
		}
		x.r = bounds{args[1].r.lo, args[2].r.hi}
	}
	return x
}

// closes reports whether the bracket that a text opens first is the one it ends in.
func closes(s string) bool {
	depth := 0
	f := strings.Fields(s)
	for i, t := range f {
		if t == "(" {
			depth++
		}
		if t == ")" {
			if depth--; depth == 0 {
				return i == len(f)-1
			}
		}
	}
	return false
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

// twins reports functions that differ in names alone.
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
