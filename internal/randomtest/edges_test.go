package randomtest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
)

// TestRandomEdges runs one program after the other with extents where kernels change: none, one, and around the sizes
// of tiles, workgroups and vectors. The extents come in any order, and states stay from run to run.
func TestRandomEdges(t *testing.T) {
	test{graphs: 25, fewer: 4, graph: symbolic, differ: func(dev *vkc.Device, g *ir.Graph, seed uint64) (int, error) {
		return differAt(dev, g, graphgen.Values{Seed: seed, Graph: g}, edges(g, seed, 16))
	}}.run(t)
}

// symbolic returns a graph with symbols, half of the time with states. Two of three graphs are large.
func symbolic(seed uint64) (*ir.Graph, error) {
	for try := uint64(0); ; try++ {
		g, err := graphgen.New(seed+try<<32, graphgen.Options{Large: seed%3 > 0, Derived: seed%6 == 0})
		if err != nil || len(g.Symbols()) > 0 && (seed%2 == 0 || len(g.Updates()) > 0) {
			return g, err
		}
	}
}

// edges returns n choices of values for a graph's symbols.
func edges(g *ir.Graph, seed uint64, n int) (list []map[string]int64) {
	rng := rand.New(rand.NewPCG(seed, 0x65646765)) // "edge" in ASCII: any constant would do
	at := []int64{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1 << 40}
	for range 20 * n {
		symbols := map[string]int64{}
		for _, s := range g.Symbols() {
			bound, _ := g.SymbolBound(s)
			symbols[s] = min(at[rng.IntN(len(at))], bound)
			if rng.IntN(4) == 0 {
				symbols[s] = max(bound-int64(rng.IntN(2)), 0)
			}
		}
		if len(list) < n && isValid(g, symbols) {
			list = append(list, symbols)
		}
	}
	return list
}

// isValid reports whether all extents of a graph are valid under these symbol values.
func isValid(g *ir.Graph, symbols map[string]int64) bool {
	return !slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool {
		_, err := n.Shape().Eval(symbols)
		return err != nil
	})
}
