package optest

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// views adds the cases of views, ops that only change coordinates.
func (s *suite) views() {
	for _, dims := range argShapes {
		n := 1
		perm, shifts, axes := make([]int64, len(dims)), make([]int64, len(dims)), make([]int64, len(dims))
		for i, d := range dims {
			n *= d
			// a rotation of the axes, and shifts of either sign
			perm[i], shifts[i], axes[i] = int64((i+1)%len(dims)), int64(3-2*i), int64(i)
		}
		s.viewCase(ir.OpReshape, dims, attr("shape", ir.ShapeOf(1, n)))
		s.viewCase(ir.OpTranspose, dims, attr("perm", perm))
		s.viewCase(ir.OpBroadcast, dims, attr("shape", ir.ShapeOf(append([]int{2}, dims...)...)))
		s.viewCase(ir.OpFlip, dims, attr("axes", axes))
		s.viewCase(ir.OpRoll, dims, attr("shifts", shifts))
		s.viewCase(ir.OpUnsqueeze, dims, attr("axes", []int64{0, -1}))
		s.add(ir.OpSqueeze, shapeName(dims), func(b *builder, t ir.DType) *ir.Node {
			x := b.view(ir.OpUnsqueeze, b.input(t, dims, wide), attr("axes", []int64{0}))
			return b.view(ir.OpSqueeze, x, attr("axes", []int64{0}))
		})
		s.add(ir.OpSlice, shapeName(dims), func(b *builder, t ir.DType) *ir.Node {
			return b.slice(b.input(t, affine(dims, 3, 2), wide), dims, 2, 3)
		})
	}
	three := []int{3, 1, 5}
	for op, a := range map[ir.Op]ir.Attr{
		ir.OpReshape: attr("shape", ir.ShapeOf(5, 3)), ir.OpTranspose: attr("perm", []int64{2, 0, 1}), ir.OpBroadcast: attr("shape", ir.ShapeOf(3, 4, 5)),
		ir.OpFlip: attr("axes", []int64{2}), ir.OpRoll: attr("shifts", []int64{-7, 0, 11}), ir.OpUnsqueeze: attr("axes", []int64{1}), ir.OpSqueeze: attr("axes", []int64{1}),
	} {
		s.unary(op, "", three, plain, wide, a).allDTypes().inSmokeTest()
		s.unary(op, "", three, viewed, wide, a)
		s.unary(op, "", three, stepped, wide, a)
	}
	s.add(ir.OpSlice, "7x13/of slice", func(b *builder, t ir.DType) *ir.Node {
		return b.slice(b.arg(t, []int{9, 15}, stepped, wide), []int{3, 5}, 2, 2)
	}).allDTypes().inSmokeTest()
	s.add(ir.OpSlice, "blocks", func(b *builder, t ir.DType) *ir.Node {
		x := b.leaf(ir.OpWeight, ir.Q8_0, []int{5, 64}, small, 0)
		return b.view(ir.OpDequantize,
			b.view(ir.OpSlice, x, attr("starts", []int64{1, 0}), attr("limits", ir.ShapeOf(4, 64))), attr("dtype", t))
	})
}

func (s *suite) viewCase(op ir.Op, dims []int, a ir.Attr) { s.unary(op, "", dims, plain, wide, a) }

// Dtypes of indices.
var indexTypes = []ir.DType{ir.I32, ir.U32, ir.I64, ir.I8, ir.U8, ir.I16, ir.U16}

