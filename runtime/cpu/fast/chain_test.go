package fast_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime/cpu/fast"
)

// compare runs a graph on kernels and on the interpreter, and returns which nodes have kernels. It runs kernels with
// poison and without: poison finds reads of memory that nothing wrote, but a fold computes rows with NaN again, as the
// interpreter does.
func compare(t *testing.T, g *ir.Graph, in map[string]*ir.Data, symbols map[string]int64) (kernels []*ir.Node) {
	t.Helper()
	var out [3]map[string]*ir.Data
	ways := []interp.Options{{}, {Replace: fast.Kernels, Workers: 2, Poison: true}, {Replace: fast.Kernels}}
	for i, opt := range ways {
		p, err := interp.New(g, opt)
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		if out[i], err = p.Run(t.Context(), in, symbols); err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
	}
	for _, o := range g.Outputs() {
		for _, have := range out[1:] {
			if err := interp.Compare(have[o.Name], out[0][o.Name], interp.ToleranceOf(g, o.Node)).Err(); err != nil {
				t.Errorf("output %q: %v\n%s", o.Name, err, g)
			}
		}
	}
	for i, k := range fast.Kernels(g) {
		if k != nil {
			kernels = append(kernels, g.Nodes()[i])
		}
	}
	return kernels
}

// values returns the inputs of a graph: numbers from -2 to 2, some of them whole, truths and small integers.
func values(t *testing.T, rng *rand.Rand, g *ir.Graph, symbols map[string]int64) map[string]*ir.Data {
	t.Helper()
	in := map[string]*ir.Data{}
	for _, n := range g.Leaves(ir.OpInput) {
		dims, err := n.Shape().Eval(symbols)
		if err != nil {
			t.Fatal(err)
		}
		count := 1
		for _, d := range dims {
			count *= d
		}
		list := make([]float64, count)
		for i := range list {
			if list[i] = rng.Float64()*4 - 2; !n.DType().IsFloat() || rng.IntN(8) == 0 {
				list[i] = float64(rng.IntN(3) - 1)
			}
		}
		if in[n.Name()], err = ir.FromFloats(n.DType(), list, dims...); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// TestChains checks which nodes become chains, and compares the chains' results with the interpreter's.
func TestChains(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // the ops of nodes that have kernels
	}{
		{"three ops", `%1 = silu %x
			%2 = mul %1, %y
			%3 = add %2, %x
			output "o" %3`, []string{"add"}},
		{"a value that is used twice, within", `%1 = tanh %x
			%2 = mul %1, %1
			output "o" %2`, []string{"mul"}},
		{"a value that is an output too", `%1 = gelu %x
			%2 = neg %1
			output "a" %1
			output "o" %2`, []string{"gelu", "neg"}},
		{"a value that a sum reads too", `%1 = relu %x
			%2 = sqr %1
			%3 = sum %1 {axes=[0]}
			output "o" %2
			output "s" %3`, []string{"relu", "sqr"}},
		{"rows and columns", `%1 = add %x, %row
			%2 = mul %1, %column
			%3 = sub %2, %one
			output "o" %3`, []string{"sub"}},
		{"an argument that is broadcast", `%1 = broadcast %row {shape=[T,37]}
			%2 = mul %x, %1
			output "o" %2`, []string{"mul"}},
		{"what is smaller is computed once", `%1 = exp %row
			%2 = mul %x, %1
			output "o" %2`, []string{"exp", "mul"}},
		{"truths", `%1 = lt %x, %y
			%2 = not %1
			%3 = and %2, %mask
			%4 = where %3, %x, %y
			output "o" %4`, []string{"where"}},
		{"truths that are an output", `%1 = lt %x, %y
			output "o" %1`, []string{"lt"}},
		{"integers", `%1 = add %ids, %ids
			%2 = broadcast %ids {shape=[T,37]}
			%3 = mul %1, %2
			%4 = gt %3, %ids
			%5 = lt %x, %y
			%6 = and %4, %5
			%7 = where %6, %3, %2
			output "o" %7`, []string{"add", "where"}},
		{"64 bits choose", `%1 = cast %ids {dtype=i64}
			%2 = where %1, %x, %y
			output "o" %2`, []string{"cast", "where"}},
		{"integers choose", `%1 = where %ids, %x, %row
			output "o" %1`, []string{"where"}},
		{"integers become floats", `%1 = broadcast %ids {shape=[T,37]}
			%2 = cast %1 {dtype=f32}
			%3 = mul %2, %x
			output "o" %3`, []string{"mul"}},
		{"half precision rounds in between", `%1 = cast %x {dtype=f16}
			%2 = affine %1 {mul=1000.0, add=0.1}
			%3 = mul %2, %2
			%4 = cast %3 {dtype=f32}
			%5 = cast %y {dtype=bf16}
			%6 = exp %5
			%7 = cast %6 {dtype=f32}
			%8 = where %mask, %4, %7
			output "o" %8`, []string{"where"}},
		{"64 bits", `%1 = cast %x {dtype=f64}
			%2 = exp %1
			%3 = cast %2 {dtype=f32}
			output "o" %3`, []string{"cast"}},
		{"integers of 64 bits", `%1 = cast %ids {dtype=i64}
			%2 = cast %x {dtype=i64}
			%3 = mul %1, %2
			%4 = ge %3, %2
			%5 = where %4, %3, %2
			output "o" %5`, []string{"cast", "where"}},
		{"no function of a formula is known", `%1 = powf %x {exponent=2.5}
			%2 = atan2 %1, %y
			output "o" %2`, []string{"atan2"}},
	} {
		g, err := ir.Parse(`graph "g" {
			symbol T <= 100
			%x = input {name="x", dtype=f32, shape=[T,37]}
			%y = input {name="y", dtype=f32, shape=[T,37]}
			%row = input {name="row", dtype=f32, shape=[37]}
			%column = input {name="column", dtype=f32, shape=[T,1]}
			%one = input {name="one", dtype=f32, shape=[1,1]}
			%mask = input {name="mask", dtype=bool, shape=[37]}
			%ids = input {name="ids", dtype=i32, shape=[T,1]}
			` + tt.text + "\n}")
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		for _, rows := range []int64{0, 1, 3, 60} {
			symbols := map[string]int64{"T": rows}
			var have []string
			for _, n := range compare(t, g, values(t, rand.New(rand.NewPCG(8, 1)), g, symbols), symbols) {
				if n.Op().Class() == ir.ClassElementwise {
					have = append(have, n.Op().String())
				}
			}
			if !slices.Equal(have, tt.want) {
				t.Errorf("%s: %q have kernels, want %q", tt.name, have, tt.want)
			}
		}
	}
}

// TestRandomChains compares random graphs of elementwise ops with the interpreter.
func TestRandomChains(t *testing.T) {
	ops := []ir.Op{ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpMin, ir.OpMax, ir.OpNeg, ir.OpAbs, ir.OpRelu, ir.OpTanh,
		ir.OpSigmoid, ir.OpSilu, ir.OpGelu, ir.OpGeluErf, ir.OpSoftplus, ir.OpClamp, ir.OpLerp, ir.OpWhere}
	shapes := []ir.Shape{ir.ShapeOf(3, 1, 41), ir.ShapeOf(3, 5, 41), ir.ShapeOf(5, 1), ir.ShapeOf(41), ir.ShapeOf(),
		ir.ShapeOf(1, 5, 1), ir.ShapeOf(3, 5, 41)}
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(9, seed))
		g := ir.NewGraph("random")
		add := func(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
			n, err := g.Add(op, args, attrs, "")
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return n
		}
		var list, truths []*ir.Node
		leaf := func(i int, d ir.DType) *ir.Node {
			return add(ir.OpInput, nil, ir.Attr{Name: "name", Value: fmt.Sprintf("x%d", i)},
				ir.Attr{Name: "dtype", Value: d}, ir.Attr{Name: "shape", Value: shapes[rng.IntN(len(shapes))]})
		}
		for i := range 4 {
			list = append(list, leaf(i, ir.F32))
		}
		truths = append(truths, leaf(4, ir.Bool), add(ir.OpLt, []*ir.Node{list[0], list[1]}))
		for range 12 {
			op := ops[rng.IntN(len(ops))]
			var args []*ir.Node
			for i := range op.Info().Args {
				if op == ir.OpWhere && i == 0 {
					args = append(args, truths[rng.IntN(len(truths))])
				} else {
					args = append(args, list[max(0, len(list)-1-rng.IntN(4)*rng.IntN(3))])
				}
			}
			n := add(op, args, op.Info().SampleAttrs(0, true)...)
			if rng.IntN(6) == 0 {
				to := []ir.DType{ir.F16, ir.BF16, ir.F8E5M2}[rng.IntN(3)]
				n = add(ir.OpCast, []*ir.Node{n}, ir.Attr{Name: "dtype", Value: to})
				n = add(ir.OpCast, []*ir.Node{n}, ir.Attr{Name: "dtype", Value: ir.F32})
			}
			list = append(list, n)
		}
		if err := g.Output("o", list[len(list)-1]); err != nil {
			t.Fatal(err)
		}
		compare(t, g, values(t, rng, g, nil), nil)
	}
}

