package grammar

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// combined builds the expression of a schema with $ref, allOf, anyOf or oneOf. The schema's other keywords apply to
// every branch.
func (s *schemas) combined(o *object, key, where string, depth int) *expr {
	rest := o.without(key)
	if key == "$ref" {
		ref, _ := o.values[key].(string)
		target, ok := s.resolve(ref)
		switch {
		case !ok:
			return s.fail(where, "$ref %q does not exist: want a path in this schema, such as #/$defs/NAME", ref)
		case len(rest.keys) > 0:
			key, err := marshal(rest)
			if err != nil {
				return s.fail(where, "%v", err)
			}
			// The rule's name has the other keywords, because another place may refer with other ones.
			return s.add(s.scope+ref+" and "+string(key), func() *expr {
				return s.value(s.merge(target, rest, where), s.scope+ref, depth+1)
			})
		}
		return s.add(s.scope+ref, func() *expr { return s.value(target, s.scope+ref, depth+1) })
	}
	list, ok := o.values[key].([]any)
	if !ok || len(list) == 0 {
		return s.fail(where, "%s: want a list of at least one schema", key)
	}
	if key == "allOf" {
		var all any = rest
		for i, x := range list {
			all = s.merge(all, x, subpath(where, "allOf", strconv.Itoa(i)))
		}
		return s.value(all, where, depth+1)
	}
	if key == "oneOf" {
		list = s.exclusive(list, where)
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

// resolve returns the schema to which a $ref leads: a JSON pointer (RFC 6901) in this schema, or in a part of it that
// $id or $anchor names.
func (s *schemas) resolve(ref string) (schema any, ok bool) {
	base, path, _ := strings.Cut(ref, "#")
	ok, at := true, s.root
	if base != "" || path != "" && path[0] != '/' {
		if s.names == nil {
			s.names = map[string]any{}
			s.name(s.root, "", 0)
		}
		name := ref // $id#$anchor, without a path
		if path == "" || path[0] == '/' {
			name = base // $id
		} else {
			path = ""
		}
		if at, ok = s.names[name]; !ok {
			return nil, false
		}
	}
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

// name records the names of the schemas in v: every $id, and every $anchor in the form $id#$anchor, with the $id around
// it.
func (s *schemas) name(v any, base string, depth int) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			s.name(x, base, depth+1)
		}
	case *object:
		if id, ok := v.values["$id"].(string); ok {
			base = strings.TrimSuffix(id, "#")
			s.names[base] = v
			if depth == 0 {
				base = "" // the root's anchors are also valid without its $id
			}
		}
		if anchor, ok := v.values["$anchor"].(string); ok {
			s.names[base+"#"+anchor] = v
		}
		for _, k := range v.keys {
			if k != "enum" && k != "const" {
				s.name(v.values[k], base, depth+1)
			}
		}
	}
}

// merge returns a schema for the values that match both a and b. Each is an object, true (all values) or false (none).
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
		if !affects(k) || !out.has(k) {
			out.set(k, y.values[k])
			continue
		}
		v, err := s.mergeKey(k, out.values[k], y.values[k])
		if errors.Is(err, errNever) {
			return false
		}
		if err != nil {
			s.leave(where, k, " in this form: "+err.Error())
			continue
		}
		out.set(k, v)
	}
	if y.has("unevaluatedProperties") { // it does not know the properties of x
		s.leave(where, "unevaluatedProperties", " in a branch")
		out.set("unevaluatedProperties", true)
	}
	return s.closed(closedBy(x), y, s.closed(closedBy(y), x, out))
}

// closedBy returns schema o if it restricts the properties that it does not name, and otherwise nil.
func closedBy(o *object) *object {
	if o.has("additionalProperties") && o.values["additionalProperties"] != true {
		return o
	}
	return nil
}

