package grammar

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// JSON returns the grammar of JSON texts (RFC 8259), or of JSON objects only if object is set. It bounds white space so
// that a model does not write it forever: at most one space, or one line break with up to 40 spaces or tabs, between
// the parts of a value. Exponents have at most two digits.
func JSON(object bool) *Grammar {
	s := &schemas{ids: map[string]int{}}
	s.add("root", nil)
	s.rules[0].body = s.anyValue()
	if object {
		s.rules[0].body = s.anyObject()
	}
	g, err := build(s.rules)
	if err != nil {
		panic(err) // the rules do not depend on input
	}
	return g
}

// ParseSchema returns a grammar for the JSON texts that a JSON Schema (draft 2020-12) describes. It allows one form of
// each value, which is enough for a model:
//
//   - an object's properties come in the order of the schema, other properties after them;
//   - a schema with keywords of a type, but without "type", has that type;
//   - white space is as in JSON;
//   - exponents have at most two digits, and numbers with bounds have none;
//   - strings with a pattern escape only where necessary;
//   - strings with a format may be fewer than the format allows;
//   - a property that tells the branches of oneOf apart is always there.
//
// So every text of the grammar is valid by the schema. The supported keywords are type, enum, const, properties,
// patternProperties, propertyNames, required, additionalProperties, unevaluatedProperties, items, prefixItems,
// minItems, maxItems, uniqueItems (of enums), minLength, maxLength, pattern (ECMA-262 with flag u, without look-behind,
// back references and word boundaries), format (see formats), minimum, maximum, exclusiveMinimum, exclusiveMaximum,
// multipleOf (powers of ten), anyOf, allOf, oneOf (with mutually exclusive branches) and $ref within the schema. A
// keyword that JSON Schema does not define is an annotation. Any other keyword is an error that names it.
func ParseSchema(schema []byte) (*Grammar, error) { return parseSchema(schema, true) }

// ParseSchemaPartly is ParseSchema, but accepts keywords that a grammar cannot express, and leaves them out.
// [Grammar.Unheld] lists them, and [Grammar.Check] tests whether a text satisfies all keywords.
func ParseSchemaPartly(schema []byte) (*Grammar, error) { return parseSchema(schema, false) }

// parseSchema returns the grammar of a schema. If strict is set, a keyword that a grammar cannot hold is an error.
func parseSchema(schema []byte, strict bool) (*Grammar, error) {
	if len(schema) > maxSource {
		return nil, fmt.Errorf("schema: %d bytes: want at most %d", len(schema), maxSource)
	}
	root, err := readValue(schema)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s := &schemas{root: root, ids: map[string]int{}, strict: strict}
	s.add("#", nil)               // rule 0, to which references to the whole schema lead; its body follows
	body := s.value(root, "#", 0) // it appends to s.rules, so the assignment comes after it
	s.rules[0].body = body
	if s.err != nil {
		return nil, s.err
	}
	g, err := build(s.rules)
	if err == nil && len(s.unheld) > 0 {
		slices.Sort(s.unheld)
		g.schema, g.unheld = root, slices.Compact(s.unheld)
	}
	return g, err
}

// schemas makes rules of schemas.
type schemas struct {
	root  any
	scope string // names the root's schema if there are several
	rules []definition
	ids   map[string]int // by name
	spent int            // work that merging and comparing took
	names map[string]any // schemas by $id, and by # and $anchor; nil before the first use
	err   error

	python bool     // values are literals of Python
	strict bool     // refuse what the grammar does not hold
	unheld []string // what it does not hold, as PATH: KEYWORD
}

// spend counts n units of work, and fails if a schema needs too many, because its combinations multiply. It reports
// whether nothing has failed yet. Callers stop at false.
func (s *schemas) spend(n int) bool {
	s.spent += n
	if s.spent > maxSteps {
		s.fail("#", "the combinations of allOf, anyOf, oneOf and $ref are too many: want a simpler schema")
	}
	return s.err == nil
}

// subpath returns the path of keys below another path, for errors. It is truncated if long.
func subpath(where string, keys ...string) string {
	if len(where) > maxPath {
		return where
	}
	place := where + "/" + strings.Join(keys, "/")
	return strings.ToValidUTF8(place[:min(len(place), maxPath+4)], "")
}

// maxPath bounds the bytes of a path in errors.
const maxPath = 200

// fail records an error at a place in the schema, unless there is one already. It returns an expression that matches
// nothing.
func (s *schemas) fail(where, format string, args ...any) *expr {
	if s.err == nil {
		s.err = fmt.Errorf("schema: %s: %s", where, fmt.Sprintf(format, args...))
	}
	return alt()
}

// leave notes that the grammar does not hold a keyword, or refuses it.
func (s *schemas) leave(where, key, why string) {
	if s.strict {
		s.fail(where, "keyword %q is not supported%s: leave it out, or express it with other keywords", key, why)
	} else if len(s.unheld) < maxUnheld {
		s.unheld = append(s.unheld, where+": "+key)
	}
}

// maxUnheld bounds the list of keywords that a grammar does not hold.
const maxUnheld = 64

// add returns a reference to the rule with a name, and makes the rule if there is none. body builds its expression, and
// may refer to the rule. A nil body is set later.
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

// space returns the white space between parts of a value.
func (s *schemas) space() *expr {
	return s.add("space", func() *expr {
		blank := set(span{'\t', '\t'}, span{' ', ' '})
		return alt(optional(blank), seq(optional(text("\r")), text("\n"), repeat(blank, 0, 40)))
	})
}

