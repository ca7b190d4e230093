package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSON returns the grammar of JSON texts (RFC 8259), or of those that are objects. Between the parts of a value there
// is one space at most, or one line break and 40 spaces or tabs at most, so that a model does not write white space for
// ever; exponents have two digits at most.
func JSON(object bool) *Grammar {
	s := &schemas{ids: map[string]int{}}
	s.add("root", nil)
	if s.rules[0].body = s.anyValue(); object {
		s.rules[0].body = s.anyObject()
	}
	g, err := build(s.rules)
	if err != nil {
		panic(err) // nothing of it comes from outside
	}
	return g
}

// ParseSchema returns the grammar of the JSON texts that a JSON Schema (draft 2020-12) describes, as
// far as a model needs to write each value in one way:
//
//   - an object's properties come in the order of the schema, others after them;
//   - a schema with keywords of a type and without "type" is of that type;
//   - white space is as JSON has it;
//   - exponents have two digits at most, and numbers with bounds none;
//   - strings with a pattern escape only what they must.
//
// So every text of the grammar is valid by the schema. It knows type, enum, const, properties, required,
// additionalProperties, items, prefixItems, minItems, maxItems, minLength, maxLength, pattern (without
// look-around, back references and bounds of words), format (date, time, date-time, uuid), minimum, maximum,
// exclusiveMinimum, exclusiveMaximum (integers), anyOf, allOf, oneOf (whose branches exclude one another), $ref within
// the schema, and notes such as title. Anything else is an error that names it.
func ParseSchema(schema []byte) (*Grammar, error) {
	if len(schema) > maxSource {
		return nil, fmt.Errorf("schema: %d bytes: want at most %d", len(schema), maxSource)
	}
	root, err := readValue(schema)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s := &schemas{root: root, ids: map[string]int{}}
	s.add("#", nil)
	body := s.value(root, "#", 0)
	if s.rules[0].body = body; s.err != nil {
		return nil, s.err
	}
	return build(s.rules)
}

// Function is what a text may call, by a JSON Schema of its parameters.
type Function struct {
	Name       string
	Parameters []byte
}

// ParseCalls returns the grammar of calls of one of some functions: before, then
// {"name": NAME, ARGUMENTS: VALUE}, where arguments is the key of the value, then after.
func ParseCalls(before string, functions []Function, arguments, after string) (*Grammar, error) {
	s := &schemas{ids: map[string]int{}}
	s.add("root", nil)
	e := alt()
	for _, f := range functions {
		if len(f.Parameters) > maxSource {
			return nil, fmt.Errorf("schema: the parameters of %s have %d bytes: want at most %d", f.Name,
				len(f.Parameters), maxSource)
		}
		root, err := readValue(f.Parameters)
		if err != nil {
			return nil, fmt.Errorf("schema: the parameters of %s: %w", f.Name, err)
		}
		s.root, s.scope = root, f.Name
		value := s.add(f.Name+"#", func() *expr { return s.value(root, f.Name+"#", 0) })
		head := fmt.Sprintf(`{"name": %s, %s: `, quote(f.Name), quote(arguments))
		e.list = append(e.list, seq(text(head), value, text("}")))
	}
	if s.err != nil {
		return nil, s.err
	}
	s.rules[0].body = seq(text(before), e, text(after))
	return build(s.rules)
}

// object is a JSON object whose keys keep their order.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) has(key string) bool { _, ok := o.values[key]; return ok }

func (o *object) set(key string, v any) {
	if !o.has(key) {
		o.keys = append(o.keys, key)
	}
	o.values[key] = v
}

func newObject() *object { return &object{values: map[string]any{}} }

// MarshalJSON writes an object with its keys in order.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		v, err := marshal(o.values[k])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s:%s", quote(k), v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal writes a value in one way.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// quote is a JSON string.
func quote(s string) string {
	b, err := marshal(s)
	if err != nil {
		return `""` // strings have no errors
	}
	return string(b)
}

// readValue reads JSON: nil, bool, json.Number, string, []any or *object.
func readValue(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decode(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON value")
	}
	return v, nil
}

