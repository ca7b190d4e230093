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
	second, step := 1, 2 // distance between the elements of a pair, and between pairs
	if c.Node.Attrs().String_("mode") == "half" {
		second, step = pairs, 1
	}
	inner := volume(c.Dims[axis+1 : last])                // rows per position
	each := volume(c.Dims[c.Node.Arg(1).Rank()-1 : last]) // rows that share a position
	return c.ParallelRange(len(c.Out)/width, width*elementWork/2, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			p := r/each*c.Dims[axis] + r/inner%c.Dims[axis]
			y := c.Out[r*width : (r+1)*width]
			copy(y, c.Args[0].Floats[r*width:])
			for i, t := range turns[p*pairs : (p+1)*pairs] {
				first, second := &y[i*step], &y[i*step+second]
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
	positions, pairs := c.Args[1].Ints, len(freqs)
	angle := func(pos int64, i int) float64 { return float64(pos) * freqs[i] }
	if len(c.Args) > 2 { // an argument has the frequencies in turns: for each a 64-bit fraction, in two words
		words := c.Args[2].Ints
		angle = func(pos int64, i int) float64 {
			fraction := words[2*i]<<32 | words[2*i+1]&math.MaxUint32
			return float64(pos*fraction) * (2 * math.Pi / (1 << 64))
		}
	}
	turns := make([]turn, len(positions)*pairs)
	return turns, c.ParallelRange(len(positions), 8*elementWork*pairs, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			for i := range pairs {
				sin, cos := math.Sincos(angle(positions[p], i))
				turns[p*pairs+i] = turn{sin, cos}
			}
		}
	})
}
