package frontend_test

import (
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestMistakes checks that each wrong use gives an Error with the op, the
// operands, the reason, and this file and the line of the wrong call.
func TestMistakes(t *testing.T) {
	other := outsideTensor(t)
	tests := []struct {
		name string
		call func(b *frontend.Builder, x, y frontend.Tensor) // x f32[6,8], y f32[4,16]
		want string                                          // the message after the place
	}{
		{"contraction", func(b *frontend.Builder, x, y frontend.Tensor) { x.MatMul(y) },
			`matmul(f32[6,8], f32[4,16]): input "x" is [6,8] and input "y" is [4,16]: contraction extents 8 and 4 differ`},
		{"signs of bytes", func(b *frontend.Builder, x, y frontend.Tensor) { x.Cast(ir.I8).MatMulT(x.Cast(ir.U8)) },
			"matmul(i8[6,8], u8[6,8]): a (cast) is i8 and b (cast) is u8: cast one of them"},
		{"broadcast", func(b *frontend.Builder, x, y frontend.Tensor) { x.Add(y) },
			`add(f32[6,8], f32[4,16]): input "x" and input "y": shapes [6,8] and [4,16] do not broadcast`},
		{"dtypes", func(b *frontend.Builder, x, y frontend.Tensor) { x.Add(x.Cast(ir.F16)) },
			`add(f32[6,8], f16[6,8]): input "x" is f32 and b (cast) is f16: cast one of them`},
		{"zero operand", func(b *frontend.Builder, x, y frontend.Tensor) { x.Add(frontend.Tensor{}) },
			"add(f32[6,8]): operand 1 is the zero Tensor"},
		{"zero receiver", func(b *frontend.Builder, x, y frontend.Tensor) { frontend.Tensor{}.Relu() },
			"relu(): called on the zero Tensor"},
		{"zero shape", func(b *frontend.Builder, x, y frontend.Tensor) { frontend.Tensor{}.Shape() },
			"shape(): called on the zero Tensor"},
		{"zero reshape", func(b *frontend.Builder, x, y frontend.Tensor) { frontend.Tensor{}.Reshape(1) },
			"shape(): called on the zero Tensor"},
		{"other graph", func(b *frontend.Builder, x, y frontend.Tensor) { x.Add(other) },
			`add(f32[6,8], f32[2]): operand 1, input "x", belongs to graph "other", not to "mistakes"`},
		{"graph of the same name", func(b *frontend.Builder, x, y frontend.Tensor) {
			_, err := frontend.Build("mistakes", func(b *frontend.Builder) { b.Input("z", ir.F32, 2).Add(x) })
			panic(err)
		}, `add(f32[2], f32[6,8]): operand 1, input "x", belongs to another graph, which is named "mistakes" as well`},
		{"values without a name", func(b *frontend.Builder, x, y frontend.Tensor) { x.Relu().MatMul(y.Exp()) },
			"matmul(f32[6,8], f32[4,16]): a (relu) is [6,8] and b (exp) is [4,16]"},
		{"one of many", func(b *frontend.Builder, x, y frontend.Tensor) { x.Concat(0, x.Relu(), y) },
			`concat(f32[6,8], f32[6,8], f32[4,16]): input "y" is [4,16], input "x" is [6,8]: they may differ only`},
		{"captured by a body", func(b *frontend.Builder, x, y frontend.Tensor) {
			b.Loop(3, []frontend.Tensor{x}, func(i frontend.Tensor, c []frontend.Tensor) []frontend.Tensor {
				return []frontend.Tensor{c[0].MatMul(y)}
			})
		}, `matmul(f32[6,8], f32[4,16]): state "x" is [6,8] and input "y" is [4,16]`},
		{"after Build", func(b *frontend.Builder, x, y frontend.Tensor) { other.Relu() },
			`relu(): graph "other" is already built`},
		{"name twice", func(b *frontend.Builder, x, y frontend.Tensor) { b.Weight("x", ir.F32, 1) },
			`weight(): another input, weight or state has the name "x"`},
		{"no name", func(b *frontend.Builder, x, y frontend.Tensor) { b.Input("", ir.F32, 1) },
			"input(): needs a name"},
		{"dim type", func(b *frontend.Builder, x, y frontend.Tensor) { b.Input("z", ir.F32, 6, "8") },
			"input(): 8 (string) is not a dim: want int, ir.Dim, ir.Shape or []int"},
		{"dim sign", func(b *frontend.Builder, x, y frontend.Tensor) { b.Input("z", ir.F32, -6) },
			"input(): attribute \"shape\": dim -6 is negative"},
		{"dims for one", func(b *frontend.Builder, x, y frontend.Tensor) { b.DimValue(ir.ShapeOf(1, 2)) },
			"dim_value(): [1,2] is 2 dims, want one"},
		{"symbol bound", func(b *frontend.Builder, x, y frontend.Tensor) { b.Sym("N", 3); b.Sym("N", 4) },
			"symbol(): symbol N has bound 4 here and 3 elsewhere"},
		{"symbol name", func(b *frontend.Builder, x, y frontend.Tensor) { b.Sym("", 4) },
			"symbol(): a symbol needs a name"},
		{"symbolic weight", func(b *frontend.Builder, x, y frontend.Tensor) { b.Weight("w", ir.F32, b.Sym("N", 3)) },
			"weight(): a weight needs a static shape"},
		{"reshape count", func(b *frontend.Builder, x, y frontend.Tensor) { x.Reshape(7, 7) },
			`reshape(f32[6,8]): cannot reshape input "x" [6,8] to [7,7]`},
		{"reshape -1", func(b *frontend.Builder, x, y frontend.Tensor) { x.Reshape(7, -1) },
			"reshape(f32[6,8]): cannot compute the -1 of [7,-1] from [6,8]: 48 elements are not a multiple of 7"},
		{"reshape -1 of none", func(b *frontend.Builder, x, y frontend.Tensor) { x.Reshape(0, -1) },
			"reshape(f32[6,8]): cannot compute the -1 of [0,-1]"},
		{"reshape -1 twice", func(b *frontend.Builder, x, y frontend.Tensor) { x.Reshape(-1, -1) },
			"reshape(f32[6,8]): shape [-1,-1] has two extents of -1"},
		{"reshape -1 by symbol", func(b *frontend.Builder, x, y frontend.Tensor) { x.Reshape(b.Sym("N", 4), -1) },
			"reshape(f32[6,8]): cannot compute the -1 of [N,-1] from [6,8]: 48 elements are not a multiple of N"},
		{"axis", func(b *frontend.Builder, x, y frontend.Tensor) { x.Slice(2, 0, 1) },
			"slice(f32[6,8]): axis 2 is outside rank 2"},
		{"dim axis", func(b *frontend.Builder, x, y frontend.Tensor) { x.Dim(-3) },
			"dim(f32[6,8]): axis -3 is outside rank 2"},
		{"swap axes", func(b *frontend.Builder, x, y frontend.Tensor) { x.SwapAxes(0, 2) },
			"transpose(f32[6,8]): axis 2 is outside rank 2"},
		{"T of a vector", func(b *frontend.Builder, x, y frontend.Tensor) { x.Sum(0).T() },
			"transpose(f32[8]): T swaps the two innermost axes, and [8] has 1"},
		{"index", func(b *frontend.Builder, x, y frontend.Tensor) { x.Index(0, 6) },
			`slice(f32[6,8]): axis 0 of input "x" [6,8]: limit 7 can pass the extent 6`},
		{"bias alone", func(b *frontend.Builder, x, y frontend.Tensor) {
			x.LayerNorm(frontend.Tensor{}, x.Sum(0), 1e-5)
		}, "layer_norm(f32[6,8], f32[8]): a bias needs a weight too"},
		{"literal", func(b *frontend.Builder, x, y frontend.Tensor) { x.Cast(ir.U8).AddScalar(256) },
			"const(u8[6,8]): 256 is not a value of u8"},
		{"literal fraction", func(b *frontend.Builder, x, y frontend.Tensor) { x.Cast(ir.I32).MulScalar(0.5) },
			"const(i32[6,8]): 0.5 is not a value of i32"},
		{"literal overflow", func(b *frontend.Builder, x, y frontend.Tensor) { b.Scalar(ir.F16, 1e6) },
			"const(): 1e+06 is too large for f16"},
		{"literal of blocks", func(b *frontend.Builder, x, y frontend.Tensor) {
			b.Weight("q", ir.Q8_0, 32).AddScalar(1)
		},
			"const(q8_0[32]): a number cannot be q8_0: apply Dequantize"},
		{"output twice", func(b *frontend.Builder, x, y frontend.Tensor) { b.Output("a", x); b.Output("a", y) },
			`output(f32[4,16]): output "a" is declared twice`},
		{"update of no state", func(b *frontend.Builder, x, y frontend.Tensor) { b.Update(x, y) },
			"update(f32[6,8], f32[4,16]): update of %0, which is input: only states can be updated"},
		{"Fail", func(b *frontend.Builder, x, y frontend.Tensor) { b.Fail("layer", errors.New("no such layer")) },
			"layer(): no such layer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := frontend.Build("mistakes", func(b *frontend.Builder) {
				x, y := b.Input("x", ir.F32, 6, 8), b.Input("y", ir.F32, 4, 16)
				tt.call(b, x, y)
				b.Output("x2", x)
			})
			var e *frontend.Error
			if !errors.As(err, &e) || g != nil {
				t.Fatalf("got graph %v and error %v, want an Error alone", g, err)
			}
			if filepath.Base(e.File) != "frontend_test.go" || e.Line == 0 {
				t.Errorf("the place is %s:%d", e.File, e.Line)
			}
			_, msg, _ := strings.Cut(err.Error(), ": ")
			if !strings.HasPrefix(msg, tt.want) {
				t.Errorf("got  %s\nwant %s", msg, tt.want)
			}
		})
	}
}