func decode(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	if depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	case json.Delim('{'):
		o := newObject()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			v, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			if o.has(name) {
				return nil, fmt.Errorf("key %q is there twice", name)
			}
			o.set(name, v)
		}
		_, err := d.Token()
		return o, err
	}
	return t, nil
}

// schemas makes rules of schemas.
type schemas struct {
	root  any
	scope string // whose schema the root is, where there are several
	rules []definition
	ids   map[string]int // by name
	spent int            // work that merging and comparing took
	err   error
}

// spend refuses schemas whose parts multiply.
func (s *schemas) spend(n int) bool {
	if s.spent += n; s.spent > maxWork {
		s.fail("#", "allOf, anyOf, oneOf and $ref multiply beyond bounds: want a simpler schema")
	}
	return s.err == nil
}

func (s *schemas) fail(where, format string, args ...any) *expr {
	if s.err == nil {
		s.err = fmt.Errorf("schema: %s: %s", where, fmt.Sprintf(format, args...))
	}
	return alt()
}

// add makes a rule of a name, and its body by a function, which may refer to it.
func (s *schemas) add(name string, body func() *expr) *expr {
	id, ok := s.ids[name]
	if ok {
		return rule(id)
	}
	if len(s.rules) >= maxMeanings {
		return s.fail(name, "more than %d parts", maxMeanings)
	}
	id = len(s.rules)
	s.ids[name] = id
	s.rules = append(s.rules, definition{name: name})
	if body != nil {
		b := body()
		s.rules[id].body = b
	}
	return rule(id)
}

// space is white space between the parts of a value.
func (s *schemas) space() *expr {
	return s.add("space", func() *expr {
		blank := set(span{'\t', '\t'}, span{' ', ' '})
		return alt(optional(blank), seq(optional(text("\r")), text("\n"), repeat(blank, 0, 40)))
	})
}

// plain are the characters that a JSON string may have as they are.
var plain = []span{{' ', '!'}, {'#', '['}, {']', utf8.MaxRune}}

// char is a character of a string, also escaped. Two halves of one beyond U+FFFF are one.
func (s *schemas) char() *expr { return s.add("char", charBody) }

