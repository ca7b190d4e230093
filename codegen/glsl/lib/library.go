// Package lib is the library of GLSL functions and constants that shaders call. They replace functions that GLSL lacks,
// leaves undefined or computes too inaccurately. Their source is in the .glsl files of this folder; functions that
// follow from a table of dtypes or formats are in Go.
package lib

import (
	"embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/ir"
)

// Helper is a function or constant of the library. TYPE in its source stands for each of its types.
type Helper struct {
	Name   string
	Types  []string
	Source string
}

var (
	floats  = []string{"float", "double"}
	f32Only = []string{"float"}
)

//go:embed *.glsl
var sources embed.FS

// read returns the helpers in a .glsl file. Blank lines separate helpers. A line such as "#pragma types float double"
// gives the types of the helpers after it. read leaves out comments that belong to no helper.
func read(file string) (list []Helper) {
	source, err := sources.ReadFile(file)
	if err != nil {
		panic(err) // the file is embedded, so this is a bug
	}
	var types []string
	for part := range strings.SplitSeq(strings.TrimSpace(string(source)), "\n\n") {
		if t, ok := strings.CutPrefix(part, "#pragma types "); ok {
			types = strings.Fields(t)
		} else if name := definedName(part); name != "" {
			list = append(list, Helper{name, types, part})
		}
	}
	return list
}

// definedName returns the name of the function, constant or macro that source defines. It returns "" if source has only
// comments.
func definedName(source string) string {
	for line := range strings.Lines(source) {
		if strings.HasPrefix(line, "//") {
			continue
		}
		words := strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" ()[]#", c) })
		if words[0] == "const" {
			return words[2]
		}
		return words[1] // after its type, or after #define
	}
	return ""
}

// helperNames has the names of all helpers.
var helperNames = func() map[string]bool {
	names := map[string]bool{}
	for _, h := range All {
		names[h.Name] = true
	}
	return names
}()

// Names has the names that variables must not hide: of helpers, and of the shared arrays that they use.
var Names = func() map[string]bool {
	names := maps.Clone(helperNames)
	for _, a := range Exchanged {
		names[a.Name] = true
	}
	names[Codebook] = true
	return names
}()

// Uses returns the names of the helpers that h calls. They are defined before h.
func (h Helper) Uses() (names []string) {
	h.Definition(h.Types[0]).Names(func(name string) {
		if helperNames[name] && name != h.Name && !slices.Contains(names, name) {
			names = append(names, name)
		}
	})
	return names
}

// Find returns the helper with a name for a type, and the type. If the only helper of this name has a single type, Find
// returns it with that type, for any typ. If there is no helper, it returns nil and typ.
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

// definitions caches the parsed definitions of helpers, by name and type.
var definitions sync.Map

// Definition returns the parsed helper for one of its types.
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

// NaNGuards are macros that make built-in functions keep NaN, for devices on which these may return a number. A macro
// is not expanded inside itself, so its body calls the built-in function. The macros come before all functions.
var NaNGuards = []*syntax.Definition{guard("exp"), guard("exp2"), guard("log"), guard("log2")}

// guard returns the macro that returns NaN for NaN and the value of the built-in function for other numbers.
func guard(function string) *syntax.Definition {
	x := syntax.Ident("x")
	return &syntax.Definition{Note: "// The device's own may give a number for NaN.\n", Type: "#define", Name: function,
		Params: []syntax.Param{{Name: "x"}},
		Value:  syntax.Calling("mix", syntax.Calling(function, x), x, syntax.Calling("isnan", x))}
}

// All has the helpers in the order of definition: a function uses only earlier ones. Functions of floats treat NaN and
// infinity as IEEE 754 does.
var All = slices.Concat(read("arithmetic.glsl"), read("math.glsl"), read("doubles.glsl"), read("random.glsl"),
	read("convert.glsl"), storedLibrary, read("order.glsl"), read("bytes.glsl"), read("pairs.glsl"),
	read("quantize.glsl"), read("fit.glsl"), read("grid.glsl"), quantizers())

// Exchanged are the arrays in shared memory through which the invocations that quantize one block exchange data.
// Library functions use these names.
var Exchanged = []struct {
	Name, Typ string
	Each      func(lanes, elems int) int // number of elements per block
}{
	{"group_fits", "vec2", func(lanes, _ int) int { return lanes }},
	{"group_codes", "uint", func(lanes, _ int) int { return lanes }},
	{"block_levels", "uint", func(_, elems int) int { return elems / 4 }}, // four quants per element
}

// Codebook is the array in shared memory with the codebook that the functions of grid.glsl search. Its name is not the
// usual name of the buffer, so that shaders may have both.
const Codebook = "searched_codebook"

// quantizers returns the functions that quantize a block, one or two for each format.
func quantizers() (all []Helper) {
	for _, t := range ir.QuantizeFormats() {
		f, _ := ir.BlockFormatOf(t)
		all = append(all, Helper{"quantize_" + f.Name, f32Only, f.Encode})
		if f.Pack != "" { // several invocations may share a block
			all = append(all, Helper{"pack_" + f.Name, f32Only, f.Pack})
		}
	}
	return all
}
