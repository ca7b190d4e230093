package optest

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// contractions adds the cases of matmul and attention.
func (s *suite) contractions() {
	for _, m := range []struct{ m, n, k int }{{1, 1, 1}, {17, 13, 5}, {1, 257, 67}, {129, 1, 33}, {64, 64, 64},
		{129, 67, 131}, {0, 3, 5}, {3, 5, 0}} {
		for transposes := range 4 { // of a, b, or both
			t := s.matmul(fmt.Sprintf("%dx%dx%d", m.m, m.n, m.k), m.m, m.n, m.k, transposes, plain, small)
			if m.m == 129 && m.n == 67 { // larger than a tile of any dtype
				t.allDTypes()
			}
		}
	}
	for l := transposed; l <= viewed; l++ {
		s.matmul("23x19x37/"+layoutNames[l], 23, 19, 37, 0, l, small)
	}
	s.matmul("23x19x37/special", 23, 19, 37, 0, plain, sparse)
	for transposes := range 4 { // of a, b, or both
		s.matmul("5x7x11/dtypes", 5, 7, 11, transposes, plain, small).allDTypes().inSmokeTest()
	}
	for _, p := range []string{ir.PrecisionHalf, ir.PrecisionHalfSums, ir.PrecisionBytes} {
		s.add(ir.OpMatMul, "67x83x129/"+p, func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpMatMul, []*ir.Node{b.arg(t, []int{67, 129}, plain, small),
				b.arg(t, []int{83, 129}, plain, small)},
				attr("transpose_b", true), attr("precision", p))
		})
	}
	// Both operands are the same row, again and again. A compiler must not take them for one tile.
	oneRow := func(p string) *template {
		return s.add(ir.OpMatMul, "96x96x200/one row on both sides "+p, func(b *builder, t ir.DType) *ir.Node {
			rows := b.view(ir.OpBroadcast, b.arg(t, []int{200}, plain, small), attr("shape", ir.ShapeOf(96, 200)))
			return b.op(ir.OpMatMul, []*ir.Node{rows, rows}, attr("transpose_b", true), attr("precision", p))
		})
	}
	oneRow(ir.PrecisionFull).allDTypes()
	oneRow(ir.PrecisionHalf)
	s.int8Matmuls()
	s.mixedMatmuls()
	s.batches()
	s.experts()
	s.attentions()
}

// int8DTypes are the dtypes of integer matmuls.
var int8DTypes = []ir.DType{ir.I8, ir.U8}

// int8Matmuls adds matmuls of i8 and u8, which are exact: with only extreme elements, with so many terms that sums wrap
// around, and with a following conversion to float.
func (s *suite) int8Matmuls() {
	ofInt8 := func(name string, f buildFunc) *template {
		t := s.add(ir.OpMatMul, name, f)
		t.types = int8DTypes
		return t.allDTypes()
	}
	multiply := func(b *builder, x, w *ir.Node) *ir.Node {
		return b.op(ir.OpMatMul, []*ir.Node{x, w}, attr("transpose_b", true))
	}
	for _, m := range []struct{ m, n, k int }{{1, 67, 144}, {5, 33, 83}, {64, 64, 128}, {129, 131, 77}} {
		ofInt8(fmt.Sprintf("%dx%dx%d/extremes", m.m, m.n, m.k), func(b *builder, t ir.DType) *ir.Node {
			return multiply(b, b.input(t, []int{m.m, m.k}, extreme), b.input(t, []int{m.n, m.k}, full))
		})
	}
	for _, l := range []layout{transposed, sliced, viewed} {
		ofInt8("23x19x37/full/"+layoutNames[l], func(b *builder, t ir.DType) *ir.Node {
			return multiply(b, b.arg(t, []int{23, 37}, l, full), b.arg(t, []int{19, 37}, l, full))
		})
	}
	const long = 1<<17 + 3 // 2^17 products of -128 by -128 are 2^31
	ofInt8("2x3 sums that wrap", func(b *builder, t ir.DType) *ir.Node {
		lo, hi := ir.IntRange(t)
		largest := make([]float64, 3*long)
		for i := range largest {
			largest[i] = float64(lo)
			if t == ir.U8 {
				largest[i] = float64(hi)
			}
		}
		return multiply(b, b.given(t, largest[:2*long], 2, long), b.given(t, largest, 3, long))
	})
	for _, rows := range []int{1, 40} {
		ofInt8(fmt.Sprintf("%dx48x160/scaled", rows), func(b *builder, t ir.DType) *ir.Node {
			sums := multiply(b, b.input(t, []int{rows, 160}, full), b.input(t, []int{48, 160}, full))
			floats := b.view(ir.OpCast, sums, attr("dtype", ir.F32))
			scaled := b.op(ir.OpMul, []*ir.Node{floats, b.input(ir.F32, []int{rows, 1}, small)})
			return b.op(ir.OpAdd, []*ir.Node{scaled, b.input(ir.F32, []int{48}, small)})
		})
	}
}

