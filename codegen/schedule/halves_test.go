package schedule

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestHalves: exact rows become sums of two f16 values on devices with measured tiles, if there are enough rows and
// columns for all cores, and if a step of the format fits in shared memory.
func TestHalves(t *testing.T) {
	for _, c := range []struct {
		profile              string
		format               ir.DType
		rows, columns, depth int
		want                 bool
	}{
		{"nvidia-h100", ir.Q4_0, 512, 4096, 4096, true},
		{"nvidia-h100", ir.Q4_K, 512, 4096, 4096, true},
		{"nvidia-h100", ir.IQ4_NL, 128, 11008, 4096, true},
		{"nvidia-h100", ir.Q4_0, 32, 4096, 4096, false},
		{"nvidia-h100", ir.Q4_0, 512, 512, 4096, false},
		{"nvidia-h100", ir.Q6_K, 512, 4096, 4096, false},
		{"nvidia-h100", ir.Q8_1, 512, 4096, 4096, false},
		{"generic", ir.Q4_0, 512, 4096, 4096, false},
	} {
		caps, err := device.Profile(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		w := kernel.Work{Form: kernel.FormHalves, Format: c.format, Rows: ir.D(c.rows), Columns: ir.D(c.columns),
			Depth: ir.D(c.depth)}
		if have := kernel.Suits(NewPricer(caps), w); have != c.want {
			t.Errorf("%s: %d rows by %s of %dx%d are split: %v, want %v", c.profile, c.rows, c.format, c.columns,
				c.depth, have, c.want)
		}
	}
}