// indexing adds the cases of ops that move elements by computed indices.
func (s *suite) indexing() {
	for _, l := range []layout{plain, transposed, viewed, repeated} {
		s.gathers(l)
	}
	for _, it := range indexTypes {
		s.add(ir.OpGather, "indices "+it.String(), func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpGather, []*ir.Node{b.input(t, []int{5, 7}, small), b.indices(it, 5, 9, 7)})
		})
		s.add(ir.OpEmbedding, "ids "+it.String(), func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpEmbedding, []*ir.Node{b.input(t, []int{11, 67}, small), b.indices(it, 11, 2, 5)})
		}).allDTypes().inSmokeTest()
	}
	for _, dims := range [][]int{{0}, {1}, {1031}, {2, 3, 4, 5, 6}} {
		s.add(ir.OpGather, shapeName(dims), func(b *builder, t ir.DType) *ir.Node {
			from := append([]int{6}, dims[1:]...)
			return b.op(ir.OpGather, []*ir.Node{b.input(t, from, small), b.indices(ir.I32, 6, dims...)})
		})
	}
	s.quantized()
	s.concats()
	s.pads()
	s.dynamic()
}

// gathers adds the cases of gather and index_select for arguments with a layout.
func (s *suite) gathers(l layout) {
	for axis := range 3 {
		name := fmt.Sprintf("5x7x6/axis %d/%s", axis, layoutNames[l])
		from := []int{5, 7, 6}
		s.add(ir.OpGather, name, func(b *builder, t ir.DType) *ir.Node {
			to := append([]int{}, from...)
			to[axis] = 4
			return b.op(ir.OpGather, []*ir.Node{b.arg(t, from, l, wide), b.indices(ir.I32, from[axis], to...)},
				attr("axis", int64(axis)))
		}).allDTypesIf(l == plain)
		s.add(ir.OpIndexSelect, name, func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpIndexSelect, []*ir.Node{b.arg(t, from, l, wide), b.indices(ir.I32, from[axis], 11)},
				attr("axis", int64(axis)))
		}).allDTypesIf(l == plain)
		s.add(ir.OpGatherND, fmt.Sprintf("5x7x6/%d axes/%s", axis+1, layoutNames[l]),
			func(b *builder, t ir.DType) *ir.Node {
				return b.op(ir.OpGatherND, []*ir.Node{b.arg(t, from, l, wide), b.indices(ir.I32, 6, 2, 3, axis+1)})
			}).allDTypesIf(l == plain)
	}
}

// allDTypesIf calls allDTypes and inSmokeTest if ok is true.
func (t *template) allDTypesIf(ok bool) *template {
	t.broad, t.smoke = t.broad || ok, t.smoke || ok
	return t
}

// quantized adds the cases of block dtypes: dequantize, embedding tables and matmuls.
func (s *suite) quantized() {
	for _, q := range ir.DTypes() {
		if !q.IsBlock() {
			continue
		}
		for _, rows := range []int{1, 5} {
			s.add(ir.OpDequantize, fmt.Sprintf("%s/%dx512", q, rows), func(b *builder, t ir.DType) *ir.Node {
				return b.view(ir.OpDequantize, b.leaf(ir.OpWeight, q, []int{rows, 512}, small, 0), attr("dtype", t))
			}).smoke = q == ir.Q8_0 || q == ir.Q4_0
		}
		s.add(ir.OpEmbedding, fmt.Sprintf("%s/7x256", q), func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpEmbedding, []*ir.Node{b.leaf(ir.OpWeight, q, []int{7, 256}, small, 0),
				b.indices(ir.I32, 7, 9)}, attr("dtype", t))
		})
		// Each number of matvec rows up to 8 has a kernel of its own; 33 rows use one with tiles.
		for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 8, 33} {
			s.add(ir.OpMatMul, fmt.Sprintf("%s/%dx512 by 13", q, rows), func(b *builder, t ir.DType) *ir.Node {
				return b.op(ir.OpMatMul, []*ir.Node{b.input(t, []int{rows, 512}, small),
					b.leaf(ir.OpWeight, q, []int{13, 512}, small, 0)}, attr("transpose_b", true))
			}).smoke = rows == 1
		}
		for _, shapes := range [][2][]int{ // blocks along the columns of the result, and batches of matrices
			{{1, 40}, {40, 256}}, {{33, 40}, {40, 512}}, {{2, 3, 40}, {2, 40, 256}},
			{{2, 1, 256}, {2, 13, 256}}, {{3, 35, 256}, {3, 67, 256}},
		} {
			a, w := shapes[0], shapes[1]
			s.add(ir.OpMatMul, fmt.Sprintf("%s/%s by %s", q, shapeName(a), shapeName(w)),
				func(b *builder, t ir.DType) *ir.Node {
					return b.op(ir.OpMatMul, []*ir.Node{b.input(t, a, small), b.leaf(ir.OpWeight, q, w, small, 0)},
						attr("transpose_b", w[len(w)-1] == a[len(a)-1]))
				})
		}
		s.add(ir.OpMatMul, fmt.Sprintf("%s/dequantized/2x256 by 37", q), func(b *builder, t ir.DType) *ir.Node {
			w := b.view(ir.OpDequantize, b.leaf(ir.OpWeight, q, []int{37, 256}, small, 0), attr("dtype", t))
			return b.op(ir.OpMatMul, []*ir.Node{b.input(t, []int{2, 256}, small), w}, attr("transpose_b", true))
		})
	}
	s.blockRows()
	s.add(ir.OpDequantize, "q8_0/2x64", func(b *builder, t ir.DType) *ir.Node {
		return b.view(ir.OpDequantize, b.leaf(ir.OpWeight, ir.Q8_0, []int{2, 64}, small, 0), attr("dtype", t))
	}).allDTypes()
}

