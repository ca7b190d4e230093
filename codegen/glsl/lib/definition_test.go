package lib

import (
	"strings"
	"testing"
)

// TestLibraryDefinitions: a row of the library is one definition with the row's name, in the printer's style.
func TestLibraryDefinitions(t *testing.T) {
	for _, h := range All {
		for _, typ := range h.Types {
			d := h.Definition(typ)
			if d.Name != h.Name {
				t.Errorf("%s of %s defines %q", h.Name, typ, d.Name)
			}
			want := strings.ReplaceAll(strings.Trim(h.Source, "\n"), "TYPE", typ) + "\n"
			if have := d.String(); have != want {
				t.Errorf("%s of %s is printed as\n%s", h.Name, typ, have)
			}
		}
	}
}
