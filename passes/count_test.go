package passes_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/quant"
)

// leaves is the beginning of the graphs below.
const leaves = `
	symbol T <= 16
	%x = input {name="x", dtype=f32, shape=[6,8]}
	%y = input {name="y", dtype=f32, shape=[6,8]}
	%z = input {name="z", dtype=f32, shape=[6,8]}
	%wide = input {name="wide", dtype=f32, shape=[6,24]}
	%row = input {name="row", dtype=f32, shape=[8]}
	%col = input {name="col", dtype=f32, shape=[6,1]}
	%w = weight {name="w", dtype=f32, shape=[8,8]}
	%v = weight {name="v", dtype=f32, shape=[8,8]}
	%b = weight {name="b", dtype=f32, shape=[8]}
	%state = state {name="state", dtype=f32, shape=[6,8]}
	%square = state {name="square", dtype=f32, shape=[8,8]}
	%t = input {name="t", dtype=f32, shape=[T,8]}
	%v2 = input {name="v2", dtype=f32, shape=[3,50]}
	%long = input {name="long", dtype=f32, shape=[2,70000]}
`

// bytes8 are operands of an int8 matmul.
const bytes8 = `
	%a8 = input {name="a8", dtype=i8, shape=[6,8]}
	%w8 = weight {name="w8", dtype=i8, shape=[8,8]}
`

// heads are the operands of an attention.
const heads = `
	%q = input {name="q", dtype=f32, shape=[6,T,4]}
	%k = input {name="k", dtype=f32, shape=[2,9,4]}
	%m = input {name="m", dtype=f32, shape=[T,9]}
`

