package fast

import (
	"math"
	"sync"
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// primitive is a function of up to three numbers of 32 bits.
type primitive = primitiveOf[float32]

// primitiveOf is a function of up to three numbers. Functions plain and vectors apply it to each element of lists:
// out[i] becomes the result for x[i], y[i] and z[i]. out may be one of the arguments.
type primitiveOf[T number] struct {
	name    string
	plain   func(out, x, y, z []T)
	vectors func(out, x, y, z *T, n int) // assembly, for n a multiple of lanes; nil if there is none
	lanes   int
	work    int // cost per element, in quarters of a multiply-add
}

// apply sets each element of out to the function of x, y and z. It ignores arguments that the function does not have.
func (p *primitiveOf[T]) apply(out, x, y, z []T) {
	n := len(out)
	x, y, z = x[:n], y[:n], z[:n] // the assembly checks no bounds
	if p.vectors == nil {
		p.plain(out, x, y, z)
		return
	}
	whole := n / p.lanes * p.lanes
	if whole > 0 {
		p.vectors(&out[0], &x[0], &y[0], &z[0], whole)
	}
	if whole < n {
		p.oneVector(out[whole:], x[whole:], y[whole:], z[whole:])
	}
}

// oneVector applies function vectors to lists that are shorter than a vector, in memory for a whole vector. It does not
// use plain, which may round differently, or choose another of two zeros: an element's result must not depend on its
// place in a list, which the number of workers decides.
func (p *primitiveOf[T]) oneVector(out, x, y, z []T) {
	pool := &shortFloats
	if unsafe.Sizeof(out[0]) == 8 {
		pool = &shortDoubles
	}
	v := pool.Get().(*shortLists[T])
	clear(v.x[copy(v.x[:], x):])
	clear(v.y[copy(v.y[:], y):])
	clear(v.z[copy(v.z[:], z):])
	p.vectors(&v.out[0], &v.x[0], &v.y[0], &v.z[0], p.lanes)
	copy(out, v.out[:])
	pool.Put(v)
}

// shortLists has room for one vector of the result and of each argument. A pool keeps them: assembly takes their
// addresses, so each call would allocate them on the heap.
type shortLists[T number] struct{ out, x, y, z [16]T }

var shortFloats, shortDoubles = sync.Pool{New: func() any { return new(shortLists[float32]) }},
	sync.Pool{New: func() any { return new(shortLists[float64]) }}

// lanes is the number of elements in a vector of functions that exist for one width.
const lanes = 8

// of1 returns the primitive of a function of one number.
func of1[T number](f func(x T) T) *primitiveOf[T] {
	return &primitiveOf[T]{work: 4, plain: func(out, x, _, _ []T) {
		for i, v := range x {
			out[i] = f(v)
		}
	}}
}

// of2 returns the primitive of a function of two numbers.
func of2[T number](f func(x, y T) T) *primitiveOf[T] {
	return &primitiveOf[T]{work: 4, plain: func(out, x, y, _ []T) {
		for i, v := range x {
			out[i] = f(v, y[i])
		}
	}}
}

// truth returns 1 for true and 0 for false.
func truth[T number](is bool) T {
	if is {
		return 1
	}
	return 0
}

// inDouble returns a function that converts its argument to float64, and rounds the result of f.
func inDouble[T number](f func(float64) float64) func(T) T {
	return func(x T) T { return T(f(float64(x))) }
}

// primitives has the basic functions of expressions, by name or operator sign. widePrimitives has the same functions
// for 64 bits. definitions has the functions that consist of basic ones. Function assembled returns the assembly of
// some basic functions, which becomes their field vectors.
var primitives, widePrimitives = basicPrimitives[float32](), basicPrimitives[float64]()

// basicPrimitives returns the primitives on floats by name, in Go. work is the cost of an element.
func basicPrimitives[T number]() map[string]*primitiveOf[T] {
	list := map[string]*primitiveOf[T]{
		"+": {work: 4, plain: func(out, x, y, _ []T) {
			for i, v := range x {
				out[i] = v + y[i]
			}
		}},
		"-": {work: 4, plain: func(out, x, y, _ []T) {
			for i, v := range x {
				out[i] = v - y[i]
			}
		}},
		"*": {work: 4, plain: func(out, x, y, _ []T) {
			for i, v := range x {
				out[i] = v * y[i]
			}
		}},
		"/": {work: 4, plain: func(out, x, y, _ []T) {
			for i, v := range x {
				out[i] = v / y[i]
			}
		}},
		"<":         of2(func(x, y T) T { return truth[T](x < y) }),
		"<=":        of2(func(x, y T) T { return truth[T](x <= y) }),
		">":         of2(func(x, y T) T { return truth[T](x > y) }),
		">=":        of2(func(x, y T) T { return truth[T](x >= y) }),
		"==":        of2(func(x, y T) T { return truth[T](x == y) }),
		"!=":        of2(func(x, y T) T { return truth[T](x != y) }),
		"nan_min":   of2(func(x, y T) T { return min(x, y) }),
		"nan_max":   of2(func(x, y T) T { return max(x, y) }),
		"neg":       of1(func(x T) T { return -x }),
		"abs":       of1(func(x T) T { return T(math.Abs(float64(x))) }),
		"sqrt":      of1(func(x T) T { return T(math.Sqrt(float64(x))) }),
		"floor":     of1(func(x T) T { return T(math.Floor(float64(x))) }),
		"ceil":      of1(func(x T) T { return T(math.Ceil(float64(x))) }),
		"roundEven": of1(func(x T) T { return T(math.RoundToEven(float64(x))) }),
		"trunc":     of1(func(x T) T { return T(math.Trunc(float64(x))) }),
		"?:": {work: 4, plain: func(out, x, y, z []T) {
			for i, v := range x {
				if v != 0 {
					out[i] = y[i]
				} else {
					out[i] = z[i]
				}
			}
		}},
		unchanged: {work: 1, plain: func(out, x, _, _ []T) { copy(out, x) }},
	}
	for name, f := range functions {
		list[name] = of1(inDouble[T](f)).costs(16)
	}
	list["pow_full"] = of2(func(x, y T) T { return T(math.Pow(float64(x), float64(y))) }).costs(32)
	for t, name := range roundings {
		list[name] = of1(inDouble[T](func(x float64) float64 { return ir.RoundTo(x, t) })).costs(16)
	}
	list[roundings[ir.F32]] = of1(func(x T) T { return T(float32(x)) })
	return list
}

// roundedInWide returns the primitive that rounds float64 numbers to fewer bits than float32 has. narrow is the
// primitive that rounds float32 numbers to these bits. roundedInWide rounds to odd float32 first (see oddFloatsOf), so
// that narrow gives the same result as for the exact number.
func roundedInWide(narrow *primitive) *primitiveOf[float64] {
	return &primitiveOf[float64]{work: 8, plain: func(out, x, _, _ []float64) {
		room := parts.Get().(*[block]float32)
		defer parts.Put(room)
		for len(x) > 0 {
			part := room[:min(len(x), block)]
			oddFloatsOf(part, x)
			narrow.apply(part, part, part, part)
			doublesOf(out[:len(part)], part)
			out, x = out[len(part):], x[len(part):]
		}
	}}
}

// functions has the mathematical functions of one number.
var functions = map[string]func(float64) float64{
	"exp": math.Exp, "exp2": math.Exp2, "expm1": math.Expm1, "log": math.Log, "log2": math.Log2, "log1p": math.Log1p,
	"sin_accurate": math.Sin, "cos_accurate": math.Cos, "atan": math.Atan, "tanh_safe": math.Tanh, "erf": math.Erf,
	"logistic": func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
}

// roundings has the name of the primitive that rounds to a dtype.
var roundings = func() map[ir.DType]string {
	names := map[ir.DType]string{}
	for _, t := range ir.DTypes() {
		if t.IsFloat() && t != ir.F64 {
			names[t] = "to " + t.String()
		}
	}
	return names
}()

// unchanged is the name of the primitive that returns its argument.
const unchanged = "unchanged"

// costs sets the cost of p and returns p.
func (p *primitiveOf[T]) costs(work int) *primitiveOf[T] {
	p.work = work
	return p
}

// definitions has functions that are expressions of primitives. In GLSL they are built in, or defined in generated
// code. Some expressions are approximations for 32 bits: for these functions, wideDefinitions has other expressions.
var definitions = parsed(map[string]string{
	"clamp":       "nan_min(nan_max({0}, {1}), {2})",
	"sign":        "({0} > 0.0 ? 1.0 : ({0} < 0.0 ? -1.0 : 0.0))",
	"inversesqrt": "1.0 / sqrt({0})",
	"isnan":       "{0} != {0}",
	"isinf":       "abs({0}) > 340282346638528859811704183484516925440.0",
	"div_full":    "{0} / {1}",
	"&&":          "{0} * {1}",
	"||":          "nan_max({0}, {1})",
	"!":           "{0} == 0.0",
	// (1 + tanh(u)) / 2 is the logistic function of 2u, which avoids cancellation.
	"gelu_tanh": "{0} * logistic(1.5957691216057308 * ({0} + 0.044715 * {0} * {0} * {0}))",
	"softplus":  "nan_max({0}, 0.0) + log1p(exp(-abs({0})))",
	"selu":      "1.0507009873554805 * ({0} < 0.0 ? 1.6732632423543772 * expm1({0}) : {0})",
	// The square of exp(x/2) overflows only if the function does.
	"cosh_accurate": "half_exp(exp(0.5 * abs({0})), 1.0)",
	"sinh_accurate": "(abs({0}) < 1.0 ? {0} + {0} * sinh_rest({0} * {0}) : " +
		"sign({0}) * half_exp(exp(0.5 * abs({0})), -1.0))",
	"half_exp":  "0.5 * {0} * {0} + {1} * 0.5 / {0} / {0}",
	"sinh_rest": "((({0} * 0.0000027557319 + 0.0001984127) * {0} + 0.008333334) * {0} + 0.16666667) * {0}",
	// Inverse functions, without cancellation where they are near 0.
	"arsinh":      "(abs({0}) < 0.0001 ? {0} : sign({0}) * arsinh_abs(abs({0})))",
	"arsinh_abs":  "({0} > 4096.0 ? log({0}) + 0.6931472 : log1p({0} + {0} * {0} / (1.0 + sqrt({0} * {0} + 1.0))))",
	"arcosh":      "({0} > 4096.0 ? log({0}) + 0.6931472 : arcosh_more({0} - 1.0))",
	"arcosh_more": "log1p({0} + sqrt({0}) * sqrt({0} + 2.0))",
	"artanh":      "(abs({0}) < 0.0001 ? {0} : sign({0}) * 0.5 * log1p(2.0 * abs({0}) / (1.0 - abs({0}))))",
	// Polynomials of Cephes' asinf (Moshier).
	"arcsin":      "({0} == 0.0 ? {0} : sign({0}) * arcsin_abs(abs({0})))",
	"arcsin_abs":  "({0} > 0.5 ? 1.5707964 - 2.0 * arcsin_near(sqrt(0.5 - 0.5 * {0})) : arcsin_near({0}))",
	"arcsin_near": "{0} + {0} * arcsin_rest({0} * {0})",
	"arcsin_rest": "{0} * ((((0.0421632 * {0} + 0.024181311) * {0} + 0.04547003) * {0} + 0.074953) * {0} + " +
		"0.16666752)",
	"arccos": "(abs({0}) > 0.5 ? arccos_far({0}, 2.0 * arcsin_near(sqrt(0.5 - 0.5 * abs({0})))) : " +
		"1.5707964 - arcsin({0}))",
	"arccos_far": "({0} < 0.0 ? 3.1415927 - {1} : {1})",
})

var wideDefinitions = parsed(map[string]string{
	"isinf":         "abs({0}) > 1.7976931348623157e308",
	"sinh_accurate": "(abs({0}) < 0.00000001 ? {0} : sign({0}) * sinh_abs(abs({0})))",
	"sinh_abs":      "({0} < 22.0 ? sinh_of(expm1({0})) : half_exp(exp(0.5 * {0}), -1.0))",
	"sinh_of":       "0.5 * ({0} + {0} / ({0} + 1.0))",
	"arsinh":        "(abs({0}) < 0.00000001 ? {0} : sign({0}) * arsinh_abs(abs({0})))",
	"arsinh_abs": "({0} > 1000000000.0 ? log({0}) + 0.6931471805599453 : " +
		"log1p({0} + {0} * {0} / (1.0 + sqrt({0} * {0} + 1.0))))",
	"arcosh": "({0} > 1000000000.0 ? log({0}) + 0.6931471805599453 : arcosh_more({0} - 1.0))",
	"artanh": "(abs({0}) < 0.00000001 ? {0} : sign({0}) * 0.5 * log1p(2.0 * abs({0}) / (1.0 - abs({0}))))",
	"arcsin": "atan({0} / sqrt((1.0 - {0}) * (1.0 + {0})))",
	"arccos": "2.0 * atan(sqrt((1.0 - {0}) / (1.0 + {0})))",
})

// shorter has, by formula as ops define it, an equal formula with fewer primitives.
var shorter = map[string]string{
	"1.0 / (1.0 + exp(-{0}))": "logistic({0})",
	"{0} / (1.0 + exp(-{0}))": "{0} * logistic({0})",
}

// parsed parses formulas.
func parsed(texts map[string]string) map[string]*expression {
	list := map[string]*expression{}
	for name, text := range texts {
		e, err := parse(text)
		if err != nil {
			panic("fast: " + err.Error()) // a test covers all definitions
		}
		list[name] = e
	}
	return list
}

// init completes the primitives: it adds the ones on words, gives all their names, and then adds assembly where this
// processor has some.
func init() {
	addWordPrimitives()
	addRoundedTo()
	for name, op := range map[string]ir.Op{"exp": ir.OpExp, "log": ir.OpLog, "logistic": ir.OpSigmoid} {
		// Package math's functions are inexact near the ends of the range of f64.
		widePrimitives[name] = byReference[float64](op, 1, nil)
	}
	for name, p := range primitives {
		p.name = name
	}
	for name, p := range widePrimitives {
		p.name = name
	}
	for name, f := range assembled() {
		primitives[name] = primitives[name].with(f, lanes)
	}
	for t, name := range roundings {
		if t != ir.F32 {
			widePrimitives[name] = roundedInWide(primitives[name])
		}
	}
	for name, f := range assembledWide() {
		widePrimitives[name] = widePrimitives[name].with(f, lanes/2)
	}
	if vector != nil {
		for name, f := range vector.functions {
			primitives[name] = primitives[name].with(f, vector.lanes)
		}
		for name, f := range vector.doubles {
			widePrimitives[name] = widePrimitives[name].with(f, vector.lanes/2)
		}
		for _, name := range []string{"sin_accurate", "cos_accurate"} {
			widePrimitives[name] = bounded(widePrimitives[name], 1<<20)
		}
	}
	addRowOps()
}

// with returns p with assembly, a function f for vectors of the given number of lanes.
func (p *primitiveOf[T]) with(f func(out, x, y, z *T, n int), lanes int) *primitiveOf[T] {
	with := *p
	with.vectors, with.lanes = f, lanes
	with.work = ceil.Div(p.work, 4) // assembly takes about a quarter of the time
	return &with
}

// bounded returns p with its assembly only for lists of numbers with magnitudes of at most `most`. For other lists, it
// calls p.plain.
func bounded(p *primitiveOf[float64], most float64) *primitiveOf[float64] {
	with, f := *p, p.vectors
	with.vectors = func(out, x, y, z *float64, n int) {
		if list := unsafe.Slice(x, n); !within(list, 0, most) {
			p.plain(unsafe.Slice(out, n), list, list, list)
			return
		}
		f(out, x, y, z, n)
	}
	return &with
}

// byReference returns a primitive that calls the scalar reference of an op for each element. args is the op's number of
// arguments.
func byReference[T number](op ir.Op, args int, attrs ir.Attrs) *primitiveOf[T] {
	f := op.Info().Float
	return &primitiveOf[T]{work: 64, plain: func(out, x, y, z []T) {
		list := [...][]T{x, y, z}
		values := make([]float64, args)
		for i := range out {
			for k := range values {
				values[k] = float64(list[k][i])
			}
			out[i] = T(f(values, attrs))
		}
	}}
}
