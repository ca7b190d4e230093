package rewrite

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/internal/recurrence"
	"github.com/vkc-go/vkc/ir"
)

// The kernels of op delta_rule in f64, without and with a correction. A kernel goes along time once, with the state in
// registers. GLSL has no exponential of doubles, so the argument decay is the factor itself.
var (
	plainScan     = newScan("scan", "Linear attention with a state that decays (Dao and Gu 2024).")
	correctedScan = newScan("delta_scan",
		"Linear attention with a state that decays and is corrected (Yang et al. 2024).",
		ir.ArgInfo{Name: "a"}, ir.ArgInfo{Name: "b"})
)

// newScan registers a kernel. Sixteen lanes share a row of the state, and a workgroup has eight rows. It adds up the
// lanes' parts of y for eight times at once, for which 16 KiB of shared memory suffice. Every device has these.
func newScan(name, doc string, more ...ir.ArgInfo) ir.Op {
	shared, source := 8*128, []string{"SHARED", "", "BEFORE", "", "CORRECTION", ""}
	if len(more) > 0 {
		shared += 2 * 128
		source = []string{"SHARED", "shared double reads[256];", "BEFORE", scanReads, "CORRECTION",
			" + read * b[b_at + n]"}
	}
	fill := strings.NewReplacer(source...).Replace
	return ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc." + name + "_f64", Doc: doc,
		Args: append([]ir.ArgInfo{{Name: "q"}, {Name: "k"}, {Name: "v"}, {Name: "decay"}, {Name: "state"}}, more...),
		Kernel: &ir.CustomKernel{
			Outputs: []string{"y", "last"}, Workgroup: [3]int{128},
			Grid:   [3][]ir.GridRule{{{Of: "state", Axis: 0, Tile: 8}}},
			Shared: fill("shared double parts[8 * 128];\nSHARED"), SharedBytes: ir.F64.BlockBytes() * shared,
			Body: fill(scanBody),
		},
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			for i := range c.Args {
				if c.DType(i) != ir.F64 {
					return nil, fmt.Errorf("want arguments of f64")
				}
			}
			return []ir.Type{{DType: ir.F64, Shape: c.Shape(2)}, {DType: ir.F64, Shape: c.Shape(4)}}, nil
		},
		Reference: scanReference,
	})
}

// scanReference computes a scan in Go.
func scanReference(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) {
	list := make([][]float64, len(args))
	for i, d := range args {
		var err error
		if list[i], err = d.Floats(); err != nil {
			return nil, err
		}
	}
	vectors := func(i int) recurrence.Vectors {
		if i >= len(args) {
			return recurrence.Vectors{}
		}
		return recurrence.Vectors{Elements: list[i], Groups: args[i].Dims[2]}
	}
	v := args[2].Dims
	s := recurrence.Scan{Batches: v[0], Times: v[1], Heads: v[2], Values: v[3], Keys: args[4].Dims[1],
		Q: vectors(0), K: vectors(1), A: vectors(5), B: vectors(6), V: list[2], Decay: list[3], Factors: true,
		State: list[4]}
	y, last := make([]float64, len(list[2])), make([]float64, len(list[4]))
	s.Run(y, last, 0, s.Batches*s.Heads)
	first, err := ir.FromFloats(ir.F64, y, v...)
	if err != nil {
		return nil, err
	}
	second, err := ir.FromFloats(ir.F64, last, args[4].Dims...)
	return []*ir.Data{first, second}, err
}

// scanBody goes along time. Element n of a row belongs to lane n % 16. Loops over elements are unrolled, so that the
// state stays in registers. y depends on no other lane's state, so lanes exchange values only once in eight times. Then
// each lane adds up the parts of a row at one time.
const scanBody = `const uint width = (state_dim1 + 15u) / 16u;
uint local = gl_LocalInvocationID.x, lane = local % 16u;
uint times = v_dim1, heads = v_dim2, values = v_dim3, row = gl_WorkGroupID.x * 8u + local / 16u;
bool inside = row < state_dim0;
uint from = inside ? row : state_dim0 - 1u, head = from / values % heads, first = from / (values * heads) * times;
double s[width];
[[unroll]] for (uint i = 0u; i < width; ++i) {
    uint n = i * 16u + lane;
    s[i] = 0.0;
    if (n < state_dim1) s[i] = state[from * state_dim1 + n];
}
for (uint t0 = 0u; t0 < times; t0 += 8u) {
    uint count = min(8u, times - t0);
    for (uint t = 0u; t < count; ++t) {
        uint at = (first + t0 + t) * heads + head, time = first + t0 + t;
        uint q_at = (time * q_dim2 + head * q_dim2 / heads) * state_dim1;
        uint k_at = (time * k_dim2 + head * k_dim2 / heads) * state_dim1;
        double value = v[at * values + from % values], part = 0.0;
BEFORE        [[unroll]] for (uint i = 0u; i < width; ++i) {
            uint n = i * 16u + lane;
            if (n < state_dim1) {
                s[i] = s[i] * decay[at * decay_dim3 + n % decay_dim3] + value * k[k_at + n]CORRECTION;
                part += s[i] * q[q_at + n];
            }
        }
        parts[t * 128u + local] = part;
    }
    barrier();
    uint t = local / 8u, sum_row = gl_WorkGroupID.x * 8u + local % 8u;
    if (t < count && sum_row < state_dim0) {
        double sum = 0.0;
        [[unroll]] for (uint i = 0u; i < 16u; ++i) sum += parts[t * 128u + local % 8u * 16u + i];
        uint time = sum_row / (values * heads) * times + t0 + t;
        y[(time * heads + sum_row / values % heads) * values + sum_row % values] = sum;
    }
    barrier();
}
if (inside) {
    [[unroll]] for (uint i = 0u; i < width; ++i) {
        uint n = i * 16u + lane;
        if (n < state_dim1) last[row * state_dim1 + n] = s[i];
    }
}`

// scanReads computes read, the product of the state from before this time and a. Two halves of shared memory take
// turns, so that one barrier suffices at each time.
const scanReads = `        uint a_at = (time * a_dim2 + head * a_dim2 / heads) * state_dim1;
        uint b_at = (time * b_dim2 + head * b_dim2 / heads) * state_dim1;
        double read = 0.0;
        [[unroll]] for (uint i = 0u; i < width; ++i) {
            uint n = i * 16u + lane;
            if (n < state_dim1) read += s[i] * a[a_at + n];
        }
        uint turn = t % 2u * 128u;
        reads[turn + local] = read;
        barrier();
        read = 0.0;
        [[unroll]] for (uint i = 0u; i < 16u; ++i) read += reads[turn + local - lane + i];
`
