package lower

import (
	"errors"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// Ops that move elements, such as reshape, transform coordinates. After a reshape every coordinate can depend on all
// coordinates before it, so a chain of such ops can take exponential time and code. maxIndex limits the sum of the
// sizes of an element's coordinates (see [kernel.Index.Size]). Models stay below 32.
const (
	maxIndex   = 256
	grownIndex = maxIndex / 8 // elements at smaller coordinates are not checked, to save time
)

// errIndex means that the coordinates of an element are too large. A kernel should store the moved elements first.
var errIndex = errors.New("computing the positions of its elements would take too long")

// sizeOf returns the sum of the sizes of coordinates.
func sizeOf(at []kernel.Index) int {
	size := 0
	for _, x := range at {
		size += x.Size()
	}
	return size
}

// cutIndices finds chains of ops that move elements, such as reshapes and slices, with index expressions that would
// grow too large when the whole chain is inlined. It stores a node in the middle of such a chain. To find these nodes
// it lowers each cluster that computes such ops inline; see lowerer.cuts.
func (f *Fusion) cutIndices() error {
	var check []*Cluster
	seen := map[*Cluster]bool{}
	for i, n := range f.Graph.Nodes() {
		if !f.live[i] || f.clusterOf(n) != nil || analysis.IsLeaf(n) || n.Op().Class() == ir.ClassElementwise {
			continue
		}
		for _, c := range f.readersOf(n) {
			if !seen[c] {
				seen[c] = true
				check = append(check, c)
			}
		}
	}
	for len(check) > 0 {
		c, known := check[0], len(f.Clusters)
		l := newLowerer(f, c)
		c.Stored, l.cuts = c.tails, true // lowering stores what c may have to store, since that is not decided yet
		// Pass lower reports errors other than the end of the context.
		if _, err := l.lower(); err != nil && f.ctx.Err() != nil {
			return err
		}
		check = append(check[1:], f.Clusters[known:]...) // the clusters of the nodes that lowering cut off
	}
	return nil
}
