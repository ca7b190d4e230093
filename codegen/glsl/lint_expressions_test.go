package glsl_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The linter's knowledge of expressions: their bounds, and the constants that a compiler folds.

// expr is the linter's knowledge of an expression.
type expr struct {
	s        string // its tokens
	constant bool   // a literal, or an expression of literals only
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
		target.reads = reads[target] // a write is not a read
		if l.tokens[start+1] == "[" {
			// The names in its index are read all the same.
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

// smallest matches the smallest int, which has no literal.
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

// lastConstant returns the number at the end of an expression, after the operator, as in a * 2.
func lastConstant(s, op string) string {
	f := strings.Fields(s)
	if len(f) >= 3 && f[len(f)-2] == op && isLiteral(f[len(f)-1]) && f[len(f)-3] != "(" {
		return f[len(f)-1]
	}
	return ""
}

func isLiteral(t string) bool { return t != "" && t[0] >= '0' && t[0] <= '9' }

func isZero(x expr) bool { return x.r.lo == 0 && x.r.hi == 0 }

// neutral reports whether an operand leaves the other operand unchanged.
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

// compare reports a comparison if ranges prove its outcome.
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

// foldable are the conversions that a literal could replace.
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
				v.reads++ // the function needs a variable for its result
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

// closes reports whether the first opening bracket of s is closed by its last one.
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
