package llm

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// Names of the weights of a low-rank adapter, after the name of the matrix that they adapt.
const (
	AdapterA = ".lora_a" // [rank, in], or [experts, rank, in]; of the token embedding [vocabulary, rank]
	AdapterB = ".lora_b" // [out, rank], or [experts, out, rank]
)

// Adapter is a low-rank adapter of a model (LoRA, Hu et al. 2021, arXiv:2106.09685). It adds Scale*Factor * x A^T B^T
// to the result of the matmul of x with a matrix W of the model. See package lora for files.
type Adapter struct {
	Prefix   string // of the names of the adapter's weights in graphs
	Scale    float64
	Matrices map[string]AdaptedMatrix // by the names of the model's weights
}

// AdaptedMatrix has the types of A and B for one matrix, and the factor of the adapter file.
type AdaptedMatrix struct {
	A, B   ir.Type
	Factor float64
}

// AdapterInput is the name of the input with the scales of adapters: see Config.AdapterInputs.
const AdapterInput = "adapters"

// adapters are the adapters of a model while its graph is built. The list is empty in a graph that does not use them.
type adapters struct {
	list   []Adapter
	scales frontend.Tensor // [adapters], or [rows, adapters] if rows differ; the zero Tensor if the scales are constant
	used   map[string]bool // matrices that have been adapted
	w      nn.Weights      // of the adapters
}

// adapt makes the matmuls of a graph use the adapters of the model. With AdapterInputs, the adapters' scales are an
// input: f32[adapters] if all tokens have the same scales, and f32[rows, adapters] if each has its own. rows is the
// number of tokens in the second case, and left out in the first.
func (m model) adapt(b *frontend.Builder, rows ...frontend.Dim) {
	if len(m.Adapters) == 0 {
		return
	}
	a := m.adapters
	a.list = m.Adapters
	if m.AdapterInputs {
		a.scales = b.Input(AdapterInput, ir.F32, append(rows, len(m.Adapters))...)
	}
	types := map[string]ir.Type{}
	for _, list := range a.list {
		for name, matrix := range list.Matrices {
			types[list.Prefix+name+AdapterA], types[list.Prefix+name+AdapterB] = matrix.A, matrix.B
		}
	}
	a.w = nn.NewWeights(b, types)
	m.w.Adapt(a.adapt)
	m.w.AdaptStacks(a.adaptStack)
}

// adapt adds the adapters of a matrix to the result y of its matmul with x.
func (a *adapters) adapt(weight string, x, y frontend.Tensor) frontend.Tensor {
	return a.add(weight, y, func(name string) frontend.Tensor { return nn.Matmul(x, a.w, name) }, nn.Matmul)
}

// adaptStack adds the adapters of a stack of matrices to a result; see nn.Weights.AdaptStacks.
func (a *adapters) adaptStack(weight string, x, ids, y frontend.Tensor) frontend.Tensor {
	matmul := func(x frontend.Tensor, w nn.Weights, name string) frontend.Tensor {
		return nn.MatmulID(x, w, name, ids)
	}
	return a.add(weight, y, func(name string) frontend.Tensor { return matmul(x, a.w, name) }, matmul)
}

// embed adds the adapters of the token embedding to the embedded tokens x. Their A has a row for each token of the
// vocabulary, so that a lookup takes the place of the matmul with A.
func (a *adapters) embed(tokens, x frontend.Tensor) frontend.Tensor {
	return a.add(tokenTable+".weight", x, func(name string) frontend.Tensor {
		return a.w.Get(name).Embedding(tokens, x.DType())
	}, nn.Matmul)
}

// add adds to y the adapters of a weight. down multiplies the input by A, and up multiplies the result by B.
func (a *adapters) add(weight string, y frontend.Tensor, down func(a string) frontend.Tensor,
	up func(x frontend.Tensor, w nn.Weights, b string) frontend.Tensor) frontend.Tensor {
	for i, adapter := range a.list {
		matrix, ok := adapter.Matrices[weight]
		if !ok {
			continue
		}
		a.used[adapter.Prefix+weight] = true
		x := down(adapter.Prefix + weight + AdapterA)
		if a.scales.IsZero() {
			x = x.MulScalar(adapter.Scale * matrix.Factor)
		} else {
			own := a.scales.Slice(a.scales.Rank()-1, i, ir.D(i+1)) // [1], or [rows, 1]
			for own.Rank() > 1 && own.Rank() < x.Rank() {          // [rows, 1, …, 1], to multiply each row of x
				own = own.Unsqueeze(1)
			}
			x = x.Mul(own.MulScalar(matrix.Factor))
		}
		y = y.Add(up(x, a.w, adapter.Prefix+weight+AdapterB))
	}
	return y
}

// check fails if an adapter has a matrix for a weight that no matmul of the graph reads. Weights of layers from number
// `layers` on do not count, because the graph lacks these layers.
func (a *adapters) check(b *frontend.Builder, layers int) {
	for _, adapter := range a.list {
		for _, name := range slices.Sorted(maps.Keys(adapter.Matrices)) {
			layer := -1
			if _, err := fmt.Sscanf(name, "blk.%d.", &layer); err == nil && layer >= layers {
				continue
			}
			if !a.used[adapter.Prefix+name] {
				b.Fail("llm", fmt.Errorf("an adapter has matrices for %q, which the model does not use as a matrix of "+
					"its own: add the adapter to the weights (vkc merge)", name))
			}
		}
	}
}