// plain lists the characters that a JSON string may contain unescaped.
var plain = []span{{' ', '!'}, {'#', '['}, {']', utf8.MaxRune}}

// char returns a character of a string, possibly escaped. A surrogate pair counts as one character.
func (s *schemas) char() *expr { return s.add("char", charBody) }

// charBody matches one character of a JSON string: unescaped, escaped by a letter, or as \u with four hex digits.
func charBody() *expr {
	hex := set(span{'0', '9'}, span{'A', 'F'}, span{'a', 'f'})
	// Codes from D800 on are halves of a pair: a high half must have a low half after it.
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

// anyString returns the expression of a JSON string. It repeats charBody itself instead of calling a rule for each
// character. So the stack does not matter inside of a string, and the mask of allowed tokens there is computed once and
// cached.
func (s *schemas) anyString() *expr {
	return s.add("string", func() *expr { return seq(text(`"`), repeat(charBody(), 0, -1), text(`"`)) })
}

// anyObject returns the expression of a JSON object with any keys and values.
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
		return alt(s.anyObject(), s.anyArray(), s.anyString(), s.anyNumber(), s.word(true), s.word(false), s.word(nil))
	})
}

// checked lists the keywords that a grammar does not hold, but that can be tested at the end of a text.
var checked = []string{"not", "if", "dependentRequired", "dependentSchemas", "contains", "minContains", "maxContains",
	"minProperties", "maxProperties"}

// refused lists the keywords that are neither held nor tested.
var refused = []string{"$dynamicRef", "$recursiveRef", "dependencies", "unevaluatedItems"}

// typed lists the keywords of each type, in the order in which alternatives are written.
var typed = []struct {
	name string
	keys []string
}{
	{"object", []string{"properties", "patternProperties", "propertyNames", "required", "additionalProperties",
		"unevaluatedProperties"}},
	{"array", []string{"items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
	{"string", []string{"minLength", "maxLength", "pattern", "format"}},
	{"number", []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
	{"integer", []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
	{"boolean", nil},
	{"null", nil},
}

// combining lists the keywords that apply to values of any type, such as anyOf.
var combining = []string{"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"}

// affects reports whether a keyword affects validity. Others are annotations.
func affects(key string) bool {
	for _, t := range typed {
		if slices.Contains(t.keys, key) {
			return true
		}
	}
	return slices.Contains(combining, key) || slices.Contains(checked, key) || slices.Contains(refused, key)
}

// value returns the expression of the values that a schema allows. where is the schema's path for errors, and depth its
// nesting.
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
	rest := newObject() // the keywords that the grammar holds
	for _, k := range o.keys {
		switch {
		case slices.Contains(refused, k):
			return s.fail(where, "keyword %q is not supported: leave it out, or express it with other keywords", k)
		case slices.Contains(checked, k):
			s.leave(where, k, "")
		case affects(k):
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

func isType(name string) bool {
	for _, t := range typed {
		if t.name == name {
			return true
		}
	}
	return false
}

// types returns the types that a schema allows. It drops integer if number is allowed, which includes it.
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
			s.fail(where, "type is neither a string nor a list of strings")
			return nil
		}
		for _, t := range typed { // without a type, the keywords for values of one type tell it
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
	for _, name := range names {
		if !isType(name) {
			s.fail(where, "type %q: want object, array, string, number, integer, boolean or null", name)
		}
	}
	if slices.Contains(names, "number") {
		names = slices.DeleteFunc(names, func(n string) bool { return n == "integer" })
	}
	return names
}

// typed returns the expression of the values that a schema allows of one JSON type.
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
		return alt(s.word(true), s.word(false))
	}
	return s.word(nil)
}

// choice returns the expression of a schema with enum or const: the listed values that the other keywords allow.
func (s *schemas) choice(o *object, where string) *expr {
	list, ok := o.values["enum"].([]any)
	switch {
	case o.has("enum") && (!ok || len(list) == 0):
		return s.fail(where, "enum: want a list of at least one value")
	case o.has("const"):
		list = []any{o.values["const"]}
	}
	s.types(o, where) // refuses unknown types
	var texts []string
	others := o.without("enum")
	if o.has("const") {
		others = o.without("const")
	}
	for _, v := range list {
		if s.validator().valid(v, others, "", 0) == nil {
			data, err := s.literal(v)
			if err != nil {
				return s.fail(where, "%v", err)
			}
			texts = append(texts, data)
			if !s.spend(1<<5 + len(data)/4) {
				return alt()
			}
		}
	}
	slices.Sort(texts)
	return oneOfTexts(slices.Compact(texts))
}

// oneOfTexts returns the expression of any of the given texts, which are sorted. It merges common prefixes, so that the
// automaton is in one configuration while it reads a prefix.
func oneOfTexts(texts []string) *expr {
	e := alt()
	for len(texts) > 0 {
		if texts[0] == "" {
			e.list, texts = append(e.list, seq()), texts[1:]
			continue
		}
		n := 1 // texts with the same first byte
		for n < len(texts) && texts[n][0] == texts[0][0] {
			n++
		}
		common := len(texts[0])
		for i := range common {
			if last := texts[n-1]; i == len(last) || last[i] != texts[0][i] {
				common = i
				break
			}
		}
		var rests []string
		for _, t := range texts[:n] {
			rests = append(rests, t[common:])
		}
		begin := text(texts[0][:common])
		if n > 1 {
			begin = seq(begin, oneOfTexts(rests))
		}
		e.list, texts = append(e.list, begin), texts[n:]
	}
	return e
}
