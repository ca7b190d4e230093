package grammar

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lengthBounds reads a minimum and a maximum number of elements or characters. A negative maximum means no bound. It
// replaces bounds of more than 31 bits by math.MaxInt32, which no text reaches.
func (s *schemas) lengthBounds(o *object, where, least, most string) (low, high int) {
	read := func(key string, missing int) int {
		if !o.has(key) {
			return missing
		}
		n, ok := wholeNumber(o.values[key])
		if !ok || n.Sign() < 0 {
			s.fail(where, "%s is %.40v: want a whole number, at least 0", key, o.values[key])
			return missing
		}
		if n.BitLen() > 31 {
			return math.MaxInt32
		}
		return int(n.Int64())
	}
	low, high = read(least, 0), read(most, -1)
	if high == math.MaxInt32 {
		high = -1
	}
	return low, high
}

// object builds the expression of an object. Each property is a rule that continues with the properties after it.
func (s *schemas) object(o *object, where string, depth int) *expr {
	f, ok := s.fields(o, where)
	if !ok {
		return alt()
	}
	if len(f.all.keys) == 0 && f.more == true && f.patterns == nil && f.names == nil {
		return s.anyObject()
	}
	sp := s.space()
	// after and first match the properties without a name in the schema: after if a property is before them, and first
	// if none is.
	after, first := seq(), seq()
	if keys := s.otherKeys(f, where, depth); keys != nil {
		pair := alt()
		for _, k := range keys {
			pair.list = append(pair.list, seq(text(`"`), k.name, text(`"`), sp, text(":"), sp, k.value))
		}
		pair = s.shared(pair)
		after = s.shared(repeat(seq(text(","), sp, pair, sp), 0, -1))
		first = s.shared(optional(seq(pair, sp, after)))
	}
	all := s.inOrder(f, after, first, seq(text(","), sp), func(name string) *expr {
		value := s.value(f.all.values[name], subpath(where, "properties", name), depth+1)
		return seq(text(quote(name)), sp, text(":"), sp, value, sp)
	})
	return seq(text("{"), sp, all, text("}"))
}

// inOrder returns the expression of the named properties of an object, in their order, with commas between. Properties
// that are not required may be missing. pair returns the expression of one property. after and first match the other
// properties, which come last: after if a property is before them, and first if none is.
func (s *schemas) inOrder(f fields, after, first, comma *expr, pair func(name string) *expr) *expr {
	for _, name := range slices.Backward(f.all.keys) {
		one := s.shared(pair(name))
		with, begin := seq(comma, one, after), seq(one, after)
		if !f.required[name] {
			with, begin = alt(with, after), alt(begin, first)
		}
		after, first = s.shared(with), s.shared(begin)
	}
	return first
}

// fields are the properties that objects may have.
type fields struct {
	all      *object // schemas of properties with names
	required map[string]bool
	more     any       // the schema of other properties
	patterns *object   // schemas by patterns of names, or nil
	names    *language // of the names of other properties, or nil
	closed   bool      // there are no other properties, although more describes some of the properties in all
}

// fields reads the keywords of an object about its properties: the schema of each named property (all), of other names
// (patterns and more), and the required ones. ok is false after an error.
func (s *schemas) fields(o *object, where string) (f fields, ok bool) {
	wrong := func(format string, args ...any) (fields, bool) {
		s.fail(where, format, args...)
		return f, false
	}
	properties, ok := o.values["properties"].(*object)
	if o.has("properties") && !ok {
		return wrong("properties: want an object")
	}
	if f.patterns, ok = o.values["patternProperties"].(*object); o.has("patternProperties") && !ok {
		return wrong("patternProperties: want an object")
	}
	if f.patterns != nil && len(f.patterns.keys) > maxPatterns {
		return wrong("patternProperties has %d patterns: want at most %d", len(f.patterns.keys), maxPatterns)
	}
	list, ok := o.values["required"].([]any)
	if o.has("required") && !ok {
		return wrong("required: want a list of names")
	}
	f.more, f.all, f.required = true, newObject(), map[string]bool{}
	for _, key := range []string{"unevaluatedProperties", "additionalProperties"} { // the second one decides
		if o.has(key) {
			f.more = o.values[key]
		}
	}
	// List the names: of properties, of required ones, and all that propertyNames allows, if they are few.
	if properties != nil {
		maps.Copy(f.all.values, properties.values)
		f.all.keys = slices.Clone(properties.keys)
	}
	allowed, ok := s.propertyNames(o, &f, where)
	if !ok {
		return f, false
	}
	for _, v := range list {
		name, ok := v.(string)
		if !ok {
			return wrong("required: want a list of names")
		}
		f.required[name] = true
		if !f.all.has(name) {
			f.all.set(name, nil)
		}
	}
	return f, s.setSchemas(&f, o, allowed, where)
}

