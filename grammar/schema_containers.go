package grammar

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lengthBounds reads a minimum and a maximum number of elements or characters. A negative maximum means no bound.
// Bounds beyond any text's length become one that no text reaches.
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
	if low, high = read(least, 0), read(most, -1); high == math.MaxInt32 {
		high = -1
	}
	return low, high
}

// object builds the expression of an object. Each property is a rule that continues with the properties after it.
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
	// after and first match the rest of the object from a property on, with and without a property before it.
	after, first := seq(), seq()
	if more != false {
		key := s.otherKey(all.keys)
		pair := seq(key, sp, text(":"), sp, s.value(more, subpath(where, "additionalProperties"), depth+1))
		pair = s.shared(pair)
		after = s.shared(repeat(seq(text(","), sp, pair, sp), 0, -1))
		first = s.shared(optional(seq(pair, sp, after)))
	}
	for _, name := range slices.Backward(all.keys) {
		value := s.value(all.values[name], subpath(where, "properties", name), depth+1)
		pair := s.shared(seq(text(quote(name)), sp, text(":"), sp, value, sp))
		with, begin := seq(text(","), sp, pair, after), seq(pair, after)
		if !required[name] {
			with, begin = alt(with, after), alt(begin, first)
		}
		after, first = s.shared(with), s.shared(begin)
	}
	return seq(text("{"), sp, first, text("}"))
}

// shared makes a rule of an expression that is used more than once.
func (s *schemas) shared(e *expr) *expr {
	return s.add("part "+strconv.Itoa(len(s.rules)), func() *expr { return e })
}

// otherKey is a key without escapes that is not among names.
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

// otherThan matches plain characters that spell none of the sorted names.
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
	low, high := s.lengthBounds(o, where, "minItems", "maxItems")
	if unique, is := o.values["uniqueItems"].(bool); o.has("uniqueItems") && (unique || !is) {
		return s.fail(where, "uniqueItems is %v: that elements differ is not supported, want false",
			o.values["uniqueItems"])
	}
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
		list = append(list, s.shared(s.value(x, subpath(where, "prefixItems", strconv.Itoa(i)), depth+1)))
	}
	e := alt()
	if item != false {
		e = s.shared(s.value(item, subpath(where, "items"), depth+1))
	}
	return s.list(list, e, low, high)
}

// list is an array of some elements, and then others of one kind.
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
		if rest = seq(e, rest); i >= low {
			rest = optional(rest)
		}
	}
	return seq(text("["), sp, rest, text("]"))
}
