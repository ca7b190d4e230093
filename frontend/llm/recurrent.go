package llm

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// Recurrent has the sizes of layers that have a recurrent state in place of keys and values, or besides them: short
// convolutions, and scans. Recurrent states do not grow with the text. The zero value means that there are no such
// layers.
type Recurrent struct {
	Window int // positions of a short convolution, with the current one

	Inner  int // elements that go through a scan, per token
	Heads  int // heads of the scan, of Inner/Heads rows of a state each
	Keys   int // elements of a row
	Groups int // of heads that share keys

	Ranks    []int // of factored projections that control the scan
	NormScan bool  // whether the inputs that control the scan are normalized

	// Period is the distance of layers that attend and have no state: the layers Period-1, 2*Period-1 and so on. 0
	// means that all layers do both, or PerLayer has 0 KVHeads for layers that do not attend.
	Period int
}

// IsRecurrent reports whether layers have a recurrent state. Such a state cannot go back to an earlier position of a
// text, except to a checkpoint: see Checkpoint.
func (c Config) IsRecurrent() bool { return c.Recurrent.Window > 0 }

// CheckpointEvery is the number of tokens between checkpoints of the recurrent states. A text keeps its two latest
// checkpoints.
const CheckpointEvery = PageSize

// stateRows is the number of states that a text keeps for a layer: of its latest position, and of two checkpoints.
const stateRows = 3

// Checkpoint reports whether the state after the first positions of a text is a checkpoint, which stays available when
// the text continues. place is the number of the checkpoint's memory, 0 or 1: a later checkpoint with the same number
// replaces it.
func Checkpoint(positions int) (place int, ok bool) {
	return positions / CheckpointEvery % 2, positions%CheckpointEvery == 0
}

// stateRow returns the index, among the stateRows states of a text, of the state after the given number of positions:
// 0, or 1 plus the place of a checkpoint. positions may have any shape.
func stateRow(positions frontend.Tensor) frontend.Tensor {
	every := positions.Lit(CheckpointEvery)
	checkpoint := positions.Div(every).Mod(positions.Lit(2)).AddScalar(1)
	return positions.Mod(every).Eq(positions.Lit(0)).Where(checkpoint, positions.Lit(0))
}

// states finds and keeps the recurrent states of texts.
type states struct {
	texts int // in the states
	// text is the text of the tokens, an i32 scalar, or of each token, i32[B]; or the zero Tensor for the only text.
	// begin and end are positions, of the same shape: of the first token, and after the last one. end makes a tensor,
	// which only graphs with recurrent layers need.
	text, begin frontend.Tensor
	end         func() frontend.Tensor

	// apart, if not 0, is the number of texts that begin in this run, of equal length and one after the other. Then
	// nothing else is set, and nothing is kept.
	apart int
}

// several returns the number of texts in a run with the same number of tokens of each text, one text after the other.
// ok is false if all tokens belong to one text.
func (s *states) several() (texts ir.Dim, ok bool) {
	switch {
	case s == nil:
	case s.apart > 0:
		return ir.D(s.apart), true
	case s.begin.Rank() == 1:
		return s.begin.Dim(0), true
	}
	return ir.Dim{}, false
}

