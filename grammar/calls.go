package grammar

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Function is a callable function with a JSON Schema of its parameters. A call is Before, the arguments, and After. The
// arguments are a JSON object, or with Marks a list.
type Function struct {
	Name          string // in errors
	Parameters    []byte
	Strict        bool // refuse parameters with keywords that the grammar does not hold; else it does without them
	Before, After string
	Marks         *Marks
	Keywords      bool // the arguments are Python's: NAME=VALUE, ... with literals of Python
}

// Marks are the texts around the name and the value of each argument, which together are Param NAME ParamEnd VALUE
// ValueEnd without the spaces. A value that is a string has no quotes.
type Marks struct{ Param, ParamEnd, ValueEnd string }

// Token returns the name of a special token as a grammar writes it, in the texts of ParseCalls. Ordinary text, such as
// a string in an argument, never contains it.
func Token(name string) string { return tokenMark + name }

// tokenMark comes before the name of a special token. It occurs neither in JSON nor in unquoted arguments.
const tokenMark = "\x01"

// ParseCalls returns the grammar of a call of one of the functions, with the text before in front of it and the text
// after behind it. Arguments are always an object, even if a schema allows other values. ParseCalls returns an error
// for a schema that a grammar cannot express.
func ParseCalls(before string, functions []Function, after string) (*Grammar, error) {
	s := &schemas{ids: map[string]int{}}
	s.add("root", nil) // rule 0, whose body is set below
	e := alt()
	special := strings.Contains(before+after, tokenMark)
	for _, f := range functions {
		// One function with keyword arguments makes all values Python literals.
		s.python = s.python || f.Keywords
	}
	for _, f := range functions {
		if len(f.Parameters) > maxSource {
			return nil, fmt.Errorf("schema: the parameters of %s have %d bytes: want at most %d", f.Name,
				len(f.Parameters), maxSource)
		}
		root, err := readValue(f.Parameters)
		if err != nil {
			return nil, fmt.Errorf("schema: the parameters of %s: %w", f.Name, err)
		}
		special = special || strings.Contains(f.Before+f.After, tokenMark)
		s.root, s.scope, s.names, s.strict = root, f.Name, nil, f.Strict
		e.list = append(e.list, seq(text(f.Before), s.arguments(root, f), text(f.After)))
	}
	if s.err != nil {
		return nil, s.err
	}
	s.rules[0].body = seq(text(before), e, text(after))
	g, err := build(s.rules)
	if err == nil {
		g.special = special
	}
	return g, err
}

// arguments returns the expression of a function's arguments: JSON of an object, or the function's own form. root is
// the schema of the arguments.
func (s *schemas) arguments(root any, f Function) *expr {
	where := f.Name + "#"
	o, ok := root.(*object)
	switch {
	case root == true:
		o = newObject()
	case !ok:
		return s.fail(where, "want an object, or true")
	}
	if f.Marks != nil {
		return s.marked(o, where, *f.Marks)
	}
	if f.Keywords {
		return s.keywords(o, where)
	}
	onlyObjects := newObject() // the schema o, with type object
	for _, k := range o.keys {
		onlyObjects.set(k, o.values[k])
	}
	onlyObjects.set("type", "object")
	for _, key := range []string{"$ref", "allOf", "anyOf", "oneOf", "const", "enum"} {
		if o.has(key) { // merging finds the alternatives that are objects
			kind := newObject()
			kind.set("type", "object")
			onlyObjects = newObject()
			onlyObjects.set("allOf", []any{o, kind})
			break
		}
	}
	return s.add(where, func() *expr { return s.value(onlyObjects, where, 0) })
}

// pythonName matches the names of keyword arguments.
var pythonName = regexp.MustCompile(`^[\pL_][\pL\pN_]*$`)

