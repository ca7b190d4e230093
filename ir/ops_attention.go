package ir

import (
	"fmt"
	"math"
	"slices"
)

// init adds the rows of the attention ops to the op table.
func init() {
	rows(
		OpInfo{Op: OpAttention, Name: "attention", Class: ClassAttention,
			Args: []ArgInfo{{Name: "q"}, {Name: "k"}, {Name: "v"}, {Name: "mask", Optional: true}, {Name: "sinks", Optional: true}},
			Attrs: slices.Concat(scoreAttrs, []AttrInfo{
				{Name: "precision", Kind: AttrString, Default: PrecisionFull,
					Enum: []string{PrecisionFull, PrecisionHalf},
					Doc:  "how far a device may round to be faster. full: not at all. half: it may round queries, keys, values and softmax weights to f16."},
				{Name: "zero_nan", Kind: AttrBool, Default: false,
					Doc: "softmax weights that are NaN count as 0, so a query that sees no key has the result 0"},
			}), Infer: inferAttention, Tol: Tolerance{Eps: 512, Abs: 1e-5, Sum: true},
			Doc: "Scaled dot-product attention: softmax(q k^T * scale + mask) v. q is [..., H, T, D]. k and v are [..., G, S, D], and H is a multiple of G (grouped heads). mask broadcasts to [..., H, T, S]. A float mask is added to the scores. In a mask of bools or integers, values other than 0 mark the keys that a query sees. sinks [H] adds one key per head, which every query sees (Xiao et al. 2023). The element of sinks is the score of that key, and its value is 0. With sinks, mask may be a scalar 0."},
		OpInfo{Op: OpAttentionLSE, Name: "attention_lse", Class: ClassAttention,
			Args:  []ArgInfo{{Name: "q"}, {Name: "k"}, {Name: "mask", Optional: true}, {Name: "sinks", Optional: true}},
			Attrs: scoreAttrs, Infer: inferAttentionLSE, Tol: Tolerance{Eps: 512, Abs: 1e-5, Sum: true},
			Doc: "Logarithm of the softmax denominator of each query: log(sum(exp(q k^T * scale + mask))) over the keys that it sees. The arguments are attention's. The result is [..., H, T] in f32, or in f64 if q is f64. It is -inf for a query that sees no key, and NaN if a score is inf, as in attention. It serves to join attentions over parts of the keys, and to recompute weights for gradients."},
		OpInfo{Op: OpAttentionGrad, Name: "attention_grad", Class: ClassAttention,
			Args: []ArgInfo{{Name: "q"}, {Name: "k"}, {Name: "v"}, {Name: "grad"}, {Name: "lse"}, {Name: "delta"},
				{Name: "mask", Optional: true}},
			Attrs: slices.Concat([]AttrInfo{{Name: "of", Kind: AttrString, Default: "q", Enum: []string{"q", "k", "v"},
				Doc: "the argument with the gradient that the op computes"}}, scoreAttrs),
			Infer: inferAttentionGrad, Tol: Tolerance{Eps: 512, Abs: 1e-5, Sum: true},
			Doc: "Gradient of attention(q, k, v, mask) with respect to q, k or v, with recomputed scores (Dao, " +
				"2023, FlashAttention-2, section 3.1). The weights are p = exp(q k^T * scale + mask - lse). The " +
				"gradient of the scores is d = p * (grad v^T - delta) * scale, times the slope of softcap, and " +
				"0 if p is 0. For q the result is d k, for k it is d^T q, and for v it is p^T grad. An " +
				"element that is not finite may make a result NaN also where its p is 0. lse [..., " +
				"H, T] is attention_lse with the same mask and sinks. delta [..., H, T] is the sum of grad " +
				"times the attention's result over the innermost axis. The gradient for k or v is [..., H, S, " +
				"_], one per query head: the caller adds up heads that share keys."},
	)
}

// scoreAttrs are the attributes that define the scores of an attention.
var scoreAttrs = []AttrInfo{
	{Name: "causal", Kind: AttrBool, Default: false, Doc: "query i sees only keys up to i+S-T"},
	{Name: "window", Kind: AttrInt, Default: int64(0), Doc: "if not 0, query i sees only the last `window` keys up to i+S-T; needs causal"},
	{Name: "scale", Kind: AttrFloat, Default: 0.0, Doc: "multiplies the scores; 0 means 1/sqrt(D)"},
	{Name: "softcap", Kind: AttrFloat, Default: 0.0, Doc: "if not 0, scores become softcap*tanh(score/softcap) before the mask is added (Gemma Team, 2024)"},
}

// inferHeads checks the arguments that all attention ops share, with values of shape v, and returns the shape of the
// scores, [..., H, T, S].
func inferHeads(c *Call, v Shape) (Shape, error) {
	if err := checkHeadDTypes(c); err != nil {
		return nil, err
	}
	if err := checkAttentionAttrs(c.Attrs); err != nil {
		return nil, err
	}
	if err := checkHeadShapes(c, v); err != nil {
		return nil, err
	}
	in := c.Op.Info()
	q, k := c.Shape(0), c.Shape(1)
	scores := slices.Concat(q[:len(q)-1], Shape{k[len(k)-2]})
	if mask := in.Arg("mask"); mask < len(c.Args) {
		if s, err := BroadcastShapes(c.Shape(mask), scores); err != nil || !s.Equal(scores) {
			return nil, fmt.Errorf("%s %s does not broadcast to the scores %s", c.arg(mask), c.Shape(mask), scores)
		}
	}
	queryHeads := q[len(q)-3]
	if sinks := in.Arg("sinks"); sinks >= 0 && sinks < len(c.Args) && !c.Shape(sinks).Equal(Shape{queryHeads}) {
		return nil, fmt.Errorf("%s %s: want [%s], one score per query head", c.arg(sinks), c.Shape(sinks),
			queryHeads)
	}
	return scores, nil
}

