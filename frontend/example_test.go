package frontend_test

import (
	"fmt"
	"log"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// A two-layer perceptron over a batch of any size up to 64.
func Example() {
	g, err := frontend.Build("mlp", func(b *frontend.Builder) {
		n := b.Sym("N", 64)
		x := b.Input("x", ir.F32, n, 8)
		up := b.Weight("up", ir.F32, 16, 8)
		down := b.Weight("down", ir.F32, 4, 16)
		b.Output("y", x.MatMulT(up).Relu().MatMulT(down).Softmax(-1))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g)
	// Output:
	// graph "mlp" {
	//   symbol N <= 64
	//   %0 = input {name="x", dtype=f32, shape=[N,8]} : f32[N,8]
	//   %1 = weight {name="up", dtype=f32, shape=[16,8]} : f32[16,8]
	//   %2 = weight {name="down", dtype=f32, shape=[4,16]} : f32[4,16]
	//   %3 = matmul %0, %1 {transpose_b=true} : f32[N,16]
	//   %4 = relu %3 : f32[N,16]
	//   %5 = matmul %4, %2 {transpose_b=true} : f32[N,4]
	//   %6 = softmax %5 : f32[N,4]
	//   output "y" %6
	// }
}

// The error of a mistake has the file and line of the method call and the types of its operands. If vkc knows a fix,
// the error also suggests it.
func ExampleError() {
	_, err := frontend.Build("mistake", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 6, 8)
		w := b.Weight("w", ir.F32, 4, 8)
		b.Output("y", x.MatMul(w))
	})
	fmt.Println(err)
	// Output:
	// frontend/example_test.go:44: matmul(f32[6,8], f32[4,8]): input "x" is [6,8] and weight "w" is [4,8]: contraction extents 8 and 4 differ (transpose_b=true would fit)
}

// A state outlives the run: this graph returns the mean of all its inputs so
// far.
func ExampleBuilder_Update() {
	g, err := frontend.Build("mean", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32)
		sum, count := b.State("sum", ir.F32), b.State("count", ir.F32)
		newSum, newCount := sum.Add(x), count.AddScalar(1)
		b.Update(sum, newSum)
		b.Update(count, newCount)
		b.Output("mean", newSum.Div(newCount))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g)
	// Output:
	// graph "mean" {
	//   %0 = input {name="x", dtype=f32, shape=[]} : f32[]
	//   %1 = state {name="sum", dtype=f32, shape=[]} : f32[]
	//   %2 = state {name="count", dtype=f32, shape=[]} : f32[]
	//   %3 = add %1, %0 : f32[]
	//   %4 = const {data=f32[](1.0)} : f32[]
	//   %5 = add %2, %4 : f32[]
	//   %6 = div %3, %5 : f32[]
	//   update %1 = %3
	//   update %2 = %5
	//   output "mean" %6
	// }
}

// Grouped-query attention: two key heads serve four query heads, and the
// sequence is as long as the run says.
func ExampleTensor_Attention() {
	g, err := frontend.Build("attention", func(b *frontend.Builder) {
		t := b.Sym("T", 1024)
		heads := func(x frontend.Tensor, n int) frontend.Tensor { return x.Reshape(t, n, -1).SwapAxes(0, 1) }
		q := heads(b.Input("q", ir.F32, t, 256), 4)
		k := heads(b.Input("k", ir.F32, t, 128), 2)
		v := heads(b.Input("v", ir.F32, t, 128), 2)
		b.Output("y", q.Attention(k, v, frontend.Causal()))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ir.FormatNode(g.Outputs()[0].Node))
	// Output:
	// %9 = attention %2, %5, %8 {causal=true} : f32[4,T,64]
}

// Any slice of numbers or bools can be a constant. Lit and the Scalar methods convert a number to a tensor's dtype.
func ExampleBuilder_Const() {
	g, err := frontend.Build("constants", func(b *frontend.Builder) {
		kernel := b.Const([][]float32{{1, 2}, {3, 4}})
		b.Output("y", kernel.Gt(kernel.Lit(2)).Where(kernel, kernel.MulScalar(0.5)))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g)
	// Output:
	// graph "constants" {
	//   %0 = const {data=f32[2,2](1.0, 2.0, 3.0, 4.0)} : f32[2,2]
	//   %1 = const {data=f32[](2.0)} : f32[]
	//   %2 = gt %0, %1 : bool[2,2]
	//   %3 = const {data=f32[](0.5)} : f32[]
	//   %4 = mul %0, %3 : f32[2,2]
	//   %5 = where %2, %0, %4 : f32[2,2]
	//   output "y" %5
	// }
}

// A low-pass filter: it keeps the first 20 frequencies of each signal.
func ExampleTensor_RFFT() {
	g, err := frontend.Build("filter", func(b *frontend.Builder) {
		signals := b.Input("signals", ir.F32, 8, 1000)
		spectrum := signals.RFFT(-1) // the last axis has real and imaginary parts
		low := spectrum.Slice(1, 0, ir.D(20)).Pad([]int{0, 0, 0}, []int{0, 481, 0}, 0)
		b.Output("filtered", low.IRFFT(1, 1000))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g)
	// Output:
	// graph "filter" {
	//   %0 = input {name="signals", dtype=f32, shape=[8,1000]} : f32[8,1000]
	//   %1 = rfft %0 : f32[8,501,2]
	//   %2 = slice %1 {starts=[0,0,0], limits=[8,20,2]} : f32[8,20,2]
	//   %3 = pad %2 {low=[0,0,0], high=[0,481,0]} : f32[8,501,2]
	//   %4 = irfft %3 {n=1000} : f32[8,1000]
	//   output "filtered" %4
	// }
}

// Ridge regression for a batch of data sets: the normal equations by a Cholesky factor.
func ExampleTensor_Cholesky() {
	g, err := frontend.Build("ridge", func(b *frontend.Builder) {
		x, y := b.Input("x", ir.F32, 16, 100, 8), b.Input("y", ir.F32, 16, 100, 1)
		normal := x.T().MatMul(x).Add(b.Eye(ir.F32, 8, 8))
		b.Output("weights", normal.Cholesky().CholeskySolve(x.T().MatMul(y)))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ir.FormatNode(g.Outputs()[0].Node))
	// Output:
	// %13 = triangular_solve %9, %12 {transpose=true} : f32[16,8,1]
}

// A sparse matrix of 1000 rows and up to 5000 elements, times 16 vectors.
func ExampleCSR() {
	g, err := frontend.Build("sparse", func(b *frontend.Builder) {
		elements := b.Sym("E", 5000)
		a := frontend.CSR{Starts: b.Input("starts", ir.I32, 1001), Columns: b.Input("columns", ir.I32, elements),
			Values: b.Input("values", ir.F32, elements)}
		b.Output("y", a.MatMul(b.Input("x", ir.F32, 1000, 16)))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ir.FormatNode(g.Outputs()[0].Node))
	// Output:
	// %16 = index_add %14, %15, %12 : f32[1000,16]
}
