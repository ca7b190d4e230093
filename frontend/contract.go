package frontend

import "github.com/vkc-go/vkc/ir"

// MatMul returns the matrix product of t [..., M, K] and w [..., K, N], with outer
// axes broadcast, accumulated in f32, in the narrowest float dtype that holds all values of both: f16 by f32 gives f32.
// Tensors of i8, or u8, give exact sums in
// i32: cast them to f32 and multiply by the scales, which joins the product. To
// transpose the left operand, write t.T().MatMul(w).
func (t Tensor) MatMul(w Tensor) Tensor { return t.binary(ir.OpMatMul, w) }

// MatMulT is the product with w given as [..., N, K], which is how most files
// store the weight of a linear layer, quantized ones among them. Rows may be quantized as well: x.Quantize(ir.Q8_0)
// .MatMulT(w) multiplies two tensors of blocks, and gives f32. A
// layer of bytes is x.MatMulT(w).Cast(ir.F32).Mul(rows).Mul(columns), where rows
// [..., M, 1] and columns [N] are the scales of x and w.
func (t Tensor) MatMulT(w Tensor) Tensor {
	return t.apply(ir.OpMatMul, []Tensor{w}, attr("transpose_b", true))
}

// Precision says how exact a matrix product must be; see op matmul.
type Precision string

// The precisions, from exact to fast.
const (
	FullPrecision Precision = ir.PrecisionFull     // operands as they are, sums in f32
	BF16x3        Precision = ir.PrecisionBF16x3   // f32 operands may be sums of two bf16, multiplied in three products
	HalfPrecision Precision = ir.PrecisionHalf     // operands may be rounded to f16
	HalfSums      Precision = ir.PrecisionHalfSums // and sums may be made in f16
	// ByteRows is HalfPrecision, and rows that meet a quantized weight may be rounded to 8 bits.
	ByteRows Precision = ir.PrecisionBytes
)

// MatMulIn is MatMul in a precision of the caller's choice. Matrix units
// multiply f32 operands only in BF16x3, HalfPrecision or HalfSums.
func (t Tensor) MatMulIn(p Precision, w Tensor) Tensor {
	return t.apply(ir.OpMatMul, []Tensor{w}, attr("precision", string(p)))
}

// MatMulTIn is MatMulT in a precision of the caller's choice.
func (t Tensor) MatMulTIn(p Precision, w Tensor) Tensor {
	return t.apply(ir.OpMatMul, []Tensor{w}, attr("transpose_b", true), attr("precision", string(p)))
}

// MatMulID multiplies each row of t by the matrix that an index picks for it:
// result[t, u] = weights[ids[t, u]] x t[t, u], with t [T, U, K], or [T, 1, K] to
// use one row for all U, weights [E, N, K], which may be quantized, and integer
// ids [T, U], which are clamped to 0 … E-1. This is the product of a mixture of
// experts.
func (t Tensor) MatMulID(weights, ids Tensor) Tensor {
	return t.apply(ir.OpMatMulID, []Tensor{weights, ids})
}

// MatMulIDIn is MatMulID in a precision of the caller's choice.
func (t Tensor) MatMulIDIn(p Precision, weights, ids Tensor) Tensor {
	return t.apply(ir.OpMatMulID, []Tensor{weights, ids}, attr("precision", string(p)))
}

// ExpertGroups groups the positions of integer ids by id, at most rows to a
// group: see op expert_groups. Programs need not call it: MatMulID groups rows
// by itself.
func (t Tensor) ExpertGroups(experts, rows int) Tensor {
	return t.apply(ir.OpExpertGroups, nil, attr("experts", int64(experts)), attr("rows", int64(rows)))
}

// AttentionOption changes what Attention does.
type AttentionOption func(*attention)

type attention struct {
	mask  Tensor
	sinks Tensor
	attrs []ir.Attr
}

// Causal lets query i of T see keys up to i+S-T of S: the queries are the last T
// of the S positions. Where they are the first T, of which query i sees keys up to i,
// as with ONNX's is_causal without a cache, give a Mask of bools [T,S] instead.
func Causal() AttentionOption {
	return func(a *attention) { a.attrs = append(a.attrs, attr("causal", true)) }
}

// Window lets query i of T see only the last n keys up to i+S-T of S, its own among
// them; it goes with Causal. 0 means all.
func Window(n int) AttentionOption {
	return func(a *attention) { a.attrs = append(a.attrs, attr("window", n)) }
}

// Scale sets the factor of the scores; 1/sqrt(D) unless set.
func Scale(factor float64) AttentionOption {
	return func(a *attention) { a.attrs = append(a.attrs, attr("scale", factor)) }
}

// Softcap bounds the scores: they become limit*tanh(score/limit) before a mask is added,
// as in Gemma 2.
func Softcap(limit float64) AttentionOption {
	return func(a *attention) { a.attrs = append(a.attrs, attr("softcap", limit)) }
}

// Mask sets a tensor that broadcasts to [..., H, T, S]. One of floats is added to
// the scores; one of bools or integers says which keys a query sees: those where it
// is not 0, as a comparison gives them.
func Mask(mask Tensor) AttentionOption { return func(a *attention) { a.mask = mask } }

// Sinks sets a score for each of the H query heads, a vector, that takes its share
// of the weights and brings no value, so that a query may attend to nothing (Xiao
// et al. 2023, arXiv:2309.17453).
func Sinks(scores Tensor) AttentionOption { return func(a *attention) { a.sinks = scores } }

// Attention returns softmax(q k^T * scale + mask) v, where t is q [..., H, T, D],
// k is [..., G, S, D] and v is [..., G, S, E]. H is a multiple of G: each key head
// serves H/G query heads.
func (t Tensor) Attention(k, v Tensor, options ...AttentionOption) Tensor {
	return t.attention(ir.OpAttention, []Tensor{k, v}, options)
}

// AttentionLSE returns the logarithms of the sums that Attention divides by, [..., H, T] in f32 or f64: attentions over
// parts of the keys are joined by them.
func (t Tensor) AttentionLSE(k Tensor, options ...AttentionOption) Tensor {
	return t.attention(ir.OpAttentionLSE, []Tensor{k}, options)
}

// AttentionGrad returns the gradient of an attention for "q", "k" or "v", of which t is q, by that of its result: see
// op attention_grad. Grad calls it; programs need not.
func (t Tensor) AttentionGrad(of string, k, v, grad, lse, delta Tensor, options ...AttentionOption) Tensor {
	options = append(options, func(a *attention) { a.attrs = append(a.attrs, attr("of", of)) })
	return t.attention(ir.OpAttentionGrad, []Tensor{k, v, grad, lse, delta}, options)
}

func (t Tensor) attention(op ir.Op, operands []Tensor, options []AttentionOption) Tensor {
	var a attention
	for _, o := range options {
		o(&a)
	}
	if a.mask.IsZero() && !a.sinks.IsZero() {
		a.mask = t.Lit(0) // sinks stand beside a mask
	}
	return t.apply(op, append(operands, present(a.mask, a.sinks)...), a.attrs...)
}
