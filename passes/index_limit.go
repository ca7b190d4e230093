package passes

import (
	"errors"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Limits of how large the coordinates of one point may grow together (see
// [kernel.Index.Size]) as ops that move elements transform them. A reshape makes
// every coordinate of all those before, so that some of them one after another
// take exponential time and code. Models stay below 32.
const (
	maxIndex   = 256
	grownIndex = maxIndex / 8 // above the sizes of a kernel's own axes
)

// errIndex says that a kernel would compute where elements lie for longer than
// it takes to store them where they are read.
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
		if !f.live[i] || f.coreOrHome(n) != nil || isLeaf(n) || n.Op().Class() == ir.ClassElementwise {
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
