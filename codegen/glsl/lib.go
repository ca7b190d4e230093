package glsl

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// helper is a function or constant of the library. It replaces things that GLSL lacks, leaves undefined or computes too
// roughly. TYPE in the source stands for each of its types.
type helper struct {
	name   string
	types  []string
	source string
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
	for _, h := range library {
		names[h.name] = true
	}
	return names
}()

// libraryNames holds the names that variables must not hide.
var libraryNames = func() map[string]bool {
	names := maps.Clone(helperNames)
	for _, a := range exchanged {
		names[a.name] = true
	}
	return names
}()

// uses are the names of the helpers that h needs. They are defined before h.
func (h helper) uses() (names []string) {
	h.definition(h.types[0]).Names(func(name string) {
		if helperNames[name] && name != h.name && !slices.Contains(names, name) {
			names = append(names, name)
		}
	})
	return names
}

// findHelper returns the helper for a name and type, and its type. If the helper has a single type, it serves for any
// type.
func findHelper(name, typ string) (*helper, string) {
	var only *helper
	for i := range library {
		h := &library[i]
		if h.name != name {
			continue
		}
		if slices.Contains(h.types, typ) {
			return h, typ
		}
		only = h
	}
	if only == nil || len(only.types) != 1 {
		return nil, typ
	}
	return only, only.types[0]
}

// definitions caches the parsed definitions of the library, by name and type.
var definitions sync.Map

// definition is the helper for one of its types.
func (h helper) definition(typ string) *syntax.Definition {
	key := h.name + " " + typ
	if d, ok := definitions.Load(key); ok {
		return d.(*syntax.Definition)
	}
	d, err := syntax.ParseDefinition(strings.ReplaceAll(strings.Trim(h.source, "\n"), "TYPE", typ) + "\n")
	if err != nil {
		panic(err) // the library's own source is invalid, which its tests would show
	}
	definitions.Store(key, d)
	return d
}

// library is in the order of definition: a function uses only earlier ones. Functions of floats follow IEEE for NaN and
// infinity.
var library = slices.Concat(arithmeticLibrary, mathLibrary, randomLibrary, conversionLibrary, orderLibrary, byteLibrary,
	pairLibrary, quantizeLibrary, quantizeFits, quantizers())
