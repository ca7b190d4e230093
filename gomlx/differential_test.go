package gomlx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	"github.com/vkc-go/vkc"
)

// computation is a function of tensors that both backends compute.
type computation struct {
	name string
	in   []any // flat values
	dims [][]int
	of   func(f compute.Function, p []compute.Value) ([]compute.Value, error)
	tol  float64 // absolute, and relative to the expected value
}

// result is one tensor: its values as float64, and its type and dims as text.
type result struct {
	shape  string
	values []float64
}

// compute builds and runs a computation.
func (c computation) compute(t *testing.T, b compute.Backend) []result {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatalf("%s: %+v", b.Name(), err)
		}
	}
	builder := b.Builder(c.name)
	main := builder.Main()
	var params []compute.Value
	var buffers []compute.Buffer
	for i, flat := range c.in {
		shape, err := shapeOf(flat, c.dims[i])
		must(err)
		p, err := main.Parameter(fmt.Sprint("p", i), shape, nil)
		must(err)
		buf, err := b.BufferFromFlatData(0, flat, shape)
		must(err)
		params, buffers = append(params, p), append(buffers, buf)
	}
	out, err := c.of(main, params)
	must(err)
	must(main.Return(out, nil))
	exe, err := builder.Compile()
	must(err)
	defer exe.Finalize()
	made, err := exe.Execute(buffers, nil, 0)
	must(err)
	var results []result
	for _, m := range made {
		shape, err := m.Shape()
		must(err)
		flat := dtypes.MakeAnySlice(shape.DType, shape.Size())
		must(m.ToFlatData(flat))
		must(m.Finalize())
		results = append(results, result{shape.String(), floats(flat)})
	}
	return results
}

// floats is values as float64; integers of 64 bits are two, of the upper and the lower half, so that all bits count.
func floats(flat any) []float64 {
	v := reflect.ValueOf(flat)
	var out []float64
	for i := range v.Len() {
		switch e := v.Index(i); e.Kind() {
		case reflect.Bool:
			out = append(out, map[bool]float64{true: 1}[e.Bool()])
		case reflect.Uint64:
			out = append(out, float64(e.Uint()>>32), float64(uint32(e.Uint())))
		case reflect.Int64:
			out = append(out, float64(e.Int()>>32), float64(uint32(e.Int())))
		default:
			out = append(out, e.Convert(reflect.TypeFor[float64]()).Float())
		}
	}
	return out
}

func normals(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

func integers[T int8 | int32 | int64 | uint8 | uint32 | uint64](r *rand.Rand, n, below int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = T(r.IntN(below))
	}
	return out
}

func single(v compute.Value, err error) ([]compute.Value, error) { return []compute.Value{v}, err }

