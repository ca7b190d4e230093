package interp

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// loadWeights finds, checks and decodes the weights.
func loadWeights(nodes []*ir.Node, opt Options) (map[*ir.Node]value, error) {
	found := make(map[*ir.Node]*ir.Data, len(nodes))
	// All bad weights are collected for one error.
	bad := &ir.WeightError{Total: len(nodes)}
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
		err := mmap.Guard(func() (err error) {
			values[n], err = weightValue(d, opt)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("weight %q: %w", n.Name(), err)
		}
	}
	return values, nil
}

// weightValue decodes a weight. It keeps 16-bit floats in their storage format if a backend may have kernels for it.
func weightValue(d *ir.Data, opt Options) (value, error) {
	if opt.Replace != nil && storedFloats(d.DType) {
		return value{typ: d.DType, dims: d.Dims, small: &Stored{DType: d.DType, Bytes: d.Bytes}}, nil
	}
	return fromData(d)
}

// findWeight reads the weight of a node and checks its type.
func findWeight(n *ir.Node, src ir.WeightSource) (*ir.Data, *ir.BadWeight) {
	dims, err := n.Shape().Eval(nil)
	if err == nil {
		if bad := ir.CheckWeight(src, n.Name(), n.DType(), dims); bad != nil {
			return nil, bad
		}
	}
	var d *ir.Data
	if err == nil {
		d, err = src.Weight(n.Name())
	}
	if err == nil {
		err = checkData(n, d)
	}
	if err != nil {
		return nil, &ir.BadWeight{Name: n.Name(), Want: n.Type().String(), Err: err}
	}
	return d, nil
}

// checkData returns an error unless d is a valid tensor of the node's static type.
func checkData(n *ir.Node, d *ir.Data) error {
	if d == nil {
		return fmt.Errorf("is nil, want %s", n.Type())
	}
	if !sameType(n, d) {
		return fmt.Errorf("is %s, want %s", d, n.Type())
	}
	return d.Check()
}

// sameType reports whether data has a node's static type.
func sameType(n *ir.Node, d *ir.Data) bool {
	dims, err := n.Shape().Eval(nil)
	return err == nil && d.DType == n.DType() && slices.Equal(d.Dims, dims)
}
