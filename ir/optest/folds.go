package optest

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// foldShapes are argument shapes of reductions, scans and row ops. Each has the axes that cases fold, one at a time.
var foldShapes = []struct {
	dims []int
	axes []int
}{
	{[]int{1}, []int{0}}, {[]int{7}, []int{0}}, {[]int{1031}, []int{0}}, {[]int{3, 5}, []int{0, 1}}, {[]int{67, 129}, []int{0, 1}},
	{[]int{2, 4099}, []int{1}}, {[]int{2, 3, 5}, []int{0, 1, 2}}, {[]int{2, 1, 3, 5}, []int{1, 2}}, {[]int{2, 3, 1, 2, 3}, []int{1}}, {[]int{2, 1, 2, 3, 2, 5}, []int{3, 5}},
}

// alongAxis adds the cases of an op that has one axis as an attribute, besides attrs: shapes, layouts, dtypes and
// special values.
func (s *suite) alongAxis(op ir.Op, attrs ...ir.Attr) {
	prefix, v := "", valuesOf(op)
	for _, a := range attrs {
		prefix += a.Name + " "
	}
	withAxis := func(axis int) []ir.Attr { return append(slices.Clone(attrs), attr("axis", int64(axis))) }
	for _, f := range foldShapes {
		for _, axis := range f.axes {
			s.unary(op, prefix+fmt.Sprintf("axis %d", axis), f.dims, plain, v, withAxis(axis)...)
		}
	}
	s.unary(op, prefix+"axis 0", []int{0}, plain, v, withAxis(0)...).optional()
	s.unary(op, prefix+"axis 0", []int{3, 0}, plain, v, withAxis(0)...)
	for l := transposed; l < layouts; l++ {
		s.unary(op, prefix+"axis -1", []int{13, 17}, l, v, withAxis(-1)...)
	}
	s.unary(op, prefix+"axis -1", []int{5, 37}, plain, v, withAxis(-1)...).allDTypes().inSmokeTest()
	s.unary(op, prefix+"axis 0", []int{5, 37}, viewed, v, withAxis(0)...).allDTypes()
	s.unary(op, prefix+"axis -1", []int{11, 17}, plain, sparse, withAxis(-1)...).allDTypes().inSmokeTest()
	// If a whole row is one infinity or NaN, x - max(x) must not become 0.
	s.unary(op, prefix+"axis -1", []int{31, 1}, plain, sparse, withAxis(-1)...).allDTypes().inSmokeTest()
	s.unary(op, prefix+"axis 0", []int{5, 31}, repeated, sparse, withAxis(0)...).allDTypes()
	if op.Info().Tol == (ir.Tolerance{}) {
		s.unary(op, prefix+"axis -1", []int{3, 23}, plain, extreme, withAxis(-1)...).allDTypes()
	}
}

// reductions adds the cases of all reductions. Argmax and argmin fold one axis; the others fold a set of axes. It
// also adds long rows, and a variance whose correction exceeds the number of elements.
func (s *suite) reductions() {
	for _, op := range ir.Ops() {
		if op.Class() != ir.ClassReduce {
			continue
		}
		if op == ir.OpArgmax || op == ir.OpArgmin {
			s.alongAxis(op)
			s.alongAxis(op, attr("keepdims", true))
			continue
		}
		s.reduction(op)
	}
	s.longFolds()
	s.unary(ir.OpVariance, "correction 2 of 1", []int{5, 1}, plain, small, attr("axes", []int64{1}),
		attr("correction", int64(2)))
}

// longFolds adds rows so long that kernels fold them in chunks, the last one incomplete. Elements of a row are
// contiguous or strided in memory. Some rows have infinities and NaN.
func (s *suite) longFolds() {
	for _, op := range ir.Ops() {
		attrs := func(axis int64) []ir.Attr {
			return append(op.Info().SampleAttrs(0, false), attr("axes", []int64{axis}))
		}
		switch op {
		case ir.OpArgmax, ir.OpArgmin, ir.OpSoftmax, ir.OpLogSoftmax, ir.OpL2Normalize:
			attrs = func(axis int64) []ir.Attr { return []ir.Attr{attr("axis", axis)} }
		case ir.OpProd: // 0 or infinite for this many elements
			continue
		default:
			if op.Class() != ir.ClassReduce {
				continue
			}
		}
		s.unary(op, "long columns", []int{2, 1301, 3}, plain, small, attrs(1)...)
		s.unary(op, "long columns", []int{2, 1301, 3}, plain, sparse, attrs(1)...)
		s.unary(op, "long row", []int{1, 66003}, plain, small, attrs(1)...)
		// One workgroup per row, with elements of two words.
		wide := s.unary(op, "wide row", []int{3, 1301}, plain, full, attrs(1)...).optional()
		wide.types = []ir.DType{ir.I64}
	}
}

