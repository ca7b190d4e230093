package matvec

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// TestReaders: every Decode of a matvec has a reader, and no other value does.
func TestReaders(t *testing.T) {
	for _, d := range kernel.Decodes {
		if readers[d] == nil {
			t.Errorf("%q has no reader", d)
		}
	}
	if len(readers) != len(kernel.Decodes) {
		t.Errorf("%d readers, %d ways to read: %v", len(readers), len(kernel.Decodes), kernel.Decodes)
	}
}