// mixedMatmuls adds a matmul for every pair of different float dtypes, with many rows and with one row.
func (s *suite) mixedMatmuls() {
	floats := []ir.DType{ir.F32, ir.F16, ir.BF16, ir.F8E4M3, ir.F8E5M2, ir.F64}
	for i, u := range floats {
		others := slices.Delete(slices.Clone(floats), i, i+1)
		for _, m := range []int{1, 33} {
			t := s.add(ir.OpMatMul, fmt.Sprintf("%dx40x67 by %s", m, u), func(b *builder, t ir.DType) *ir.Node {
				return b.op(ir.OpMatMul, []*ir.Node{b.input(t, []int{m, 67}, small), b.input(u, []int{40, 67}, small)},
					attr("transpose_b", true))
			})
			t.types, t.broad, t.smoke = others, true, m == 33 && u.BlockBytes() > 1 && u != ir.F64
		}
	}
}

// matmul adds a case. Bit 0 of transposes is attribute transpose_a, bit 1 transpose_b.
func (s *suite) matmul(name string, m, n, k, transposes int, l layout, v values) *template {
	ta, tb := transposes&1 != 0, transposes&2 != 0
	a, w := []int{m, k}, []int{k, n}
	if ta {
		a = reversed(a)
	}
	if tb {
		w = reversed(w)
	}
	return s.add(ir.OpMatMul, fmt.Sprintf("%s/transpose %v %v", name, ta, tb), func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpMatMul, []*ir.Node{b.arg(t, a, l, v), b.arg(t, w, l, small)}, attr("transpose_a", ta),
			attr("transpose_b", tb))
	})
}

// batches adds matmuls with outer axes that broadcast.
func (s *suite) batches() {
	for _, tt := range []struct{ a, b []int }{
		{[]int{3, 5, 7}, []int{3, 7, 4}}, {[]int{3, 5, 7}, []int{7, 4}}, {[]int{1, 5, 7}, []int{3, 7, 4}},
		{[]int{2, 1, 5, 7}, []int{3, 7, 4}}, {[]int{2, 1, 2, 3, 5, 7}, []int{1, 2, 1, 3, 7, 4}}, {[]int{0, 5, 7}, []int{7, 4}},
	} {
		for _, l := range []layout{plain, viewed} {
			s.add(ir.OpMatMul, fmt.Sprintf("%s by %s/%s", shapeName(tt.a), shapeName(tt.b), layoutNames[l]),
				func(b *builder, t ir.DType) *ir.Node {
					return b.op(ir.OpMatMul, []*ir.Node{b.arg(t, tt.a, l, small), b.arg(t, tt.b, l, small)})
				})
		}
	}
}

// attentionCase describes an attention of q queries and k keys. There are `heads` heads of queries, which share
// `groups` heads of keys. Queries and keys have d elements, and values have e. mask means that there is a mask.
type attentionCase struct {
	name                      string
	heads, groups, q, k, d, e int
	causal, mask              bool
	scale, softcap            float64
	window                    int
}

