package lower_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/quant"
)

// cached is one attention layer with a cache of keys and values: T new rows
// are written at the position, which is a state, and see all before them.
const cached = `graph "cached" {
	symbol T <= 5
	%x = input {name="x", dtype=f32, shape=[T,32]}
	%wq = weight {name="wq", dtype=q8_0, shape=[16,32]}
	%wk = weight {name="wk", dtype=q8_0, shape=[8,32]}
	%wv = weight {name="wv", dtype=q8_0, shape=[8,32]}
	%keys = state {name="keys", dtype=f32, shape=[16,8]}
	%values = state {name="values", dtype=f32, shape=[16,8]}
	%at = state {name="position", dtype=i32, shape=[]}
	%k = matmul %x, %wk {transpose_b=true}
	%v = matmul %x, %wv {transpose_b=true}
	%k1 = dynamic_update_slice %keys, %k, %at
	%v1 = dynamic_update_slice %values, %v, %at
	update %keys = %k1
	update %values = %v1
	%q = matmul %x, %wq {transpose_b=true}
	%q1 = reshape %q {shape=[T,2,8]}
	%q2 = transpose %q1 {perm=[1,0,2]}
	%kt = reshape %k1 {shape=[1,16,8]}
	%vt = reshape %v1 {shape=[1,16,8]}
	%row = iota {shape=[T,16]}
	%col = iota {shape=[T,16], axis=1}
	%last = add %row, %at
	%seen = le %col, %last
	%zero = const {data=f32[](0.0)}
	%hidden = const {data=f32[](-1e30)}
	%mask = where %seen, %zero, %hidden
	%out = attention %q2, %kt, %vt, %mask
	%t = dim_value {dim=[T]}
	%next = add %at, %t
	update %at = %next
	output "out" %out
	output "position" %next
}`

// quantizedCache writes new rows of keys into a state of blocks, and reads them.
const quantizedCache = `graph "quantized" {
	symbol T <= 5
	%x = input {name="x", dtype=f32, shape=[2,T,32]}
	%at = input {name="ids", dtype=i32, shape=[]}
	%keys = state {name="keys", dtype=FORMAT, shape=[2,9,32]}
	%twice = add %x, %x
	%blocks = quantize %twice {dtype=FORMAT}
	%k = dynamic_update_slice %keys, %blocks, %at {axis=1}
	update %keys = %k
	%d = dequantize %k
	%y = matmul %x, %d {transpose_b=true}
	output "y" %y
}`