// reduction adds the cases of a reduction: over all axes, over some, and with each sample of its attributes.
func (s *suite) reduction(op ir.Op) {
	v := valuesOf(op)
	for _, dims := range argShapes {
		s.unary(op, "all", dims, plain, v, op.Info().SampleAttrs(0, false)...)
	}
	withAxes := func(keep bool, axes ...int64) []ir.Attr {
		return append(op.Info().SampleAttrs(0, false), attr("axes", axes), attr("keepdims", keep))
	}
	for i := range op.Info().SampleCount() {
		attrs := append(op.Info().SampleAttrs(i, true), attr("axes", []int64{1}))
		s.unary(op, fmt.Sprintf("%v", ir.Attrs(attrs)), []int{5, 37}, plain, v, attrs...).allDTypes()
	}
	for _, f := range foldShapes {
		for i, axis := range f.axes {
			s.unary(op, fmt.Sprintf("axis %d", axis), f.dims, plain, v, withAxes(i%2 == 1, int64(axis))...)
		}
	}
	s.unary(op, "axes 0 2", []int{5, 7, 11}, plain, v, withAxes(false, 0, 2)...)
	s.unary(op, "axes 1 3", []int{3, 5, 7, 11}, plain, v, withAxes(true, 1, 3)...)
	s.unary(op, "axis 1", []int{3, 0}, plain, v, withAxes(false, 1)...)
	// every layout except plain
	for l := transposed; l < layouts; l++ {
		s.unary(op, "axis 1", []int{13, 17}, l, v, withAxes(false, 1)...)
	}
	s.unary(op, "axis 1", []int{5, 37}, plain, v, withAxes(false, 1)...).allDTypes().inSmokeTest()
	s.unary(op, "axis 0", []int{5, 37}, viewed, v, withAxes(true, 0)...).allDTypes()
	s.unary(op, "axis 1", []int{11, 17}, plain, sparse, withAxes(false, 1)...).allDTypes().inSmokeTest()
	s.unary(op, "axis 1", []int{31, 1}, plain, sparse, withAxes(false, 1)...).allDTypes()
	// Integer dtypes have no infinities; take their largest and smallest numbers.
	limits := s.unary(op, "axis 1", []int{5, 11}, plain, full, withAxes(false, 1)...).allDTypes().optional()
	limits.types = integers
	if op.Info().Tol == (ir.Tolerance{}) {
		s.unary(op, "axis 1", []int{3, 23}, plain, extreme, withAxes(false, 1)...).allDTypes()
	}
}

// integers are the integer dtypes.
var integers = []ir.DType{ir.I32, ir.U32, ir.I16, ir.U16, ir.I8, ir.U8, ir.I64}

// scans adds the cases of scans and sorts.
func (s *suite) scans() {
	for _, op := range ir.Ops() {
		if op.Info().Running != 0 {
			s.running(op)
		}
	}
	for _, op := range []ir.Op{ir.OpSort, ir.OpArgsort} {
		s.alongAxis(op)
		s.alongAxis(op, attr("descending", true))
		s.longOrders(op)
	}
	s.topK()
}

