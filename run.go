package vkc

import (
	"context"
	"errors"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// LoadGraph is Compile and Load with their usual options. weights may be nil
// where the graph has none.
func (d *Device) LoadGraph(ctx context.Context, g *ir.Graph, weights ir.WeightSource) (runtime.Executable, error) {
	p, err := d.Compile(ctx, g, CompileOptions{})
	if err != nil {
		return nil, err
	}
	return d.Load(ctx, p, LoadOptions{Weights: weights})
}

// Run computes the outputs of a graph once, on the best device. To run it more
// than once, keep a device open and its executable loaded.
func Run(ctx context.Context, g *ir.Graph, weights ir.WeightSource, in map[string]*ir.Data) (out map[string]*ir.Data, err error) {
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
	res, err := exe.Run(ctx, in, runtime.RunOptions{})
	if err != nil {
		return nil, err
	}
	return res.Outputs, nil
}
