package interp

import (
	"github.com/vkc-go/vkc/internal/recurrence"
	"github.com/vkc-go/vkc/ir"
)

// causalConv1D computes op causal_conv1d, channel by channel.
func causalConv1D(c *call) (value, error) {
	x, weights, state := c.args[0].floats(), c.args[1].floats(), c.args[2].floats()
	dims, size := c.args[0].dims, c.args[1].dims[1] // size is the length of a window
	times, channels := dims[len(dims)-2], dims[len(dims)-1]
	out := make([]float64, elems(c.dims))
	// extended returns an element of the state (times 0 to size-2) followed by x, along time.
	extended := func(batch, t, channel int) float64 {
		if t < size-1 {
			return state[(batch*(size-1)+t)*channels+channel]
		}
		return x[(batch*times+t-size+1)*channels+channel]
	}
	if c.attrs().String_("of") == "state" {
		for i := range out {
			// The new state is the last size-1 elements along time.
			row := i / channels
			out[i] = extended(row/(size-1), times+row%(size-1), i%channels)
		}
		return c.floats(out), nil
	}
	err := c.parallelRange(len(out), size, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row, channel := i/channels, i%channels
			for k := range size {
				out[i] += float64(weights[channel*size+k] * extended(row/times, row%times+k, channel))
			}
		}
	})
	return c.floats(out), err
}

// scanRecurrence computes op ssm_scan or delta_rule: result y of all time steps, or the state after the last one.
func scanRecurrence(c *call) (value, error) {
	floats := make([][]float64, len(c.args))
	dims := make([][]int, len(c.args))
	for i, a := range c.args {
		floats[i], dims[i] = a.floats(), a.dims
	}
	s := newScan(c.node.Op(), dims, floats)
	out := make([]float64, elems(c.dims))
	// Run computes only the results that are not nil.
	y, last := out, []float64(nil)
	if c.attrs().String_("of") == "state" {
		y, last = nil, out
	}
	err := c.parallelRange(s.Batches*s.Heads, 3*s.Times*s.Values*s.Keys, func(lo, hi int) { s.Run(y, last, lo, hi) })
	return c.floats(out), err
}

// newScan returns the recurrence of op ssm_scan or delta_rule with these arguments.
func newScan(op ir.Op, dims [][]int, args [][]float64) *recurrence.Scan {
	vectors := func(i int) recurrence.Vectors {
		if i >= len(args) {
			return recurrence.Vectors{}
		}
		return recurrence.Vectors{Elements: args[i], Groups: dims[i][len(dims[i])-2]}
	}
	s := &recurrence.Scan{}
	var values int // the argument with the values, [batch…, time, head, value]
	switch op {
	case ir.OpSSMScan: // arguments x, dt, a, b, c, state
		values = 0
		s.Q, s.K, s.Decay, s.Rate, s.Scale = vectors(4), vectors(3), args[1], args[2], args[1]
	default: // delta_rule: q, k, v, decay, state, a, b
		values = 2
		s.Q, s.K, s.Decay, s.A, s.B = vectors(0), vectors(1), args[3], vectors(5), vectors(6)
	}
	s.V = args[values]
	state := op.Info().Arg("state") // [batch…, head, value, key]
	s.State = args[state]
	r := len(dims[state])
	s.Batches = elems(dims[state][:r-3])
	s.Heads, s.Values, s.Keys = dims[state][r-3], dims[state][r-2], dims[state][r-1]
	s.Times = dims[values][r-3]
	return s
}
