package graphgen

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestText writes random graphs as text and as JSON. Both read back as the same graph.
func TestText(t *testing.T) {
	for seed := range uint64(400) {
		g := generate(t, seed, Options{Derived: seed%4 == 3, Large: seed%4 == 2})
		text, err := ir.Parse(g.String())
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, g)
		}
		written, err := g.MarshalJSONText()
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, g)
		}
		json, err := ir.ReadJSON("graph", written)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, written)
		}
		for how, again := range map[string]*ir.Graph{"text": text, "JSON": json} {
			if again.HashString() != g.HashString() {
				t.Errorf("seed %d: the %s of\n%s reads back as\n%s", seed, how, g, again)
			}
		}
	}
}