var attentionCases = []attentionCase{
	{name: "nothing to see", heads: 2, groups: 1, q: 5, k: 3, d: 4, e: 4, causal: true},
	{name: "one key", heads: 2, groups: 2, q: 4, k: 1, d: 4, e: 4, causal: true, mask: true},
	{name: "plain", heads: 2, groups: 2, q: 5, k: 7, d: 8, e: 8},
	{name: "one query", heads: 4, groups: 2, q: 1, k: 67, d: 16, e: 16, causal: true},
	{name: "causal", heads: 2, groups: 1, q: 9, k: 9, d: 8, e: 8, causal: true},
	{name: "causal after a prefix", heads: 2, groups: 1, q: 3, k: 9, d: 8, e: 8, causal: true},
	{name: "mask", heads: 3, groups: 1, q: 5, k: 7, d: 8, e: 8, mask: true},
	{name: "causal and mask", heads: 2, groups: 2, q: 7, k: 7, d: 4, e: 4, causal: true, mask: true, scale: 0.3},
	{name: "other value extent", heads: 2, groups: 2, q: 5, k: 7, d: 8, e: 3, scale: 1},
	{name: "past a tile", heads: 2, groups: 1, q: 67, k: 131, d: 32, e: 32, causal: true},
	{name: "soft cap", heads: 2, groups: 1, q: 9, k: 9, d: 8, e: 8, causal: true, scale: 1, softcap: 0.5},
	{name: "soft cap and mask", heads: 2, groups: 2, q: 67, k: 70, d: 16, e: 16, mask: true, scale: 0.3, softcap: 2},
	{name: "odd extent", heads: 1, groups: 1, q: 3, k: 5, d: 7, e: 7},
	{name: "window", heads: 2, groups: 1, q: 9, k: 9, d: 8, e: 8, causal: true, window: 3},
	{name: "window of one query", heads: 4, groups: 2, q: 1, k: 67, d: 16, e: 16, causal: true, window: 20},
	{name: "window and mask", heads: 2, groups: 1, q: 67, k: 131, d: 32, e: 32, causal: true, mask: true, window: 40},
	{name: "window before the keys", heads: 2, groups: 2, q: 7, k: 3, d: 4, e: 4, causal: true, window: 2},
}

var attentionGradCases = []attentionCase{
	{name: "plain", heads: 2, groups: 2, q: 5, k: 7, d: 8, e: 8},
	{name: "heads that share keys", heads: 4, groups: 2, q: 9, k: 9, d: 8, e: 4, causal: true},
	{name: "nothing to see", heads: 2, groups: 1, q: 5, k: 3, d: 4, e: 4, causal: true},
	{name: "after a prefix", heads: 2, groups: 1, q: 3, k: 9, d: 7, e: 3, causal: true, mask: true},
	{name: "past a tile", heads: 2, groups: 1, q: 67, k: 131, d: 32, e: 16, causal: true},
	{name: "more queries than keys", heads: 1, groups: 1, q: 131, k: 67, d: 16, e: 32, mask: true},
	{name: "soft cap", heads: 2, groups: 1, q: 9, k: 9, d: 8, e: 8, causal: true, mask: true, softcap: 0.5},
	{name: "window", heads: 2, groups: 1, q: 67, k: 131, d: 16, e: 16, causal: true, window: 40},
	{name: "window before the keys", heads: 2, groups: 2, q: 7, k: 3, d: 4, e: 4, causal: true, window: 2},
}

// attentions adds the cases of attention.
func (s *suite) attentions() {
	for _, tt := range attentionCases {
		for _, outer := range [][]int{nil, {2}, {2, 1, 2}} {
			for _, l := range []layout{plain, viewed} {
				s.add(ir.OpAttention, fmt.Sprintf("%s/%d outer/%s", tt.name, len(outer), layoutNames[l]),
					func(b *builder, t ir.DType) *ir.Node {
						dims := func(h, n, d int) []int { return append(append([]int{}, outer...), h, n, d) }
						args := []*ir.Node{b.arg(t, dims(tt.heads, tt.q, tt.d), l, small),
							b.arg(t, dims(tt.groups, tt.k, tt.d), l, small), b.arg(t, dims(tt.groups, tt.k, tt.e), l, small)}
						if tt.mask {
							args = append(args, b.arg(t, []int{tt.q, tt.k}, l, small))
						}
						return b.op(ir.OpAttention, args, attr("causal", tt.causal), attr("scale", tt.scale),
							attr("softcap", tt.softcap), attr("window", int64(tt.window)))
					}).allDTypesIf(outer == nil && l == plain && (tt.name == "plain" || tt.name == "causal and mask"))
			}
		}
	}
	s.maskDTypes()
	s.maskedRows()
	s.sinks()
	s.halfAttentions()
	s.attentionGrads()
}

