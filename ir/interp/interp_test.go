package interp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// TestEveryOpHasAKernel fails when an op of the table cannot run.
func TestEveryOpHasAKernel(t *testing.T) {
	for _, op := range ir.Ops() {
		if _, err := kernelOf(op); err != nil {
			t.Error(err)
		}
		if _, ok := kernels[op]; ok && op.Class() == ir.ClassElementwise && !op.Info().Converts() {
			t.Errorf("%s has a kernel beside the scalar reference of its row", op)
		}
	}
	if _, err := kernelOf(0); err == nil {
		t.Error("there is a kernel for no op")
	}
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want one with %q", err, part)
	}
}

func wantFloats(t *testing.T, d *ir.Data, want ...float64) {
	t.Helper()
	got, err := d.Floats()
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b float64) bool { return a == b || a != a && b != b }
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLeaves(t *testing.T) {
	T := ir.Symbol("T", 200)
	b := newGraph(t)
	b.input("x", ir.F32, ir.Shape{T})
	b.output("rows", b.add(ir.OpIota, nil, "shape", ir.Shape{ir.D(2), ir.D(3)}))
	b.output("cols", b.add(ir.OpIota, nil, "shape", ir.Shape{ir.D(2), ir.D(3)}, "axis", -1, "dtype", ir.F16))
	b.output("wraps", b.add(ir.OpIota, nil, "shape", ir.Shape{T}, "dtype", ir.I8))
	b.output("dim", b.add(ir.OpDimValue, nil, "dim", ir.Shape{T.Times(2).Plus(-500)}))
	x, err := ir.NewData(ir.F32, 130)
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, b.program(Options{}), map[string]*ir.Data{"x": x}, nil)
	wantFloats(t, out["rows"], 0, 0, 0, 1, 1, 1)
	wantFloats(t, out["cols"], 0, 1, 2, 0, 1, 2)
	wantFloats(t, out["dim"], -240)
	if v, _ := out["wraps"].Ints(); v[127] != 127 || v[128] != -128 {
		t.Errorf("i8 iota is %v", v)
	}
}

