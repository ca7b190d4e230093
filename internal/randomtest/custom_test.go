package randomtest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/gradgen"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// bend is a smooth function of two floats, at most 1.5 in magnitude per unit of scale.
var bend = ir.MustRegisterCustom(ir.CustomOp{
	Name: "randomtest.bend", Args: []ir.ArgInfo{{Name: "x"}, {Name: "y"}},
	Attrs: []ir.AttrInfo{
		{Name: "scale", Kind: ir.AttrFloat, Default: 1.0, Samples: []any{0.5, 2.0, -1.0}},
		{Name: "flip", Kind: ir.AttrBool, Default: false, Samples: []any{true, false}},
	},
	Body: `float d = 1.0 + x * x + y * y;
float z = scale * (x + 0.25 * y) / d;
return flip ? -z : z;`,
	Float: func(x []float64, a ir.Attrs) float64 {
		d := 1 + float64(x[0]*x[0]) + float64(x[1]*x[1])
		z := a.Float("scale") * (x[0] + float64(0.25*x[1])) / d
		if a.Bool("flip") {
			return -z
		}
		return z
	},
	Tol: ir.Tolerance{Eps: 8},
})

// wrapping is a function of two integers that wraps. Every integer dtype has it.
var wrapping = ir.MustRegisterCustom(ir.CustomOp{
	Name: "randomtest.wrapping", Args: []ir.ArgInfo{{Name: "a"}, {Name: "b"}},
	Attrs: []ir.AttrInfo{{Name: "times", Kind: ir.AttrInt, Default: int64(3), Samples: []any{int64(5), int64(1)}}},
	Infer: broadcastOf(func(t ir.DType) bool { return t.IsInteger() }),
	Expr:  "a * a + b - a",
	Int:   func(x []int64, a ir.Attrs) int64 { return x[0]*x[0] + x[1] - x[0] },
})

// choose is x or y, as a bool says.
var choose = ir.MustRegisterCustom(ir.CustomOp{
	Name: "randomtest.choose", Args: []ir.ArgInfo{{Name: "x"}, {Name: "cond"}, {Name: "y"}},
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		x, cond, y := c.Args[0].Type(), c.Args[1].Type(), c.Args[2].Type()
		if !x.DType.IsFloat() || cond.DType != ir.Bool || y.DType != x.DType {
			return nil, errors.New("want two floats of one dtype and a bool between")
		}
		s, err := ir.BroadcastShapes(x.Shape, cond.Shape)
		if err == nil {
			s, err = ir.BroadcastShapes(s, y.Shape)
		}
		return []ir.Type{{DType: x.DType, Shape: s}}, err
	},
	Expr: "cond ? x : y",
	Float: func(x []float64, _ ir.Attrs) float64 {
		if x[1] != 0 {
			return x[0]
		}
		return x[2]
	},
})

// below compares two values of one dtype, and gives a bool.
var below = ir.MustRegisterCustom(ir.CustomOp{
	Name: "randomtest.below", Args: []ir.ArgInfo{{Name: "x"}, {Name: "y"}},
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		list, err := broadcastOf(func(t ir.DType) bool { return t != ir.Bool })(c)
		if err == nil {
			list[0].DType = ir.Bool
		}
		return list, err
	},
	Expr: "x < y",
	Float: func(x []float64, _ ir.Attrs) float64 {
		if x[0] < x[1] {
			return 1
		}
		return 0
	},
	Int: func(x []int64, _ ir.Attrs) int64 {
		if x[0] < x[1] {
			return 1
		}
		return 0
	},
})

// broadcastOf is the rule of an op of arguments of one dtype, which ok accepts.
func broadcastOf(ok func(t ir.DType) bool) func(c *ir.Call) ([]ir.Type, error) {
	return func(c *ir.Call) ([]ir.Type, error) {
		t := c.Args[0].Type()
		for _, a := range c.Args {
			if a.DType() != t.DType || a.DType().IsBlock() || !ok(a.DType()) {
				return nil, fmt.Errorf("want arguments of one dtype, and not %s", a.DType())
			}
			s, err := ir.BroadcastShapes(t.Shape, a.Shape())
			if err != nil {
				return nil, err
			}
			t.Shape = s
		}
		return []ir.Type{t}, nil
	}
}

