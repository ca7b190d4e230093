package glsl

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// TestWriters: every variant that selection knows has a writer, and no other variant does.
func TestWriters(t *testing.T) {
	known := map[kernel.Variant]bool{}
	for _, v := range schedule.AllVariants() {
		known[v] = true
		if writers[v] == nil && v != kernel.VarCustom { // a custom op supplies its shader
			t.Errorf("%s has no writer", v)
		}
	}
	for v := range writers {
		if !known[v] {
			t.Errorf("%s has a writer, and selection does not know it", v)
		}
	}
}
