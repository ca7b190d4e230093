// Package nn has common layers of models, as functions from tensors to tensors.
//
// A layer finds its own weights. It gets the Weights of its part of the model, and follows the naming of GGUF files: a
// layer's matrix is NAME.weight and its bias NAME.bias:
//
//	blk := nn.NewWeights(b, types).Sub("blk.0")
//	h := nn.RMSNorm(x, blk.Sub("attn_norm"), 1e-5) // blk.0.attn_norm.weight
//	q := nn.Linear(h, blk.Sub("attn_q"))           // blk.0.attn_q.weight, .bias if there
//
// Weights of another float dtype than the activations are cast, which fusion makes free. Quantized matrices are used
// directly.
package nn

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Linear returns x w^T + bias for x [..., in], which has at least two axes. The matrix weight is [out, in], and the
// optional vector bias [out].
//
// A matrix may have scales, weight_scale [out, groups]. They divide the columns into groups of equal size. A scale
// multiplies the elements of one row in one group.
//
// If there is a vector order [in], column i of the matrix belongs to element order[i] of x: quantizers sort columns so
// that a block has columns with one scale. A stack of matrices has an order for each matrix, [matrices, in].
func Linear(x frontend.Tensor, w Weights) frontend.Tensor {
	y := w.multiplied(x)
	if bias := w.Optional("bias"); !bias.IsZero() {
		y = y.Add(as(bias, x.DType()))
	}
	return y
}

// Unembed multiplies x by an embedding table [vocabulary, width], as Linear does by a matrix. It turns activations into
// logits, one for each token of the vocabulary.
func Unembed(x frontend.Tensor, table Weights) frontend.Tensor {
	return table.multiplied(x)
}

// multiplied returns x w^T, plus the adapter's part. Observer and adapter get x before its elements are ordered for the
// matrix.
func (w Weights) multiplied(x frontend.Tensor) frontend.Tensor {
	oneMatrix := frontend.Tensor{} // no ids that select matrices of a stack
	w.reportMatmul(x, oneMatrix)
	matrix, scale := w.matrix(x.DType())
	y := w.ordered(x, oneMatrix).MatMulT(matrix)
	if !scale.IsZero() {
		y = y.Mul(scale)
	}
	return w.adapted("weight", x, y)
}

// ordered returns x [..., in] with its elements in the order of the matrix's columns. For a stack of matrices, x is
// [T, U, in] or [T, 1, in], and ids [T, U] select the matrices. Otherwise ids is the zero Tensor.
func (w Weights) ordered(x, ids frontend.Tensor) frontend.Tensor {
	order := w.Optional("order")
	switch {
	case order.IsZero():
		return x
	case ids.IsZero():
		return x.IndexSelect(-1, order)
	}
	order = order.Embedding(ids, order.DType())
	return x.Broadcast(order.Shape()).Gather(-1, order)
}

// matrix returns the matrix [out, in], or a stack of matrices, in dtype t, or in blocks if it is quantized. If each row
// has one scale, it also returns the scales [out]. The caller multiplies the result of the matmul by these, which is
// cheaper than to multiply the matrix. If rows have several scales, matrix multiplies the matrix by them, and fusion
// makes that a part of the matmul's kernel. Otherwise scale is the zero Tensor.
func (w Weights) matrix(t ir.DType) (matrix, scale frontend.Tensor) {
	matrix = as(w.get("weight"), t)
	scale = w.Optional("weight_scale")
	if scale.IsZero() {
		return matrix, scale
	}
	scale = as(scale, t)
	if groups := scale.Dim(-1); !groups.Is(1) {
		shape := []frontend.Dim(nil)
		for _, d := range matrix.Shape() {
			shape = append(shape, d)
		}
		apart := append(slices.Clone(shape[:len(shape)-1]), groups, -1)
		return matrix.Reshape(apart...).Mul(scale.Unsqueeze(-1)).Reshape(shape...), frontend.Tensor{}
	}
	return matrix, scale.Squeeze(-1) // one scale for each row
}

// Matrix is a matrix, or a stack of matrices, for a layer that uses parts of its rows, or multiplies by it from both
// sides. Linear describes scales and the order of columns.
type Matrix struct {
	elements frontend.Tensor // [..., out, in], in the order of the columns
	order    frontend.Tensor // [in], or the zero Tensor
}

// MatrixOf returns the matrix weight in dtype t, dequantized and scaled. Fusion makes that a part of the matmuls'
// kernels.
func MatrixOf(w Weights, t ir.DType) Matrix {
	m, scale := w.matrix(t)
	if m.DType().IsBlock() {
		m = m.Dequantize(t)
	}
	if !scale.IsZero() {
		m = m.Mul(scale.Unsqueeze(-1))
	}
	return Matrix{m, w.Optional("order")}
}