// setSchemas gives each named property in f the schema that all keywords of o give it. allowed is the schema of names,
// or nil. It returns false after an error.
func (s *schemas) setSchemas(f *fields, o *object, allowed any, where string) bool {
	for _, name := range f.all.keys {
		schema, err := s.propertySchema(o, name, f.more, allowed)
		if err != nil {
			s.fail(where, "patternProperties: %v", err)
			return false
		}
		f.all.set(name, schema)
		if schema == false && f.required[name] {
			s.fail(where, "required names %q, which properties lacks and additionalProperties or another keyword "+
				"forbids", name)
			return false
		}
	}
	return s.err == nil
}

// propertySchema returns the schema of a named property of an object. It is the intersection of the schema in
// properties and the schemas of all patterns that the name matches, or `more` if there are none. It is false if the
// schema `allowed` forbids the name; nil allows all names.
func (s *schemas) propertySchema(o *object, name string, more, allowed any) (any, error) {
	check := s.validator()
	var list []any
	if properties, ok := o.values["properties"].(*object); ok && properties.has(name) {
		list = append(list, properties.values[name])
	}
	matched, err := check.matching(o, name)
	if err != nil {
		return nil, err
	}
	list = append(list, matched...)
	switch {
	case allowed != nil && check.valid(name, allowed, "", 0) != nil:
		return false, nil
	case len(list) == 0:
		return more, nil
	case len(list) == 1:
		return list[0], nil
	}
	return allOf(list...), nil
}

// maxPatterns bounds the patterns of names, as each set of them is a case of its own.
const maxPatterns = 5

// propertyNames applies keyword "propertyNames", a schema for the names of all properties, to f. If the schema lists
// the names (enum or const), f gets a property for each and no others. Otherwise f.names gets the language of the
// strings that the schema allows. propertyNames returns the schema, or nil if every name is allowed or the keyword is
// left out as unsupported. ok is false after an error.
func (s *schemas) propertyNames(o *object, f *fields, where string) (names any, ok bool) {
	if !o.has("propertyNames") || o.values["propertyNames"] == true {
		return nil, true
	}
	names = o.values["propertyNames"]
	if names == false {
		f.more, f.patterns = false, nil
		return names, true
	}
	schema, ok := s.refTarget(names)
	if !ok {
		s.fail(where, "propertyNames: want a schema")
		return nil, false
	}
	if list, ok := values(schema); ok {
		for _, v := range list {
			if name, ok := v.(string); ok && !f.all.has(name) {
				f.all.set(name, nil)
			}
		}
		f.closed = true
		return names, true
	}
	ofStrings := []string{"type", "pattern", "format", "minLength", "maxLength"} // keywords of languages
	for _, k := range schema.keys {
		if affects(k) && !slices.Contains(ofStrings, k) {
			s.leave(where, "propertyNames", " with "+k)
			return nil, true
		}
	}
	l, ok := s.languageOf(schema, subpath(where, "propertyNames"))
	f.names = &l
	return names, ok
}

// otherKey is a kind of names without properties of their own, and the values of such properties.
type otherKey struct{ name, value *expr }

