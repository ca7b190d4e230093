package fast

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestWinogradCosts: convolutions of many channels take Winograd's algorithm, and others do not.
func TestWinogradCosts(t *testing.T) {
	if vector == nil {
		t.Skip("there is no assembly for this processor")
	}
	for what, c := range map[string]struct {
		in, out, kernel, side int
		attrs                 string
		taken                 bool
	}{
		"a large image": {64, 64, 3, 64, "{padding_low=[1,1], padding_high=[1,1]}", true},
		"a small image": {256, 256, 3, 14, "{}", true},
		"one tile":      {256, 256, 3, 4, "{}", false},
		"few channels":  {8, 64, 3, 64, "{}", false},
		"few results":   {64, 8, 3, 64, "{}", false},
		"a stride":      {64, 64, 3, 64, "{stride=[1,2]}", false},
		"a dilation":    {64, 64, 3, 64, "{dilation=[2,1]}", false},
		"groups":        {64, 64, 3, 64, "{groups=2}", false},
		"a 1x1 window":  {64, 64, 1, 64, "{}", false},
	} {
		per := c.in
		if what == "groups" {
			per /= 2
		}
		g, err := ir.Parse(fmt.Sprintf(`graph "g" {
			%%x = input {name="x", dtype=f32, shape=[1,%d,%d,%d]}
			%%w = weight {name="w", dtype=f32, shape=[%d,%d,%d,%d]}
			%%y = conv %%x, %%w %s
			output "y" %%y
		}`, c.in, c.side, c.side, c.out, per, c.kernel, c.kernel, c.attrs))
		if err != nil {
			t.Fatal(err)
		}
		f := &convolution{node: g.Outputs()[0].Node}
		if taken := f.mayUseWinograd(); taken != c.taken {
			t.Errorf("%s: Winograd's algorithm is used: %v, want %v", what, taken, c.taken)
		}
	}
}