// closed applies additionalProperties of schema `by` to the properties that only schema `other` declares. It adds the
// result to out, the intersection of both, and returns it. Without by it changes nothing.
func (s *schemas) closed(by, other, out *object) *object {
	if by == nil {
		return out
	}
	fields := newObject()
	for _, name := range declared(out) {
		schema := out.values["properties"].(*object).values[name]
		if slices.Contains(declared(other), name) && !slices.Contains(declared(by), name) {
			if matched, err := s.validator().matching(by, name); err == nil && len(matched) == 0 {
				schema = allOf(schema, by.values["additionalProperties"])
			}
		}
		fields.set(name, schema)
	}
	if len(fields.keys) > 0 {
		out.set("properties", fields)
	}
	if other.has("patternProperties") {
		s.leave("#", "additionalProperties", " together with another schema's patternProperties")
	}
	return out
}

// errNever means that no value is valid by both schemas.
var errNever = errors.New("no value")

// declared are the names of a schema's properties.
func declared(o *object) []string {
	if p, ok := o.values["properties"].(*object); ok {
		return p.keys
	}
	return nil
}

// pairsOf returns anyOf of the intersection of two anyOf: (a1 or a2) and (b1 or b2) is one of all pairs.
func pairsOf(a, b []any) (pairs []any) {
	pairs = []any{}
	for _, x := range a {
		for _, y := range b {
			pairs = append(pairs, allOf(x, y))
		}
	}
	return pairs
}

// mergeKey returns the intersection of two values of a keyword. If the intersection is empty, the error is errNever.
// Any other error means that the grammar cannot express the intersection.
func (s *schemas) mergeKey(key string, a, b any) (any, error) {
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
	case "properties", "patternProperties":
		x, okX := a.(*object)
		y, okY := b.(*object)
		if okX && okY {
			return mergeProperties(x, y), nil
		}
	case "items", "additionalProperties", "propertyNames":
		return allOf(a, b), nil
	case "pattern", "format":
		if x, y := textsOf(a), textsOf(b); x != nil && y != nil {
			return append(slices.Clone(x), y...), nil
		}
	case "multipleOf":
		if powerOfTen(a) != nil && powerOfTen(b) != nil {
			return larger(a, b, 1)
		}
	case "uniqueItems":
		return a == true || b == true, nil
	case "const":
		if !equalValues(a, b) {
			return nil, errNever
		}
		return a, nil
	case "anyOf":
		if s.spend(64 * len(listA) * len(listB)) {
			return pairsOf(listA, listB), nil
		}
	case "required", "allOf":
		if isListA && isListB {
			return append(slices.Clone(listA), listB...), nil
		}
	case "enum":
		if isListA && isListB {
			return s.mergeEnums(listA, listB)
		}
	case "type":
		if !isListA {
			listA = []any{a}
		}
		if !isListB {
			listB = []any{b}
		}
		return mergeTypes(setOf(listA), setOf(listB)), nil
	case "minimum", "exclusiveMinimum", "minLength", "minItems":
		return larger(a, b, 1)
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems":
		return larger(a, b, -1)
	}
	return nil, fmt.Errorf("two different values must hold at the same time")
}

// mergeProperties returns the schemas of the properties of x and y. A property of both must fit both schemas.
func mergeProperties(x, y *object) *object {
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
	return out
}

// mergeEnums returns the values in both lists. If there are none, the error is errNever.
func (s *schemas) mergeEnums(x, y []any) (any, error) {
	in := setOf(y)
	both := slices.DeleteFunc(slices.Clone(x), func(v any) bool {
		if isNumber(v) && s.spend(len(y)) { // y may spell the number in another way
			return !slices.ContainsFunc(y, func(w any) bool { return equalValues(v, w) })
		}
		return !in.has(v)
	})
	if len(both) == 0 {
		return nil, errNever
	}
	return both, nil
}

// mergeTypes returns the names of the types that both sets allow. A set with "number" allows integers.
func mergeTypes(x, y valueSet) []any {
	both := []any{}
	for _, t := range typed {
		in := func(set valueSet) bool { return set.has(t.name) || t.name == "integer" && set.has("number") }
		if in(x) && in(y) {
			both = append(both, t.name)
		}
	}
	return both
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
