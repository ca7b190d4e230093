package emit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// templateOf returns the source of the GLSL template of an op for the types of its arguments, or "" if there is none.
func (ts *Types) templateOf(v *kernel.Expr) string {
	constant := func(arg int) (value float64, isConstant bool) {
		x := v.Args[arg]
		if x.DType.IsInteger() {
			return float64(x.Int), x.Kind == kernel.ExprConst
		}
		return x.Value, x.Kind == kernel.ExprConst
	}
	g := v.Op.Info().Form(v.Attrs, constant) // the op's templates for these attributes and constant arguments
	switch operand(v).DType.Kind() {
	case ir.KindFloat:
		switch {
		case v.Op == ir.OpRecip && ts.corrects(v):
			return "div_nearest(1.0, {0})"
		case v.Op == ir.OpDiv:
			return ts.division(v)
		case v.Op == ir.OpSin && isReduced(operand(v)):
			return "sin_reduced({0})"
		case v.Op == ir.OpCos && isReduced(operand(v)):
			return "cos_reduced({0})"
		}
		return g.Float
	case ir.KindInt:
		if arg := negatedArg(v); arg >= 0 && device.ConfusesNegatives(ts.Caps) && v.DType != ir.I64 {
			return fmt.Sprintf("{zero} - {%d}", arg)
		}
		return g.Int
	case ir.KindUint:
		return g.Uint
	case ir.KindBool:
		return g.Bool
	}
	return ""
}

// negatedArg returns the number of the argument that v negates, or -1 if v is not the negative value of an argument.
func negatedArg(v *kernel.Expr) int {
	isConst := func(arg int, x int64) bool { return v.Args[arg].Kind == kernel.ExprConst && v.Args[arg].Int == x }
	switch {
	case v.Op == ir.OpNeg:
		return 0
	case v.Op == ir.OpSub && isConst(0, 0), v.Op == ir.OpMul && isConst(0, -1):
		return 1
	case v.Op == ir.OpMul && isConst(1, -1):
		return 0
	}
	return -1
}

// isCustom reports whether v is a call of a custom op.
func isCustom(v *kernel.Expr) bool { return v.Op.Info().Custom != nil }

// division returns the template of a float division x / by. llvmpipe treats x / 0.0 as undefined. So a division by a
// constant 0 becomes a multiplication by infinity, and 0.0 / x calls a helper. A divisor that cannot be subnormal,
// such as an integer, needs only the operator. Other divisions use the op's row in package ir.
func (ts *Types) division(v *kernel.Expr) string {
	const plain = "{0} / {1}"
	x, by := v.Args[0], v.Args[1]
	constant, size := by.Kind == kernel.ExprConst, math.Abs(by.Value)
	switch {
	case x.Kind == kernel.ExprConst && x.Value == 0 && math.Signbit(x.Value):
		return "-zero_over({1})"
	case x.Kind == kernel.ExprConst && x.Value == 0:
		return "zero_over({1})"
	case constant && size == 0 && math.Signbit(by.Value):
		return "{0} * -{inf}"
	case constant && size == 0:
		return "{0} * {inf}"
	case ts.corrects(v):
		return "div_nearest({0}, {1})"
	// The divisor and its reciprocal are normal numbers, which no device flushes to zero.
	case constant && size >= 0x1p-126 && size <= 0x1p126:
		return plain
	case by.Kind == kernel.ExprApply && by.Op == ir.OpCast && !by.Args[0].DType.IsFloat(): // an integer
		return plain
	}
	return ir.OpDiv.Info().GLSL.Float
}

// corrects reports whether the quotient v must be the nearest number, and the device's division may give another.
func (ts *Types) corrects(v *kernel.Expr) bool {
	return v.Attrs.Bool(kernel.Nearest) && ts.ComputeType(v.DType) == "float" && !device.DividesToNearest(ts.Caps)
}

// isReduced reports whether an angle is provably within pi/4 of 0: an i32 (at most 2^31) times a small enough constant.
func isReduced(v *kernel.Expr) bool {
	if v.Kind != kernel.ExprApply || v.Op != ir.OpMul || v.DType != ir.F32 {
		return false
	}
	n, by := v.Args[0], v.Args[1]
	return n.Kind == kernel.ExprApply && n.Op == ir.OpCast && n.Args[0].DType == ir.I32 &&
		by.Kind == kernel.ExprConst && float32(math.Abs(by.Value)*(1<<31)) <= math.Pi/4
}

// operand returns the last argument of v. It has the type that the op computes with, unlike the first argument of
// where, which is a condition.
func operand(v *kernel.Expr) *kernel.Expr { return v.Args[len(v.Args)-1] }

