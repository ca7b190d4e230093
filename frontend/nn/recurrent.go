package nn

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
)

// Recurrent layers process x [T, N, in]: T steps of N sequences. The initial state is [N, hidden]; the zero Tensor
// means zeros. The weights are ih.weight [gates*hidden, in], hh.weight [gates*hidden, hidden] and, optionally, ih.bias
// and hh.bias. PyTorch calls them weight_ih_l0 and so on, with the same order of gates. One matmul before the loop
// multiplies the inputs of all steps.

// RNN computes h = tanh(ih(x) + hh(h)) in each step (Elman 1990). It returns the states h of all steps, [T, N, hidden],
// and the last one.
func RNN(x, h frontend.Tensor, w Weights) (all, last frontend.Tensor) {
	r := newRecurrence("rnn", x, w, 1)
	states, all := r.run([]frontend.Tensor{h}, func(in frontend.Tensor, state []frontend.Tensor) []frontend.Tensor {
		return []frontend.Tensor{in.Add(Linear(state[0], w.Sub("hh"))).Tanh()}
	})
	return all, states[0]
}

// LSTM has a state h and a cell c (Hochreiter and Schmidhuber 1997): c = sigmoid(f)*c + sigmoid(i)*tanh(g) and h =
// sigmoid(o)*tanh(c), with gates i, f, g and o. It returns the states of all steps, [T, N, hidden], and the last state
// and cell.
func LSTM(x, h, c frontend.Tensor, w Weights) (all, lastH, lastC frontend.Tensor) {
	r := newRecurrence("lstm", x, w, 4)
	states, all := r.run([]frontend.Tensor{h, c}, func(in frontend.Tensor,
		state []frontend.Tensor) []frontend.Tensor {
		z := in.Add(Linear(state[0], w.Sub("hh")))
		i, f, g, o := r.gate(z, 0).Sigmoid(), r.gate(z, 1).Sigmoid(), r.gate(z, 2).Tanh(), r.gate(z, 3).Sigmoid()
		cell := f.Mul(state[1]).Add(i.Mul(g))
		return []frontend.Tensor{o.Mul(cell.Tanh()), cell}
	})
	return all, states[0], states[1]
}

// GRU has gates r, z and n (Cho et al. 2014): n = tanh(ih(x) + sigmoid(r)*hh(h)) and h = (1-sigmoid(z))*n +
// sigmoid(z)*h. It returns the states h of all steps, [T, N, hidden], and the last one.
func GRU(x, h frontend.Tensor, w Weights) (all, last frontend.Tensor) {
	r := newRecurrence("gru", x, w, 3)
	states, all := r.run([]frontend.Tensor{h}, func(in frontend.Tensor, state []frontend.Tensor) []frontend.Tensor {
		part := Linear(state[0], w.Sub("hh"))
		reset := r.gate(in, 0).Add(r.gate(part, 0)).Sigmoid()
		keep := r.gate(in, 1).Add(r.gate(part, 1)).Sigmoid()
		next := r.gate(in, 2).Add(reset.Mul(r.gate(part, 2))).Tanh()
		return []frontend.Tensor{next.Add(keep.Mul(state[0].Sub(next)))}
	})
	return all, states[0]
}

// recurrence is a recurrent layer after the matmul with its inputs.
type recurrence struct {
	x      frontend.Tensor // ih(x) of all steps, [T, N, gates*hidden]
	hidden int
}

// newRecurrence multiplies the inputs of all steps by ih.weight, which has `hidden` rows for each gate. It stops the
// build if x or the weight has another shape.
func newRecurrence(op string, x frontend.Tensor, w Weights, gates int) recurrence {
	if x.Rank() != 3 {
		x.Builder().Fail(op, fmt.Errorf("x is %s, want [T, N, in]", x))
	}
	r := recurrence{x: Linear(x, w.Sub("ih"))}
	rows := r.x.Dim(2)
	if !rows.IsStatic() || rows.Static()%gates != 0 {
		x.Builder().Fail(op, fmt.Errorf("ih.weight has %s rows, want a multiple of the %d gates", rows, gates))
	}
	r.hidden = rows.Static() / gates
	return r
}

// gate returns the columns of z [N, gates*hidden] that belong to gate i.
func (r recurrence) gate(z frontend.Tensor, i int) frontend.Tensor {
	return z.Slice(1, i*r.hidden, (i+1)*r.hidden)
}

// run builds a loop over the steps. step returns the next states; in is the step's part of x, [N, gates*hidden]. A zero
// Tensor in states begins with zeros. run returns the last states, and all values of the first state, [T, N, hidden].
func (r recurrence) run(states []frontend.Tensor,
	step func(in frontend.Tensor, state []frontend.Tensor) []frontend.Tensor) ([]frontend.Tensor, frontend.Tensor) {
	b := r.x.Builder()
	for i, s := range states {
		if s.IsZero() {
			states[i] = b.Full(r.x.DType(), 0, r.x.Dim(1), r.hidden)
		}
	}
	body := func(state, in []frontend.Tensor) (next, outs []frontend.Tensor) {
		next = step(in[0], state)
		return next, next[:1]
	}
	last, all := b.Scan(states, []frontend.Tensor{r.x}, body)
	return last, all[0]
}