// TestQuantizedState: rows are quantized straight into their place, by one kernel.
func TestQuantizedState(t *testing.T) {
	for _, format := range []string{"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q8_0 ring"} {
		name, ring := strings.CutSuffix(format, " ring")
		text := strings.ReplaceAll(quantizedCache, "FORMAT", name)
		if ring {
			text = strings.Replace(text, "%at {axis=1}", "%at {axis=1, wrap=true}", 1)
		}
		s, c, err := passtest.Check(passtest.Parse(t, text), 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		if have := passtest.Families(s); have != "quantize matmul" || c.Ran == 0 {
			t.Errorf("%s: %d runs of kernels %q", format, c.Ran, have)
		}
		for _, b := range s.Program.Buffers {
			if b.Kind == kernel.BufTemp {
				t.Errorf("%s: buffer %s%s besides the state", format, b.DType, b.Shape)
			}
		}
	}
}

// TestBlocksOnlyFromQuantize: the error for an invalid update of a block state names the value.
func TestBlocksOnlyFromQuantize(t *testing.T) {
	g := passtest.Parse(t, `
		%w = weight {name="w", dtype=q8_0, shape=[1,32]}
		%keys = state {name="keys", dtype=q8_0, shape=[9,32]}
		%at = const {data=i32[](3)}
		%k = dynamic_update_slice %keys, %w, %at
		update %keys = %k
		%d = dequantize %k
		output "y" %d`)
	_, err := passes.Run(g, passes.Options{})
	if err == nil || !strings.Contains(err.Error(), "only op quantize can make these rows") {
		t.Errorf("error %v", err)
	}
}

// TestStatesAndSymbols runs one program at many lengths, as a model generates:
// a prompt, then single rows, then several, and none.
func TestStatesAndSymbols(t *testing.T) {
	g, err := ir.Parse(cached)
	if err != nil {
		t.Fatal(err)
	}
	values := graphgen.Values{Seed: 7, Graph: g}
	want, err := interp.New(g, interp.Options{Weights: values})
	if err != nil {
		t.Fatal(err)
	}
	s, err := passes.Run(g, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := keval.New(s.Program, s.Kernels,
		keval.Options{Weights: values, Decode: quant.Dequantize, Encode: passtest.Quantize})
	if err != nil {
		t.Fatal(err)
	}
	inPlace := 0
	for _, st := range s.Program.Steps {
		for _, b := range st.Binds {
			if p := s.Program.Buffers[b.Buffer]; b.Write && (p.Name == "keys" || p.Name == "values") &&
				len(st.Ops) > 0 {
				inPlace++
				if b.Read {
					t.Errorf("step %s reads %s, all of it, to write a few rows", st.Name, p.Name)
				}
			}
		}
	}
	if inPlace != 2 {
		t.Errorf("%d steps write the caches, want 2\n%s", inPlace, s.Text())
	}
	position := int64(0)
	for i, length := range []int64{4, 1, 1, 0, 3, 1, 5, 1} {
		symbols := map[string]int64{"T": length}
		in, err := values.Inputs(symbols, i)
		if err != nil {
			t.Fatal(err)
		}
		have, err := m.Run(in, symbols)
		if err != nil {
			t.Fatalf("run %d of length %d: %v", i, length, err)
		}
		ref, err := want.Run(context.Background(), in, symbols)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range g.Outputs() {
			if err := interp.Compare(have[o.Name], ref[o.Name], interp.ToleranceOf(g, o.Node)).Err(); err != nil {
				t.Errorf("run %d of length %d: %s: %v", i, length, o.Name, err)
			}
		}
		position += length
		if n, err := have["position"].Ints(); err != nil || n[0] != position {
			t.Errorf("run %d: the position is %v (%v), want %d", i, n, err, position)
		}
	}
}

// TestBlockUpdates: a block state can be updated as a whole with a weight, another state, itself, or a result of
// quantize. If nothing else reads the quantized blocks, they are written directly to the state.
func TestBlockUpdates(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"weight", `
			%w = weight {name="w", dtype=q8_0, shape=[3,32]}
			%s = state {name="s", dtype=q8_0, shape=[3,32]}
			update %s = %w
			%d = dequantize %s
			output "y" %d`, "map map"},
		{"weight of bytes", `
			%w = weight {name="w", dtype=mxfp4, shape=[32]}
			%s = state {name="s", dtype=mxfp4, shape=[32]}
			update %s = %w
			%d = dequantize %s
			output "y" %d`, "map map"},
		{"quantize", `
			%x = input {name="x", dtype=f32, shape=[3,32]}
			%s = state {name="s", dtype=q4_0, shape=[3,32]}
			%q = quantize %x {dtype=q4_0}
			update %s = %q
			%d = dequantize %s
			output "y" %d`, "map quantize"},
		{"quantize and read", `
			%x = input {name="x", dtype=f32, shape=[3,32]}
			%s = state {name="s", dtype=q8_0, shape=[3,32]}
			%q = quantize %x {dtype=q8_0}
			update %s = %q
			%d = dequantize %q
			%e = dequantize %s
			%y = sub %d, %e
			output "y" %y`, "quantize map map"},
		{"quantize its old value", `
			%x = input {name="x", dtype=f32, shape=[3,64]}
			%s = state {name="s", dtype=q8_0, shape=[3,64]}
			%d = dequantize %s
			%f = flip %d {axes=[0]}
			%n = add %f, %x
			%q = quantize %n {dtype=q8_0}
			update %s = %q
			output "y" %d`, ""},
		{"swap", `
			%x = input {name="x", dtype=f32, shape=[64]}
			%s = state {name="s", dtype=q8_0, shape=[64]}
			%t = state {name="t", dtype=q8_0, shape=[64]}
			%u = state {name="u", dtype=q8_0, shape=[64]}
			%q = quantize %x {dtype=q8_0}
			update %s = %t
			update %t = %u
			update %u = %q
			%a = dequantize %s
			%b = dequantize %t
			%y = sub %a, %b
			output "y" %y`, ""},
		{"swap two", `
			%x = input {name="x", dtype=f32, shape=[64]}
			%w = weight {name="w", dtype=q4_K, shape=[256]}
			%s = state {name="s", dtype=q4_K, shape=[256]}
			%t = state {name="t", dtype=q4_K, shape=[256]}
			update %s = %t
			update %t = %s
			%c = const {data=f32[](1.0)}
			%y = add %x, %c
			output "y" %y`, ""},
		{"two of one", `
			%x = input {name="x", dtype=f32, shape=[32]}
			%s = state {name="s", dtype=q5_1, shape=[32]}
			%t = state {name="t", dtype=q5_1, shape=[32]}
			%q = quantize %x {dtype=q5_1}
			update %s = %q
			update %t = %q
			%d = dequantize %s
			output "y" %d`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c, err := passtest.Check(passtest.Parse(t, tt.text), 1, 4)
			if err != nil {
				t.Fatal(err)
			}
			if have := passtest.Families(s); tt.want != "" && have != tt.want || c.Ran == 0 {
				t.Errorf("%d runs of kernels %q, want %q", c.Ran, have, tt.want)
			}
		})
	}
}

// TestQuantizedRowsAtPositions: each sequence's row of blocks goes to a position of its own, in place; one that is out
// of range goes nowhere, and of equal ones the last stays.
func TestQuantizedRowsAtPositions(t *testing.T) {
	for _, unique := range []string{"", " {unique=true}"} {
		g := passtest.Parse(t, `graph "batch" {
			%x = input {name="x", dtype=f32, shape=[3,2,32]}
			%at = input {name="ids", dtype=i32, shape=[3,2]}
			%keys = state {name="keys", dtype=q8_0, shape=[4,5,2,32]}
			%blocks = quantize %x {dtype=q8_0}
			%k = scatter_nd %keys, %at, %blocks`+unique+`
			update %keys = %k
			%d = dequantize %k
			output "y" %d
		}`)
		s, c, err := passtest.Check(g, 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		have := passtest.Families(s)
		if !strings.Contains(have, "quantize") || strings.Contains(have, "copy") || c.Ran == 0 {
			t.Errorf("%d runs of kernels %q", c.Ran, have)
		}
		for _, b := range s.Program.Buffers {
			if b.Kind == kernel.BufTemp && b.DType.IsBlock() {
				t.Errorf("buffer %s%s besides the state", b.DType, b.Shape)
			}
		}
	}
}
