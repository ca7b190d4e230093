package glsl_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// The linter's knowledge of statements: the branches that are taken, the values of variables, and their reads.

// block reads statements to the closing brace, and then forgets the facts of the block.
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

// declaration reads a declaration up to its semicolon.
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

// outCall reports whether the argument at token i belongs to a function that writes its arguments.
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

// writes reports whether a function writes its argument number place.
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
			// Its first value is a lower bound if it only grows.
			end := l.at
			l.at = start + 3
			first := l.silently(l.assignment)
			l.at = end
			l.ranges[name] = bounds{first.r.lo, math.MaxUint32}
			if first.r.lo < 0 || math.IsInf(first.r.lo, 0) {
				l.ranges[name] = unknown
			}
			l.take(";")
			// The variable of a loop that counts down is at most its first value.
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

// condition reports a test with a known outcome.
func (l *linter) condition(x expr) {
	for _, c := range conjuncts(x.s) {
		if slices.Contains(l.facts, c) {
			l.report("%s is known to hold", c)
		}
	}
}
