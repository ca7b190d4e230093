package glsl

import "testing"

// TestLibraryOrder checks that functions use only earlier ones, for each of their types.
func TestLibraryOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range library {
		for _, u := range h.uses() {
			if !seen[u] {
				t.Errorf("%s uses %s, which does not stand before it", h.name, u)
			}
			for _, typ := range h.types {
				if dep, _ := findHelper(u, typ); dep == nil {
					t.Errorf("%s of %s uses %s, which is not there for it", h.name, typ, u)
				}
			}
		}
		seen[h.name] = true
	}
}
