package chat

import "slices"

// control says how a loop's body ended: breakLoop, continueLoop, or 0 for its normal end.
type control uint8

const (
	breakLoop control = iota + 1
	continueLoop
)

// signal is the panic that carries a break or continue from inside a loop's body to the loop.
type signal struct{ control control }

func (b block) exec(r *run, s *scope) {
	for _, st := range b {
		st.exec(r, s)
	}
}

// exec implements [stmt]: it prints text, or the value of an expression.
func (p printing) exec(r *run, s *scope) {
	if p.x == nil {
		r.print(p.text)
		return
	}
	r.line = p.line
	r.print(printed(r, p.x.eval(r, s)))
}

// exec implements [stmt]: it executes one of the branches.
func (c condition) exec(r *run, s *scope) {
	r.line = c.line
	if truth(c.cond.eval(r, s)) {
		c.then.exec(r, s)
	} else {
		c.otherwise.exec(r, s)
	}
}

// exec panics with a signal, which the loop around the statement recovers.
func (j jump) exec(*run, *scope) {
	if j.isBreak {
		panic(signal{breakLoop})
	}
	panic(signal{continueLoop})
}

// exec implements [stmt]: it assigns a value to names, or to an attribute of a namespace.
func (a assignment) exec(r *run, s *scope) {
	r.line = a.line
	v := a.x.eval(r, s)
	if a.attr != "" {
		s.setAttr(r, a.targets[0], a.attr, v)
		return
	}
	s.bind(r, a.targets, a.unpack, v)
}

// setAttr sets an attribute of a namespace, the only value with attributes that can be set.
func (s *scope) setAttr(r *run, name, attr string, v value) {
	ns, ok := s.get(name).(*namespace)
	if !ok {
		fail("%q is a %s, whose attributes cannot be set: want a namespace", name, typeName(s.get(name)))
	}
	ns.set(r, text(attr), v)
}

// exec implements [stmt]: it assigns the output of the block, after filters.
func (b blockAssignment) exec(r *run, s *scope) {
	r.line = b.line
	v := apply(r, s, b.filters, r.capture(func() { b.body.exec(r, s.inner()) }))
	if b.attr != "" {
		s.setAttr(r, b.target, b.attr, v)
		return
	}
	s.set(b.target, v)
}

func (f filterBlock) exec(r *run, s *scope) {
	r.line = f.line
	r.print(printed(r, apply(r, s, f.filters, r.capture(func() { f.body.exec(r, s.inner()) }))))
}

// apply applies filters to a value, one after the other.
func apply(r *run, s *scope, list []filter, v value) value {
	for _, f := range list {
		f.x = constant{v}
		v = f.eval(r, s)
	}
	return v
}

// exec implements [stmt]: it executes the body in a scope with more variables.
func (w with) exec(r *run, s *scope) {
	r.line = w.line
	inner := s.inner()
	for i, n := range w.names {
		inner.set(n, w.values[i].eval(r, s))
	}
	w.body.exec(r, inner)
}

func (m macro) exec(_ *run, s *scope) { s.set(m.name, m.function(s)) }

// function returns the macro as a function. Its body sees the scope s in which the macro was defined.
func (m macro) function(s *scope) *callable {
	return &callable{m.name, func(r *run, a args) value {
		inner := s.inner()
		if len(a.list) > len(m.params) {
			fail("the macro %q takes %d arguments, and the call has %d", m.name, len(m.params), len(a.list))
		}
		for i, p := range m.params {
			v, ok := a.take(i, p)
			if !ok {
				v = undefined{p}
				// Defaults belong to the last parameters.
				if at := i - (len(m.params) - len(m.defaults)); at >= 0 {
					v = m.defaults[at].eval(r, inner)
				}
			}
			inner.set(p, v)
		}
		for i, n := range a.names {
			if n == "caller" { // the body of a call block, which no parameter names
				inner.set(n, a.named[i])
			} else if !slices.Contains(m.params, n) {
				fail("the macro %q has no parameter %q", m.name, n)
			}
		}
		return r.capture(func() { m.body.exec(r, inner) })
	}}
}

// exec implements [stmt]: it calls a macro, which can call the block's body by the name caller.
func (c callBlock) exec(r *run, s *scope) {
	r.line = c.line
	target, ok := c.call.(call)
	if !ok {
		fail("a call block without a call: want {%% call name() %%}")
	}
	target.args.names = append(slices.Clone(target.args.names), "caller")
	target.args.named = append(slices.Clone(target.args.named), constant{c.caller.function(s)})
	r.print(printed(r, target.eval(r, s)))
}

func (l forLoop) exec(r *run, s *scope) {
	r.line = l.line
	l.loopOver(r, s, l.over.eval(r, s), 0)
}

// loopOver runs the loop over the items of a value that the condition of the loop selects, or the part after else if
// there are none. depth is the depth of a recursive loop.
func (l forLoop) loopOver(r *run, s *scope, over value, depth int) {
	items := iterate(r, over)
	if l.where != nil {
		var kept []value
		for _, v := range items {
			inner := s.inner()
			inner.bind(r, l.targets, l.unpack, v)
			if truth(l.where.eval(r, inner)) {
				kept = append(kept, v)
			}
		}
		items = kept
	}
	for i, v := range items {
		r.step(10) // about the cost of a scope and of loopValue
		inner := s.inner()
		loop := &loopValue{items: items, i: i, depth: depth}
		if l.recursive {
			// A call of loop(list) in the body runs the loop over that list, and returns its text.
			loop.again = &callable{"loop", func(r *run, a args) value {
				return r.capture(func() { l.loopOver(r, s, a.need(0, "iterable"), depth+1) })
			}}
		}
		inner.set("loop", loop)
		inner.bind(r, l.targets, l.unpack, v)
		if l.body.execBody(r, inner) == breakLoop {
			break
		}
	}
	if len(items) == 0 {
		l.otherwise.exec(r, s.inner())
	}
}

// execBody executes a loop's body to its end, or to a break or continue, and says which.
func (b block) execBody(r *run, s *scope) (c control) {
	depth, out := r.depth, r.out
	defer func() {
		if x := recover(); x != nil {
			j, ok := x.(signal)
			if !ok {
				panic(x)
			}
			c = j.control
			if r.depth != depth { // the jump left a block with captured text, which is lost
				r.depth, r.out = depth, out
			}
		}
	}()
	b.exec(r, s)
	return 0
}

// loopValue is the value of the variable loop inside a loop.
type loopValue struct {
	items    []value
	i, depth int
	again    *callable // loop(x) of a recursive loop, or nil
}

// get returns an attribute, such as loop.index.
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

// iterate returns the items that a loop over v visits.
func iterate(r *run, v value) []value {
	switch v := withoutMarkup(v).(type) {
	case *list:
		r.step(len(v.items))
		return v.items
	case *dict:
		r.step(len(v.keys))
		return v.keys
	case str:
		r.step(4 * len(v)) // for the memory of the characters
		chars := make([]value, len(v))
		for i := range v {
			chars[i] = v[i : i+1 : i+1]
		}
		return chars
	case undefined:
		return nil
	}
	fail("cannot iterate over a %s: want a list, a mapping or a string", typeName(v))
	return nil
}
