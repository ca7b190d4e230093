package chat

import "slices"

// eval implements [expr]: x.name is a method, an attribute or an item.
func (a attribute) eval(r *run, s *scope) value {
	x := a.x.eval(r, s)
	r.step(1)
	if u, ok := x.(undefined); ok {
		fail("%q is not defined, so it has no %q", u.name, a.name)
	}
	if m := method(withoutMarkup(x), a.name); m != nil {
		return m
	}
	return lookup(r, x, text(a.name))
}

// lookup returns the item or the attribute of x with that key, or undefined. It finds no methods.
func lookup(r *run, x value, key str) value {
	switch x := x.(type) {
	case *dict:
		if v, ok := x.get(r, key); ok {
			return v
		}
	case *namespace:
		if v, ok := x.get(r, key); ok {
			return v
		}
	case *loopValue:
		return x.get(key.String())
	case *cycler:
		return x.get(key.String())
	case *list:
		if i := slices.Index(x.names, key.String()); i >= 0 {
			return x.items[i]
		}
	}
	return undefined{key.String()}
}

func (it item) eval(r *run, s *scope) value {
	return at(r, it.x.eval(r, s), it.key.eval(r, s))
}

// at returns x[key], as Python and Jinja do: an item of a map, list or string, or an attribute or method with that
// name.
func at(r *run, x, key value) value {
	r.step(1)
	x, key = withoutMarkup(x), withoutMarkup(key)
	if u, ok := x.(undefined); ok {
		fail("%q is not defined, so it has no items", u.name)
	}
	if s, ok := key.(str); ok {
		v := lookup(r, x, s)
		if _, missing := v.(undefined); missing {
			if m := method(x, s.String()); m != nil {
				return m
			}
		}
		return v
	}
	i, isInt := index(key)
	switch x := x.(type) {
	case *dict:
		if v, ok := x.get(r, key); ok {
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

// eval implements [expr]: x[from:to:step] of a string or list, as Python slices it.
func (sl slice) eval(r *run, s *scope) value {
	x := withoutMarkup(sl.x.eval(r, s))
	step, _ := sl.bound(r, s, sl.step, 1)
	if step == 0 {
		fail("the step of a slice is 0")
	}
	switch x := x.(type) {
	case str:
		out := str{}
		for _, i := range sl.indices(r, s, len(x), step) {
			out = append(out, x[i])
		}
		return out
	case *list:
		if x.kind != generator {
			out := &list{kind: x.kind}
			for _, i := range sl.indices(r, s, len(x.items), step) {
				out.items = append(out.items, x.items[i])
			}
			return out
		}
	}
	fail("a slice of a %s: want a list or a string", describe(x))
	return nil
}

// bound returns the value of a bound or of the step, or missing if there is none. given reports whether there is one.
func (sl slice) bound(r *run, s *scope, e expr, missing int) (n int, given bool) {
	if e == nil {
		return missing, false
	}
	v := e.eval(r, s)
	if v == nil { // None
		return missing, false
	}
	n, ok := index(v)
	if !ok {
		fail("a bound of a slice is a %s: want an integer", describe(v))
	}
	return n, true
}

// indices lists the indices of the slice's elements in a sequence of n elements. A bound below 0 counts from the end. A
// negative step goes from the end to the beginning.
func (sl slice) indices(r *run, s *scope, n, step int) (list []int) {
	clamp := func(e expr, missing int) int {
		i, given := sl.bound(r, s, e, missing)
		if given && i < 0 {
			i += n
		}
		if step > 0 {
			return max(0, min(i, n))
		}
		if !given {
			return i
		}
		return max(-1, min(i, n-1)) // -1 is before the first element
	}
	from, to := clamp(sl.from, 0), clamp(sl.to, n)
	if step < 0 {
		from, to = clamp(sl.from, n-1), clamp(sl.to, -1)
	}
	step = max(-n-1, min(step, n+1)) // so that i does not overflow
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		list = append(list, i)
	}
	r.step(len(list))
	return list
}
