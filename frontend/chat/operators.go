package chat

import (
	"fmt"
	"math"
	"slices"
)

// eval implements [expr]: it computes not, - or + of a value.
func (u unary) eval(r *run, s *scope) value {
	v := u.x.eval(r, s)
	if u.op == "not" {
		return !truth(v)
	}
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		fail("%s of a %s: want a number", u.op, describe(v))
	case u.op == "-" && isInt:
		return -i
	case u.op == "-":
		return -f
	case isInt:
		return i
	}
	return f
}

// describe names a value for an error.
func describe(v value) string {
	if u, ok := v.(undefined); ok {
		return fmt.Sprintf("undefined value, %q", u.name)
	}
	return typeName(v)
}

// eval implements [expr]: it computes an operator of two values. and and or return one of the values, and evaluate the
// second one only if it matters.
func (b binary) eval(r *run, s *scope) value {
	r.step(1)
	x := b.x.eval(r, s)
	switch {
	case b.op == "and" && !truth(x), b.op == "or" && truth(x):
		return x
	}
	y := b.y.eval(r, s)
	switch b.op {
	case "and", "or":
		return y
	case "~":
		return join(r, printed(r, x), printed(r, y))
	}
	return arithmetic(r, b.op, x, y)
}

// join concatenates two strings.
func join(r *run, a, b str) str {
	r.step(len(a) + len(b))
	if len(a)+len(b) > maxOutput {
		fail("a text has more than %d characters", maxOutput)
	}
	return slices.Concat(a, b)
}

// arithmetic computes x op y for an arithmetic operator, with Python's rules for texts, lists, integers and floats.
func arithmetic(r *run, op string, x, y value) value {
	_, html := x.(markup)
	if _, also := y.(markup); (html || also) && op == "+" {
		return markup{join(r, escaped(r, x), escaped(r, y))} // safe text escapes what is added to it
	}
	x, y = withoutMarkup(x), withoutMarkup(y)
	// number * string is string * number.
	if _, times := x.(int); times && op == "*" {
		x, y = y, x
	}
	switch x := x.(type) {
	case str:
		if v, ok := stringOperator(r, op, x, y); ok {
			return v
		}
	case *list:
		if v, ok := listOperator(r, op, x, y); ok {
			return v
		}
	}
	intX, floatX, isIntX, isNumberX := number(x)
	intY, floatY, isIntY, isNumberY := number(y)
	if !isNumberX || !isNumberY {
		fail("a %s %s a %s: want two values of the same type", describe(x), op, describe(y))
	}
	if (op == "/" || op == "//" || op == "%") && floatY == 0 {
		fail("a division by zero")
	}
	// Division, and a power with a negative exponent, give a float.
	if isIntX && isIntY && op != "/" && (op != "**" || intY >= 0) {
		return integers(op, intX, intY)
	}
	return floats(op, floatX, floatY)
}

// stringOperator computes x op y for a string x: x + string, x % values or x * number. ok is false for other operators
// and values.
func stringOperator(r *run, op string, x str, y value) (result value, ok bool) {
	if b, isText := y.(str); isText && op == "+" {
		return join(r, x, b), true
	}
	if op == "%" {
		return format(r, x, y), true
	}
	n, isInt := y.(int)
	if !isInt || op != "*" {
		return nil, false
	}
	n = max(n, 0)
	if len(x) > 0 && n > maxOutput/len(x) {
		fail("a text has more than %d characters", maxOutput)
	}
	r.step(n * len(x))
	return slices.Repeat(x, n), true
}

// listOperator computes x op y for a list or tuple x: x + list or x * number. ok is false for other operators and
// values.
func listOperator(r *run, op string, x *list, y value) (result value, ok bool) {
	if x.kind == generator {
		return nil, false
	}
	if b, isList := y.(*list); isList && op == "+" && x.kind == b.kind {
		if len(x.items)+len(b.items) > maxItems {
			fail("a list has more than %d items", maxItems)
		}
		r.step(len(x.items) + len(b.items))
		return &list{items: slices.Concat(x.items, b.items), kind: x.kind}, true
	}
	n, isInt := y.(int)
	if !isInt || op != "*" {
		return nil, false
	}
	n = max(n, 0)
	if len(x.items) > 0 && n > maxRange/len(x.items) {
		fail("a list has more than %d items", maxRange)
	}
	r.step(n * len(x.items))
	return &list{items: slices.Repeat(x.items, n), kind: x.kind}, true
}

