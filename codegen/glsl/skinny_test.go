package glsl

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// TestMatFormats: cooperative matrices support every block format of weights, with strips that match the format's runs.
func TestMatFormats(t *testing.T) {
	for _, dt := range ir.BlockFormats() {
		m, ok := schedule.SkinnyFormatOf(dt)
		if f, _ := ir.BlockFormatOf(dt); ok == f.Activations {
			t.Errorf("%s: whether matrix units take it should be otherwise", dt)
		}
		if !ok {
			continue
		}
		if run := kernel.NewBlockRun(dt, max(m.Span, kernel.RoundedGroup)); 4*run.Quads != m.Strip {
			t.Errorf("%s: strips of %d elements, want %d", dt, 4*run.Quads, m.Strip)
		}
	}
}
