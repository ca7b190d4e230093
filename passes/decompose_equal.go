package passes

import (
	"errors"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Where many rows are added up by their indices, as in the gradient of an embedding, comparing every index with every
// place takes too long. The indices are sorted instead, stably; a kernel then finds by bisection where those of a place
// begin, and adds their rows up in the order in which they were given. So sums have the same bits in every run.

// minSortedSteps is from how many comparisons on indices are sorted: about as many as take as long as sorting does.
const minSortedSteps = 1 << 22

// sumOfEqual are the kernels that add up rows, by their dtype.
var sumOfEqual = map[ir.DType]ir.Op{}

func init() {
	for t, name := range map[ir.DType]string{ir.F32: "float", ir.F64: "double", ir.I32: "int", ir.U32: "uint",
		ir.I64: "int64_t"} {
		sumOfEqual[t] = ir.MustRegisterCustom(sumOfEqualOp(t, name))
	}
}

// sumOfEqualOp describes the kernel for a dtype, which is called name in GLSL. A workgroup makes 8 rows of 512 columns.
func sumOfEqualOp(t ir.DType, name string) ir.CustomOp {
	return ir.CustomOp{
		Name: "vkc.sum_equal_" + t.String(),
		Doc: "For each wanted number the sum of those rows whose key it is: sorted are the keys in order, and order " +
			"says of which row each is. There are none for a negative one.",
		Args: []ir.ArgInfo{{Name: "rows"}, {Name: "order"}, {Name: "sorted"}, {Name: "wanted"}},
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			rows, wanted := c.Shape(0), c.Shape(3)
			if c.DType(0) != t || len(rows) != 2 || c.DType(1) != ir.I32 || c.DType(2) != ir.I32 ||
				c.DType(3) != ir.I32 || !c.Shape(1).Equal(rows[:1]) || !c.Shape(2).Equal(rows[:1]) || len(wanted) != 1 {
				return nil, errors.New("rows are a matrix, with an i32 each in order and sorted, and wanted is i32[N]")
			}
			return []ir.Type{{DType: t, Shape: ir.Shape{wanted[0], rows[1]}}}, nil
		},
		Tol: ir.Tolerance{Eps: 64, Abs: 1e-6, Sum: true},
		Kernel: &ir.CustomKernel{
			Outputs: []string{"sums"}, Workgroup: [3]int{128},
			Grid:   [3][]ir.GridRule{{{Of: "sums", Axis: 0, Tile: 8}}, {{Of: "sums", Axis: 1, Tile: 512}}},
			Shared: "shared uint begins[8];\nshared int keys[8];", SharedBytes: 64,
			Body: strings.ReplaceAll(`uint lane = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * 8u;
uint column = gl_WorkGroupID.y * 512u + lane;
if (lane < 8u) {
    int key = first + lane < wanted_dim0 ? wanted[first + lane] : -1;
    uint low = key < 0 ? sorted_dim0 : 0u, high = sorted_dim0;
    while (low < high) {
        uint middle = (low + high) / 2u;
        if (sorted[middle] < key) low = middle + 1u; else high = middle;
    }
    begins[lane] = low;
    keys[lane] = key;
}
barrier();
for (uint i = 0u; i < 8u && first + i < wanted_dim0; ++i) {
    [[unroll]] for (uint c = 0u; c < 4u; ++c) {
        uint j = column + 128u * c;
        if (j < sums_dim1) {
            TYPE sum = TYPE(0);
            for (uint k = begins[i]; k < sorted_dim0 && sorted[k] == keys[i]; ++k) {
                sum += rows[uint(order[k]) * rows_dim1 + j];
            }
            sums[(first + i) * sums_dim1 + j] = sum;
        }
    }
}`, "TYPE", name),
		},
		Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) { return sumEqual(t, args) },
	}
}

// sumEqual is the reference of sumOfEqualOp.
func sumEqual(t ir.DType, args []*ir.Data) ([]*ir.Data, error) {
	order, errOrder := args[1].Ints()
	sorted, errSorted := args[2].Ints()
	wanted, errWanted := args[3].Ints()
	if err := errors.Join(errOrder, errSorted, errWanted); err != nil {
		return nil, err
	}
	width := args[0].Dims[1]
	each := func(add func(to, from int)) {
		for n, key := range wanted {
			for k, other := range sorted {
				for j := 0; key >= 0 && other == key && j < width; j++ {
					add(n*width+j, int(order[k])*width+j)
				}
			}
		}
	}
	var out *ir.Data
	if t.IsFloat() {
		rows, err := args[0].Floats()
		if err != nil {
			return nil, err
		}
		sums := make([]float64, len(wanted)*width)
		each(func(to, from int) { sums[to] += rows[from] })
		out, err = ir.FromFloats(t, sums, len(wanted), width)
		return []*ir.Data{out}, err
	}
	rows, err := args[0].Ints()
	if err != nil {
		return nil, err
	}
	sums := make([]int64, len(wanted)*width)
	each(func(to, from int) { sums[to] += rows[from] })
	for i, x := range sums { // which wrap around
		switch t {
		case ir.I32:
			sums[i] = int64(int32(x))
		case ir.U32:
			sums[i] = int64(uint32(x))
		}
	}
	out, err = ir.FromInts(t, sums, len(wanted), width)
	return []*ir.Data{out}, err
}

// sortedSums returns, for each of the wanted numbers, the sum of those updates [outer, K, inner] whose key, of K keys,
// it is: [outer, wanted, inner], in the dtype that sums have. Keys and wanted numbers below 0 or from limit on are
// none. It is nil where comparing them is no more work, or the dtype has no kernel.
func (r *rewriter) sortedSums(keys, wanted, updates *ir.Node, limit ir.Dim) *ir.Node {
	if r.err != nil {
		return nil
	}
	s, n, t := updates.Shape(), wanted.Shape()[0], updates.DType()
	acc := accType("", t)
	op, ok := sumOfEqual[acc]
	// As floats, since the products may be past any integer.
	steps := float64(s[0].Max()) * float64(s[1].Max()) * float64(s[2].Max()) * float64(n.Max())
	if !ok || !t.IsFloat() && acc != t || steps < minSortedSteps || s[1].Max() < 2 {
		return nil
	}
	columns, err := s[0].Mul2(s[2])
	if err != nil {
		return nil
	}
	keys, wanted = r.below(keys, limit), r.below(wanted, limit)
	if r.err != nil {
		return nil
	}
	order := r.argsort(r.unary(ir.OpArgsort, keys, ir.Attr{Name: "axis", Value: 0}), keys)
	sorted := r.add(ir.OpGather, []*ir.Node{keys, order}, ir.Attr{Name: "axis", Value: 0})
	rows := r.castTo(r.reshape(r.swapAxes(updates, 0, 1), ir.Shape{s[1], columns}), acc)
	sums := r.add(op, []*ir.Node{rows, order, sorted, wanted})
	return r.swapAxes(r.reshape(sums, ir.Shape{n, s[0], s[2]}), 0, 1)
}

// below makes indices i32, and -1 of those that are none of 0 to limit-1.
func (r *rewriter) below(indices *ir.Node, limit ir.Dim) *ir.Node {
	indices = r.wideIndex(indices)
	if r.err != nil {
		return nil
	}
	t := indices.DType()
	within := r.binary(ir.OpAnd, r.binary(ir.OpGe, indices, r.scalar(t, 0)),
		r.binary(ir.OpLt, indices, r.castTo(r.dimValue(limit), t)))
	return r.castTo(r.add(ir.OpWhere, []*ir.Node{within, indices, r.scalar(t, -1)}), ir.I32)
}
