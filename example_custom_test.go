package vkc_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// softcap limits x smoothly to -limit … limit: one GLSL expression, and the same
// in Go as its reference.
var softcap = ir.MustRegisterCustom(ir.CustomOp{
	Name:  "example.softcap",
	Doc:   "limit*tanh(x/limit).",
	Args:  []ir.ArgInfo{{Name: "x"}},
	Attrs: []ir.AttrInfo{{Name: "limit", Kind: ir.AttrFloat, Default: 30.0}},
	Expr:  "limit * tanh(clamp(x / limit, -10.0, 10.0))",
	Float: func(x []float64, a ir.Attrs) float64 {
		return a.Float("limit") * math.Tanh(x[0]/a.Float("limit"))
	},
	Tol: ir.Tolerance{Eps: 64, Abs: 1e-5},
})

// A custom elementwise op fuses like any other. The matmul, the op and the following ops become one kernel, with one
// copy of the op's function.
func Example_customExpression() {
	g, err := frontend.Build("logits", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 4, 64).MatMul(b.Weight("w", ir.F32, 64, 32))
		y := frontend.CustomOp(softcap, []frontend.Tensor{x}, frontend.Attr("limit", 50.0))
		b.Output("y", y.AddScalar(1))
	})
	if err != nil {
		log.Fatal(err)
	}
	caps, err := device.Profile("nvidia-h100")
	if err != nil {
		log.Fatal(err)
	}
	low, err := compiler.Lower(context.Background(), g, caps, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(low.GLSL), "kernel")
	_, function, _ := strings.Cut(low.GLSL[0], "// limit*tanh(x/limit).\n")
	function, _, _ = strings.Cut(function, "\n\n")
	fmt.Println(function)
	// Output:
	// 1 kernel
	// float custom_example_softcap(float x, float limit) {
	//     return (
	//         // >>> custom op example.softcap Expr
	//         limit * tanh(clamp(x / limit, -10.0, 10.0))
	//         // <<< custom op example.softcap Expr
	//     );
	// }
}

// reverseRows reverses each row of x in shared memory: a whole kernel, a
// workgroup per row.
var reverseRows = ir.MustRegisterCustom(ir.CustomOp{
	Name: "example.reverse_rows",
	Args: []ir.ArgInfo{{Name: "x"}},
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		x := c.Args[0].Type()
		if x.DType != ir.F32 || len(x.Shape) != 2 || x.Shape[1].Max() > 256 {
			return nil, fmt.Errorf("x is %s, want f32[rows, columns] of at most 256 columns", x)
		}
		return []ir.Type{x}, nil
	},
	Kernel: &ir.CustomKernel{
		Outputs:     []string{"y"},
		Workgroup:   [3]int{256},
		Grid:        [3][]ir.GridRule{{{Of: "x", Axis: 0, Tile: 1}}},
		SharedBytes: 256 * 4,
		Shared:      "shared float row[256];",
		Body: `uint first = gl_WorkGroupID.x * x_dim1, column = gl_LocalInvocationID.x;
if (column < x_dim1) row[column] = x[first + column];
barrier();
if (column < x_dim1) y[first + column] = row[x_dim1 - 1u - column];`,
	},
	Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) {
		x, err := args[0].Floats()
		if err != nil {
			return nil, err
		}
		y, columns := make([]float64, len(x)), args[0].Dims[1]
		for i := range x {
			y[i] = x[i-i%columns+columns-1-i%columns]
		}
		out, err := ir.FromFloats(ir.F32, y, args[0].Dims...)
		return []*ir.Data{out}, err
	},
})

// A custom kernel takes its place between fused ones. On the CPU fast path its
// Go function runs in its stead.
func Example_customKernel() {
	g, err := frontend.Build("reverse", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("N", 64), 3)
		b.Output("y", frontend.CustomOp(reverseRows, []frontend.Tensor{x.MulScalar(10)}).AddScalar(1))
	})
	if err != nil {
		log.Fatal(err)
	}
	x, err := vkc.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	dev, err := vkc.OpenDevice("cpu") // "vulkan" is the best Vulkan device
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	exe, err := dev.LoadGraph(context.Background(), g, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer exe.Close()
	res, err := exe.Run(context.Background(), vkc.Tensors{"x": x})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(vkc.Values[float32](res.Outputs["y"]))
	// Output:
	// [31 21 11 61 51 41] <nil>
}
