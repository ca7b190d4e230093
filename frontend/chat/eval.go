package chat

import (
	"fmt"
	"math"
	"slices"
)

// failure is why a template cannot be parsed or rendered. It is thrown as a panic
// inside this package, and Parse and Render return it as an error.
type failure struct{ msg string }

func fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

// Bounds of a run. A template that passes one of them does not end, or is not meant
// well.
const (
	maxSteps  = 20_000_000 // expressions evaluated and characters written
	maxOutput = 16 << 20   // characters
	maxRange  = 100_000    // as in Jinja's sandbox
	maxItems  = 1_000_000  // of a list
)

// run is a rendering.
type run struct {
	steps, depth int
	line         int
	out          str
	now          func(format string) string
}

func (r *run) step(n int) {
	if r.steps += n + 1; r.steps > maxSteps {
		fail("the template takes more than %d steps", maxSteps)
	}
}

func (r *run) deeper() {
	if r.depth++; r.depth > maxDepth {
		fail("calls or values nest more than %d deep", maxDepth)
	}
}

func (r *run) higher() { r.depth-- }

func (r *run) print(s str) {
	r.step(len(s))
	if len(r.out)+len(s) > maxOutput {
		fail("the text has more than %d characters", maxOutput)
	}
	r.out = append(r.out, s...)
}

// capture returns what is printed meanwhile.
func (r *run) capture(f func()) str {
	r.deeper()
	defer r.higher()
	before := r.out
	r.out = nil
	f()
	got := r.out
	r.out = before
	return got
}

// scope is the variables of a block, and what it lies in.
type scope struct {
	vars  map[string]value
	outer *scope
}

func (s *scope) inner() *scope { return &scope{outer: s} }

func (s *scope) set(name string, v value) {
	if s.vars == nil {
		s.vars = map[string]value{}
	}
	s.vars[name] = v
}