// blockRows adds matmuls in which the rows of argument a are block-quantized. The weights are in each block format or
// in floats, or blocks lie along another axis. Other cases quantize the rows in the graph, or allow int8 rows.
func (s *suite) blockRows() {
	matmul := func(name string, a, w ir.DType, m, k int, attrs ...ir.Attr) *template {
		name = fmt.Sprintf("%s by %s/%dx37x%d%s", a, w, m, k, name)
		t := s.add(ir.OpMatMul, name, func(b *builder, _ ir.DType) *ir.Node {
			return b.op(ir.OpMatMul, []*ir.Node{b.leaf(ir.OpWeight, a, []int{m, k}, small, 0),
				b.leaf(ir.OpWeight, w, []int{37, k}, small, 0)},
				append(attrs, attr("transpose_b", true))...)
		})
		t.types = []ir.DType{ir.F32}
		return t
	}
	for _, q := range ir.DTypes() {
		if q.IsBlock() {
			matmul("", ir.Q8_0, q, 3, 256)
			matmul("", q, ir.F16, 2, 256).smoke = q == ir.Q4_0
		}
	}
	for _, m := range []int{1, 40} {
		matmul("", ir.Q8_1, ir.Q4_0, m, 256).smoke = true
		for _, a := range []ir.DType{ir.Q8_0, ir.Q8_1} {
			matmul("/int8", a, ir.Q4_K, m, 512, attr("precision", ir.PrecisionBytes))
		}
	}
	for _, p := range []string{ir.PrecisionFull, ir.PrecisionBytes} {
		s.add(ir.OpMatMul, "q8_0 on the way by q4_0/5x37x64/"+p, func(b *builder, t ir.DType) *ir.Node {
			a := b.view(ir.OpQuantize, b.input(t, []int{5, 64}, small), attr("dtype", ir.Q8_0))
			return b.op(ir.OpMatMul, []*ir.Node{a, b.leaf(ir.OpWeight, ir.Q4_0, []int{37, 64}, small, 0)},
				attr("transpose_b", true), attr("precision", p))
		}).smoke = p == ir.PrecisionFull
	}
	s.add(ir.OpMatMul, "q4_0 columns by q8_0/64x37x33", func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpMatMul, []*ir.Node{b.leaf(ir.OpWeight, ir.Q4_0, []int{33, 64}, small, 0),
			b.leaf(ir.OpWeight, ir.Q8_0, []int{33, 96}, small, 0)}, attr("transpose_a", true))
	}).types = []ir.DType{ir.F32}
}

