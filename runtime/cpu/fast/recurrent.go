package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// causalConv1D computes op causal_conv1d, row by row. A row of the result is a weighted sum of the row of x and the
// size-1 rows before. Before the first row of x come the rows of the state.
func causalConv1D(c *interp.Call) error {
	x, w, state := c.Args[0], c.Args[1], c.Args[2].Floats
	r := len(x.Dims)
	times, channels, size := x.Dims[r-2], x.Dims[r-1], w.Dims[1]
	// rowAt returns row t of a batch, counted from the first row of the state.
	rowAt := func(batch, t int) []float32 {
		from, row := state, batch*(size-1)+t
		if t >= size-1 {
			from, row = x.Floats, batch*times+t-(size-1)
		}
		return from[row*channels : (row+1)*channels]
	}
	if c.Node.Attrs().String_("of") == "state" { // the last size-1 rows
		for i := range len(c.Out) / max(channels, 1) {
			copy(c.Out[i*channels:], rowAt(i/(size-1), times+i%(size-1)))
		}
		return nil
	}
	return c.ParallelRange(len(c.Out)/max(channels, 1), channels*size, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			y := c.Out[i*channels : (i+1)*channels]
			clear(y)
			for k := range size {
				for j, e := range rowAt(i/times, i%times+k) {
					y[j] += float32(w.Floats[j*size+k] * e)
				}
			}
		}
	})
}

// scan has the arguments of op ssm_scan or delta_rule. Both update a matrix S (the state) of values x keys elements for
// each time step and head: S = S diag(exp(decay*rate)) + (S a) bᵀ + v kᵀ. The result is y = S q.
type scan struct {
	times, heads, values, keys int

	q, k, a, b          headRows
	v, scale            []float32 // scale multiplies v; it has no elements if there is none
	decay, rate         []float32 // by head; rate has no elements if there is none
	decayEach, rateEach int       // number of elements of decay and rate for each head
	state, out          []float32
	wantState           bool
}

// headRows has a vector of len elements for each time step and group of heads.
type headRows struct {
	elements    []float32
	groups, len int
}

// at returns the vector of a time step and one of `heads` heads, or nil if the op lacks the argument.
func (v headRows) at(time, head, heads int) []float32 {
	if v.groups == 0 {
		return nil
	}
	group := head * v.groups / heads
	from := (time*v.groups + group) * v.len
	return v.elements[from : from+v.len]
}

// scanHeads computes op ssm_scan or delta_rule. A task computes some heads of the batches.
func scanHeads(c *interp.Call) error {
	op := c.Node.Op()
	last := op.Info().Arg("state")
	dims := c.Args[last].Dims
	r := len(dims)
	s := &scan{heads: dims[r-3], values: dims[r-2], keys: dims[r-1], state: c.Args[last].Floats, out: c.Out,
		wantState: c.Node.Attrs().String_("of") == "state", decayEach: 1}
	of := func(i int) headRows {
		if i >= len(c.Args) {
			return headRows{} // an argument that the op may lack
		}
		return headRows{c.Args[i].Floats, c.Args[i].Dims[r-2], s.keys}
	}
	values := c.Args[0]
	if op == ir.OpSSMScan {
		s.q, s.k, s.v = of(4), of(3), values.Floats
		s.scale, s.decay, s.rate = c.Args[1].Floats, c.Args[1].Floats, c.Args[2].Floats // argument 1 is both
		s.rateEach = c.Args[2].Dims[1]
	} else {
		values = c.Args[2]
		s.q, s.k, s.v, s.decay, s.a, s.b = of(0), of(1), values.Floats, c.Args[3].Floats, of(5), of(6)
		s.decayEach = c.Args[3].Dims[r-1]
	}
	s.times = values.Dims[r-3]
	heads := volume(dims[:r-2])
	return c.ParallelRange(heads, 3*s.times*s.values*s.keys, func(lo, hi int) {
		room := newChunkRoom(s)
		for i := lo; i < hi; i++ {
			s.head(i, room)
		}
	})
}

// head computes head i, counted over all batches, for all time steps. It computes them in chunks as far as decays
// allow, and the others one by one.
func (s *scan) head(i int, room *chunkRoom) {
	size := s.values * s.keys
	own := room.state // the head's state, which is the result if the op returns the state
	if s.wantState {
		own = s.out[i*size : (i+1)*size]
	}
	copy(own, s.state[i*size:(i+1)*size])
	head, end := i%s.heads, (i/s.heads+1)*s.times
	for t := end - s.times; t < end; {
		if n := room.decays(s, t, min(room.most, end-t), head); n > 0 {
			room.chunk(s, own, t, n, head)
			t += n
		} else {
			s.step(own, room.factors, t, head)
			t++
		}
	}
}

// step computes one time step of a head, and updates the head's state, own. factors are the factors by which the
// elements of a row decay. It stores the result unless the op returns the state.
func (s *scan) step(own, factors []float32, t, head int) {
	at := t*s.heads + head
	q, k := s.q.at(t, head, s.heads), s.k.at(t, head, s.heads)
	a, b := s.a.at(t, head, s.heads), s.b.at(t, head, s.heads)
	for j, v := range s.v[at*s.values : (at+1)*s.values] {
		if s.scale != nil {
			v *= s.scale[at]
		}
		row := own[j*s.keys : (j+1)*s.keys]
		if a != nil {
			correct(row, factors, k, b, v, dot(row, a))
		} else {
			decayed(row, factors, k, v)
		}
		if !s.wantState {
			s.out[at*s.values+j] = dot(row, q)
		}
	}
}

// width returns the number of factors by which a row of the state decays: 1, or one for each element.
func (s *scan) width() int {
	if s.decayEach > 1 || s.rateEach > 1 {
		return s.keys
	}
	return 1
}

// decays sets out to the factors by which the elements of a row of the state decay: exp(decay*rate). `at` counts time
// steps and heads. If all elements have the same factor, it computes one, and sets all elements of out.
func (s *scan) decays(out []float32, at, head int) {
	w := s.width()
	for n := range out[:w] {
		x := float64(s.decay[at*s.decayEach+n%s.decayEach])
		if s.rateEach > 0 {
			x *= float64(s.rate[head*s.rateEach+n%s.rateEach])
		}
		out[n] = float32(x)
	}
	exps(out[:w], 0)
	if w == 1 {
		fill(out[1:], out[0])
	}
}

// decayed sets row to row*factors + v*k.
func decayed(row, factors, k []float32, v float32) {
	factors, k = factors[:len(row)], k[:len(row)]
	for n, x := range row {
		row[n] = float32(x*factors[n]) + float32(v*k[n])
	}
}

// correct sets row to row*factors + v*k + read*b.
func correct(row, factors, k, b []float32, v, read float32) {
	factors, k, b = factors[:len(row)], k[:len(row)], b[:len(row)]
	for n, x := range row {
		row[n] = float32(x*factors[n]) + float32(v*k[n]) + float32(read*b[n])
	}
}
