package nn

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Weights gives the weights of a model, or of the part of it whose names begin
// with a prefix. Asking twice for one name gives the same tensor, so that layers
// can share weights.
type Weights struct {
	model  *model
	prefix string
}

// model is what all parts of a model share.
type model struct {
	b     *frontend.Builder
	types map[string]ir.Type
	made  map[string]frontend.Tensor
	seen  func(weight string, x, ids frontend.Tensor)               // nil for nobody
	give  func(name string, t ir.Type) frontend.Tensor              // nil for weights of the graph
	adapt func(weight string, x, y frontend.Tensor) frontend.Tensor // nil for products as they are
	shard func(name string) int                                     // nil for no axes
}

// NewWeights returns the weights that types lists by name, of a model built
// with b. The types come from a file, such as llm.FromGGUF reads, or from the
// program where a model is not loaded but made.
func NewWeights(b *frontend.Builder, types map[string]ir.Type) Weights {
	return Weights{model: &model{b: b, types: types, made: map[string]frontend.Tensor{}}}
}

// Sub returns the part of the model under that name: Sub("blk").Sub("0") is
// Sub("blk.0").
func (w Weights) Sub(name string) Weights { return Weights{model: w.model, prefix: w.name(name) + "."} }

// Observe has f told of each matrix, by its full name, and of the rows x [..., in] that it
// is multiplied with. Where the weight is a stack of matrices, x is [T, U, in] or
// [T, 1, in], and ids [T, U] say which of them each row meets; otherwise ids is the zero
// Tensor. All parts of the model are observed.
func (w Weights) Observe(f func(weight string, x, ids frontend.Tensor)) { w.model.seen = f }

// Give has weights be what f returns for their names and types, such as states that are trained, and not leaves of the
// graph that a file has. A tensor must have the type's shape; it may be of any dtype of floats. All parts of the model
// are given.
func (w Weights) Give(f func(name string, t ir.Type) frontend.Tensor) { w.model.give = f }

// Adapt has each product y [..., out] of rows x [..., in] with the matrix of that full name be what f returns, as
// adapters of low rank do (Hu et al. 2021): y.Add(x.MatMulT(a).MatMulT(b)). Products with stacks of matrices stay.
func (w Weights) Adapt(f func(weight string, x, y frontend.Tensor) frontend.Tensor) {
	w.model.adapt = f
}

// Shard has f say along which axis devices that run the model together may each have a part of the weight of that
// name, or -1. All parts of the model are asked.
func (w Weights) Shard(f func(name string) int) { w.model.shard = f }

// adapted is a product as who adapts it wants it.
func (w Weights) adapted(name string, x, y frontend.Tensor) frontend.Tensor {
	if w.model.adapt == nil {
		return y
	}
	return w.model.adapt(w.name(name), x, y)
}

// product tells who observes of a product with the matrix of that name.
func (w Weights) product(name string, x, ids frontend.Tensor) {
	if w.model.seen != nil {
		w.model.seen(w.name(name), x, ids)
	}
}

// Has reports whether there is a weight of that name.
func (w Weights) Has(name string) bool {
	_, ok := w.model.types[w.name(name)]
	return ok
}

// Get returns the weight of that name. It fails, as the methods of Tensor do,
// if there is none.
func (w Weights) Get(name string) frontend.Tensor {
	full := w.name(name)
	if t, ok := w.model.made[full]; ok {
		return t
	}
	typ, ok := w.model.types[full]
	if !ok {
		w.model.b.Fail("weight", fmt.Errorf("the model has no weight %q", full))
	}
	var t frontend.Tensor
	if w.model.give == nil {
		axis := -1
		if w.model.shard != nil {
			axis = w.model.shard(full)
		}
		t = w.model.b.ShardedWeight(axis, full, typ.DType, typ.Shape)
	} else if t = w.model.give(full, typ); !t.Shape().Equal(typ.Shape) {
		w.model.b.Fail("weight", fmt.Errorf("weight %q is given as %s, want shape %s", full, t, typ.Shape))
	}
	w.model.made[full] = t
	return t
}

// Optional returns the weight of that name, or the zero Tensor if there is none.
func (w Weights) Optional(name string) frontend.Tensor {
	if !w.Has(name) {
		return frontend.Tensor{}
	}
	return w.Get(name)
}

func (w Weights) name(name string) string { return w.prefix + name }
