package interp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// WeightError lists all weights of a graph that cannot be used.
type WeightError struct {
	Graph string
	Total int     // weights of the graph
	Bad   []error // one per weight, each naming it
}

// Error names every weight that cannot be used and why, on one line.
func (e *WeightError) Error() string {
	parts := make([]string, len(e.Bad))
	for i, b := range e.Bad {
		parts[i] = b.Error()
	}
	return fmt.Sprintf("graph %q: %d of %d weights cannot be used: %s", e.Graph, len(e.Bad), e.Total, strings.Join(parts, "; "))
}

// Unwrap returns the reason for each weight.
func (e *WeightError) Unwrap() []error { return e.Bad }

// loadWeights finds, checks and decodes the weights.
func loadWeights(graph string, nodes []*ir.Node, opt Options) (map[*ir.Node]value, error) {
	found := make(map[*ir.Node]*ir.Data, len(nodes))
	bad := &WeightError{Graph: graph, Total: len(nodes)}
	for _, n := range nodes {
		d, err := findWeight(n, opt.Weights)
		if err != nil {
			bad.Bad = append(bad.Bad, err)
			continue
		}
		found[n] = d
	}
	if len(bad.Bad) > 0 {
		return nil, bad
	}
	values := make(map[*ir.Node]value, len(found))
	for n, d := range found {
		err := mmap.Guard(func() error { values[n] = fromData(d); return nil })
		if err != nil {
			return nil, fmt.Errorf("weight %q: %w", n.Name(), err)
		}
	}
	return values, nil
}

func findWeight(n *ir.Node, src ir.WeightSource) (*ir.Data, error) {
	if src == nil {
		return nil, fmt.Errorf("weight %q (%s): no weights were given", n.Name(), n.Type())
	}
	d, err := src.Weight(n.Name())
	if err != nil {
		return nil, fmt.Errorf("weight %q (%s): %w", n.Name(), n.Type(), err)
	}
	if err := checkData(n, d); err != nil {
		return nil, fmt.Errorf("weight %q: %w", n.Name(), err)
	}
	return d, nil
}

// checkData refuses data that is not of a node's static type.
func checkData(n *ir.Node, d *ir.Data) error {
	if d == nil {
		return fmt.Errorf("is nil, want %s", n.Type())
	}
	dims, err := n.Shape().Eval(nil)
	if err != nil {
		return err
	}
	if d.DType != n.DType() || !slices.Equal(d.Dims, dims) {
		return fmt.Errorf("is %s, want %s", d, n.Type())
	}
	return d.Check()
}
