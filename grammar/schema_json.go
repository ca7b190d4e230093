package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/vkc-go/vkc/internal/strictjson"
)

// object is a JSON object with its keys in order.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) has(key string) bool { _, ok := o.values[key]; return ok }

// set sets the value of a key. A new key comes after the others.
func (o *object) set(key string, v any) {
	if !o.has(key) {
		o.keys = append(o.keys, key)
	}
	o.values[key] = v
}

// without returns the object without a key.
func (o *object) without(key string) *object {
	out := newObject()
	for _, k := range o.keys {
		if k != key {
			out.set(k, o.values[k])
		}
	}
	return out
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

// marshal encodes a value in canonical form.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// quote returns s as a JSON string.
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
	return v, strictjson.Check(data)
}

// decode reads one value, nested in depth others. See readValue.
func decode(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
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
			o.set(name, v)
		}
		_, err := d.Token()
		return o, err
	}
	return t, nil
}
