package frontend_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// composed lists methods that make several nodes, with the expected results.
var composed = []struct {
	name  string
	build func(b *frontend.Builder) frontend.Tensor
	typ   string
	want  []float64
}{
	{"f32 as bytes", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]float32{1, -2.5}).Bitcast(ir.U8)
	}, "u8[2,4]", []float64{0, 0, 128, 63, 0, 0, 32, 192}},
	{"i16 as bytes with signs", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]int32{-2, 300}).Cast(ir.I16).Bitcast(ir.I8)
	}, "i8[2,2]", []float64{-2, -1, 44, 1}},
	{"i64 as halves", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]int64{-2, 1<<32 + 5}).Bitcast(ir.U32)
	}, "u32[2,2]", []float64{4294967294, 4294967295, 5, 1}},
	{"bytes as f32", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]uint8{0, 0, 128, 63, 0, 0, 32, 192}, 2, 4).Bitcast(ir.F32)
	}, "f32[2]", []float64{1, -2.5}},
	{"bytes with signs as i64", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]int8{-2, -1, -1, -1, -1, -1, -1, -1}).Bitcast(ir.I64)
	}, "i64[]", []float64{-2}},
	{"halves as f64", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]int32{0, 0x40040000}, 1, 2).Bitcast(ir.F64)
	}, "f64[1]", []float64{2.5}},
	{"top k", func(b *frontend.Builder) frontend.Tensor {
		values, _ := b.Const([][]float32{{3, 1, 2}, {4, 6, 5}}).TopK(1, 2)
		return values
	}, "f32[2,2]", []float64{3, 2, 6, 5}},
	{"convolution with bias", func(b *frontend.Builder) frontend.Tensor {
		x, w := b.Const([]float32{1, 2, 3}, 1, 1, 3), b.Const([]float32{1, 1, 0, 2}, 2, 1, 2)
		return x.Conv(w, frontend.Bias(b.Const([]float32{10, 20})))
	}, "f32[1,2,2]", []float64{13, 15, 24, 26}},
	{"global average", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 2, 2, 2).GlobalAvgPool()
	}, "f32[1,2,1,1]", []float64{2.5, 6.5}},
	{"global maximum", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]int32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 2, 4).GlobalMaxPool()
	}, "i32[1,2,1]", []float64{4, 8}},
	// torch.nn.functional.adaptive_avg_pool1d gives the same windows: [0,2), [1,4), [3,5).
	{"adaptive average", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]float32{1, 3, 5, 7, 11}, 1, 5).AdaptiveAvgPool(3)
	}, "f32[1,3]", []float64{2, 5, 9}},
	// Windows of rows are [0,2) and [1,3), of columns [0,2), [1,3) and [2,4).
	{"adaptive average in two axes", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 1, 3, 4).AdaptiveAvgPool(2, 3)
	}, "f64[1,2,3]", []float64{3.5, 4.5, 5.5, 7.5, 8.5, 9.5}},
	{"adaptive average does not spread infinity", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]float64{1, 3, 5, 7, math.Inf(1)}, 5).Cast(ir.F16).AdaptiveAvgPool(3)
	}, "f16[3]", []float64{2, 5, math.Inf(1)}},
	{"split", func(b *frontend.Builder) frontend.Tensor {
		parts := b.Const([]int32{1, 2, 3, 4, 5, 6}, 2, 3).Split(-1, 1, 0, 2)
		return parts[2].Concat(1, parts[1], parts[0])
	}, "i32[2,3]", []float64{2, 3, 1, 5, 6, 4}},
	{"compress", func(b *frontend.Builder) frontend.Tensor {
		front, _ := b.Const([]float32{1, 2, 3, 4, 5, 6}, 2, 3).Compress(-1, b.Const([]bool{false, true, true}))
		return front
	}, "f32[2,3]", []float64{2, 3, 0, 5, 6, 0}},
	{"histogram", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]float32{0, 0.4, 0.5, 1, 1.9, 2, 2.1, -0.1, float32(math.NaN()), 1.5}, 2, 5).Histogram(4, 0, 2)
	}, "i32[4]", []float64{2, 1, 1, 3}},
	{"bincount", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]uint8{3, 1, 3, 0, 7, 3}, 2, 3).Bincount(4)
	}, "i32[4]", []float64{1, 1, 0, 3}},
	// [[0 2 0] [0 0 0] [3 0 4] [0 0 0]]
	{"sparse matmul", func(b *frontend.Builder) frontend.Tensor {
		return sparse(b, []int32{0, 1, 1, 3, 3}).MatMul(b.Const([]float32{1, 2, 10, 20, 100, 200}, 3, 2))
	}, "f32[4,2]", []float64{20, 40, 0, 0, 403, 806, 0, 0}},
	{"sparse matmul of a vector by one row", func(b *frontend.Builder) frontend.Tensor {
		return sparse(b, []int32{0, 3}).MatMul(b.Const([]float32{1, 10, 100}))
	}, "f32[1]", []float64{423}},
	{"gradient of a sparse matmul", func(b *frontend.Builder) frontend.Tensor {
		s, x := sparse(b, []int32{0, 1, 1, 3, 3}), b.Const([]float32{1, 10, 100})
		g := frontend.Grad(s.MatMul(x).Mul(b.Const([]float32{1, 2, 3, 4})).Sum(), s.Values, x)
		return g[0].Stack(0, g[1])
	}, "f32[2,3]", []float64{10, 3, 300, 9, 2, 12}},
	{"permutation", func(b *frontend.Builder) frontend.Tensor {
		p := b.RandomPermutation(b.Scalar(ir.U32, 3), b.Scalar(ir.U32, 0), 50)
		moved := p.Ne(b.Iota(ir.I32, 0, 50)).Cast(ir.I32).Sum().Gt(b.Scalar(ir.I32, 40)).Cast(ir.I32).Reshape(1)
		return p.Sort(0).Eq(b.Iota(ir.I32, 0, 50)).All().Cast(ir.I32).Reshape(1).Concat(0, moved)
	}, "i32[2]", []float64{1, 1}},
	{"shuffle", func(b *frontend.Builder) frontend.Tensor {
		x := b.Const([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4)
		return x.Shuffle(1, b.Scalar(ir.I64, 3), b.Scalar(ir.I64, 1)).Sum(1)
	}, "f32[2]", []float64{10, 26}},
	// Of 4000 draws with probabilities 1/4, 0 and 3/4, about 1000 are the first: 27 is a standard deviation.
	{"categorical", func(b *frontend.Builder) frontend.Tensor {
		p := b.Const([]float32{1, 0, 3}).Log().Broadcast(4000, 3)
		counts := p.Categorical(b.Scalar(ir.U32, 5), b.Scalar(ir.U32, 0)).Bincount(3)
		near := counts.Index(0, 0).Sub(b.Scalar(ir.I32, 1000)).Abs().Lt(b.Scalar(ir.I32, 110))
		return near.Cast(ir.I32).Reshape(1).Concat(0, counts.Slice(0, 1, ir.D(2)))
	}, "i32[2]", []float64{1, 0}},
	{"nonzero", func(b *frontend.Builder) frontend.Tensor {
		at, _ := b.Const([]float32{0, 5, 0, 6, 0, 7}, 2, 3).Nonzero()
		return at
	}, "i32[2,6]", []float64{0, 1, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0}},
	{"unique", func(b *frontend.Builder) frontend.Tensor {
		u := b.Const([]int32{7, 3, 7, 7, 1}, 5).Unique(0)
		return u.Values.Stack(0, u.First, u.Inverse, u.Counts, u.Count.Broadcast(5))
	}, "i32[5,5]", []float64{1, 3, 7, 0, 0, 4, 1, 0, 0, 0, 2, 1, 2, 2, 0, 1, 1, 3, 0, 0, 3, 3, 3, 3, 3}},
	{"unique columns", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]int32{2, 1, 2, 1, 0, 9, 0, 8}, 2, 4).Unique(-1).Values
	}, "i32[2,4]", []float64{1, 1, 2, 0, 8, 9, 0, 0}},
	{"stack", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]int32{1, 2}).Stack(-1, b.Const([]int32{3, 4}), b.Const([]int32{5, 6}))
	}, "i32[2,3]", []float64{1, 3, 5, 2, 4, 6}},
	{"arange", func(b *frontend.Builder) frontend.Tensor { return b.Arange(ir.F32, 1, -0.5, 4) }, "f32[4]", []float64{1, 0.5, 0, -0.5}},
	{"arange of integers", func(b *frontend.Builder) frontend.Tensor { return b.Arange(ir.I64, -3, 2, 3) }, "i64[3]", []float64{-3, -1, 1}},
	{"eye", func(b *frontend.Builder) frontend.Tensor { return b.Eye(ir.F16, 2, 3) }, "f16[2,3]", []float64{1, 0, 0, 0, 1, 0}},
	// The known answer for counter and key 0 is 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
	{"dropout", func(b *frontend.Builder) frontend.Tensor {
		zero := b.Const(uint32(0))
		return b.Const([]float32{1, 2, 3, 4}).Dropout(0.25, zero, zero)
	}, "f32[4]", []float64{float64(float32(1) * float32(1/0.75)), 0, float64(float32(3) * float32(1/0.75)), float64(float32(4) * float32(1/0.75))}},
	{"dropout of nothing", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]float32{1, 2, 3, 4}).Dropout(0, b.Const(uint32(0)), b.Const(int64(-1)))
	}, "f32[4]", []float64{1, 2, 3, 4}},
	{"places of the largest", func(b *frontend.Builder) frontend.Tensor {
		_, at := b.Const([]float32{1, 7, 3, 4, 5, 7, 9, 8}, 1, 1, 2, 4).MaxPoolIndices([]int{2, 2}, false)
		return at
	}, "i64[1,1,1,2]", []float64{1, 6}},
	{"places of the largest in column-major order", func(b *frontend.Builder) frontend.Tensor {
		_, at := b.Const([]int32{1, 7, 3, 4, 5, 7, 9, 8}, 1, 1, 2, 4).MaxPoolIndices([]int{2, 2}, true)
		return at
	}, "i64[1,1,1,2]", []float64{2, 5}},
	{"unpool", func(b *frontend.Builder) frontend.Tensor {
		x := b.Const([]float32{1, 7, 3, 4, 5, 2, 9, 8}, 1, 1, 2, 4)
		y, at := x.MaxPoolIndices([]int{2, 2}, false, frontend.Stride(1), frontend.Padding(1, 0))
		return y.MaxUnpool(at, x.Shape())
	}, "f32[1,1,2,4]", []float64{0, 7, 0, 4, 5, 0, 9, 0}},
	{"adaptive average that repeats", func(b *frontend.Builder) frontend.Tensor {
		return b.Const([]float32{1, 3}).AdaptiveAvgPool(3)
	}, "f32[3]", []float64{1, 2, 3}},
}

