package e2e_test

import (
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
)

// compileWith compiles a graph again with options that only the compiler has.
func compileWith(t *testing.T, caps device.Caps, g *ir.Graph, opt compiler.Options) *vkc.Program {
	t.Helper()
	opt.Target = caps
	c, err := compiler.Compile(t.Context(), g, opt)
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	return &vkc.Program{Contents: c.Contents, Stats: c.Stats}
}

// splitAllOperands prices splits so that the compiler splits the operands of all matmuls that allow it, with a storage
// layout in whole tiles of an H100.
func splitAllOperands(caps device.Caps) kernel.Pricer { return splitsAll{schedule.NewPricer(caps)} }

type splitsAll struct{ schedule.Pricer }

func (splitsAll) Sizes(k *kernel.Kernel) kernel.Sizes {
	const tile = 256
	whole := func(d ir.Dim) int { return int(d.Max()+tile-1) / tile * tile }
	var all []kernel.StoredOperand
	for _, p := range k.MatMuls {
		for i, v := range []*kernel.Expr{p.A, p.B} {
			axis := len(k.Parallel) - 2 + i
			if p.BF16x3 {
				all = append(all, kernel.StoredOperand{Operand: v, Rows: whole(k.Parallel[axis]),
					Depth: whole(k.Fold), Across: !schedule.FoldContiguous(k, v, axis)})
			}
		}
	}
	return kernel.Sizes{Operands: [][]kernel.StoredOperand{all}}
}

func (p splitsAll) Price(r kernel.Rewrite) kernel.Estimate {
	if r.Work != nil {
		return p.Pricer.Price(r)
	}
	return kernel.Estimate{Before: 1}
}

// fuseAllRows prices fusion so that the compiler fuses norms, and ops on slices of rows, with all matmuls that allow
// it.
func fuseAllRows(caps device.Caps) kernel.Pricer { return joinsAll{schedule.NewPricer(caps)} }

type joinsAll struct{ schedule.Pricer }

func (p joinsAll) Price(r kernel.Rewrite) kernel.Estimate {
	if r.Rule != "fuse_norms" && r.Rule != "fuse_slices" {
		return p.Pricer.Price(r)
	}
	for _, k := range r.After {
		if _, _, err := schedule.Select(k, p.Caps); err != nil {
			return kernel.Estimate{Note: err.Error()}
		}
	}
	return kernel.Estimate{Before: 1}
}
