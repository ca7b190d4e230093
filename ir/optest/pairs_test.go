package optest_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir/optest"
)

var (
	// inPairs are the i64 cases that compute with pairs of words; TestWords tests those that move them.
	inPairs = regexp.MustCompile(`^(neg|abs|sign|sqr|relu|add|sub|mul|div|mod|rem|pow|min|max|and|or|xor|not|shl|shr|lt|ge)/i64/extreme$` +
		`|^cast/i64/(chains/|to .*/digits)` +
		`|^cast/(i64/to (f64|f32|f16|i32|u8)|(f64|f32|i32|u32)/to i64)/extreme$` +
		`|^(clamp|affine)/i64/.*/7x13$|/i64/wide row|^(sum|prod|reduce_max|argmin)/i64/axis (1|-1)/(3x23|5x11|5x37)` +
		`|^cumsum/i64/(reverse )?exclusive axis -1/5x37$|^(scatter_add|index_add)/i64/6x7/axis 1/plain$` +
		`|^sort/i64/(axis -1/3x23|long/descending true)|^max_pool/i64/limits`)
	longRows = regexp.MustCompile(`/i64/wide row`)
)

// TestPairs runs them as on a device without 64-bit integers, and long rows also without subgroups: lanes then meet in
// shared memory.
func TestPairs(t *testing.T) {
	dev := openDevice(t)
	caps := dev.Caps()
	caps.Features.Int64 = false
	inNoShader := func(p *kernel.Program) {
		for _, s := range p.Shaders {
			if slices.Contains(s.Needs, "int64") {
				t.Errorf("%s needs 64-bit integers", s.Name)
			}
		}
	}
	runAs(t, dev, caps, optest.Options{Filter: inPairs}, 40, inNoShader)
	caps.SubgroupOps = device.SubgroupBasic
	runAs(t, dev, caps, optest.Options{Filter: longRows}, 5, inNoShader)
}