// otherKeys returns the kinds of properties besides the named ones, each with its keys and values. There are none if
// other properties are not allowed.
func (s *schemas) otherKeys(f fields, where string, depth int) (list []otherKey) {
	if f.closed {
		return nil
	}
	if f.patterns == nil && f.names == nil {
		if f.more == false {
			return nil
		}
		name := s.otherKey(f.all.keys, where)
		return []otherKey{{name, s.value(f.more, subpath(where, "additionalProperties"), depth+1)}}
	}
	rest := language{high: -1} // all strings, of any length
	if f.names != nil {
		rest = *f.names
	}
	if len(f.all.keys) > 0 {
		rest.parts = append(slices.Clone(rest.parts), part{exactly(f.all.keys), true})
	}
	patterns, schemas, err := s.namePatterns(f)
	if err != nil {
		s.fail(where, "patternProperties: %v", err)
		return nil
	}
	// A property must match the schemas of all patterns that its name matches.
	for which := range 1 << len(patterns) { // bit i: whether a name matches patterns[i]
		l, value := rest, f.more
		l.parts = slices.Clone(rest.parts)
		var all []any
		for i, p := range patterns {
			matches := which>>i&1 == 1
			l.parts = append(l.parts, part{p, !matches})
			if matches {
				all = append(all, schemas[i])
			}
		}
		switch len(all) {
		case 0: // the schema of other properties
		case 1:
			value = all[0]
		default:
			value = allOf(all...)
		}
		if value != false {
			list = append(list, otherKey{s.strings(l, where),
				s.value(value, subpath(where, "patternProperties"), depth+1)})
		}
	}
	return list
}

// namePatterns returns the patterns of patternProperties, and the schema of each.
func (s *schemas) namePatterns(f fields) (patterns []*pattern, schemas []any, err error) {
	if f.patterns == nil {
		return nil, nil, nil
	}
	for _, source := range f.patterns.keys {
		p, err := parsePattern(source, s.spend)
		if err != nil {
			return nil, nil, err
		}
		patterns, schemas = append(patterns, p), append(schemas, f.patterns.values[source])
	}
	return patterns, schemas, nil
}

// exactly returns the pattern that matches the given strings and no others.
func exactly(list []string) *pattern {
	all := &pattern{op: patternAlt}
	for _, text := range list {
		one := &pattern{op: patternSeq, list: []*pattern{{op: patternBegin}}}
		for _, c := range text {
			one.list = append(one.list, &pattern{set: only(c)})
		}
		one.list = append(one.list, &pattern{op: patternEnd})
		all.list = append(all.list, one)
	}
	return all
}

// shared makes a rule of an expression that is used more than once.
func (s *schemas) shared(e *expr) *expr {
	return s.add("part "+strconv.Itoa(len(s.rules)), func() *expr { return e })
}

// otherKey returns the expression of the keys that are not among names, as they are between the quotes in JSON. Keys
// with escapes are left out.
func (s *schemas) otherKey(names []string, where string) *expr {
	var keys []string
	for _, n := range names {
		if len(n) > maxName {
			return s.fail(where, "the name of a property has %d bytes: want at most %d", len(n), maxName)
		}
		escaped := func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError }
		if !strings.ContainsFunc(n, escaped) {
			keys = append(keys, n)
		}
	}
	slices.Sort(keys)
	return s.otherThan(keys)
}

