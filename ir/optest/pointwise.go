package optest

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// elementwise adds the cases of elementwise ops.
func (s *suite) elementwise() {
	for _, op := range ir.Ops() {
		if op.Class() == ir.ClassElementwise && !op.Info().Converts() {
			s.pointwise(op, op.Info().SampleAttrs(0, true))
		}
	}
	s.ranges()
	s.casts()
	s.castChains()
	s.powers()
	s.negatives()
	s.opChains()
	s.integers()
}

// integers adds cases of ops with different rules for integers than for floats.
func (s *suite) integers() {
	one := func(op ir.Op, name string, attrs ...ir.Attr) {
		t := s.add(op, "integers/"+name, func(b *builder, t ir.DType) *ir.Node {
			return b.op(op, []*ir.Node{b.input(t, []int{extremeCount(t)}, extreme)}, attrs...)
		}).allDTypes().inSmokeTest()
		t.types = slices.DeleteFunc(slices.Clone(preferred), func(t ir.DType) bool { return !t.IsInteger() })
	}
	one(ir.OpClamp, "3 to 100", attr("min", 3.0), attr("max", 100.0))
	one(ir.OpClamp, "7 at most", attr("max", 7.0))
	one(ir.OpAffine, "3x+5", attr("mul", 3.0), attr("add", 5.0))
	for _, cond := range []ir.DType{ir.U8, ir.U32, ir.I64} {
		s.add(ir.OpWhere, "by "+cond.String(), func(b *builder, t ir.DType) *ir.Node {
			yes, no := b.arg(t, []int{7, 13}, plain, wide), b.arg(t, []int{13}, plain, wide)
			return b.op(ir.OpWhere, []*ir.Node{b.arg(cond, []int{7, 13}, plain, sparse), yes, no})
		}).smoke = cond == ir.U8
	}
}

// ranges adds functions on ranges of arguments for which they are hard to compute accurately: near zeros and poles,
// with large arguments, and near the ends of the dtype.
func (s *suite) ranges() {
	for _, r := range []struct {
		op       ir.Op
		from, to float64
		of       ir.DType
	}{
		{ir.OpAsin, -1, 1, ir.F32}, {ir.OpAcos, -1, 1, ir.F32}, {ir.OpAcos, 0.999, 1, ir.F32},
		{ir.OpAtan, -3, 3, ir.F32}, {ir.OpCosh, -1, 1, ir.F32}, {ir.OpCosh, 88.5, 89.41, ir.F32},
		{ir.OpSinh, 88.5, 89.41, ir.F32}, {ir.OpExp, 80, 88.72, ir.F32},
		{ir.OpExp, 700, 709.78, ir.F64}, {ir.OpCosh, 700, 710.47, ir.F64}, {ir.OpSinh, 700, 710.47, ir.F64},
		{ir.OpExp, -708, -690, ir.F64}, {ir.OpExp2, -1022, 1023.9, ir.F64}, {ir.OpExpm1, -1e-9, 1e-9, ir.F64},
		{ir.OpLog, 5e-324, 1e-310, ir.F64}, {ir.OpLog, 0.999999, 1.000001, ir.F64},
		{ir.OpLog2, 0.9999, 1.0001, ir.F64}, {ir.OpLog1p, -1e-9, 1e-9, ir.F64}, {ir.OpSigmoid, -709.7, 40, ir.F64},
		{ir.OpSin, 1e300, 1.7e308, ir.F64}, {ir.OpCos, -1e6, 1e6, ir.F64}, {ir.OpTan, 1.5707, 1.5708, ir.F64},
		{ir.OpAsin, -1, 1, ir.F64}, {ir.OpAcos, 0.999999, 1, ir.F64}, {ir.OpAtan, -3, 3, ir.F64},
		{ir.OpErf, -6, 6, ir.F64}, {ir.OpTanh, -1e-9, 1e-9, ir.F64},
	} {
		t := s.add(r.op, fmt.Sprintf("from %v to %v", r.from, r.to), func(b *builder, t ir.DType) *ir.Node {
			list := make([]float64, 1001)
			for i := range list {
				list[i] = r.from + (r.to-r.from)*float64(i)/float64(len(list)-1)
			}
			return b.op(r.op, []*ir.Node{b.given(t, list, len(list))})
		})
		t.smoke, t.types = r.of == ir.F32, []ir.DType{r.of}
	}
}