// TestLikeGo compares with GoMLX's own backend in cases that its suite does not cover.
func TestLikeGo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	type fn = compute.Function
	type vs = []compute.Value
	var cases []computation
	add := func(c computation) { cases = append(cases, c) }
	for _, to := range []dtypes.DType{dtypes.Float32, dtypes.Float64, dtypes.Int32, dtypes.Bool} {
		add(computation{name: "from uint64 to " + to.String(), in: []any{[]uint64{0, 1, 1 << 32, 1<<63 + 1<<20,
			math.MaxUint64}},
			dims: [][]int{{5}}, of: func(f fn, p vs) (vs, error) { return single(f.ConvertDType(p[0], to)) },
			tol: 1e-7})
	}
	add(computation{name: "to uint64", in: []any{[]float32{0, 1.5, 3e9, 1e19, 1.8e19}}, dims: [][]int{{5}},
		of: func(f fn, p vs) (vs, error) { return single(f.ConvertDType(p[0], dtypes.Uint64)) }})
	for to, from := range map[dtypes.DType]any{dtypes.Int32: []float32{1.5, -0.25},
		dtypes.Float32: []int32{1 << 30, 7 << 27},
		dtypes.Float64: []uint64{1 << 62, 3 << 60}, dtypes.Uint16: []int16{-2, 5}} {
		add(computation{name: fmt.Sprintf("bits of %T as %s", from, to), in: []any{from}, dims: [][]int{{2}},
			of: func(f fn, p vs) (vs, error) { return single(f.Bitcast(p[0], to)) }})
	}
	for to, from := range map[dtypes.DType]any{dtypes.Uint8: []float64{1.5, -7}, dtypes.Int16: []uint32{1<<31 + 5, 77},
		dtypes.Float32: []uint8{0, 0, 128, 63, 0, 0, 0, 192},
		dtypes.Uint64:  []int16{-2, 5, 7, -1}} {
		dims := []int{len(floats(from)) / 4, 4}
		if to == dtypes.Uint8 || to == dtypes.Int16 {
			dims = []int{2}
		}
		add(computation{name: fmt.Sprintf("bits of %T as %s", from, to), in: []any{from}, dims: [][]int{dims},
			of: func(f fn, p vs) (vs, error) { return single(f.Bitcast(p[0], to)) }})
	}
	numbers := []uint64{1, 2, 3, 1<<32 + 7, 1<<63 - 1, 1 << 63, 1<<63 + 12345, math.MaxUint64}
	for kind := range unsignedOps {
		add(computation{name: "uint64 " + kind.String(), in: []any{append([]uint64{0}, numbers...), numbers},
			dims: [][]int{{9, 1}, {1, 8}}, of: func(f fn, p vs) (vs, error) {
				of := map[compute.OpType]func(x, y compute.Value) (compute.Value, error){
					compute.OpTypeDiv: f.Div, compute.OpTypeRem: f.Rem, compute.OpTypeMax: f.Max, compute.OpTypeMin: f.Min,
					compute.OpTypeGreaterOrEqual: f.GreaterOrEqual, compute.OpTypeGreaterThan: f.GreaterThan,
					compute.OpTypeLessOrEqual: f.LessOrEqual, compute.OpTypeLessThan: f.LessThan,
				}
				return single(of[kind](p[0], p[1]))
			}})
	}
	bits := []any{[]int8{-128, -3, -1, 0, 1, 127}, []uint8{0, 1, 128, 255, 7, 8},
		[]int32{math.MinInt32, -3, -1, 0, 1, math.MaxInt32}, []uint32{0, 1, 1 << 31, math.MaxUint32, 7, 8},
		[]int64{math.MinInt64, -3, -1, 0, 1 << 40, math.MaxInt64}}
	for _, in := range bits {
		add(computation{name: fmt.Sprintf("bits of %T", in), in: []any{in}, dims: [][]int{{6}}, of: func(f fn,
			p vs) (vs, error) {
			n, err := f.BitCount(p[0])
			if err != nil {
				return nil, err
			}
			z, err := f.Clz(p[0])
			return vs{n, z}, err
		}})
	}
	distances := []any{[]int8{0, 1, 3, 7, 8, 100}, []uint8{0, 1, 3, 7, 8, 100}, []int32{0, 1, 3, 31, 32, 100},
		[]uint32{0, 1, 3, 31, 32, 100}}
	for i, by := range distances {
		add(computation{name: fmt.Sprintf("shifts of %T", by), in: []any{bits[i], by}, dims: [][]int{{6, 1}, {1, 6}},
			of: func(f fn, p vs) (vs, error) {
				left, err := f.ShiftLeft(p[0], p[1])
				if err != nil {
					return nil, err
				}
				right, err := f.ShiftRightArithmetic(p[0], p[1])
				if err != nil {
					return nil, err
				}
				logical, err := f.ShiftRightLogical(p[0], p[1])
				return vs{left, right, logical}, err
			}})
	}
	add(computation{name: "integer powers", in: []any{[]int32{-3, -1, 0, 1, 2, 7}, []int32{0, 1, 2, 5, 30, 31}},
		dims: [][]int{{6, 1}, {1, 6}}, of: func(f fn, p vs) (vs, error) { return single(f.Pow(p[0], p[1])) }})
	for _, reduce := range []compute.ReduceOpType{compute.ReduceOpSum, compute.ReduceOpProduct, compute.ReduceOpMax,
		compute.ReduceOpMin} {
		for _, window := range [][]int{{1, 3, 2}, {2, 1, 20}} {
			add(computation{name: fmt.Sprint("windows ", reduce, window), in: []any{normals(r, 4*7*30)},
				dims: [][]int{{4, 7, 30}},
				tol:  1e-4, of: func(f fn, p vs) (vs, error) {
					return single(f.ReduceWindow(p[0], reduce, window, []int{1, 2, 3}, []int{1, 2, 1}, []int{1, 1, 1},
						[][2]int{{0, 1}, {2, 0}, {1, 1}}))
				}})
		}
	}
	for _, op := range []string{"max", "min"} {
		add(computation{name: "select and scatter " + op, in: []any{normals(r, 2*6*7), normals(r, 2*3*3)},
			dims: [][]int{{2, 6, 7}, {2, 3, 3}}, tol: 1e-6, of: func(f fn, p vs) (vs, error) {
				of := f.SelectAndScatterMax
				if op == "min" {
					of = f.SelectAndScatterMin
				}
				return single(of(p[0], p[1], []int{1, 3, 3}, []int{1, 2, 2}, [][2]int{{0, 0}, {1, 0}, {0, 0}}))
			}})
	}
	add(computation{name: "gather of windows", in: []any{normals(r, 5*6*7), []int32{0, 1, 9, -2, 3, 5}},
		dims: [][]int{{5, 6, 7}, {3, 2}},
		of: func(f fn, p vs) (vs, error) {
			return single(f.Gather(p[0], p[1], 1, []int{0, 2, 3}, nil, []int{2, 0}, []int{2, 4, 3}, false))
		}})
	add(computation{name: "gather of rows", in: []any{normals(r, 5*6), []uint8{4, 0, 200}}, dims: [][]int{{5, 6}, {3,
		1}},
		of: func(f fn, p vs) (vs, error) {
			return single(f.Gather(p[0], p[1], 1, []int{1}, []int{0}, []int{0}, []int{1, 6}, false))
		}})
	for kind := range scatters {
		for _, in := range []any{normals(r, 5*6), integers[int32](r, 30, 100)} {
			var updates any = normals(r, 4*2*6)
			if _, ok := in.([]int32); ok {
				updates = integers[int32](r, 4*2*6, 100)
			}
			add(computation{name: fmt.Sprintf("%s of %T", kind, in), in: []any{in, []int32{0, 3, 3, 1}, updates},
				dims: [][]int{{5, 6}, {4, 1}, {2, 4, 6}}, tol: 1e-6, of: func(f fn, p vs) (vs, error) {
					of := f.ScatterSum
					switch kind {
					case compute.OpTypeScatterMax:
						of = f.ScatterMax
					case compute.OpTypeScatterMin:
						of = f.ScatterMin
					}
					return single(of(p[0], p[1], p[2], 1, []int{0, 2}, nil, []int{0}, false, false))
				}})
		}
	}
	add(computation{name: "padding", in: []any{normals(r, 12), []float32{7}}, dims: [][]int{{3, 4}, {}},
		of: func(f fn, p vs) (vs, error) {
			return single(f.Pad(p[0], p[1], compute.PadAxis{Start: 1, End: 2, Interior: 2}, compute.PadAxis{End: 1}))
		}})
	for _, in := range []any{normals(r, 60), integers[int32](r, 60, 50), integers[int64](r, 60, 1<<40),
		integers[uint8](r, 60, 20)} {
		add(computation{name: fmt.Sprintf("products of %T", in), in: []any{in, in}, dims: [][]int{{2, 3, 2, 5}, {5, 2,
			3, 2}}, tol: 1e-5,
			of: func(f fn, p vs) (vs, error) {
				return single(f.DotGeneral(p[0], []int{3}, []int{1}, p[1], []int{0}, []int{2},
					compute.DotGeneralConfig{}))
			}})
	}
	for _, groups := range [][2]int{{1, 1}, {2, 1}, {1, 2}} {
		add(computation{name: fmt.Sprint("convolution in groups ", groups), in: []any{normals(r, 4*4*9*8), normals(r,
			3*3*4/groups[0]*4)},
			dims: [][]int{{4, 9, 8, 4}, {3, 3, 4 / groups[0], 4}}, tol: 1e-4, of: func(f fn, p vs) (vs, error) {
				return single(f.ConvGeneral(p[0], p[1], compute.ConvolveAxesConfig{InputBatch: 0, InputChannels: 3,
					InputSpatial: []int{1, 2}, KernelInputChannels: 2, KernelOutputChannels: 3, KernelSpatial: []int{0,
						1},
					OutputBatch: 0, OutputChannels: 3, OutputSpatial: []int{1, 2}}, []int{2, 1}, [][2]int{{1, 2}, {0,
					1}}, []int{1, 2},
					[]int{2, 1}, groups[0], groups[1]))
			}})
	}
	for name, order := range map[string]func(f fn, p vs) (compute.Value, error){
		"falling":  func(f fn, p vs) (compute.Value, error) { return f.GreaterThan(p[2], p[3]) },
		"rising":   func(f fn, p vs) (compute.Value, error) { return f.GreaterThan(p[1], p[0]) },
		"combined": sortsByRemainder,
	} {
		add(computation{name: "sort " + name, in: []any{integers[int32](r, 48, 20), normals(r, 48)}, dims: [][]int{{2,
			8, 3}, {2, 8, 3}},
			of: func(f fn, p vs) (vs, error) {
				less, err := f.Closure()
				if err != nil {
					return nil, err
				}
				var args vs
				for i, t := range []dtypes.DType{dtypes.Int32, dtypes.Int32, dtypes.Float32, dtypes.Float32} {
					a, err := less.Parameter(fmt.Sprint(i), shapes.Make(t), nil)
					if err != nil {
						return nil, err
					}
					args = append(args, a)
				}
				first, err := order(less, args)
				if err != nil {
					return nil, err
				}
				if err := less.Return(vs{first}, nil); err != nil {
					return nil, err
				}
				return f.Sort(less, 1, true, p...)
			}})
	}
	for _, n := range []int32{0, 1, 7, tripsInRun, 2*tripsInRun + 5} {
		add(computation{name: fmt.Sprint("loop of ", n, " rounds with a branch in it"), in: []any{[]int32{n},
			normals(r, 6)},
			dims: [][]int{{}, {6}}, tol: 1e-6, of: loopWithBranch})
	}
	for _, n := range []int32{0, 3} {
		add(computation{name: fmt.Sprint("loop of ", n, " rounds with a loop in it"), in: []any{[]int32{n}},
			dims: [][]int{{}},
			of:   loopWithLoop})
	}
	add(computation{name: "call", in: []any{normals(r, 6)}, dims: [][]int{{6}}, tol: 1e-6, of: calls})
	add(computation{name: "a result twice, and a parameter", in: []any{normals(r, 6)}, dims: [][]int{{6}}, tol: 1e-6,
		of: func(f fn, p vs) (vs, error) {
			y, err := f.Neg(p[0])
			return vs{y, p[0], y}, err
		}})
	for _, axes := range [][]int{{2}, {1}, {0, 2}} {
		n := map[int]int{1: 4, 2: 15}[len(axes)]
		dims := []int{5}
		switch {
		case len(axes) == 2:
			dims = []int{3, 5}
		case axes[0] == 1:
			dims = []int{4}
		default:
			n = 5
		}
		add(computation{name: fmt.Sprint("layer norm over ", axes), in: []any{normals(r, 60), normals(r, n), normals(r,
			n)},
			dims: [][]int{{3, 4, 5}, dims, dims}, tol: 1e-5, of: func(f fn, p vs) (vs, error) {
				return single(f.FusedLayerNorm(p[0], axes, 1e-5, p[1], p[2]))
			}})
	}
	for activation := range activations {
		add(computation{name: "dense " + activation.String(), in: []any{normals(r, 2*3*4), normals(r, 4*2*3),
			normals(r, 6)},
			dims: [][]int{{2, 3, 4}, {4, 2, 3}, {2, 3}}, tol: 1e-5, of: func(f fn, p vs) (vs, error) {
				return single(f.FusedDense(p[0], p[1], p[2], compute.DenseConfig{Activation: activation}))
			}})
	}
	for format, blocks := range blockTypes {
		rows, err := vkc.OfType(blocks, normals(r, 8*512), 8, 512)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := vkc.Values[float32](rows)
		if err != nil {
			t.Fatal(err)
		}
		raw, q := rows.Bytes, &compute.Quantization{Scheme: compute.QuantGGML, GGMLType: format}
		for _, constant := range []bool{false, true} {
			weights := func(f fn, p vs) (compute.Value, error) {
				if constant {
					return f.Constant(raw, 8, len(raw)/8)
				}
				return p[0], nil
			}
			x := []int{2, 512}
			if constant {
				x = []int{512}
			}
			add(computation{name: fmt.Sprint("blocks of ", format, ", constant: ", constant),
				in:   []any{raw, normals(r, 512*len(x)), normals(r, 8), []int32{7, 0, 3}},
				dims: [][]int{{8, len(raw) / 8}, x, {8}, {3, 1}}, tol: 2e-4, of: func(f fn, p vs) (vs, error) {
					if _, ours := f.(*Function); !ours && (format == compute.GGMLQ2_K || format == compute.GGMLQ3_K ||
						format == compute.GGMLQ5_K) {
						return denseAndLookup(f, p, decoded) // the Go backend has not got these
					}
					w, err := weights(f, p)
					if err != nil {
						return nil, err
					}
					y, err := f.FusedQuantizedDense(p[1], w, p[2], q, compute.ActivationRelu)
					if err != nil {
						return nil, err
					}
					e, err := f.QuantizedEmbeddingLookup(w, p[3], q)
					return vs{y, e}, err
				}})
		}
	}
	for _, zero := range []bool{false, true} {
		add(computation{name: fmt.Sprint("integers with scales, zero points: ", zero),
			in: []any{normals(r, 2*6), integers[int8](r, 6*10, 100), normals(r, 6*3), normals(r, 6*3), normals(r,
				10)},
			dims: [][]int{{2, 6}, {6, 10}, {6, 3}, {6, 3}, {10}}, tol: 1e-4, of: func(f fn, p vs) (vs, error) {
				q := &compute.Quantization{Scheme: compute.QuantLinear, Scale: p[2], BlockAxis: 1, BlockSize: 4}
				if zero {
					q.ZeroPoint = p[3]
				}
				return single(f.FusedQuantizedDense(p[0], p[1], p[4], q, compute.ActivationNone))
			}})
	}
	for _, indices := range []any{integers[int8](r, 6*10, 16), integers[uint8](r, 6*10, 256)} {
		add(computation{name: fmt.Sprintf("NF4 by %T", indices), in: []any{normals(r, 2*6), indices, normals(r, 6*3),
			normals(r, 10)}, dims: [][]int{{2, 6}, {6, 10}, {6, 3}, {10}}, tol: 1e-4, of: func(f fn, p vs) (vs, error) {
			q := &compute.Quantization{Scheme: compute.QuantNF4, Scale: p[2], BlockAxis: 1, BlockSize: 4}
			return single(f.FusedQuantizedDense(p[0], p[1], p[3], q, compute.ActivationGelu))
		}})
	}
	reference, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, *deviceName)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want, got := c.compute(t, reference), c.compute(t, b)
			if len(got) != len(want) {
				t.Fatalf("%d results, want %d", len(got), len(want))
			}
			for i, w := range want {
				if got[i].shape != w.shape {
					t.Fatalf("result %d is %s, want %s", i, got[i].shape, w.shape)
				}
				for j, v := range w.values {
					if g := got[i].values[j]; g != v && !(math.Abs(g-v) <= c.tol*(1+math.Abs(v))) && !(math.IsNaN(g) &&
						math.IsNaN(v)) {
						t.Fatalf("result %d, element %d is %v, want %v\n got %v\nwant %v", i, j, g, v, got[i].values,
							w.values)
					}
				}
			}
		})
	}
}