// attentionGrads adds cases of attention_grad and attention_lse: queries that see all keys, some or none, heads that
// share keys, and options of the scores.
func (s *suite) attentionGrads() {
	for _, tt := range attentionGradCases {
		for _, outer := range [][]int{nil, {2, 3}} {
			dims := func(more ...int) []int { return append(append([]int{}, outer...), more...) }
			scores := func(b *builder, t ir.DType, args []*ir.Node) ([]*ir.Node, []ir.Attr) {
				if tt.mask {
					args = append(args, b.input(t, []int{tt.q, tt.k}, small))
				}
				return args, []ir.Attr{attr("causal", tt.causal), attr("softcap", tt.softcap),
					attr("window", int64(tt.window))}
			}
			heads := func(b *builder, t ir.DType) (q, k *ir.Node) {
				return b.input(t, dims(tt.heads, tt.q, tt.d), small), b.input(t, dims(tt.groups, tt.k, tt.d), small)
			}
			name := fmt.Sprintf("%s/%d outer", tt.name, len(outer))
			s.add(ir.OpAttentionLSE, name, func(b *builder, t ir.DType) *ir.Node {
				q, k := heads(b, t)
				args, attrs := scores(b, t, []*ir.Node{q, k})
				return b.op(ir.OpAttentionLSE, args, attrs...)
			}).allDTypesIf(outer == nil && tt.name == "plain")
			for _, of := range []string{"q", "k", "v"} {
				c := s.add(ir.OpAttentionGrad, of+"/"+name, func(b *builder, t ir.DType) *ir.Node {
					q, k := heads(b, t)
					v := b.input(t, dims(tt.groups, tt.k, tt.e), small)
					grad := b.input(t, dims(tt.heads, tt.q, tt.e), small)
					stat := ir.F32
					if t == ir.F64 {
						stat = t
					}
					lse, delta := b.input(stat, dims(tt.heads, tt.q), small), b.input(stat, dims(tt.heads, tt.q), small)
					args, attrs := scores(b, t, []*ir.Node{q, k, v, grad, lse, delta})
					return b.op(ir.OpAttentionGrad, args, append(attrs, attr("of", of))...)
				})
				if outer == nil && tt.name == "heads that share keys" {
					c.inSmokeTest()
					c.types = []ir.DType{ir.F32, ir.F16, ir.BF16, ir.F64, ir.F8E4M3, ir.F8E5M2}
				}
			}
		}
	}
	s.add(ir.OpAttentionLSE, "sinks", func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpAttentionLSE, []*ir.Node{b.input(t, []int{2, 5, 8}, small), b.input(t, []int{1, 3, 8}, small),
			b.input(t, []int{5, 3}, small), b.input(t, []int{2}, small)}, attr("causal", true))
	})
}

// halfAttentions adds cases that may round f32 to f16: with few and many rows, and with shapes that tensor cores
// support or do not.
func (s *suite) halfAttentions() {
	for _, tt := range []struct{ heads, groups, q, k, d, e int }{
		{2, 1, 67, 131, 32, 32}, {4, 2, 33, 33, 64, 16}, {4, 2, 1, 67, 16, 16}, {2, 2, 5, 7, 7, 3},
	} {
		name := fmt.Sprintf("half/%d queries/%d keys of %d", tt.q, tt.k, tt.d)
		s.add(ir.OpAttention, name, func(b *builder, t ir.DType) *ir.Node {
			args := []*ir.Node{b.input(t, []int{tt.heads, tt.q, tt.d}, small),
				b.input(t, []int{tt.groups, tt.k, tt.d}, small), b.input(t, []int{tt.groups, tt.k, tt.e}, small)}
			return b.op(ir.OpAttention, args, attr("causal", true), attr("precision", ir.PrecisionHalf))
		}).types = []ir.DType{ir.F32, ir.F16}
	}
}

