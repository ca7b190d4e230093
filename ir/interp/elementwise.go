package interp

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// elementwise applies the scalar function of the op table to every element: the one for floats if any argument is a
// float (where mixes them with bools), otherwise the one for integers.
func elementwise(c *call) (value, error) {
	for _, a := range c.args {
		if a.typ.IsFloat() {
			return elementwiseFloat(c)
		}
	}
	return elementwiseInt(c)
}

// elementwiseFloat computes an elementwise op in float64.
func elementwiseFloat(c *call) (value, error) {
	args := make([][]float64, len(c.args))
	for k, a := range c.args {
		args[k] = a.floats()
	}
	out := make([]float64, elems(c.dims))
	if err := mapElements(c, out, args, c.node.Op().Info().Float); err != nil {
		return value{}, err
	}
	if t := c.node.DType(); !t.IsFloat() { // comparisons and tests
		v := make([]int64, len(out))
		for i, x := range out {
			v[i] = ir.FloatToInt(x, t)
		}
		return c.ints(v), nil
	}
	return c.floats(out), nil
}

// elementwiseInt computes an elementwise op in int64.
func elementwiseInt(c *call) (value, error) {
	args := make([][]int64, len(c.args))
	for k, a := range c.args {
		args[k] = a.i64
	}
	out := make([]int64, elems(c.dims))
	if err := mapElements(c, out, args, c.node.Op().Info().Int); err != nil {
		return value{}, err
	}
	return c.ints(out), nil
}

// elementWork is the cost of one scalar function for parallelRange, in multiply-adds.
const elementWork = 8

// mapElements sets each element of out to f of the arguments' elements at the same coordinates.
func mapElements[T any](c *call, out []T, args [][]T, f func([]T, ir.Attrs) T) error {
	broadcast := newBroadcast(c)
	attrs := c.attrs()
	return c.parallelRange(len(out), elementWork, func(lo, hi int) {
		operands := make([]T, len(args)) // of one element of out
		starts := make([]int, len(args)) // positions in the arguments at the beginning of a run
		// Within a run along the innermost axis, the position in each argument grows by a constant step.
		for lo < hi {
			length := broadcast.run(lo, hi, starts)
			for i := range length {
				for k, arg := range args {
					operands[k] = arg[starts[k]+i*broadcast.step[k]]
				}
				out[lo+i] = f(operands, attrs)
			}
			lo += length
		}
	})
}

// broadcaster finds the argument elements for a run of result elements: consecutive elements that differ only in the
// innermost coordinate.
type broadcaster struct {
	dims    []int   // of the result
	strides [][]int // per argument
	step    []int   // per argument: its innermost stride
}

// newBroadcast returns the broadcaster of the node's arguments.
func newBroadcast(c *call) *broadcaster {
	b := &broadcaster{dims: c.dims, step: make([]int, len(c.args))}
	if c.sameShapes() { // then all elements are one run
		b.dims = []int{elems(c.dims)}
	}
	for k, a := range c.args {
		dims := a.dims
		switch {
		case len(a.dims) == 0 || elems(a.dims) == 1:
			dims = nil
		case len(b.dims) == 1:
			dims = b.dims
		}
		b.strides = append(b.strides, broadcastStrides(dims, b.dims))
		if len(b.dims) > 0 {
			b.step[k] = b.strides[k][len(b.dims)-1]
		}
	}
	return b
}

// sameShapes reports whether each argument is a scalar or of the result's shape.
func (c *call) sameShapes() bool {
	for _, a := range c.args {
		if elems(a.dims) != 1 && !slices.Equal(a.dims, c.dims) {
			return false
		}
	}
	return true
}

// run finds the run that starts at result element lo. It sets at[k] to the position of argument k's element for lo, and
// returns the length of the run, at most hi-lo.
func (b *broadcaster) run(lo, hi int, at []int) int {
	if len(b.dims) == 0 {
		clear(at)
		return 1
	}
	last := len(b.dims) - 1
	clear(at)
	rest := lo // split into coordinates, the last axis first
	for axis := last; axis >= 0; axis-- {
		i := rest % b.dims[axis]
		rest /= b.dims[axis]
		for k := range at {
			at[k] += i * b.strides[k][axis]
		}
	}
	return min(hi-lo, b.dims[last]-lo%b.dims[last])
}
