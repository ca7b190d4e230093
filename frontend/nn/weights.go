package nn

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Weights provides the weights of a model, or of a part of it: the weights with a common prefix in their names. Two
// requests for one name return the same tensor, so that layers can share weights.
type Weights struct {
	model  *model
	prefix string
}

// model is the part of Weights that all parts of a model share.
type model struct {
	b     *frontend.Builder
	types map[string]ir.Type
	made  map[string]frontend.Tensor                                // by full name: the weights requested so far
	seen  func(weight string, x, ids frontend.Tensor)               // nil for no observer
	give  func(name string, t ir.Type) frontend.Tensor              // nil for weights of the graph
	adapt func(weight string, x, y frontend.Tensor) frontend.Tensor // nil for no adapters
	stack func(weight string, x, ids, y frontend.Tensor) frontend.Tensor
	shard func(name string) int // nil for no sharding
}

// NewWeights returns the weights listed by name in types, for a model built with b. The types come from a file, as
// llm.FromGGUF reads them, or from the program if it creates the model.
func NewWeights(b *frontend.Builder, types map[string]ir.Type) Weights {
	return Weights{model: &model{b: b, types: types, made: map[string]frontend.Tensor{}}}
}

// Sub returns the part of the model under a name: Sub("blk").Sub("0") equals Sub("blk.0").
func (w Weights) Sub(name string) Weights { return Weights{model: w.model, prefix: w.name(name) + "."} }

// Observe sets a function to call for each matmul with a weight. f gets the matrix's full name and the rows that it
// multiplies. For one matrix, the rows are x [..., in], and ids is the zero Tensor. For a stack of matrices, such as
// experts, x is [T, U, in] or [T, 1, in], and ids [T, U] select the matrices. It applies to all parts of the model.
func (w Weights) Observe(f func(weight string, x, ids frontend.Tensor)) { w.model.seen = f }

// Give makes Weights return f(name, t) for each weight, instead of a weight of the graph, so that a program can use
// trained states. The tensor must have the shape of t, and may have any float dtype. It applies to all parts of the
// model.
func (w Weights) Give(f func(name string, t ir.Type) frontend.Tensor) { w.model.give = f }

// Adapt replaces the result y [..., out] of each matmul with a weight by f(weight, x, y). weight is the matrix's full
// name, and x [..., in] the rows. Low-rank adapters (Hu et al. 2021) return y.Add(x.MatMulT(a).MatMulT(b)). See
// AdaptStacks for stacks of matrices.
func (w Weights) Adapt(f func(weight string, x, y frontend.Tensor) frontend.Tensor) {
	w.model.adapt = f
}

// AdaptStacks sets a function that changes the results of stacks of matrices, such as the weights of experts, as LoRA
// adapters do. y [T, U, out] is the result for x [T, U, in] or [T, 1, in], and ids [T, U] select the matrices.
func (w Weights) AdaptStacks(f func(weight string, x, ids, y frontend.Tensor) frontend.Tensor) {
	w.model.stack = f
}

// Shard sets a function that returns the axis along which devices that share the model (tensor parallelism) may split a
// weight, or -1 for none. It applies to all parts of the model.
func (w Weights) Shard(f func(name string) int) { w.model.shard = f }

// adapted returns the result of a matmul after the adapter, if Adapt has set one.
func (w Weights) adapted(name string, x, y frontend.Tensor) frontend.Tensor {
	if w.model.adapt == nil {
		return y
	}
	return w.model.adapt(w.name(name), x, y)
}

// adaptedStack returns the result y of a stack of matrices, changed by the function that AdaptStacks has set, if any.
func (w Weights) adaptedStack(name string, x, ids, y frontend.Tensor) frontend.Tensor {
	if w.model.stack == nil {
		return y
	}
	return w.model.stack(w.name(name), x, ids, y)
}

// reportMatmul tells the observer of a matmul with this layer's matrix.
func (w Weights) reportMatmul(x, ids frontend.Tensor) {
	if w.model.seen != nil {
		w.model.seen(w.name("weight"), x, ids)
	}
}

// Has reports whether there is a weight of that name.
func (w Weights) Has(name string) bool {
	_, ok := w.model.types[w.name(name)]
	return ok
}

// Get returns the weight of that name. If the model has none, it fails like the methods of Tensor. It also fails for a
// matrix with permuted columns or with scales, which only layers such as Linear support.
func (w Weights) Get(name string) frontend.Tensor {
	for _, more := range []string{"order", "weight_scale"} {
		if name == "weight" && w.Has(more) {
			w.model.b.Fail("weight", fmt.Errorf("weight %q comes with %q, which only layers of nn.Linear use: want "+
				"the matrix alone", w.name(name), w.name(more)))
		}
	}
	return w.get(name)
}

// get returns a matrix in its stored form, unlike Get, which refuses one with an order of columns or with scales. It
// declares the weight at the first use.
func (w Weights) get(name string) frontend.Tensor {
	full := w.name(name)
	if t, ok := w.model.made[full]; ok {
		return t
	}
	typ, ok := w.model.types[full]
	if !ok {
		w.model.b.Fail("weight", fmt.Errorf("the model has no weight %q", full))
	}
	t := w.model.declared(full, typ)
	w.model.made[full] = t
	return t
}

// declared returns a new weight of the graph or, if give is set, the tensor that give returns in its place.
func (m *model) declared(name string, t ir.Type) frontend.Tensor {
	if m.give == nil {
		axis := -1 // not sharded
		if m.shard != nil {
			axis = m.shard(name)
		}
		return m.b.ShardedWeight(axis, name, t.DType, t.Shape)
	}
	given := m.give(name, t)
	if !given.Shape().Equal(t.Shape) {
		m.b.Fail("weight", fmt.Errorf("weight %q is %s, want shape %s", name, given, t.Shape))
	}
	return given
}

// Optional returns the weight of that name, or the zero Tensor if there is none.
func (w Weights) Optional(name string) frontend.Tensor {
	if !w.Has(name) {
		return frontend.Tensor{}
	}
	return w.Get(name)
}

func (w Weights) name(name string) string { return w.prefix + name }
