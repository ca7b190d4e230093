// Package lib is the library of GLSL functions and constants that shaders call. A row is a function in GLSL for one or
// several types, and tests compare its tree with its source. It replaces things that GLSL lacks, leaves undefined or
// computes too roughly.
package lib

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// Helper is a function or constant of the library. It replaces things that GLSL lacks, leaves undefined or computes too
// roughly. TYPE in the source stands for each of its types.
type Helper struct {
	Name   string
	Types  []string
	Source string
}

var (
	floats   = []string{"float", "double"}
	ints     = []string{"int", "int64_t"}
	f32Only  = []string{"float"}
	intOnly  = []string{"int"}
	longOnly = []string{"int64_t"}
	uintOnly = []string{"uint"}
)

// helperNames holds the names of the library.
var helperNames = func() map[string]bool {
	names := map[string]bool{}
	for _, h := range All {
		names[h.Name] = true
	}
	return names
}()

// Names holds the names that variables must not hide.
var Names = func() map[string]bool {
	names := maps.Clone(helperNames)
	for _, a := range Exchanged {
		names[a.Name] = true
	}
	return names
}()

// Uses are the names of the helpers that h needs. They are defined before h.
func (h Helper) Uses() (names []string) {
	h.Definition(h.Types[0]).Names(func(name string) {
		if helperNames[name] && name != h.Name && !slices.Contains(names, name) {
			names = append(names, name)
		}
	})
	return names
}

// Find returns the helper for a name and type, and its type. If the helper has a single type, it serves for any
// type.
func Find(name, typ string) (*Helper, string) {
	var only *Helper
	for i := range All {
		h := &All[i]
		if h.Name != name {
			continue
		}
		if slices.Contains(h.Types, typ) {
			return h, typ
		}
		only = h
	}
	if only == nil || len(only.Types) != 1 {
		return nil, typ
	}
	return only, only.Types[0]
}

// definitions caches the parsed definitions of the library, by name and type.
var definitions sync.Map

// Definition is the helper for one of its types.
func (h Helper) Definition(typ string) *syntax.Definition {
	key := h.Name + " " + typ
	if d, ok := definitions.Load(key); ok {
		return d.(*syntax.Definition)
	}
	d, err := syntax.ParseDefinition(strings.ReplaceAll(strings.Trim(h.Source, "\n"), "TYPE", typ) + "\n")
	if err != nil {
		panic(err) // the library's own source is invalid, which its tests would show
	}
	definitions.Store(key, d)
	return d
}

// All is in the order of definition: a function uses only earlier ones. Functions of floats follow IEEE for NaN and
// infinity.
var All = slices.Concat(arithmeticLibrary, mathLibrary, randomLibrary, conversionLibrary, orderLibrary, byteLibrary,
	pairLibrary, quantizeLibrary, quantizeFits, quantizers())