// checkHeadDTypes checks that all arguments are floats, except the mask, and that keys, values and the gradient have
// the dtype of the queries.
func checkHeadDTypes(c *Call) error {
	in := c.Op.Info()
	mask := in.Arg("mask")
	for i := range c.Args {
		kinds := []Kind{KindFloat}
		if i == mask {
			kinds = append(kinds, KindBool, KindInt, KindUint)
		}
		if err := c.wantKinds(i, kinds...); err != nil {
			return err
		}
	}
	for i, a := range in.Args[:min(len(c.Args), len(in.Args))] {
		switch a.Name {
		case "k", "v", "grad":
			if err := c.wantSame(0, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkHeadShapes checks that q is [..., H, T, D], k [..., G, S, D] and v [..., G, S, E], where H is a multiple of G.
func checkHeadShapes(c *Call, v Shape) error {
	q, k := c.Shape(0), c.Shape(1)
	have := fmt.Sprintf("%s %s and %s %s", c.arg(0), q, c.arg(1), k)
	if c.Op.Info().Arg("v") >= 0 {
		have = fmt.Sprintf("%s %s, %s %s and %s %s", c.arg(0), q, c.arg(1), k, c.arg(2), v)
	}
	r := len(q)
	if r < 3 || len(k) != r || len(v) != r {
		return fmt.Errorf("%s: want [..., heads, length, dim] of one rank", have)
	}
	if !q[:r-3].Equal(k[:r-3]) || !q[:r-3].Equal(v[:r-3]) {
		return fmt.Errorf("%s: outer axes differ", have)
	}
	queryHeads, keyHeads := q[r-3], k[r-3]
	static := queryHeads.IsStatic() && keyHeads.IsStatic()
	if !static || v[r-3] != keyHeads || keyHeads.Add == 0 || queryHeads.Add%keyHeads.Add != 0 {
		return fmt.Errorf("%s: the %s query heads are not a multiple of the key heads", have, queryHeads)
	}
	if q[r-1] != k[r-1] || k[r-2] != v[r-2] {
		return fmt.Errorf("%s: want q [..., T, D], k [..., S, D], v [..., S, E]", have)
	}
	if !q[r-1].IsStatic() {
		return fmt.Errorf("the head dim %s is symbolic: want a number", q[r-1])
	}
	return nil
}

// checkAttentionAttrs checks the attributes softcap and window.
func checkAttentionAttrs(attrs Attrs) error {
	if softcap := attrs.Float("softcap"); !(softcap >= 0) || math.IsInf(softcap, 1) {
		return fmt.Errorf("softcap is %v: want a positive number, or 0 for none", softcap)
	}
	switch window := attrs.Int("window"); {
	case window < 0 || window > math.MaxInt32:
		return fmt.Errorf("window is %d: want the number of keys that a query sees, or 0 for all", window)
	case window > 0 && !attrs.Bool("causal"):
		return fmt.Errorf("window %d also needs causal, because a window ends at the query's position", window)
	}
	return nil
}

// inferAttention is the type rule of attention: the result is [..., H, T, E] for values [..., G, S, E].
func inferAttention(c *Call) (Type, error) {
	v := c.Shape(2)
	scores, err := inferHeads(c, v)
	if err != nil {
		return Type{}, err
	}
	return Type{c.DType(0), slices.Concat(scores[:len(scores)-1], v[len(v)-1:])}, nil
}

// statDType returns the dtype of the statistics (maximum, log-sum-exp) of an attention with queries of dtype t.
func statDType(t DType) DType {
	if t == F64 {
		return F64
	}
	return F32
}

// inferAttentionLSE is the type rule of attention_lse: the result is [..., H, T].
func inferAttentionLSE(c *Call) (Type, error) {
	scores, err := inferHeads(c, c.Shape(1))
	if err != nil {
		return Type{}, err
	}
	return Type{statDType(c.DType(0)), scores[:len(scores)-1]}, nil
}

// inferAttentionGrad is the type rule of attention_grad: the result has the shape of q, or of k or v with the heads of
// q, as attribute "of" says.
func inferAttentionGrad(c *Call) (Type, error) {
	v := c.Shape(2)
	scores, err := inferHeads(c, v)
	if err != nil {
		return Type{}, err
	}
	r := len(scores)
	if want := slices.Concat(scores[:r-1], v[r-1:]); !c.Shape(3).Equal(want) {
		return Type{}, fmt.Errorf("%s is %s: want %s, the shape of the attention's result", c.arg(3), c.Shape(3), want)
	}
	stat := Type{statDType(c.DType(0)), scores[:r-1]}
	for i := 4; i < 6; i++ { // lse and delta
		if have := (Type{c.DType(i), c.Shape(i)}); !have.Equal(stat) {
			return Type{}, fmt.Errorf("%s is %s: want %s, one number per query", c.arg(i), have, stat)
		}
	}
	switch c.Attrs.String_("of") {
	case "k":
		return Type{c.DType(0), slices.Concat(scores[:r-2], scores[r-1:], c.Shape(1)[r-1:])}, nil
	case "v":
		return Type{c.DType(0), slices.Concat(scores[:r-2], scores[r-1:], v[r-1:])}, nil
	}
	return Type{c.DType(0), c.Shape(0)}, nil
}