// load returns a layer's state before the current tokens, [dims...] or, for tokens of several texts, [B, dims...]. It
// is 0 if a text begins with them. save sets the state after them. A nil s has no earlier tokens, and keeps nothing.
func (s *states) load(l layer, name string, dims ...int) (state frontend.Tensor, save func(frontend.Tensor)) {
	b := l.positions.Builder()
	shape := ir.ShapeOf(dims...)
	if s == nil {
		return b.Full(ir.F32, 0, shape), func(frontend.Tensor) {}
	}
	if s.apart > 0 {
		return b.Full(ir.F32, 0, s.apart, shape), func(frontend.Tensor) {}
	}
	kept := b.State(fmt.Sprintf("state_%s.%d", name, l.index), ir.F32, ir.D(s.texts*stateRows), shape)
	from, to := stateRow(s.begin), stateRow(s.end()) // rows of kept: of the state before, and of the state after
	if !s.text.IsZero() {
		first := s.text.MulScalar(stateRows)
		from, to = first.Add(from), first.Add(to)
	}
	begins := s.begin.Eq(s.begin.Lit(0))
	if _, several := s.several(); !several {
		state = kept.DynamicSlice(0, from, ir.D(1)).Reshape(shape)
		return begins.Where(state.Lit(0), state), func(next frontend.Tensor) {
			b.Update(kept, kept.DynamicUpdateSlice(0, next.Unsqueeze(0), to))
		}
	}
	state = kept.IndexSelect(0, from) // [B, dims...]
	ones := []any{s.begin.Dim(0)}     // [B, 1, ...]
	for range dims {
		ones = append(ones, 1)
	}
	return begins.Reshape(ones...).Where(state.Lit(0), state), func(next frontend.Tensor) {
		b.Update(kept, kept.ScatterNDDistinct(to.Unsqueeze(1), next))
	}
}

// goAlong applies a recurrence f to tokens xs [T, ...] of the layer, and keeps its state, of extents dims, under a
// name. If the tokens are of several texts, f sees the tokens of each, [B, T/B, ...], and their states [B, ...]. f
// returns a row for each token, and the states after them. goAlong returns the rows, [T, ...].
func (l layer) goAlong(name string, dims []int, xs []frontend.Tensor,
	f func(state frontend.Tensor, xs []frontend.Tensor) (y, last frontend.Tensor)) frontend.Tensor {
	state, save := l.past.states.load(l, name, dims...)
	texts, several := l.past.states.several()
	if several {
		xs = slices.Clone(xs)
		for i, x := range xs {
			each, _ := x.Dim(0).Quo2(texts) // the texts have equal numbers of tokens
			xs[i] = x.Reshape(texts, each, x.Shape()[1:])
		}
	}
	y, last := f(state, xs)
	save(last)
	if several {
		y = y.Reshape(l.positions.Dim(0), y.Shape()[2:])
	}
	return y
}

// attentionOr computes attention in layers with keys, and mix in the others.
func (l layer) attentionOr(mix func(frontend.Tensor) frontend.Tensor, x frontend.Tensor) frontend.Tensor {
	if l.KVHeads > 0 {
		return l.attention(x)
	}
	return mix(x)
}

// shortConv convolves x [T, C] along the text, by a weight [C, Window] and its bias.
func (l layer) shortConv(x frontend.Tensor, name string) frontend.Tensor {
	w := l.w.Sub(name)
	y := l.goAlong("conv", []int{l.Recurrent.Window - 1, int(x.Dim(1).Max())}, []frontend.Tensor{x},
		func(state frontend.Tensor, xs []frontend.Tensor) (y, last frontend.Tensor) {
			return xs[0].CausalConv1D(w.Get("weight").Cast(ir.F32), state)
		})
	if bias := w.Optional("bias"); !bias.IsZero() {
		y = y.Add(bias.Cast(ir.F32))
	}
	return y
}

// parts splits x [T, _] into columns of these widths.
func parts(x frontend.Tensor, widths ...int) []frontend.Tensor {
	list, from := make([]frontend.Tensor, len(widths)), 0
	for i, n := range widths {
		list[i] = x.Slice(1, from, ir.D(from+n))
		from += n
	}
	return list
}

