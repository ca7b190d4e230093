package chat

import (
	"math"
	"slices"
	"strings"
)

// value is the value of an expression: nil for None, bool, int, float64, str, markup, *list, *dict, *namespace,
// *callable or undefined.
type value any

// str is a text of Unicode characters. A character from the context carries a mark, so that after any operation users'
// text can be distinguished from the template's.
type str []rune

// mark is the bit of a character of the context's.
const mark rune = 1 << 30

func text(s string) str { return str(s) }

// markup is text that the filter safe marked as HTML. As in Python, text appended to it becomes HTML too.
type markup struct{ str }

// bare returns a value without being called HTML.
func bare(v value) value {
	if m, ok := v.(markup); ok {
		return m.str
	}
	return v
}

// marked returns a text of the context.
func marked(s string) str {
	t := str(s)
	for i := range t {
		t[i] |= mark
	}
	return t
}

func (s str) String() string {
	var b strings.Builder
	for _, c := range s {
		b.WriteRune(c &^ mark)
	}
	return b.String()
}

// pieces splits a text at changes of the mark.
func (s str) pieces() (list []Piece) {
	for len(s) > 0 {
		user := s[0]&mark != 0
		n := slices.IndexFunc(s, func(c rune) bool { return c&mark != 0 != user })
		if n < 0 {
			n = len(s)
		}
		list = append(list, Piece{s[:n].String(), user})
		s = s[n:]
	}
	return list
}

// undefined is the value of an undefined name.
type undefined struct{ name string }

// list is a list, a tuple, or the result of a filter that is lazy in Python.
type list struct {
	items []value
	kind  listKind
	names []string // of the items, for a named tuple
}

type listKind uint8

const (
	plain listKind = iota
	tuple
	generator // has no length and is no JSON
)

// dict maps keys to values in the order they came in.
type dict struct {
	keys, values []value
	index        map[any]int
}

func newDict() *dict { return &dict{index: map[any]int{}} }

// tupleKey is a tuple as a map key: its first item and the rest.
type tupleKey struct{ first, rest any }

// maxTupleKey bounds the items of a tuple that is a key.
const maxTupleKey = 1000

// hashed converts a key to one that Go compares as Python does: 1, 1.0 and True are one key. Mutable values, lists and
// mappings, cannot be keys, and neither can tuples that contain them.
func hashed(r *run, key value) (h any, ok bool) {
	switch k := bare(key).(type) {
	case str:
		return k.String(), true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<53 {
			return int(k), true
		}
		return k, true
	case bool, int:
		n, _ := index(k)
		return n, true
	case undefined:
		return undefined{}, true // Python considers all of them equal
	case *dict:
		return nil, false
	case *list:
		if k.kind == tuple {
			return hashedTuple(r, k)
		}
		return k, k.kind == generator
	}
	return key, true // None, or a value that is only equal to itself
}

func hashedTuple(r *run, l *list) (h any, ok bool) {
	if len(l.items) > maxTupleKey {
		fail("a key of a mapping is a tuple of %d items: want at most %d", len(l.items), maxTupleKey)
	}
	r.deeper()
	defer r.higher()
	h = tupleKey{}
	for _, x := range slices.Backward(l.items) {
		r.step(10) // for the memory of the key
		first, ok := hashed(r, x)
		if !ok {
			return nil, false
		}
		h = tupleKey{first, h}
	}
	return h, true
}

// wantKey fails for values that cannot be keys.
func wantKey(r *run, key value) {
	if _, ok := hashed(r, key); !ok {
		fail("a %s cannot be a key of a mapping: want a string or a number", typeName(key))
	}
}

func (d *dict) set(r *run, key, v value) {
	wantKey(r, key)
	h, _ := hashed(r, key)
	if i, ok := d.index[h]; ok {
		d.values[i] = v
		return
	}
	d.index[h] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, v)
}

// get returns the value of a key. A value that cannot be a key is in no mapping.
func (d *dict) get(r *run, key value) (value, bool) {
	h, isKey := hashed(r, key)
	i, ok := d.index[h]
	if !isKey || !ok {
		return nil, false
	}
	return d.values[i], true
}

func (d *dict) items() *list {
	all := &list{}
	for i, k := range d.keys {
		all.items = append(all.items, &list{items: []value{k, d.values[i]}, kind: tuple})
	}
	return all
}

// namespace is a mapping with attributes that templates may set.
type namespace struct{ *dict }

// callable is a function, a method or a macro.
type callable struct {
	name string
	call func(r *run, a args) value
}

