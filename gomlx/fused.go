package gomlx

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// FusedSoftmax implements compute.Function: the softmax of x along an axis.
func (f *Function) FusedSoftmax(x compute.Value, axis int) (compute.Value, error) {
	args, err := f.values(compute.OpTypeFusedSoftmax, x)
	if err != nil {
		return nil, err
	}
	if axis < 0 || axis >= args[0].shape.Rank() {
		return nil, errors.Errorf("FusedSoftmax: axis %d of shape %s", axis, args[0].shape)
	}
	return f.addOne(compute.OpTypeFusedSoftmax, args, args[0].shape, nil,
		one(func(in []tensor) tensor { return in[0].Softmax(axis) }))
}

// FusedGelu implements compute.Function: GELU of x, by erf if exact is true, or else by its tanh approximation.
func (f *Function) FusedGelu(x compute.Value, exact bool) (compute.Value, error) {
	args, err := f.values(compute.OpTypeFusedGelu, x)
	if err != nil {
		return nil, err
	}
	return f.addOne(compute.OpTypeFusedGelu, args, args[0].shape, nil, one(func(in []tensor) tensor {
		if exact {
			return in[0].GeluErf()
		}
		return in[0].Gelu()
	}))
}

// given returns the non-nil values.
func given(values ...compute.Value) []compute.Value {
	return slices.DeleteFunc(values, func(v compute.Value) bool { return v == nil })
}

// FusedLayerNorm implements compute.Function: (x-mean)/sqrt(variance+epsilon)*gamma+beta, with the mean and the
// variance over axes. gamma and beta may be nil.
func (f *Function) FusedLayerNorm(x compute.Value, axes []int, epsilon float64, gamma, beta compute.Value) (
	compute.Value, error) {
	args, err := f.values(compute.OpTypeFusedLayerNorm, append([]compute.Value{x}, given(gamma, beta)...)...)
	if err != nil {
		return nil, err
	}
	axes = positive(axes, args[0].shape.Rank())
	return f.addOne(compute.OpTypeFusedLayerNorm, args, args[0].shape, nil, one(func(in []tensor) tensor {
		x, params := in[0], in[1:]
		// Move the axes to the back and merge them into one for op layer_norm.
		back := slices.Sorted(slices.Values(axes))
		perm := slices.Concat(axesExcept(x.Rank(), back), back)
		y := transpose(x, perm)
		kept := x.Rank() - len(back)
		var weight, bias tensor
		if gamma != nil {
			weight, params = params[0].Reshape(-1), params[1:]
		}
		if beta != nil {
			bias = params[0].Reshape(-1)
		}
		dims := y.Shape()
		y = y.Reshape(dims[:kept], numel(y, firstAxes(x.Rank())[kept:]))
		if weight.IsZero() && !bias.IsZero() { // op layer_norm has no bias without a weight
			y = y.LayerNorm(tensor{}, tensor{}, epsilon).Add(bias)
		} else {
			y = y.LayerNorm(weight, bias, epsilon)
		}
		return transpose(y.Reshape(dims), inverse(perm))
	}))
}

// activations are the functions that may follow a matmul.
var activations = map[compute.ActivationType]func(tensor) tensor{
	compute.ActivationNone:      identity,
	compute.ActivationGelu:      tensor.GeluErf,
	compute.ActivationRelu:      tensor.Relu,
	compute.ActivationSilu:      tensor.Silu,
	compute.ActivationHardSwish: tensor.Hardswish,
	compute.ActivationTanh:      tensor.Tanh,
}