// TestRunTimeEdges tests cases that shape rules cannot see: symbols that are 0, and queries that see no keys.
func TestRunTimeEdges(t *testing.T) {
	T := ir.Symbol("T", 8)
	empty := map[string]*ir.Data{"x": floats(t, ir.F32, nil, 0)}
	for _, tc := range []struct {
		name  string
		build func(b builder, x *ir.Node) *ir.Node
		want  []float64
		err   string
	}{
		{"argmax", func(b builder, x *ir.Node) *ir.Node { return b.add(ir.OpArgmax, []*ir.Node{x}, "axis", 0) }, nil, "axis 0 of f32[0] is empty"},
		{"index_select", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpIndexSelect, []*ir.Node{x, b.constant(integers(t, ir.I32, []int64{0}, 1))})
		}, nil, "axis 0 of f32[0] is empty"},
		{"no indices", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpIndexSelect, []*ir.Node{x, b.constant(integers(t, ir.I32, nil, 0))})
		}, []float64{}, ""},
		{"max", func(b builder, x *ir.Node) *ir.Node { return b.add(ir.OpReduceMax, []*ir.Node{x}) }, []float64{math.Inf(-1)}, ""},
		{"min", func(b builder, x *ir.Node) *ir.Node { return b.add(ir.OpReduceMin, []*ir.Node{x}) }, []float64{math.Inf(1)}, ""},
		{"softmax", func(b builder, x *ir.Node) *ir.Node { return b.add(ir.OpSoftmax, []*ir.Node{x}) }, []float64{}, ""},
		{"resize_nearest", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpResizeNearest, []*ir.Node{x}, "size", ir.ShapeOf(3))
		}, nil, "axis 0 of f32[0] is empty"},
		{"resize_linear", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpResizeLinear, []*ir.Node{x}, "size", ir.ShapeOf(3))
		}, nil, "axis 0 of f32[0] is empty"},
		{"resize to nothing", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpResizeLinear, []*ir.Node{x}, "size", ir.Shape{T.Times(2)})
		}, []float64{}, ""},
		{"pad with itself", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpPad, []*ir.Node{x}, "low", []int{1}, "high", []int{0}, "mode", "replicate")
		}, nil, "axis 0 of f32[0] is empty"},
		{"gather_nd", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpGatherND, []*ir.Node{x, b.constant(integers(t, ir.I32, []int64{0}, 1))})
		}, nil, "axis 0 of f32[0] is empty"},
		{"scatter", func(b builder, x *ir.Node) *ir.Node {
			one := b.constant(floats(t, ir.F32, []float64{5}, 1))
			return b.add(ir.OpScatter, []*ir.Node{x, b.constant(integers(t, ir.I32, []int64{0}, 1)), one})
		}, []float64{}, ""},
		{"sort", func(b builder, x *ir.Node) *ir.Node { return b.add(ir.OpSort, []*ir.Node{x}) }, []float64{}, ""},
		{"cumsum", func(b builder, x *ir.Node) *ir.Node { return b.add(ir.OpCumSum, []*ir.Node{x}) }, []float64{}, ""},
		{"logsumexp", func(b builder, x *ir.Node) *ir.Node { return b.add(ir.OpLogSumExp, []*ir.Node{x}) }, []float64{math.Inf(-1)}, ""},
		{"max_pool of padding", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpMaxPool, []*ir.Node{x}, "kernel", []int{2}, "stride", []int{1}, "padding_low", []int{1},
				"padding_high", []int{1})
		}, []float64{math.Inf(-1)}, ""},
		{"avg_pool of padding", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpAvgPool, []*ir.Node{x}, "kernel", []int{2}, "stride", []int{1}, "padding_low", []int{1},
				"padding_high", []int{1}, "count_include_pad", false)
		}, []float64{math.NaN()}, ""},
		{"window longer than the axis", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpMaxPool, []*ir.Node{x}, "kernel", []int{3}, "stride", []int{1})
		}, nil, "axis 0 of [T-2] is -2"},
		{"slice past the end", func(b builder, x *ir.Node) *ir.Node {
			return b.add(ir.OpSlice, []*ir.Node{x}, "starts", []int{1}, "limits", ir.Shape{T})
		}, nil, "axis 0 of [T-1] is -1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newGraph(t)
			b.output("y", tc.build(b, b.input("x", ir.F32, ir.Shape{T})))
			out, err := b.program(Options{}).Run(context.Background(), empty, nil)
			if tc.err != "" {
				wantError(t, err, tc.err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantFloats(t, out["y"], tc.want...)
		})
	}
}

// TestAttentionWithoutKeys: of 2 causal queries on 1 key, the first sees none.
func TestAttentionWithoutKeys(t *testing.T) {
	b := newGraph(t)
	one := func(dims ...int) *ir.Node {
		return b.constant(floats(t, ir.F32, slices.Repeat([]float64{1}, elems(dims)), dims...))
	}
	b.output("y", b.add(ir.OpAttention, []*ir.Node{one(1, 2, 1), one(1, 1, 1), one(1, 1, 1)}, "causal", true))
	wantFloats(t, run(t, b.program(Options{}), nil, nil)["y"], math.NaN(), 1)
}

