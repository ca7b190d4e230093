package emit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// A shader has the user's GLSL of a custom op between two comment lines. They tell a reader where it comes from, and
// map a line in a compiler's message to a line of the user's source.
const (
	CustomBegin = "// >>> custom op "
	CustomEnd   = "// <<< custom op "
)

// Bracketed returns the user's GLSL for a part of an op between these comment lines.
func Bracketed(op *ir.CustomOp, what, text, indent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s %s\n", indent, CustomBegin, op.Name, what)
	for _, line := range strings.Split(text, "\n") {
		b.WriteString(strings.TrimRight(indent+line, " \t") + "\n")
	}
	fmt.Fprintf(&b, "%s%s%s %s\n", indent, CustomEnd, op.Name, what)
	return b.String()
}

// customName is the name of a custom op's GLSL function, such as custom_mine_swish for mine.swish. No other name begins
// with this prefix. The first part of an op's name has no underscore, so no two ops have the same function.
func customName(op *ir.CustomOp) string { return "custom_" + strings.ReplaceAll(op.Name, ".", "_") }

// applyCustom returns the call of a custom op's function.
func (e *Emitter) applyCustom(v *kernel.Expr, target *scope) expr.Expr {
	op := v.Op.Info().Custom
	e.addCustomFunction(op, v)
	var args []expr.Expr
	for _, a := range v.Args {
		args = append(args, e.valueFor(a, target))
	}
	for _, at := range v.Attrs {
		args = append(args, e.AttrLit(at.Value))
	}
	return wrap(v.DType, expr.Call(customName(op), args...))
}

// AttrLit returns the value of a custom op's attribute.
func (ts *Types) AttrLit(value any) expr.Expr {
	switch x := value.(type) {
	case int64:
		return expr.Int(int64(int32(x)))
	case bool:
		return expr.Of(fmt.Sprint(x))
	case float64:
		return ts.FloatLit(x)
	}
	ts.Fail("attribute of type %T", value)
	return expr.Of("0")
}

// AttrType is the GLSL type of an attribute.
func AttrType(k ir.AttrKind) string {
	return map[ir.AttrKind]string{ir.AttrInt: "int", ir.AttrFloat: "float", ir.AttrBool: "bool"}[k]
}

// addCustomFunction adds the function of a custom op for the types of v's arguments, unless the shader has it. GLSL
// overloads functions by argument types.
func (ts *Types) addCustomFunction(op *ir.CustomOp, v *kernel.Expr) {
	var params []syntax.Param
	param := func(typ, name string) {
		if Reserved[name] {
			ts.Fail("custom op %s: %q cannot name an argument or attribute, as it means something in GLSL: choose "+
				"another name", op.Name, name)
		}
		params = append(params, syntax.Param{Type: typ, Name: name})
	}
	for i, a := range v.Args {
		typ := ts.ComputeType(a.DType)
		ts.NeedType(typ)
		param(typ, op.Args[i].Name)
	}
	for _, a := range op.Attrs {
		param(AttrType(a.Kind), a.Name)
	}
	result := ts.ComputeType(v.DType)
	ts.NeedType(result)
	text := Bracketed(op, "Body", op.Body, "    ")
	if op.Expr != "" {
		text = "    return (\n" + Bracketed(op, "Expr", op.Expr, "        ") + "    );\n"
	}
	fn := &syntax.Definition{Type: result, Name: customName(op), Params: params,
		Body: []syntax.Stmt{&syntax.Verbatim{Text: text}}}
	if op.Doc != "" {
		fn.Note = "// " + strings.Join(strings.Fields(op.Doc), " ") + "\n"
	}
	if !slices.ContainsFunc(ts.custom, func(o *syntax.Definition) bool { return o.String() == fn.String() }) {
		ts.custom = append(ts.custom, fn)
	}
}