// concats adds the cases of concat.
func (s *suite) concats() {
	for axis := range 3 {
		s.add(ir.OpConcat, fmt.Sprintf("of 3/axis %d", axis), func(b *builder, t ir.DType) *ir.Node {
			var list []*ir.Node
			for i, l := range []layout{plain, transposed, stepped} {
				dims := []int{3, 4, 5}
				dims[axis] = 7 * i // the first is empty
				list = append(list, b.arg(t, dims, l, wide))
			}
			return b.op(ir.OpConcat, list, attr("axis", int64(axis)))
		}).allDTypes().inSmokeTest()
	}
	for _, dims := range [][]int{{1031}, {67, 129}, {2, 1, 2, 3, 2, 5}} {
		s.add(ir.OpConcat, shapeName(dims)+"/twice", func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpConcat, []*ir.Node{b.input(t, dims, wide), b.input(t, dims, wide)},
				attr("axis", int64(-1)))
		})
	}
	s.add(ir.OpConcat, "of 1", func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpConcat, []*ir.Node{b.input(t, []int{4}, wide)})
	})
}

// pads adds the cases of pad.
func (s *suite) pads() {
	for _, mode := range []string{"constant", "reflect", "replicate", "wrap"} {
		attrs := []ir.Attr{attr("low", []int64{2, 0}), attr("high", []int64{9, 5}), attr("mode", mode)}
		s.unary(ir.OpPad, mode, []int{3, 4}, plain, wide, attrs...).allDTypes().inSmokeTest()
		s.unary(ir.OpPad, mode, []int{1, 1}, plain, wide, attrs...)
		s.unary(ir.OpPad, mode, []int{67, 129}, plain, wide, attrs...)
		s.unary(ir.OpPad, mode, []int{13, 17}, viewed, wide, attrs...)
		s.unary(ir.OpPad, mode, []int{3}, plain, wide, attr("low", []int64{1}), attr("high", []int64{1}),
			attr("mode", mode))
		s.unary(ir.OpPad, mode, nil, plain, wide, attr("low", []int64{}), attr("high", []int64{}), attr("mode", mode))
	}
	s.unary(ir.OpPad, "of nothing", []int{0, 3}, plain, wide, attr("low", []int64{2, 0}), attr("high", []int64{1, 1}),
		attr("value", 3.0))
	s.unary(ir.OpPad, "with 7", []int{2, 3}, plain, wide, attr("low", []int64{1, 1}), attr("high", []int64{1, 1}),
		attr("value", 7.0)).allDTypes()
}

// dynamic adds the cases of dynamic_slice and dynamic_update_slice.
func (s *suite) dynamic() {
	for axis := range 2 {
		for _, l := range []layout{plain, viewed} {
			for n := range 3 { // other starts, some clamped
				name := fmt.Sprintf("9x11/axis %d/%s/%d", axis, layoutNames[l], n)
				s.add(ir.OpDynamicSlice, name, func(b *builder, t ir.DType) *ir.Node {
					return b.op(ir.OpDynamicSlice, []*ir.Node{b.arg(t, []int{9, 11}, l, wide), b.indices(ir.I32, 9)},
						attr("axis", int64(axis)), attr("size", ir.ShapeOf(4)))
				}).allDTypesIf(l == plain && n == 0)
				s.add(ir.OpDynamicUpdateSlice, name, func(b *builder, t ir.DType) *ir.Node {
					upd := []int{9, 11}
					upd[axis] = 3
					return b.op(ir.OpDynamicUpdateSlice,
						[]*ir.Node{b.arg(t, []int{9, 11}, l, wide), b.arg(t, upd, l, wide), b.indices(ir.I64, 9)},
						attr("axis", int64(axis)))
				}).allDTypesIf(l == plain && n == 0)
				s.add(ir.OpDynamicUpdateSlice, name+"/ring", func(b *builder, t ir.DType) *ir.Node {
					upd := []int{9, 11}
					upd[axis] = 5
					return b.op(ir.OpDynamicUpdateSlice,
						[]*ir.Node{b.arg(t, []int{9, 11}, l, wide), b.arg(t, upd, l, wide), b.indices(ir.I64, 40)},
						attr("axis", int64(axis)), attr("wrap", true))
				})
			}
		}
	}
}

