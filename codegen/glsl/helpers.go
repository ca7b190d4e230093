package glsl

import (
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// helper adds a library function for a type to the shader.
func (e *emitter) helper(name, typ string) {
	h, typ := findHelper(name, typ)
	if h == nil {
		e.fail("the library has no %s of %s", name, typ)
		return
	}
	if e.helpers[name+" "+typ] {
		return
	}
	e.helpers[name+" "+typ] = true
	e.needType(typ)
	if strings.Contains(h.source, "int64_t") {
		e.need(NeedInt64)
	}
	for _, u := range h.uses() {
		e.helper(u, typ)
	}
}

// functions returns the helpers, decoders and custom ops that main uses, and main last. Unused statements are removed.
func (e *emitter) functions() []*syntax.Definition {
	main := e.definition("void main() {\n}\n")
	main.Body = syntax.Prune(append(e.symbolLines(), e.root.body...))
	for _, d := range slices.Concat(e.decoders, []*syntax.Definition{main}) {
		d.Walk(func(x *syntax.Expr) {
			if x.Precise {
				e.helper(x.Callee(), x.Type)
			}
		})
	}
	var own []*syntax.Definition
	for _, h := range library {
		for _, typ := range h.types {
			if e.helpers[h.name+" "+typ] {
				own = append(own, h.definition(typ))
			}
		}
	}
	return pruneFunctions(append(own, e.decoders...), append(e.custom, main))
}
