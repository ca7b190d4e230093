package lora

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// File names an adapter and the scale with which it is used.
type File struct {
	Path  string
	Scale float64
}

// Set are the adapters of a model.
type Set []Scaled

// OpenSet opens adapters of a model. Close releases them.
func OpenSet(files []File, cfg llm.Config) (set Set, err error) {
	for _, f := range files {
		a, err := Open(f.Path, cfg)
		if err != nil {
			return nil, errors.Join(err, set.Close())
		}
		set = append(set, Scaled{a, f.Scale})
	}
	return set, nil
}

// prefix begins the names of the weights of adapter i in graphs. No weight of a model begins so.
func prefix(i int) string { return fmt.Sprintf("lora.%d.", i) }

// Graph returns the adapters for llm.Config.Adapters.
func (s Set) Graph() []llm.Adapter {
	list := make([]llm.Adapter, len(s))
	for i, a := range s {
		list[i] = a.Graph(prefix(i), a.Scale)
	}
	return list
}

// Source returns a source of the weights of a model and of the adapters, for graphs with s.Graph.
func (s Set) Source(model ir.WeightSource) ir.WeightSource {
	if len(s) == 0 {
		return model
	}
	return source{model, s}
}

// source is a model with adapters.
type source struct {
	model ir.WeightSource
	set   Set
}

// find returns the adapter of a weight, and the weight's name in it; or nil.
func (s source) find(name string) (a *Adapter, inAdapter string) {
	for i, a := range s.set {
		if own, ok := strings.CutPrefix(name, prefix(i)); ok {
			return a.Adapter, own
		}
	}
	return nil, ""
}

// Weight implements ir.WeightSource.
func (s source) Weight(name string) (*ir.Data, error) {
	if a, own := s.find(name); a != nil {
		return a.Weight(own)
	}
	return s.model.Weight(name)
}

// WeightType returns the type of a weight without reading it, if the model can.
func (s source) WeightType(name string) (ir.DType, []int, error) {
	if a, own := s.find(name); a != nil {
		return ir.WeightType(a, own)
	}
	return ir.WeightType(s.model, name)
}

// Close closes all adapters.
func (s Set) Close() error {
	var errs []error
	for _, a := range s {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}