// otherThan matches texts of plain characters that are none of the sorted names.
func (s *schemas) otherThan(names []string) *expr {
	any := s.add("plain", func() *expr { return repeat(set(plain...), 0, -1) })
	if len(names) == 0 {
		return any
	}
	e := alt()
	if names[0] != "" {
		e.list = append(e.list, seq()) // the empty text
	}
	begins := []span{{0, ' ' - 1}, {'"', '"'}, {'\\', '\\'}}
	for i := 0; i < len(names); {
		if names[i] == "" {
			i++
			continue
		}
		c, size := utf8.DecodeRuneInString(names[i])
		// Names with the same first character: after it, their rests are excluded.
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

// array returns the expression of the arrays that a schema allows. where is the schema's path for errors, and depth its
// nesting.
func (s *schemas) array(o *object, where string, depth int) *expr {
	low, high := s.lengthBounds(o, where, "minItems", "maxItems")
	unique, isBool := o.values["uniqueItems"].(bool)
	if o.has("uniqueItems") && !isBool {
		return s.fail(where, "uniqueItems is %v: want true or false", o.values["uniqueItems"])
	}
	prefix, item, ok := s.elementSchemas(o, where)
	if !ok {
		return alt()
	}
	// The length and the schemas limit each other.
	if high >= 0 && high < len(prefix) {
		prefix = prefix[:high]
	}
	if item == false && (high < 0 || high > len(prefix)) {
		high = len(prefix)
	}
	if high >= 0 && low > high {
		return alt() // no text at all
	}
	if unique && (high < 0 || high > 1) {
		if texts, ok := s.finite(item, where); ok && len(prefix) == 0 {
			return s.distinct(texts, low, high)
		}
		s.leave(where, "uniqueItems", fmt.Sprintf(" unless the elements are of an enum, of at most %d values",
			maxDistinct))
	}
	if item == true && len(prefix) == 0 && low == 0 && high < 0 {
		return s.anyArray()
	}
	var list []*expr
	for i, x := range prefix {
		list = append(list, s.shared(s.value(x, subpath(where, "prefixItems", strconv.Itoa(i)), depth+1)))
	}
	further := alt() // no text at all
	if item != false {
		further = s.shared(s.value(item, subpath(where, "items"), depth+1))
	}
	return s.list(list, further, low, high)
}

// elementSchemas returns the schemas of an array's first elements, and the schema of all further ones. ok is false
// after an error.
func (s *schemas) elementSchemas(o *object, where string) (prefix []any, item any, ok bool) {
	item = true
	if o.has("items") {
		item = o.values["items"]
	}
	prefix, ok = o.values["prefixItems"].([]any)
	if o.has("prefixItems") && !ok {
		s.fail(where, "prefixItems: want a list of schemas")
		return nil, nil, false
	}
	older, isList := item.([]any)
	if !isList {
		return prefix, item, true
	}
	// Before draft 2020-12, items was the list, and additionalItems the schema of further elements.
	if o.has("additionalItems") {
		return older, o.values["additionalItems"], true
	}
	return older, true, true
}

// maxDistinct bounds the values of elements that differ: each set of them is a rule.
const maxDistinct = 10

// finite returns the texts of all values of a schema. ok is false if there are too many, or if the schema has no list
// of them.
func (s *schemas) finite(schema any, where string) (texts []string, ok bool) {
	o, ok := s.refTarget(schema)
	if !ok {
		return nil, false
	}
	list, ok := values(o)
	if o.values["type"] == "boolean" && !ok {
		list, ok = []any{true, false}, true
	}
	var kept []any
	for _, v := range list {
		known := slices.ContainsFunc(kept, func(x any) bool { return equalValues(x, v) })
		if known || s.validator().valid(v, o, "", 0) != nil {
			continue
		}
		if len(kept) == maxDistinct {
			return nil, false
		}
		kept = append(kept, v)
		data, err := s.literal(v)
		if err != nil {
			s.fail(where, "%v", err)
		}
		texts = append(texts, data)
	}
	return texts, ok && s.err == nil
}

// distinct returns the expression of an array of low to high different elements out of texts, in any order.
func (s *schemas) distinct(texts []string, low, high int) *expr {
	sp := s.space()
	if high < 0 || high > len(texts) {
		high = len(texts)
	}
	elements := make([]*expr, len(texts))
	for i, t := range texts {
		elements[i] = s.shared(seq(text(t), sp))
	}
	rests := make([]*expr, 1<<len(texts)) // what follows the elements of a set; bit i of a set is texts[i]
	for set := len(rests) - 1; set >= 0; set-- {
		n := bits.OnesCount(uint(set))
		e := alt()
		if n >= low {
			e.list = append(e.list, seq())
		}
		for i, x := range elements {
			if set>>i&1 == 0 && n < high {
				if set != 0 {
					x = seq(text(","), sp, x)
				}
				e.list = append(e.list, seq(x, rests[set|1<<i]))
			}
		}
		rests[set] = s.shared(e)
	}
	return seq(text("["), sp, rests[0], text("]"))
}

// list returns the expression of an array of the elements of prefix, and then others, item, of low to high elements in
// all. A negative high means no limit.
func (s *schemas) list(prefix []*expr, item *expr, low, high int) *expr {
	sp := s.space()
	next := func(e *expr) *expr { return seq(text(","), sp, e, sp) }
	most := func(n int) int { // a maximum less n elements
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
		rest = seq(e, rest)
		if i >= low {
			rest = optional(rest)
		}
	}
	return seq(text("["), sp, rest, text("]"))
}
