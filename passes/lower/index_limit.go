package lower

import (
	"errors"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// Limits for the total size of a point's coordinates (see [kernel.Index.Size]), which ops that move elements transform.
// A reshape makes every coordinate depend on all previous ones, so several in sequence would take exponential time and
// code. Models stay below 32.
const (
	maxIndex   = 256
	grownIndex = maxIndex / 8 // above the sizes of a kernel's own axes
)

// errIndex means that computing the indices would take longer than storing the elements in the order in which they are
// read.
var errIndex = errors.New("where its elements lie would take too long to compute")

func sizeOf(at []kernel.Index) int {
	size := 0
	for _, x := range at {
		size += x.Size()
	}
	return size
}

// cutIndices stores nodes between ops that move elements, if their coordinate transformations together would grow too
// large.
func (f *Fusion) cutIndices() error {
	var check []*Cluster
	seen := map[*Cluster]bool{}
	for i, n := range f.Graph.Nodes() {
		if !f.live[i] || f.coreOrHome(n) != nil || analysis.IsLeaf(n) || n.Op().Class() == ir.ClassElementwise {
			continue
		}
		for _, c := range f.evaluators(n) {
			if !seen[c] {
				seen[c] = true
				check = append(check, c)
			}
		}
	}
	for len(check) > 0 {
		c, made := check[0], len(f.Clusters)
		l := newLowerer(f, c)
		c.Stored, l.cuts = c.tails, true
		if _, err := l.lower(); err != nil && f.ctx.Err() != nil {
			return err
		} // others report its other errors
		check = append(check[1:], f.Clusters[made:]...)
	}
	return nil
}
