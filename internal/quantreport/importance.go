package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant/imatrix"
)

// importances is an importance matrix, or nil.
type importances struct{ *imatrix.Matrix }

// row returns the importance of the columns of a matrix, or nil if there is no importance matrix.
func (m importances) row(name string, columns int) ([]float32, error) {
	if m.Matrix == nil {
		return nil, nil
	}
	const matrices, first = 1, 0 // the weight is one matrix, no stack
	row, ok, err := m.Row(name, columns, matrices, first)
	if err == nil && !ok {
		err = fmt.Errorf("the importance matrix lacks %q", name)
	}
	return row, err
}

// sumPrefix marks outputs that are the activations multiplied by a weight.
const sumPrefix = "activations of "

// calibrate runs the model on texts and sums, for each matrix, the squares of the activations multiplied by each
// column.
func (m *model) calibrate(ctx context.Context, windows [][]int64) (importances, error) {
	g, err := withActivations(m.graph)
	if err != nil {
		return importances{}, err
	}
	sums := sumsFile{}
	err = m.outputs(ctx, g, m.weights, windows, func(_ int, out map[string]*ir.Data) error {
		for name, d := range out {
			// The other outputs are logits.
			if matrix, ok := strings.CutPrefix(name, sumPrefix); ok {
				if err := sums.add(matrix, d); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return importances{}, err
	}
	matrix, err := imatrix.FromTensors(sums)
	return importances{matrix}, err
}

// withActivations returns a copy of the graph in which the activations of each matmul with a weight are one more
// output.
func withActivations(g *ir.Graph) (*ir.Graph, error) {
	to := ir.NewGraph(g.Name)
	nodes, err := ir.CopyInto(to, g)
	if err != nil {
		return nil, err
	}
	found := 0
	for _, n := range nodes {
		if n == nil || len(n.Args()) < 2 || n.Op() != ir.OpMatMul {
			continue
		}
		w := n.Arg(1)
		for len(w.Args()) > 0 {
			w = w.Arg(0) // through views and casts
		}
		if w.Op() != ir.OpWeight || n.Arg(0).Rank() != 2 {
			continue
		}
		found++
		if err := to.Output(sumPrefix+w.Name(), n.Arg(0)); err != nil {
			return nil, err
		}
	}
	if found == 0 {
		return nil, fmt.Errorf("the graph multiplies with no weight")
	}
	return to, nil
}

// sumsFile has sums of squares by the name of the weight, in the format of package imatrix.
type sumsFile map[string][]float64

// add adds to the sums of matrix name the squares of the activations d [rows, columns] that it is multiplied by.
func (s sumsFile) add(name string, d *ir.Data) error {
	values, err := d.Floats()
	if err != nil {
		return err
	}
	columns := d.Dims[1]
	if s[name] == nil {
		s[name] = make([]float64, columns)
	}
	for i, v := range values {
		s[name][i%columns] += v * v
	}
	return nil
}

// Names implements [imatrix.Tensors].
func (s sumsFile) Names() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		names = append(names, name+".in_sum2")
	}
	return names
}

// Weight implements [imatrix.Tensors].
func (s sumsFile) Weight(name string) (*ir.Data, error) {
	values := s[strings.TrimSuffix(name, ".in_sum2")]
	return ir.FromFloats(ir.F32, values, len(values))
}

// Lookup implements [imatrix.Tensors].
func (s sumsFile) Lookup(key string) (any, bool) { return "imatrix", key == "general.type" }
