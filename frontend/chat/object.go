package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/vkc-go/vkc/internal/strictjson"
)

// Object is a mapping with its keys in order, since templates can see the order.
type Object []Field

// Field is a key of an Object and its value: nil, bool, int, float64, string, []any or Object.
type Field struct {
	Key   string
	Value any
}

// Get returns the value of a key, and whether there is one.
func (o Object) Get(key string) (value any, ok bool) {
	if i := slices.IndexFunc(o, func(f Field) bool { return f.Key == key }); i >= 0 {
		return o[i].Value, true
	}
	return nil, false
}

// ParseJSON parses JSON to a value for a Context. Unlike encoding/json, it keeps the order of an object's keys.
func ParseJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseJSON(d, 0)
	if err == nil {
		if _, next := d.Token(); !errors.Is(next, io.EOF) {
			err = errors.New("there is more text after its end")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("chat: the JSON at byte %d: %w", d.InputOffset(), err)
	}
	if err := strictjson.Check(data); err != nil {
		return nil, fmt.Errorf("chat: the JSON: %w", err)
	}
	return v, nil
}

// parseJSON reads the next value of d: nil, bool, int, float64, string, []any or Object. depth is its nesting depth.
func parseJSON(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("it nests more than %d deep", maxDepth)
	}
	switch t := t.(type) {
	case json.Number:
		if n, err := strconv.Atoi(t.String()); err == nil {
			return n, nil
		}
		return t.Float64()
	case json.Delim:
		if t == '[' {
			all := []any{}
			for d.More() {
				v, err := parseJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				all = append(all, v)
			}
			_, err := d.Token()
			return all, err
		}
		o := Object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := parseJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			o = append(o, Field{key.(string), v})
		}
		_, err := d.Token()
		return o, err
	}
	return t, nil
}

// UnmarshalJSON parses a message in the form of chat APIs. It keeps the order of the keys.
func (m *Message) UnmarshalJSON(data []byte) error {
	v, err := ParseJSON(data)
	if err != nil {
		return err
	}
	o, ok := v.(Object)
	if !ok {
		return errors.New("chat: a message is not a JSON object: want one with role and content")
	}
	*m = Message{}
	for _, f := range o {
		switch s, isText := f.Value.(string); {
		case f.Key == "role" && isText:
			m.Role = s
		case f.Key == "content" && f.Value == nil:
			m.Content = None
		case f.Key == "content":
			m.Content = f.Value
		default:
			m.More = append(m.More, f)
		}
	}
	return nil
}

// convert converts a value of the context to a value of templates. It marks its strings, because users may have written
// them, except the roles of messages.
func convert(r *run, v any, depth int) value {
	if depth > maxDepth {
		fail("a value of the context nests more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil, bool, int, float64:
		return v
	case string:
		return marked(v)
	case []any:
		l := &list{}
		for _, x := range v {
			l.items = append(l.items, convert(r, x, depth+1))
		}
		return l
	case Object:
		d := newDict()
		for _, f := range v {
			x := convert(r, f.Value, depth+1)
			if s, ok := x.(str); ok && f.Key == "role" {
				x = role(s.String())
			}
			d.set(r, marked(f.Key), x)
		}
		return d
	case map[string]any:
		var o Object
		for _, k := range slices.Sorted(maps.Keys(v)) {
			o = append(o, Field{k, v[k]})
		}
		return convert(r, o, depth)
	case []string:
		l := &list{}
		for _, x := range v {
			l.items = append(l.items, marked(x))
		}
		return l
	}
	fail("a value of the context is a %T: want nil, bool, int, float64, string, []any or chat.Object", v)
	return nil
}
