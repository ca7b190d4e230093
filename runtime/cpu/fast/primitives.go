package fast

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// primitive is a function of up to three numbers. plain and vectors apply it to each element of lists: out[i] is the
// result for x[i], y[i] and z[i]. out may be one of the arguments.
type primitive struct {
	plain   func(out, x, y, z []float32)
	vectors func(out, x, y, z *float32, n int) // assembly, for n a multiple of lanes; nil if there is none
	work    int                                // cost per element, in quarters of a multiply-add
}

// apply sets each element of out to the function of x, y and z. It ignores arguments that the function does not have.
func (p *primitive) apply(out, x, y, z []float32) {
	n := len(out)
	x, y, z = x[:n], y[:n], z[:n] // the assembly checks no bounds
	whole := 0
	if p.vectors != nil && n >= lanes {
		whole = n / lanes * lanes
		p.vectors(&out[0], &x[0], &y[0], &z[0], whole)
	}
	if whole < n {
		p.plain(out[whole:], x[whole:], y[whole:], z[whole:])
	}
}

// lanes is the number of elements in a vector.
const lanes = 8

// of1 returns the primitive of a function of one number.
func of1(f func(x float32) float32) *primitive {
	return &primitive{work: 4, plain: func(out, x, _, _ []float32) {
		for i, v := range x {
			out[i] = f(v)
		}
	}}
}

// of2 returns the primitive of a function of two numbers.
func of2(f func(x, y float32) float32) *primitive {
	return &primitive{work: 4, plain: func(out, x, y, _ []float32) {
		for i, v := range x {
			out[i] = f(v, y[i])
		}
	}}
}

// truth returns 1 for true and 0 for false.
func truth(is bool) float32 {
	if is {
		return 1
	}
	return 0
}

// wide returns a function of float32 that converts its argument to float64, and rounds the result of f.
func wide(f func(float64) float64) func(float32) float32 {
	return func(x float32) float32 { return float32(f(float64(x))) }
}

// primitives has the basic functions of expressions, by name or operator sign. Functions that are made of these are in
// definitions. The fields vectors come from assembled.
var primitives = map[string]*primitive{
	"+":         of2(func(x, y float32) float32 { return x + y }),
	"-":         of2(func(x, y float32) float32 { return x - y }),
	"*":         of2(func(x, y float32) float32 { return x * y }),
	"/":         of2(func(x, y float32) float32 { return x / y }),
	"<":         of2(func(x, y float32) float32 { return truth(x < y) }),
	"<=":        of2(func(x, y float32) float32 { return truth(x <= y) }),
	">":         of2(func(x, y float32) float32 { return truth(x > y) }),
	">=":        of2(func(x, y float32) float32 { return truth(x >= y) }),
	"==":        of2(func(x, y float32) float32 { return truth(x == y) }),
	"!=":        of2(func(x, y float32) float32 { return truth(x != y) }),
	"nan_min":   of2(func(x, y float32) float32 { return min(x, y) }),
	"nan_max":   of2(func(x, y float32) float32 { return max(x, y) }),
	"neg":       of1(func(x float32) float32 { return -x }),
	"abs":       of1(wide(math.Abs)),
	"sqrt":      of1(wide(math.Sqrt)),
	"exp":       of1(wide(math.Exp)).costs(16),
	"floor":     of1(wide(math.Floor)),
	"ceil":      of1(wide(math.Ceil)),
	"roundEven": of1(wide(math.RoundToEven)),
	"trunc":     of1(wide(math.Trunc)),
	"?:": {work: 4, plain: func(out, x, y, z []float32) {
		for i, v := range x {
			if v != 0 {
				out[i] = y[i]
			} else {
				out[i] = z[i]
			}
		}
	}},
	roundings[ir.F16]:    rounding(ir.F16),
	roundings[ir.BF16]:   rounding(ir.BF16),
	roundings[ir.F8E4M3]: rounding(ir.F8E4M3),
	roundings[ir.F8E5M2]: rounding(ir.F8E5M2),
	unchanged:            of1(func(x float32) float32 { return x }),
}

// roundings has the name of the primitive that rounds to a dtype.
var roundings = map[ir.DType]string{ir.F16: "to f16", ir.BF16: "to bf16", ir.F8E4M3: "to f8e4m3",
	ir.F8E5M2: "to f8e5m2"}

// unchanged is the name of the primitive that returns its argument.
const unchanged = "unchanged"

// rounding returns the primitive that rounds to a dtype.
func rounding(t ir.DType) *primitive {
	return of1(wide(func(x float64) float64 { return ir.RoundTo(x, t) })).costs(16)
}

// costs sets the cost of p and returns p.
func (p *primitive) costs(work int) *primitive {
	p.work = work
	return p
}

// definitions has functions that are expressions of primitives. In GLSL they are built in, or defined in generated
// code.
var definitions = map[string]*expression{}

// init fills definitions, and adds the primitives on words and the assembly.
func init() {
	for name, text := range map[string]string{
		"clamp":       "nan_min(nan_max({0}, {1}), {2})",
		"sign":        "({0} > 0.0 ? 1.0 : ({0} < 0.0 ? -1.0 : 0.0))",
		"inversesqrt": "1.0 / sqrt({0})",
		"isnan":       "{0} != {0}",
		"isinf":       "abs({0}) > 340282346638528859811704183484516925440.0",
		"div_full":    "{0} / {1}",
		"&&":          "{0} * {1}",
		"||":          "nan_max({0}, {1})",
		"!":           "{0} == 0.0",
		// (1 + tanh(u)) / 2 equals 1 / (1 + e^-2u), which avoids cancellation.
		"gelu_tanh": "{0} / (1.0 + exp(-1.5957691216057308 * ({0} + 0.044715 * {0} * {0} * {0})))",
		// Near 0 the quotient of exponentials cancels, so a polynomial of Cephes' tanhf (Moshier) is used.
		"tanh_safe": "(abs({0}) < 0.625 ? {0} + {0} * tanh_rest({0} * {0}) : 1.0 - 2.0 / (exp(2.0 * {0}) + 1.0))",
		"tanh_rest": "{0} * ((((-0.00570498872745 * {0} + 0.0206390887954) * {0} - 0.0537397155531) * {0} + " +
			"0.133314422036) * {0} - 0.333332819422)",
	} {
		e, err := parse(text)
		if err != nil {
			panic("fast: " + err.Error()) // a test covers all definitions
		}
		definitions[name] = e
	}
	addWordPrimitives()
	for name, f := range assembled() {
		primitives[name].vectors = f
		primitives[name].work = (primitives[name].work + 3) / 4 // assembly takes about a quarter of the time
	}
}

// byReference returns a primitive that calls the scalar reference of an op with args arguments.
func byReference(op ir.Op, args int, attrs ir.Attrs) *primitive {
	f := op.Info().Float
	return &primitive{work: 64, plain: func(out, x, y, z []float32) {
		list := [...][]float32{x, y, z}
		values := make([]float64, args)
		for i := range out {
			for k := range values {
				values[k] = float64(list[k][i])
			}
			out[i] = float32(f(values, attrs))
		}
	}}
}
