package gomlx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/ir"
)

// executable builds a computation of parameters of those shapes.
func executable(t *testing.T, b *Backend, of []shapes.Shape,
	body func(f compute.Function, p []compute.Value) ([]compute.Value, error)) compute.Executable {
	t.Helper()
	builder := b.Builder("test")
	main := builder.Main()
	var params []compute.Value
	for i, s := range of {
		p, err := main.Parameter(fmt.Sprint("p", i), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		params = append(params, p)
	}
	out, err := body(main, params)
	if err == nil {
		err = main.Return(out, nil)
	}
	if err != nil {
		t.Fatalf("%+v", err)
	}
	exe, err := builder.Compile()
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(exe.Finalize)
	return exe
}

func buffer(t *testing.T, b *Backend, values []float32, dims ...int) compute.Buffer {
	t.Helper()
	buf, err := b.BufferFromFlatData(0, values, shapes.Make(dtypes.Float32, dims...))
	if err != nil {
		t.Fatal(err)
	}
	return buf
}

func run(t *testing.T, e compute.Executable, donate []bool, in ...compute.Buffer) []compute.Buffer {
	t.Helper()
	out, err := e.Execute(in, donate, 0)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	return out
}

func read(t *testing.T, b compute.Buffer) []float32 {
	t.Helper()
	shape, err := b.Shape()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, shape.Size())
	if err := b.ToFlatData(out); err != nil {
		t.Fatalf("%+v", err)
	}
	return out
}

// wide is the length of vectors that are copied to the device once (see inRun), narrow the length of vectors that are
// copied for each run.
const wide, narrow = inRun, 3

// step returns a computation that gives w+g and its double, and one that gives w*w.
func stepAndSquare(t *testing.T, b *Backend, n int) (step, square compute.Executable) {
	v := shapes.Make(dtypes.Float32, n)
	step = executable(t, b, []shapes.Shape{v, v}, func(f compute.Function, p []compute.Value) ([]compute.Value, error) {
		sum, err := f.Add(p[0], p[1])
		if err != nil {
			return nil, err
		}
		double, err := f.Add(sum, sum)
		return []compute.Value{sum, double}, err
	})
	square = executable(t, b, []shapes.Shape{v}, func(f compute.Function, p []compute.Value) ([]compute.Value, error) {
		return single(f.Mul(p[0], p[0]))
	})
	return step, square
}

// TestDonate: donated buffers are updated in place from call to call, even if others read them in between.
func TestDonate(t *testing.T) {
	b := open(t, *deviceName)
	for _, n := range []int{narrow, wide} {
		step, square := stepAndSquare(t, b, n)
		w, g := buffer(t, b, slices.Repeat([]float32{1}, n), n), buffer(t, b, slices.Repeat([]float32{2}, n), n)
		for i := 1; i <= 4; i++ {
			out := run(t, step, []bool{true, false}, w, g)
			if err := w.ToFlatData(make([]float32, n)); err == nil || !strings.Contains(err.Error(), "donated") {
				t.Errorf("reading a donated buffer: %v", err)
			}
			w = out[0]
			want := float32(1 + 2*i)
			if s := w.(*Buffer).store; s.state == nil {
				t.Errorf("step %d: the result is not in the state of the program", i)
			}
			if got := read(t, out[1]); got[0] != 2*want || got[n-1] != 2*want {
				t.Errorf("step %d gives double %v and %v, want %v", i, got[0], got[n-1], 2*want)
			}
			if i%2 == 0 {
				if got := read(t, w); got[0] != want || got[n-1] != want {
					t.Errorf("step %d gives %v and %v, want %v", i, got[0], got[n-1], want)
				}
				if got := read(t, run(t, square, nil, w)[0]); got[0] != want*want || got[n-1] != want*want {
					t.Errorf("the square after step %d is %v, want %v", i, got[n-1], want*want)
				}
			}
		}
		// If a donated buffer has a second user, or had one before another run started, it keeps its values.
		copied, err := w.CopyToDevice(0)
		if err != nil {
			t.Fatal(err)
		}
		next := run(t, step, []bool{true, false}, w, g)[0]
		other := run(t, step, []bool{true, false}, buffer(t, b, make([]float32, n), n), g)[0]
		for want, buf := range map[float32]compute.Buffer{9: copied, 11: next, 2: other} {
			if got := read(t, buf); got[0] != want || got[n-1] != want {
				t.Errorf("a buffer is %v and %v, want %v", got[0], got[n-1], want)
			}
		}
		// The contents of a program's state outlive the program.
		step.Finalize()
		if got := read(t, other); got[0] != 2 || got[n-1] != 2 {
			t.Errorf("a buffer of a program that is closed is %v, want 2", got[0])
		}
	}
}