// TestKernelCounts checks the results of fusion: the kernels of a graph by family, in execution order.
func TestKernelCounts(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, graph, want string }{
		{"chain", `
			%1 = exp %x  %2 = mul %1, %y  %3 = tanh %2  %4 = add %3, %z
			output "o" %4`, "map"},
		{"DAG of 20 ops with 3 outputs", dag20, "map"},
		{"broadcasts", `
			%1 = add %x, %row  %2 = mul %1, %col  %3 = sub %2, %b
			output "o" %3`, "map"},
		{"dropout", `
			%seed = input {name="seed", dtype=i64, shape=[]}  %offset = input {name="offset", dtype=u32, shape=[]}
			%1 = random_bernoulli %seed, %offset {p=0.9, shape=[6,8]}  %2 = affine %x {mul=1.1}  %3 = where %1, %2, %y
			output "o" %3`, "map"},
		{"noise on a softmax", `
			%seed = input {name="seed", dtype=i64, shape=[]}  %offset = input {name="offset", dtype=u32, shape=[]}
			%1 = softmax %x {axis=1}  %2 = random_normal %seed, %offset {shape=[6,8]}  %3 = add %1, %2
			output "o" %3`, "row"},
		{"strided views", `
			%1 = transpose %x {perm=[1,0]}  %2 = flip %1 {axes=[1]}  %3 = reshape %2 {shape=[6,8]}
			%4 = slice %wide {starts=[0,1], limits=[6,24], steps=[1,3]}  %5 = add %3, %4
			output "o" %5`, "map"},
		{"gather, concat and pad", `
			%i = input {name="i", dtype=i32, shape=[6]}
			%1 = index_select %x, %i  %2 = concat %1, %y {axis=1}  %3 = pad %2 {low=[0,4], high=[0,4]}  %4 = add %3, %wide
			output "o" %4`, "map"},
		{"two outputs of other shapes", `
			%1 = exp %x  %2 = exp %row  output "o" %1  output "p" %2`, "map map"},

		{"cheap shared value is computed twice", `
			%1 = relu %x  %2 = sum %1 {axes=[0]}  %3 = sum %1 {axes=[1]}
			output "o" %2  output "p" %3`, "row row"},
		{"expensive shared value is stored by the first that needs it", `
			%1 = gelu %x  %2 = sum %1 {axes=[0]}  %3 = sum %1 {axes=[1]}
			output "o" %2  output "p" %3`, "row row"},

		{"cheap matmul operand is computed on the way", `
			%1 = affine %x {mul=2.0}  %2 = relu %1  %3 = matmul %2, %w
			output "o" %3`, "matmul"},
		{"expensive matmul operand is stored", `
			%1 = gelu %x  %2 = matmul %1, %w
			output "o" %2`, "map matmul"},
		{"matmul operand of three tensors is stored", `
			%1 = add %x, %y  %2 = add %1, %z  %3 = matmul %2, %w
			output "o" %3`, "map matmul"},
		{"transposed operand is an index map", `
			%1 = transpose %w {perm=[1,0]}  %2 = matmul %x, %1
			output "o" %2`, "matmul"},

		{"attention, its transpose and what follows", heads + `
			%1 = attention %q, %k, %k, %m {causal=true}  %2 = transpose %1 {perm=[1,0,2]}  %3 = reshape %2 {shape=[T,24]}
			%4 = cast %3 {dtype=f16}  output "o" %4`, "attention"},
		{"heads are split on the way into an attention", `
			%1 = slice %wide {starts=[0,0], limits=[6,8]}  %2 = reshape %1 {shape=[6,2,4]}  %3 = transpose %2 {perm=[1,0,2]}
			%4 = affine %3 {mul=2.0}  %5 = attention %3, %4, %3  output "o" %5`, "attention"},
		{"a bias and relu between two matmuls are the first one's", `
			%1 = matmul %x, %w  %2 = add %1, %b  %3 = relu %2  %4 = matmul %3, %v  %5 = add %4, %y  %6 = relu %5
			output "o" %6`, "matmul matmul"},
		{"a result that others read does not change for the next matmul", `
			%1 = matmul %x, %w  %2 = relu %1  %3 = matmul %2, %v
			output "o" %3  output "p" %1`, "matmul matmul"},
		{"an expensive operand of an attention is stored", heads + `
			%1 = gelu %k  %2 = attention %q, %1, %k  output "o" %2`, "map attention"},
		{"a reduction after an attention", heads + `
			%1 = attention %q, %k, %k  %2 = sum %1 {axes=[2]}  output "o" %2`, "attention row"},
		{"attentions of one query do not share a loop", heads + `
			%1 = attention %q, %k, %k  %2 = attention %q, %k, %k {causal=true}  %3 = add %1, %2  output "o" %3`, "attention attention"},

		{"bias, gelu and residual after matmul", `
			%1 = matmul %x, %w  %2 = add %1, %b  %3 = gelu %2  %4 = add %3, %y
			output "o" %4`, "matmul"},
		{"a result needed before and after its epilogue", `
			%1 = matmul %x, %w  %2 = add %1, %b
			output "o" %1  output "p" %2`, "matmul"},
		{"scales, bias and gelu after a product of bytes", bytes8 + `
			%1 = matmul %a8, %w8 {transpose_b=true}  %2 = cast %1 {dtype=f32}  %3 = mul %2, %col  %4 = mul %3, %row
			%5 = add %4, %b  %6 = gelu %5  %7 = cast %6 {dtype=f16}
			output "o" %7`, "matmul"},
		{"a product of bytes back to bytes", bytes8 + `
			%1 = matmul %a8, %w8 {transpose_b=true}  %2 = cast %1 {dtype=f32}  %3 = mul %2, %row  %4 = round %3
			%5 = clamp %4 {min=-127.0, max=127.0}  %6 = cast %5 {dtype=i8}
			output "o" %6`, "matmul"},
		{"rows made bytes before a product", bytes8 + `
			%1 = abs %x  %2 = reduce_max %1 {axes=[1], keepdims=true}  %3 = div %x, %2  %4 = affine %3 {mul=127.0}  %5 = round %4
			%6 = cast %5 {dtype=i8}  %7 = matmul %6, %w8 {transpose_b=true}  %8 = cast %7 {dtype=f32}  %9 = mul %8, %2
			output "o" %9`, "row matmul"},
		{"reshape after matmul", `
			%1 = matmul %x, %w  %2 = reshape %1 {shape=[6,2,4]}  %3 = exp %2
			output "o" %3`, "matmul"},
		{"swiglu of two products", `
			%1 = matmul %x, %w  %2 = matmul %x, %v  %3 = silu %1  %4 = mul %3, %2
			output "o" %4`, "matmul"},
		{"softmax along the inner axis", `
			%1 = reduce_max %x {axes=[1], keepdims=true}  %2 = sub %x, %1  %3 = exp %2
			%4 = sum %3 {axes=[1], keepdims=true}  %5 = div %3, %4
			output "o" %5`, "row"},
		{"softmax along the outer axis", `
			%1 = reduce_max %x {axes=[0], keepdims=true}  %2 = sub %x, %1  %3 = exp %2
			%4 = sum %3 {axes=[0], keepdims=true}  %5 = div %3, %4
			output "o" %5`, "row"},
		{"softmax along a symbolic axis", `
			%1 = reduce_max %t {axes=[0], keepdims=true}  %2 = sub %t, %1  %3 = exp %2
			%4 = sum %3 {axes=[0], keepdims=true}  %5 = div %3, %4
			output "o" %5`, "row"},
		{"rms_norm from primitives", `
			%1 = sqr %x  %2 = mean %1 {axes=[1], keepdims=true}  %3 = affine %2 {add=1e-5}
			%4 = rsqrt %3  %5 = mul %x, %4  %6 = mul %5, %b
			output "o" %6`, "row"},
		{"a norm whose input is an output too", `
			%0 = add %x, %y  %1 = mean %0 {axes=[1], keepdims=true}  %2 = sub %0, %1  %3 = sqr %2
			%4 = mean %3 {axes=[1], keepdims=true}  %5 = affine %4 {add=1e-5}  %6 = rsqrt %5  %7 = mul %2, %6
			output "o" %7  output "residual" %0`, "row"},
		{"outputs of one shape from a common value", `
			%1 = gelu %x  %2 = mul %1, %y  %3 = add %1, %z  %4 = tanh %2  %5 = softplus %3
			output "o" %4  output "p" %5`, "map"},
		{"outputs of one shape from one tensor", `
			%1 = gelu %x  %2 = tanh %x
			output "o" %1  output "p" %2`, "map"},
		{"outputs of one shape from tensors of their own", `
			%1 = gelu %x  %2 = tanh %y
			output "o" %1  output "p" %2`, "map map"},
		{"siblings with a kernel between them", `
			%1 = gelu %x  %2 = sum %1 {axes=[0]}  %3 = mul %1, %2
			%4 = sum %3  %5 = mul %x, %4
			output "o" %1  output "p" %5`, "row row"},
		{"mean and variance at once", `
			%1 = mean %x {axes=[1]}  %2 = sqr %x  %3 = mean %2 {axes=[1]}  %4 = sqr %1  %5 = sub %3, %4
			output "mean" %1  output "variance" %5`, "row"},

		{"a running sum between elementwise ops", `
			%1 = exp %x  %2 = cumsum %1 {axis=1}  %3 = log %2  %4 = add %3, %y
			output "o" %4`, "scan"},
		{"a running sum at other coordinates", `
			%1 = cumsum %x {axis=0}  %2 = flip %1 {axes=[0]}
			output "o" %2`, "scan map"},
		{"a running sum of long rows", `
			%1 = relu %long  %2 = cumsum %1 {axis=1}  %3 = affine %2 {mul=0.5}
			output "o" %3`, "row scan scan"},
		{"an update by nothing", `
			%i = input {name="i", dtype=i32, shape=[6]}  %none = input {name="none", dtype=f32, shape=[0,8]}
			%1 = reduce_min %i  %2 = dynamic_update_slice %x, %none, %1  %3 = exp %2
			output "o" %3`, "map"},
		{"a sort and what follows", `
			%1 = relu %v2  %2 = sort %1 {axis=1}  %3 = affine %2 {mul=0.5}
			output "o" %3`, "sort"},
		{"the best of long rows", `
			%1 = top_k_indices %long {axis=1, k=3}
			output "o" %1`, "sort sort"},
		{"transposed consumer", `
			%1 = matmul %x, %w  %2 = transpose %1 {perm=[1,0]}  %3 = reshape %2 {shape=[6,8]}  %4 = add %3, %y
			output "o" %4`, "matmul map"},
		{"a cycle through another kernel", `
			%1 = sum %x {axes=[1], keepdims=true}  %2 = sub %x, %1  %3 = gelu %2  %4 = matmul %3, %w  %5 = add %4, %1
			output "o" %5`, "row matmul"},
		{"few rows too long for one workgroup each", `
			%1 = sum %long {axes=[1], keepdims=true}  %2 = div %long, %1
			output "o" %2`, "row row map"},
		{"a reduction of a product", `
			%1 = matmul %x, %w  %2 = sum %1 {axes=[1]}
			output "o" %2`, "matmul row"},
		{"products of other shapes", `
			%n = weight {name="n", dtype=f32, shape=[8,5]}  %1 = matmul %x, %w  %2 = matmul %x, %n  %3 = exp %1  %4 = exp %2
			output "o" %3  output "p" %4`, "matmul matmul"},
		{"a product of a product", `
			%1 = matmul %x, %w  %2 = matmul %1, %w
			output "o" %2`, "matmul matmul"},

		{"a state is updated where it is read", `
			%1 = add %state, %x  update %state = %1
			output "o" %1`, "map"},
		{"a counter", `
			%n = state {name="n", dtype=i32, shape=[]}  %1 = const {data=i32[](1)}  %2 = add %n, %1  update %n = %2
			output "before" %n  output "after" %2`, "map"},
		{"a state would be overwritten while it is read", `
			%1 = transpose %square {perm=[1,0]}  update %square = %1`, "map map"},
		{"a slice is written in place", `
			%at = input {name="at", dtype=i32, shape=[]}  %new = input {name="new", dtype=f32, shape=[1,8]}
			%1 = dynamic_update_slice %state, %new, %at  update %state = %1
			%2 = sum %1  output "o" %2`, "map row"},
		{"a product into a state", `
			%1 = matmul %state, %w  update %state = %1`, "matmul map"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := passtest.Parse(t, strings.ReplaceAll(leaves+tt.graph, "  %", "\n%"))
			s, _, err := passtest.Check(passtest.WithoutUnused(t, g), 1, 4)
			if err != nil {
				t.Fatal(err)
			}
			if have := passtest.Families(s); have != tt.want {
				t.Errorf("kernels are %q, want %q\n%s", have, tt.want, s.Text())
			}
		})
	}
}