// TestWords compares every elementwise op on all dtypes with the interpreter, and conversions of all dtypes to all
// others, for elements of any bits.
func TestWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	dtypes := []ir.DType{ir.Bool, ir.I8, ir.U8, ir.I16, ir.U16, ir.I32, ir.U32, ir.I64, ir.F16, ir.F32, ir.F64}
	for _, d := range dtypes {
		g := ir.NewGraph("words")
		leaf := func(name string, d ir.DType, shape ir.Shape) *ir.Node {
			n, err := g.Add(ir.OpInput, nil, []ir.Attr{{Name: "name", Value: name}, {Name: "dtype", Value: d},
				{Name: "shape", Value: shape}}, "")
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		x, y := leaf("x", d, ir.ShapeOf(5, 41)), leaf("y", d, ir.ShapeOf(41))
		count := 0
		output := func(op ir.Op, args []*ir.Node, attrs ...ir.Attr) {
			if n, err := g.Add(op, args, attrs, ""); err == nil { // the op takes the dtype
				count++
				if err := g.Output(fmt.Sprintf("o%d", count), n); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, op := range ir.Ops() {
			in := op.Info()
			if in.Class != ir.ClassElementwise || in.Custom != nil || in.Converts() {
				continue
			}
			switch args := []*ir.Node{x, y, x}; len(op.Info().Args) {
			case 1, 2:
				output(op, args[:len(op.Info().Args)], op.Info().SampleAttrs(0, d.IsFloat())...)
			case 3:
				output(op, args, op.Info().SampleAttrs(0, d.IsFloat())...)
			}
		}
		for _, to := range dtypes {
			output(ir.OpCast, []*ir.Node{x}, ir.Attr{Name: "dtype", Value: to})
		}
		output(ir.OpWhere, []*ir.Node{x, y, x})
		in := map[string]*ir.Data{}
		for _, n := range []*ir.Node{x, y} {
			data, err := ir.NewData(d, staticDims(n)...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range data.Bytes {
				if data.Bytes[i] = byte(rng.Uint32()); d == ir.Bool {
					data.Bytes[i] &= 1
				}
			}
			for i, special := range []float64{-1 << 31, 1<<31 - 1, 1 << 31, 1<<32 - 1, -1, 0, 300, -300.7, 0.5} {
				lo, hi := ir.IntRange(d)
				if d == ir.F32 || d == ir.F64 || !d.IsFloat() && special >= float64(lo) && special <= float64(hi) {
					one, err := ir.FromFloats(d, []float64{special}, 1)
					if err != nil {
						t.Fatal(err)
					}
					copy(data.Bytes[(i+3)*d.BlockBytes():], one.Bytes)
				}
			}
			in[n.Name()] = data
		}
		kernels := compare(t, g, in, nil)
		t.Logf("%s: %d of %d nodes have kernels", d, len(kernels), count)
		if len(kernels) < count-4 { // some conversions are exact only in the interpreter, or need no kernel
			t.Errorf("%s: %d of %d nodes have kernels", d, len(kernels), count)
		}
	}
}

// staticDims returns the extents of a node whose shape has no symbol.
func staticDims(n *ir.Node) (dims []int) {
	for _, d := range n.Shape() {
		dims = append(dims, int(d.Static()))
	}
	return dims
}

// TestIntsToFloats casts integers to floats of at most 32 bits, on both sides of the numbers that these represent. A
// result that is rounded twice differs.
func TestIntsToFloats(t *testing.T) {
	var list []int64
	for _, x := range []int64{0, 257, 2049, 65504, 65520, 1 << 24, 1<<24 + 1<<16, 1<<30 + 1<<22, 1<<31 - 1,
		1<<31 + 1<<23, 1<<32 - 1, 1 << 53, 1<<53 + 1<<45, 1<<62 + 1<<54, 1<<62 + 1<<38, 1<<63 - 3} {
		for d := int64(-2); d <= 2; d++ {
			list = append(list, x+d, -x-d)
		}
	}
	for _, from := range []ir.DType{ir.I32, ir.U32, ir.I64} {
		for _, to := range []ir.DType{ir.F16, ir.BF16, ir.F8E4M3, ir.F32} {
			g, err := ir.Parse(fmt.Sprintf(`graph "g" {
				%%x = input {name="x", dtype=%s, shape=[%d]}
				%%o = cast %%x {dtype=%s}
				output "o" %%o
			}`, from, len(list), to))
			if err != nil {
				t.Fatal(err)
			}
			x, err := ir.NewData(from, len(list))
			if err != nil {
				t.Fatal(err)
			}
			ir.EncodeInts(x.Bytes, from, list)
			var out [2]map[string]*ir.Data
			for i, opt := range []interp.Options{{}, {Replace: fast.Kernels}} {
				p, err := interp.New(g, opt)
				if err != nil {
					t.Fatal(err)
				}
				if out[i], err = p.Run(t.Context(), map[string]*ir.Data{"x": x}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := interp.Compare(out[1]["o"], out[0]["o"], ir.Tolerance{}).Err(); err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
	}
}
