package lower

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// lowerScan makes the kernel of a scan. The fold axis runs along the scanned axis in the direction of the scan. A scan
// that restarts at every chunk of elements has one more parallel axis, which enumerates the chunks.
func (l *lowerer) lowerScan() {
	n := l.c.Cores[0]
	axis := analysis.Axis(n)
	l.k.Family = kernel.FamilyScan
	l.space = n.Shape()
	extent := l.space[axis]
	l.k.Fold = extent
	chunk := int64(n.Attrs().Int("restart"))
	// A restart at or beyond the end of the axis has no effect.
	inChunks := chunk > 0 && chunk < extent.Max()
	shape := slices.Clone(l.space)
	shape[axis] = ir.D(1)
	if inChunks {
		l.k.Fold = ir.Dim{Add: chunk}
		shape[axis] = ir.Dim{Add: ceil.Div(extent.Max(), chunk)}
	}
	l.at = l.parallel(shape)
	position := kernel.Axis(l.k.FoldAxis(), l.k.Fold)
	if inChunks {
		position = position.Plus(l.at[axis].Times(chunk))
		// The last chunk may extend beyond the axis. The kernel skips these positions.
		if _, whole := extent.Quo(chunk); !whole || !extent.IsStatic() {
			l.k.Limit = &kernel.Limit{At: position, Below: extent}
		}
	}
	l.at[axis] = position
	if n.Attrs().Bool("reverse") {
		l.at[axis] = kernel.Last(extent).Minus(position)
	}
	v := l.value(n.Arg(0), l.at)
	combine := basicFolds[n.Op().Info().Running]
	l.accs[n] = []*kernel.Expr{l.phase(combine, v, "running_"+string(combine))}
	l.k.Phases[0].Exclusive = n.Attrs().Bool("exclusive")
	l.storeResults(perElement)
}
