package onnx

import (
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

var recurrentOps = table{
	"LSTM": manyOp(lstm),
	"GRU":  manyOp(gru),
	"RNN":  manyOp(rnn),
}

// recurrence is one direction of a recurrent layer: a loop over the steps, each with a matmul of the state by the
// recurrent weights. One matmul before the loop multiplies the inputs of all steps. If there are only a few steps, they
// are unrolled. In shapes, T is the number of steps, N the number of sequences, and H the extent of the state.
type recurrence struct {
	cell
	c       *call
	x       tensor // [T, N, gates*H]: the inputs times their weights
	r       tensor // [H, gates*H], recurrent weights
	bias    tensor // [gates*H] of the recurrent part; the zero Tensor for none
	hidden  int
	lengths tensor // [N] of i32; the zero Tensor if all sequences have length T
	reverse bool
	act     []func(tensor) tensor // the activation functions of this direction
}

// cell is a kind of recurrent layer.
type cell struct {
	gates, states int      // the numbers of gates, and of tensors in the state
	activations   []string // the default activation functions
	// next computes the next state from the inputs of a step and the previous state. The first tensor is the output.
	next func(l *recurrence, x tensor, state []tensor) []tensor
	// rounded, if not nil, rounds the state before its matmul.
	rounded func(tensor) tensor
}

// activation returns the activation function that ONNX calls name, in any case. Functions without the parameters alpha
// and beta ignore them.
func (c *call) activation(name string, alpha, beta float64) func(tensor) tensor {
	switch strings.ToLower(name) {
	case "relu":
		return tensor.Relu
	case "tanh":
		return tensor.Tanh
	case "sigmoid":
		return tensor.Sigmoid
	case "affine":
		return func(x tensor) tensor { return x.Affine(alpha, beta) }
	case "leakyrelu":
		return func(x tensor) tensor { return x.LeakyRelu(alpha) }
	case "thresholdedrelu":
		return func(x tensor) tensor { return x.Gt(x.Lit(alpha)).Where(x, x.Lit(0)) }
	case "scaledtanh":
		return func(x tensor) tensor { return x.MulScalar(beta).Tanh().MulScalar(alpha) }
	case "hardsigmoid":
		return func(x tensor) tensor { return x.Affine(alpha, beta).Clamp(0, 1) }
	case "elu":
		return func(x tensor) tensor { return x.Elu(alpha) }
	case "softsign":
		return tensor.Softsign
	case "softplus":
		return tensor.Softplus
	}
	c.fail("activation %q is not supported", name)
	return nil
}

// numbersOf has, for each activation function, the number of its parameters in activation_alpha and activation_beta,
// and the default values.
var numbersOf = map[string]struct {
	alphas, betas int
	alpha, beta   float64
}{
	"affine":          {alphas: 1, betas: 1, alpha: 1},
	"elu":             {alphas: 1, alpha: 1},
	"hardsigmoid":     {alphas: 1, betas: 1, alpha: 0.2, beta: 0.5},
	"leakyrelu":       {alphas: 1, alpha: 0.01},
	"scaledtanh":      {alphas: 1, betas: 1, alpha: 1, beta: 1},
	"thresholdedrelu": {alphas: 1, alpha: 1},
}

// activations returns the activation functions of each direction. defaults has the names of one direction's functions.
// Attributes may name others, and list the parameters of all functions one after the other.
func (c *call) activations(directions int, defaults ...string) [][]func(tensor) tensor {
	names := slices.Repeat(defaults, directions)
	if a := c.attr("activations", AttrStrings); a != nil && len(a.Strings) > 0 {
		// A list for two directions, the form of the default, also serves one direction.
		if n := len(a.Strings); n != directions*len(defaults) && n != 2*len(defaults) {
			c.fail("%d activations, want %d for each of %d directions", n, len(defaults), directions)
		}
		names = a.Strings[:directions*len(defaults)]
	}
	alphas, betas := c.floatsAttr("activation_alpha"), c.floatsAttr("activation_beta")
	limit := c.floatAttr("clip", 0) // of the arguments; 0 for none
	// taken removes the first number of a list and returns it, or the default if the list is empty. Functions without
	// the parameter (n is 0) take none.
	taken := func(list *[]float64, n int, otherwise float64) float64 {
		if n == 0 || len(*list) == 0 {
			return otherwise
		}
		first := (*list)[0]
		*list = (*list)[1:]
		return first
	}
	all := make([]func(tensor) tensor, len(names))
	for i, name := range names {
		of := numbersOf[strings.ToLower(name)]
		f := c.activation(name, taken(&alphas, of.alphas, of.alpha), taken(&betas, of.betas, of.beta))
		all[i] = f
		if limit > 0 {
			all[i] = func(x tensor) tensor { return f(x.Clamp(-limit, limit)) }
		}
	}
	if len(alphas) > 0 || len(betas) > 0 {
		c.fail("%d numbers of activation_alpha and %d of activation_beta are left over: functions %q take fewer; "+
			"remove the last ones", len(alphas), len(betas), names)
	}
	return slices.Collect(slices.Chunk(all, len(defaults)))
}

// recurrent builds a recurrent layer for input x, in all directions of the node, with weights w of the input and r of
// the state. Result 0 has the outputs of all steps, and the other results the last state.
func (c *call) recurrent(x, w, r tensor, kind cell) []*value {
	batchFirst := c.intAttr("layout", 0) != 0
	if batchFirst {
		x = x.SwapAxes(0, 1)
	}
	if x.Rank() != 3 || w.Rank() != 3 || r.Rank() != 3 || !r.Shape().IsStatic() {
		c.fail("input %s, weights %s and %s: want [T, N, I], [D, %d*H, I] and [D, %d*H, H]", x, w, r, kind.gates,
			kind.gates)
	}
	steps, batch, hidden := x.Dim(0), x.Dim(1), r.Dim(2).Static()
	if n := c.intAttr("hidden_size", hidden); n != hidden {
		c.fail("attribute hidden_size is %d, but the recurrent weights are %s", n, r)
	}
	direction := c.choice("direction", "forward", "reverse", "bidirectional")
	count := 1 // of directions
	if direction == "bidirectional" {
		count = 2
	}
	c.agreeOnBatch(batch, kind.states)
	activations := c.activations(count, kind.activations...)
	outputs := make([]tensor, count)      // by direction: [T, N, H]
	last := make([][]tensor, kind.states) // by tensor of the state, and by direction: [N, H]
	for d := range count {
		l := &recurrence{c: c, cell: kind, hidden: hidden, act: activations[d],
			reverse: direction == "reverse" || d == 1}
		l.x = x.MatMulT(w.Index(0, d))
		l.r = r.Index(0, d).T()
		if c.has(3) { // the bias of the inputs, and then of the state
			b, n := c.x(3).Index(0, d), kind.gates*hidden
			l.x = l.x.Add(b.Slice(0, 0, n))
			l.bias = b.Slice(0, n, 2*n)
		}
		l.lengths = c.lengths(batch)
		state := make([]tensor, kind.states)
		for i := range state {
			state[i] = l.initial(5+i, d, batch)
		}
		outputs[d], state = l.run(steps, state)
		for i := range last {
			last[i] = append(last[i], state[i])
		}
	}
	results := []tensor{stacked(outputs, 1)}
	for _, list := range last {
		results = append(results, stacked(list, 0))
	}
	if batchFirst { // [T, D, N, H] to [N, T, D, H], and states [D, N, H] to [N, D, H]
		results[0] = results[0].Transpose(2, 0, 1, 3)
		for i := range results[1:] {
			results[1+i] = results[1+i].SwapAxes(0, 1)
		}
	}
	return several(results...)
}

// initial returns an initial state [N, H] of direction d from input i of the node, or zeros if the node lacks that.
func (l *recurrence) initial(i, d int, batch ir.Dim) tensor {
	if !l.c.has(i) {
		return l.c.b.Full(l.x.DType(), 0, batch, l.hidden)
	}
	all := l.c.x(i)
	if l.c.intAttr("layout", 0) != 0 {
		all = all.SwapAxes(0, 1)
	}
	return all.Index(0, d)
}

// lengths returns the number of steps of each sequence, [N]: input 4, or the number of valid steps. It returns the zero
// Tensor if all sequences have all steps.
func (c *call) lengths(batch ir.Dim) tensor {
	switch {
	case c.has(4):
		return c.x(4).Cast(ir.I32)
	case c.mask != nil:
		return c.mask.count.Broadcast(batch)
	}
	return tensor{}
}

// unrolledSteps is the largest number of steps to unroll. Kernels of neighbouring unrolled steps can be fused.
const unrolledSteps = 4

// stacked stacks tensors along a new axis.
func stacked(list []tensor, axis int) tensor { return list[0].Stack(axis, list[1:]...) }

// run builds the steps, as a loop or unrolled. It returns the outputs of all steps, [T, N, H], and the last state.
func (l *recurrence) run(steps ir.Dim, state []tensor) (outputs tensor, last []tensor) {
	if steps.IsStatic() && steps.Add > 0 && steps.Add <= unrolledSteps {
		return l.unroll(steps.Static(), state)
	}
	b := l.c.b
	scan := b.Scan
	if l.reverse {
		scan = b.ScanBack
	}
	last, all := scan(state, []tensor{l.x, b.Iota(ir.I32, 0, steps)}, func(state, at []tensor) (next, outs []tensor) {
		next, out := l.step(at[0], at[1], state)
		return next, []tensor{out}
	})
	return all[0], last
}

// unroll builds the steps without a loop. See run.
func (l *recurrence) unroll(steps int, state []tensor) (outputs tensor, last []tensor) {
	out := make([]tensor, steps)
	for i := range steps {
		t := i
		if l.reverse {
			t = steps - 1 - i
		}
		state, out[t] = l.step(l.x.Index(0, t), l.c.b.Scalar(ir.I32, float64(t)), state)
	}
	return stacked(out, 0), state
}

// step builds step number t, with the inputs x of that step. It returns the next state and the output.
func (l *recurrence) step(x, t tensor, state []tensor) (next []tensor, out tensor) {
	next = l.next(l, x, state)
	out = next[0]
	if !l.lengths.IsZero() { // in steps after its last, a sequence keeps its state and has the output 0
		running := l.lengths.Gt(t).Unsqueeze(1)
		for k := range next {
			next[k] = running.Where(next[k], state[k])
		}
		out = running.Where(out, out.Lit(0))
	}
	return next, out
}

// gate returns the columns of x [N, gates*H] that belong to gate i.
func (l *recurrence) gate(x tensor, i int) tensor {
	return x.Slice(1, i*l.hidden, (i+1)*l.hidden)
}

// recurrentPart returns a state times the recurrent weights, plus their bias.
func (l *recurrence) recurrentPart(h tensor) tensor {
	if l.rounded != nil {
		h = l.rounded(h)
	}
	y := h.MatMul(l.r)
	if l.bias.IsZero() {
		return y
	}
	return y.Add(l.bias)
}

func rnn(c *call) []*value {
	next := func(l *recurrence, x tensor, state []tensor) []tensor {
		return []tensor{l.act[0](x.Add(l.recurrentPart(state[0])))}
	}
	return c.recurrent(c.x(0), c.x(1), c.x(2), cell{gates: 1, states: 1, activations: []string{"Tanh"}, next: next})
}

func lstm(c *call) []*value { return lstmOf(c, c.x(0), c.x(1), c.x(2), nil) }

// lstmOf builds LSTM, with optional peepholes and coupled input and forget gates. x, w and r are as for recurrent, and
// rounded as in cell.
func lstmOf(c *call, x, w, r tensor, rounded func(tensor) tensor) []*value {
	coupled := c.intAttr("input_forget", 0) != 0
	peepholes := c.optional(7) // [D, 3*H]
	next := func(l *recurrence, x tensor, state []tensor) []tensor {
		const input, output, forget, candidate = 0, 1, 2, 3 // the gates in ONNX's order
		z, memory := x.Add(l.recurrentPart(state[0])), state[1]
		// gate returns the value of a gate, with the peephole weights times the memory.
		gate := func(i int, memory tensor) tensor {
			y := l.gate(z, i)
			if peepholes.IsZero() {
				return l.act[0](y)
			}
			direction := 0
			if l.reverse && c.textAttr("direction", "") == "bidirectional" {
				direction = 1
			}
			weights := peepholes.Index(0, direction).Slice(0, i*l.hidden, (i+1)*l.hidden)
			return l.act[0](y.Add(weights.Mul(memory)))
		}
		in, keep := gate(input, memory), gate(forget, memory)
		if coupled {
			keep = in.Neg().AddScalar(1)
		}
		memory = keep.Mul(memory).Add(in.Mul(l.act[1](l.gate(z, candidate))))
		return []tensor{gate(output, memory).Mul(l.act[2](memory)), memory}
	}
	return c.recurrent(x, w, r, cell{gates: 4, states: 2, activations: []string{"Sigmoid", "Tanh", "Tanh"}, next: next,
		rounded: rounded})
}

// gru builds GRU. The reset gate multiplies the state before its matmul or, with linear_before_reset, the result of the
// matmul.
func gru(c *call) []*value {
	resetFirst := c.intAttr("linear_before_reset", 0) == 0
	next := func(l *recurrence, x tensor, state []tensor) []tensor {
		const updateGate, resetGate, hiddenGate = 0, 1, 2 // the gates in ONNX's order
		h := state[0]
		product := l.recurrentPart(h)
		update := l.act[0](l.gate(x, updateGate).Add(l.gate(product, updateGate)))
		reset := l.act[0](l.gate(x, resetGate).Add(l.gate(product, resetGate)))
		recurrent := reset.Mul(l.gate(product, hiddenGate))
		if resetFirst {
			recurrent = reset.Mul(h).MatMul(l.gate(l.r, hiddenGate))
			if !l.bias.IsZero() {
				recurrent = recurrent.Add(l.bias.Slice(0, hiddenGate*l.hidden, (hiddenGate+1)*l.hidden))
			}
		}
		candidate := l.act[1](l.gate(x, hiddenGate).Add(recurrent))
		return []tensor{update.Neg().AddScalar(1).Mul(candidate).Add(update.Mul(h))}
	}
	return c.recurrent(c.x(0), c.x(1), c.x(2), cell{gates: 3, states: 1, activations: []string{"Sigmoid", "Tanh"},
		next: next})
}

// agreeOnBatch states that the initial states, inputs from 5 on, have the batch extent of the input (see agree). So
// different symbols for that extent become one.
func (c *call) agreeOnBatch(batch ir.Dim, states int) {
	extents, axis := []ir.Dim{batch}, 1
	if c.intAttr("layout", 0) != 0 {
		axis = 0
	}
	for i := range states {
		if c.has(5 + i) {
			extents = append(extents, c.x(5+i).Dim(axis))
		}
	}
	c.agree(extents...)
}
