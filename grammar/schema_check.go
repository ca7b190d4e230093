package grammar

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Unheld lists the parts of a schema that the grammar does not hold, as PATH: KEYWORD. Check tests them.
func (g *Grammar) Unheld() []string { return g.unheld }

// Check returns an error if a text of the grammar is not valid by its schema. That is possible only with [Unheld]
// parts.
func (g *Grammar) Check(text string) error {
	if len(g.unheld) == 0 {
		return nil
	}
	v, err := readValue([]byte(text))
	if err != nil {
		return fmt.Errorf("the text is not JSON: %w", err)
	}
	c := &validator{s: &schemas{root: g.schema}}
	err = c.valid(v, g.schema, "", 0)
	if c.s.err != nil {
		return c.s.err
	}
	return err
}

// validator tests values by schemas (JSON Schema draft 2020-12).
type validator struct {
	s       *schemas
	formats bool // test formats too, by the patterns that grammars have; else they are annotations
}

// validator returns a validator for making a grammar: it tests formats, because grammars hold them.
func (s *schemas) validator() *validator { return &validator{s: s, formats: true} }

// wrong returns the error of a value. Its path is empty for the whole value.
func wrong(path, format string, args ...any) error {
	if path == "" {
		path = "the value"
	}
	return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
}

// valid returns an error if a value is not valid by a schema.
func (c *validator) valid(v, schema any, path string, depth int) error {
	if depth > maxNesting || !c.s.spend(4) {
		return wrong(path, "its schema takes too much work, or contains itself")
	}
	o, ok := schema.(*object)
	if !ok {
		if schema == false {
			return wrong(path, "its schema allows no value")
		}
		return nil
	}
	for _, k := range o.keys {
		if err := c.key(k, o.values[k], v, o, path, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// key returns an error if a value is not valid by keyword k of the schema o. want is the keyword's value.
func (c *validator) key(k string, want, v any, o *object, path string, depth int) error {
	list, _ := want.([]any) // nil for keywords without a list
	switch k {
	case "type":
		if list == nil {
			list = []any{want}
		}
		if !slices.ContainsFunc(list, func(t any) bool { name, _ := t.(string); return isA(v, name) }) {
			return wrong(path, "its type is not %v", want)
		}
	case "enum":
		if !slices.ContainsFunc(list, func(x any) bool { return equalValues(x, v) }) {
			return wrong(path, "it is not in enum")
		}
	case "const":
		if !equalValues(want, v) {
			return wrong(path, "it is not const")
		}
	case "$ref", "allOf", "anyOf", "oneOf", "not", "if":
		return c.subschemas(k, want, v, o, path, depth)
	}
	switch v := v.(type) { // the keywords for values of one type
	case string:
		return c.text(k, want, v, path)
	case []any:
		return c.array(k, want, v, o, path, depth)
	case *object:
		return c.object(k, want, v, o, path, depth)
	}
	if isNumber(v) {
		return c.number(k, want, v, path)
	}
	return nil
}

// subschemas tests value v by keyword k of the schema o, one that applies other schemas to v itself. want is the
// keyword's value.
func (c *validator) subschemas(k string, want, v any, o *object, path string, depth int) error {
	list, _ := want.([]any) // nil for keywords without a list
	switch k {
	case "$ref":
		ref, _ := want.(string)
		target, ok := c.s.resolve(ref)
		if !ok {
			return wrong(path, "$ref %q leads nowhere", ref)
		}
		return c.valid(v, target, path, depth)
	case "allOf":
		for _, x := range list {
			if err := c.valid(v, x, path, depth); err != nil {
				return err
			}
		}
	case "anyOf", "oneOf":
		holding := 0
		for _, x := range list {
			if c.valid(v, x, path, depth) == nil {
				holding++
			}
		}
		if tooMany := k == "oneOf" && holding > 1; holding == 0 || tooMany {
			return wrong(path, "%d schemas of %s hold", holding, k)
		}
	case "not":
		if c.valid(v, want, path, depth) == nil {
			return wrong(path, "it matches the schema of not")
		}
	case "if":
		branch := "then"
		if c.valid(v, want, path, depth) != nil {
			branch = "else"
		}
		if o.has(branch) {
			return c.valid(v, o.values[branch], path, depth)
		}
	}
	return nil
}

// count reads the bound of a number of parts.
func count(want any) int {
	n, ok := wholeNumber(want)
	if !ok || !n.IsInt64() {
		return 0
	}
	return int(n.Int64())
}

// text tests a string by one keyword.
func (c *validator) text(k string, want any, v, path string) error {
	n := utf8.RuneCountInString(v)
	switch {
	case k == "minLength" && n < count(want), k == "maxLength" && n > count(want):
		return wrong(path, "it has %d characters: %s is %v", n, k, want)
	case k == "pattern", k == "format" && c.formats:
		for _, source := range textsOf(want) {
			if k == "format" {
				known := formats[source]
				if known == "" {
					continue
				}
				source = "^(" + known + ")$"
			}
			p, err := parsePattern(source, c.s.spend)
			ok := false
			if err == nil {
				ok, err = p.matches(v, c.s.spend)
			}
			if err != nil || !ok {
				return wrong(path, "it does not match %.100q", source)
			}
		}
	}
	return nil
}

// number tests a number by one keyword.
func (c *validator) number(k string, want, v any, path string) error {
	if !slices.Contains([]string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}, k) {
		return nil
	}
	x, y := rational(v), rational(want)
	if x == nil || y == nil {
		return wrong(path, "it has too many digits")
	}
	at, ok := x.Cmp(y), true
	switch k {
	case "minimum":
		ok = at >= 0
	case "maximum":
		ok = at <= 0
	case "exclusiveMinimum":
		ok = at > 0
	case "exclusiveMaximum":
		ok = at < 0
	case "multipleOf":
		ok = y.Sign() > 0 && new(big.Rat).Quo(x, y).IsInt()
	}
	if !ok {
		return wrong(path, "it is %v: %s is %v", v, k, want)
	}
	return nil
}

// rational returns the value of a JSON number, or nil for another value or a number of too many digits.
func rational(v any) *big.Rat {
	d, ok := decimalOf(v)
	if !ok {
		return nil
	}
	text := d.whole.String() + "." + d.fraction + "0"
	if d.negative {
		text = "-" + text
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

// array tests an array by keyword k of the schema o. want is the keyword's value.
func (c *validator) array(k string, want any, v []any, o *object, path string, depth int) error {
	at := func(i int) string { return subpath(path, strconv.Itoa(i)) }
	list, isList := want.([]any)
	switch {
	case k == "minItems" && len(v) < count(want), k == "maxItems" && len(v) > count(want):
		return wrong(path, "it has %d elements: %s is %v", len(v), k, want)
	case k == "uniqueItems" && want == true:
		for i := range v {
			if !c.s.spend(i) {
				return wrong(path, "it has too many elements")
			}
			if slices.ContainsFunc(v[:i], func(x any) bool { return equalValues(x, v[i]) }) {
				return wrong(at(i), "it occurs twice: uniqueItems is true")
			}
		}
	case k == "prefixItems", k == "items" && isList:
		for i := range min(len(list), len(v)) {
			if err := c.valid(v[i], list[i], at(i), depth); err != nil {
				return err
			}
		}
	case k == "items", k == "additionalItems":
		prefix, _ := o.values["prefixItems"].([]any) // the schemas of the first elements
		// Before draft 2020-12, items was a list, and additionalItems the schema of further elements.
		if older, is := o.values["items"].([]any); is {
			prefix = older
		} else if k == "additionalItems" {
			return nil
		}
		for i := min(len(prefix), len(v)); i < len(v); i++ {
			if err := c.valid(v[i], want, at(i), depth); err != nil {
				return err
			}
		}
	case k == "contains":
		matching, least := 0, 1
		for i := range v {
			if c.valid(v[i], want, at(i), depth) == nil {
				matching++
			}
		}
		if o.has("minContains") {
			least = count(o.values["minContains"])
		}
		if matching < least || o.has("maxContains") && matching > count(o.values["maxContains"]) {
			return wrong(path, "contains matches %d of its elements", matching)
		}
	}
	return nil
}

// object tests the object v by keyword k of the schema o. want is the keyword's value.
func (c *validator) object(k string, want any, v *object, o *object, path string, depth int) error {
	switch {
	case k == "minProperties" && len(v.keys) < count(want), k == "maxProperties" && len(v.keys) > count(want):
		return wrong(path, "it has %d properties: %s is %v", len(v.keys), k, want)
	case k == "required":
		return hasAll(k, want, v, path)
	case k == "propertyNames":
		for _, name := range v.keys {
			if err := c.valid(name, want, subpath(path, name), depth); err != nil {
				return err
			}
		}
	case k == "additionalProperties", k == "patternProperties":
		return c.unnamed(k, want, v, o, path, depth)
	}
	fields, _ := want.(*object)
	if fields == nil {
		return nil // the keywords below want an object
	}
	for _, name := range fields.keys {
		if !v.has(name) {
			continue
		}
		var err error
		switch field := fields.values[name]; k {
		case "properties":
			err = c.valid(v.values[name], field, subpath(path, name), depth)
		case "dependentSchemas":
			err = c.valid(v, field, path, depth)
		case "dependentRequired":
			err = hasAll(k, field, v, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasAll tests that the object v has the properties of a list, which keyword k gives.
func hasAll(k string, list any, v *object, path string) error {
	names, _ := list.([]any)
	for _, name := range names {
		if name, ok := name.(string); ok && !v.has(name) {
			return wrong(path, "%q is missing, which %s requires", name, k)
		}
	}
	return nil
}

// unnamed tests properties of the object v by keyword k of the schema o. patternProperties applies to the properties
// that match its patterns. additionalProperties, with the schema want, applies to the properties that neither
// properties nor patternProperties describes.
func (c *validator) unnamed(k string, want any, v *object, o *object, path string, depth int) error {
	for _, name := range v.keys {
		schemas, err := c.matching(o, name)
		switch {
		case k == "patternProperties" && err != nil:
			return wrong(path, "%v", err)
		case k == "additionalProperties" && (err != nil || len(schemas) > 0 || slices.Contains(declared(o), name)):
			continue
		case k == "additionalProperties":
			schemas = []any{want}
		}
		for _, schema := range schemas {
			if err := c.valid(v.values[name], schema, subpath(path, name), depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// matching returns the schemas of patternProperties that a name matches.
func (c *validator) matching(o *object, name string) (list []any, err error) {
	fields, _ := o.values["patternProperties"].(*object)
	if fields == nil {
		return nil, nil
	}
	for _, source := range fields.keys {
		p, err := parsePattern(source, c.s.spend)
		if err != nil {
			return nil, err
		}
		ok, err := p.matches(name, c.s.spend)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, fields.values[source])
		}
	}
	return list, nil
}

// equalValues reports whether two JSON values are equal. Numbers are equal if their values are, also in different
// spellings.
func equalValues(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalValues)
	case *object:
		b, ok := b.(*object)
		return ok && len(a.keys) == len(b.keys) && !slices.ContainsFunc(a.keys, func(k string) bool {
			return !b.has(k) || !equalValues(a.values[k], b.values[k])
		})
	}
	if _, ok := b.([]any); ok {
		return false
	}
	if _, ok := b.(*object); ok {
		return false
	}
	if isNumber(a) && isNumber(b) {
		x, y := rational(a), rational(b)
		return x != nil && y != nil && x.Cmp(y) == 0
	}
	return a == b
}