// running adds the cases of a scan, such as cumsum.
func (s *suite) running(op ir.Op) {
	v := valuesOf(op)
	s.alongAxis(op)
	if op == ir.OpCumSum { // the others use the same code
		s.alongAxis(op, attr("exclusive", true))
		s.alongAxis(op, attr("reverse", true), attr("exclusive", true))
	}
	first := s.unary(op, "reverse exclusive", []int{3, 23}, plain, v, attr("exclusive", true), attr("reverse", true))
	first.types = []ir.DType{ir.I8, ir.U16, ir.F16, ir.I64} // these accumulate in a wider dtype
	first.inSmokeTest()
	for _, reverse := range []bool{false, true} { // long enough to be made in chunks
		s.unary(op, fmt.Sprintf("long/reverse %v", reverse), []int{2, 20011}, plain, v,
			attr("axis", int64(1)), attr("reverse", reverse))
		s.unary(op, fmt.Sprintf("long columns/reverse %v", reverse), []int{2, 1537, 3}, plain, v,
			attr("axis", int64(1)), attr("reverse", reverse))
	}
	wide := s.unary(op, "wide row", []int{3, 1301}, plain, full, attr("axis", int64(1)))
	wide.types = []ir.DType{ir.I64}
}

// valuesOf returns argument values for an op: ones near 1 if it multiplies many, so that the result stays in range.
func valuesOf(op ir.Op) values {
	if op == ir.OpProd || op == ir.OpCumProd {
		return nearOne
	}
	return small
}

// longOrders adds sorts of rows too long for one workgroup: rows with many equal elements, infinities or NaN, and rows
// in orders that are hard for sorting algorithms.
func (s *suite) longOrders(op ir.Op) {
	// more than one workgroup sorts, and not a multiple of a power of two
	const n = 9001
	patterns := []struct {
		name string
		at   func(i int) float64
	}{
		{"sorted", func(i int) float64 { return float64(i * 100 / n) }},
		{"reverse", func(i int) float64 { return float64(100 - i*100/n) }},
		{"all equal", func(int) float64 { return 3 }},
		{"zeros of both signs", func(i int) float64 { return math.Copysign(0, float64(i%3-1)) }},
		{"two values", func(i int) float64 { return float64(i * 7919 % 13 / 7) }},
	}
	for _, down := range []bool{false, true} {
		attrs := []ir.Attr{attr("axis", int64(-1)), attr("descending", down)}
		name := fmt.Sprintf("long/descending %v", down)
		s.unary(op, name, []int{2, n}, plain, sparse, attrs...)
		s.unary(op, name, []int{2, 2049}, plain, extreme, attrs...).allDTypes()
		s.unary(op, name+" axis 0", []int{4096, 2}, plain, sparse, attr("axis", int64(0)), attr("descending", down))
		for _, p := range patterns {
			s.add(op, fmt.Sprintf("%s/%s", name, p.name), func(b *builder, t ir.DType) *ir.Node {
				list := make([]float64, n)
				for i := range list {
					list[i] = p.at(i)
				}
				return b.view(op, b.given(t, list, n), attrs...)
			})
		}
	}
}

// topK adds the cases of topk_indices.
func (s *suite) topK() {
	for _, k := range []int64{0, 1, 7} {
		for _, best := range []bool{true, false} {
			attrs := func(axis int) []ir.Attr {
				return []ir.Attr{attr("k", k), attr("largest", best), attr("axis", int64(axis))}
			}
			name := fmt.Sprintf("k %d %v", k, best)
			for _, dims := range [][]int{{7}, {1031}, {2, 4099}, {2, 3, 67}, {2, 1, 2, 1, 2, 11}} {
				s.unary(ir.OpTopKIndices, name, dims, plain, small, attrs(-1)...)
			}
			s.unary(ir.OpTopKIndices, name, []int{2, 777}, plain, sparse, attrs(-1)...).allDTypesIf(k == 7)
			s.unary(ir.OpTopKIndices, name, []int{9001}, repeated, sparse, attrs(-1)...)
			s.unary(ir.OpTopKIndices, name+" axis 0", []int{13, 17}, viewed, small, attrs(0)...)
			s.unary(ir.OpTopKIndices, name, []int{3, 23}, plain, extreme, attrs(-1)...).allDTypesIf(k == 7)
		}
	}
}

// rows adds the cases of normalizations and rope.
func (s *suite) rows() {
	s.alongAxis(ir.OpSoftmax)
	s.alongAxis(ir.OpLogSoftmax)
	s.alongAxis(ir.OpL2Normalize)
	for _, op := range []ir.Op{ir.OpRMSNorm, ir.OpLayerNorm} {
		for params := range len(op.Info().Args) {
			s.norm(op, params)
		}
	}
	for params := range 3 {
		s.groupNorm(params)
	}
	s.rope()
}