// keywords returns the expression of the keyword arguments of a Python call, in the order of the schema's properties.
func (s *schemas) keywords(o *object, where string) *expr {
	target, ok := s.refTarget(o)
	if !ok {
		return s.fail(where, "want an object")
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "const", "enum"} {
		if target.has(key) {
			s.leave(where, key, " for arguments of Python")
		}
	}
	f, ok := s.fields(target, where)
	if !ok {
		return alt()
	}
	return s.inOrder(f, seq(), seq(), seq(text(","), optional(text(" "))), func(name string) *expr {
		if !pythonName.MatchString(name) {
			return s.fail(where, "property %.40q is not a valid name in Python: rename it", name)
		}
		return seq(text(name+"="), s.value(f.all.values[name], subpath(where, "properties", name), 0))
	})
}

// literal returns the text of a value: JSON, or a literal of Python if s.python is set.
func (s *schemas) literal(v any) (string, error) {
	if s.python {
		switch v := v.(type) {
		case nil:
			return "None", nil
		case bool:
			if v {
				return "True", nil
			}
			return "False", nil
		case []any:
			parts := make([]string, len(v))
			for i, x := range v {
				var err error
				if parts[i], err = s.literal(x); err != nil {
					return "", err
				}
			}
			return "[" + strings.Join(parts, ",") + "]", nil
		case *object:
			parts := make([]string, len(v.keys))
			for i, k := range v.keys {
				x, err := s.literal(v.values[k])
				if err != nil {
					return "", err
				}
				parts[i] = quote(k) + ":" + x
			}
			return "{" + strings.Join(parts, ",") + "}", nil
		}
	}
	data, err := marshal(v)
	return string(data), err
}

// word returns the expression that matches v, which is true, false or, for null, nil.
func (s *schemas) word(v any) *expr {
	t, err := s.literal(v)
	if err != nil {
		return s.fail("#", "%v", err)
	}
	return text(t)
}

// marked returns the expression of arguments in the order of the schema's properties, each with the marks m around its
// name and its value.
func (s *schemas) marked(o *object, where string, m Marks) *expr {
	properties, _ := o.values["properties"].(*object)
	if properties == nil {
		return seq()
	}
	required, _ := o.values["required"].([]any)
	e := seq()
	line := optional(text("\n"))
	for _, name := range properties.keys {
		at := subpath(where, "properties", name)
		one := seq(text(m.Param+name+m.ParamEnd), line, s.unquoted(properties.values[name], at, m.ValueEnd), line,
			text(m.ValueEnd), line)
		least := 0
		for _, r := range required {
			if r == any(name) {
				least = 1
			}
		}
		e.list = append(e.list, repeat(one, least, 1))
	}
	return e
}

// unquoted returns the expression of an argument up to the mark end. A string has no quotes, and anything else is JSON.
func (s *schemas) unquoted(schema any, where, end string) *expr {
	o, ok := schema.(*object)
	if !ok || o.values["type"] != any("string") {
		return s.add(where, func() *expr { return s.value(schema, where, 0) })
	}
	list, _ := o.values["enum"].([]any)
	if one, ok := o.values["const"]; ok {
		list = []any{one}
	}
	e := alt()
	for _, v := range list {
		if word, ok := v.(string); ok && !strings.Contains(word, end) {
			e.list = append(e.list, text(word))
		}
	}
	if len(e.list) > 0 {
		return e
	}
	return without(end) // any text that does not contain the mark
}

// without returns the expression of the texts that do not contain a mark. The mark's first character must occur in it
// only once. A start is a proper prefix of the mark. An end is a start and then a character that neither continues the
// mark nor is its first one. The texts are (other | start* end)* start*, with other for any character but the first.
func without(mark string) *expr {
	first, size := utf8.DecodeRuneInString(mark)
	never := span{0, 8} // excludes tokenMark and other control characters
	starts, ends := alt(), alt()
	for i := size; i < len(mark); {
		next, n := utf8.DecodeRuneInString(mark[i:])
		starts.list = append(starts.list, text(mark[:i]))
		ends.list = append(ends.list, seq(text(mark[:i]), set(invert([]span{never, {first, first}, {next, next}})...)))
		i += n
	}
	other := set(invert([]span{never, {first, first}})...)
	return seq(repeat(alt(other, seq(repeat(starts, 0, -1), ends)), 0, -1), repeat(starts, 0, -1))
}