// maskDTypes adds attentions with masks of bools and of integers.
func (s *suite) maskDTypes() {
	for _, m := range []ir.DType{ir.Bool, ir.U8, ir.I32} {
		s.add(ir.OpAttention, "mask of "+m.String(), func(b *builder, t ir.DType) *ir.Node {
			q, k := b.input(t, []int{2, 4, 5, 8}, small), b.input(t, []int{2, 2, 37, 8}, small)
			mask := b.view(ir.OpCast, b.view(ir.OpRelu, b.input(ir.I32, []int{2, 1, 5, 37}, small)), attr("dtype", m))
			return b.op(ir.OpAttention, []*ir.Node{q, k, k, mask})
		}).allDTypesIf(m == ir.Bool)
	}
}

// maskedRows adds cases with a mask that hides some keys, and all keys of some queries. The mask hides by -Inf, with
// results NaN or 0, or by the lowest finite number. With the latter, a query with all keys hidden sees all of them.
func (s *suite) maskedRows() {
	for _, tt := range []struct {
		name                    string
		hidden                  float64
		zeroNaN                 bool
		heads, queries, keys, d int
		half                    bool
	}{
		{"rows hidden by the mask", math.Inf(-1), false, 2, 4, 3, 8, false},
		{"hidden rows of zeros", math.Inf(-1), true, 2, 4, 3, 8, false},
		{"hidden rows of zeros/half", math.Inf(-1), true, 2, 33, 67, 32, true},
		{"rows hidden by the least number", -math.MaxFloat32, false, 2, 4, 3, 8, false},
		{"rows hidden by the least number/half", -math.MaxFloat32, false, 2, 33, 67, 32, true},
	} {
		s.add(ir.OpAttention, tt.name, func(b *builder, t ir.DType) *ir.Node {
			mask := make([]float64, tt.queries*tt.keys)
			for i := range mask {
				// the first query's keys and every fourth one
				if i < tt.keys || i%4 == 0 {
					mask[i] = tt.hidden
				}
			}
			args := []*ir.Node{b.input(t, []int{tt.heads, tt.queries, tt.d}, small),
				b.input(t, []int{tt.heads, tt.keys, tt.d}, small), b.input(t, []int{tt.heads, tt.keys, tt.d}, small)}
			attrs := []ir.Attr{attr("zero_nan", tt.zeroNaN)}
			if tt.half {
				attrs = append(attrs, attr("precision", ir.PrecisionHalf))
			}
			return b.op(ir.OpAttention, append(args, b.given(ir.F32, mask, tt.queries, tt.keys)), attrs...)
		}).types = []ir.DType{ir.F32, ir.F16, ir.BF16}
	}
}

// sinks adds cases with attention sinks: with and without a mask, for queries that see many keys, some or none.
func (s *suite) sinks() {
	for _, tt := range []struct {
		heads, groups, q, k, d int
		mask, causal           bool
	}{
		{4, 2, 5, 7, 8, false, false}, {4, 2, 1, 67, 16, true, true}, {2, 1, 67, 131, 32, false, true},
		{2, 2, 5, 3, 4, true, true},
	} {
		name := fmt.Sprintf("sinks/%d queries/%d keys/mask %v", tt.q, tt.k, tt.mask)
		s.add(ir.OpAttention, name, func(b *builder, t ir.DType) *ir.Node {
			mask := b.input(t, []int{tt.q, tt.k}, small)
			if !tt.mask {
				none, err := ir.NewData(t)
				if err != nil {
					b.err = err
					return nil
				}
				mask = b.op(ir.OpConst, nil, attr("data", none))
			}
			return b.op(ir.OpAttention, []*ir.Node{b.input(t, []int{tt.heads, tt.q, tt.d}, small),
				b.input(t, []int{tt.groups, tt.k, tt.d}, small), b.input(t, []int{tt.groups, tt.k, tt.d}, small),
				mask, b.input(t, []int{tt.heads}, small)}, attr("causal", tt.causal))
		})
	}
}