// FusedDense implements compute.Function: activation(x·weight + bias), over the last axis of x and the first or last of
// the weight.
func (f *Function) FusedDense(x, weight, bias compute.Value, config compute.DenseConfig) (compute.Value, error) {
	kind := compute.OpTypeFusedDense
	args, err := f.values(kind, append([]compute.Value{x, weight}, given(bias)...)...)
	if err != nil {
		return nil, err
	}
	xShape, weightShape := args[0].shape, args[1].shape
	activation, ok := activations[config.Activation]
	switch {
	case !ok:
		return nil, errors.Wrapf(compute.ErrNotImplemented, "%s: activation %s", kind, config.Activation)
	case xShape.Rank() < 1 || weightShape.Rank() < 2:
		return nil, errors.Errorf("%s: x is %s and the weight %s: want an axis and two at least", kind, xShape,
			weightShape)
	}
	transposed := config.WeightLayout == compute.DenseLayoutOutputsInput
	input, outputs := weightShape.Dimensions[0], weightShape.Dimensions[1:] // the extents of the weight's axes
	if last := weightShape.Rank() - 1; transposed {
		input, outputs = weightShape.Dimensions[last], weightShape.Dimensions[:last]
	}
	last := xShape.Rank() - 1
	if have := xShape.Dimensions[last]; have != input {
		return nil, errors.Errorf("%s: x is %s and the weight %s: the contracted extents are %d and %d", kind, xShape,
			weightShape, have, input)
	}
	shape := xShape.Clone()
	shape.Dimensions = slices.Concat(shape.Dimensions[:last], outputs)
	if shape.AxisNames != nil {
		shape.AxisNames = slices.Concat(shape.AxisNames[:last], make([]string, len(outputs)))
	}
	return f.addOne(kind, args, shape, nil, func(l *lowering, in []tensor) []tensor {
		x, w := in[0], in[1]
		dims := l.dims(shape)
		rows := x.Shape()[:x.Rank()-1]
		if x.Rank() == 1 {
			x = x.Unsqueeze(0) // a vector becomes a matrix of one row
		}
		var y tensor
		if k := x.Dim(-1); transposed {
			y = x.MatMulT(w.Reshape(-1, k))
		} else {
			y = x.MatMul(w.Reshape(k, -1))
		}
		y = y.Reshape(rows, -1)
		if bias != nil {
			y = y.Add(in[2].Reshape(-1))
		}
		return []tensor{activation(y).Reshape(dims)}
	})
}

// FusedAttentionQKVProjection implements compute.Function: it multiplies x by the matrices for query, key and value,
// which are side by side in weight, and adds the biases that are not nil.
func (f *Function) FusedAttentionQKVProjection(x, weight, biasQ, biasK, biasV compute.Value,
	queryDim, keyValueDim int) (query, key, value compute.Value, err error) {
	kind := compute.OpTypeFusedAttentionQKVProjection
	args, err := f.values(kind, append([]compute.Value{x, weight}, given(biasQ, biasK, biasV)...)...)
	if err != nil {
		return nil, nil, nil, err
	}
	xShape, weightShape, columns := args[0].shape, args[1].shape, queryDim+2*keyValueDim
	if xShape.Rank() != 2 || weightShape.Rank() != 2 || weightShape.Dimensions[1] != columns {
		return nil, nil, nil, errors.Errorf("%s: x is %s and the weight %s: want two axes, and %d columns", kind, xShape,
			weightShape, columns)
	}
	shapesOfParts := make([]shapes.Shape, 3)
	for i, n := range []int{queryDim, keyValueDim, keyValueDim} {
		shapesOfParts[i] = xShape.Clone()
		shapesOfParts[i].Dimensions[1] = n
	}
	results, err := f.add(kind, args, func(_ *lowering, in []tensor) []tensor {
		parts := in[0].MatMul(in[1]).Split(1, queryDim, keyValueDim, keyValueDim)
		biases := in[2:] // only the ones that are not nil
		for i, bias := range []compute.Value{biasQ, biasK, biasV} {
			if bias != nil {
				parts[i], biases = parts[i].Add(biases[0]), biases[1:]
			}
		}
		return parts
	}, shapesOfParts...)
	if err != nil {
		return nil, nil, nil, err
	}
	return results[0], results[1], results[2], nil
}

// attention is the operands of an attention among the arguments of an operation.
type attention struct {
	layout  compute.AttentionAxesLayout
	options compute.ScaledDotProductAttentionConfig
}

// operands lists query, key, value, and the optional operands that are present.
func (a *attention) operands(query, key, value compute.Value) []compute.Value {
	o := a.options
	return append([]compute.Value{query, key, value}, given(o.Mask, o.Bias, o.QuerySeqLen, o.KeyValueSeqLen)...)
}

// joined returns f(a, b), or b if a is the zero tensor.
func joined(a, b tensor, f func(a, b tensor) tensor) tensor {
	if a.IsZero() {
		return b
	}
	return f(a, b)
}