// TestDonatePassesThrough: a parameter that is donated and is a result as well is not written over.
func TestDonatePassesThrough(t *testing.T) {
	b := open(t, *deviceName)
	v := shapes.Make(dtypes.Float32, narrow)
	e := executable(t, b, []shapes.Shape{v}, func(f compute.Function, p []compute.Value) ([]compute.Value, error) {
		neg, err := f.Neg(p[0])
		return []compute.Value{neg, p[0]}, err
	})
	out := run(t, e, []bool{true}, buffer(t, b, []float32{1, 2, 3}, narrow))
	if a, c := read(t, out[0]), read(t, out[1]); a[2] != -3 || c[2] != 3 {
		t.Errorf("results are %v and %v, want -3 and 3 at the end", a, c)
	}
}

// TestBlocksStay: blocks that a call brings are written to the program's state when they are others than before.
func TestBlocksStay(t *testing.T) {
	b := open(t, *deviceName)
	r := rand.New(rand.NewPCG(1, 1))
	var weights []compute.Buffer
	var want [][]float32
	for range 2 {
		d, err := vkc.OfType(ir.Q8_0, normals(r, 2*32), 2, 32)
		if err != nil {
			t.Fatal(err)
		}
		buf, err := b.BufferFromFlatData(0, d.Bytes, shapes.Make(dtypes.Uint8, 2, 34))
		if err != nil {
			t.Fatal(err)
		}
		row, err := vkc.Values[float32](d)
		if err != nil {
			t.Fatal(err)
		}
		weights, want = append(weights, buf), append(want, row[32:])
	}
	ids := shapes.Make(dtypes.Int32, 1)
	e := executable(t, b, []shapes.Shape{shapes.Make(dtypes.Uint8, 2, 34), ids},
		func(f compute.Function, p []compute.Value) ([]compute.Value, error) {
			return single(f.QuantizedEmbeddingLookup(p[0], p[1], &compute.Quantization{Scheme: compute.QuantGGML,
				GGMLType: compute.GGMLQ8_0}))
		})
	id, err := b.BufferFromFlatData(0, []int32{1}, ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 0, 1, 0} {
		if got := read(t, run(t, e, nil, weights[i], id)[0]); !slices.Equal(got, want[i]) {
			t.Errorf("the row of blocks %d is %v, want %v", i, got, want[i])
		}
	}
}

// TestConcurrent: many goroutines may run one computation, and others like it.
func TestConcurrent(t *testing.T) {
	b := open(t, *deviceName)
	step, square := stepAndSquare(t, b, narrow)
	again, _ := stepAndSquare(t, b, narrow)
	if n := len(b.programs); n != 0 {
		t.Errorf("%d programs before the first call, want none", n)
	}
	shared := buffer(t, b, []float32{1, 1, 1}, narrow)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			e := []compute.Executable{step, again}[i%2]
			g := []float32{float32(i), float32(i), float32(i)}
			buf, err := b.BufferFromFlatData(0, g, shapes.Make(dtypes.Float32, narrow))
			if err != nil {
				t.Error(err)
				return
			}
			for range 4 {
				out, err := e.Execute([]compute.Buffer{buf, shared}, []bool{i%4 == 0, false}, 0)
				if err != nil {
					t.Errorf("%+v", err)
					return
				}
				buf = out[0].(*Buffer)
				if _, err := square.Execute([]compute.Buffer{buf}, nil, 0); err != nil {
					t.Errorf("%+v", err)
					return
				}
			}
			got := make([]float32, narrow)
			if err := buf.ToFlatData(got); err != nil || got[0] != float32(i+4) {
				t.Errorf("goroutine %d has %v (%v), want %d", i, got, err, i+4)
			}
		})
	}
	wait.Wait()
}

