package lib

import "testing"

// TestLibraryOrder checks that functions use only earlier ones, for each of their types.
func TestLibraryOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range All {
		for _, u := range h.Uses() {
			if !seen[u] {
				t.Errorf("%s uses %s, which does not stand before it", h.Name, u)
			}
			for _, typ := range h.Types {
				if dep, _ := Find(u, typ); dep == nil {
					t.Errorf("%s of %s uses %s, which is not there for it", h.Name, typ, u)
				}
			}
		}
		seen[h.Name] = true
	}
}