// mamba2 computes the layer of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060): a short convolution, a selective scan, a
// gate, and a norm of each group if the file has it.
func (l layer) mamba2(x frontend.Tensor) frontend.Tensor {
	s := l.Recurrent
	shared := s.Groups * s.Keys
	// The gate, then the inputs of the convolution (x, b and c of the scan), then dt of each head.
	in := parts(nn.Linear(x, l.w.Sub("ssm_in")), s.Inner, s.Inner+2*shared, s.Heads)
	convolved := parts(l.shortConv(in[1], "ssm_conv1d").Silu(), s.Inner, shared, shared)
	times := x.Dim(0)
	heads := convolved[0].Reshape(times, s.Heads, s.Inner/s.Heads)
	dt := in[2].Add(l.float("ssm_dt.bias")).Softplus()
	y := l.goAlong("scan", []int{s.Heads, s.Inner / s.Heads, s.Keys}, []frontend.Tensor{heads, dt,
		convolved[1].Reshape(times, s.Groups, s.Keys), convolved[2].Reshape(times, s.Groups, s.Keys)},
		func(state frontend.Tensor, xs []frontend.Tensor) (y, last frontend.Tensor) {
			return xs[0].SSMScan(xs[1], l.float("ssm_a"), xs[2], xs[3], state)
		})
	y = y.Add(heads.Mul(l.float("ssm_d"))).Reshape(times, s.Inner).Mul(in[0].Silu())
	if norm := l.w.Sub("ssm_norm"); norm.Has("weight") {
		y = y.Reshape(times, s.Groups, s.Inner/s.Groups).RMSNorm(frontend.Tensor{}, l.NormEps).
			Mul(norm.Get("weight").Cast(ir.F32)).Reshape(times, s.Inner)
	}
	return nn.Linear(y, l.w.Sub("ssm_out"))
}

// float returns a weight of the layer in f32. name is the whole name.
func (l layer) float(name string) frontend.Tensor { return l.w.Get(name).Cast(ir.F32) }

// mamba2Weights lists the weights of layer.mamba2.
func (c Config) mamba2Weights() []weightSpec {
	s := c.Recurrent
	width := s.Inner + 2*s.Groups*s.Keys
	return append(optional(weightSpec{name: "ssm_norm", shape: ir.ShapeOf(s.Groups, s.Inner/max(s.Groups, 1))}),
		matrix("ssm_in", s.Inner+width+s.Heads, c.Width), matrix("ssm_out", c.Width, s.Inner),
		weightSpec{name: "ssm_conv1d", shape: ir.ShapeOf(width, s.Window), bias: ir.ShapeOf(width)},
		weightSpec{name: "ssm_dt", bias: ir.ShapeOf(s.Heads), onlyBias: true},
		weightSpec{name: "ssm_a", shape: ir.ShapeOf(s.Heads, 1), bare: true},
		weightSpec{name: "ssm_d", shape: ir.ShapeOf(s.Heads, 1), bare: true})
}

// scan reads the sizes of a scan and of the convolution before it.
func (r *metadata) scan(c *Config) {
	c.Recurrent = Recurrent{Window: r.size("ssm.conv_kernel"), Inner: r.size("ssm.inner_size"),
		Keys: r.size("ssm.state_size"), Heads: r.size("ssm.time_step_rank"), Groups: r.sizeOr("ssm.group_count", 1)}
}

// check returns an error for sizes that do not fit each other. A Window or Inner of 0 means that the model has no short
// convolution or no scan.
func (s Recurrent) check() error {
	switch {
	case s.Window == 0:
		return nil
	case s.Window < 2:
		return fmt.Errorf("a short convolution of %d positions: want 2 or more", s.Window)
	case s.Inner == 0:
		return nil
	case s.Heads < 1 || s.Groups < 1 || s.Inner%s.Heads != 0 || s.Heads%s.Groups != 0 || s.Inner%s.Groups != 0:
		return fmt.Errorf("a scan of %d elements, %d heads and %d groups of heads: want each to divide the one before",
			s.Inner, s.Heads, s.Groups)
	case s.Keys < 1 || s.Keys > ir.MaxStateWidth:
		return fmt.Errorf("a scan with rows of %d elements: want 1 to %d", s.Keys, ir.MaxStateWidth)
	}
	return nil
}
