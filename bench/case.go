package bench

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Sizes has the extents of a case's axes by label, such as m, n and k.
type Sizes map[string]int

// Case is one case of a suite: a graph, its random inputs, and its count of flops and bytes.
type Case struct {
	Suite string // one of Suites
	Name  string // unique; begins with the measured op, such as matmul/f16/4096x4096x4096
	Sizes Sizes
	// Build makes the graph with the given sizes. The check calls it again with smaller sizes for the samples, so it
	// must take all sizes of labelled axes from s.
	Build func(b *frontend.Builder, s Sizes)
	// Axes maps the names of inputs, weights and outputs to axis labels, such as "m k". Samples may pick coordinates
	// along a labelled axis; "." stands for an axis that is always whole. An unlisted tensor has no labelled axes.
	Axes map[string]string
	// Samples are the parts of the outputs that are compared with the reference. Without samples all outputs are
	// compared.
	Samples []Sample
	// MatMul means that output y is the matmul of input x and the transpose of w, an input or a weight. All of y is
	// then checked in addition to the samples.
	MatMul bool
	// Fills are the random distributions of inputs and weights that differ from the default, by name.
	Fills map[string]Fill
	// Flops is the arithmetic of the case by the usual count, or 0 for memory-bound work.
	Flops float64
	// Moved is the minimum number of bytes to read and write. If it is 0, the sizes of all inputs, weights and outputs
	// count.
	Moved float64
	// Cached keeps inputs and outputs in the device's cache between replays, as is right for compute-bound work.
	Cached bool
	// Wall measures runs by the wall clock, with inputs and outputs in the caller's memory. Other cases are measured by
	// the device's clock if it has one, with all tensors in the device's memory.
	Wall bool
	// Precision names the rate that bounds the arithmetic; see Ceilings.Flops.
	Precision Precision
	// Allow is the precision of matmuls without their own precision attribute, one of vkc.Precisions; "" is full.
	Allow string
	// Symbols are the values of run-time extents.
	Symbols map[string]int64
	// StandIn, if set, is a smaller case of the same kernels, such as a model with fewer layers. It is checked against
	// the reference instead of this case, which must not have any other kernel.
	StandIn *Case
	// Launches is the number of kernels in cases that measure the time per launch, and 0 in others.
	Launches int

	text *textTest // of a Model; it replaces all fields above
}

// Graph builds the case's graph at the given sizes.
func (c *Case) Graph(s Sizes) (*ir.Graph, error) {
	g, err := frontend.Build(strings.ReplaceAll(c.Name, "/", "_"), func(b *frontend.Builder) { c.Build(b, s) })
	if err != nil || c.Allow == "" {
		return g, err
	}
	return vkc.WithPrecision(g, c.Allow)
}

// axes returns the labels of a tensor's axes.
func (c *Case) axes(name string, rank int) ([]string, error) {
	text, ok := c.Axes[name]
	if !ok {
		return make([]string, rank), nil
	}
	labels := strings.Fields(text)
	if len(labels) != rank {
		return nil, fmt.Errorf("case %s: %q labels %d axes of %q, which has %d", c.Name, text, len(labels), name, rank)
	}
	return labels, nil
}

// data is the random tensors that a case runs on, by name.
type data struct{ inputs, weights, states map[string]*ir.Data }

// data makes random data for all inputs, weights and states of g.
func (c *Case) data(g *ir.Graph) (d data, err error) {
	for op, to := range map[ir.Op]*map[string]*ir.Data{ir.OpInput: &d.inputs, ir.OpWeight: &d.weights,
		ir.OpState: &d.states} {
		if *to, err = c.tensors(g, op); err != nil {
			return data{}, err
		}
	}
	return d, nil
}

// tensors returns pseudorandom data, by name, for the leaves of g with op OpInput, OpWeight or OpState.
func (c *Case) tensors(g *ir.Graph, op ir.Op) (map[string]*ir.Data, error) {
	all := map[string]*ir.Data{}
	for _, n := range g.Leaves(op) {
		dims, err := n.Shape().Eval(c.Symbols)
		if err != nil {
			return nil, fmt.Errorf("case %s: %s: %w", c.Name, n.Name(), err)
		}
		if all[n.Name()], err = Random(n.Name(), n.DType(), c.Fills[n.Name()], dims...); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.Name, err)
		}
	}
	return all, nil
}
