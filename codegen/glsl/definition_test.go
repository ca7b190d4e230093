package glsl

import (
	"strings"
	"testing"
)

// TestLibraryDefinitions: a row of the library is one definition with the row's name, in the printer's style.
func TestLibraryDefinitions(t *testing.T) {
	for _, h := range library {
		for _, typ := range h.types {
			d := h.definition(typ)
			if d.Name != h.name {
				t.Errorf("%s of %s defines %q", h.name, typ, d.Name)
			}
			want := strings.ReplaceAll(strings.Trim(h.source, "\n"), "TYPE", typ) + "\n"
			if have := d.String(); have != want {
				t.Errorf("%s of %s is printed as\n%s", h.name, typ, have)
			}
		}
	}
}