// turn reverses the elements of a tensor of any dtype and shape. Its second result exchanges neighbors.
var turn = ir.MustRegisterCustom(ir.CustomOp{
	Name: "randomtest.turn", Args: []ir.ArgInfo{{Name: "x"}},
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		x := c.Args[0].Type()
		if x.DType.IsBlock() || x.DType == ir.F64 {
			return nil, errors.New("x has blocks, or needs features")
		}
		return []ir.Type{x, x}, nil
	},
	Kernel: &ir.CustomKernel{
		Outputs: []string{"back", "swapped"}, Workgroup: [3]int{32},
		Grid: [3][]ir.GridRule{{{Of: "x", Axis: ir.AllAxes, Tile: 32}}},
		Body: `uint i = gl_GlobalInvocationID.x;
if (i < x_size) {
    back[i] = x[x_size - 1u - i];
    uint j = i ^ 1u;
    swapped[i] = x[j < x_size ? j : i];
}`,
	},
	Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) {
		x, size := args[0], args[0].DType.BlockBytes()
		var out []*ir.Data
		for range 2 {
			d, err := ir.NewData(x.DType, x.Dims...)
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
		n := x.Elems()
		for i := range n {
			j := i ^ 1
			if j >= n {
				j = i
			}
			copy(out[0].Bytes[i*size:], x.Bytes[(n-1-i)*size:][:size])
			copy(out[1].Bytes[i*size:], x.Bytes[j*size:][:size])
		}
		return out, nil
	},
})

// count counts residues of integers, by atomics in a result that starts with zeros.
var count = ir.MustRegisterCustom(ir.CustomOp{
	Name: "randomtest.count", Args: []ir.ArgInfo{{Name: "x"}},
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		if c.DType(0) != ir.U32 && c.DType(0) != ir.I32 {
			return nil, errors.New("want u32 or i32")
		}
		return []ir.Type{{DType: ir.U32, Shape: ir.ShapeOf(7)}}, nil
	},
	Kernel: &ir.CustomKernel{
		Outputs: []string{"counts"}, Zeroed: []string{"counts"}, Workgroup: [3]int{32},
		Grid: [3][]ir.GridRule{{{Of: "x", Axis: ir.AllAxes, Tile: 32}}},
		Body: `uint i = gl_GlobalInvocationID.x;
if (i < x_size) atomicAdd(counts[uint(x[i]) % 7u], 1u);`,
	},
	Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) {
		x, err := args[0].Ints()
		if err != nil {
			return nil, err
		}
		counts := make([]int64, 7)
		for _, v := range x {
			counts[uint32(v)%7]++
		}
		d, err := ir.FromInts(ir.U32, counts, 7)
		return []*ir.Data{d}, err
	},
})

// average is the mean of each row of a matrix, with shared memory; of an empty row it is 0.
var average = ir.MustRegisterCustom(ir.CustomOp{
	Name: "randomtest.average", Args: []ir.ArgInfo{{Name: "x"}},
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		x := c.Args[0].Type()
		if x.DType != ir.F32 || len(x.Shape) != 2 {
			return nil, errors.New("want an f32 matrix")
		}
		return []ir.Type{{DType: ir.F32, Shape: x.Shape[:1]}}, nil
	},
	Kernel: &ir.CustomKernel{
		Outputs: []string{"means"}, Workgroup: [3]int{32}, SharedBytes: 32 * 4,
		Grid:   [3][]ir.GridRule{{{Of: "x", Axis: 0, Tile: 1}}},
		Shared: "shared float part[32];",
		Body: `uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
float sum = 0.0;
for (uint i = lane; i < x_dim1; i += 32u) sum += x[row * x_dim1 + i];
part[lane] = sum;
for (uint d = 16u; d > 0u; d /= 2u) {
    barrier();
    if (lane < d) part[lane] += part[lane + d];
}
if (lane == 0u) means[row] = x_dim1 == 0u ? 0.0 : part[0] / float(x_dim1);`,
	},
	Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) {
		x, err := args[0].Floats()
		if err != nil {
			return nil, err
		}
		rows, cols := args[0].Dims[0], args[0].Dims[1]
		means := make([]float64, rows)
		for i, v := range x {
			means[i/cols] += v / float64(cols)
		}
		d, err := ir.FromFloats(ir.F32, means, rows)
		return []*ir.Data{d}, err
	},
	Tol: ir.Tolerance{Eps: 16, Sum: true},
})