// build writes the attention. Its axes are batch, heads, positions and elements, whatever the layout.
func (a *attention) build(in []tensor) tensor {
	swap := func(t tensor) tensor {
		if a.layout == compute.AttentionAxesLayoutBSHD {
			return t.SwapAxes(1, 2)
		}
		return t
	}
	q, k, v := swap(in[0]), swap(in[1]), swap(in[2])
	mask, bias, queries, keys := a.optional(in[3:])
	b, rows, columns := q.Builder(), q.Dim(2), k.Dim(2)
	var options []frontend.AttentionOption
	if a.options.Scale != 0 {
		options = append(options, frontend.Scale(a.options.Scale))
	}
	// seen marks the keys that a query sees, and scores are added to the attention scores. The zero tensor is for none.
	var seen, scores tensor
	switch {
	case mask.IsZero():
	case mask.DType() == ir.Bool:
		seen = mask
	default:
		scores = cast(mask, q.DType())
	}
	if !bias.IsZero() {
		scores = joined(scores, cast(bias, q.DType()), tensor.Add)
	}
	switch {
	case a.options.Causal && rows == columns && seen.IsZero() && queries.IsZero():
		options = append(options, frontend.Causal())
	// frontend.Causal aligns the last query with the last key, and GoMLX aligns the first ones.
	case a.options.Causal:
		seen = joined(seen, b.Iota(ir.I32, 1, rows, columns).Le(b.Iota(ir.I32, 0, rows, columns)), tensor.And)
	}
	if !queries.IsZero() {
		within := func(lengths tensor, axis int) tensor {
			return b.Iota(ir.I32, axis, 1, 1, rows, columns).Lt(cast(lengths, ir.I32).Reshape(-1, 1, 1, 1))
		}
		seen = joined(seen, within(queries, 2).And(within(keys, 3)), tensor.And)
	}
	if !seen.IsZero() && !scores.IsZero() {
		seen, scores = tensor{}, seen.Where(scores, scores.Lit(bound(scores.DType(), -1)))
	}
	for _, mask := range []tensor{seen, scores} { // at most one of them is left
		if !mask.IsZero() {
			options = append(options, frontend.Mask(mask))
		}
	}
	y := q.Attention(k, v, options...)
	if !queries.IsZero() { // padding sees nothing and is 0
		valid := b.Iota(ir.I32, 2, 1, 1, rows, 1).Lt(cast(queries, ir.I32).Reshape(-1, 1, 1, 1))
		y = valid.Where(y, y.Lit(0))
	}
	return swap(y)
}

// optional returns the operands after query, key and value. rest has only the given ones, in this order; the others are
// the zero tensor.
func (a *attention) optional(rest []tensor) (mask, bias, queries, keys tensor) {
	o := a.options
	for _, operand := range []struct {
		given compute.Value
		to    *tensor
	}{{o.Mask, &mask}, {o.Bias, &bias}, {o.QuerySeqLen, &queries}, {o.KeyValueSeqLen, &keys}} {
		if operand.given != nil {
			*operand.to, rest = rest[0], rest[1:]
		}
	}
	return mask, bias, queries, keys
}

// newAttention returns an attention with the given order of axes. options may be nil for the defaults.
func newAttention(layout compute.AttentionAxesLayout, options *compute.ScaledDotProductAttentionConfig) *attention {
	a := &attention{layout: layout}
	if options != nil {
		a.options = *options
	}
	return a
}

// check returns an error for operands that an attention cannot have.
func (a *attention) check(kind compute.OpType, args []*value) error {
	o := a.options
	for i, name := range []string{"query", "key", "value"} {
		if s := args[i].shape; s.Rank() != 4 {
			return errors.Errorf("%s: the %s is %s: want four axes", kind, name, s)
		}
	}
	if (o.QuerySeqLen == nil) != (o.KeyValueSeqLen == nil) {
		return errors.Errorf("%s: QuerySeqLen and KeyValueSeqLen go together", kind)
	}
	return nil
}

// FusedScaledDotProductAttention implements compute.Function. Its gradient recomputes everything from the operands, so
// that it returns only the result as a state for the gradient.
func (f *Function) FusedScaledDotProductAttention(query, key, value compute.Value, layout compute.AttentionAxesLayout,
	options *compute.ScaledDotProductAttentionConfig) (compute.Value, []compute.Value, error) {
	kind := compute.OpTypeFusedScaledDotProductAttention
	a := newAttention(layout, options)
	args, err := f.values(kind, a.operands(query, key, value)...)
	if err == nil {
		err = a.check(kind, args)
	}
	if err != nil {
		return nil, nil, err
	}
	shape := args[0].shape.Clone()
	shape.Dimensions[3] = args[2].shape.Dimensions[3]
	y, err := f.addOne(kind, args, shape, nil, one(a.build))
	if err != nil {
		return nil, nil, err
	}
	return y, []compute.Value{y}, nil
}

