package matvec

import (
	"reflect"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestReaders: every Decode of a matvec has a reader, and no other value does.
func TestReaders(t *testing.T) {
	decodes := map[reflect.Type]kernel.Decode{}
	for _, d := range kernel.Decodes {
		v := &matVec{S: kernel.MatVec{Decode: d}, run: kernel.BlockRun{DType: ir.IQ2_XXS}}
		of := reflect.TypeOf(v.newReader())
		if other, ok := decodes[of]; ok || of == nil {
			t.Errorf("%q has reader %v, want one that no other way to read has, such as %q", d, of, other)
		}
		decodes[of] = d
	}
	if r := (&matVec{S: kernel.MatVec{Decode: "none"}}).newReader(); r != nil {
		t.Errorf("an unknown way to read has reader %T", r)
	}
}