// pointwise adds the cases of an elementwise op: all shapes, all layouts, and extreme values.
func (s *suite) pointwise(op ir.Op, attrs []ir.Attr) {
	args := len(op.Info().Args)
	build := func(dims []int, l layout, v values) buildFunc {
		return func(b *builder, t ir.DType) *ir.Node { return b.op(op, b.args(op, t, dims, l, v), attrs...) }
	}
	for _, dims := range argShapes {
		s.add(op, label(dims, plain, wide), build(dims, plain, wide))
	}
	for l := transposed; l < layouts; l++ {
		s.add(op, label([]int{13, 17}, l, wide), build([]int{13, 17}, l, wide))
	}
	s.add(op, label([]int{7, 13}, plain, wide), build([]int{7, 13}, plain, wide)).allDTypes().inSmokeTest()
	s.add(op, label([]int{2, 3, 5}, viewed, wide), build([]int{2, 3, 5}, viewed, wide)).allDTypes()
	if args > 1 {
		s.add(op, "5x1 with 7", func(b *builder, t ir.DType) *ir.Node {
			return b.op(op, b.outer(op, t, 5, 7, wide), attrs...)
		})
	}
	s.add(op, "extreme", func(b *builder, t ir.DType) *ir.Node { return b.op(op, b.extremeArgs(op, t), attrs...) }).
		allDTypes().inSmokeTest()
	for i := 1; i < op.Info().SampleCount(); i++ {
		more := op.Info().SampleAttrs(i, true)
		s.add(op, fmt.Sprintf("extreme/%v", ir.Attrs(more)), func(b *builder, t ir.DType) *ir.Node {
			return b.op(op, b.extremeArgs(op, t), more...)
		})
	}
}

// argType returns the dtype of argument i of an op with main arguments of dtype t.
func argType(op ir.Op, t ir.DType, i int) ir.DType {
	if op == ir.OpWhere && i == 0 {
		return ir.Bool
	}
	return t
}

// args adds all arguments of an elementwise op. Argument 1 has layout plain, so that different layouts are combined.
func (b *builder) args(op ir.Op, t ir.DType, dims []int, l layout, v values) []*ir.Node {
	var list []*ir.Node
	for i := range op.Info().Args {
		if i == 1 {
			list = append(list, b.arg(argType(op, t, i), dims, plain, v))
			continue
		}
		list = append(list, b.arg(argType(op, t, i), dims, l, v))
	}
	return list
}

// outer adds arguments [rows, 1] and [cols], which broadcast against each other.
func (b *builder) outer(op ir.Op, t ir.DType, rows, cols int, v values) []*ir.Node {
	var list []*ir.Node
	for i := range op.Info().Args {
		dims := []int{cols}
		if i == len(op.Info().Args)-2 {
			dims = []int{rows, 1}
		}
		list = append(list, b.arg(argType(op, t, i), dims, plain, v))
	}
	return list
}

// extremeArgs adds arguments that together hold every pair of extreme values. lerp gets small values instead, with a
// few infinities and NaNs, because its difference of the largest values overflows.
func (b *builder) extremeArgs(op ir.Op, t ir.DType) []*ir.Node {
	n := extremeCount(t)
	switch {
	case len(op.Info().Args) == 1:
		return []*ir.Node{b.input(t, []int{n}, extreme)}
	case op == ir.OpLerp:
		return b.outer(op, t, 7, 31, sparse)
	}
	return b.outer(op, t, n, n, extreme)
}

// casts adds the cases of cast and bitcast, from every dtype to every dtype.
func (s *suite) casts() {
	for _, to := range preferred {
		build := func(dims []int, l layout, v values) buildFunc {
			return func(b *builder, t ir.DType) *ir.Node {
				return b.view(ir.OpCast, b.arg(t, dims, l, v), attr("dtype", to))
			}
		}
		name := "to " + to.String() + "/"
		s.add(ir.OpCast, name+"7x13", build([]int{7, 13}, plain, wide)).allDTypes().inSmokeTest()
		s.add(ir.OpCast, name+"2x3x5/viewed", build([]int{2, 3, 5}, viewed, wide))
		s.add(ir.OpCast, name+"extreme", build([]int{len(extremes(ir.F32))}, plain, extreme)).allDTypes()
	}
	for _, to := range preferred {
		if to == ir.Bool {
			continue
		}
		name := "to " + to.String() + "/"
		s.add(ir.OpBitcast, name+"7x13", func(b *builder, t ir.DType) *ir.Node {
			return b.view(ir.OpBitcast, b.arg(t, []int{7, 13}, plain, wide), attr("dtype", to))
		}).allDTypes().inSmokeTest()
		if !to.IsFloat() { // and back, since one NaN may become another
			back := s.add(ir.OpBitcast, name+"extreme", func(b *builder, t ir.DType) *ir.Node {
				x := b.input(t, []int{extremeCount(t)}, extreme)
				return b.view(ir.OpBitcast, b.view(ir.OpBitcast, x, attr("dtype", to)), attr("dtype", t))
			}).allDTypes()
			back.mayBeRefused = to.StorageOnly()
			back.types = slices.DeleteFunc(slices.Clone(preferred), func(t ir.DType) bool { return !t.IsFloat() })
		}
		sum := s.add(ir.OpBitcast, name+"of a sum", func(b *builder, t ir.DType) *ir.Node {
			x := b.arg(t, []int{2, 3, 5}, viewed, small)
			return b.view(ir.OpBitcast, b.op(ir.OpAdd, []*ir.Node{x, x}), attr("dtype", to))
		}).allDTypes()
		sum.mayBeRefused = to.StorageOnly()
	}
	for _, dims := range argShapes {
		s.unary(ir.OpBitcast, "to i32", dims, plain, wide, attr("dtype", ir.I32))
		s.unary(ir.OpCast, "to i32", dims, plain, wide, attr("dtype", ir.I32))
	}
}