// scatters adds cases of ops that write at computed indices, including equal and out-of-range ones.
func (s *suite) scatters() {
	for axis := range 2 {
		for _, l := range []layout{plain, transposed, viewed} {
			base, upd := []int{6, 7}, []int{6, 7}
			upd[axis] = 11
			name := fmt.Sprintf("6x7/axis %d/%s", axis, layoutNames[l])
			for _, op := range []ir.Op{ir.OpScatter, ir.OpScatterAdd} {
				s.add(op, name, func(b *builder, t ir.DType) *ir.Node {
					return b.op(op, []*ir.Node{b.arg(t, base, l, small), b.indices(ir.I32, base[axis], upd...),
						b.arg(t, upd, l, small)}, attr("axis", int64(axis)))
				}).allDTypesIf(l == plain)
			}
			s.add(ir.OpIndexAdd, name, func(b *builder, t ir.DType) *ir.Node {
				return b.op(ir.OpIndexAdd, []*ir.Node{b.arg(t, base, l, small), b.indices(ir.I32, base[axis], 11),
					b.arg(t, upd, l, small)}, attr("axis", int64(axis)))
			}).allDTypesIf(l == plain)
		}
	}
	s.scatterModes()
	s.manyScatters()
}

// scatterModes adds scatters of slices, and scatters that combine by each mode.
func (s *suite) scatterModes() {
	for _, op := range []ir.Op{ir.OpScatterND, ir.OpScatterNDAdd} {
		for axes := 1; axes <= 3; axes++ {
			s.add(op, fmt.Sprintf("4x5x6/%d axes", axes), func(b *builder, t ir.DType) *ir.Node {
				base := []int{4, 5, 6}
				upd := append([]int{13}, base[axes:]...)
				return b.op(op, []*ir.Node{b.input(t, base, small), b.indices(ir.I32, 4, 13, axes),
					b.input(t, upd, small)})
			}).allDTypesIf(axes == 2)
		}
	}
	for _, mode := range []string{"add", "mul", "min"} {
		wide := s.add(ir.OpScatterAdd, "8x5/by f32/"+mode, func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpScatterAdd, []*ir.Node{b.input(t, []int{8, 5}, nearOne), b.indices(ir.I32, 8, 13, 5),
				b.input(ir.F32, []int{13, 5}, nearOne)}, attr("mode", mode))
		}).allDTypes()
		wide.types = []ir.DType{ir.F16, ir.BF16}
	}
	for _, mode := range []string{"mul", "min", "max"} {
		s.add(ir.OpScatterAdd, "8x5/"+mode, func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpScatterAdd, []*ir.Node{b.input(t, []int{8, 5}, nearOne), b.indices(ir.I32, 8, 13, 5),
				b.input(t, []int{13, 5}, nearOne)}, attr("mode", mode))
		}).allDTypes().inSmokeTest()
		s.add(ir.OpScatterNDAdd, "4x5x6/"+mode, func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpScatterNDAdd, []*ir.Node{b.input(t, []int{4, 5, 6}, nearOne), b.indices(ir.I32, 4, 13, 2),
				b.input(t, []int{13, 6}, nearOne)}, attr("mode", mode))
		})
	}
	for _, n := range []int{0, 1, 1031} {
		s.add(ir.OpScatterAdd, fmt.Sprintf("%d updates", n), func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpScatterAdd, []*ir.Node{b.input(t, []int{67}, small), b.indices(ir.I32, 67, n),
				b.input(t, []int{n}, small)})
		})
	}
}

