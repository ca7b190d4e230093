package glsl

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
)

// TestMatFormats: what matrix units are told of block formats is what their
// decoders do.
func TestMatFormats(t *testing.T) {
	for dt, f := range blockFormats {
		m, ok := target.MatFormatOf(dt)
		if dt == ir.Q8_1 || dt == ir.Q8_K { // of activations, not of weights
			ok = !ok
		}
		if !ok {
			t.Errorf("%s: whether matrix units take it should be otherwise", dt)
			continue
		}
		if dt == ir.Q8_1 || dt == ir.Q8_K {
			continue
		}
		span := target.RoundedGroup
		if f.interleaved() {
			span = f.superblock()
		}
		if strip := min(f.run, target.RoundedGroup); m.Strip != strip || m.Span != span || m.Affine != f.affine || m.Levels != (f.levels != "") {
			t.Errorf("%s: %+v, but %d elements share a scale and %d are decoded together", dt, m, strip, span)
		}
		if run := newBlockRun(dt, max(m.Span, target.RoundedGroup)); 4*run.quads != m.Strip {
			t.Errorf("%s: strips of %d elements, want %d", dt, 4*run.quads, m.Strip)
		}
	}
}
