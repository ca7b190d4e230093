// Package recurrence computes linear recurrences with a matrix as their state, which ops ssm_scan and delta_rule are.
// The reference of the ops uses it, and the reference of the kernels that devices run for them.
package recurrence

import "math"

// Scan is a recurrence. At each time step the state S of a head becomes S diag(w) + (S a) bᵀ + v kᵀ, and y = S q with
// the new S. The weights are w = exp(decay*rate). All slices are row-major.
type Scan struct {
	Batches, Times, Heads int
	Values, Keys          int // rows and columns of S

	Q, K, A, B Vectors   // A and B may have no elements
	V          []float64 // [Batches, Times, Heads, Values]
	// Decay is [Batches, Times, Heads, Keys or 1], and Rate [Heads, Keys or 1], or nil for 1.
	Decay, Rate []float64
	// Factors means that w is decay*rate, without an exponential.
	Factors bool
	// Scale is a factor of V, [Batches, Times, Heads], or nil for 1.
	Scale []float64
	State []float64 // [Batches, Heads, Values, Keys]
}

// Vectors has a vector of Keys elements for each batch, time step and group of heads.
type Vectors struct {
	Elements []float64
	Groups   int
}

// at returns the vector of a head at a time step, which is counted over all batches.
func (v Vectors) at(time, head, heads, keys int) []float64 {
	if len(v.Elements) == 0 {
		return nil
	}
	from := (time*v.Groups + head*v.Groups/heads) * keys
	return v.Elements[from : from+keys]
}

// Run computes the recurrence of heads lo to hi-1, counted over all batches as [Batches, Heads]. It sets y [Batches,
// Times, Heads, Values], and last [Batches, Heads, Values, Keys], the states after the last time step. Either may be
// nil, and is then not stored.
func (s *Scan) Run(y, last []float64, lo, hi int) {
	size := s.Values * s.Keys
	own, decay := make([]float64, size), make([]float64, s.Keys)
	for i := lo; i < hi; i++ {
		batch, head := i/s.Heads, i%s.Heads
		state := own
		if last != nil {
			state = last[i*size : (i+1)*size]
		}
		copy(state, s.State[i*size:(i+1)*size])
		for t := batch * s.Times; t < (batch+1)*s.Times; t++ {
			at := t*s.Heads + head
			s.decays(decay, at, head)
			var out []float64
			if y != nil {
				out = y[at*s.Values : (at+1)*s.Values]
			}
			s.step(state, decay, out, t, head)
		}
	}
}

// decays sets out to the factors of the state's columns at one time of a head. at is the row of s.Decay, which has one
// value for all columns or one for each. So has a head's rate.
func (s *Scan) decays(out []float64, at, head int) {
	n := len(s.Decay) / (s.Batches * s.Times * s.Heads)
	d, rate, r := s.Decay[at*n:(at+1)*n], []float64{1}, 1
	if s.Rate != nil {
		r = len(s.Rate) / s.Heads
		rate = s.Rate[head*r : (head+1)*r]
	}
	for j := range out {
		if j == 0 || n > 1 || r > 1 {
			out[j] = d[j%n] * rate[j%r]
			if !s.Factors {
				out[j] = math.Exp(out[j])
			}
		} else {
			out[j] = out[0] // one factor serves all columns
		}
	}
}

// step updates a head's state [Values, Keys] by one time, t, counted over all batches. It multiplies the columns by
// decay, and adds v*kᵀ and, with a correction, state*a*bᵀ. It sets y [Values] to state*q unless y is nil.
func (s *Scan) step(state, decay, y []float64, t, head int) {
	q, k := s.Q.at(t, head, s.Heads, s.Keys), s.K.at(t, head, s.Heads, s.Keys)
	a, b := s.A.at(t, head, s.Heads, s.Keys), s.B.at(t, head, s.Heads, s.Keys)
	at := t*s.Heads + head
	for i, v := range s.V[at*s.Values : (at+1)*s.Values] {
		if s.Scale != nil {
			v *= s.Scale[at]
		}
		row := state[i*s.Keys : (i+1)*s.Keys]
		if a != nil {
			correction := 0.0 // the row of state*a
			for j, x := range row {
				correction += float64(x * a[j])
			}
			for j, x := range row {
				row[j] = float64(x*decay[j]) + float64(correction*b[j]) + float64(v*k[j])
			}
		} else {
			for j, x := range row {
				row[j] = float64(x*decay[j]) + float64(v*k[j])
			}
		}
		if y != nil {
			sum := 0.0
			for j, x := range row {
				sum += float64(x * q[j])
			}
			y[i] = sum
		}
	}
}
