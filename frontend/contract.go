package frontend

import "github.com/vkc-go/vkc/ir"

// MatMul returns the matmul of t [..., M, K] and w [..., K, N]. Outer axes broadcast. It accumulates in f32. The result
// has the narrowest float dtype that holds all values of both: f16 by f32 gives f32. To transpose the left operand,
// write t.T().MatMul(w).
//
// Tensors of i8 or u8 give exact sums in i32. Cast the sums to f32 and multiply them by the scales; that fuses with the
// matmul.
func (t Tensor) MatMul(w Tensor) Tensor { return t.binary(ir.OpMatMul, w) }

// MatMulT returns the matmul with w given as [..., N, K], the layout of a linear layer's weight in most files,
// including quantized ones. Rows may be quantized as well: x.Quantize(ir.Q8_0).MatMulT(w) multiplies two quantized
// tensors, and gives f32. An int8 layer is x.MatMulT(w).Cast(ir.F32).Mul(rows).Mul(columns), where rows [..., M, 1] and
// columns [N] are the scales of x and w.
func (t Tensor) MatMulT(w Tensor) Tensor {
	return t.apply(ir.OpMatMul, []Tensor{w}, attr("transpose_b", true))
}

// Precision is the required precision of a matmul; see op matmul.
type Precision string

// The precisions, from exact to fast.
const (
	FullPrecision Precision = ir.PrecisionFull // operands unchanged, sums in f32
	// Each f32 operand may be split into two bf16, and multiplied in three bf16 matmuls.
	BF16x3        Precision = ir.PrecisionBF16x3
	HalfPrecision Precision = ir.PrecisionHalf     // operands may be rounded to f16
	HalfSums      Precision = ir.PrecisionHalfSums // and sums may be accumulated in f16
	// ByteRows allows HalfPrecision, and also quantizing rows to int8 if the other operand is a quantized weight.
	ByteRows Precision = ir.PrecisionBytes
)

// MatMulIn returns the matmul of t and w, as MatMul does, with a given precision. Tensor cores multiply f32 operands
// only in BF16x3, HalfPrecision or HalfSums.
func (t Tensor) MatMulIn(p Precision, w Tensor) Tensor {
	return t.apply(ir.OpMatMul, []Tensor{w}, attr("precision", string(p)))
}

// MatMulTIn returns the matmul with w given as [..., N, K], as MatMulT does, in a given precision.
func (t Tensor) MatMulTIn(p Precision, w Tensor) Tensor {
	return t.apply(ir.OpMatMul, []Tensor{w}, attr("transpose_b", true), attr("precision", string(p)))
}

// MatMulID returns the matmul of a mixture of experts: ids select the matrix that multiplies each row. result[t, u] =
// weights[ids[t, u]] x t[t, u]. t is [T, U, K], or [T, 1, K] to use one row for all U. weights [E, N, K] may be
// quantized. ids [T, U] are integers, clamped to 0 … E-1.
func (t Tensor) MatMulID(weights, ids Tensor) Tensor {
	return t.apply(ir.OpMatMulID, []Tensor{weights, ids})
}

// MatMulIDIn returns the matmul of a mixture of experts, as MatMulID does, in a given precision.
func (t Tensor) MatMulIDIn(p Precision, weights, ids Tensor) Tensor {
	return t.apply(ir.OpMatMulID, []Tensor{weights, ids}, attr("precision", string(p)))
}

// ExpertGroups groups the positions of the elements of t, integer ids, by id. A group has at most `rows` positions: see
// op expert_groups. Programs need not call it, because MatMulID groups rows itself.
func (t Tensor) ExpertGroups(experts, rows int) Tensor {
	return t.apply(ir.OpExpertGroups, nil, attr("experts", int64(experts)), attr("rows", int64(rows)))
}

// AttentionOption sets an option of Attention, such as Causal.
type AttentionOption func(*attention)

type attention struct {
	mask  Tensor
	sinks Tensor
	attrs []ir.Attr
}

// Causal makes the T queries the last T of the S positions: query i attends to keys 0 to i+S-T. If the queries are the
// first T positions, and query i attends to keys 0 to i, as with ONNX's is_causal without a cache, pass a Mask of bools
// [T,S] instead.
func Causal() AttentionOption {
	return func(a *attention) { a.attrs = append(a.attrs, attr("causal", true)) }
}

// Window limits each query to the last n of the keys that Causal allows, including the query's own. It needs Causal. 0
// means all keys.
func Window(n int) AttentionOption {
	return func(a *attention) { a.attrs = append(a.attrs, attr("window", n)) }
}

// Scale sets the factor of the scores; 1/sqrt(D) unless set.
func Scale(factor float64) AttentionOption {
	return func(a *attention) { a.attrs = append(a.attrs, attr("scale", factor)) }
}

// Softcap bounds the scores by limit*tanh(score/limit), before a mask is added, as in Gemma 2.
func Softcap(limit float64) AttentionOption {
	return func(a *attention) { a.attrs = append(a.attrs, attr("softcap", limit)) }
}

// Mask sets a mask that broadcasts to [..., H, T, S]. A mask of floats is added to the scores. In a mask of bools or
// integers, elements other than 0 mark the keys that a query attends to.
func Mask(mask Tensor) AttentionOption { return func(a *attention) { a.mask = mask } }

// Sinks sets attention sinks: a vector with a score for each of the H query heads. The score adds to the softmax's
// denominator but has no value, so that a query may attend to nothing (Xiao et al. 2023, arXiv:2309.17453).
func Sinks(scores Tensor) AttentionOption { return func(a *attention) { a.sinks = scores } }

// ZeroNaN makes the result of a query that sees no key 0 instead of NaN: softmax weights that are NaN count as 0.
func ZeroNaN() AttentionOption {
	return func(a *attention) { a.attrs = append(a.attrs, attr("zero_nan", true)) }
}

// Attention returns softmax(q k^T * scale + mask) v, where t is q [..., H, T, D], k is [..., G, S, D] and v is [..., G,
// S, E]. H is a multiple of G: each key head serves H/G query heads.
func (t Tensor) Attention(k, v Tensor, options ...AttentionOption) Tensor {
	return t.attention(ir.OpAttention, []Tensor{k, v}, options)
}

// AttentionLSE returns the logarithms of Attention's softmax denominators, [..., H, T] in f32 or f64. They allow
// combining attentions over parts of the keys.
func (t Tensor) AttentionLSE(k Tensor, options ...AttentionOption) Tensor {
	return t.attention(ir.OpAttentionLSE, []Tensor{k}, options)
}

// AttentionGrad returns the gradient of an attention with respect to "q", "k" or "v", given the gradient of its result:
// see op attention_grad. t is q. Grad calls it; programs need not.
func (t Tensor) AttentionGrad(of string, k, v, grad, lse, delta Tensor, options ...AttentionOption) Tensor {
	options = append(options, func(a *attention) { a.attrs = append(a.attrs, attr("of", of)) })
	return t.attention(ir.OpAttentionGrad, []Tensor{k, v, grad, lse, delta}, options)
}

// attention adds an op of the attention family, with t as q, after applying the options.
func (t Tensor) attention(op ir.Op, operands []Tensor, options []AttentionOption) Tensor {
	var a attention
	for _, o := range options {
		o(&a)
	}
	if a.mask.IsZero() && !a.sinks.IsZero() {
		a.mask = t.Lit(0) // sinks need a mask operand before them
	}
	return t.apply(op, append(operands, present(a.mask, a.sinks)...), a.attrs...)
}
