package fast

import (
	"math"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// narrowFirst reports whether float32 can represent the elements of a node's first argument.
func narrowFirst(n *ir.Node) bool { return isNarrow(n.Arg(0).DType()) }

// prepareRope returns the function that computes a rotary embedding. It rotates each pair of elements by an angle,
// which depends on the row's position and on the pair.
func prepareRope(n *ir.Node) func(c *interp.Call) error {
	attrs := n.Attrs()
	freqs := make([]float64, attrs.Int("dims")/2)
	if len(freqs) == 0 { // dims 0 rotates whole rows
		if width, err := n.Shape()[n.Rank()-1].Eval(nil); err == nil {
			freqs = make([]float64, width/2)
		}
	}
	for i := range freqs {
		freqs[i] = math.Pow(attrs.Float("base"), -float64(i)/float64(len(freqs)))
	}
	return func(c *interp.Call) error { return rope(c, freqs) }
}

// rope computes a rotary embedding. freqs has the frequency of each pair, in radians per position.
func rope(c *interp.Call, freqs []float64) error {
	axis, err := ir.ResolveAxis(int64(c.Node.Attrs().Int("axis")), len(c.Dims))
	if err != nil {
		return err
	}
	t, err := turnsFor(c, freqs)
	if err != nil {
		return err
	}
	defer idleTurns.Put(t)
	last, pairs := len(c.Dims)-1, len(freqs)
	width := c.Dims[last]
	apart, step := 1, 2 // distance between the elements of a pair, and between pairs
	if c.Node.Attrs().String_("mode") == "half" {
		apart, step = pairs, 1
	}
	inner := volume(c.Dims[axis+1 : last])                // rows per position
	each := volume(c.Dims[c.Node.Arg(1).Rank()-1 : last]) // rows that share a position
	return c.ParallelRange(len(c.Out)/width, width*elementWork/2, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			p := r/each*c.Dims[axis] + r/inner%c.Dims[axis] // the number of the row's position
			y := c.Out[r*width : (r+1)*width]
			copy(y, c.Args[0].Floats[r*width:])
			for i, t := range t.list[p*pairs : (p+1)*pairs] {
				first, second := &y[i*step], &y[i*step+apart]
				a, b := float64(*first), float64(*second)
				*first, *second = float32(float64(a*t.cos)-float64(b*t.sin)), float32(float64(a*t.sin)+float64(b*t.cos))
			}
		}
	})
}

// turn is the sine and cosine of an angle.
type turn struct{ sin, cos float64 }

// ropeTurns has the turns of all pairs, by position and pair. All rows at a position share them.
type ropeTurns struct {
	freqs []float64 // by pair, in radians per position
	// words, if not nil, has frequencies in full turns per position instead: for each pair a fraction of 64 bits, in
	// two words of 32 bits, the high one first.
	words     []int64
	positions []int64
	list      []turn
}

// idleTurns has *ropeTurns that are not in use. The layers of a model rotate by the same angles, so the next rope often
// needs the turns that the last one computed.
var idleTurns sync.Pool

// turnsFor returns the turns of a call. The caller gives them to idleTurns after use.
func turnsFor(c *interp.Call, freqs []float64) (*ropeTurns, error) {
	var words []int64
	if len(c.Args) > 2 {
		words = c.Args[2].Ints
	}
	positions := c.Args[1].Ints
	t, ok := idleTurns.Get().(*ropeTurns)
	if !ok {
		t = &ropeTurns{}
	} else if slices.Equal(t.positions, positions) && slices.Equal(t.freqs, freqs) && slices.Equal(t.words, words) {
		return t, nil
	}
	t.freqs, t.words = append(t.freqs[:0], freqs...), append(t.words[:0], words...)
	t.positions, t.list = append(t.positions[:0], positions...), resized(t.list, len(positions)*len(freqs))
	work := 8 * elementWork * len(freqs)
	if c.Serial(len(positions), work) {
		t.compute(0, len(positions))
		return t, nil
	}
	return t, c.ParallelRange(len(positions), work, t.compute)
}

// compute computes the turns at positions number lo to hi-1.
func (t *ropeTurns) compute(lo, hi int) {
	for p := lo; p < hi; p++ {
		position, list := t.positions[p], t.list[p*len(t.freqs):]
		for i, freq := range t.freqs {
			angle := float64(position) * freq
			if len(t.words) > 0 { // the product wraps at full turns, and is exact
				fraction := t.words[2*i]<<32 | t.words[2*i+1]&math.MaxUint32
				angle = float64(position*fraction) * (2 * math.Pi / (1 << 64))
			}
			sin, cos := math.Sincos(angle)
			list[i] = turn{sin, cos}
		}
	}
}