// window holds the shapes and attributes of a convolution or pooling.
type window struct {
	x, w                                  []int // w is only the kernel size if there are no weights
	stride, low, high, dilation, outExtra []int64
	groups                                int64
}

// String formats the window for a case's name.
func (w window) String() string {
	s := shapeName(w.x) + " by " + shapeName(w.w)
	for _, p := range []struct {
		name string
		v    []int64
	}{{"stride", w.stride}, {"low", w.low}, {"high", w.high}, {"dilation", w.dilation}, {"extra", w.outExtra}} {
		if len(p.v) > 0 {
			s += fmt.Sprintf("/%s %v", p.name, p.v)
		}
	}
	if w.groups > 1 {
		s += fmt.Sprintf("/%d groups", w.groups)
	}
	return s
}

// attrs returns the named attributes, without empty lists.
func (w window) attrs(names ...string) []ir.Attr {
	all := map[string]any{"stride": w.stride, "padding_low": w.low, "padding_high": w.high, "dilation": w.dilation,
		"output_padding": w.outExtra, "groups": max(1, w.groups)}
	var list []ir.Attr
	for _, n := range names {
		if v, ok := all[n].([]int64); !ok || len(v) > 0 {
			list = append(list, attr(n, all[n]))
		}
	}
	return list
}

// windows adds the cases of convolutions, pooling and resizing.
func (s *suite) windows() {
	ones, twos := []int64{1, 1}, []int64{2, 2}
	for i, w := range []window{
		{x: []int{2, 3, 7, 9}, w: []int{4, 3, 3, 3}, low: ones, high: ones},
		{x: []int{1, 1, 1}, w: []int{1, 1, 1}},
		{x: []int{2, 3, 11}, w: []int{5, 3, 4}, stride: []int64{2}, low: []int64{1}, high: []int64{2}},
		{x: []int{2, 4, 13}, w: []int{4, 1, 3}, groups: 4, dilation: []int64{2}},
		{x: []int{1, 4, 9, 11}, w: []int{6, 2, 2, 3}, groups: 2, stride: twos, dilation: []int64{1, 2}},
		{x: []int{1, 67, 5, 5}, w: []int{33, 67, 1, 1}},
		{x: []int{1, 16, 17, 19}, w: []int{67, 16, 3, 3}, low: ones, high: ones},
		{x: []int{1, 2, 5, 6, 7}, w: []int{3, 2, 2, 3, 2}, stride: []int64{1, 2, 1}, low: []int64{1, 0, 1}},
		{x: []int{0, 3, 7}, w: []int{2, 3, 3}},
	} {
		s.convolution(ir.OpConv, i == 0, w, "stride", "padding_low", "padding_high", "dilation", "groups")
	}
	s.int8Convolutions()
	for _, precision := range []string{ir.PrecisionHalf, ir.PrecisionHalfSums} {
		w := window{x: []int{1, 16, 17, 19}, w: []int{67, 16, 3, 3}, low: ones, high: ones}
		s.add(ir.OpConv, w.String()+"/"+precision, func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpConv, []*ir.Node{b.arg(t, w.x, plain, small), b.arg(t, w.w, plain, small)},
				append(w.attrs("padding_low", "padding_high"), attr("precision", precision))...)
		})
	}
	for i, w := range []window{
		{x: []int{2, 3, 4, 5}, w: []int{3, 2, 3, 3}, stride: twos, low: ones, high: ones, outExtra: ones},
		{x: []int{1, 1, 1}, w: []int{1, 1, 1}},
		{x: []int{2, 3, 7}, w: []int{3, 4, 4}, stride: []int64{3}},
		{x: []int{2, 4, 7}, w: []int{4, 1, 3}, groups: 4, dilation: []int64{2}, low: []int64{1}},
		{x: []int{1, 4, 5, 6}, w: []int{4, 3, 2, 3}, groups: 2, stride: []int64{1, 2}, dilation: twos},
		{x: []int{1, 17, 9, 11}, w: []int{17, 33, 2, 2}, stride: twos},
		{x: []int{1, 2, 3, 4, 3}, w: []int{2, 2, 2, 3, 2}, stride: []int64{1, 2, 1}},
	} {
		s.convolution(ir.OpConvTranspose, i == 0, w, "stride", "padding_low", "padding_high", "dilation", "groups",
			"output_padding")
	}
	s.pools()
	s.resizes()
}