// argUses counts how often each argument occurs in the template of v.
func (ts *Types) argUses(v *kernel.Expr) []int {
	times := make([]int, len(v.Args))
	if v.Op.Info().Converts() || isCustom(v) { // such an op is one call
		for i := range times {
			times[i] = 1
		}
		return times
	}
	ts.template(v).Walk(func(x *syntax.Expr) {
		if i, err := strconv.Atoi(x.Text); x.Op == syntax.Hole && err == nil && i < len(times) {
			times[i]++
		}
	})
	return times
}

// template returns the parsed template of v, without operations that its attributes make a no-op. It returns nil, and
// fails, if there is no template.
func (ts *Types) template(v *kernel.Expr) *syntax.Expr {
	source := ""
	if len(v.Args) > 0 {
		source = ts.templateOf(v)
	}
	if source == "" {
		ts.Fail("op %s has no scalar GLSL form for these arguments", v.Op)
		return nil
	}
	n, err := parseTemplate(source)
	if err != nil {
		ts.Fail("op %s: %v", v.Op, err)
		return nil
	}
	return dropNoOps(n, v.Attrs)
}

// apply returns an elementwise op, for a variable or an expression in scope target.
func (e *Emitter) apply(v *kernel.Expr, target *scope) expr.Expr {
	if v.Op == ir.OpCast {
		x := v.Args[0]
		if x.Kind == kernel.ExprIndex && v.DType == ir.U32 { // an index is a uint already
			return expr.Narrow(e.IndexValue(x.Index))
		}
		return e.cast(x, v.DType, e.valueFor(x, target))
	}
	if v.Op == ir.OpBitcast {
		return e.bitcast(v.Args[0].DType, v.DType, e.valueFor(v.Args[0], target))
	}
	if isCustom(v) {
		return e.applyCustom(v, target)
	}
	n := e.template(v)
	if n == nil {
		return expr.Of("0") // template has recorded an error, so the shader is not used
	}
	typ := e.arithmetic(v)
	t := fill(n, opSpelling{e, v, typ, e.applyArgs(v, target, typ)})
	if neverOverflows[v.Op] {
		return t
	}
	return wrap(v.DType, t)
}

// opSpelling is the spelling of the template of an op v with the given arguments, which have the compute type typ.
type opSpelling struct {
	e    *Emitter
	v    *kernel.Expr
	typ  string
	args []expr.Expr
}

// value returns an argument for its number, the value of an attribute for its name, or a constant.
func (s opSpelling) value(name string) expr.Expr {
	if i, err := strconv.Atoi(name); err == nil && i < len(s.args) {
		return s.args[i]
	}
	switch name {
	case "inf":
		return s.e.Number(s.typ, math.Inf(1))
	case "zero": // 0, which the driver's compiler does not know
		return expr.Of("int(gl_NumWorkGroups.x >> 31)")
	}
	return s.e.Number(s.typ, s.v.Attrs.Float(name))
}

func (s opSpelling) function(name string) string { return s.e.Function(name, s.typ) }

func (s opSpelling) literal(text string) expr.Expr {
	switch s.typ {
	case Pair:
		n, _ := expr.LiteralOf(expr.Of(text))
		return pairLit(n.V)
	case "double":
		return expr.Of(text + "lf") // without the suffix it would be a float
	}
	return expr.Of(text)
}

func (s opSpelling) operator(op string, args ...expr.Expr) expr.Expr {
	switch s.typ {
	case Pair:
		return s.e.pairOperator(op, args...)
	case "float", "double":
		if t, ok := s.e.withZero(s.typ, op, args); ok {
			return t
		}
		if !s.e.contracts(s.v) {
			return s.e.rounded(s.typ, op, args...)
		}
	}
	return operator(op, args...)
}

// rounded applies an operator to floats as an op of the graph, so that the result is rounded by itself.
func (r *Requirements) rounded(typ, op string, args ...expr.Expr) expr.Expr {
	if len(args) == 1 || !strings.Contains("+-*/", op) { // a sign, or a comparison
		return operator(op, args...)
	}
	if t, ok := expr.Folded(op, args[0], args[1]); ok {
		return t
	}
	x := &syntax.Expr{Op: syntax.Binary, Text: op, Precise: true, Args: args}
	r.Helper(x.Callee(), typ)
	return x
}

