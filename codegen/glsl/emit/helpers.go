package emit

import (
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// Helper adds a library function for a type to the shader, with the functions that it calls.
func (e *Emitter) Helper(name, typ string) {
	h, typ := lib.Find(name, typ)
	if h == nil {
		e.Fail("the library has no %s of %s", name, typ)
		return
	}
	if e.Helpers[name+" "+typ] {
		return
	}
	e.Helpers[name+" "+typ] = true
	e.NeedType(typ)
	if strings.Contains(h.Source, "int64_t") {
		e.Need(NeedInt64)
	}
	for _, u := range h.Uses() {
		e.Helper(u, typ)
	}
}

// Functions returns the helpers, decoders and custom ops that main uses, and main itself last. It removes unused
// statements.
func (e *Emitter) Functions() []*syntax.Definition {
	main := e.Definition("void main() {\n}\n")
	main.Body = syntax.Prune(append(e.symbolLines(), e.Root.body...))
	var own []*syntax.Definition
	if device.LosesNaN(e.Caps) {
		own = slices.Clone(lib.NaNGuards)
	}
	for _, h := range lib.All {
		for _, typ := range h.Types {
			if e.Helpers[h.Name+" "+typ] {
				own = append(own, h.Definition(typ))
			}
		}
	}
	return pruneFunctions(append(own, e.Decoders...), append(e.custom, main))
}