// leaves adds the cases of inputs, weights, constants, states, iota and dim_value.
func (s *suite) leaves() {
	for _, op := range []ir.Op{ir.OpInput, ir.OpWeight} {
		for _, dims := range argShapes {
			s.add(op, shapeName(dims), func(b *builder, t ir.DType) *ir.Node { return b.leaf(op, t, dims, wide, 0) })
		}
		s.add(op, "extreme", func(b *builder, t ir.DType) *ir.Node {
			return b.leaf(op, t, []int{extremeCount(t)}, extreme, 0)
		}).allDTypes().inSmokeTest()
	}
	s.constants()
	s.add(ir.OpState, "7x13", state([]int{7, 13})).allDTypes().inSmokeTest()
	s.add(ir.OpState, "scalar", state(nil))
	for _, dims := range argShapes {
		for axis := range dims {
			s.add(ir.OpIota, fmt.Sprintf("%s/axis %d", shapeName(dims), axis), func(b *builder, t ir.DType) *ir.Node {
				return b.iota(t, dims, axis)
			})
		}
	}
	s.add(ir.OpIota, "7x13/axis 1", func(b *builder, t ir.DType) *ir.Node {
		return b.iota(t, []int{7, 13}, 1)
	}).allDTypes().inSmokeTest()
	for _, n := range []int{0, 1, 5} {
		s.dimValue(n)
	}
}

func (b *builder) iota(t ir.DType, dims []int, axis int) *ir.Node {
	return b.op(ir.OpIota, nil, attr("dtype", t), attr("shape", ir.ShapeOf(dims...)), attr("axis", int64(axis)))
}

// constants adds the cases of const.
func (s *suite) constants() {
	constant := func(dims []int, v values) buildFunc {
		return func(b *builder, t ir.DType) *ir.Node {
			d, err := tensor(b.rng, t, dims, v, 0)
			if err != nil {
				b.err = err
				return nil
			}
			return b.op(ir.OpConst, nil, attr("data", d))
		}
	}
	for _, dims := range argShapes {
		s.add(ir.OpConst, shapeName(dims), constant(dims, wide))
	}
	s.add(ir.OpConst, "extreme", constant([]int{len(extremes(ir.F32))}, extreme)).allDTypes().inSmokeTest()
}

// state adds a state and an update by an input: the first run outputs zeros, the second the first run's input.
func state(dims []int) buildFunc {
	return func(b *builder, t ir.DType) *ir.Node {
		st := b.leaf(ir.OpState, t, dims, wide, 0)
		x := b.input(t, dims, wide)
		if b.err == nil {
			b.err = b.g.Update(st, x)
		}
		return st
	}
}

// dimValue adds a case with a symbol of value n.
func (s *suite) dimValue(n int) {
	t := s.add(ir.OpDimValue, fmt.Sprintf("2*T+3 of T=%d", n), func(b *builder, t ir.DType) *ir.Node {
		symbol := ir.Symbol("T_"+b.prefix, 8)
		b.leaves++
		name := b.prefix + ".x"
		b.op(ir.OpInput, nil, attr("name", name), attr("dtype", t), attr("shape", ir.Shape{symbol}))
		if b.err == nil && !b.typesOnly {
			b.inputs[name], b.err = tensor(b.rng, t, []int{n}, small, 0)
		}
		return b.op(ir.OpDimValue, nil, attr("dim", ir.Shape{symbol.Times(2).Plus(3)}))
	})
	t.types, t.smoke = []ir.DType{ir.I32}, n == 5
}
