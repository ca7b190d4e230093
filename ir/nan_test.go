package ir

import (
	"math"
	"testing"
)

// TestNaNIsNeverLost checks that no op that picks one of two numbers picks an
// infinity over NaN.
func TestNaNIsNeverLost(t *testing.T) {
	nan := math.NaN()
	for _, op := range []Op{OpMin, OpMax} {
		for _, x := range []float64{0, 1, math.Inf(1), math.Inf(-1)} {
			f := op.Info().Float
			if a, b := f([]float64{x, nan}, nil), f([]float64{nan, x}, nil); !math.IsNaN(a) || !math.IsNaN(b) {
				t.Errorf("%s of %v and NaN is %v one way and %v the other", op, x, a, b)
			}
		}
	}
	limits := Attrs{{"min", math.Inf(-1)}, {"max", math.Inf(1)}}
	if x := OpClamp.Info().Float([]float64{nan}, limits); !math.IsNaN(x) {
		t.Errorf("clamp of NaN is %v", x)
	}
	if x := OpRelu.Info().Float([]float64{nan}, nil); !math.IsNaN(x) {
		t.Errorf("relu of NaN is %v", x)
	}
}