func (s *scope) get(name string) value {
	for ; s != nil; s = s.outer {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	if f, ok := functions[name]; ok {
		return f
	}
	return undefined{name}
}

// bind gives a value to names.
func (s *scope) bind(r *run, names []string, many bool, v value) {
	if !many {
		s.set(names[0], v)
		return
	}
	items := iterate(r, v)
	if len(items) != len(names) {
		fail("%d values for %d names", len(items), len(names))
	}
	for i, n := range names {
		s.set(n, items[i])
	}
}

// control says that a loop is left or goes on with its next value.
type control uint8

const (
	leave control = iota + 1
	proceed
)

// signal carries a break or continue out of the blocks in a loop.
type signal struct{ control control }

func (b block) exec(r *run, s *scope) {
	for _, st := range b {
		st.exec(r, s)
	}
}

func (p printing) exec(r *run, s *scope) {
	if p.x == nil {
		r.print(p.text)
		return
	}
	r.line = p.line
	r.print(printed(r, p.x.eval(r, s)))
}

func (c condition) exec(r *run, s *scope) {
	r.line = c.line
	if truth(c.cond.eval(r, s)) {
		c.then.exec(r, s)
	} else {
		c.otherwise.exec(r, s)
	}
}

func (j jump) exec(*run, *scope) {
	if j.isBreak {
		panic(signal{leave})
	}
	panic(signal{proceed})
}

func (a assignment) exec(r *run, s *scope) {
	r.line = a.line
	v := a.x.eval(r, s)
	if a.attr != "" {
		s.setAttr(a.targets[0], a.attr, v)
		return
	}
	s.bind(r, a.targets, a.many, v)
}

func (s *scope) setAttr(name, attr string, v value) {
	ns, ok := s.get(name).(*namespace)
	if !ok {
		fail("%q is a %s, whose attributes cannot be set: want a namespace", name, typeName(s.get(name)))
	}
	ns.set(text(attr), v)
}

func (b blockAssignment) exec(r *run, s *scope) {
	r.line = b.line
	v := apply(r, s, b.filters, r.capture(func() { b.body.exec(r, s.inner()) }))
	if b.attr != "" {
		s.setAttr(b.target, b.attr, v)
		return
	}
	s.set(b.target, v)
}

func (f filterBlock) exec(r *run, s *scope) {
	r.line = f.line
	r.print(printed(r, apply(r, s, f.filters, r.capture(func() { f.body.exec(r, s.inner()) }))))
}

func apply(r *run, s *scope, list []filter, v value) value {
	for _, f := range list {
		f.x = constant{v}
		v = f.eval(r, s)
	}
	return v
}

func (w with) exec(r *run, s *scope) {
	r.line = w.line
	inner := s.inner()
	for i, n := range w.names {
		inner.set(n, w.values[i].eval(r, s))
	}
	w.body.exec(r, inner)
}

func (m macro) exec(_ *run, s *scope) { s.set(m.name, m.function(s)) }

// function makes a macro callable. Its body sees the names of where it stands.
func (m macro) function(s *scope) *callable {
	return &callable{m.name, func(r *run, a args) value {
		inner := s.inner()
		if len(a.list) > len(m.params) {
			fail("the macro %q takes %d arguments: %d are given", m.name, len(m.params), len(a.list))
		}
		for i, p := range m.params {
			v, ok := a.take(i, p)
			if !ok {
				v = undefined{p}
				if at := i - (len(m.params) - len(m.defaults)); at >= 0 {
					v = m.defaults[at].eval(r, inner)
				}
			}
			inner.set(p, v)
		}
		for i, n := range a.names {
			if n == "caller" {
				inner.set(n, a.named[i])
			} else if !slices.Contains(m.params, n) {
				fail("the macro %q has no parameter %q", m.name, n)
			}
		}
		return r.capture(func() { m.body.exec(r, inner) })
	}}
}

func (c callBlock) exec(r *run, s *scope) {
	r.line = c.line
	target, ok := c.call.(call)
	if !ok {
		fail("a call block names no call: want {%% call name() %%}")
	}
	target.args.names = append(slices.Clone(target.args.names), "caller")
	target.args.named = append(slices.Clone(target.args.named), constant{c.caller.function(s)})
	r.print(printed(r, target.eval(r, s)))
}

func (l forLoop) exec(r *run, s *scope) {
	r.line = l.line
	l.over1(r, s, l.over.eval(r, s), 0)
}

// over1 goes over one value, at a depth of recursion.
func (l forLoop) over1(r *run, s *scope, over value, depth int) {
	items := iterate(r, over)
	if l.where != nil {
		var kept []value
		for _, v := range items {
			inner := s.inner()
			inner.bind(r, l.targets, l.many, v)
			if truth(l.where.eval(r, inner)) {
				kept = append(kept, v)
			}
		}
		items = kept
	}
	for i, v := range items {
		r.step(10)
		inner := s.inner()
		loop := &loopValue{items: items, i: i, depth: depth}
		if l.recursive {
			loop.again = &callable{"loop", func(r *run, a args) value {
				return r.capture(func() { l.over1(r, s, a.need(0, "iterable"), depth+1) })
			}}
		}
		inner.set("loop", loop)
		inner.bind(r, l.targets, l.many, v)
		if l.body.until(r, inner) == leave {
			break
		}
	}
	if len(items) == 0 {
		l.otherwise.exec(r, s.inner())
	}
}

// until executes a loop's body, up to a break or continue.
func (b block) until(r *run, s *scope) (c control) {
	depth, out := r.depth, r.out
	defer func() {
		if x := recover(); x != nil {
			j, ok := x.(signal)
			if !ok {
				panic(x)
			}
			c = j.control
			if r.depth != depth { // out of a block whose text is captured, which is lost
				r.depth, r.out = depth, out
			}
		}
	}()
	b.exec(r, s)
	return 0
}

// loopValue is what a body calls loop.
type loopValue struct {
	items    []value
	i, depth int
	again    *callable // of a recursive loop
}

func (l *loopValue) get(name string) value {
	n := len(l.items)
	at := func(i int) value {
		if i < 0 || i >= n {
			return undefined{"loop." + name}
		}
		return l.items[i]
	}
	switch name {
	case "index":
		return l.i + 1
	case "index0":
		return l.i
	case "revindex":
		return n - l.i
	case "revindex0":
		return n - l.i - 1
	case "first":
		return l.i == 0
	case "last":
		return l.i == n-1
	case "length":
		return n
	case "depth":
		return l.depth + 1
	case "depth0":
		return l.depth
	case "previtem":
		return at(l.i - 1)
	case "nextitem":
		return at(l.i + 1)
	case "cycle":
		return &callable{"cycle", func(_ *run, a args) value {
			if len(a.list) == 0 {
				fail("loop.cycle has no arguments: want values")
			}
			return a.list[l.i%len(a.list)]
		}}
	}
	return undefined{"loop." + name}
}

// iterate returns what a loop over a value goes over.
func iterate(r *run, v value) []value {
	switch v := bare(v).(type) {
	case *list:
		r.step(len(v.items))
		return v.items
	case *dict:
		r.step(len(v.keys))
		return v.keys
	case str:
		r.step(4 * len(v)) // for the memory that they take
		chars := make([]value, len(v))
		for i := range v {
			chars[i] = v[i : i+1 : i+1]
		}
		return chars
	case undefined:
		return nil
	}
	fail("a %s has no parts to go over: want a list, a mapping or a string", typeName(v))
	return nil
}

func (c constant) eval(r *run, _ *scope) value { return c.v }

func (v variable) eval(r *run, s *scope) value {
	r.step(1)
	return s.get(v.name)
}

func (c conditional) eval(r *run, s *scope) value {
	switch {
	case truth(c.cond.eval(r, s)):
		return c.then.eval(r, s)
	case c.otherwise != nil:
		return c.otherwise.eval(r, s)
	}
	return undefined{"a conditional without else"}
}

func (l listExpr) eval(r *run, s *scope) value {
	r.step(len(l.items))
	v := &list{kind: l.kind}
	for _, x := range l.items {
		v.items = append(v.items, x.eval(r, s))
	}
	return v
}

func (d dictExpr) eval(r *run, s *scope) value {
	r.step(len(d.keys))
	v := newDict()
	for i, k := range d.keys {
		v.set(k.eval(r, s), d.values[i].eval(r, s))
	}
	return v
}

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
		return fmt.Sprintf("value that is not defined, %q", u.name)
	}
	return typeName(v)
}

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