// int8Convolutions adds convolutions of i8 and u8 with various padding values.
func (s *suite) int8Convolutions() {
	ones, twos := []int64{1, 1}, []int64{2, 2}
	for _, w := range []window{
		{x: []int{2, 16, 9, 11}, w: []int{12, 16, 3, 3}, low: ones, high: ones},
		{x: []int{2, 5, 8, 9}, w: []int{7, 5, 3, 2}, low: ones, high: []int64{0, 2}, stride: twos},
		{x: []int{1, 6, 9, 11}, w: []int{10, 3, 2, 3}, low: twos, high: ones, groups: 2, dilation: []int64{1, 2}},
		{x: []int{2, 4, 13}, w: []int{4, 1, 3}, low: []int64{1}, high: []int64{2}, groups: 4},
		{x: []int{1, 67, 5, 5}, w: []int{33, 67, 1, 1}},
		{x: []int{0, 3, 7}, w: []int{2, 3, 3}, low: []int64{1}},
	} {
		for _, around := range []int64{0, 93} {
			attrs := append(w.attrs("stride", "padding_low", "padding_high", "dilation", "groups"),
				attr("padding_value", around))
			for _, l := range []layout{plain, transposed} {
				c := s.add(ir.OpConv, fmt.Sprintf("%s/padded by %d/%s", w, around, layoutNames[l]),
					func(b *builder, t ir.DType) *ir.Node {
						return b.op(ir.OpConv, []*ir.Node{b.arg(t, w.x, l, full), b.arg(t, w.w, l, full)}, attrs...)
					})
				c.types = int8DTypes
				c.allDTypesIf(l == plain)
			}
		}
	}
}

// convolution adds the cases of a convolution with one window, for several layouts of the arguments. If broad is
// true, the case with plain arguments is for all dtypes. names are the attributes that the op has.
func (s *suite) convolution(op ir.Op, broad bool, w window, names ...string) {
	for _, l := range []layout{plain, transposed, viewed} {
		s.add(op, w.String()+"/"+layoutNames[l], func(b *builder, t ir.DType) *ir.Node {
			return b.op(op, []*ir.Node{b.arg(t, w.x, l, small), b.arg(t, w.w, l, small)}, w.attrs(names...)...)
		}).allDTypesIf(broad && l == plain)
	}
}

// pools adds the cases of avg_pool and max_pool.
func (s *suite) pools() {
	ones := []int64{1, 1}
	for i, w := range []window{
		{x: []int{2, 7, 9}, w: []int{3, 3}, stride: []int64{2, 2}, low: ones, high: ones},
		{x: []int{1}, w: []int{1}},
		{x: []int{1031}, w: []int{5}, stride: []int64{1}, low: []int64{2}, high: []int64{2}},
		{x: []int{2, 3, 8, 8}, w: []int{8, 8}},
		{x: []int{2, 3, 8, 11}, w: []int{2, 3}, stride: []int64{3, 2}, high: ones},
		{x: []int{2, 5, 6, 7}, w: []int{2, 3, 2}, stride: []int64{2, 1, 3}},
	} {
		kernel := make([]int64, len(w.w))
		for j, k := range w.w {
			kernel[j] = int64(k)
		}
		for _, ceil := range []bool{false, true} {
			attrs := append(w.attrs("stride", "padding_low", "padding_high"), attr("kernel", kernel),
				attr("ceil_mode", ceil))
			name := fmt.Sprintf("%s/ceil %v", w, ceil)
			for _, l := range []layout{plain, viewed} {
				s.unary(ir.OpAvgPool, name, w.x, l, small, attrs...).allDTypesIf(i == 0 && l == plain)
				s.unary(ir.OpAvgPool, name+"/own count", w.x, l, small,
					append(attrs, attr("count_include_pad", false))...)
				s.unary(ir.OpMaxPool, name, w.x, l, small, attrs...).allDTypesIf(i == 0 && l == plain)
				s.unary(ir.OpMaxPool, name, w.x, l, sparse, attrs...)
			}
		}
	}
	for _, padded := range []bool{true, false} { // windows that hang over both ends
		s.unary(ir.OpAvgPool, fmt.Sprintf("dilation 3/padding %v", padded), []int{3, 10}, plain, small,
			attr("kernel", []int64{3}), attr("dilation", []int64{3}), attr("stride", []int64{2}),
			attr("padding_low", []int64{4}), attr("padding_high", []int64{5}), attr("ceil_mode", true),
			attr("count_include_pad", padded)).allDTypes().inSmokeTest()
	}
	s.unary(ir.OpMaxPool, "dilation 2", []int{3, 9}, plain, small, attr("kernel", []int64{3}),
		attr("stride", []int64{1}), attr("dilation", []int64{2}))
	s.unary(ir.OpMaxPool, "limits", []int{23}, plain, extreme, attr("kernel", []int64{2}), attr("stride", []int64{1})).
		allDTypes()
}

