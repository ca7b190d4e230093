package grammar

import (
	"encoding/json"
	"fmt"
	"slices"
)

// isA reports whether a JSON value is of a type of JSON Schema. A number without a fraction is also an integer.
func isA(v any, name string) bool {
	switch x := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case *object:
		return name == "object"
	case json.Number:
		_, ok := wholeNumber(x)
		return name == "number" || name == "integer" && ok
	}
	return false
}

// exclusive changes the branches of oneOf so that a value fits at most one of them. A property that distinguishes the
// branches, such as the one that OpenAPI's discriminator names, becomes required. If there is no such property,
// exclusive returns the branches unchanged, and notes that the grammar does not enforce oneOf.
func (s *schemas) exclusive(list []any, where string) []any {
	overlap := s.overlap(list)
	if overlap == "" || s.err != nil {
		return list
	}
	for _, x := range list {
		o, ok := s.refTarget(x)
		if !ok {
			continue
		}
		for _, name := range declared(o) {
			if tagged := s.requiring(name, list, where); s.overlap(tagged) == "" {
				return tagged
			}
		}
	}
	s.leave(where, "oneOf", overlap)
	return list
}

// requiring returns the schemas of a list. Schemas that declare a property are changed to require it.
func (s *schemas) requiring(name string, list []any, where string) []any {
	out := slices.Clone(list)
	for i, x := range list {
		if s.declares(x, name) {
			needed := newObject()
			needed.set("required", []any{name})
			out[i] = s.merge(x, needed, where)
		}
	}
	return out
}

// forbids reports whether a schema forbids a property that another one requires.
func forbids(o, other *object) bool {
	if o.values["additionalProperties"] != false || o.has("patternProperties") {
		return false
	}
	list, _ := other.values["required"].([]any)
	return slices.ContainsFunc(list, func(name any) bool {
		text, ok := name.(string)
		return ok && !slices.Contains(declared(o), text)
	})
}

// declares reports whether a schema, or the one that it refers to, has a property.
func (s *schemas) declares(schema any, name string) bool {
	o, ok := s.refTarget(schema)
	return ok && slices.Contains(declared(o), name)
}

// overlap says which branches could both be valid of one value; "" means none.
func (s *schemas) overlap(list []any) string {
	for i := range list {
		for j := range i {
			if s.err == nil && !s.disjoint(list[j], list[i], 0) {
				return fmt.Sprintf(": branches %d and %d may both match a value, because neither types nor constants "+
					"distinguish them", j, i)
			}
		}
	}
	return ""
}

// disjoint reports whether it is certain that no value is valid by both schemas. False means that it is unknown.
func (s *schemas) disjoint(a, b any, depth int) bool {
	x, okX := s.refTarget(a)
	y, okY := s.refTarget(b)
	if a == false || b == false {
		return true
	}
	if !okX || !okY || depth > maxNesting || !s.spend(1) {
		return false
	}
	if vx, ok := values(x); ok {
		if vy, ok := values(y); ok && s.spend(32*(len(vx)+len(vy))) {
			in := setOf(vy)
			numbers := slices.ContainsFunc(vx, isNumber) && slices.ContainsFunc(vy, isNumber)
			return !numbers && !slices.ContainsFunc(vx, in.has) // 1 and 1.0 are equal numbers with different texts
		}
	}
	tx, ty := typesOf(x), typesOf(y)
	if tx == nil || ty == nil {
		return false
	}
	common := slices.DeleteFunc(slices.Clone(tx), func(n string) bool { return !slices.Contains(ty, n) })
	if len(common) == 0 {
		return true
	}
	if !slices.Equal(common, []string{"object"}) {
		return false
	}
	if forbids(x, y) || forbids(y, x) {
		return true
	}
	// A property that both require can distinguish the objects.
	if !s.spend(len(declared(x)) * (1 + required(x) + required(y))) {
		return false
	}
	for _, name := range declared(x) {
		px := x.values["properties"].(*object).values[name]
		py, ok := y.values["properties"].(*object)
		if ok && py.has(name) && needs(x, name) && needs(y, name) && s.disjoint(px, py.values[name], depth+1) {
			return true
		}
	}
	return false
}

// refTarget returns the schema to which a chain of $ref leads. Properties that the schemas of the chain require are
// required in the result too. ok is false if a reference does not exist or the chain is too long.
func (s *schemas) refTarget(schema any) (target *object, ok bool) {
	var required []any
	for range maxNesting {
		o, ok := schema.(*object)
		if !ok {
			return nil, false
		}
		more, _ := o.values["required"].([]any)
		required = append(required, more...)
		ref, isRef := o.values["$ref"].(string)
		if !isRef {
			if len(required) == len(more) {
				return o, true
			}
			out := newObject()
			for _, k := range o.keys {
				out.set(k, o.values[k])
			}
			out.set("required", required)
			return out, true
		}
		if schema, ok = s.resolve(ref); !ok {
			return nil, false
		}
	}
	return nil, false
}

// values returns the values that enum or const allows.
func values(o *object) (list []any, limited bool) {
	if v, ok := o.values["const"]; ok {
		return []any{v}, true
	}
	list, ok := o.values["enum"].([]any)
	return list, ok
}

// isNumber reports whether a value is a number, which can have several spellings.
func isNumber(v any) bool { _, is := v.(json.Number); return is }

// typesOf returns the types of the values that a schema allows, by its values or its keyword type, with integer as
// number. It returns nil if the schema does not say.
func typesOf(o *object) (names []string) {
	if list, ok := values(o); ok {
		for _, v := range list {
			for _, t := range typed {
				if t.name != "integer" && isA(v, t.name) {
					names = append(names, t.name)
				}
			}
		}
		return names
	}
	list, ok := o.values["type"].([]any)
	if !ok {
		list = []any{o.values["type"]}
	}
	for _, v := range list {
		name, ok := v.(string)
		if !ok {
			return nil
		}
		if name == "integer" {
			name = "number"
		}
		names = append(names, name)
	}
	return names
}

// required is how many properties a schema needs.
func required(o *object) int {
	list, _ := o.values["required"].([]any)
	return len(list)
}

func needs(o *object, name string) bool {
	list, _ := o.values["required"].([]any)
	return slices.Contains(list, any(name))
}