// denseAndLookup computes with the decoded values of blocks.
func denseAndLookup(f compute.Function, p []compute.Value, decoded []float32) ([]compute.Value, error) {
	w, err := f.Constant(decoded, 8, len(decoded)/8)
	if err != nil {
		return nil, err
	}
	y, err := f.FusedDense(p[1], w, p[2], compute.DenseConfig{Activation: compute.ActivationRelu,
		WeightLayout: compute.DenseLayoutOutputsInput})
	if err != nil {
		return nil, err
	}
	e, err := f.Gather(w, p[3], 1, []int{1}, []int{0}, []int{0}, []int{1, len(decoded) / 8}, false)
	return []compute.Value{y, e}, err
}

// sortsByRemainder is an order that vkc's sort does not have: by a remainder, and where those are equal, by the
// float.
func sortsByRemainder(f compute.Function, p []compute.Value) (compute.Value, error) {
	five, err := f.Constant([]int32{5})
	if err != nil {
		return nil, err
	}
	a, err := f.Rem(p[0], five)
	if err != nil {
		return nil, err
	}
	b, err := f.Rem(p[1], five)
	if err != nil {
		return nil, err
	}
	less, err := f.LessThan(a, b)
	if err != nil {
		return nil, err
	}
	same, err := f.Equal(a, b)
	if err != nil {
		return nil, err
	}
	before, err := f.LessThan(p[2], p[3])
	if err != nil {
		return nil, err
	}
	return f.Where(same, before, less)
}

