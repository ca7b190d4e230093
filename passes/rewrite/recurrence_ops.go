package rewrite

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/internal/recurrence"
	"github.com/vkc-go/vkc/ir"
)

// The kernels of op delta_rule in f64, without and with a correction. A kernel goes along time once, with the state in
// registers. The argument decay is the factor itself, because custom kernels have no exponential of doubles.
var (
	plainScan     = newScan("scan", "Linear attention with a state that decays (Dao and Gu 2024).")
	correctedScan = newScan("delta_scan",
		"Linear attention with a state that decays and is corrected (Yang et al. 2024).",
		ir.ArgInfo{Name: "a"}, ir.ArgInfo{Name: "b"})
)

// newScan registers a kernel. Sixteen lanes share a row of the state, and a workgroup has eight rows. It adds up the
// lanes' parts of y for eight time steps at once, for which the 16 KiB of shared memory that every device has suffice.
func newScan(name, doc string, more ...ir.ArgInfo) ir.Op {
	// shared counts doubles: parts of y for eight time steps and 128 lanes.
	shared, source := 8*128, []string{"SHARED", "", "BEFORE", "", "CORRECTION", ""}
	if len(more) > 0 {
		shared += 2 * 128 // the correction's reads
		source = []string{"SHARED", "shared double reads[256];", "BEFORE", kernelSource("recurrence_reads") + "\n",
			"CORRECTION", " + read * b[b_at + n]"}
	}
	fill := strings.NewReplacer(source...).Replace
	return ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc." + name + "_f64", Doc: doc,
		Args: append([]ir.ArgInfo{{Name: "q"}, {Name: "k"}, {Name: "v"}, {Name: "decay"}, {Name: "state"}}, more...),
		Kernel: &ir.CustomKernel{
			Outputs: []string{"y", "last"}, Workgroup: [3]int{128},
			Grid:   [3][]ir.GridRule{{{Of: "state", Axis: 0, Tile: 8}}},
			Shared: fill("shared double parts[8 * 128];\nSHARED"), SharedBytes: ir.F64.BlockBytes() * shared,
			Body: fill(kernelSource("recurrence")),
		},
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			for i := range c.Args {
				if c.DType(i) != ir.F64 {
					return nil, fmt.Errorf("want arguments of f64")
				}
			}
			// Result y has v's shape, and last the state's.
			return []ir.Type{{DType: ir.F64, Shape: c.Shape(2)}, {DType: ir.F64, Shape: c.Shape(4)}}, nil
		},
		Reference: reference(scanReference),
	})
}

// scanReference computes a scan in Go. Its arguments are q, k, v, decay and state, and with a correction also a and b
// (see newScan). It returns the outputs y and the last state.
func scanReference(args []*ir.Data, _ ir.Attrs) []*ir.Data {
	vectors := func(i int) recurrence.Vectors {
		if i >= len(args) {
			return recurrence.Vectors{}
		}
		return recurrence.Vectors{Elements: floats(args[i]), Groups: args[i].Dims[2]}
	}
	v := args[2].Dims
	s := recurrence.Scan{Batches: v[0], Times: v[1], Heads: v[2], Values: v[3], Keys: args[4].Dims[1],
		Q: vectors(0), K: vectors(1), A: vectors(5), B: vectors(6), V: floats(args[2]), Decay: floats(args[3]),
		Factors: true, State: floats(args[4])}
	y, last := make([]float64, len(s.V)), make([]float64, len(s.State))
	s.Run(y, last, 0, s.Batches*s.Heads)
	return []*ir.Data{ofFloats(ir.F64, y, v...), ofFloats(ir.F64, last, args[4].Dims...)}
}