// Heads returns a stack of n matrices [n, out/n, in] with the rows of the matrix [out, in].
func (m Matrix) Heads(n int) Matrix {
	m.elements = m.elements.Reshape(n, -1, m.elements.Dim(-1))
	return m
}

// Rows returns the matrix with rows first to last-1.
func (m Matrix) Rows(first int, last frontend.Dim) Matrix {
	m.elements = m.elements.Slice(-2, first, last)
	return m
}

// T returns the transposed matrix, which must have no order of columns.
func (m Matrix) T() Matrix {
	m.elements = m.elements.SwapAxes(-2, -1)
	return m
}

// Times returns x m^T for x [..., rows, in].
func (m Matrix) Times(x frontend.Tensor) frontend.Tensor {
	if !m.order.IsZero() {
		x = x.IndexSelect(-1, m.order)
	}
	return x.MatMulT(m.elements)
}

// TimesBack returns x m for x [..., rows, out].
func (m Matrix) TimesBack(x frontend.Tensor) frontend.Tensor {
	y := x.MatMul(m.elements)
	if !m.order.IsZero() {
		y = y.IndexSelect(-1, m.order.Argsort(0)) // column i of y belongs at order[i]
	}
	return y
}

// Embedding returns the rows of the table weight [vocabulary, width] at ids, a tensor of integers, in dtype to.
func Embedding(ids frontend.Tensor, w Weights, to ir.DType) frontend.Tensor {
	return w.Get("weight").Embedding(ids, to)
}

// RMSNorm normalizes the innermost axis by its root mean square and scales it by the vector weight (Zhang and Sennrich
// 2019).
func RMSNorm(x frontend.Tensor, w Weights, eps float64) frontend.Tensor {
	return x.RMSNorm(w.Get("weight"), eps)
}

// LayerNorm normalizes the innermost axis to mean 0 and variance 1, scales it by the vector weight and adds the
// optional vector bias (Ba et al. 2016).
func LayerNorm(x frontend.Tensor, w Weights, eps float64) frontend.Tensor {
	return x.LayerNorm(w.Get("weight"), w.Optional("bias"), eps)
}

// SwiGLU computes the feed-forward layer of Llama models (Shazeer 2020): gate and up are x times ffn_gate and ffn_up
// [hidden, width], and the result is silu(gate)*up times ffn_down [width, hidden].
func SwiGLU(x frontend.Tensor, w Weights) frontend.Tensor {
	gate, up := Linear(x, w.Sub("ffn_gate")), Linear(x, w.Sub("ffn_up"))
	return Linear(swiGLU(gate, up), w.Sub("ffn_down"))
}

// GeGLU computes the feed-forward layer of Gemma models: gate and up are x times ffn_gate and ffn_up [hidden, width],
// and the result is gelu(gate)*up times ffn_down [width, hidden], with the tanh approximation of GELU.
func GeGLU(x frontend.Tensor, w Weights) frontend.Tensor {
	gate, up := Linear(x, w.Sub("ffn_gate")), Linear(x, w.Sub("ffn_up"))
	return Linear(gate.Gelu().Mul(up), w.Sub("ffn_down"))
}

// FeedForward computes the feed-forward layer of transformers (Vaswani et al. 2017): ffn_up [hidden, width], an
// activation such as frontend.Tensor.Gelu, and ffn_down [width, hidden].
func FeedForward(x frontend.Tensor, w Weights, activation func(frontend.Tensor) frontend.Tensor) frontend.Tensor {
	return Linear(activation(Linear(x, w.Sub("ffn_up"))), w.Sub("ffn_down"))
}

// Matmul returns x w^T for x [..., in] and the matrix of that full name, [out, in].
func Matmul(x frontend.Tensor, w Weights, name string) frontend.Tensor {
	return x.MatMulT(as(w.Get(name), x.DType()))
}

// MatmulID multiplies each row of x by the matrices that ids select from the weight of that name, a stack of matrices;
// see frontend.Tensor.MatMulID.
func MatmulID(x frontend.Tensor, w Weights, name string, ids frontend.Tensor) frontend.Tensor {
	return x.MatMulID(as(w.Get(name), x.DType()), ids)
}

// as casts a weight to dtype t. Quantized weights stay quantized.
func as(w frontend.Tensor, t ir.DType) frontend.Tensor {
	if w.DType() == t || w.DType().IsBlock() {
		return w
	}
	return w.Cast(t)
}