// resizes adds the cases of resizing. Quick runs have one of the cases with attribute scales. It has two axes: one
// grows and the other shrinks.
func (s *suite) resizes() {
	for _, op := range []ir.Op{ir.OpResizeNearest, ir.OpResizeLinear, ir.OpResizeCubic} {
		for _, tt := range []struct {
			from, to []int
			scales   []int64
		}{
			{[]int{2, 5, 7}, []int{7, 4}, []int64{3, 2, 2, 3}}, {[]int{3, 9}, []int{13}, []int64{7, 5}},
			{[]int{5}, []int{5}, []int64{2, 1}},
		} {
			s.unary(op, fmt.Sprintf("to %s/scales %v", shapeName(tt.to), tt.scales), tt.from, plain, small,
				attr("size", ir.ShapeOf(tt.to...)), attr("scales", tt.scales)).smoke = len(tt.to) == 2
		}
		for i, tt := range []struct{ from, to []int }{
			{[]int{2, 5, 7}, []int{11, 3}}, {[]int{1}, []int{7}}, {[]int{7}, []int{1}}, {[]int{2, 3, 1031}, []int{67}}, {[]int{3, 3, 4, 5}, []int{6, 4, 11}}, {[]int{2, 5}, []int{0, 4}}, {[]int{6, 6}, []int{6, 6}},
		} {
			for _, l := range []layout{plain, viewed} {
				name := "to " + shapeName(tt.to)
				s.unary(op, name, tt.from, l, small, attr("size", ir.ShapeOf(tt.to...))).
					allDTypesIf(i == 0 && l == plain)
				if op != ir.OpResizeNearest {
					s.unary(op, name+"/aligned", tt.from, l, small, attr("size", ir.ShapeOf(tt.to...)),
						attr("align_corners", true))
				}
			}
		}
	}
}

// random adds the cases of random numbers: seeds and offsets of both dtypes.
func (s *suite) random() {
	for _, dims := range [][]int{{}, {0}, {1}, {7}, {1031}, {67, 129}, {2, 1, 2, 3, 2, 5}} {
		for _, of := range []ir.DType{ir.U32, ir.I64} {
			name := shapeName(dims) + "/seed " + of.String()
			seeds := func(b *builder) []*ir.Node { return []*ir.Node{b.input(of, nil, full), b.input(of, nil, full)} }
			for _, op := range []ir.Op{ir.OpRandomUniform, ir.OpRandomNormal} {
				s.add(op, name, func(b *builder, t ir.DType) *ir.Node {
					return b.op(op, seeds(b), attr("dtype", t), attr("shape", ir.ShapeOf(dims...)))
				}).allDTypesIf(len(dims) == 2)
			}
			for _, p := range []float64{0, 0.3, 1} {
				t := s.add(ir.OpRandomBernoulli, fmt.Sprintf("%s/p %v", name, p),
					func(b *builder, _ ir.DType) *ir.Node {
						return b.op(ir.OpRandomBernoulli, seeds(b), attr("p", p), attr("shape", ir.ShapeOf(dims...)))
					})
				t.types, t.smoke = []ir.DType{ir.Bool}, p == 0.3 && len(dims) == 2
			}
		}
	}
}
