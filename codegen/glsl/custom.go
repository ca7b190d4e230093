package glsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Custom ops bring the user's GLSL. It stands between two comment lines. They tell a reader where it comes from. They
// also map a line in a compiler's message to a line of the user's source.
const (
	customBegin = "// >>> custom op "
	customEnd   = "// <<< custom op "
)

// bracketed puts the user's GLSL for a part of an op between its marks.
func bracketed(op *ir.CustomOp, what, text, indent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s %s\n", indent, customBegin, op.Name, what)
	for _, line := range strings.Split(text, "\n") {
		b.WriteString(strings.TrimRight(indent+line, " \t") + "\n")
	}
	fmt.Fprintf(&b, "%s%s%s %s\n", indent, customEnd, op.Name, what)
	return b.String()
}

// customName is the GLSL function of a custom op. No other name begins with this prefix. A package's name has no
// underscore, so no two ops share a name.
func customName(op *ir.CustomOp) string { return "custom_" + strings.ReplaceAll(op.Name, ".", "_") }

// applyCustom prints the call of a custom op's function.
func (e *emitter) applyCustom(v *kernel.Expr, home *scope) text {
	op := v.Op.Info().Custom
	e.customFunction(op, v)
	var args []text
	for _, a := range v.Args {
		args = append(args, e.valueFor(a, home))
	}
	for _, at := range v.Attrs {
		args = append(args, e.attrLit(at.Value))
	}
	return e.wrap(v.DType, call(customName(op), args...))
}

// attrLit prints an attribute of a custom op.
func (e *emitter) attrLit(value any) text {
	switch x := value.(type) {
	case int64:
		return intLit(int64(int32(x)))
	case bool:
		return primary(fmt.Sprint(x))
	case float64:
		return e.floatLit(x)
	}
	e.fail("attribute of type %T", value)
	return primary("0")
}

// attrType is the GLSL type of an attribute.
func attrType(k ir.AttrKind) string {
	return map[ir.AttrKind]string{ir.AttrInt: "int", ir.AttrFloat: "float", ir.AttrBool: "bool"}[k]
}

// customFunction adds the function of a custom op for the types of v, once for each list of types: GLSL overloads
// functions by their arguments.
func (e *emitter) customFunction(op *ir.CustomOp, v *kernel.Expr) {
	var params []syntax.Param
	param := func(typ, name string) {
		if reserved[name] {
			e.fail("custom op %s: %q cannot name an argument or attribute, as it means something in GLSL: choose "+
				"another name", op.Name, name)
		}
		params = append(params, syntax.Param{Type: typ, Name: name})
	}
	for i, a := range v.Args {
		typ := e.computeType(a.DType)
		e.needType(typ)
		param(typ, op.Args[i].Name)
	}
	for _, a := range op.Attrs {
		param(attrType(a.Kind), a.Name)
	}
	result := e.computeType(v.DType)
	e.needType(result)
	text := bracketed(op, "Body", op.Body, "    ")
	if op.Expr != "" {
		text = "    return (\n" + bracketed(op, "Expr", op.Expr, "        ") + "    );\n"
	}
	fn := &syntax.Definition{Type: result, Name: customName(op), Params: params,
		Body: []syntax.Stmt{&syntax.Verbatim{Text: text}}}
	if op.Doc != "" {
		fn.Note = "// " + strings.Join(strings.Fields(op.Doc), " ") + "\n"
	}
	if !slices.ContainsFunc(e.custom, func(o *syntax.Definition) bool { return o.String() == fn.String() }) {
		e.custom = append(e.custom, fn)
	}
}