// manyScatters adds scatters of many updates. Comparing every index with every output would take too long, so kernels
// accumulate by atomics or sort the indices. The updates are rows or single elements, and hit one element, few or many.
func (s *suite) manyScatters() {
	scattered := func(mode string, places, updates int, v values) buildFunc {
		return func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpScatterAdd, []*ir.Node{b.input(t, []int{places}, v),
				b.indices(ir.I32, places, updates), b.input(t, []int{updates}, v)}, attr("mode", mode))
		}
	}
	for _, mode := range []string{"add", "mul", "min", "max"} {
		v := small
		if mode == "mul" {
			v = nearOne
		}
		s.add(ir.OpScatterAdd, "3000 places of 3001/"+mode, scattered(mode, 3000, 3001, v)).allDTypes()
	}
	s.add(ir.OpScatterAdd, "3000 places of 3001/special", scattered("add", 3000, 3001, sparse))
	for _, places := range []int{1, 37, 2047, 5000} { // in shared memory, which holds a window of the last
		name := fmt.Sprintf("%d places of 70001", places)
		s.add(ir.OpScatterAdd, name, scattered("add", places, 70001, small)).inSmokeTest().types =
			[]ir.DType{ir.F32, ir.I32, ir.F16, ir.I64}
		s.add(ir.OpScatterAdd, name+"/max", scattered("max", places, 70001, small)).types =
			[]ir.DType{ir.F32, ir.I32}
	}
	s.unorderedScatters()
	s.longScatters()
}

// unorderedScatters adds scatters of many updates that may be added up in any order.
func (s *suite) unorderedScatters() {
	unordered := func(places, updates int) buildFunc {
		return func(b *builder, t ir.DType) *ir.Node {
			return b.op(ir.OpScatterAdd, []*ir.Node{b.input(t, []int{places}, small),
				b.indices(ir.I32, places, updates), b.input(t, []int{updates}, small)}, attr("unordered", true))
		}
	}
	for _, size := range [][2]int{{3000, 3001}, {100003, 100000}, {37, 70001}, {1, 70001}} {
		s.add(ir.OpScatterAdd, fmt.Sprintf("%d places of %d/unordered", size[0], size[1]),
			unordered(size[0], size[1])).allDTypes()
	}
	s.add(ir.OpScatterAdd, "3000 places of 3001/unordered/special", func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpScatterAdd, []*ir.Node{b.input(t, []int{3000}, sparse), b.indices(ir.I32, 3000, 3001),
			b.input(t, []int{3001}, sparse)}, attr("unordered", true))
	})
	s.add(ir.OpIndexAdd, "3x400x5 rows of 1501/unordered", func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpIndexAdd, []*ir.Node{b.input(t, []int{3, 400, 5}, small), b.indices(ir.I32, 400, 1501),
			b.input(t, []int{3, 1501, 5}, small)}, attr("axis", int64(1)), attr("unordered", true))
	}).allDTypes()
	s.add(ir.OpScatterNDAdd, "40x50x130 rows of 2100/unordered", func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpScatterNDAdd, []*ir.Node{b.input(t, []int{40, 50, 130}, small), b.indices(ir.I32, 40, 2100, 2),
			b.input(t, []int{2100, 130}, small)}, attr("unordered", true))
	}).allDTypes()
}

// longScatters adds scatters of many updates that replace elements, or add rows in order.
func (s *suite) longScatters() {
	s.add(ir.OpScatter, "3000 places of 3001", func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpScatter, []*ir.Node{b.input(t, []int{3000}, small), b.indices(ir.I32, 3000, 3001),
			b.input(t, []int{3001}, small)})
	}).allDTypes()
	s.add(ir.OpIndexAdd, "3x400x5 rows of 1501", func(b *builder, t ir.DType) *ir.Node {
		return b.op(ir.OpIndexAdd, []*ir.Node{b.input(t, []int{3, 400, 5}, small), b.indices(ir.I32, 400, 1501),
			b.input(t, []int{3, 1501, 5}, small)}, attr("axis", int64(1)))
	}).allDTypes()
	for _, op := range []ir.Op{ir.OpScatterND, ir.OpScatterNDAdd} {
		s.add(op, "40x50x130 rows of 2100", func(b *builder, t ir.DType) *ir.Node { // more than a workgroup sorts
			return b.op(op, []*ir.Node{b.input(t, []int{40, 50, 130}, small), b.indices(ir.I32, 40, 2100, 2),
				b.input(t, []int{2100, 130}, small)})
		})
	}
}
