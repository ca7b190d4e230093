package chat

import "slices"

func (c constant) eval(r *run, _ *scope) value { return c.v }

func (v variable) eval(r *run, s *scope) value {
	r.step(1)
	return s.get(v.name)
}

// eval implements [expr]: x if cond else y. Without else it may be undefined.
func (c conditional) eval(r *run, s *scope) value {
	switch {
	case truth(c.cond.eval(r, s)):
		return c.then.eval(r, s)
	case c.otherwise != nil:
		return c.otherwise.eval(r, s)
	}
	return undefined{"a conditional without else"}
}

// eval implements [expr]: a list or tuple of the items' values.
func (l listExpr) eval(r *run, s *scope) value {
	r.step(len(l.items))
	v := &list{kind: l.kind}
	for _, x := range l.items {
		v.items = append(v.items, x.eval(r, s))
	}
	return v
}

// eval implements [expr]: a mapping of the values of keys and items.
func (d dictExpr) eval(r *run, s *scope) value {
	r.step(len(d.keys))
	v := newDict()
	for i, k := range d.keys {
		v.set(r, k.eval(r, s), d.values[i].eval(r, s))
	}
	return v
}

// eval evaluates the arguments of a call. The items of *list become further arguments, and the items of **mapping
// become further arguments with names.
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
			fail("** needs a mapping")
		}
		v.names = slices.Clone(v.names)
		for i, k := range d.keys {
			v.names, v.named = append(v.names, printed(r, k).String()), append(v.named, d.values[i])
		}
	}
	return v
}

// eval implements [expr]: it calls a function, method or macro.
func (c call) eval(r *run, s *scope) value {
	r.beginLevel()
	defer r.endLevel()
	r.step(1)
	f := c.f.eval(r, s)
	// A call of loop runs the recursive loop again for its argument.
	if loop, ok := f.(*loopValue); ok && loop.again != nil {
		f = loop.again
	}
	fn, ok := f.(*callable)
	if !ok {
		fail("a %s cannot be called: want a function or a macro", describe(f))
	}
	return fn.call(r, c.args.eval(r, s))
}