// FusedScaledDotProductAttentionVJP implements compute.Function: the gradients with respect to query, key and value,
// for a gradient of the attention's result.
func (f *Function) FusedScaledDotProductAttentionVJP(query, key, value compute.Value,
	layout compute.AttentionAxesLayout,
	options *compute.ScaledDotProductAttentionConfig, _ compute.Value, _ []compute.Value, gradient compute.Value) (
	dQuery, dKey, dValue compute.Value, err error) {
	kind := compute.OpTypeFusedScaledDotProductAttentionVJP
	a := newAttention(layout, options)
	args, err := f.values(kind, append(a.operands(query, key, value), gradient)...)
	if err == nil {
		err = a.check(kind, args)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	results, err := f.add(kind, args, func(_ *lowering, in []tensor) []tensor {
		// Each operand needs its own parameter, even if two operands are the same value.
		operands := slices.Clone(in[:len(in)-1])
		for i := range 3 {
			operands[i] = operands[i].Reshape(operands[i].Shape())
		}
		y := a.build(operands)
		return frontend.VJP([]tensor{y}, []tensor{in[len(in)-1]}, operands[:3]...)
	}, args[0].shape, args[1].shape, args[2].shape)
	if err != nil {
		return nil, nil, nil, err
	}
	return results[0], results[1], results[2], nil
}

// normalized returns (x-mean)*rsqrt(variance+eps). mean and variance have an element for each channel, along one axis
// of x.
func normalized(x, mean, variance tensor, epsilon float32, axis int) tensor {
	c := func(t tensor) tensor { return spread(t, []int{axis}, x.Rank()) }
	return x.Sub(c(mean)).Mul(c(variance.AddScalar(float64(epsilon)).Rsqrt()))
}

// BatchNormForInference implements compute.Function: (x-mean)/sqrt(variance+epsilon)*scale+offset. The four parameters
// are vectors with an element for each coordinate of x along axis.
func (f *Function) BatchNormForInference(x, scale, offset, mean, variance compute.Value, epsilon float32, axis int) (
	compute.Value, error) {
	kind := compute.OpTypeBatchNormForInference
	args, err := f.values(kind, x, scale, offset, mean, variance)
	if err != nil {
		return nil, err
	}
	return f.addOne(kind, args, args[0].shape, nil, one(func(in []tensor) tensor {
		c := func(t tensor) tensor { return spread(t, []int{axis}, in[0].Rank()) }
		return normalized(in[0], in[3], in[4], epsilon, axis).Mul(c(in[1])).Add(c(in[2]))
	}))
}

// BatchNormForTraining implements compute.Function: it normalizes x by the mean and the variance over all axes but one,
// and returns these too.
func (f *Function) BatchNormForTraining(x, scale, offset compute.Value, epsilon float32, axis int) (
	y, batchMean, batchVariance compute.Value, err error) {
	kind := compute.OpTypeBatchNormForTraining
	args, err := f.values(kind, x, scale, offset)
	if err != nil {
		return nil, nil, nil, err
	}
	statistic := args[1].shape
	results, err := f.add(kind, args, func(_ *lowering, in []tensor) []tensor {
		c := func(t tensor) tensor { return spread(t, []int{axis}, in[0].Rank()) }
		others := slices.Delete(firstAxes(in[0].Rank()), axis, axis+1)
		mean, variance := in[0].Mean(others...), in[0].Variance(0, others...)
		factor := variance.AddScalar(float64(epsilon)).Rsqrt().Mul(in[1])
		y := in[0].Deviations(others...).Mul(c(factor)).Add(c(in[2]))
		return []tensor{y, mean, variance}
	}, args[0].shape, statistic, statistic)
	if err != nil {
		return nil, nil, nil, err
	}
	return results[0], results[1], results[2], nil
}

// BatchNormGradient implements compute.Function: the gradients of BatchNormForTraining with respect to x, scale and
// offset, for the gradient of its first result. mean and variance are its other results.
func (f *Function) BatchNormGradient(x, scale, mean, variance, gradient compute.Value, epsilon float32, axis int) (
	dX, dScale, dOffset compute.Value, err error) {
	kind := compute.OpTypeBatchNormGradient
	args, err := f.values(kind, x, scale, mean, variance, gradient)
	if err != nil {
		return nil, nil, nil, err
	}
	results, err := f.add(kind, args, func(_ *lowering, in []tensor) []tensor {
		x, scale, mean, variance, dy := in[0], in[1], in[2], in[3], in[4]
		c := func(t tensor) tensor { return spread(t, []int{axis}, x.Rank()) }
		others := slices.Delete(firstAxes(x.Rank()), axis, axis+1)
		// The mean and the variance are functions of x, so subtract their gradients (Ioffe and Szegedy 2015, section
		// 3).
		unit := normalized(x, mean, variance, epsilon, axis)
		dOffset, dScale := dy.Sum(others...), dy.Mul(unit).Sum(others...)
		inner := dy.Sub(c(dy.Mean(others...))).Sub(unit.Mul(c(dy.Mul(unit).Mean(others...))))
		factor := scale.Mul(variance.AddScalar(float64(epsilon)).Rsqrt())
		return []tensor{inner.Mul(c(factor)), dScale, dOffset}
	}, args[0].shape, args[1].shape, args[1].shape)
	if err != nil {
		return nil, nil, nil, err
	}
	return results[0], results[1], results[2], nil
}
