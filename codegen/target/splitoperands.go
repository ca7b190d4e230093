package target

import (
	"math"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// splitGain is how much faster a product must be expected to be once its
// operands are split: estimates promise more than they hold.
const splitGain = 1.25

// SplitOperands returns how the operands of a product of f32 whose graph allows
// to take them apart into bf16 are stored best, or nil where the product is
// expected to be as fast, or nearly so, in f32.
func SplitOperands(k *kernel.Kernel, caps Caps) []kernel.StoredOperand {
	t := classOf(caps).tune(caps)
	if len(k.Parallel) < 2 || !k.Fold.IsStatic() || k.Fold.Add < 1 || matShapeOf(k).M <= MaxMatVecRows {
		return nil
	}
	r := len(k.Parallel)
	depth := roundUp(int(k.Fold.Add), storedDepth(ir.BF16))
	terms, _, _ := k.BF16Terms()
	split := &kernel.Kernel{Family: kernel.FamilyMatMul, Parallel: k.Parallel, Fold: ir.D(terms * depth)}
	b := kernel.NewBuilder()
	loads := map[*kernel.Expr]*kernel.Expr{}
	var list []kernel.StoredOperand
	storing := 0.0 // nanoseconds
	load := func(v *kernel.Expr, axis int) *kernel.Expr {
		if loads[v] == nil {
			o := storedApart(k, v, axis, depth)
			list = append(list, o)
			loads[v] = partsOf(split, b, o, axis)
			if !k.IsFixed(v) { // else it is stored once, when the program is loaded
				storing += t.LaunchNs + float64(splitBytes(k, o, split, int64(terms)))/t.CopyGBps
			}
		}
		return loads[v]
	}
	for _, p := range k.Products {
		split.Products = append(split.Products, kernel.Product{A: load(p.A, r-2), B: load(p.B, r-1), Name: p.Name, Operands: ir.BF16})
	}
	for _, bind := range split.Bindings {
		if bind.Elems > math.MaxInt32 || bindingBytes(bind) > caps.MaxStorageRange {
			return nil
		}
	}
	fast, ok := t.bestMatrixTime(split, caps, 1)
	if !ok || splitGain*(fast+storing) > t.vectorTime(k) {
		return nil
	}
	return list
}

// storedApart says how to store an operand: whole tiles of it, along the axis
// that it lies along in memory already.
func storedApart(k *kernel.Kernel, v *kernel.Expr, axis, depth int) kernel.StoredOperand {
	o := kernel.StoredOperand{Operand: v}
	if int64(depth) != k.Fold.Add {
		o.Depth = depth
	}
	rows := k.Parallel[axis]
	whole := DivisibleBy(rows, storedRows)
	if rows.IsStatic() && !whole {
		o.Rows = roundUp(int(rows.Add), storedRows)
	}
	o.Across = whole && !FoldContiguous(k, v, axis)
	return o
}

// partsOf loads an operand that is taken apart, from a binding of its own.
func partsOf(split *kernel.Kernel, b *kernel.Builder, o kernel.StoredOperand, axis int) *kernel.Expr {
	rows, depth := kernel.DimIndex(split.Parallel[axis]), kernel.DimIndex(split.Fold)
	if o.Rows > 0 {
		rows = kernel.Const(int64(o.Rows))
	}
	at, batch, elems := kernel.Const(0), split.Parallel[:len(split.Parallel)-2], int64(1)
	for i, d := range batch {
		if o.Operand.Uses(i) {
			at = at.Mul(kernel.DimIndex(d)).Plus(kernel.Axis(i, d))
			elems *= d.Max()
		}
	}
	row, fold := kernel.Axis(axis, split.Parallel[axis]), kernel.Axis(split.FoldAxis(), split.Fold)
	if o.Across {
		at = at.Mul(depth).Plus(fold).Mul(rows).Plus(row)
	} else {
		at = at.Mul(rows).Plus(row).Mul(depth).Plus(fold)
	}
	elems *= max(split.Parallel[axis].Max(), int64(o.Rows)) * split.Fold.Max()
	split.Bindings = append(split.Bindings, kernel.Binding{Name: "parts", DType: ir.BF16, Read: true, Elems: elems})
	return b.Load(len(split.Bindings)-1, ir.BF16, at, "parts")
}

// splitBytes is what storing the last operand of a split product moves: its
// parts, and once what they are computed from.
func splitBytes(k *kernel.Kernel, o kernel.StoredOperand, split *kernel.Kernel, terms int64) int64 {
	stored := split.Bindings[len(split.Bindings)-1].Elems
	bytes := 2 * stored
	kernel.Walk([]*kernel.Expr{o.Operand}, func(e *kernel.Expr) {
		if e.Kind == kernel.ExprLoad {
			bytes += stored / terms * int64(k.Bindings[e.Bind].DType.BlockBytes())
		}
	})
	return bytes
}
