package interp

import "github.com/vkc-go/vkc/ir"

// reshape also computes squeeze and unsqueeze: all three keep the elements in order.
func reshape(c *call) (value, error) { return c.args[0].withDims(c.dims), nil }

// transpose permutes the axes. If only axes of extent 1 move, it shares the argument's memory.
func transpose(c *call) (value, error) {
	x, perm := c.args[0], c.attrs().Ints("perm")
	if inOrder(x.dims, perm) {
		return x.withDims(c.dims), nil
	}
	return c.permuted(x, perm)
}

// inOrder reports whether the elements of a tensor keep their order if result axis i is axis perm[i].
func inOrder(dims []int, perm []int64) bool {
	last := int64(-1)
	for _, p := range perm {
		if dims[p] == 1 { // the place of such an axis does not matter
			continue
		}
		if p < last {
			return false
		}
		last = p
	}
	return true
}

// permuted returns x with result axis i being its axis perm[i].
func (c *call) permuted(x value, perm []int64) (value, error) {
	from := whole(x.dims).strides
	dims := make([]int, len(perm))
	r := region{strides: make([]int, len(perm))}
	for i, p := range perm {
		dims[i], r.strides[i] = x.dims[p], from[p]
	}
	if inOrder(x.dims, perm) {
		return x.withDims(dims), nil
	}
	return c.strided(x, dims, r)
}

// slice returns a view of x if the node's users accept one, and otherwise a copy.
func slice(c *call) (value, error) {
	x, starts, steps := c.args[0], c.attrs().Ints("starts"), c.attrs().Ints("steps")
	if c.view && len(steps) == 0 {
		off, stride := 0, 1
		for i := len(starts) - 1; i >= 0; i-- {
			off, stride = off+int(starts[i])*stride, stride*x.dims[i]
		}
		if v, ok := rowsOf(x, c.dims, off); ok {
			return v, nil
		}
	}
	r := whole(storageDims(x, x.dims))
	for i, start := range starts {
		r.off += int(start) * r.strides[i] // 0 along an axis of blocks
		if len(steps) > 0 && c.dims[i] > 1 {
			r.strides[i] *= int(steps[i])
		}
	}
	return c.strided(x, c.dims, r)
}

func broadcast(c *call) (value, error) {
	x := c.args[0]
	return c.strided(x, c.dims, region{strides: broadcastStrides(x.dims, c.dims)})
}

// flip copies x with negative strides along the flipped axes.
func flip(c *call) (value, error) {
	x := c.args[0]
	in, err := ir.ResolveAxes(c.attrs().Ints("axes"), len(x.dims))
	if err != nil {
		return value{}, err
	}
	r := whole(x.dims)
	for i, d := range x.dims {
		if in[i] {
			r.off += (d - 1) * r.strides[i]
			r.strides[i] = -r.strides[i]
		}
	}
	return c.strided(x, c.dims, r)
}

// roll moves the elements along each axis by its shift. Elements that leave at one end come back at the other.
func roll(c *call) (value, error) {
	shifts := c.attrs().Ints("shifts")
	return c.remap(c.args[0], func(axis, i int) int {
		return floorMod(i-int(shifts[axis]), c.dims[axis])
	})
}

// floorMod returns i modulo n, from 0 to n-1.
func floorMod(i, n int) int { return (i%n + n) % n }
