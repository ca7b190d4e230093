package ir

import "fmt"

// init adds the rows of the random numbers to the op table.
func init() {
	args := []ArgInfo{{Name: "seed"}, {Name: "offset"}}
	shape := AttrInfo{Name: "shape", Kind: AttrShape, Doc: "the shape"}
	attrs := []AttrInfo{{Name: "dtype", Kind: AttrDType, Default: F32, Doc: "the element type: f32, f16, bf16 or f64"},
		shape}
	rows(
		OpInfo{Op: OpRandomUniform, Cost: 20, Name: "random_uniform", Class: ClassRandom, Args: args, Attrs: attrs,
			Infer:  inferRandomFloat,
			NoGrad: noFloatsIn, Doc: "Uniform in [0, 1), with the same bits on every device. The element is the top 24 bits of its word times 2^-24 (f32, f64), the top 11 times 2^-11 (f16), or the top 8 times 2^-8 (bf16)."},
		OpInfo{Op: OpRandomNormal, Cost: 40, Name: "random_normal", Class: ClassRandom, Args: args, Attrs: attrs,
			Infer: inferRandomFloat, Tol: Tolerance{Eps: 256, Abs: 1e-6, Sum: true},
			NoGrad: noFloatsIn, Doc: "Normal with mean 0 and variance 1 (Box and Muller 1958). Elements 2j and 2j+1 are r*cos(a) and r*sin(a), with r = sqrt(-2*log1p(-u)) and a = 2*pi*v. u and v are the f32 elements 2j and 2j+1 of random_uniform."},
		OpInfo{Op: OpRandomBernoulli, Cost: 20, Name: "random_bernoulli", Class: ClassRandom, Args: args,
			Attrs: []AttrInfo{{Name: "p", Kind: AttrFloat, Doc: "the probability of true, 0 to 1"}, shape}, Infer: inferBernoulli,
			NoGrad: noFloats,
			Doc:    "True where the f32 uniform of the element's word is below p: where word>>8 < ceil(p*2^24)."},
	)
}

// inferRandom checks seed and offset, and returns a result of dtype t.
func (c *Call) inferRandom(t DType) (Type, error) {
	shape, streams := c.Attrs.Shape("shape"), c.Shape(0)
	for i := range c.Args {
		if d := c.DType(i); d != U32 && d != I64 || len(c.Shape(i)) > len(shape) ||
			!c.Shape(i).Equal(shape[:len(c.Shape(i))]) {
			return Type{}, fmt.Errorf("%s is %s, want u32 or i64, and a scalar or the first axes of %s", c.arg(i),
				c.Args[i].typ, shape)
		}
		if !c.Shape(i).Equal(streams) {
			return Type{}, fmt.Errorf("%s has shape %s and %s %s: want equal shapes", c.arg(i), c.Shape(i),
				c.arg(0), streams)
		}
	}
	return Type{t, shape}, nil
}

// inferRandomFloat is the type rule of random_uniform and random_normal.
func inferRandomFloat(c *Call) (Type, error) {
	t := c.Attrs.DType("dtype")
	switch t {
	case F32, F16, BF16, F64:
		return c.inferRandom(t)
	}
	return Type{}, fmt.Errorf("there are no random numbers of %s: cast f32 numbers", t)
}

// inferBernoulli checks the probability. The result is bool.
func inferBernoulli(c *Call) (Type, error) {
	if p := c.Attrs.Float("p"); !(p >= 0 && p <= 1) {
		return Type{}, fmt.Errorf("probability %v is outside 0..1", p)
	}
	return c.inferRandom(Bool)
}