// TestProgramsAreShared: equal computations are one program, until both are finalized.
func TestProgramsAreShared(t *testing.T) {
	b := open(t, *deviceName)
	one, square := stepAndSquare(t, b, narrow)
	other, _ := stepAndSquare(t, b, narrow)
	w := buffer(t, b, []float32{1, 2, 3}, narrow)
	run(t, one, nil, w, w)
	run(t, other, nil, w, w)
	run(t, square, nil, w)
	if n := len(b.programs); n != 2 {
		t.Errorf("%d programs, want one of the two equal computations and one of the third", n)
	}
	one.Finalize()
	run(t, other, nil, w, w)
	other.Finalize()
	square.Finalize()
	if n := len(b.programs); n != 0 {
		t.Errorf("%d programs after all are finalized", n)
	}
	if _, err := one.Execute([]compute.Buffer{w, w}, nil, 0); err == nil {
		t.Error("a computation that is finalized runs")
	}
}

// TestNothingStays: device tensors are closed with their buffers.
func TestNothingStays(t *testing.T) {
	b := open(t, *deviceName)
	count := func() (n int) {
		b.tensors.Range(func(_, _ any) bool { n++; return true })
		return n
	}
	step, square := stepAndSquare(t, b, wide)
	w := buffer(t, b, make([]float32, wide), wide)
	for range 3 {
		out := run(t, step, nil, w, w)
		for _, o := range append(out, run(t, square, nil, out[0])...) {
			if err := o.Finalize(); err != nil {
				t.Fatal(err)
			}
			if err := o.Finalize(); err != nil {
				t.Errorf("finalizing twice: %v", err)
			}
		}
	}
	if n := count(); n != 1 {
		t.Errorf("%d tensors on the device, want the input's", n)
	}
	loop := executable(t, b, []shapes.Shape{shapes.Make(dtypes.Int32), shapes.Make(dtypes.Float32, 6)}, loopWithBranch)
	rounds, err := b.BufferFromFlatData(0, []int32{5}, shapes.Make(dtypes.Int32))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append(run(t, loop, nil, rounds, buffer(t, b, make([]float32, 6), 6)), w) {
		if err := o.Finalize(); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != 0 {
		t.Errorf("%d tensors on the device after all buffers are finalized", n)
	}
}

// TestDynamicAxes: a computation runs with any extents, also where operations make axes of others.
func TestDynamicAxes(t *testing.T) {
	b := open(t, *deviceName)
	of := shapes.MakeDynamic(dtypes.Float32, []int{shapes.DynamicDim, 3}, []string{"batch", ""})
	e := executable(t, b, []shapes.Shape{of}, func(f compute.Function, p []compute.Value) ([]compute.Value, error) {
		y, err := f.ReduceSum(p[0], 1)
		if err != nil {
			return nil, err
		}
		n, err := f.DynamicDimensionSize(p[0], 0)
		return []compute.Value{y, n}, err
	})
	for _, n := range []int{1, 4, 2, 4} {
		x := slices.Repeat([]float32{1, 2, 3}, n)
		out := run(t, e, nil, buffer(t, b, x, n, 3))
		if got := read(t, out[0]); !slices.Equal(got, slices.Repeat([]float32{6}, n)) {
			t.Errorf("sums of %d rows are %v, want 6 each", n, got)
		}
		size := make([]int32, 1)
		if err := out[1].ToFlatData(size); err != nil || int(size[0]) != n {
			t.Errorf("the extent is %v (%v), want %d", size, err, n)
		}
	}
}

// TestDynamicAxesShare: one program serves all extents up to the next power of two, and gives the results of programs
// with fixed extents.
func TestDynamicAxesShare(t *testing.T) {
	b := open(t, *deviceName)
	dynamic := func(rest ...int) shapes.Shape {
		names := make([]string, 1+len(rest))
		names[0] = "batch"
		return shapes.MakeDynamic(dtypes.Float32, append([]int{shapes.DynamicDim}, rest...), names)
	}
	model := func(f compute.Function, p []compute.Value) ([]compute.Value, error) {
		var err error
		step := func(v compute.Value, e error) compute.Value {
			if err == nil {
				err = e
			}
			return v
		}
		normed := step(f.FusedLayerNorm(p[0], []int{-1}, 1e-5, nil, nil))
		if err != nil {
			return nil, err
		}
		dense := step(f.FusedDense(normed, p[1], nil, compute.DenseConfig{}))
		if err != nil {
			return nil, err
		}
		whole := step(f.ConvertDType(p[0], dtypes.Int32))
		first := step(f.Slice(whole, []int{0, 0}, []int{shapes.DynamicDim, 1}, []int{1, 1}))
		if err != nil {
			return nil, err
		}
		row := step(f.Gather(p[1], first, 1, []int{1}, []int{0}, []int{0}, []int{1, 4}, false))
		if err != nil {
			return nil, err
		}
		y := step(f.Add(dense, row))
		return []compute.Value{y}, err
	}
	weight := shapes.Make(dtypes.Float32, 3, 4)
	e := executable(t, b, []shapes.Shape{dynamic(3), weight}, model)
	w := []float32{1, -2, 3, 4, 0.5, 6, -7, 8, 9, 1, 2, -3}
	for _, n := range []int{5, 8, 6, 7, 3, 0, 4} {
		x := make([]float32, 3*n)
		for i := range x {
			x[i] = float32(i * i % 7 % 3)
		}
		exact := executable(t, b, []shapes.Shape{dynamic(3), weight}, model)
		exact.(*Executable).numbers[bounded(shapes.AxisBindings{"batch": n}).key()] = true
		got := read(t, run(t, e, nil, buffer(t, b, x, n, 3), buffer(t, b, w, 3, 4))[0])
		want := read(t, run(t, exact, nil, buffer(t, b, x, n, 3), buffer(t, b, w, 3, 4))[0])
		if len(got) != 4*n || len(want) != 4*n {
			t.Fatalf("%d rows give %d and %d elements, want %d", n, len(got), len(want), 4*n)
		}
		for i := range got {
			if d := got[i] - want[i]; d > 1e-4 || d < -1e-4 {
				t.Fatalf("element %d of %d rows is %v, and %v where the extent is a number", i, n, got[i], want[i])
			}
		}
	}
	if len(e.(*Executable).routines) != 3 { // of 0, 4 and 8 rows at most
		t.Errorf("there are %d programs, want 3", len(e.(*Executable).routines))
	}
}

// TestDynamicAxesAsNumbers: if an operation needs an extent as a number, each extent has its own program. The extents
// inside and outside a loop are the same, and a donated buffer may have any extent.
func TestDynamicAxesAsNumbers(t *testing.T) {
	b := open(t, *deviceName)
	of := shapes.MakeDynamic(dtypes.Float32, []int{shapes.DynamicDim}, []string{"batch"})
	last := executable(t, b, []shapes.Shape{of}, func(f compute.Function, p []compute.Value) ([]compute.Value, error) {
		past, err := f.Constant([]int32{1000}, 1, 1) // this index is clamped
		if err != nil {
			return nil, err
		}
		return single(f.Gather(p[0], past, 1, nil, []int{0}, []int{0}, []int{1}, false))
	})
	doubled := executable(t, b, []shapes.Shape{of}, func(f compute.Function, p []compute.Value) ([]compute.Value,
		error) {
		zero, err := f.Constant([]int32{0})
		if err != nil {
			return nil, err
		}
		three, err := f.Constant([]int32{3})
		if err != nil {
			return nil, err
		}
		out, err := below(f, three, func(f compute.Function, _, x compute.Value) (compute.Value, error) {
			return f.Add(x, x)
		}, zero, p[0])
		if err != nil {
			return nil, err
		}
		return out[1:], nil
	})
	for _, n := range []int{5, 6, 5, 7} {
		x := make([]float32, n)
		var eight []float32
		for i := range x {
			x[i] = float32(i)
			eight = append(eight, 8*x[i])
		}
		if got := read(t, run(t, last, nil, buffer(t, b, x, n))[0]); !slices.Equal(got, x[n-1:]) {
			t.Errorf("the last of %v is %v", x, got)
		}
		if got := read(t, run(t, doubled, []bool{true}, buffer(t, b, x, n))[0]); !slices.Equal(got, eight) {
			t.Errorf("%v doubled three times is %v, want %v", x, got, eight)
		}
	}
	if a, c := len(last.(*Executable).routines), len(doubled.(*Executable).routines); a != 3 || c != 1 {
		t.Errorf("there are %d programs for extents as numbers and %d for a loop, want 3 and 1", a, c)
	}
}

// TestErrors: an error is reported at the call that causes it.
func TestErrors(t *testing.T) {
	b := open(t, *deviceName)
	builder := b.Builder("errors")
	f := builder.Main()
	x, err := f.Parameter("x", shapes.Make(dtypes.Float32, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	other := b.Builder("other").Main()
	for want, call := range map[string]func() error{
		"op not implemented":     func() error { _, err := f.FFT(x, compute.FFTForward, []int{2}); return err },
		"not a value of backend": func() error { _, err := f.Neg("x"); return err },
		"cannot be seen":         func() error { _, err := other.Neg(x); return err },
		"vkc has none like it": func() error {
			_, err := f.Parameter("c", shapes.Make(dtypes.Complex64, 2), nil)
			return err
		},
		"want a slice of": func() error {
			_, err := b.BufferFromFlatData(0, []int32{1}, shapes.Make(dtypes.Float32, 1))
			return err
		},
		"device 1": func() error {
			_, err := b.BufferFromFlatData(1, []float32{1}, shapes.Make(dtypes.Float32, 1))
			return err
		},
		"want a last axis of the parts of each Float32": func() error {
			scalar, err := f.Parameter("byte", shapes.Make(dtypes.Uint8), nil)
			if err != nil {
				return err
			}
			_, err = f.Bitcast(scalar, dtypes.Float32)
			return err
		},
		"want [2 3] for weights": func() error {
			w, err := f.Constant(make([]int8, 2*6), 2, 6)
			if err != nil {
				return err
			}
			scale, err := f.Constant(make([]float32, 2*2), 2, 2)
			if err != nil {
				return err
			}
			q := &compute.Quantization{Scheme: compute.QuantNF4, Scale: scale, BlockAxis: 1, BlockSize: 2}
			_, err = f.FusedQuantizedDense(x, w, nil, q, compute.ActivationNone)
			return err
		},
		"needs a Return": func() error { _, err := builder.Compile(); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := New("no such device"); err == nil {
		t.Error("a device that is not there opens")
	}
}

// TestAttentionVJP compares the gradient of attention with differences in f64.
func TestAttentionVJP(t *testing.T) {
	b := open(t, *deviceName)
	if !b.Capabilities().DTypes[dtypes.Float64] {
		t.Skip("the device has no f64")
	}
	r := rand.New(rand.NewPCG(7, 7))
	q := shapes.Make(dtypes.Float64, 1, 3, 2, 4) // BSHD, two heads for one of keys
	k := shapes.Make(dtypes.Float64, 1, 3, 1, 4)
	config := &compute.ScaledDotProductAttentionConfig{Causal: true}
	layout := compute.AttentionAxesLayoutBSHD
	attend := func(f compute.Function, p []compute.Value) ([]compute.Value, error) {
		y, states, err := f.FusedScaledDotProductAttention(p[0], p[1], p[2], layout, config)
		if err == nil && len(states) == 0 {
			t.Error("there are no states, so that GoMLX does not ask for the gradient")
		}
		return []compute.Value{y}, err
	}
	forward := executable(t, b, []shapes.Shape{q, k, k}, attend)
	backward := executable(t, b, []shapes.Shape{q, k, k, q}, func(f compute.Function,
		p []compute.Value) ([]compute.Value, error) {
		dq, dk, dv, err := f.FusedScaledDotProductAttentionVJP(p[0], p[1], p[2], layout, config, nil, nil, p[3])
		return []compute.Value{dq, dk, dv}, err
	})
	var values [][]float64
	for _, s := range []shapes.Shape{q, k, k, q} {
		v := make([]float64, s.Size())
		for i := range v {
			v[i] = r.NormFloat64()
		}
		values = append(values, v)
	}
	evaluate := func(e compute.Executable, n int) [][]float64 {
		var in []compute.Buffer
		for i, s := range []shapes.Shape{q, k, k, q}[:n] {
			buf, err := b.BufferFromFlatData(0, values[i], s)
			if err != nil {
				t.Fatal(err)
			}
			in = append(in, buf)
		}
		var out [][]float64
		for _, o := range run(t, e, nil, in...) {
			s, err := o.Shape()
			if err != nil {
				t.Fatal(err)
			}
			v := make([]float64, s.Size())
			if err := o.ToFlatData(v); err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
		return out
	}
	gradients := evaluate(backward, 4)
	loss := func() (sum float64) {
		for i, y := range evaluate(forward, 3)[0] {
			sum += y * values[3][i]
		}
		return sum
	}
	const h = 1e-2 // large, as some devices compute attention in f32
	for i, g := range gradients {
		for j := range g {
			x := values[i][j]
			values[i][j] = x + h
			up := loss()
			values[i][j] = x - h
			down := loss()
			values[i][j] = x
			if want := (up - down) / (2 * h); math.Abs(g[j]-want) > 2e-3 {
				t.Errorf("gradient of operand %d, element %d, is %g, want %g", i, j, g[j], want)
			}
		}
	}
}
