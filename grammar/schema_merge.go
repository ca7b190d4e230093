package grammar

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// combined builds the expression of a schema with $ref, allOf, anyOf or oneOf. The schema's other keywords apply to
// every branch.
func (s *schemas) combined(o *object, key, where string, depth int) *expr {
	rest := newObject()
	for _, k := range o.keys {
		if k != key {
			rest.set(k, o.values[k])
		}
	}
	if key == "$ref" {
		ref, _ := o.values[key].(string)
		target, ok := s.resolve(ref)
		switch {
		case !ok:
			return s.fail(where, "$ref %q leads nowhere: want a place in this schema, such as #/$defs/NAME", ref)
		case len(rest.keys) > 0:
			return s.value(s.merge(target, rest, where), where, depth+1)
		}
		return s.add(s.scope+ref, func() *expr { return s.value(target, s.scope+ref, depth+1) })
	}
	list, ok := o.values[key].([]any)
	if !ok || len(list) == 0 {
		return s.fail(where, "%s: want a list of schemas, not empty", key)
	}
	if key == "allOf" {
		var all any = rest
		for i, x := range list {
			all = s.merge(all, x, subpath(where, "allOf", strconv.Itoa(i)))
		}
		return s.value(all, where, depth+1)
	}
	if key == "oneOf" {
		s.exclusive(list, where)
	}
	e := alt()
	for i, x := range list {
		if len(rest.keys) > 0 {
			x = s.merge(rest, x, subpath(where, key, strconv.Itoa(i)))
		}
		e.list = append(e.list, s.value(x, subpath(where, key, strconv.Itoa(i)), depth+1))
	}
	return e
}

// resolve returns the value at a JSON pointer (RFC 6901) in the schema.
func (s *schemas) resolve(ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil, false
	}
	at := s.root
	for _, key := range strings.Split(path, "/")[1:] {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		switch v := at.(type) {
		case *object:
			if at, ok = v.values[key]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return at, true
}

// merge returns the intersection of two schemas.
func (s *schemas) merge(a, b any, where string) any {
	if a == false || b == false {
		return false
	}
	if a == true {
		return b
	}
	if b == true {
		return a
	}
	x, okX := a.(*object)
	y, okY := b.(*object)
	if !okX || !okY {
		s.fail(where, "want an object, true or false")
		return false
	}
	if !s.spend(len(x.keys) + len(y.keys)) {
		return false
	}
	out := newObject()
	for _, k := range x.keys {
		out.set(k, x.values[k])
	}
	for _, k := range y.keys {
		if slices.Contains(annotations, k) || !out.has(k) {
			out.set(k, y.values[k])
			continue
		}
		v, err := s.mergeKey(k, out.values[k], y.values[k], where)
		if err != nil {
			s.fail(where, "%v", err)
			return false
		}
		out.set(k, v)
	}
	if len(declared(x)) != len(declared(out)) && x.has("additionalProperties") ||
		len(declared(y)) != len(declared(out)) && y.has("additionalProperties") {
		s.fail(where, "additionalProperties and another schema's properties are not supported: use one schema")
	}
	return out
}

// declared are the names of a schema's properties.
func declared(o *object) []string {
	if p, ok := o.values["properties"].(*object); ok {
		return p.keys
	}
	return nil
}

// mergeKey returns the intersection of two values of a keyword.
func (s *schemas) mergeKey(key string, a, b any, where string) (any, error) {
	left, errA := marshal(a)
	right, errB := marshal(b)
	if errA == nil && errB == nil && bytes.Equal(left, right) {
		return a, nil
	}
	listA, isListA := a.([]any)
	listB, isListB := b.([]any)
	if !s.spend(8 * (len(left) + len(right))) {
		return nil, s.err
	}
	switch key {
	case "properties":
		x, okX := a.(*object)
		y, okY := b.(*object)
		if !okX || !okY {
			break
		}
		out := newObject()
		for _, k := range x.keys {
			out.set(k, x.values[k])
		}
		for _, k := range y.keys {
			v := y.values[k]
			if out.has(k) {
				v = allOf(out.values[k], v)
			}
			out.set(k, v)
		}
		return out, nil
	case "items", "additionalProperties":
		return allOf(a, b), nil
	case "required":
		if isListA && isListB {
			return append(slices.Clone(listA), listB...), nil
		}
	case "allOf":
		if isListA && isListB {
			return append(slices.Clone(listA), listB...), nil
		}
	case "enum":
		if isListA && isListB {
			in := setOf(listB)
			return slices.DeleteFunc(slices.Clone(listA), func(v any) bool { return !in.has(v) }), nil
		}
	case "type":
		if !isListA {
			listA = []any{a}
		}
		if !isListB {
			listB = []any{b}
		}
		both, inA, inB := []any{}, setOf(listA), setOf(listB)
		for _, t := range typed {
			in := func(set valueSet) bool { return set.has(t.name) || t.name == "integer" && set.has("number") }
			if in(inA) && in(inB) {
				both = append(both, t.name)
			}
		}
		return both, nil
	case "minimum", "exclusiveMinimum", "minLength", "minItems":
		return larger(a, b, 1)
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems":
		return larger(a, b, -1)
	}
	return nil, fmt.Errorf("two different %s that are to hold together are not supported", key)
}

// allOf returns the schema for the intersection of others.
func allOf(list ...any) any {
	o := newObject()
	o.set("allOf", list)
	return o
}

// valueSet is a set of JSON values in canonical form.
type valueSet map[string]bool

// setOf returns the set of the values in a list.
func setOf(list []any) valueSet {
	s := valueSet{}
	for _, v := range list {
		if text, err := marshal(v); err == nil {
			s[string(text)] = true
		}
	}
	return s
}

func (s valueSet) has(v any) bool {
	text, err := marshal(v)
	return err == nil && s[string(text)]
}
