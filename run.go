package vkc

import (
	"context"
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// LoadGraph compiles a graph and loads it, for weights in any dtype: a graph that declares f32 can run with weights in
// q4_0, and vice versa. weights may be nil if the graph has none, or if opt shares another executable's. There may be
// at most one LoadOptions; its Progress also receives compile progress, and its Weights must not be set.
func (d *Device) LoadGraph(ctx context.Context, g *ir.Graph, weights ir.WeightSource,
	opt ...LoadOptions) (*Executable, error) {
	if err := d.checkUsable(ctx); err != nil {
		return nil, fmt.Errorf("load graph: %w", err)
	}
	var o LoadOptions
	switch {
	case len(opt) > 1:
		return nil, fmt.Errorf("load graph: %d LoadOptions: give at most one", len(opt))
	case len(opt) == 1:
		o = opt[0]
	}
	if o.Weights != nil {
		return nil, errors.New("load graph: weights are given twice: leave LoadOptions.Weights nil, or pass them " +
			"there to Load")
	}
	p, err := d.Compile(ctx, g, CompileOptions{Weights: weights, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	o.Weights = weights
	return d.Load(ctx, p, o)
}

// Run computes the outputs of a graph once, on the best available device. To run the graph more than once, open a
// device and keep the loaded executable.
func Run(ctx context.Context, g *ir.Graph, weights ir.WeightSource, in Tensors) (out Tensors, err error) {
	dev, err := OpenDevice("auto")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	exe, err := dev.LoadGraph(ctx, g, weights)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	res, err := exe.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	return res.Outputs, nil
}
