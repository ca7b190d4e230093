package bench

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Sizes gives the extents of a case's axes by label, such as m, n and k.
type Sizes map[string]int

// Case is one line of a suite: a graph, its random inputs, and what to count.
type Case struct {
	Suite string // one of Suites
	Name  string // unique; begins with what it measures, such as matmul/f16/4096x4096x4096
	Sizes Sizes
	// Build makes the graph at those sizes. It is called again at smaller ones
	// for the samples of the check, so it uses no other sizes that Axes label.
	Build func(b *frontend.Builder, s Sizes)
	// Axes labels the axes of inputs, weights and outputs by name, as "m k":
	// the label of an axis along which Samples may pick, or "." for one that
	// they never do. A name left out has no such axes.
	Axes map[string]string
	// Samples says which part of the outputs is compared with the reference.
	// None compares all of them.
	Samples []Sample
	// Product says that output y is input x times the transpose of w, an input or
	// a weight, all of which is then checked besides the samples.
	Product bool
	// Fills are the values of inputs and weights, by name, where the default
	// will not do.
	Fills map[string]Fill
	// Flops is the arithmetic that the case stands for, in its usual count; 0 for
	// memory-bound work.
	Flops float64
	// Moved is the bytes that must be read and written at least; 0 for those of
	// all inputs, weights and outputs together.
	Moved float64
	// Cached leaves inputs and outputs in the device's cache from one replay to
	// the next, as is right for work that arithmetic bounds.
	Cached bool
	// Precision names the rate that bounds the arithmetic; see Ceilings.Flops.
	Precision Precision
	// Allow is the precision that matrix products without one of their own may
	// have, one of vkc.Precisions; "" is full.
	Allow string
	// Symbols are the values of run-time extents.
	Symbols map[string]int64
	// StandIn, if set, is a case of the same kernels that the reference can
	// compute, such as a model of fewer layers. It runs and is compared with the
	// reference in this one's place, which may have no kernel but those.
	StandIn *Case
	// Launches is how many kernels the case is about, for the time of each; 0
	// where it is not about launching.
	Launches int

	text *textTest // of a Model, which stands in place of all that is above
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

// data makes random data for all leaves.
func (c *Case) data(g *ir.Graph) (d data, err error) {
	for op, to := range map[ir.Op]*map[string]*ir.Data{ir.OpInput: &d.inputs, ir.OpWeight: &d.weights,
		ir.OpState: &d.states} {
		if *to, err = c.tensors(g, op); err != nil {
			return data{}, err
		}
	}
	return d, nil
}

// tensors makes random data for the leaves of one kind.
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
