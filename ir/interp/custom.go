package interp

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// customElementwise applies the Go reference of a custom elementwise op: Float if an argument is a float, otherwise
// Int. It is an error if the op lacks that reference.
func customElementwise(c *call) (value, error) {
	info := c.node.Op().Info()
	floats := c.node.DType().IsFloat()
	for _, a := range c.args {
		floats = floats || a.typ.IsFloat()
	}
	switch {
	case floats && info.Float == nil, !floats && info.Int == nil:
		return value{}, fmt.Errorf("custom op %s: %w", info.Name, ir.ErrNoReference)
	case floats:
		return elementwiseFloat(c)
	}
	return elementwiseInt(c)
}

// customKernel computes a custom kernel by its Go reference and returns the node's result.
func customKernel(c *call) (value, error) {
	op := c.node.Op().Info().Custom
	want, err := op.Results(ir.NodeCall(c.node))
	if err != nil {
		return value{}, err
	}
	args := make([]*ir.Data, len(c.args))
	for i, a := range c.args {
		if args[i], err = a.data(); err != nil {
			return value{}, err
		}
	}
	out, err := op.Evaluate(args, c.attrs(), want, c.env.symbols)
	if err != nil {
		return value{}, err
	}
	return fromData(out[ir.OutputIndex(c.node)])
}