// dag20 has 20 ops, values with several uses, and three outputs.
const dag20 = `
	%1 = add %x, %y  %2 = mul %1, %z  %3 = sub %1, %2  %4 = exp %3  %5 = relu %2  %6 = add %4, %5  %7 = tanh %6
	%8 = mul %7, %row  %9 = max %8, %3  %10 = neg %9  %11 = sqr %10  %12 = add %11, %1  %13 = sigmoid %12
	%14 = mul %13, %6  %15 = sub %14, %col  %16 = abs %15  %17 = min %16, %12  %18 = add %17, %x  %19 = lt %18, %y
	%20 = where %19, %18, %4
	output "a" %20  output "b" %14  output "c" %7`

func gollama(t *testing.T) *passes.State {
	t.Helper()
	data, err := os.ReadFile("../examples/gollama/graph.json")
	if err != nil {
		t.Fatal(err)
	}
	g, err := ir.ReadJSON("graph.json", data)
	if err != nil {
		t.Fatal(err)
	}
	s, err := passes.Run(g, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestModel checks the cost of a whole model: at most 12 kernels per layer, the same kernels for all layers, and a
// small fraction of the memory that all intermediate values would need.
func TestModel(t *testing.T) {
	const layers = 8
	s := gollama(t)
	if n := len(s.Kernels); n > layers*12 || n < layers {
		t.Errorf("%d kernels for %d layers", n, layers)
	}
	kinds := map[kernel.Identity]int{}
	for _, k := range s.Kernels {
		kinds[k.Identity()]++
	}
	if len(kinds) > 2*len(s.Kernels)/layers {
		t.Errorf("%d different kernels of %d: layers should share them", len(kinds), len(s.Kernels))
	}
	t.Logf("%d kernels, %d different; arena %d bytes, %d without sharing", len(s.Kernels), len(kinds),
		s.Program.ArenaBytes, s.Program.TempBytes)
	if s.Program.ArenaBytes*8 > s.Program.TempBytes {
		t.Errorf("arena of %d bytes for temporaries of %d", s.Program.ArenaBytes, s.Program.TempBytes)
	}
	if err := s.Program.Check(); err == nil || !strings.Contains(err.Error(), "no shader") {
		t.Errorf("a plan without shaders: %v", err)
	}
}

// TestQuantizedWeightsStayPacked compiles matmuls and lookups with a weight of every block format. No buffer except the
// weight's own has as many elements, so there is no unpacked copy.
func TestQuantizedWeightsStayPacked(t *testing.T) {
	for _, dt := range ir.DTypes() {
		if !dt.IsBlock() {
			continue
		}
		g := passtest.Parse(t, fmt.Sprintf(`
			%%w = weight {name="w", dtype=%s, shape=[96,512]}
			%%x = input {name="x", dtype=f32, shape=[4,512]}
			%%ids = input {name="ids", dtype=i32, shape=[5]}
			%%1 = matmul %%x, %%w {transpose_b=true}
			%%2 = embedding %%w, %%ids
			%%3 = dequantize %%w
			%%4 = slice %%3 {starts=[2,0], limits=[7,512]}
			%%5 = matmul %%3, %%3 {transpose_b=true}
			output "product" %%1
			output "rows" %%2
			output "slice" %%4
			output "square" %%5`, dt))
		s, err := passes.Run(g, passes.Options{})
		if err != nil {
			t.Errorf("%s: %v", dt, err)
			continue
		}
		weights := 0
		for _, b := range s.Program.Buffers {
			switch {
			case b.Kind == kernel.BufWeight && b.Segments[0].Weight == "": // the format's codebook
				if want := quant.Codebook(dt); want == nil || b.Bytes != int64(len(want.Bytes)) {
					t.Errorf("%s: a constant of %d bytes", dt, b.Bytes)
				}
			case b.Kind == kernel.BufWeight:
				weights++
				if want, _ := dt.BytesFor(96 * 512); b.DType != dt || b.Bytes < want || b.Bytes >= want+16 {
					t.Errorf("%s: the weight is %s in %d bytes", dt, b.DType, b.Bytes)
				}
			case b.Shape.MaxElems() >= 96*512:
				t.Errorf("%s: buffer %s holds %d elements of %s", dt, b.Name, b.Shape.MaxElems(), b.DType)
			}
		}
		if weights != 1 {
			t.Errorf("%s: %d weight buffers", dt, weights)
		}
	}
}

// TestBarriers checks that every barrier is needed, and that independent
// kernels stand between the same two.
func TestBarriers(t *testing.T) {
	s, err := passes.Run(passtest.Parse(t, `
		%x = input {name="x", dtype=f32, shape=[6,8]}
		%w = weight {name="w", dtype=f32, shape=[8,8]}
		%1 = sum %x {axes=[0]}
		%2 = reduce_max %x {axes=[1]}
		%3 = matmul %x, %w
		%4 = softmax %3 {axis=0}
		output "1" %1
		output "2" %2
		output "4" %4`), passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var have []bool
	for _, st := range s.Program.Steps {
		have = append(have, st.Barrier)
	}
	if want := []bool{false, false, false, true}; !slices.Equal(have, want) {
		t.Errorf("barriers before steps: %v, want %v\n%s", have, want, s.Text())
	}
}

// TestNoScores checks that no buffer of a plan has a place for every pair of a
// query and a key.
func TestNoScores(t *testing.T) {
	const queries, keys = 512, 1024
	s, err := passes.Run(passtest.Parse(t, `
		symbol T <= 512
		%q = input {name="q", dtype=f16, shape=[8,T,64]}
		%k = input {name="k", dtype=f16, shape=[2,1024,64]}
		%v = input {name="v", dtype=f16, shape=[2,1024,64]}
		%1 = attention %q, %k, %v {causal=true}
		%2 = gelu %1
		%3 = transpose %2 {perm=[1,0,2]}
		%4 = reshape %3 {shape=[T,512]}
		output "o" %4`), passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range s.Program.Buffers {
		if n := b.Shape.MaxElems(); n >= queries*keys {
			t.Errorf("buffer %s holds %d elements", b.Name, n)
		}
	}
	if len(s.Program.Steps) != 1 || s.Program.ArenaBytes != 0 {
		t.Errorf("want one kernel and no temporaries:\n%s", s.Text())
	}
}

// TestRefusedAttentions checks that attentions without a kernel of their own
// are taken apart, and that the report says why.
func TestRefusedAttentions(t *testing.T) {
	for _, tt := range []struct{ graph, want string }{
		{`%q = input {name="q", dtype=f64, shape=[2,3,4]}
			%1 = attention %q, %q, %q  output "o" %1`, "f64"},
		{`%q = input {name="q", dtype=f32, shape=[2,3,513]}
			%1 = attention %q, %q, %q  output "o" %1`, "longer than 512"},
		{`%q = input {name="q", dtype=f32, shape=[2,3,4]}
			%v = input {name="v", dtype=f32, shape=[2,3,T]}
			%1 = attention %q, %q, %v  output "o" %1`, "known only at run time"},
	} {
		s, err := passes.Run(passtest.Parse(t, "symbol T <= 16\n"+tt.graph), passes.Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.want, err)
			continue
		}
		if len(s.Refused) != 1 || !strings.Contains(s.Refused[0], tt.want) {
			t.Errorf("refused %q, want one that says %q", s.Refused, tt.want)
		}
		for _, k := range s.Kernels {
			if k.Family == kernel.FamilyAttention {
				t.Errorf("%s: it has a kernel of its own", tt.want)
			}
		}
	}
}