func charBody() *expr {
	hex := set(span{'0', '9'}, span{'A', 'F'}, span{'a', 'f'})
	d := set(span{'D', 'D'}, span{'d', 'd'})
	return alt(set(plain...), seq(text(`\`), alt(
		set(span{'"', '"'}, span{'/', '/'}, span{'\\', '\\'}, span{'b', 'b'}, span{'f', 'f'}, span{'n', 'n'},
			span{'r', 'r'}, span{'t', 't'}),
		seq(text("u"), alt(
			seq(set(span{'0', '9'}, span{'A', 'C'}, span{'E', 'F'}, span{'a', 'c'}, span{'e', 'f'}), hex, hex, hex),
			seq(d, set(span{'0', '7'}), hex, hex),
			seq(d, set(span{'8', '9'}, span{'A', 'B'}, span{'a', 'b'}), hex, hex, text(`\u`),
				d, set(span{'C', 'F'}, span{'c', 'f'}), hex, hex),
		)),
	)))
}

// anyString has its characters within itself and calls no rule for each, so that all tokens inside of a string are
// allowed by the place alone.
func (s *schemas) anyString() *expr {
	return s.add("string", func() *expr { return seq(text(`"`), repeat(charBody(), 0, -1), text(`"`)) })
}

func (s *schemas) anyObject() *expr {
	return s.add("object", func() *expr {
		sp := s.space()
		pair := seq(s.anyString(), sp, text(":"), sp, s.anyValue())
		return seq(text("{"), sp, optional(seq(pair, sp, repeat(seq(text(","), sp, pair, sp), 0, -1))), text("}"))
	})
}

func (s *schemas) anyArray() *expr {
	return s.add("array", func() *expr { return s.list(nil, s.anyValue(), 0, -1) })
}

func (s *schemas) anyValue() *expr {
	return s.add("value", func() *expr {
		return alt(s.anyObject(), s.anyArray(), s.anyString(), s.anyNumber(), text("true"), text("false"), text("null"))
	})
}

// notes are keywords that change nothing of what is valid.
var notes = []string{"$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default",
	"examples", "deprecated", "readOnly", "writeOnly"}

// typed are the keywords of each type, in the order in which alternatives are written.
var typed = []struct {
	name string
	keys []string
}{
	{"object", []string{"properties", "required", "additionalProperties"}},
	{"array", []string{"items", "prefixItems", "minItems", "maxItems"}},
	{"string", []string{"minLength", "maxLength", "pattern", "format"}},
	{"number", []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
	{"integer", []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
	{"boolean", nil},
	{"null", nil},
}

// combining are the keywords that are about a value whatever its type.
var combining = []string{"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"}

// known reports whether a keyword is one that is honoured.
func known(key string) bool {
	for _, t := range typed {
		if slices.Contains(t.keys, key) {
			return true
		}
	}
	return slices.Contains(combining, key) || slices.Contains(notes, key)
}

// value makes the expression of a schema at a place.
func (s *schemas) value(schema any, where string, depth int) *expr {
	if depth > maxNesting {
		return s.fail(where, "nested deeper than %d: an allOf or $ref may contain itself", maxNesting)
	}
	if !s.spend(1 << 6) {
		return alt()
	}
	o, ok := schema.(*object)
	switch {
	case schema == true:
		return s.anyValue()
	case schema == false:
		return alt()
	case !ok:
		return s.fail(where, "want an object, true or false")
	}
	for _, k := range o.keys {
		if !known(k) {
			return s.fail(where, "keyword %q is not supported: leave it out, or say it in another way", k)
		}
	}
	rest := newObject() // what says something
	for _, k := range o.keys {
		if !slices.Contains(notes, k) {
			rest.set(k, o.values[k])
		}
	}
	o = rest
	for _, key := range []string{"$ref", "allOf", "anyOf", "oneOf"} {
		if o.has(key) {
			return s.combined(o, key, where, depth)
		}
	}
	if o.has("const") || o.has("enum") {
		return s.choice(o, where)
	}
	names := s.types(o, where)
	var list []*expr
	for _, name := range names {
		list = append(list, s.typed(name, o, where, depth))
	}
	return alt(list...)
}

// types returns the types that a schema allows. Number is not beside integer, which it includes.
func (s *schemas) types(o *object, where string) (names []string) {
	switch t := o.values["type"].(type) {
	case string:
		names = []string{t}
	case []any:
		for _, v := range t {
			name, _ := v.(string)
			names = append(names, name)
		}
	default:
		if o.has("type") {
			s.fail(where, "type is neither a string nor a list of them")
			return nil
		}
		for _, t := range typed {
			if slices.ContainsFunc(t.keys, o.has) {
				names = append(names, t.name)
			}
		}
		if names == nil {
			for _, t := range typed {
				names = append(names, t.name)
			}
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(typed, func(t struct {
			name string
			keys []string
		}) bool {
			return t.name == n
		}) {
			s.fail(where, "type %q: want object, array, string, number, integer, boolean or null", n)
		}
	}
	if slices.Contains(names, "number") {
		names = slices.DeleteFunc(names, func(n string) bool { return n == "integer" })
	}
	return names
}

func (s *schemas) typed(name string, o *object, where string, depth int) *expr {
	switch name {
	case "object":
		return s.object(o, where, depth)
	case "array":
		return s.array(o, where, depth)
	case "string":
		return s.string(o, where)
	case "number", "integer":
		return s.number(o, where, name == "integer")
	case "boolean":
		return alt(text("true"), text("false"))
	}
	return text("null")
}

// combined makes the expression of a schema with $ref, allOf, anyOf or oneOf: whatever else it says holds of
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
			all = s.merge(all, x, fmt.Sprintf("%s/allOf/%d", where, i))
		}
		return s.value(all, where, depth+1)
	}
	if key == "oneOf" {
		s.exclusive(list, where)
	}
	e := alt()
	for i, x := range list {
		if len(rest.keys) > 0 {
			x = s.merge(rest, x, fmt.Sprintf("%s/%s/%d", where, key, i))
		}
		e.list = append(e.list, s.value(x, fmt.Sprintf("%s/%s/%d", where, key, i), depth+1))
	}
	return e
}

// resolve returns what a JSON pointer (RFC 6901) in the schema leads to.
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

// merge returns a schema of what two schemas both allow.
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
		if slices.Contains(notes, k) || !out.has(k) {
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
		s.fail(where, "additionalProperties beside properties of another schema is not supported: list all in one")
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

// mergeKey returns what two values of a keyword mean together.
func (s *schemas) mergeKey(key string, a, b any, where string) (any, error) {
	left, errA := marshal(a)
	right, errB := marshal(b)
	if errA == nil && errB == nil && bytes.Equal(left, right) {
		return a, nil
	}
	listA, isListA := a.([]any)
	listB, isListB := b.([]any)
	if !s.spend(len(left) + len(right) + len(listA)*len(listB)) {
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
			return slices.DeleteFunc(slices.Clone(listA), func(v any) bool { return !contains(listB, v) }), nil
		}
	case "type":
		if !isListA {
			listA = []any{a}
		}
		if !isListB {
			listB = []any{b}
		}
		both := []any{}
		for _, v := range append(slices.Clone(listA), listB...) {
			in := func(list []any) bool {
				return contains(list, v) || v == "integer" && contains(list, "number")
			}
			if in(listA) && in(listB) && !contains(both, v) {
				both = append(both, v)
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

// allOf is a schema of what others allow together.
func allOf(list ...any) any {
	o := newObject()
	o.set("allOf", list)
	return o
}

// contains reports whether a list has a JSON value.
func contains(list []any, v any) bool {
	want, err := marshal(v)
	return err == nil && slices.ContainsFunc(list, func(x any) bool {
		have, err := marshal(x)
		return err == nil && bytes.Equal(have, want)
	})
}

// choice makes the expression of a schema with enum or const.
func (s *schemas) choice(o *object, where string) *expr {
	list, ok := o.values["enum"].([]any)
	switch {
	case o.has("enum") && (!ok || len(list) == 0):
		return s.fail(where, "enum: want a list of values, not empty")
	case o.has("const") && o.has("enum") && !contains(list, o.values["const"]):
		return alt()
	case o.has("const"):
		list = []any{o.values["const"]}
	}
	for _, k := range o.keys {
		if k != "const" && k != "enum" && k != "type" {
			return s.fail(where, "%s beside enum or const is not supported: leave it out", k)
		}
	}
	names := s.types(o, where)
	e := alt()
	for _, v := range list {
		if !o.has("type") || slices.ContainsFunc(names, func(n string) bool { return isA(v, n) }) {
			data, err := marshal(v)
			if err != nil {
				return s.fail(where, "%v", err)
			}
			e.list = append(e.list, text(string(data)))
		}
	}
	return e
}

// isA reports whether a JSON value is of a type.
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

// exclusive refuses branches of oneOf that could both be valid of one value.
func (s *schemas) exclusive(list []any, where string) {
	for i := range list {
		for j := range i {
			if s.err != nil {
				return
			}
			if !s.disjoint(list[j], list[i], 0) {
				s.fail(where, "oneOf: branches %d and %d may both hold of one value: want types or constants "+
					"that tell them apart, or anyOf", j, i)
				return
			}
		}
	}
}

// disjoint reports whether it is plain that no value is valid by both schemas.
func (s *schemas) disjoint(a, b any, depth int) bool {
	x, okX := s.meant(a)
	y, okY := s.meant(b)
	if a == false || b == false {
		return true
	}
	if !okX || !okY || depth > maxNesting || !s.spend(1) {
		return false
	}
	if vx, ok := values(x); ok {
		if vy, ok := values(y); ok && s.spend(len(vx)*len(vy)) {
			return !slices.ContainsFunc(vx, func(v any) bool { return contains(vy, v) || sameNumber(vy, v) })
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
	// A property that both need tells objects apart.
	for _, name := range declared(x) {
		px := x.values["properties"].(*object).values[name]
		py, ok := y.values["properties"].(*object)
		if ok && py.has(name) && needs(x, name) && needs(y, name) && s.disjoint(px, py.values[name], depth+1) {
			return true
		}
	}
	return false
}

// meant follows a $ref that says nothing else.
func (s *schemas) meant(schema any) (*object, bool) {
	for range maxNesting {
		o, ok := schema.(*object)
		if !ok {
			return nil, false
		}
		ref, isRef := o.values["$ref"].(string)
		if !isRef {
			return o, true
		}
		if schema, ok = s.resolve(ref); !ok {
			return nil, false
		}
	}
	return nil, false
}

// values are those that enum or const allow.
func values(o *object) ([]any, bool) {
	if v, ok := o.values["const"]; ok {
		return []any{v}, true
	}
	list, ok := o.values["enum"].([]any)
	return list, ok
}

// sameNumber reports whether a list has a number that may be written in another way.
func sameNumber(list []any, v any) bool {
	_, is := v.(json.Number)
	return is && slices.ContainsFunc(list, func(x any) bool { _, is := x.(json.Number); return is })
}

// typesOf returns the types of a schema that says them, with integer as a number.
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

func needs(o *object, name string) bool {
	list, _ := o.values["required"].([]any)
	return slices.Contains(list, any(name))
}

// count reads a number of elements or characters.
func (s *schemas) count(o *object, key, where string, missing int) int {
	if !o.has(key) {
		return missing
	}
	n, ok := o.values[key].(json.Number)
	whole, isWhole := wholeNumber(n)
	if !ok || !isWhole || whole.Sign() < 0 || whole.BitLen() > 31 {
		s.fail(where, "%s: want a whole number, at least 0", key)
		return missing
	}
	return int(whole.Int64())
}

// object makes the expression of an object. Each property is a rule that goes on with those after it.
func (s *schemas) object(o *object, where string, depth int) *expr {
	properties, ok := o.values["properties"].(*object)
	if !ok {
		if o.has("properties") {
			return s.fail(where, "properties: want an object")
		}
		properties = newObject()
	}
	var more any = true
	if o.has("additionalProperties") {
		more = o.values["additionalProperties"]
	}
	list, ok := o.values["required"].([]any)
	if o.has("required") && !ok {
		return s.fail(where, "required: want a list of names")
	}
	required := map[string]bool{}
	all := newObject()
	maps.Copy(all.values, properties.values)
	all.keys = slices.Clone(properties.keys)
	for _, v := range list {
		name, ok := v.(string)
		if !ok {
			return s.fail(where, "required: want a list of names")
		}
		required[name] = true
		if !all.has(name) {
			if more == false {
				return s.fail(where, "required names %q, which properties lacks and additionalProperties forbids", name)
			}
			all.set(name, more)
		}
	}
	if len(all.keys) == 0 && more == true {
		return s.anyObject()
	}
	sp := s.space()
	// After and first are what follows at a property, with and without another before it.
	after, first := seq(), seq()
	if more != false {
		key := s.otherKey(all.keys)
		pair := seq(key, sp, text(":"), sp, s.value(more, where+"/additionalProperties", depth+1))
		pair = s.part(pair)
		after = s.part(repeat(seq(text(","), sp, pair, sp), 0, -1))
		first = s.part(optional(seq(pair, sp, after)))
	}
	for _, name := range slices.Backward(all.keys) {
		value := s.value(all.values[name], where+"/properties/"+name, depth+1)
		pair := s.part(seq(text(quote(name)), sp, text(":"), sp, value, sp))
		with, begin := seq(text(","), sp, pair, after), seq(pair, after)
		if !required[name] {
			with, begin = alt(with, after), alt(begin, first)
		}
		after, first = s.part(with), s.part(begin)
	}
	return seq(text("{"), sp, first, text("}"))
}

// part makes a rule of an expression that is used several times.
func (s *schemas) part(e *expr) *expr {
	return s.add("part "+strconv.Itoa(len(s.rules)), func() *expr { return e })
}

// otherKey is a key that is none of these, without escapes.
func (s *schemas) otherKey(names []string) *expr {
	var keys []string
	for _, n := range names {
		if len(n) > maxName {
			return s.fail(n[:maxName], "the name of a property has %d bytes: want at most %d", len(n), maxName)
		}
		escaped := func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError }
		if !strings.ContainsFunc(n, escaped) {
			keys = append(keys, n)
		}
	}
	slices.Sort(keys)
	return seq(text(`"`), s.otherThan(keys), text(`"`))
}

// otherThan is what plain characters spell, but none of these, which are sorted.
func (s *schemas) otherThan(names []string) *expr {
	any := s.add("plain", func() *expr { return repeat(set(plain...), 0, -1) })
	if len(names) == 0 {
		return any
	}
	e := alt()
	if names[0] != "" {
		e.list = append(e.list, seq())
	}
	begins := []span{{0, ' ' - 1}, {'"', '"'}, {'\\', '\\'}}
	for i := 0; i < len(names); {
		if names[i] == "" {
			i++
			continue
		}
		c, size := utf8.DecodeRuneInString(names[i])
		var rests []string
		for ; i < len(names) && strings.HasPrefix(names[i], string(c)); i++ {
			rests = append(rests, names[i][size:])
		}
		begins = append(begins, span{c, c})
		e.list = append(e.list, seq(set(span{c, c}), s.otherThan(rests)))
	}
	e.list = append(e.list, seq(set(invert(begins)...), any))
	return e
}

// array makes the expression of an array.
func (s *schemas) array(o *object, where string, depth int) *expr {
	low, high := s.count(o, "minItems", where, 0), s.count(o, "maxItems", where, -1)
	var item any = true
	if o.has("items") {
		item = o.values["items"]
	}
	if _, is := item.([]any); is {
		return s.fail(where, "items is a list, as in older drafts: want prefixItems")
	}
	prefix, ok := o.values["prefixItems"].([]any)
	if o.has("prefixItems") && !ok {
		return s.fail(where, "prefixItems: want a list of schemas")
	}
	if high >= 0 && high < len(prefix) {
		prefix = prefix[:high]
	}
	if item == false && (high < 0 || high > len(prefix)) {
		high = len(prefix)
	}
	if high >= 0 && low > high {
		return alt()
	}
	if item == true && len(prefix) == 0 && low == 0 && high < 0 {
		return s.anyArray()
	}
	var list []*expr
	for i, x := range prefix {
		list = append(list, s.part(s.value(x, fmt.Sprintf("%s/prefixItems/%d", where, i), depth+1)))
	}
	e := alt()
	if item != false {
		e = s.part(s.value(item, where+"/items", depth+1))
	}
	return s.list(list, e, low, high)
}

// list is an array of some elements, and then others of one kind.
func (s *schemas) list(prefix []*expr, item *expr, low, high int) *expr {
	sp := s.space()
	next := func(e *expr) *expr { return seq(text(","), sp, e, sp) }
	most := func(n int) int { // of so many elements fewer
		if high < 0 {
			return -1
		}
		return max(high-n, 0)
	}
	n := len(prefix)
	if n == 0 && high != 0 {
		rest := seq(item, sp, repeat(next(item), max(low-1, 0), most(1)))
		if low == 0 {
			rest = optional(rest)
		}
		return seq(text("["), sp, rest, text("]"))
	}
	rest := seq()
	if high < 0 || high > n {
		rest = repeat(next(item), max(low-n, 0), most(n))
	}
	for i, e := range slices.Backward(prefix) {
		if i > 0 {
			e = next(e)
		} else {
			e = seq(e, sp)
		}
		if rest = seq(e, rest); i >= low {
			rest = optional(rest)
		}
	}
	return seq(text("["), sp, rest, text("]"))
}
