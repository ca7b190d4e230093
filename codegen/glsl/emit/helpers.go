package emit

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

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
	// Functions of Definitions may call custom ops.
	kept := append(slices.Clone(e.custom), main)
	return pruneFunctions(slices.Concat(own, e.custom, e.Definitions, []*syntax.Definition{main}), kept)
}