func TestCompositions(t *testing.T) {
	for _, c := range composed {
		t.Run(c.name, func(t *testing.T) {
			g, err := frontend.Build("composed", func(b *frontend.Builder) {
				y := c.build(b)
				if y.String() != c.typ {
					t.Errorf("the type is %s, want %s", y, c.typ)
				}
				b.Output("y", y)
			})
			if err != nil {
				t.Fatal(err)
			}
			got := evaluate(t, g)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// sparse returns a sparse matrix of three elements, 2, 3 and 4 in the columns 1, 0 and 2.
func sparse(b *frontend.Builder, starts []int32) frontend.CSR {
	return frontend.CSR{Starts: b.Const(starts), Columns: b.Const([]int32{1, 0, 2}),
		Values: b.Const([]float32{2, 3, 4})}
}

// evaluate runs a graph without inputs and returns its output y.
func evaluate(t *testing.T, g *ir.Graph) []float64 {
	t.Helper()
	p, err := interp.New(g, interp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := out["y"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestComposedMistakes: methods reject these arguments before they add a node.
func TestComposedMistakes(t *testing.T) {
	for _, c := range []struct {
		call func(o *operands)
		want string
	}{
		{func(o *operands) { o.img.Conv(o.filter, frontend.Stride(1, 2, 3)) }, "conv(f32[1,4,6,5]): stride [1 2 3] has 3 values for a window of 2 axes"},
		{func(o *operands) { o.img.Conv(o.filter, frontend.CeilMode()) }, `conv(f32[1,4,6,5], f32[2,4,3,2]): unknown attribute "ceil_mode"`},
		{func(o *operands) { o.img.Conv(o.filter.Slice(1, 0, 3)) }, `conv(f32[1,4,6,5], f32[2,3,3,2]): input "img" [1,4,6,5] has 4 channels, but w (slice) [2,3,3,2] takes 3`},
		{func(o *operands) { o.img.Conv(o.filter, frontend.Bias(o.chans)) }, "conv(f32[1,4,6,5], f32[2,4,3,2], f32[4]): the bias is f32[4]: want one number per channel of the result, f32[2]"},
		{func(o *operands) { o.img.Conv(o.filter, frontend.Bias(o.x)) }, "conv(f32[1,4,6,5], f32[2,4,3,2], f32[2,4]): the bias is f32[2,4]: want"},
		{func(o *operands) { o.img.Conv(o.filter, frontend.Bias(o.one)) }, "the bias is i32[]: want"},
		{func(o *operands) { o.img.AvgPool([]int{2}, frontend.Groups(2)) }, `avg_pool(f32[1,4,6,5]): unknown attribute "groups"`},
		{func(o *operands) { o.x.GlobalAvgPool() }, "mean(f32[2,4]): [2,4] has no axes after batch and channels"},
		{func(o *operands) { o.img.AdaptiveAvgPool() }, "adaptive average pooling(f32[1,4,6,5]): from [1,4,6,5] to []: want 1 to 4 extents"},
		{func(o *operands) { o.img.AdaptiveAvgPool(4, 0) }, "want numbers above 0 for both extents of axis 3"},
		{func(o *operands) { o.seq.AdaptiveAvgPool(4, 2) }, "want numbers above 0 for both extents of axis 0"},
		{func(o *operands) { o.i.AdaptiveAvgPool(3) }, "want floats"},
		{func(o *operands) { o.x.Split(1, 1, 2) }, "slice(f32[2,4]): the parts [1 2] along axis 1 have the sum 3: want 4"},
		{func(o *operands) { o.seq.Split(0, 1, 2) }, "have the sum 3: want N"},
		{func(o *operands) { o.x.Split(1, 5, -1) }, "slice(f32[2,4])"},
		{func(o *operands) { o.x.Compress(0, o.row) }, "compress(f32[2,4]): the condition f32[4] must be bool[2]"},
		{func(o *operands) { o.x.Compress(2, o.row) }, "dim(f32[2,4]): axis 2 is outside rank 2"},
		{func(o *operands) { o.one.Nonzero() }, "nonzero(i32[]): a scalar has no coordinates"},
		{func(o *operands) { o.img.Unique(0) }, "unique(f32[1,4,6,5]): slices along axis 0 have 120 elements: want a number from 1 to 64"},
		{func(o *operands) { o.x.Roll(2, 1) }, "roll(f32[2,4]): axis 2 is outside rank 2"},
		{func(o *operands) { o.x.Stack(0, o.row) }, "want one rank"},
		{func(o *operands) { o.b.Arange(ir.I32, 0.5, 1, 3) }, "0.5 is not a value of i32"},
		{func(o *operands) { o.x.Histogram(3, 1, 1) }, "histogram(f32[2,4]): 3 bins from 1 to 1: want floats"},
		{func(o *operands) { o.i.Histogram(3, 0, 1) }, "histogram(i32[2,4])"},
		{func(o *operands) { o.x.Bincount(3) }, "bincount(f32[2,4]): numbers below 3: want integers"},
		{func(o *operands) { frontend.CSR{Starts: o.i, Columns: o.ivec, Values: o.row}.MatMul(o.x) }, "sparse matmul(i32[2,4], i32[2], f32[4], f32[2,4]): want starts"},
		{func(o *operands) { o.row.TriangularSolve(o.x) }, "triangular_solve(f32[4], f32[2,4]): want matrices"},
		{func(o *operands) { o.x.FFT(-1) }, "fft(f32[2,4]): axis -1"},
		{func(o *operands) { o.x.Dropout(1, o.seed, o.seed) }, "dropout(f32[2,4]): probability 1 is outside 0..1"},
		{func(o *operands) { o.x.Dropout(math.NaN(), o.seed, o.seed) }, "probability NaN"},
		{func(o *operands) { o.x.Dropout(0.5, o.one, o.seed) }, `seed (input "one") is i32[], want u32 or i64, and a scalar or the first axes of [2,4]`},
		{func(o *operands) { o.img.ResizeNearest("8") }, "resize_nearest(f32[1,4,6,5]): 8 (string) is not a dim"},
	} {
		_, err := frontend.Build("mistakes", func(b *frontend.Builder) { c.call(newOperands(b)) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// TestFoundOverSymbols finds elements in a tensor with a symbolic extent. The result has room for the symbol's value,
// and the count is right.
func TestFoundOverSymbols(t *testing.T) {
	g, err := frontend.Build("found", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("N", 8), 2)
		at, count := x.Nonzero()
		u := x.Reshape(-1).Unique(0)
		b.Output("at", at)
		b.Output("count", count)
		b.Output("values", u.Values)
		b.Output("different", u.Count)
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := interp.New(g, interp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := ir.FromFloats(ir.F32, []float64{4, 0, 0, 4, 0, 2}, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(context.Background(), map[string]*ir.Data{"x": x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{"at": {0, 1, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0}, "count": {3},
		"values": {0, 2, 4, 0, 0, 0}, "different": {3}} {
		if got, err := out[name].Floats(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %v, %v, want %v", name, got, err, want)
		}
	}
}