// withZero applies an operator to floats if one of them is the literal 0, and reports whether it did. Drivers turn x *
// 0.0 into 0 and x + 0.0 into x, which is wrong for infinities, NaN and -0.
func (r *Requirements) withZero(typ, op string, args []expr.Expr) (t expr.Expr, ok bool) {
	if len(args) != 2 {
		return t, false
	}
	for i, x := range args {
		negative, zero := isZero(args[1-i])
		_, known := expr.FloatOf(x)
		switch {
		case !zero || known:
			continue
		case op == "*":
			r.Helper("times_zero", typ)
			t = expr.Call("times_zero", x)
			if negative {
				t = expr.Unary("-", t)
			}
			return t, true
		case op == "+" && !negative, op == "-" && i == 0 && negative: // x + 0, 0 + x and x - -0
			r.Helper("plus_zero", typ)
			return expr.Call("plus_zero", x), true
		case op == "-" && i == 1 && !negative: // 0 - x
			r.Helper("plus_zero", typ)
			return expr.Call("plus_zero", expr.Unary("-", x)), true
		}
	}
	return t, false
}

// isZero reports whether t is a float or double literal of value 0, and whether that is -0.
func isZero(t expr.Expr) (negative, ok bool) {
	s := strings.TrimSuffix(t.Text, "lf")
	if t.Op != syntax.Number || !strings.ContainsAny(s, ".e") {
		return false, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return math.Signbit(v), err == nil && v == 0
}

// contracts reports whether v is a multiplication, and a phase (a reduction along the fold axis) adds up the products.
// The GLSL compiler may fuse such multiplications and additions.
func (j *Job) contracts(v *kernel.Expr) bool {
	return slices.ContainsFunc(j.K.Phases, func(p kernel.Phase) bool {
		return p.Combine == kernel.CombineSum && p.Value == v && (v.Op == ir.OpMul || v.Op == ir.OpSqr)
	})
}

// replacements maps built-in functions to the library functions that replace them for floats and doubles, because the
// built-in function loses NaN or may be inaccurate. doubleReplacements has functions that GLSL lacks for doubles.
var (
	replacements = map[string]string{"atan": "atan_accurate", "clamp": "nan_clamp", "log": "log_accurate",
		"log2": "log2_accurate", "inversesqrt": "inversesqrt_of_any"}
	doubleReplacements = map[string]string{"exp": "exp_accurate", "exp2": "exp2_accurate"}
)

// Spelled returns the name of the function that a template of type typ calls as name.
func Spelled(name, typ string) string {
	switch {
	case typ == "double" && doubleReplacements[name] != "":
		return doubleReplacements[name]
	case (typ == "float" || typ == "double") && replacements[name] != "":
		return replacements[name]
	case typ == Pair && pairBuiltins[name] != "":
		return pairBuiltins[name]
	}
	return name
}

// Function returns the name of the function to call where a template of type typ calls function name. It adds the
// function to the shader if it is in the library.
func (r *Requirements) Function(name, typ string) string {
	name = Spelled(name, typ)
	if lib.Names[name] {
		r.Helper(name, typ)
	}
	return name
}

// arithmetic is the type that an op computes with: the compute type of the result, or, for a bool result, of the
// arguments.
func (ts *Types) arithmetic(v *kernel.Expr) string {
	if v.DType != ir.Bool {
		return ts.ComputeType(v.DType)
	}
	typ := ts.ComputeType(operand(v).DType)
	for _, a := range v.Args {
		if ts.ComputeType(a.DType) == "double" {
			typ = "double"
		}
	}
	return typ
}

// applyArgs returns the arguments of op v as expressions for scope target, which computes the op. Kernels freely
// combine f32 results with f64 and f16 operands, so it converts each argument to typ, the type of the op's arithmetic.
func (e *Emitter) applyArgs(v *kernel.Expr, target *scope, typ string) []expr.Expr {
	args := make([]expr.Expr, len(v.Args))
	times := e.argUses(v)
	for i, a := range v.Args {
		if times[i] == 0 {
			continue
		}
		args[i] = e.valueFor(a, target)
		if v.Op == ir.OpWhere && i == 0 {
			continue // the condition stays a bool
		}
		args[i] = e.Coerce(e.ComputeType(a.DType), typ, args[i])
	}
	return args
}

// neverOverflows lists the ops with results in range if the arguments are in range. Their 8- and 16-bit results need no
// wrapping.
var neverOverflows = map[ir.Op]bool{ir.OpMin: true, ir.OpMax: true, ir.OpRem: true, ir.OpMod: true, ir.OpAnd: true,
	ir.OpOr: true, ir.OpXor: true, ir.OpWhere: true, ir.OpSign: true, ir.OpRelu: true}
