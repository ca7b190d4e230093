package runtime

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/ir"
)

const graphText = `graph "g" {
  symbol S <= 16
  symbol T <= 64
  %x = input {name="x", dtype=f32, shape=[2*T,8]} : f32[2*T,8]
  %i = input {name="ids", dtype=i32, shape=[T]} : i32[T]
  %k = state {name="cache", dtype=q4_0, shape=[4,32]} : q4_0[4,32]
  %c = state {name="count", dtype=f32, shape=[]} : f32[]
  %d = dim_value {dim=[S]} : i32[]
  %1 = relu %x : f32[2*T,8]
  output "y" %1
  output "s" %d
}
`

func rows(mul int64) ir.Shape { return ir.Shape{ir.Symbol("T", 64).Times(mul), ir.D(8)} }

// signatures returns one signature made in both ways.
func signatures(t *testing.T) map[string]*Signature {
	t.Helper()
	g, err := ir.Parse(graphText)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSignature("g",
		[]Port{{"x", ir.Type{DType: ir.F32, Shape: rows(2)}}, {"ids", ir.Type{DType: ir.I32, Shape: rows(1)[:1]}}},
		[]Port{{"y", ir.Type{DType: ir.F32, Shape: rows(2)}}, {"s", ir.Type{DType: ir.I32, Shape: ir.Shape{}}}},
		[]Port{{"cache", ir.Type{DType: ir.Q4_0, Shape: ir.ShapeOf(4, 32)}},
			{"count", ir.Type{DType: ir.F32, Shape: ir.Shape{}}}},
		[]Symbol{{"S", 16}, {"T", 64}})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Signature{"graph": SignatureOf(g), "ports": s}
}

func TestSignature(t *testing.T) {
	both := signatures(t)
	a, b := both["graph"], both["ports"]
	for _, diff := range []string{
		cmp.Diff(a.Inputs(), b.Inputs()), cmp.Diff(a.Outputs(), b.Outputs()),
		cmp.Diff(a.States(), b.States()), cmp.Diff(a.Symbols(), b.Symbols()),
	} {
		if diff != "" {
			t.Error(diff)
		}
	}
	if len(a.Inputs()) != 2 || a.Inputs()[0].String() != "x: f32[2*T,8]" {
		t.Errorf("inputs %v", a.Inputs())
	}
}