// norm adds the cases of an op that normalizes along the innermost axis, with the given number of parameters.
func (s *suite) norm(op ir.Op, params int) {
	build := func(dims []int, l layout, v values) buildFunc {
		return func(b *builder, t ir.DType) *ir.Node {
			args := []*ir.Node{b.arg(t, dims, l, v)}
			for range params {
				args = append(args, b.input(t, dims[len(dims)-1:], small))
			}
			return b.op(op, args)
		}
	}
	name := fmt.Sprintf("%d parameters/", params)
	for _, dims := range [][]int{{1}, {7}, {1031}, {3, 0}, {0, 3}, {67, 129}, {2, 4099}, {2, 3, 5}, {2, 1, 3, 5},
		{2, 1, 2, 3, 2, 5}} {
		s.add(op, name+shapeName(dims), build(dims, plain, small))
	}
	for l := transposed; l < layouts; l++ {
		s.add(op, name+label([]int{13, 17}, l, small), build([]int{13, 17}, l, small))
	}
	s.add(op, name+"5x37", build([]int{5, 37}, plain, small)).allDTypes().inSmokeTest()
	s.add(op, name+"11x17/special", build([]int{11, 17}, plain, sparse)).allDTypes()
	s.add(op, name+"31x1/special", build([]int{31, 1}, plain, sparse)).allDTypes()
	s.add(op, name+"7x13/viewed", build([]int{7, 13}, viewed, small)).allDTypes()
}

// groupNorm adds the cases of group_norm with the given number of parameters.
func (s *suite) groupNorm(params int) {
	for _, tt := range []struct {
		dims   []int
		groups int64
		l      layout
	}{{[]int{2, 12}, 3, plain}, {[]int{2, 6, 5}, 1, plain}, {[]int{2, 6, 5}, 6, plain}, {[]int{1, 4, 7, 11}, 2, viewed},
		{[]int{2, 4, 3, 3, 5}, 2, transposed}, {[]int{1, 2, 1031}, 2, plain}} {
		s.add(ir.OpGroupNorm, fmt.Sprintf("%d groups/%d parameters/%s", tt.groups, params, label(tt.dims, tt.l, small)),
			func(b *builder, t ir.DType) *ir.Node {
				args := []*ir.Node{b.arg(t, tt.dims, tt.l, small)}
				for range params {
					args = append(args, b.input(t, tt.dims[1:2], small))
				}
				return b.op(ir.OpGroupNorm, args, attr("groups", tt.groups))
			}).allDTypesIf(tt.groups == 3)
	}
}

// rope adds the cases of rope.
func (s *suite) rope() {
	for _, tt := range []struct {
		dims       []int
		axis, turn int64
		l          layout
	}{{[]int{5, 8}, 0, 0, plain}, {[]int{2, 5, 8}, 1, 4, plain}, {[]int{2, 5, 3, 8}, 1, 0, transposed},
		{[]int{67, 2, 130}, 0, 128, viewed}, {[]int{0, 4}, 0, 0, plain}} {
		s.add(ir.OpRope, fmt.Sprintf("axis %d/%d turn/%s", tt.axis, tt.turn, label(tt.dims, tt.l, small)),
			func(b *builder, t ir.DType) *ir.Node {
				pos := b.indices(ir.I32, 100, tt.dims[tt.axis])
				return b.op(ir.OpRope, []*ir.Node{b.arg(t, tt.dims, tt.l, small), pos}, attr("axis", tt.axis),
					attr("dims", tt.turn))
			}).allDTypesIf(tt.turn == 4)
	}
	for _, far := range []int64{1 << 13, 1 << 20, 1 << 30} {
		for _, mode := range []string{"interleaved", "half"} {
			s.add(ir.OpRope, fmt.Sprintf("positions to %d/%s", far, mode), func(b *builder, t ir.DType) *ir.Node {
				return b.op(ir.OpRope, []*ir.Node{b.input(t, []int{3, 9, 64}, small), b.indices(ir.I32, int(far), 9)},
					attr("mode", mode))
			})
		}
	}
	for _, outer := range [][]int{{2, 5}, {2, 3, 5}} {
		s.add(ir.OpRope, "positions "+shapeName(outer), func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpRope, []*ir.Node{b.input(t, []int{2, 3, 5, 8}, small), b.indices(ir.I32, 100, outer...)})
		})
	}
	s.add(ir.OpRope, "turns", func(b *builder, t ir.DType) *ir.Node {
		words := b.given(ir.U32, []float64{1 << 31, 0, 1 << 30, 1 << 31, 0x28be60db, 0x9391054a, 7, 0xffffffff}, 4, 2)
		return b.op(ir.OpRope, []*ir.Node{b.input(t, []int{3, 9, 10}, small), b.indices(ir.I32, 1<<20, 9), words},
			attr("dims", int64(8)))
	})
}