// q8 returns a q8_0 tensor of n rows of 64 elements and the values it holds.
func q8(t testing.TB, n int) (*ir.Data, []float32) {
	t.Helper()
	src := make([]float32, n*64)
	for i, x := range noise(len(src), n) {
		src[i] = float32(x)
	}
	d, err := ir.NewData(ir.Q8_0, n, 64)
	if err == nil {
		err = quant.Quantize(d.Bytes, ir.Q8_0, src, nil)
	}
	if err == nil {
		err = quant.Dequantize(src, ir.Q8_0, d.Bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, src
}

// TestBlocks runs each op that takes blocks and compares with the same on the
// decoded table.
func TestBlocks(t *testing.T) {
	table, values := q8(t, 6)
	wide := make([]float64, len(values))
	for i, v := range values {
		wide[i] = float64(v)
	}
	x := floats(t, ir.F32, noise(2*64, 9), 2, 64)
	ids := integers(t, ir.I32, []int64{5, -1, 2}, 3)
	for name, build := range map[string]func(b builder, w *ir.Node) *ir.Node{
		"matmul": func(b builder, w *ir.Node) *ir.Node {
			return b.add(ir.OpMatMul, []*ir.Node{b.constant(x), w}, "transpose_b", true)
		},
		"embedding": func(b builder, w *ir.Node) *ir.Node {
			return b.add(ir.OpEmbedding, []*ir.Node{w, b.constant(ids)})
		},
		"slice of rows": func(b builder, w *ir.Node) *ir.Node {
			s := b.add(ir.OpSlice, []*ir.Node{w}, "starts", []int{1, 0}, "limits", ir.ShapeOf(6, 64),
				"steps", []int{2, 1})
			return decoded(b, s)
		},
		"concat of rows": func(b builder, w *ir.Node) *ir.Node {
			s := b.add(ir.OpSlice, []*ir.Node{w}, "starts", []int{4, 0}, "limits", ir.ShapeOf(6, 64))
			return decoded(b, b.add(ir.OpConcat, []*ir.Node{w, s}, "axis", 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			outputs := map[ir.DType][]byte{}
			for _, w := range []*ir.Data{table, floats(t, ir.F32, wide, 6, 64)} {
				b := newGraph(t)
				b.output("y", build(b, b.leaf(ir.OpWeight, "w", w.DType, ir.ShapeOf(6, 64))))
				p := b.program(Options{Weights: weights{"w": w}})
				outputs[w.DType] = run(t, p, nil, nil)["y"].Bytes
			}
			if !bytes.Equal(outputs[ir.Q8_0], outputs[ir.F32]) {
				t.Error("blocks give other results than the floats they hold")
			}
		})
	}
}

// decoded applies dequantize where there is something to decode.
func decoded(b builder, n *ir.Node) *ir.Node {
	if !n.DType().IsBlock() {
		return n
	}
	return b.add(ir.OpDequantize, []*ir.Node{n})
}

func TestDequantizeRoundsToItsDType(t *testing.T) {
	table, values := q8(t, 1)
	b := newGraph(t)
	n := b.add(ir.OpDequantize, []*ir.Node{b.constant(table)}, "dtype", ir.BF16)
	b.output("y", n)
	want := make([]float64, len(values))
	for i, v := range values {
		want[i] = ir.RoundTo(float64(v), ir.BF16)
	}
	wantFloats(t, run(t, b.program(Options{}), nil, nil)["y"], want...)
}

// TestPadRounds: the value is rounded where it is made, not only in the result.
func TestPadRounds(t *testing.T) {
	b := newGraph(t)
	n := b.add(ir.OpPad, []*ir.Node{b.constant(floats(t, ir.F16, nil, 0))}, "low", []int{1},
		"high", []int{0}, "value", 0.1)
	b.output("y", b.add(ir.OpCast, []*ir.Node{n}, "dtype", ir.F64))
	wantFloats(t, run(t, b.program(Options{}), nil, nil)["y"], ir.RoundTo(0.1, ir.F16))
}

// counter is a graph with two states: a count of runs, and a ring buffer of the inputs with the count as position.
func counter(t *testing.T) *Program {
	b := newGraph(t)
	count := b.leaf(ir.OpState, "count", ir.I32, ir.Shape{})
	ring := b.leaf(ir.OpState, "ring", ir.F16, ir.ShapeOf(4))
	x := b.input("x", ir.F16, ir.ShapeOf(1))
	next := b.add(ir.OpAdd, []*ir.Node{count, b.constant(integers(t, ir.I32, []int64{1}))})
	b.update(count, next)
	b.update(ring, b.add(ir.OpDynamicUpdateSlice, []*ir.Node{ring, x, count}))
	b.output("before", ring)
	return b.program(Options{})
}

// TestRingUpdate writes rows into rings of floats and of blocks, from starts on and off the ring.
func TestRingUpdate(t *testing.T) {
	for _, tt := range []struct {
		start, rows int
		want        []float64 // row by row
	}{
		{0, 2, []float64{1, 2, 0}}, {2, 2, []float64{2, 0, 1}}, {7, 3, []float64{3, 1, 2}}, {-1, 2, []float64{2, 0, 1}},
		{5, 0, []float64{0, 0, 0}},
	} {
		for _, blocks := range []bool{false, true} {
			b := newGraph(t)
			values := make([]float64, 32*tt.rows)
			for i := range values {
				values[i] = float64(i/32 + 1)
			}
			base := b.constant(floats(t, ir.F32, make([]float64, 3*32), 3, 32))
			rows := b.constant(floats(t, ir.F32, values, tt.rows, 32))
			if blocks && tt.rows > 0 {
				base = b.add(ir.OpQuantize, []*ir.Node{base}, "dtype", ir.Q8_0)
				rows = b.add(ir.OpQuantize, []*ir.Node{rows}, "dtype", ir.Q8_0)
			}
			at := b.constant(integers(t, ir.I32, []int64{int64(tt.start)}))
			y := b.add(ir.OpDynamicUpdateSlice, []*ir.Node{base, rows, at}, "wrap", true)
			if y.DType().IsBlock() {
				y = b.add(ir.OpRound, []*ir.Node{b.add(ir.OpDequantize, []*ir.Node{y}, "dtype", ir.F32)})
			}
			b.output("y", b.add(ir.OpSlice, []*ir.Node{y}, "starts", []int64{0, 0}, "limits", ir.ShapeOf(3, 1)))
			wantFloats(t, run(t, b.program(Options{}), nil, nil)["y"], tt.want...)
		}
	}
}

func TestStates(t *testing.T) {
	p := counter(t)
	step := func(v float64) *ir.Data {
		return run(t, p, map[string]*ir.Data{"x": floats(t, ir.F16, []float64{v}, 1)}, nil)["before"]
	}
	state := func(name string) *ir.Data {
		d, err := p.State(name)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	wantFloats(t, step(5), 0, 0, 0, 0)
	wantFloats(t, step(6), 5, 0, 0, 0)
	wantFloats(t, state("ring"), 5, 6, 0, 0)
	wantFloats(t, state("count"), 2)

	if err := p.SetState("count", integers(t, ir.I32, []int64{3})); err != nil {
		t.Fatal(err)
	}
	step(7)
	wantFloats(t, state("ring"), 5, 6, 0, 7)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Run(ctx, map[string]*ir.Data{"x": floats(t, ir.F16, []float64{1}, 1)}, nil); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a cancelled run gives %v", err)
	}
	wantFloats(t, state("count"), 4)

	if err := p.ResetStates(); err != nil {
		t.Fatal(err)
	}
	wantFloats(t, state("count"), 0)

	_, err := p.State("rong")
	wantError(t, err, `no state "rong": the graph has count, ring`)
	wantError(t, p.SetState("ring", floats(t, ir.F16, []float64{1}, 1)), `state "ring": is f16[1], want f16[4]`)
	wantError(t, p.SetState("ring", nil), "is nil")
	wantError(t, p.SetState("x", nil), "no state")
}

// TestStateKeepsNoAlias: changing a tensor after handing it over changes nothing.
func TestStateKeepsNoAlias(t *testing.T) {
	b := newGraph(t)
	s := b.leaf(ir.OpState, "s", ir.Q8_0, ir.ShapeOf(1, 64))
	b.output("y", b.add(ir.OpDequantize, []*ir.Node{s}))
	p := b.program(Options{})
	d, values := q8(t, 1)
	if err := p.SetState("s", d); err != nil {
		t.Fatal(err)
	}
	clear(d.Bytes)
	got, err := run(t, p, nil, nil)["y"].Floats()
	if err != nil || got[3] != float64(values[3]) {
		t.Errorf("got %v, %v, want %v", got[3], err, values[3])
	}
}

// TestSymbols runs one program at several lengths.
func TestSymbols(t *testing.T) {
	T := ir.Symbol("T", 5)
	b := newGraph(t)
	x := b.input("x", ir.F32, ir.Shape{T.Times(2)})
	y := b.add(ir.OpReshape, []*ir.Node{x}, "shape", ir.Shape{T, ir.D(2)})
	b.output("y", b.add(ir.OpSum, []*ir.Node{y}, "axes", []int{0}))
	p := b.program(Options{})
	for n := range 6 {
		want := []float64{0, 0}
		values := make([]float64, 2*n)
		for i := range values {
			values[i] = float64(i + 1)
			want[i%2] += values[i]
		}
		wantFloats(t, run(t, p, map[string]*ir.Data{"x": floats(t, ir.F32, values, 2*n)}, nil)["y"], want...)
	}
	_, err := p.Run(context.Background(), map[string]*ir.Data{"x": floats(t, ir.F32, make([]float64, 12), 12)}, nil)
	wantError(t, err, `input "x" has shape [12], want [2*T]: axis 0 of input "x" is 12, but 2*T is at most 10: `+
		`build the graph with a larger bound (vkc: --bound T=6 of an ONNX model, --ctx of a GGUF one)`)
}

func TestWeightErrorsNameAll(t *testing.T) {
	b := newGraph(t)
	var nodes []*ir.Node
	for _, name := range []string{"good", "missing", "half", "short"} {
		nodes = append(nodes, b.leaf(ir.OpWeight, name, ir.F32, ir.ShapeOf(4)))
	}
	b.leaf(ir.OpWeight, "unused", ir.F32, ir.ShapeOf(4))
	b.output("y", b.add(ir.OpConcat, nodes))
	zero := func(dt ir.DType, n int) *ir.Data { return floats(t, dt, make([]float64, n), n) }
	_, err := New(b.Graph, Options{Weights: weights{"good": zero(ir.F32, 4), "half": zero(ir.F16, 4),
		"short": zero(ir.F32, 3)}})
	var bad *ir.WeightError
	if !errors.As(err, &bad) || len(bad.Bad) != 3 || bad.Total != 4 || !errors.Is(err, errNoWeight) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"missing  f32[4]  no such weight", "half     f32[4]  f16[4]",
		"short    f32[4]  f32[3]"} {
		wantError(t, err, part)
	}
	_, err = New(b.Graph, Options{})
	wantError(t, err, "4 of 4 weights cannot be used")
}

func TestEval(t *testing.T) {
	b := newGraph(t)
	w := b.leaf(ir.OpWeight, "w", ir.F32, ir.ShapeOf(2))
	two := b.constant(floats(t, ir.F32, []float64{2}))
	double := b.add(ir.OpMul, []*ir.Node{w, two})
	varies := b.add(ir.OpMul, []*ir.Node{double, b.input("x", ir.F32, ir.ShapeOf(2))})
	length := b.add(ir.OpDimValue, nil, "dim", ir.Shape{ir.Symbol("T", 3)})
	opt := Options{Weights: weights{"w": floats(t, ir.F32, []float64{3, 4}, 2)}}
	ctx := context.Background()
	out, err := Eval(ctx, b.Graph, []*ir.Node{double, two, double}, opt)
	if err != nil {
		t.Fatal(err)
	}
	wantFloats(t, out[0], 6, 8)
	wantFloats(t, out[1], 2)
	wantFloats(t, out[2], 6, 8)
	if _, err = Eval(ctx, b.Graph, []*ir.Node{two}, Options{}); err != nil {
		t.Errorf("a node that needs no weights wants them: %v", err)
	}
	_, err = Eval(ctx, b.Graph, []*ir.Node{varies}, opt)
	wantError(t, err, `is not constant: it depends on input "x"`)
	_, err = Eval(ctx, b.Graph, []*ir.Node{length}, opt)
	wantError(t, err, "is not constant: it depends on a symbol")
	if is := IsConstant(b.Graph); !is[double.ID()] || is[varies.ID()] || is[length.ID()] {
		t.Errorf("IsConstant is %v", is)
	}
}

func TestMemoryLimit(t *testing.T) {
	b := newGraph(t)
	x := b.input("x", ir.F32, ir.ShapeOf(1))
	b.output("y", b.add(ir.OpBroadcast, []*ir.Node{x}, "shape", ir.ShapeOf(1<<30, 1<<8)))
	in := map[string]*ir.Data{"x": floats(t, ir.F32, []float64{1}, 1)}
	_, err := b.program(Options{}).Run(context.Background(), in, nil)
	if full := (*hostmem.Error)(nil); !errors.As(err, &full) {
		t.Errorf("two tebibytes: %v", err)
	}

	// A long chain needs only two of its values at a time.
	b = newGraph(t)
	n := b.input("x", ir.F32, ir.ShapeOf(1000))
	for range 50 {
		n = b.add(ir.OpNeg, []*ir.Node{n})
	}
	b.output("y", n)
	in["x"] = floats(t, ir.F32, noise(1000, 1), 1000)
	run(t, b.program(Options{MemoryLimit: 16000}), in, nil)
	_, err = b.program(Options{MemoryLimit: 15999}).Run(context.Background(), in, nil)
	wantError(t, err, "over the limit of 0 MiB")

	b = newGraph(t)
	b.leaf(ir.OpState, "s", ir.F32, ir.ShapeOf(1<<30, 1<<8))
	b.output("y", b.constant(in["x"]))
	_, err = New(b.Graph, Options{})
	if full := (*hostmem.Error)(nil); !errors.As(err, &full) {
		t.Errorf("a state of two tebibytes: %v", err)
	}
	_, err = New(b.Graph, Options{MemoryLimit: 1 << 40})
	wantError(t, err, "the states exceed the limit")
}

// countdown is a context that ends when it has been asked a number of times
// whether it has.
type countdown struct {
	context.Context
	left, asked atomic.Int64
}

func newCountdown(asks int64) *countdown {
	c := &countdown{Context: context.Background()}
	c.left.Store(asks)
	return c
}

func (c *countdown) Err() error {
	c.asked.Add(1)
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestCancelInsideAnOp: one op asks again and again whether its context has
// ended, and once it has, does no more of its work.
func TestCancelInsideAnOp(t *testing.T) {
	b := newGraph(t)
	w := b.input("w", ir.F32, ir.ShapeOf(500, 500))
	b.output("y", b.add(ir.OpMatMul, []*ir.Node{w, w}))
	d, err := ir.NewData(ir.F32, 500, 500)
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 4} {
		p := b.program(Options{Workers: workers})
		whole := newCountdown(math.MaxInt64)
		if _, err := p.Run(whole, map[string]*ir.Data{"w": d}, nil); err != nil {
			t.Fatal(err)
		}
		asks := whole.asked.Load()
		if asks < 20 {
			t.Fatalf("%d workers: a run asks %d times, which leaves long stretches between", workers, asks)
		}
		cut := newCountdown(asks / 2)
		if _, err := p.Run(cut, map[string]*ir.Data{"w": d}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%d workers: got %v", workers, err)
		}
		// Each worker hears of it at most twice, and each of its callers.
		if after := cut.asked.Load() - asks/2; after > int64(2*workers)+5 {
			t.Errorf("%d workers: asked %d times after the end", workers, after)
		}
	}
}

// TestWorkersDoNotMatter: any number of them gives the same bits.
func TestWorkersDoNotMatter(t *testing.T) {
	const n = 130
	b := newGraph(t)
	x := b.input("x", ir.F32, ir.ShapeOf(3, n, n))
	w := b.input("w", ir.F32, ir.ShapeOf(n, n))
	y := b.add(ir.OpMatMul, []*ir.Node{x, w})
	y = b.add(ir.OpAttention, []*ir.Node{y, x, y}, "causal", true)
	y = b.add(ir.OpLayerNorm, []*ir.Node{b.add(ir.OpSilu, []*ir.Node{y})})
	y = b.add(ir.OpConv, []*ir.Node{y, b.noise(n, n, 1)})
	y = b.add(ir.OpAvgPool, []*ir.Node{y}, "kernel", []int{3}, "stride", []int{1}, "padding_low", []int{1},
		"padding_high", []int{1})
	y = b.add(ir.OpCumSum, []*ir.Node{b.add(ir.OpSort, []*ir.Node{y}, "axis", 1)}, "axis", 1)
	seed := b.constant(integers(t, ir.U32, []int64{1}))
	y = b.add(ir.OpAdd, []*ir.Node{y, b.add(ir.OpRandomNormal, []*ir.Node{seed, seed}, "shape", ir.ShapeOf(3, n, n))})
	b.output("y", b.add(ir.OpSum, []*ir.Node{y}, "axes", []int{1}))
	in := map[string]*ir.Data{"x": floats(t, ir.F32, noise(3*n*n, 1), 3, n, n),
		"w": floats(t, ir.F32, noise(n*n, 2), n, n)}
	want := run(t, b.program(Options{Workers: 1}), in, nil)["y"].Bytes
	for _, workers := range []int{2, 3, 8} {
		if got := run(t, b.program(Options{Workers: workers}), in, nil)["y"].Bytes; !bytes.Equal(got, want) {
			t.Errorf("%d workers give other bits than 1", workers)
		}
	}
}

// TestMatMulRowsDoNotMatter: a row has the same bits alone and among others,
// however the matrices are stored, and agrees with a plain triple loop.
func TestMatMulRowsDoNotMatter(t *testing.T) {
	const m, k, n = 67, 70, 37
	a, w := noise(m*k, 1), noise(n*k, 2)
	roundFloats(a, ir.F32)
	roundFloats(w, ir.F32)
	plain := make([]float64, m*n)
	for i := range plain {
		for p := range k {
			plain[i] += float64(a[i/n*k+p] * w[i%n*k+p])
		}
	}
	roundFloats(plain, ir.F32)
	transposed := make([]float64, n*k)
	for i := range transposed {
		transposed[i] = w[i%n*k+i/n]
	}
	for rows := 1; rows <= m; rows += 3 {
		for _, tb := range []bool{true, false} {
			for _, constant := range []bool{true, false} {
				name := fmt.Sprintf("rows=%d transpose_b=%v constant=%v", rows, tb, constant)
				d := floats(t, ir.F32, w, n, k)
				if !tb {
					d = floats(t, ir.F32, transposed, k, n)
				}
				b := newGraph(t)
				in := map[string]*ir.Data{"a": floats(t, ir.F32, a[:rows*k], rows, k)}
				var bn *ir.Node
				if constant {
					bn = b.constant(d)
				} else {
					in["b"] = d
					bn = b.input("b", ir.F32, ir.ShapeOf(d.Dims...))
				}
				b.output("y", b.add(ir.OpMatMul, []*ir.Node{b.input("a", ir.F32, ir.ShapeOf(rows, k)), bn},
					"transpose_b", tb))
				got, err := run(t, b.program(Options{}), in, nil)["y"].Floats()
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, plain[:rows*n]) {
					t.Errorf("%s: differs from the plain loop", name)
				}
			}
		}
	}
}

// TestConcurrentRuns is for the race detector: programs are shared.
func TestConcurrentRuns(t *testing.T) {
	p := counter(t)
	x := map[string]*ir.Data{"x": floats(t, ir.F16, []float64{1}, 1)}
	done := make(chan error)
	for range 4 {
		go func() {
			var err error
			for range 200 {
				_, e := p.Run(context.Background(), x, nil)
				err = errors.Join(err, e)
			}
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	count, err := p.State("count")
	if err != nil {
		t.Fatal(err)
	}
	wantFloats(t, count, 800)
}

// TestErrorsNameTheNode: an error during a run has the position of the node in the program's source.
func TestErrorsNameTheNode(t *testing.T) {
	b := newGraph(t)
	x := b.input("x", ir.F32, ir.Shape{ir.Symbol("T", 4)})
	n, err := b.Add(ir.OpArgmax, []*ir.Node{x}, attrs("axis", 0), "model.go:12")
	if err != nil {
		t.Fatal(err)
	}
	b.output("y", n)
	_, err = b.program(Options{}).Run(context.Background(), map[string]*ir.Data{"x": floats(t, ir.F32, nil, 0)}, nil)
	wantError(t, err, "model.go:12: %1 (argmax): axis 0")
}

// A value that shares the memory of an if's first result has one result. If it counted as all of them, the memory in
// use would become negative when it is released.
func TestMemoryOfSharedResult(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
		%z = iota {shape=[1], dtype=i32}
		%s = reshape %z {shape=[]}
		%c = eq %s, %s
		%x = const {data=f32[2](all 1.0)}
		%y = const {data=f32[7](all 2.0)}
		%1 = if %c, %x, %y {then=graph "" {
			%x = input {name="x", dtype=f32, shape=[2]}
			%y = input {name="y", dtype=f32, shape=[7]}
			output "first" %x
			output "second" %y
		}, else=graph "" {
			%x = input {name="x", dtype=f32, shape=[2]}
			%y = input {name="y", dtype=f32, shape=[7]}
			%1 = neg %y
			output "first" %x
			output "second" %1
		}}
		%2 = cast %1 {dtype=f32}
		%3 = unsqueeze %2 {axes=[0]}
		%4 = slice %3 {starts=[0,0], limits=[1,2], steps=[1,2]}
		output "o" %4
	}`)
	if err != nil {
		t.Fatal(err)
	}
	last := g.Outputs()[0].Node
	list, err := Eval(context.Background(), g, []*ir.Node{last}, Options{MemoryLimit: math.MaxInt64})
	if err != nil || list[0].Elems() != 1 {
		t.Fatalf("%v, %v", list, err)
	}
}
