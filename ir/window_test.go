package ir_test

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestPoolShapes counts the windows of pools one by one, with different padding at both ends: the windows that fit, and
// with ceil_mode one more that extends beyond the end if it starts at an element or in the padding before them.
func TestPoolShapes(t *testing.T) {
	for n := 3; n <= 8; n++ {
		for kernel := 1; kernel <= 3; kernel++ {
			for stride := 1; stride <= 3; stride++ {
				for dilation := 1; dilation <= 2; dilation++ {
					reach := (kernel-1)*dilation + 1
					for low := range min(reach, 3) {
						for high := range min(reach, 3) {
							if n+low+high < reach {
								continue
							}
							for _, ceil := range []bool{false, true} {
								want := 0
								for start := -low; start+reach <= n+high ||
									ceil && start < n && start-stride+reach < n+high; start += stride {
									want++
								}
								text := fmt.Sprintf("graph \"pool\" {\n  %%0 = input {name=\"x\", dtype=f32, "+
									"shape=[1,1,%d]} : f32[1,1,%d]\n  %%1 = max_pool %%0 {kernel=[%d], stride=[%d], "+
									"padding_low=[%d], padding_high=[%d], dilation=[%d], ceil_mode=%v} : f32[1,1,%d]\n"+
									"  output \"y\" %%1\n}\n", n, n, kernel, stride, low, high, dilation, ceil, want)
								if _, err := ir.Parse(text); err != nil {
									t.Errorf("%s%v", text, err)
								}
							}
						}
					}
				}
			}
		}
	}
}