func join(r *run, a, b str) str {
	r.step(len(a) + len(b))
	if len(a)+len(b) > maxOutput {
		fail("a text has more than %d characters", maxOutput)
	}
	return slices.Concat(a, b)
}

func arithmetic(r *run, op string, x, y value) value {
	_, html := x.(markup)
	if _, also := y.(markup); (html || also) && op == "+" {
		return markup{join(r, escaped(r, x), escaped(r, y))}
	}
	x, y = bare(x), bare(y)
	if _, times := x.(int); times && op == "*" {
		x, y = y, x
	}
	switch x := x.(type) {
	case str:
		if b, ok := y.(str); ok && op == "+" {
			return join(r, x, b)
		}
		if op == "%" {
			return format(r, x, y)
		}
		if n, ok := y.(int); ok && op == "*" {
			n = max(n, 0)
			if len(x) > 0 && n > maxOutput/len(x) {
				fail("a text has more than %d characters", maxOutput)
			}
			r.step(n * len(x))
			return slices.Repeat(x, n)
		}
	case *list:
		if b, ok := y.(*list); ok && op == "+" && x.kind == b.kind && x.kind != generator {
			if len(x.items)+len(b.items) > maxItems {
				fail("a list has more than %d items", maxItems)
			}
			r.step(len(x.items) + len(b.items))
			return &list{items: slices.Concat(x.items, b.items), kind: x.kind}
		}
		if n, ok := y.(int); ok && op == "*" && x.kind != generator {
			n = max(n, 0)
			if len(x.items) > 0 && n > maxRange/len(x.items) {
				fail("a list has more than %d items", maxRange)
			}
			r.step(n * len(x.items))
			return &list{items: slices.Repeat(x.items, n), kind: x.kind}
		}
	}
	i, f, int1, ok1 := number(x)
	j, g, int2, ok2 := number(y)
	if !ok1 || !ok2 {
		fail("a %s %s a %s: want two values of one type", describe(x), op, describe(y))
	}
	if (op == "/" || op == "//" || op == "%") && g == 0 {
		fail("a division by zero")
	}
	if int1 && int2 && op != "/" && (op != "**" || j >= 0) {
		return integers(op, i, j)
	}
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
		return f - g*math.Floor(f/g)
	}
	return math.Pow(f, g)
}