func outsideTensor(t *testing.T) frontend.Tensor {
	t.Helper()
	var x frontend.Tensor
	_, err := frontend.Build("other", func(b *frontend.Builder) {
		x = b.Input("x", ir.F32, 2)
		b.Output("x", x)
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestErrorPlace checks that an Error names the caller's line even through
// methods that call each other, and that it keeps the reason.
func TestErrorPlace(t *testing.T) {
	_, file, line, _ := runtime.Caller(0)
	_, err := frontend.Build("place", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 6, 8)
		x.Index(0, 6)
	})
	var e *frontend.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an Error", err)
	}
	if e.File != file || e.Line != line+3 {
		t.Errorf("the place is %s:%d, want %s:%d", e.File, e.Line, file, line+3)
	}
	if !strings.HasPrefix(err.Error(), "frontend/frontend_test.go:") {
		t.Errorf("message %q does not begin with the place", err)
	}
	if e.Op != "slice" || len(e.Types) != 1 || e.Types[0].String() != "f32[6,8]" || errors.Unwrap(err) == nil {
		t.Errorf("incomplete: %+v", e)
	}
}

// TestNodePlace checks that nodes know the line that made them.
func TestNodePlace(t *testing.T) {
	_, err := frontend.Build("place", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 6)
		y := x.AddScalar(1)
		b.Output("y", y)
		px, py := x.Node().Pos(), y.Node().Pos()
		if !strings.HasPrefix(px, "frontend/frontend_test.go:") || px == py {
			t.Errorf("places are %q and %q", px, py)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOtherPanicsPropagate checks that Build catches no panic but its own.
func TestOtherPanicsPropagate(t *testing.T) {
	boom := errors.New("boom")
	defer func() {
		if r := recover(); r != boom {
			t.Errorf("recovered %v, want %v", r, boom)
		}
	}()
	_, err := frontend.Build("panics", func(*frontend.Builder) { panic(boom) })
	t.Errorf("Build returned %v", err)
}

func TestBuildNeedsAnOutput(t *testing.T) {
	_, err := frontend.Build("empty", func(b *frontend.Builder) { b.Input("x", ir.F32) })
	if err == nil || !strings.Contains(err.Error(), `graph "empty" has no outputs`) {
		t.Errorf("got %v", err)
	}
}

// TestConst checks dtype, shape and values of constants of each Go type.
func TestConst(t *testing.T) {
	six := &ir.Data{DType: ir.U8, Dims: []int{6}, Bytes: []byte{1, 2, 3, 4, 5, 6}}
	tests := []struct {
		values any
		dims   []int
		want   string // as text IR
	}{
		{float32(0.5), nil, "f32[](0.5)"},
		{0.5, nil, "f64[](0.5)"},
		{true, nil, "bool[](true)"},
		{7, nil, "i32[](7)"},
		{math.MinInt32, nil, "i32[](-2147483648)"},
		{int64(math.MaxInt64), nil, "i64[](9223372036854775807)"},
		{uint32(math.MaxUint32), nil, "u32[](4294967295)"},
		{[]int8{-128, 127}, nil, "i8[2](-128, 127)"},
		{[]byte{0, 255}, nil, "u8[2](0, 255)"},
		{[3]float32{1, 2, 3}, nil, "f32[3](1.0, 2.0, 3.0)"},
		{[][]float32{{1, 2, 3}, {4, 5, 6}}, nil, "f32[2,3](1.0, 2.0, 3.0, 4.0, 5.0, 6.0)"},
		{[][2]bool{{true, false}}, nil, "bool[1,2](true, false)"},
		{[]int32{1, 2, 3, 4, 5, 6}, []int{2, 3}, "i32[2,3](1, 2, 3, 4, 5, 6)"},
		{[][]float32{}, nil, "f32[0,0]()"},
		{six, []int{3, 2}, "u8[3,2](1, 2, 3, 4, 5, 6)"},
	}
	for _, tt := range tests {
		_, err := frontend.Build("const", func(b *frontend.Builder) {
			c := b.Const(tt.values, tt.dims...)
			if got := ir.FormatAttr(c.Node().Attrs().Data("data")); got != tt.want {
				t.Errorf("Const(%v, %v) is %s, want %s", tt.values, tt.dims, got, tt.want)
			}
			b.Output("c", c)
		})
		if err != nil {
			t.Errorf("Const(%v, %v): %v", tt.values, tt.dims, err)
		}
	}
}

func TestConstRefuses(t *testing.T) {
	tests := []struct {
		values any
		dims   []int
		want   string
	}{
		{nil, nil, "the value is nil"},
		{(*ir.Data)(nil), nil, "the value is nil"},
		{"text", nil, "a string cannot be a tensor"},
		{[]string{"text"}, nil, "a []string cannot be a tensor"},
		{map[int]int{}, nil, "a map[int]int cannot be a tensor"},
		{uint64(1), nil, "a uint64 cannot be a tensor"},
		{[][]float32{{1, 2}, {3}}, nil, "nested slices have 2 and 1 elements"},
		{[][]float32{{}, {3}}, nil, "nested slices have 0 and 1 elements"},
		{math.MaxInt32 + 1, nil, "2147483648 does not fit i32"},
		{[]int32{1, 2, 3}, []int{2}, "needs 2 values, have 3"},
		{[]int32{1}, []int{-1}, "negative"},
		{&ir.Data{DType: ir.F32, Dims: []int{2}, Bytes: []byte{0}}, nil, "needs 8 bytes, have 1"},
		{[][][][][][][][][]bool{}, nil, "rank 9 is over the limit"},
	}
	for _, tt := range tests {
		_, err := frontend.Build("const", func(b *frontend.Builder) { b.Output("c", b.Const(tt.values, tt.dims...)) })
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Const(%v, %v): got %v, want %q", tt.values, tt.dims, err, tt.want)
		}
	}
}

// TestConstCopies checks that a constant does not change with its source.
func TestConstCopies(t *testing.T) {
	src := &ir.Data{DType: ir.U8, Dims: []int{2}, Bytes: []byte{1, 2}}
	_, err := frontend.Build("const", func(b *frontend.Builder) {
		c := b.Const(src)
		src.Bytes[0], src.Dims[0] = 9, 9
		if d := c.Node().Attrs().Data("data"); d.Bytes[0] != 1 || d.Dims[0] != 2 {
			t.Errorf("the constant became %v %v", d, d.Bytes)
		}
		b.Output("c", c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTensorDescribesItself(t *testing.T) {
	_, err := frontend.Build("describe", func(b *frontend.Builder) {
		n := b.Sym("N", 9)
		x := b.Full(ir.F16, 1, n, 8)
		if x.DType() != ir.F16 || x.Rank() != 2 || x.Dim(0) != n || x.Dim(-1) != ir.D(8) || x.String() != "f16[N,8]" {
			t.Errorf("%s: dtype %s, rank %d, dims %s and %s", x, x.DType(), x.Rank(), x.Dim(0), x.Dim(-1))
		}
		if x.IsZero() || !(frontend.Tensor{}).IsZero() || x.Builder() != b {
			t.Error("IsZero or Builder is wrong")
		}
		b.Output("x", x)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestScalarMethods checks that a number takes the dtype of the tensor.
func TestScalarMethods(t *testing.T) {
	_, err := frontend.Build("scalars", func(b *frontend.Builder) {
		x := b.Input("x", ir.I32, 2)
		var ops []string
		for _, r := range []frontend.Tensor{x.AddScalar(3), x.SubScalar(3), x.MulScalar(3), x.DivScalar(3)} {
			if lit := r.Node().Arg(1); ir.FormatAttr(lit.Attrs().Data("data")) != "i32[](3)" ||
				r.Node().Arg(0) != x.Node() {
				t.Errorf("%s has operands %s", ir.FormatNode(r.Node()), ir.FormatNode(lit))
			}
			ops = append(ops, r.Node().Op().String())
		}
		if want := []string{"add", "sub", "mul", "div"}; !slices.Equal(ops, want) {
			t.Errorf("ops are %v, want %v", ops, want)
		}
		b.Output("x", x)
	})
	if err != nil {
		t.Fatal(err)
	}
}
