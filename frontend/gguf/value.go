package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// codec reads and writes values of one metadata type, single or in an array. After a failure, the cursor has the error
// and the read returns a zero value.
type codec interface {
	readOne(c *cursor, what string) any
	readMany(c *cursor, n int, what string) any
	isOne(v any) bool                 // whether v is a value of the type
	lenOf(v any) (n int, isMany bool) // whether v is a slice of such values, and its length
	// appendTo appends a value of the type, or the elements of a slice of such values, without type or count.
	appendTo(b []byte, v any) []byte
}

// fixed is the codec of a type with a fixed size, such as uint32.
type fixed[E any] struct{}

func (fixed[E]) readOne(c *cursor, what string) any {
	var v [1]E
	c.decode(v[:], what)
	return v[0]
}

func (fixed[E]) readMany(c *cursor, n int, what string) any {
	s := make([]E, n)
	c.decode(s, what)
	return s
}

func (fixed[E]) isOne(v any) bool { _, ok := v.(E); return ok }

func (fixed[E]) lenOf(v any) (int, bool) { s, ok := v.([]E); return len(s), ok }

// appendTo appends a value of fixed size, in little-endian order.
func (fixed[E]) appendTo(b []byte, v any) []byte {
	b, err := binary.Append(b, binary.LittleEndian, v)
	if err != nil {
		panic(err) // only for a type without a fixed size, which the table does not contain
	}
	return b
}

// decode reads the elements of s, a slice of a fixed-size type. what names them in errors.
func (c *cursor) decode(s any, what string) {
	at := c.pos
	b := c.take(binary.Size(s), what)
	if c.err != nil {
		return
	}
	if _, isBool := s.([]bool); isBool {
		for i, v := range b {
			if v > 1 {
				c.failAt(at+i, "%s has the byte %d: want 0 or 1 for a bool", what, v)
				return
			}
		}
	}
	if _, err := binary.Decode(b, binary.LittleEndian, s); err != nil {
		c.failAt(at, "%s: %v", what, err)
	}
}

// text is the codec of strings: a 64-bit length, and the bytes.
type text struct{}

func (text) readOne(c *cursor, what string) any { return c.str(math.MaxInt, what) }

// readMany reads n strings.
func (text) readMany(c *cursor, n int, what string) any {
	s := make([]string, n)
	for i := range s {
		s[i] = c.str(math.MaxInt, what)
		if c.err != nil {
			break
		}
	}
	return s
}

func (text) isOne(v any) bool { _, ok := v.(string); return ok }

func (text) lenOf(v any) (int, bool) { s, ok := v.([]string); return len(s), ok }

// appendTo appends a string or the strings of a slice.
func (text) appendTo(b []byte, v any) []byte {
	if s, ok := v.(string); ok {
		return appendString(b, s)
	}
	for _, s := range v.([]string) {
		b = appendString(b, s)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(appendU64(b, uint64(len(s))), s...)
}

func appendU32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }
func appendU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// readValue reads a type and then a value of that type. what names the value in errors.
func (c *cursor) readValue(what string) any {
	t, ok := c.readType(what)
	switch {
	case !ok:
		return nil
	case t == TypeArray:
		return c.readArray(1, what)
	default:
		return valueTypes[t].codec.readOne(c, what)
	}
}

// readArray reads an array: the type of its elements, their count and the elements. depth is the number of arrays
// around it, and what names it in errors.
func (c *cursor) readArray(depth int, what string) any {
	if depth > maxArrayDepth {
		c.failf("%s nests arrays more than %d deep", what, maxArrayDepth)
		return nil
	}
	elem, ok := c.readType("an element of " + what)
	if !ok {
		return nil
	}
	n := c.count(valueTypes[elem].minBytes, "the element count of "+what)
	if elem != TypeArray {
		return valueTypes[elem].codec.readMany(c, n, what)
	}
	arrays := make([]any, n)
	for i := range arrays {
		arrays[i] = c.readArray(depth+1, what)
		if c.err != nil {
			break
		}
	}
	return arrays
}

// readType reads the number of a value type.
func (c *cursor) readType(what string) (t ValueType, ok bool) {
	at := c.pos
	t = ValueType(c.u32("the type of " + what))
	if t >= numValueTypes {
		c.failAt(at, "the type of %s is %d: want 0 to %d", what, uint32(t), uint32(numValueTypes)-1)
	}
	return t, c.err == nil
}

// encodedValue returns the bytes of a value in a file: the number of its type, and then v. v has one of the Go types
// that KV documents.
func encodedValue(v any) ([]byte, error) {
	for t, row := range valueTypes {
		if row.codec != nil && row.codec.isOne(v) {
			return row.codec.appendTo(appendU32(nil, uint32(t)), v), nil
		}
	}
	return appendArray(appendU32(nil, uint32(TypeArray)), v, 1)
}

// appendArray appends the element type, the count and the elements of v, a slice.
func appendArray(b []byte, v any, depth int) ([]byte, error) {
	if depth > maxArrayDepth {
		return nil, fmt.Errorf("arrays nest more than %d deep", maxArrayDepth)
	}
	for t, row := range valueTypes {
		if row.codec == nil {
			continue
		}
		if n, ok := row.codec.lenOf(v); ok {
			return row.codec.appendTo(appendU64(appendU32(b, uint32(t)), uint64(n)), v), nil
		}
	}
	arrays, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("a GGUF value cannot be a %T: want a sized integer, float32, float64, bool, string "+
			"or a slice of one", v)
	}
	b = appendU64(appendU32(b, uint32(TypeArray)), uint64(len(arrays)))
	for _, inner := range arrays {
		var err error
		if b, err = appendArray(b, inner, depth+1); err != nil {
			return nil, err
		}
	}
	return b, nil
}