// composites adds the cases of ops that are defined by other ops.
func (s *suite) composites() {
	for params := 2; params <= 4; params++ {
		for _, dims := range [][]int{{2, 3}, {2, 3, 5}, {1, 4, 7, 11}, {2, 3, 2, 3, 5}} {
			s.add(ir.OpBatchNorm, fmt.Sprintf("%d parameters/%s", params, shapeName(dims)),
				func(b *builder, t ir.DType) *ir.Node {
					args := []*ir.Node{b.input(t, dims, small)}
					for i := range params {
						args = append(args, b.input(t, dims[1:2], []values{small, nearOne}[i%2]))
					}
					return b.op(ir.OpBatchNorm, args)
				}).allDTypesIf(len(dims) == 3)
		}
	}
	s.ropeTables()
	for _, op := range []ir.Op{ir.OpTril, ir.OpTriu} {
		for _, k := range []int64{0, -1, 2, -9} {
			for _, dims := range [][]int{{1, 1}, {5, 7}, {0, 3}, {67, 129}, {2, 1, 5, 3}} {
				s.unary(op, fmt.Sprintf("k %d", k), dims, plain, wide, attr("k", k)).
					allDTypesIf(k == 2 && len(dims) == 4)
			}
			s.unary(op, fmt.Sprintf("k %d", k), []int{13, 17}, viewed, sparse, attr("k", k))
		}
	}
	for _, to := range preferred {
		if to.StorageOnly() {
			continue
		}
		t := s.add(ir.OpOneHot, "to "+to.String(), func(b *builder, t ir.DType) *ir.Node {
			return b.view(ir.OpOneHot, b.indices(t, 7, 5, 3), attr("depth", int64(7)), attr("dtype", to))
		})
		t.allDTypesIf(to == ir.F32)
	}
}

// ropeTables adds the cases of rope_tables.
func (s *suite) ropeTables() {
	for _, tt := range []struct {
		dims, tables []int
		l            layout
	}{{[]int{2, 3, 5, 8}, []int{5, 4}, plain}, {[]int{2, 3, 5, 8}, []int{2, 1, 5, 3}, transposed},
		{[]int{5, 7}, []int{1}, viewed}, {[]int{3, 67, 128}, []int{67, 64}, plain}, {[]int{4, 2}, []int{4, 0}, plain}, {[]int{0, 4}, []int{2}, plain}} {
		for _, mode := range []string{"interleaved", "half"} {
			name := fmt.Sprintf("%s/tables %s/%s", mode, shapeName(tt.tables), label(tt.dims, tt.l, small))
			s.add(ir.OpRopeTables, name, func(b *builder, t ir.DType) *ir.Node {
				x := b.arg(t, tt.dims, tt.l, small)
				cos, sin := b.input(t, tt.tables, small), b.input(t, tt.tables, small)
				return b.op(ir.OpRopeTables, []*ir.Node{x, cos, sin}, attr("mode", mode))
			}).allDTypesIf(tt.l == viewed)
		}
	}
	s.add(ir.OpRopeTables, "tables of two shapes", func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpRopeTables, []*ir.Node{b.input(t, []int{2, 3, 4}, small), b.input(ir.F32, []int{3, 2}, small),
			b.input(ir.F32, []int{2, 1, 2}, small)})
	}).allDTypes()
}

// optional marks a template that the op's rule may reject for every dtype. An empty axis, for example, is valid for
// some ops and an error for others.
func (t *template) optional() *template { t.mayBeRefused = true; return t }