// floats computes f op g. As in Python, the operators "//" and "%" round towards minus infinity.
func floats(op string, f, g float64) float64 {
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "/":
		return f / g
	case "//":
		return math.Floor(f / g)
	case "%":
		product := float64(g * math.Floor(f/g)) // the conversion rounds it, so it is not fused with the difference
		return f - product
	default: // "**"
		return math.Pow(f, g)
	}
}

// integers computes i op j, and fails if the result has an absolute value of 2^62 or more. As in Python, the operators
// "//" and "%" round towards minus infinity. For "**", j must not be negative: the result would not be an integer.
func integers(op string, i, j int) int {
	var n int          // the result; wrong if it overflows
	var approx float64 // the result as a float, which is rounded; its size shows whether n overflows
	switch op {
	case "+":
		n, approx = i+j, float64(i)+float64(j)
	case "-":
		n, approx = i-j, float64(i)-float64(j)
	case "*":
		n, approx = i*j, float64(i)*float64(j)
	case "//", "%":
		q, m := i/j, i%j
		if m != 0 && (m < 0) != (j < 0) {
			q, m = q-1, m+j
		}
		if op == "%" {
			return m
		}
		return q
	default: // **
		n, approx = 1, math.Pow(float64(i), float64(j))
		for square, rest := i, j; rest > 0; rest /= 2 { // square is i, i^2, i^4 and so on
			if rest%2 == 1 {
				n *= square
			}
			square *= square
		}
	}
	if math.Abs(approx) >= 1<<62 {
		fail("%d %s %d is too large", i, op, j)
	}
	return n
}

// eval computes a comparison. In a chain such as a < b < c, all must be true.
func (c comparison) eval(r *run, s *scope) value {
	x := c.x.eval(r, s)
	for i, op := range c.ops {
		y := c.list[i].eval(r, s)
		if !holds(r, op, x, y) {
			return false
		}
		x = y
	}
	return true
}

// holds reports whether a comparison is true.
func holds(r *run, op string, x, y value) bool {
	switch op {
	case "==":
		return equal(r, x, y)
	case "!=":
		return !equal(r, x, y)
	case "in":
		return contains(r, withoutMarkup(y), withoutMarkup(x))
	case "not in":
		return !contains(r, withoutMarkup(y), withoutMarkup(x))
	}
	n := compare(r, x, y)
	if isNaN(x) || isNaN(y) { // NaN is neither less than a number, nor equal to it, nor greater
		return false
	}
	switch op {
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	}
	return n >= 0
}

// isNaN reports whether a value is the number NaN.
func isNaN(v value) bool {
	_, x, _, ok := number(v)
	return ok && math.IsNaN(x)
}

// contains implements Python's operator in.
func contains(r *run, all, v value) bool {
	switch all := all.(type) {
	case str:
		s, ok := v.(str)
		if !ok {
			fail("a %s in a string: want a string", describe(v))
		}
		return find(r, all, s) >= 0
	case *dict:
		wantKey(r, v)
		_, ok := all.get(r, v)
		return ok
	}
	return slices.ContainsFunc(iterate(r, all), func(x value) bool { return equal(r, x, v) })
}

// find returns the index of the first occurrence of sub, or -1.
func find(r *run, s, sub str) int {
	for i := 0; i+len(sub) <= len(s); i++ {
		r.step(0)
		if hasPrefix(r, s[i:], sub) {
			return i
		}
	}
	return -1
}

// hasPrefix reports whether s begins with sub. Marks of the characters do not matter.
func hasPrefix(r *run, s, sub str) bool {
	if len(sub) > len(s) {
		return false
	}
	for i, c := range sub {
		if unmarked(c) != unmarked(s[i]) {
			r.step(i)
			return false
		}
	}
	r.step(len(sub))
	return true
}