func integers(op string, i, j int) int {
	var n int
	exact := 0.0
	switch op {
	case "+":
		n, exact = i+j, float64(i)+float64(j)
	case "-":
		n, exact = i-j, float64(i)-float64(j)
	case "*":
		n, exact = i*j, float64(i)*float64(j)
	case "//", "%":
		q, m := i/j, i%j
		if m != 0 && (m < 0) != (j < 0) {
			q, m = q-1, m+j
		}
		if op == "%" {
			return m
		}
		return q
	default:
		n, exact = 1, math.Pow(float64(i), float64(j))
		if math.Abs(exact) < 1<<62 {
			for range min(j, 64) {
				n *= i
			}
			if i == 1 || i == 0 || i == -1 {
				n = int(exact)
			}
		}
	}
	if math.Abs(exact) >= 1<<62 {
		fail("%d %s %d is too large", i, op, j)
	}
	return n
}

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

func holds(r *run, op string, x, y value) bool {
	switch op {
	case "==":
		return equal(r, x, y)
	case "!=":
		return !equal(r, x, y)
	case "in":
		return contains(r, bare(y), bare(x))
	case "not in":
		return !contains(r, bare(y), bare(x))
	}
	n := compare(r, x, y)
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

// contains is Python's in.
func contains(r *run, all, v value) bool {
	switch all := all.(type) {
	case str:
		s, ok := v.(str)
		if !ok {
			fail("a %s in a string: want a string", describe(v))
		}
		return find(r, all, s) >= 0
	case *dict:
		_, ok := all.get(v)
		return ok
	}
	return slices.ContainsFunc(iterate(r, all), func(x value) bool { return equal(r, x, v) })
}

// find returns where a text begins in another one, or -1.
func find(r *run, s, sub str) int {
	for i := 0; i+len(sub) <= len(s); i++ {
		r.step(0)
		if hasPrefix(r, s[i:], sub) {
			return i
		}
	}
	return -1
}

func hasPrefix(r *run, s, sub str) bool {
	if len(sub) > len(s) {
		return false
	}
	for i, c := range sub {
		if c&^mark != s[i]&^mark {
			r.step(i)
			return false
		}
	}
	r.step(len(sub))
	return true
}

func (a attribute) eval(r *run, s *scope) value {
	x := a.x.eval(r, s)
	r.step(1)
	if u, ok := x.(undefined); ok {
		fail("%q is not defined, so it has no %q", u.name, a.name)
	}
	if m := method(bare(x), a.name); m != nil {
		return m
	}
	return lookup(x, text(a.name))
}

// lookup returns the item of a mapping, or what is not defined.
func lookup(x value, key str) value {
	switch x := x.(type) {
	case *dict:
		if v, ok := x.get(key); ok {
			return v
		}
	case *namespace:
		if v, ok := x.get(key); ok {
			return v
		}
	case *loopValue:
		return x.get(key.String())
	}
	return undefined{key.String()}
}

func (it item) eval(r *run, s *scope) value {
	return at(r, it.x.eval(r, s), it.key.eval(r, s))
}

// at is x[key].
func at(r *run, x, key value) value {
	r.step(1)
	x, key = bare(x), bare(key)
	if u, ok := x.(undefined); ok {
		fail("%q is not defined, so it has no items", u.name)
	}
	if s, ok := key.(str); ok {
		v := lookup(x, s)
		if _, missing := v.(undefined); missing {
			if m := method(x, s.String()); m != nil {
				return m
			}
		}
		return v
	}
	i, isInt := key.(int)
	switch x := x.(type) {
	case *dict:
		if v, ok := x.get(key); ok {
			return v
		}
	case *list:
		if i < 0 {
			i += len(x.items)
		}
		if isInt && x.kind != generator && i >= 0 && i < len(x.items) {
			return x.items[i]
		}
	case str:
		if i < 0 {
			i += len(x)
		}
		if isInt && i >= 0 && i < len(x) {
			return x[i : i+1 : i+1]
		}
	}
	return undefined{"an item"}
}

func (sl slice) eval(r *run, s *scope) value {
	x := bare(sl.x.eval(r, s))
	bound := func(e expr, missing int) (int, bool) {
		if e == nil {
			return missing, false
		}
		switch v := e.eval(r, s).(type) {
		case nil:
			return missing, false
		case int:
			return v, true
		default:
			fail("a bound of a slice is a %s: want an integer", describe(v))
		}
		return 0, false
	}
	step, _ := bound(sl.step, 1)
	if step == 0 {
		fail("the step of a slice is 0")
	}
	indices := func(n int) (list []int) {
		clamp := func(e expr, missing int) int {
			i, given := bound(e, missing)
			if given && i < 0 {
				i += n
			}
			if step > 0 {
				return max(0, min(i, n))
			}
			if !given {
				return i
			}
			return max(-1, min(i, n-1))
		}
		from, to := clamp(sl.from, 0), clamp(sl.to, n)
		if step < 0 {
			from, to = clamp(sl.from, n-1), clamp(sl.to, -1)
		}
		step := max(-n-1, min(step, n+1))
		for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
			list = append(list, i)
		}
		r.step(len(list))
		return list
	}
	switch x := x.(type) {
	case str:
		out := str{}
		for _, i := range indices(len(x)) {
			out = append(out, x[i])
		}
		return out
	case *list:
		if x.kind != generator {
			out := &list{kind: x.kind}
			for _, i := range indices(len(x.items)) {
				out.items = append(out.items, x.items[i])
			}
			return out
		}
	}
	fail("a slice of a %s: want a list or a string", describe(x))
	return nil
}

func (a argExprs) eval(r *run, s *scope) args {
	var v args
	for _, x := range a.list {
		v.list = append(v.list, x.eval(r, s))
	}
	if a.rest != nil {
		v.list = append(v.list, iterate(r, a.rest.eval(r, s))...)
	}
	v.names = a.names
	for _, x := range a.named {
		v.named = append(v.named, x.eval(r, s))
	}
	if a.namer != nil {
		d, ok := a.namer.eval(r, s).(*dict)
		if !ok {
			fail("** of what is no mapping")
		}
		v.names = slices.Clone(v.names)
		for i, k := range d.keys {
			v.names, v.named = append(v.names, printed(r, k).String()), append(v.named, d.values[i])
		}
	}
	return v
}

func (c call) eval(r *run, s *scope) value {
	r.deeper()
	defer r.higher()
	r.step(1)
	f := c.f.eval(r, s)
	if loop, ok := f.(*loopValue); ok && loop.again != nil {
		f = loop.again
	}
	fn, ok := f.(*callable)
	if !ok {
		fail("a %s is called: want a function or a macro", describe(f))
	}
	return fn.call(r, c.args.eval(r, s))
}