// closure makes one of parameters of those shapes.
func closure(f compute.Function, of []shapes.Shape, body func(f compute.Function, p []compute.Value) ([]compute.Value,
	error)) (
	compute.Function, error) {
	c, err := f.Closure()
	if err != nil {
		return nil, err
	}
	var params []compute.Value
	for i, s := range of {
		p, err := c.Parameter(fmt.Sprint(i), s, nil)
		if err != nil {
			return nil, err
		}
		params = append(params, p)
	}
	out, err := body(c, params)
	if err != nil {
		return nil, err
	}
	return c, c.Return(out, nil)
}

// loopWithBranch makes n trips. Each squares or halves a value, and captures a value from outside.
func loopWithBranch(f compute.Function, p []compute.Value) ([]compute.Value, error) {
	shift, err := f.Cos(p[1])
	if err != nil {
		return nil, err
	}
	zero, err := f.Constant([]int32{0})
	if err != nil {
		return nil, err
	}
	state := []shapes.Shape{shapes.Make(dtypes.Int32), shapes.Make(dtypes.Float32, 6)}
	condition, err := closure(f, state, func(f compute.Function, s []compute.Value) ([]compute.Value, error) {
		return single(f.LessThan(s[0], p[0]))
	})
	if err != nil {
		return nil, err
	}
	body, err := closure(f, state, func(f compute.Function, s []compute.Value) ([]compute.Value, error) {
		one, err := f.Constant([]int32{1})
		if err != nil {
			return nil, err
		}
		odd, err := f.BitwiseAnd(s[0], one)
		if err != nil {
			return nil, err
		}
		isOdd, err := f.Equal(odd, one)
		if err != nil {
			return nil, err
		}
		yes, err := closure(f, nil, func(f compute.Function, _ []compute.Value) ([]compute.Value, error) {
			return single(f.Mul(s[1], s[1]))
		})
		if err != nil {
			return nil, err
		}
		no, err := closure(f, nil, func(f compute.Function, _ []compute.Value) ([]compute.Value, error) {
			return single(f.Add(s[1], shift))
		})
		if err != nil {
			return nil, err
		}
		x, err := f.If(isOdd, yes, no)
		if err != nil {
			return nil, err
		}
		next, err := f.Add(s[0], one)
		if err != nil {
			return nil, err
		}
		y, err := f.Sin(x[0])
		return []compute.Value{next, y}, err
	})
	if err != nil {
		return nil, err
	}
	out, err := f.While(condition, body, zero, p[1])
	if err != nil {
		return nil, err
	}
	y, err := f.Mul(out[1], shift)
	return []compute.Value{out[0], y}, err
}

