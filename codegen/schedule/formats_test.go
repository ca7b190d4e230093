package schedule

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// unmeasured lists, by class, the block formats without measured heuristics for few rows. They use the default.
const unmeasured = `
nvidia matvec: q8_1 q8_K nvfp4
nvidia matrix units: q8_1 q8_K iq2_xs iq4_nl mxfp4 nvfp4
`

// TestMeasuredFormats: a format has rows in a vendor's tables, or is listed.
func TestMeasuredFormats(t *testing.T) {
	have := "\n"
	for _, table := range []struct {
		name string
		has  func(ir.DType) bool
	}{
		{"nvidia matvec", func(t ir.DType) bool { _, ok := nvidiaBlocks[t]; return ok }},
		{"nvidia matrix units", func(t ir.DType) bool { _, ok := nvidiaUnits[t]; return ok }},
	} {
		have += table.name + ":"
		for _, dt := range ir.BlockFormats() {
			if !table.has(dt) {
				have += fmt.Sprintf(" %s", dt)
			}
		}
		have += "\n"
	}
	if have != unmeasured {
		t.Errorf("formats without rows:%s", have)
	}
}