var customOps = []ir.Op{bend, wrapping, choose, below, turn, count, average}

func init() {
	frontend.RegisterGrad(bend, func(c frontend.GradCall) []frontend.Tensor {
		x, y := c.Args[0], c.Args[1]
		scale := c.Attrs.Float("scale")
		if c.Attrs.Bool("flip") {
			scale = -scale
		}
		d := x.Sqr().Add(y.Sqr()).AddScalar(1)
		n := x.Add(y.MulScalar(0.25))
		by := func(v frontend.Tensor, slope float64) frontend.Tensor {
			return c.Grad.Mul(d.MulScalar(slope).Sub(n.Mul(v).MulScalar(2)).Div(d.Sqr())).MulScalar(scale)
		}
		return []frontend.Tensor{by(x, 1), by(y, 0.25)}
	})
}

// TestRandomCustomOps runs random graphs that have custom ops next to the others.
func TestRandomCustomOps(t *testing.T) {
	options := func(seed uint64) graphgen.Options {
		return graphgen.Options{Custom: customOps, Derived: seed%4 == 3, Large: seed%4 == 2}
	}
	of := test{graphs: 200, fewer: 10, differ: differ, graph: func(seed uint64) (*ir.Graph, error) {
		return graphgen.New(seed, options(seed))
	}}
	of.run(t)
	of.graph = func(seed uint64) (*ir.Graph, error) {
		opt := options(seed)
		opt.Large = false // the evaluator of kernels is slow
		return graphgen.New(seed, opt)
	}
	t.Run("kernels", func(t *testing.T) { of.onKernels(t, 60) })
}

// TestCustomOpsOccur: every custom op is live in many of the graphs.
func TestCustomOpsOccur(t *testing.T) {
	occurs := map[ir.Op]int{}
	for seed := range uint64(400) {
		g, err := graphgen.New(seed, graphgen.Options{Custom: customOps})
		if err != nil {
			t.Fatal(err)
		}
		for i, live := range g.Live() {
			if live {
				occurs[g.Nodes()[i].Op()]++
			}
		}
	}
	for _, op := range customOps {
		if occurs[op] < 10 {
			t.Errorf("400 graphs have %s %d times", op, occurs[op])
		}
	}
}

// TestRandomCustomGradients runs gradients of random graphs that have a custom op.
func TestRandomCustomGradients(t *testing.T) {
	test{graphs: 12, fewer: 3, differ: differ, graph: func(seed uint64) (*ir.Graph, error) {
		return gradgen.New(seed, graphgen.Options{Custom: []ir.Op{bend}, Large: seed%2 == 1})
	}}.run(t)
}

// TestCustomGradient compares the gradient of bend with differences.
func TestCustomGradient(t *testing.T) {
	const step = 1e-4
	for _, flip := range []bool{false, true} {
		g, err := frontend.Build("bend", func(b *frontend.Builder) {
			x, y := b.Input("x", ir.F64), b.Input("y", ir.F64)
			z := frontend.CustomOp(bend, []frontend.Tensor{x, y}, frontend.Attr("scale", 2.0),
				frontend.Attr("flip", flip))
			b.Output("z", z)
			for i, d := range frontend.Grad(z, x, y) {
				b.Output([]string{"dx", "dy"}[i], d)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		p, err := interp.New(g, interp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := func(x, y float64) map[string]float64 {
			in := map[string]*ir.Data{}
			for name, v := range map[string]float64{"x": x, "y": y} {
				if in[name], err = ir.FromFloats(ir.F64, []float64{v}); err != nil {
					t.Fatal(err)
				}
			}
			out, err := p.Run(t.Context(), in, nil)
			if err != nil {
				t.Fatal(err)
			}
			list := map[string]float64{}
			for name, d := range out {
				v, err := d.Floats()
				if err != nil {
					t.Fatal(err)
				}
				list[name] = v[0]
			}
			return list
		}
		const x, y = 0.7, -1.3
		here := at(x, y)
		dx, dy := (at(x+step, y)["z"]-at(x-step, y)["z"])/(2*step), (at(x, y+step)["z"]-at(x, y-step)["z"])/(2*step)
		if math.Abs(here["dx"]-dx) > 1e-7 || math.Abs(here["dy"]-dy) > 1e-7 {
			t.Errorf("the gradient is %v, %v, want %v, %v", here["dx"], here["dy"], dx, dy)
		}
	}
}
