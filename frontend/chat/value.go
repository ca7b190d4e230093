package chat

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strings"
)

// value is the value of an expression: nil for None, bool, int, float64, str, markup, *list, *dict, *namespace,
// *callable or undefined.
type value any

// str is a string of Unicode characters. A character that comes from the context has its bit mark set. All operations
// keep the bit, so users' text can always be distinguished from the template's.
type str []rune

// mark is the bit that marks a character from the context. Code points need 21 bits, so it is free.
const mark rune = 1 << 30

// unmarked returns a character without its mark.
func unmarked(c rune) rune { return c &^ mark }

// text returns a string of the template, without marks.
func text(s string) str { return str(s) }

// markup is a string that the filter safe has declared to be HTML. As in Python, text appended to it is escaped and
// becomes HTML too.
type markup struct{ str }

// withoutMarkup returns a value without markup: a plain string for a markup, and other values unchanged.
func withoutMarkup(v value) value {
	if m, ok := v.(markup); ok {
		return m.str
	}
	return v
}

// marked returns a string of the context, with marks.
func marked(s string) str {
	t := str(s)
	for i := range t {
		t[i] |= mark
	}
	return t
}

// String returns the text without marks.
func (s str) String() string {
	var b strings.Builder
	for _, c := range s {
		b.WriteRune(unmarked(c))
	}
	return b.String()
}

// pieces splits a string into pieces with characters of one origin each, from a user or from the template.
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

// undefined is the value of an undefined name or attribute. name is for errors.
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

// dict is a mapping that keeps its keys in the order of insertion.
type dict struct {
	keys, values []value
	index        map[any]int // by hashed key: its index in keys and values
}

func newDict() *dict { return &dict{index: map[any]int{}} }

// tupleKey is a tuple as a key of a Go map: its hashed first item, and the tupleKey of the rest.
type tupleKey struct{ first, rest any }

// maxTupleKey is the maximum number of items of a tuple that is a key of a mapping.
const maxTupleKey = 1000

