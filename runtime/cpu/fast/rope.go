package fast

import (
	"math"

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
	turns, err := ropeTurns(c, freqs)
	if err != nil {
		return err
	}
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
			p := r/each*c.Dims[axis] + r/inner%c.Dims[axis]
			y := c.Out[r*width : (r+1)*width]
			copy(y, c.Args[0].Floats[r*width:])
			for i, t := range turns[p*pairs : (p+1)*pairs] {
				first, second := &y[i*step], &y[i*step+apart]
				a, b := float64(*first), float64(*second)
				*first, *second = float32(float64(a*t.cos)-float64(b*t.sin)), float32(float64(a*t.sin)+float64(b*t.cos))
			}
		}
	})
}

// turn is the sine and cosine of an angle.
type turn struct{ sin, cos float64 }

// ropeTurns returns the turns of all pairs, by position and pair. All rows at a position share them.
func ropeTurns(c *interp.Call, freqs []float64) ([]turn, error) {
	a := ropeAngles{freqs: freqs}
	if len(c.Args) > 2 {
		a.words = c.Args[2].Ints
	}
	positions, pairs := c.Args[1].Ints, len(freqs)
	list, work := make([]turn, len(positions)*pairs), 8*elementWork*pairs
	if c.Serial(len(positions), work) {
		a.turns(list, positions)
		return list, nil
	}
	return list, c.ParallelRange(len(positions), work, func(lo, hi int) {
		a.turns(list[lo*pairs:hi*pairs], positions[lo:hi])
	})
}

// ropeAngles has the frequencies of pairs of elements.
type ropeAngles struct {
	freqs []float64 // by pair, in radians per position
	// words, if not nil, has frequencies in full turns per position instead: for each pair a fraction of 64 bits, in
	// two words of 32 bits, the high one first.
	words []int64
}

// turns fills list with the turns of the positions, by position and pair.
func (a ropeAngles) turns(list []turn, positions []int64) {
	for p, position := range positions {
		for i, freq := range a.freqs {
			angle := float64(position) * freq
			if a.words != nil {
				fraction := a.words[2*i]<<32 | a.words[2*i+1]&math.MaxUint32
				angle = float64(position*fraction) * (2 * math.Pi / (1 << 64))
			}
			sin, cos := math.Sincos(angle)
			list[p*len(a.freqs)+i] = turn{sin, cos}
		}
	}
}
