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
	seen  func(weight string, x, ids frontend.Tensor) // nil for nobody
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
	t := w.model.b.Weight(full, typ.DType, typ.Shape)
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
