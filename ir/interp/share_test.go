package interp_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestSharedStateTypes: programs that share states have one type for each name, also if a third program has added the
// state.
func TestSharedStateTypes(t *testing.T) {
	program := func(share *interp.Program, sizes map[string]int) (*interp.Program, error) {
		g, err := frontend.Build("states", func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 1)
			for name, n := range sizes {
				s := b.State(name, ir.F32, n)
				b.Update(s, s.Add(x))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return interp.New(g, interp.Options{Share: share})
	}
	first, err := program(nil, map[string]int{"a": 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program(first, map[string]int{"a": 2, "b": 3}); err != nil {
		t.Fatal(err)
	}
	for name, sizes := range map[string]map[string]int{"a": {"a": 4}, "b": {"a": 2, "b": 5}} {
		if _, err := program(first, sizes); err == nil || !strings.Contains(err.Error(), `state "`+name+`" is f32`) {
			t.Errorf("%v: error %v", sizes, err)
		}
	}
	if _, err := program(first, map[string]int{"a": 2, "b": 3}); err != nil {
		t.Error(err)
	}
}
