package gradgen

import (
	"testing"

	"github.com/vkc-go/vkc/internal/graphgen"
)

// A fair share of random graphs have gradients, so that New does not look for long.
func TestGradients(t *testing.T) {
	for _, opt := range []graphgen.Options{{}, {Large: true}} {
		graphs, outputs := 0, 0
		for seed := range uint64(300) {
			g, ok, err := gradients(seed, opt)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if ok {
				graphs++
				outputs += len(g.Outputs())
			}
		}
		if graphs < 60 || outputs < graphs {
			t.Errorf("%+v: %d of 300 graphs have gradients, %d in all", opt, graphs, outputs)
		}
	}
}