// args are the arguments of a call.
type args struct {
	list  []value
	names []string // of the keyword arguments
	named []value
}

// take returns the argument at a position or with that name.
func (a args) take(at int, name string) (value, bool) {
	if at >= 0 && at < len(a.list) {
		return a.list[at], true
	}
	if i := slices.Index(a.names, name); i >= 0 {
		return a.named[i], true
	}
	return nil, false
}

// or is like take, with a default.
func (a args) or(at int, name string, missing value) value {
	if v, ok := a.take(at, name); ok {
		return v
	}
	return missing
}

// need is like take for a required argument.
func (a args) need(at int, name string) value {
	v, ok := a.take(at, name)
	if !ok {
		fail("the argument %q is missing", name)
	}
	return v
}

// shift returns the first argument and the others.
func (a args) shift(name string) (value, args) {
	if len(a.list) == 0 {
		fail("the argument %q is missing", name)
	}
	return a.list[0], args{a.list[1:], a.names, a.named}
}

func (a args) str(at int, name string) str {
	s, ok := bare(a.need(at, name)).(str)
	if !ok {
		fail("the argument %q is a %s: want a string", name, typeName(a.need(at, name)))
	}
	return s
}

func (a args) int(at int, name string, missing int) int {
	n, ok := index(a.or(at, name, missing))
	if ok {
		return n
	}
	fail("the argument %q is a %s: want an integer", name, typeName(a.or(at, name, missing)))
	return 0
}

// typeName is Python's name of a value's type.
func typeName(v value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int:
		return "int"
	case float64:
		return "float"
	case str, markup:
		return "str"
	case *list:
		return [...]string{"list", "tuple", "generator"}[v.kind]
	case *dict:
		return "dict"
	case *namespace:
		return "namespace"
	case *loopValue:
		return "loop"
	case *cycler:
		return "cycler"
	case undefined:
		return "undefined value"
	}
	return "function"
}

// truth returns the truth value of v.
func truth(v value) bool {
	switch v := bare(v).(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case str:
		return len(v) > 0
	case *list:
		return len(v.items) > 0 || v.kind == generator
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// index returns the integer value of an integer, or of True or False.
func index(v value) (n int, ok bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// number returns a value as one, with whether it is an integer.
func number(v value) (i int, f float64, isInt, ok bool) {
	if i, ok := index(v); ok {
		return i, float64(i), true, true
	}
	f, ok = v.(float64)
	return 0, f, false, ok
}

// equal is Python's ==.
func equal(r *run, a, b value) bool {
	r.step(1)
	a, b = bare(a), bare(b)
	if _, x, _, ok := number(a); ok {
		_, y, _, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case str:
		b, ok := b.(str)
		return ok && same(a, b)
	case *list:
		b, ok := b.(*list)
		if !ok || a.kind != b.kind || len(a.items) != len(b.items) {
			return false
		}
		r.deeper()
		defer r.higher()
		for i, x := range a.items {
			if !equal(r, x, b.items[i]) {
				return false
			}
		}
		return true
	case *dict:
		b, ok := b.(*dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		r.deeper()
		defer r.higher()
		for i, k := range a.keys {
			if v, ok := b.get(r, k); !ok || !equal(r, a.values[i], v) {
				return false
			}
		}
		return true
	case undefined:
		_, ok := b.(undefined)
		return ok
	}
	return a == b
}

func same(a, b str) bool {
	return slices.EqualFunc(a, b, func(x, y rune) bool { return x&^mark == y&^mark })
}

// compare is Python's order of two values.
func compare(r *run, a, b value) int {
	r.step(1)
	a, b = bare(a), bare(b)
	x, f, _, ok := number(a)
	y, g, _, ok2 := number(b)
	if ok && ok2 {
		switch {
		case f < g || f == g && x < y:
			return -1
		case f > g || f == g && x > y:
			return 1
		}
		return 0
	}
	if a, ok := a.(str); ok {
		if b, ok := b.(str); ok {
			return slices.CompareFunc(a, b, func(x, y rune) int { return int(x&^mark) - int(y&^mark) })
		}
	}
	if a, ok := a.(*list); ok {
		if b, ok := b.(*list); ok && a.kind == b.kind {
			r.deeper()
			defer r.higher()
			return slices.CompareFunc(a.items, b.items, func(x, y value) int { return compare(r, x, y) })
		}
	}
	fail("a %s and a %s have no order: want two numbers, strings or lists", typeName(a), typeName(b))
	return 0
}