// hashed converts a key to a Go value that is equal for keys that are equal in Python: 1, 1.0 and True are one key. ok
// is false for lists, mappings and tuples with such items, which cannot be keys because they are mutable.
func hashed(r *run, key value) (h any, ok bool) {
	switch k := withoutMarkup(key).(type) {
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

// hashedTuple converts a tuple to a Go value that is equal for equal tuples; see hashed.
func hashedTuple(r *run, l *list) (h any, ok bool) {
	if len(l.items) > maxTupleKey {
		fail("a key of a mapping is a tuple of %d items: want at most %d", len(l.items), maxTupleKey)
	}
	r.beginLevel()
	defer r.endLevel()
	// Go has no hash of a list: nest pairs of the first item and the rest.
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

// wantKey fails if a value cannot be a key.
func wantKey(r *run, key value) {
	if _, ok := hashed(r, key); !ok {
		fail("a %s cannot be a key of a mapping: want a string or a number", typeName(key))
	}
}

// set sets the value of a key, which must be valid as one.
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

// get returns the value of a key, and whether there is one.
func (d *dict) get(r *run, key value) (v value, ok bool) {
	h, isKey := hashed(r, key)
	i, ok := d.index[h]
	if !isKey || !ok {
		return nil, false
	}
	return d.values[i], true
}

// items returns the list of pairs (key, value).
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

// args are the arguments of a call in a template: by position, and by name.
type args struct {
	list  []value
	names []string // of the keyword arguments
	named []value
}

// take returns the argument at a position or, as a keyword argument, with that name.
func (a args) take(at int, name string) (v value, given bool) {
	if at >= 0 && at < len(a.list) {
		return a.list[at], true
	}
	if i := slices.Index(a.names, name); i >= 0 {
		return a.named[i], true
	}
	return nil, false
}

// or returns the argument at a position or with a name, as take does, or missing if there is none.
func (a args) or(at int, name string, missing value) value {
	if v, ok := a.take(at, name); ok {
		return v
	}
	return missing
}

// need returns the argument at a position or with a name, as take does, and fails if there is none.
func (a args) need(at int, name string) value {
	v, ok := a.take(at, name)
	if !ok {
		fail("the argument %q is missing", name)
	}
	return v
}

// shift returns the first argument, and the other arguments.
func (a args) shift(name string) (first value, rest args) {
	if len(a.list) == 0 {
		fail("the argument %q is missing", name)
	}
	return a.list[0], args{a.list[1:], a.names, a.named}
}

// str returns the argument at a position or with a name, and fails if it is missing or no string.
func (a args) str(at int, name string) str {
	s, ok := withoutMarkup(a.need(at, name)).(str)
	if !ok {
		fail("the argument %q is a %s: want a string", name, typeName(a.need(at, name)))
	}
	return s
}

// int returns the argument at a position or with a name, or missing if there is none. It fails if the argument is no
// integer.
func (a args) int(at int, name string, missing int) int {
	n, ok := index(a.or(at, name, missing))
	if ok {
		return n
	}
	fail("the argument %q is a %s: want an integer", name, typeName(a.or(at, name, missing)))
	return 0
}

// typeName returns Python's name of a value's type.
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

// truth returns whether v is true in a condition, as in Python: zero, empty and missing values are false.
func truth(v value) bool {
	switch v := withoutMarkup(v).(type) {
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

// number returns the value of a number: as i and f if it is an integer, else as f. ok is false if v is no number.
func number(v value) (i int, f float64, isInt, ok bool) {
	if i, ok := index(v); ok {
		return i, float64(i), true, true
	}
	f, ok = v.(float64)
	return 0, f, false, ok
}

// exact returns the value of a number without rounding: an integer past 2^53 differs from a float near it. ok is false
// if v is NaN or no number.
func exact(v value) (x *big.Float, ok bool) {
	i, f, isInt, ok := number(v)
	if isInt {
		return new(big.Float).SetInt64(int64(i)), true
	}
	if !ok || math.IsNaN(f) {
		return nil, false
	}
	return big.NewFloat(f), true
}

// equal implements Python's operator ==. It counts a step of r for each comparison, since values may be large.
func equal(r *run, a, b value) bool {
	r.step(1)
	a, b = withoutMarkup(a), withoutMarkup(b)
	if x, ok := exact(a); ok { // a number or a bool
		y, ok := exact(b)
		return ok && x.Cmp(y) == 0
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
		r.beginLevel()
		defer r.endLevel()
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
		r.beginLevel()
		defer r.endLevel()
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

// same reports whether two strings have the same characters, apart from marks.
func same(a, b str) bool {
	return slices.EqualFunc(a, b, func(x, y rune) bool { return unmarked(x) == unmarked(y) })
}

// compare compares two values as Python orders them: it returns -1, 0 or 1, and fails if they have no order. In a
// string, whether characters are marked does not count.
func compare(r *run, a, b value) int {
	r.step(1)
	a, b = withoutMarkup(a), withoutMarkup(b)
	x, ok1 := exact(a)
	y, ok2 := exact(b)
	if ok1 && ok2 {
		return x.Cmp(y)
	}
	if isNaN(a) || isNaN(b) {
		return 0 // a sort leaves them in place; holds gives the operators
	}
	if a, ok := a.(str); ok {
		if b, ok := b.(str); ok {
			return slices.CompareFunc(a, b, func(x, y rune) int { return cmp.Compare(unmarked(x), unmarked(y)) })
		}
	}
	if a, ok := a.(*list); ok {
		if b, ok := b.(*list); ok && a.kind == b.kind {
			r.beginLevel()
			defer r.endLevel()
			return slices.CompareFunc(a.items, b.items, func(x, y value) int { return compare(r, x, y) })
		}
	}
	fail("a %s and a %s have no order: want two numbers, strings or lists", typeName(a), typeName(b))
	return 0
}