// loopWithLoop adds up the squares of the numbers below n, each by as many additions.
func loopWithLoop(f compute.Function, p []compute.Value) ([]compute.Value, error) {
	zero, err := f.Constant([]int32{0})
	if err != nil {
		return nil, err
	}
	return below(f, p[0], func(f compute.Function, i, sum compute.Value) (compute.Value, error) {
		inner, err := below(f, i, func(f compute.Function, _, sum compute.Value) (compute.Value,
			error) {
			return f.Add(sum, i)
		}, zero, sum)
		if err != nil {
			return nil, err
		}
		return inner[1], nil
	}, zero, zero)
}

// below makes a loop that goes while its first value is below a limit, and makes the second from both.
func below(f compute.Function, limit compute.Value,
	of func(f compute.Function, i, x compute.Value) (compute.Value, error),
	first ...compute.Value) ([]compute.Value, error) {
	var state []shapes.Shape
	for _, v := range first {
		s, err := f.Builder().OpShape(v)
		if err != nil {
			return nil, err
		}
		state = append(state, s)
	}
	condition, err := closure(f, state, func(f compute.Function, s []compute.Value) ([]compute.Value, error) {
		return single(f.LessThan(s[0], limit))
	})
	if err != nil {
		return nil, err
	}
	body, err := closure(f, state, func(f compute.Function, s []compute.Value) ([]compute.Value, error) {
		one, err := f.Constant([]int32{1})
		if err != nil {
			return nil, err
		}
		x, err := of(f, s[0], s[1])
		if err != nil {
			return nil, err
		}
		next, err := f.Add(s[0], one)
		return []compute.Value{next, x}, err
	})
	if err != nil {
		return nil, err
	}
	return f.While(condition, body, first...)
}

// calls calls a function twice.
func calls(f compute.Function, p []compute.Value) ([]compute.Value, error) {
	g, err := f.Builder().NewFunction("double")
	if err != nil {
		return nil, err
	}
	x, err := g.Parameter("x", shapes.Make(dtypes.Float32, 6), nil)
	if err != nil {
		return nil, err
	}
	y, err := g.Add(x, x)
	if err != nil {
		return nil, err
	}
	if err := g.Return([]compute.Value{y}, nil); err != nil {
		return nil, err
	}
	once, err := f.Call(g, p[0])
	if err != nil {
		return nil, err
	}
	return f.Call(g, once[0])
}
