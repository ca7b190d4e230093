package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/recurrence"
	"github.com/vkc-go/vkc/ir"
)

// scans are the kernels of ops ssm_scan and delta_rule for a dtype, without and with a correction. A kernel goes along
// time once, with the state in registers. No kernel family has such a loop, so they are custom ops with a Go reference.
type scans struct{ plain, corrected ir.Op }

var singleScans, doubleScans = newScans("float", ir.F32), newScans("double", ir.F64)

// scansOf returns the kernels for f32 or f64.
func scansOf(t ir.DType) scans {
	if t == ir.F64 {
		return doubleScans
	}
	return singleScans
}

// newScans registers the kernels for a dtype. Sixteen lanes share a row of the state, and a workgroup has eight rows.
// It adds up the lanes' parts of y for several times at once. 16 KiB of shared memory, which every device has, suffice
// for the parts of 16 times in f32, and of 8 in f64. GLSL has no exponential of doubles, so theirs is an argument.
func newScans(glsl string, t ir.DType) scans {
	times, factor := 16, "exp(DECAY)"
	if t == ir.F64 {
		times, factor = 8, "(DECAY)"
	}
	register := func(name, doc string, more ...ir.ArgInfo) ir.Op {
		shared, corrected := times*128, len(more) > 0
		source := []string{"REAL", glsl, "TIMES", fmt.Sprintf("%du", times), "FACTOR", factor,
			"DECAY", "decay[at * decay_dim3 + n % decay_dim3] * rate[head % rate_dim0 * rate_dim1 + n % rate_dim1]"}
		if corrected {
			shared += 2 * 128
			source = append(source, "SHARED", "shared REAL reads[256];", "BEFORE", scanReads, "CORRECTION",
				" + read * b[b_at + n]")
		} else {
			source = append(source, "SHARED", "", "BEFORE", "", "CORRECTION", "")
		}
		fill := func(text string) string { // twice: replacements have words, too
			return strings.NewReplacer(source...).Replace(strings.NewReplacer(source...).Replace(text))
		}
		return ir.MustRegisterCustom(ir.CustomOp{
			Name: "vkc." + name + "_" + t.String(), Doc: doc,
			Args: append([]ir.ArgInfo{{Name: "q"}, {Name: "k"}, {Name: "v"}, {Name: "decay"}, {Name: "rate"},
				{Name: "state"}, {Name: "scale"}}, more...),
			Kernel: &ir.CustomKernel{
				Outputs: []string{"y", "last"}, Workgroup: [3]int{128},
				Grid:   [3][]ir.GridRule{{{Of: "state", Axis: 0, Tile: 8}}},
				Shared: fill("shared REAL parts[TIMES * 128u];\nSHARED"), SharedBytes: t.BlockBytes() * shared,
				Body: fill(scanBody),
			},
			Infer: func(c *ir.Call) ([]ir.Type, error) {
				for i := range c.Args {
					if c.DType(i) != t {
						return nil, fmt.Errorf("want arguments of %s", t)
					}
				}
				return []ir.Type{{DType: t, Shape: c.Shape(2)}, {DType: t, Shape: c.Shape(5)}}, nil
			},
			Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) { return scanReference(args, t) },
		})
	}
	return scans{
		plain: register("scan", "Linear attention with a state that decays (Dao and Gu 2024)."),
		corrected: register("delta_scan",
			"Linear attention with a state that decays and is corrected (Yang et al. 2024).",
			ir.ArgInfo{Name: "a"}, ir.ArgInfo{Name: "b"}),
	}
}

// scanReference computes a scan in Go. Factors of f64 come without an exponential.
func scanReference(args []*ir.Data, t ir.DType) ([]*ir.Data, error) {
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
	s := recurrence.Scan{Batches: v[0], Times: v[1], Heads: v[2], Values: v[3], Keys: args[5].Dims[1],
		Q: vectors(0), K: vectors(1), A: vectors(7), B: vectors(8),
		V: list[2], Decay: list[3], Rate: list[4], Factors: t == ir.F64, State: list[5]}
	if args[4].Dims[0] == 1 {
		s.Rate = slices.Repeat(s.Rate, s.Heads)
	}
	if s.Scale = list[6]; len(s.Scale) == 1 {
		s.Scale = slices.Repeat(s.Scale, s.Batches*s.Times*s.Heads)
	}
	y, last := make([]float64, len(list[2])), make([]float64, len(list[5]))
	s.Run(y, last, 0, s.Batches*s.Heads)
	first, err := ir.FromFloats(t, y, v...)
	if err != nil {
		return nil, err
	}
	second, err := ir.FromFloats(t, last, args[5].Dims...)
	return []*ir.Data{first, second}, err
}

// scanBody goes along time. Element n of a row belongs to lane n % 16. Loops over elements are unrolled, so that the
// state stays in registers. y depends on no other lane's state, so lanes meet only once in TIMES times. Then each lane
// adds up the parts of a row at one time.
const scanBody = `const uint width = (state_dim1 + 15u) / 16u;
uint local = gl_LocalInvocationID.x, lane = local % 16u;
uint times = v_dim1, heads = v_dim2, values = v_dim3, row = gl_WorkGroupID.x * 8u + local / 16u;
bool inside = row < state_dim0;
uint from = inside ? row : state_dim0 - 1u, head = from / values % heads, first = from / (values * heads) * times;
REAL s[width];
[[unroll]] for (uint i = 0u; i < width; ++i) {
    uint n = i * 16u + lane;
    s[i] = 0.0;
    if (n < state_dim1) s[i] = state[from * state_dim1 + n];
}
for (uint t0 = 0u; t0 < times; t0 += TIMES) {
    uint count = min(TIMES, times - t0);
    for (uint t = 0u; t < count; ++t) {
        uint at = (first + t0 + t) * heads + head, time = first + t0 + t;
        uint q_at = (time * q_dim2 + head * q_dim2 / heads) * state_dim1;
        uint k_at = (time * k_dim2 + head * k_dim2 / heads) * state_dim1;
        REAL value = v[at * values + from % values] * scale[at % scale_size], part = 0.0;
BEFORE        [[unroll]] for (uint i = 0u; i < width; ++i) {
            uint n = i * 16u + lane;
            if (n < state_dim1) {
                s[i] = s[i] * FACTOR + value * k[k_at + n]CORRECTION;
                part += s[i] * q[q_at + n];
            }
        }
        parts[t * 128u + local] = part;
    }
    barrier();
    uint t = local / 8u, sum_row = gl_WorkGroupID.x * 8u + local % 8u;
    if (t < count && sum_row < state_dim0) {
        REAL sum = 0.0;
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

// scanReads computes what a reads of the state from before. Two halves of shared memory take turns, so that one barrier
// suffices at each time.
const scanReads = `        uint a_at = (time * a_dim2 + head * a_dim2 / heads) * state_dim1;
        uint b_at = (time * b_dim2 + head * b_dim2 / heads) * state_dim1;
        REAL read = 0.0;
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
