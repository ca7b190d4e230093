package gguf

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrNoKey is the error, wrapped, of a metadata accessor if the file lacks the key. A value of another type has a
// different error.
var ErrNoKey = errors.New("no such metadata key")

// Metadata returns all metadata pairs in the order of the file. Do not modify slices in it, because the File uses them
// too.
func (f *File) Metadata() []KV { return slices.Clone(f.kvs) }

// Lookup returns the value of that key, with the Go type that KV documents.
func (f *File) Lookup(key string) (value any, ok bool) {
	i, ok := f.keys[key]
	if !ok {
		return nil, false
	}
	return f.kvs[i].Value, true
}

// String returns a string value.
func (f *File) String(key string) (string, error) { return get[string](f, key, "a string") }

// Bool returns a bool value.
func (f *File) Bool(key string) (bool, error) { return get[bool](f, key, "a bool") }

// Strings returns an array of strings, such as tokenizer.ggml.tokens. Do not modify it, because the File uses it too.
func (f *File) Strings(key string) ([]string, error) {
	return get[[]string](f, key, "an array of strings")
}

// Float returns a float32 or float64 value.
func (f *File) Float(key string) (float64, error) {
	v, err := f.get(key)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case float32:
		return float64(v), nil
	case float64:
		return v, nil
	}
	return 0, f.mismatch(key, v, "a float")
}

// Floats returns an array of float32, such as tokenizer.ggml.scores. Do not modify it, because the File uses it too.
func (f *File) Floats(key string) ([]float32, error) {
	return get[[]float32](f, key, "an array of float32")
}

// Uint returns an integer value of any width that is not negative.
func (f *File) Uint(key string) (uint64, error) {
	v, err := f.get(key)
	if err != nil {
		return 0, err
	}
	if u, ok := v.(uint64); ok {
		return u, nil
	}
	if i, ok := asInt64(v); ok && i >= 0 {
		return uint64(i), nil
	}
	return 0, f.mismatch(key, v, "an integer of at least 0")
}

// Int returns an integer value of any width that fits an int64.
func (f *File) Int(key string) (int64, error) {
	v, err := f.get(key)
	if err != nil {
		return 0, err
	}
	if i, ok := asInt64(v); ok {
		return i, nil
	}
	return 0, f.mismatch(key, v, "an integer of at most 2^63-1")
}

// Ints returns an array of integers of any width, such as tokenizer.ggml.token_type or, in models with different
// layers, a head count.
func (f *File) Ints(key string) ([]int64, error) {
	v, err := f.get(key)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case []uint8:
		return widen(v), nil
	case []int8:
		return widen(v), nil
	case []uint16:
		return widen(v), nil
	case []int16:
		return widen(v), nil
	case []uint32:
		return widen(v), nil
	case []int32:
		return widen(v), nil
	case []int64:
		return widen(v), nil
	case []uint64:
		if !slices.ContainsFunc(v, func(u uint64) bool { return u > math.MaxInt64 }) {
			return widen(v), nil
		}
	}
	return nil, f.mismatch(key, v, "an array of integers of at most 2^63-1")
}

// get returns the value of a key, which must have Go type T. want describes that type in errors.
func get[T any](f *File, key, want string) (T, error) {
	v, err := f.get(key)
	if err != nil {
		return *new(T), err
	}
	if t, ok := v.(T); ok {
		return t, nil
	}
	return *new(T), f.mismatch(key, v, want)
}

// get returns the value of a key, or an error that wraps ErrNoKey.
func (f *File) get(key string) (any, error) {
	v, ok := f.Lookup(key)
	if !ok {
		return nil, fmt.Errorf("gguf: %s%w: %q", f.prefix(), ErrNoKey, key)
	}
	return v, nil
}

// mismatch returns the error of a value with another type than wanted.
func (f *File) mismatch(key string, v any, want string) error {
	return fmt.Errorf("gguf: %smetadata %q is %s: want %s", f.prefix(), key, describe(v), want)
}

// prefix returns the beginning of errors: the file's path, if known.
func (f *File) prefix() string {
	if f.src.Path == "" {
		return ""
	}
	return f.src.Path + ": "
}

// describe formats a value for an error: its type, and also the value if it is an integer.
func describe(v any) string {
	if i, ok := asInt64(v); ok {
		return fmt.Sprintf("the %T %d", v, i)
	}
	return fmt.Sprintf("a %T", v)
}

// asInt64 converts an integer of any Go type that fits an int64. ok is false for other values.
func asInt64(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case uint8:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	}
	return 0, false
}

// widen converts integers of any width to int64.
func widen[E uint8 | int8 | uint16 | int16 | uint32 | int32 | int64 | uint64](s []E) []int64 {
	wide := make([]int64, len(s))
	for i, v := range s {
		wide[i] = int64(v)
	}
	return wide
}