func TestNewSignatureRefuses(t *testing.T) {
	x := Port{"x", ir.Type{DType: ir.F32, Shape: rows(1)}}
	tests := []struct {
		name           string
		inputs, states []Port
		symbols        []Symbol
		want           string
	}{
		{"undeclared symbol", []Port{x}, nil, nil, "symbols"},
		{"symbol twice", []Port{x}, nil, []Symbol{{"T", 64}, {"T", 64}}, "symbols"},
		{"other bound", []Port{x}, nil, []Symbol{{"T", 32}}, "bound"},
		{"symbol without a name", nil, nil, []Symbol{{"", 1}}, "symbols"},
		{"input twice", []Port{x, x}, nil, []Symbol{{"T", 64}}, "another input, weight or state has the name"},
		{"input and state", []Port{x}, []Port{{"x", ir.Type{DType: ir.F32}}}, []Symbol{{"T", 64}}, "another input, weight or state has the name"},
		{"no dtype", []Port{{"x", ir.Type{}}}, nil, nil, `"x"`},
		{"no name", []Port{{"", ir.Type{DType: ir.F32}}}, nil, nil, "name"},
		{"symbolic state", nil, []Port{x}, []Symbol{{"T", 64}}, "static"},
	}
	for _, tt := range tests {
		if _, err := NewSignature("g", tt.inputs, nil, tt.states, tt.symbols); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	for _, symbols := range [][]Symbol{nil, {{"T", 32}}} {
		if _, err := NewSignature("g", nil, []Port{x}, nil, symbols); err == nil {
			t.Errorf("output %s with symbols %v: want an error", x, symbols)
		}
	}
}

func data(t *testing.T, dtype ir.DType, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestBind(t *testing.T) {
	x, ids := data(t, ir.F32, 6, 8), data(t, ir.I32, 3)
	tests := []struct {
		name     string
		in       map[string]*ir.Data
		explicit map[string]int64
		want     map[string]int64
		err      string
	}{
		{"sound", map[string]*ir.Data{"x": x, "ids": ids}, map[string]int64{"S": 5}, map[string]int64{"S": 5, "T": 3}, ""},
		{"agreeing", map[string]*ir.Data{"x": x, "ids": ids}, map[string]int64{"S": 5, "T": 3}, map[string]int64{"S": 5, "T": 3}, ""},
		{"missing", map[string]*ir.Data{"x": x}, map[string]int64{"S": 5}, nil, `input "ids" is missing, want i32[T]`},
		{"unknown", map[string]*ir.Data{"x": x, "ids": ids, "z": x}, nil, nil, `unknown input "z": the graph has x, ids`},
		{"state as input", map[string]*ir.Data{"x": x, "ids": ids, "count": x}, nil, nil, `unknown input "count"`},
		{"nil", map[string]*ir.Data{"x": nil, "ids": ids}, nil, nil, `input "x" is nil`},
		{"dtype", map[string]*ir.Data{"x": data(t, ir.F16, 6, 8), "ids": ids}, nil, nil, `f16[6 8], want f32[2*T,8]`},
		{"rank", map[string]*ir.Data{"x": data(t, ir.F32, 48), "ids": ids}, nil, nil, `[48], want [2*T,8]`},
		{"odd extent", map[string]*ir.Data{"x": data(t, ir.F32, 5, 8), "ids": ids}, nil, nil, `axis 0 of input "x" is 5`},
		{"static extent", map[string]*ir.Data{"x": data(t, ir.F32, 6, 9), "ids": ids}, nil, nil, `is 9, not 8`},
		{"over the bound", map[string]*ir.Data{"x": data(t, ir.F32, 130, 8), "ids": ids}, nil, nil, `at most 128`},
		{"disagreeing", map[string]*ir.Data{"x": x, "ids": data(t, ir.I32, 4)}, nil, nil, `makes symbol T 4, but it is 3`},
		{"short bytes", map[string]*ir.Data{"x": {DType: ir.F32, Dims: []int{6, 8}}, "ids": ids}, nil, nil, `needs 192 bytes, have 0`},
		{"no value", map[string]*ir.Data{"x": x, "ids": ids}, nil, nil, `symbol S has no value`},
		{"unknown symbol", map[string]*ir.Data{"x": x, "ids": ids}, map[string]int64{"U": 1}, nil, `unknown symbol U: the graph has S, T`},
		{"symbol range", map[string]*ir.Data{"x": x, "ids": ids}, map[string]int64{"S": 17}, nil, `outside 0..16`},
	}
	for how, s := range signatures(t) {
		for _, tt := range tests {
			have, err := s.Bind(tt.in, RunOptions{Symbols: tt.explicit})
			if tt.err == "" {
				if diff := cmp.Diff(tt.want, have); err != nil || diff != "" {
					t.Errorf("%s, %s: %v %s", how, tt.name, err, diff)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v, want one line with %q", how, tt.name, err, tt.err)
			}
		}
	}
}

func TestCheckState(t *testing.T) {
	tests := []struct {
		name  string
		value *ir.Data
		want  int
		err   string
	}{
		{"cache", data(t, ir.Q4_0, 4, 32), 0, ""},
		{"count", data(t, ir.F32), 1, ""},
		{"x", data(t, ir.F32), 0, `no state "x": the program has cache, count`},
		{"count", nil, 0, "nil, want f32[]"},
		{"count", data(t, ir.F32, 1), 0, `state "count" is f32[], the value is f32[1]`},
		{"cache", data(t, ir.Q8_0, 4, 32), 0, "the value is q8_0[4,32]"},
		{"cache", &ir.Data{DType: ir.Q4_0, Dims: []int{4, 32}}, 0, "needs 72 bytes"},
	}
	for how, s := range signatures(t) {
		for _, tt := range tests {
			i, err := s.CheckState(tt.name, tt.value)
			if tt.err == "" {
				if err != nil || i != tt.want {
					t.Errorf("%s: state %q: %d, %v; want %d", how, tt.name, i, err, tt.want)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: state %q: %v, want %q", how, tt.name, err, tt.err)
			}
		}
	}
	if _, err := new(Signature).State("x"); err == nil || !strings.Contains(err.Error(), "no states") {
		t.Errorf("state of a program without any: %v", err)
	}
}

func TestProfileTable(t *testing.T) {
	p := &Profile{
		Wall: 5 * time.Microsecond, GPU: 4 * time.Microsecond,
		Kernels: []KernelTime{
			{Name: "add", Ops: []string{"add"}, Schedule: "map wg=64", Nanos: 1000, Moved: 3000},
			{Name: "mm", Ops: []string{"dequantize", "matmul"}, Schedule: "tile", Nanos: 3000, Flops: 6000, Moved: 1500},
			{Name: "untimed", Ops: []string{strings.Repeat("ä", 50)}},
		},
	}
	want := strings.Join([]string{
		`        us   share   GFLOP/s     GB/s  kernel   schedule   ops`,
		`      1.00   25.0%       0.0      3.0  add      map wg=64  add`,
		`      3.00   75.0%       2.0      0.5  mm       tile       dequantize matmul`,
		`      0.00    0.0%       0.0      0.0  untimed             ` + strings.Repeat("ä", 30) + `…`,
		"3 kernels, busy 4µs, device 4µs, wall 5µs\n",
	}, "\n")
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Error(diff)
	}
	p.Kernels[1].PeakGFlops, p.Kernels[1].PeakGBps = 8, 2
	p.Kernels[1].Cost = KernelCost{Registers: 31.5, Spills: 0, CodeSize: 400}
	want = strings.Join([]string{
		`        us   share   GFLOP/s     GB/s  of peak  of copy     regs   spills  kernel   schedule   ops`,
		`      1.00   25.0%       0.0      3.0                                      add      map wg=64  add`,
		`      3.00   75.0%       2.0      0.5      25%      25%     31.5        0  mm       tile       dequantize matmul`,
	}, "\n")
	if !strings.HasPrefix(p.String(), want) {
		t.Errorf("with limits and costs:\n%s\nwant\n%s", p, want)
	}
	var b strings.Builder
	if err := p.WriteTable(&b, 1); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); !strings.Contains(s, "mm") || strings.Contains(s, "add") ||
		!strings.Contains(s, "(2 more kernels)") {
		t.Errorf("the slowest kernel alone:\n%s", s)
	}
	twice := &Profile{Kernels: append(slices.Clone(p.Kernels), p.Kernels[0])}
	b.Reset()
	if err := twice.WriteTable(&b, 2); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); !strings.Contains(s, "   2        2.00   40.0%") || !strings.Contains(s, "(1 more kernels)") {
		t.Errorf("equal kernels together:\n%s", s)
	}
	if p.Kernels[0].Name != "add" {
		t.Error("printing changed the order")
	}
	if s := (&Profile{Wall: time.Second}).String(); s != "wall 1s\n" {
		t.Errorf("profile without kernels: %q", s)
	}
	if err := p.WriteTable(failing{}, 0); err == nil {
		t.Error("a writer that fails: want its error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space") }
