package onnx

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// A foundRule says how an op treats inputs that are valid only in part (see validPart). It labels axes as the letters
// of an einsum do. The labels say which axes of the results are valid in part.
type foundRule struct {
	labels func(c *call) labels
	// neutral returns the value that replaces the invalid elements of input i along a folded axis, for example 0 for a
	// sum. An infinity stands for the least or the largest number of the dtype. Means and norms also divide by the
	// number of valid elements; see call.mean.
	neutral func(c *call, i int) float64
	// along, if set, builds a node that moves elements of input 0 along an axis that is valid in part. It returns nil
	// for other nodes. joins says that it also moves the elements of other inputs, and not only if input 0 is valid in
	// part.
	along func(c *call) []*value
	joins bool
}

// labels are labels for the axes of a node's inputs and results. Axes with equal labels have equal extents, or 1. If
// an axis of an input is valid in part, then so are the axes of the results with this label.
type labels struct {
	in, out [][]int // the label of each axis, by input or result
	folded  []int   // labels of axes along which a result's element depends on all elements
}

// opaque is the label of an axis that must be valid as a whole. Otherwise hideInvalid refuses the node.
const opaque = -1

// neutrally returns a function for foundRule.neutral: one value for all inputs.
func neutrally(value float64) func(c *call, i int) float64 {
	return func(*call, int) float64 { return value }
}

var least, largest = neutrally(math.Inf(-1)), neutrally(math.Inf(1))

// foundRules has the rules of all ops that accept inputs with a valid part, except elementwise ops and ops with
// row.takesPartlyValid. Other ops refuse such inputs. The keys are as Node.op returns them, with the domain.
var foundRules = map[string]foundRule{}

// init adds the ops that move elements. Declarations cannot have these rules, because their functions refer to tables
// of rows.
func init() {
	maps.Copy(foundRules, map[string]foundRule{
		"Transpose":      {labels: transposeLabels},
		"Gather":         {labels: gatherLabels, along: gatherAlong},
		"GatherND":       {labels: gatherNDLabels},
		"GatherElements": {labels: gatherElementsLabels},
		"Slice":          {labels: sliceLabels, along: sliceAlong},
		"Reshape":        {along: reshapeAlong},
		"Flatten":        {along: flattenAlong},
		"Shape":          {along: shapeAlong},
		"Size":           {along: sizeAlong},
		"Squeeze":        {labels: squeezeLabels},
		"Unsqueeze":      {labels: unsqueezeLabels},
		"Concat":         {labels: concatLabels, along: concatAlong, joins: true},
		"Split":          {labels: splitLabels},
		"OneHot":         {labels: oneHotLabels},
		"Expand":         {along: expandAlong},
		"DepthToSpace":   {labels: lettered("b* -> b", ""), along: depthToSpaceAlong},
		"SpaceToDepth":   {labels: lettered("b* -> b", ""), along: spaceToDepthAlong},
		"CenterCropPad":  {labels: centerCropPadLabels},
		"Tile":           {along: tileAlong},
		"Pad":            {along: padAlong},
		"Unique":         {along: uniqueAlong},
	})
}

// init adds the ops that sample.
func init() {
	maps.Copy(foundRules, map[string]foundRule{
		"Resize":     {labels: resizeLabels, neutral: neutrally(0)},
		"Upsample":   {labels: resizeLabels, neutral: neutrally(0)},
		"GridSample": {labels: gridSampleLabels, neutral: neutrally(0)},
		"AffineGrid": {labels: lettered("b*,* -> b", "")},
		"RoiAlign":   {labels: lettered("-chw,r-,r -> rc", "hw"), neutral: neutrally(0)},
		"MaxRoiPool": {labels: lettered("-chw,r- -> rc", "hw"), neutral: least},
		"NonMaxSuppression": {labels: lettered("bn-,bcn -> ", "bcn"), neutral: func(_ *call, i int) float64 {
			return []float64{0, math.Inf(-1)}[i] // a box with this score is not chosen
		}},
	})
}

// init adds scatters and the ops that select.
func init() {
	maps.Copy(foundRules, map[string]foundRule{
		// Scatters skip an index out of range.
		"ScatterND":       {labels: scatterNDLabels, neutral: neutrally(math.MaxInt32)},
		"ScatterElements": {labels: scatterLabels, neutral: neutrally(math.MaxInt32)},
		"Scatter":         {labels: scatterLabels, neutral: neutrally(math.MaxInt32)},
		"TensorScatter":   {labels: lettered("b*,b*,b -> b", "")},
		"NonZero":         {labels: nonZeroLabels, neutral: neutrally(0)},
		"Compress":        {labels: compressLabels, neutral: neutrally(0)},
	})
}

// init adds softmaxes, scans and TopK.
func init() {
	maps.Copy(foundRules, map[string]foundRule{
		"Softmax":    {labels: axisLabels(-1), neutral: least},
		"LogSoftmax": {labels: axisLabels(-1), neutral: least},
		"Hardmax":    {labels: axisLabels(-1), neutral: least},
		"CumSum":     {labels: scanLabels, neutral: neutrally(0)},
		"CumProd":    {labels: scanLabels, neutral: neutrally(1)},
		"TopK": {labels: topKLabels, neutral: func(c *call, _ int) float64 {
			if c.intAttr("largest", 1) != 0 {
				return math.Inf(-1)
			}
			return math.Inf(1)
		}},
	})
}

// init adds norms, convolutions and pooling.
func init() {
	maps.Copy(foundRules, map[string]foundRule{
		"LayerNormalization":           {labels: axesFromLabels, neutral: neutrally(0)},
		"RMSNormalization":             {labels: axesFromLabels, neutral: neutrally(0)},
		"SimplifiedLayerNormalization": {labels: axesFromLabels, neutral: neutrally(0)},
		"LpNormalization":              {labels: axisLabels(-1), neutral: neutrally(0)},
		"MeanVarianceNormalization":    {labels: meanVarianceLabels, neutral: neutrally(0)},
		"InstanceNormalization":        {labels: instanceLabels, neutral: neutrally(0)},
		"GroupNormalization":           {labels: instanceLabels, neutral: neutrally(0)},
		"BatchNormalization":           {labels: batchNormLabels},
		"LRN":                          {labels: lrnLabels},
		"Conv":                         {labels: lettered("b* -> b", ""), along: slidingRule{conv, 0}.along},
		"ConvInteger":                  {labels: lettered("b* -> b", "")},
		"QLinearConv":                  {labels: lettered("b* -> b", "")},
		"DeformConv":                   {labels: lettered("b*,*,b*,*,b* -> b", "")},
		"CausalConvWithState":          {labels: lettered("b*,*,*,b* -> b,b", "")},
		"Col2Im":                       {labels: lettered("b* -> b", "")},
		"ConvTranspose":                {labels: lettered("b* -> b", ""), along: spreadAlong},
		"MaxPool":                      {labels: lettered("bc* -> bc", ""), along: maxPoolAlong},
		"AveragePool":                  {labels: lettered("bc* -> bc", ""), along: slidingRule{tensorOp(averagePool).build, 0}.along},
		"LpPool":                       {labels: lettered("bc* -> bc", ""), along: slidingRule{tensorOp(lpPool).build, 0}.along},
		"MaxUnpool":                    {labels: lettered("b*,b* -> b", ""), along: unpoolAlong},
		"GlobalAveragePool":            {labels: globalLabels, neutral: neutrally(0)},
		"GlobalLpPool":                 {labels: globalLabels, neutral: neutrally(0)},
		"GlobalMaxPool":                {labels: globalLabels, neutral: least},
	})
}

// init adds transforms, recurrent layers, attention and others.
func init() {
	maps.Copy(foundRules, map[string]foundRule{
		"DFT":       {labels: dftLabels},
		"STFT":      {labels: lettered("b* -> b", "")},
		"Det":       {labels: leadingLabels(2)},
		"RNN":       {labels: recurrentLabels, neutral: neutrally(0)},
		"GRU":       {labels: recurrentLabels, neutral: neutrally(0)},
		"LSTM":      {labels: recurrentLabels, neutral: neutrally(0)},
		"Attention": {labels: lettered("b*,b*,b*,b---,b*,b* -> b,b,b,b", "")},
		// Cosines and sines are [B, S, angles] or, with positions, [positions, angles].
		"RotaryEmbedding": {labels: lettered("b*,b--,b--,b- -> b", "")},
		"ReverseSequence": {labels: reverseSequenceLabels},
		"TfIdfVectorizer": {labels: lettered("b- -> b", "")},
		"Multinomial":     {labels: lettered("b- -> b", "")},
	})
}

// init adds quantization.
func init() {
	maps.Copy(foundRules, map[string]foundRule{
		"QuantizeLinear":        {labels: quantizeLabels},
		"DequantizeLinear":      {labels: quantizeLabels},
		"DynamicQuantizeLinear": {labels: dynamicQuantizeLabels, neutral: neutrally(0)}, // 0 is always in its range
		"MatMulInteger":         {labels: leadingLabels(1)},
		"QLinearMatMul":         {labels: leadingLabels(1)},
	})
}

// init adds products.
func init() {
	maps.Copy(foundRules, map[string]foundRule{
		"MatMul": {labels: matmulLabels, neutral: neutrally(0)},
		"Gemm":   {labels: gemmLabels, neutral: neutrally(0)},
		"Einsum": {labels: einsumLabels, neutral: neutrally(0)},
	})
}

// init adds reductions.
func init() {
	maps.Copy(foundRules, map[string]foundRule{
		"ReduceSum":       {labels: reduceLabels, neutral: neutrally(0)},
		"ReduceMean":      {labels: reduceLabels, neutral: neutrally(0)},
		"ReduceProd":      {labels: reduceLabels, neutral: neutrally(1)},
		"ReduceMax":       {labels: reduceLabels, neutral: least},
		"ReduceMin":       {labels: reduceLabels, neutral: largest},
		"ReduceL1":        {labels: reduceLabels, neutral: neutrally(0)},
		"ReduceL2":        {labels: reduceLabels, neutral: neutrally(0)},
		"ReduceSumSquare": {labels: reduceLabels, neutral: neutrally(0)},
		"ReduceLogSum":    {labels: reduceLabels, neutral: neutrally(0)},
		"ReduceLogSumExp": {labels: reduceLabels, neutral: least},
		"ArgMax":          {labels: reduceLabels, neutral: least},
		"ArgMin":          {labels: reduceLabels, neutral: largest},
	})
}

// init adds groups of ops with equal rules. It is the last one, because it copies some of the rules above.
func init() {
	// Ops that compute each element alone from the one at the same coordinates.
	for _, op := range []string{"Trilu", "EyeLike", "Dropout", "Bernoulli", "RandomNormalLike", "RandomUniformLike",
		"ai.onnx.ml.Binarizer", "ai.onnx.ml.LabelEncoder", "com.microsoft.Gelu", "com.microsoft.QuickGelu"} {
		foundRules[op] = foundRule{labels: func(c *call) labels { return c.likeInput() }}
	}
	// Ops on rows, the last axis. Other operands are weights, or add to the rows.
	for _, op := range []string{"BiasGelu", "FastGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
		"SimplifiedLayerNormalization"} {
		foundRules["com.microsoft."+op] = foundRule{labels: rowLabels}
	}
	for _, op := range []string{"MatMulNBits", "MatMulBnb4", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"} {
		foundRules["com.microsoft."+op] = foundRule{labels: leadingLabels(1)}
	}
	for op := range learningOps { // rows of features
		if name := "ai.onnx.ml." + op; foundRules[name].labels == nil {
			foundRules[name] = foundRule{labels: leadingLabels(1)}
		}
	}
	for _, op := range []string{"GatherND", "Pad", "Trilu"} { // as ONNX has them
		foundRules["com.microsoft."+op] = foundRules[op]
	}
}

// foundRule returns the rule by which the node's op treats inputs with a valid part, or nil if it refuses them.
func (c *call) foundRule() *foundRule {
	if rule, ok := foundRules[c.node.op()]; ok {
		return &rule
	}
	if _, ok := elementwiseOps[c.node.op()]; ok {
		return &foundRule{labels: elementwiseLabels}
	}
	return nil
}

// validLabels are the labels of a node and the counts of axes that are valid in part.
type validLabels struct {
	labels
	counts map[int]tensor // by label
}

// mask is the valid part of input 0 along an axis that the op folds.
type mask struct {
	axis  int
	count tensor // number of valid elements, which are the first ones
	valid tensor // whether each place along the axis is valid: bools of the input's rank, extent 1 along other axes
}

// ofPartlyValid builds a node with an input that has a valid part (see validPart). build builds the node for inputs
// that are valid as a whole. ofPartlyValid fails if the op has no rule for such inputs.
func (c *call) ofPartlyValid(build func(c *call) []*value) []*value {
	first := slices.IndexFunc(c.in, func(v *value) bool { return v != nil && v.valid != nil })
	rule := c.foundRule()
	if rule == nil {
		c.failPartlyValid(c.in[first])
	}
	if rule.along != nil && (first == 0 || rule.joins) {
		if results := c.forUnsigned(rule.along)(c); results != nil {
			return results
		}
	}
	if rule.labels == nil {
		c.failPartlyValid(c.in[first])
	}
	// The op is built as usual, after invalid elements are replaced by values without effect.
	l := c.hideInvalid(rule, first)
	results := build(c)
	c.markValid(l, results)
	return results
}

// hideInvalid replaces invalid elements along folded axes by neutral ones, and returns the number of valid elements of
// each label. A run checks that all axes with the same label have the same number. `first` is the number of an input
// with a valid part.
func (c *call) hideInvalid(rule *foundRule, first int) *validLabels {
	l := &validLabels{rule.labels(c.inspector()), map[int]tensor{}}
	partly := map[int]int{} // by input that is valid in part: the label of the axis of its valid part
	for i, v := range c.in {
		if v == nil || v.valid == nil {
			continue
		}
		label := opaque
		if i < len(l.in) && v.valid.axis < len(l.in[i]) {
			label = l.in[i][v.valid.axis]
		}
		if label == opaque || rule.neutral == nil && slices.Contains(l.folded, label) {
			c.failPartlyValid(v)
		}
		n := v.valid.count
		if known, ok := l.counts[label]; ok && known != n {
			c.check(v, known.Eq(n))
		}
		l.counts[label], partly[i] = n, label
	}
	// Complete axes with such a label must have as many elements as are valid, unless their extent is 1.
	for i, v := range c.in {
		if v == nil || i >= len(l.in) {
			continue
		}
		for axis, name := range l.in[i] {
			n, ok := l.counts[name]
			if d := c.shapeOf(v)[axis]; ok && !d.Is(1) && (v.valid == nil || v.valid.axis != axis) {
				c.check(c.in[first], n.Eq(c.b.DimValue(d)))
			}
		}
	}
	c.in = slices.Clone(c.in) // hide replaces inputs
	for i := range c.in {
		if label, ok := partly[i]; ok && slices.Contains(l.folded, label) {
			c.hide(i, rule.neutral(c.inspector(), i))
		}
	}
	return l
}

// validAlong returns bools that say which elements of v are valid. They have the rank of v, and extent 1 along all axes
// except the axis of the valid part.
func (c *call) validAlong(v *value) tensor {
	x := c.asTensor(v)
	places := ones(x.Rank())
	places[v.valid.axis] = x.Dim(v.valid.axis)
	return c.b.Iota(ir.I32, v.valid.axis, places).Lt(v.valid.count)
}

// hide replaces the invalid elements of input i by a number, and for input 0 sets c.mask. The caller has cloned c.in.
func (c *call) hide(i int, number float64) {
	v := c.in[i]
	x, valid := c.asTensor(v), c.validAlong(v)
	if i == 0 {
		c.mask = &mask{v.valid.axis, v.valid.count, valid}
	}
	hidden := *v
	hidden.tensor = valid.Where(x, c.b.Const(elementOf(x.DType(), v.unsigned, number)))
	hidden.valid = nil
	c.in[i] = &hidden
}

// markValid marks the valid parts of a node's results: the axes with a label in l.counts. It fails if a result would
// have two such axes, or if a label is neither in a result nor folded by the op.
func (c *call) markValid(l *validLabels, results []*value) {
	for name, n := range l.counts { // by label, the number of valid elements
		marked := slices.Contains(l.folded, name)
		for i, v := range results {
			if v == nil || i >= len(l.out) {
				continue
			}
			axis := slices.Index(l.out[i], name)
			if axis < 0 {
				continue
			}
			if v.isList || v.isDims || v.valid != nil && *v.valid != (validPart{axis, n}) {
				c.fail("its result would have two axes with extents that are known only in a run")
			}
			v.valid, marked = &validPart{axis, n}, true
		}
		if !marked {
			c.fail("the result lacks an axis of an extent that is known only in a run")
		}
	}
}

// failPartlyValid fails because input v has only a valid part and the op has no rule for that.
func (c *call) failPartlyValid(v *value) {
	c.fail("axis %[2]d of %[1]q has an extent that is known only in a run, and vkc does not support that for this op",
		v.name, v.valid.axis)
}

// check adds a graph output that is true if the condition `holds` is false in a run. The run then fails, because its
// results would be wrong: see ir.Mismatched. The condition is about the number of valid elements of v.
func (c *call) check(v *value, holds tensor) {
	if holds.Builder() != c.b {
		c.fail("%q has an axis of an extent that is known only in a run, and the body of a loop cannot check "+
			"it", v.name)
	}
	name := c.node.title() + ir.Mismatched
	for i := 1; c.taken[name]; i++ {
		name = fmt.Sprintf("%s.%d%s", c.node.title(), i, ir.Mismatched)
	}
	c.taken[name] = true
	c.b.Output(name, holds.Reshape().Not())
	c.checks = append(c.checks, name)
}

// mean returns the mean of x over axes, which stay with extent 1. x has the axes of input 0. If input 0 is valid in
// part along one of the axes (see mask), the invalid elements of x must be 0, and do not count.
func (c *call) mean(x tensor, axes ...int) tensor {
	if c.mask == nil {
		return x.MeanKeep(axes...)
	}
	return wide(x, func(x tensor) tensor {
		n := c.mask.count.Cast(x.DType())
		for _, a := range axes {
			if a != c.mask.axis {
				n = n.Mul(c.b.DimValue(x.Dim(a)).Cast(x.DType()))
			}
		}
		return x.SumKeep(axes...).Div(n)
	})
}

// deviations returns the differences of x from its mean over axes, and 0 for invalid elements. See mean.
func (c *call) deviations(x tensor, axes ...int) tensor {
	if c.mask == nil {
		return x.Deviations(axes...)
	}
	first := x // as in tensor.Deviations, differences from the first element are exact if elements are nearly equal
	for _, a := range axes {
		first = first.Slice(a, 0, ir.D(1))
	}
	zero := x.Lit(0)
	x = c.mask.valid.Where(x.Sub(first), zero)
	return c.mask.valid.Where(x.Sub(c.mean(x, axes...)), zero)
}

// variance returns the variance of x over axes, which stay with extent 1. See mean.
func (c *call) variance(x tensor, axes ...int) tensor {
	if c.mask == nil {
		return x.VarianceKeep(0, axes...)
	}
	return c.mean(c.deviations(x, axes...).Sqr(), axes...)
}

// numbered returns n labels from first on.
func numbered(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}

// rank returns the number of axes of input i.
func (c *call) rank(i int) int { return len(c.shapeOf(c.input(i))) }

// likeInput returns labels for an op whose results have the axes of input 0, which are labeled by their numbers. Other
// inputs have no labels.
func (c *call) likeInput(folded ...int) labels {
	all := numbered(0, c.rank(0))
	return labels{[][]int{all}, slices.Repeat([][]int{all}, max(1, len(c.node.Outputs))), folded}
}

// elementwiseLabels labels an elementwise op. Broadcasting aligns the last axes, so a label is the number of an axis
// counted from the last one.
func elementwiseLabels(c *call) labels {
	l, most := labels{}, 0
	for i := range c.in {
		var axes []int
		if c.has(i) && (i == 0 || c.node.Op != "CastLike") {
			axes = numbered(0, c.rank(i))
			slices.Reverse(axes)
		}
		l.in, most = append(l.in, axes), max(most, len(axes))
	}
	all := numbered(0, most)
	slices.Reverse(all)
	l.out = [][]int{all}
	return l
}

// transposeLabels gives the result's axes the labels of the input's axes, in the order of attribute perm.
func transposeLabels(c *call) labels {
	l := c.likeInput()
	out := slices.Clone(l.in[0])
	if perm := c.intsAttr("perm"); c.hasAttr("perm") {
		for i, a := range perm {
			out[i] = c.axis(a, len(out))
		}
	} else {
		slices.Reverse(out)
	}
	l.out = [][]int{out}
	return l
}

// gatherLabels labels Gather: the axes of the indices take the place of the indexed axis, which is opaque.
func gatherLabels(c *call) labels {
	data := numbered(0, c.rank(0))
	at := numbered(len(data), c.rank(1)) // labels that the data do not have
	along := c.axis(c.intAttr("axis", 0), len(data))
	data[along] = opaque
	return labels{in: [][]int{data, at}, out: [][]int{slices.Concat(data[:along], at, data[along+1:])}}
}

// gatherNDLabels labels GatherND of data [batch, indexed, rest] by indices [batch, rows, number of indexed axes]. The
// result is [batch, rows, rest]. The indexed axes are opaque.
func gatherNDLabels(c *call) labels {
	at := numbered(0, c.rank(1))
	if len(at) == 0 {
		c.fail("indices are a scalar: want rows of coordinates")
	}
	at[len(at)-1] = opaque
	data := slices.Repeat([]int{opaque}, c.rank(0))
	rows := at[:len(at)-1] // batch and rows
	if batch := c.intAttr("batch_dims", 0); batch >= 0 && batch < len(at) {
		copy(data, rows[:batch])
	}
	shape := c.shapeOf(c.in[1])
	// rest is outside of 0…rank if the node is invalid, or if a run finds the number of coordinates.
	rest := min(max(c.rank(0)-shape[len(shape)-1].Static()-c.intAttr("batch_dims", 0), 0), len(data))
	for i := range rest {
		data[len(data)-1-i] = len(at) + i // labels that the indices do not have
	}
	return labels{in: [][]int{data, at}, out: [][]int{slices.Concat(rows, data[len(data)-rest:])}}
}

// gatherElementsLabels labels GatherElements. The indices may be valid in part, but not the data: their extents differ.
func gatherElementsLabels(c *call) labels {
	at := numbered(0, c.rank(1))
	return labels{in: [][]int{slices.Repeat([]int{opaque}, c.rank(0)), at}, out: [][]int{at}}
}

// sliceLabels labels Slice. Axes of which it takes a part are opaque.
func sliceLabels(c *call) labels {
	l := c.likeInput()
	s := c.shapeOf(c.in[0])
	for axis, arg := range c.sliceArgs(s) {
		if arg != (sliceArg{ir.D(0), s[axis], 1}) {
			l.in[0][axis] = opaque
		}
	}
	return l
}

// squeezeLabels labels Squeeze, which removes axes of extent 1. The removed axes are opaque.
func squeezeLabels(c *call) labels {
	l := c.likeInput()
	axes, given := c.axes(1)
	if !given {
		for i, d := range c.shapeOf(c.in[0]) {
			if d.Is(1) {
				axes = append(axes, i)
			}
		}
	}
	axes = c.resolved(axes, c.rank(0))
	for _, a := range axes {
		l.in[0][a] = opaque
	}
	var out []int
	for i, name := range l.in[0] {
		if !slices.Contains(axes, i) {
			out = append(out, name)
		}
	}
	l.out = [][]int{out}
	return l
}

// unsqueezeLabels labels Unsqueeze, which adds axes of extent 1. The added axes are opaque.
func unsqueezeLabels(c *call) labels {
	l := c.likeInput()
	out := slices.Clone(l.in[0])
	given := c.ints(1)
	for _, a := range c.resolved(given, len(out)+len(given)) {
		out = slices.Insert(out, min(a, len(out)), opaque)
	}
	l.out = [][]int{out}
	return l
}

// concatLabels labels Concat. The axis along which it joins its inputs is opaque in all of them.
func concatLabels(c *call) labels {
	l := c.likeInput()
	l.in[0][c.axis(c.mustInt("axis"), c.rank(0))] = opaque
	l.in = slices.Repeat(l.in, len(c.in))
	return l
}

func splitLabels(c *call) labels {
	l := c.likeInput()
	l.in[0][c.axis(c.intAttr("axis", 0), c.rank(0))] = opaque
	return l
}

func oneHotLabels(c *call) labels {
	at := numbered(0, c.rank(0))
	axis := c.axis(c.intAttr("axis", -1), len(at)+1)
	return labels{in: [][]int{at}, out: [][]int{slices.Insert(slices.Clone(at), axis, opaque)}}
}

// scatterNDLabels labels ScatterND. It folds the axes along which indices and updates have their rows.
func scatterNDLabels(c *call) labels {
	data := slices.Repeat([]int{opaque}, c.rank(0))
	at := numbered(0, c.rank(1))
	rows := at[:len(at)-1]
	updates := slices.Concat(rows, slices.Repeat([]int{opaque}, max(0, c.rank(2)-len(rows))))
	return labels{[][]int{data, append(slices.Clone(rows), opaque), updates}, [][]int{data}, rows}
}

func scatterLabels(c *call) labels {
	data, at := slices.Repeat([]int{opaque}, c.rank(0)), numbered(0, c.rank(1))
	return labels{[][]int{data, at, at}, [][]int{data}, at}
}

// nonZeroLabels labels NonZero. It folds all axes, because an invalid element that is 0 does not change the result.
func nonZeroLabels(c *call) labels {
	all := numbered(0, c.rank(0))
	return labels{[][]int{all}, nil, all}
}

// compressLabels labels Compress. It folds the axis along which the condition selects slices.
func compressLabels(c *call) labels {
	l := c.likeInput()
	if !c.hasAttr("axis") { // it selects from all elements, of which a part of an axis is not the first part
		return labels{in: [][]int{slices.Repeat([]int{opaque}, c.rank(0)), {opaque}}}
	}
	axis := c.axis(c.intAttr("axis", 0), c.rank(0))
	condition := []int{axis}
	if c.in[0].valid == nil { // a condition may be shorter than the input, so its label differs from the axis's
		condition = []int{len(l.in[0])}
	}
	l.in = append(l.in, condition)
	out := slices.Clone(l.in[0])
	out[axis] = opaque
	l.out, l.folded = [][]int{out}, []int{axis, condition[0]}
	return l
}

// axisLabels returns a function for ops that fold one axis and keep it: attribute axis or, without it, `otherwise`.
func axisLabels(otherwise int) func(c *call) labels {
	return func(c *call) labels {
		return c.likeInput(c.axis(c.intAttr("axis", otherwise), c.rank(0)))
	}
}

// scanLabels labels a cumulative op. Its axis is the second input.
func scanLabels(c *call) labels {
	along := c.ints(1)
	if len(along) != 1 {
		return labels{in: [][]int{nil}}
	}
	return c.likeInput(c.axis(along[0], c.rank(0)))
}

// topKLabels labels TopK. It folds an axis of the input. The result's axis has k elements, and topK checks that at
// least k are valid.
func topKLabels(c *call) labels {
	axis := c.axis(c.intAttr("axis", -1), c.rank(0))
	l := c.likeInput(axis)
	out := slices.Clone(l.in[0])
	out[axis] = opaque
	l.out = [][]int{out, out}
	return l
}

// axesFromLabels labels norms over the axes from attribute axis on. The scale and the bias have the last of these axes.
func axesFromLabels(c *call) labels {
	axis := c.axis(c.intAttr("axis", -1), c.rank(0))
	l := c.likeInput(axesFrom(axis, c.rank(0))...)
	for i := 1; i < len(c.in); i++ {
		n := 0
		if c.has(i) {
			n = min(c.rank(i), c.rank(0))
		}
		l.in = append(l.in, l.in[0][c.rank(0)-n:])
	}
	if len(l.out) > 1 { // the mean and the inverse deviation have extent 1 along the axes
		rows := slices.Concat(l.in[0][:axis], slices.Repeat([]int{opaque}, c.rank(0)-axis))
		l.out = [][]int{l.out[0], rows, rows}
	}
	return l
}

// meanVarianceLabels returns the labels of MeanVarianceNormalization, which folds the axes of attribute axes or,
// without it, all axes except the channels.
func meanVarianceLabels(c *call) labels {
	axes := c.intsAttr("axes")
	if !c.hasAttr("axes") {
		axes = []int{0, 2, 3}
	}
	return c.likeInput(c.resolved(axes, c.rank(0))...)
}

// lettered returns a function that labels axes by a text, such as "bn-,b* -> bn". Inputs are before the arrow, and
// results after it. A letter is the label of an axis, a dash is an opaque axis, and a star stands for any number of
// opaque axes. An input with another number of axes is opaque. For a result, the text may have just the first axes.
// folded has the letters of folded axes.
func lettered(text, folded string) func(c *call) labels {
	inputs, results, _ := strings.Cut(text, " -> ")
	spell := func(letters string) (list []int) {
		for _, letter := range letters {
			name := int(letter)
			if letter == '-' {
				name = opaque
			}
			list = append(list, name)
		}
		return list
	}
	return func(c *call) labels {
		l := labels{folded: spell(folded)}
		for i, letters := range strings.Split(inputs, ",") {
			var at []int
			if i < len(c.in) && c.in[i] != nil {
				rank := c.rank(i)
				if first, star := strings.CutSuffix(letters, "*"); star {
					letters = first + strings.Repeat("-", max(0, rank-len(first)))
				}
				if at = spell(letters); len(at) != rank {
					at = slices.Repeat([]int{opaque}, rank)
				}
			}
			l.in = append(l.in, at)
		}
		for letters := range strings.SplitSeq(results, ",") {
			l.out = append(l.out, spell(letters))
		}
		return l
	}
}

// leadingLabels returns a function for ops that compute each row (n=1) or matrix (n=2) of input 0 alone. The last n
// axes are opaque.
func leadingLabels(n int) func(c *call) labels {
	return func(c *call) labels {
		l := c.likeInput()
		for i := range min(n, c.rank(0)) {
			l.in[0][c.rank(0)-1-i] = opaque
		}
		return l
	}
}

// rowLabels labels ops that compute each row alone and broadcast their inputs. The last axis is opaque.
func rowLabels(c *call) labels {
	l := elementwiseLabels(c)
	for _, list := range slices.Concat(l.in, l.out) {
		if len(list) > 0 {
			list[len(list)-1] = opaque
		}
	}
	l.out = slices.Repeat(l.out, max(1, len(c.node.Outputs)))
	return l
}

// gridSampleLabels labels GridSample of an image [batch, channels, spatial axes] at the points of a grid [batch, axes
// of points, coordinates]. It folds the spatial axes of the image. The result is [batch, channels, axes of points].
func gridSampleLabels(c *call) labels {
	image := numbered(0, c.rank(0))
	if len(image) < 2 {
		return labels{}
	}
	batch, points := image[:1], numbered(len(image), max(0, c.rank(1)-2))
	grid := slices.Concat(batch, points, []int{opaque})
	return labels{[][]int{image, grid}, [][]int{slices.Concat(image[:2], points)}, image[2:]}
}

// lrnLabels labels LRN. The channels are opaque, because it sums over them.
func lrnLabels(c *call) labels {
	l := c.likeInput()
	if len(l.in[0]) > 1 {
		l.in[0][1] = opaque
	}
	return l
}

// dftLabels labels DFT. The transformed axis is opaque, and the last axis, the parts of complex numbers.
func dftLabels(c *call) labels {
	axis := -2
	if list, given := c.axes(2); given && len(list) == 1 {
		axis = list[0]
	}
	l := leadingLabels(1)(c)
	l.in[0][c.axis(axis, c.rank(0))] = opaque
	return l
}

// centerCropPadLabels labels CenterCropPad. The axes that it crops or pads are opaque.
func centerCropPadLabels(c *call) labels {
	l := c.likeInput()
	axes := c.intsAttr("axes")
	if !c.hasAttr("axes") {
		axes = axesFrom(0, c.rank(0))
	}
	for _, a := range axes {
		l.in[0][c.axis(a, c.rank(0))] = opaque
	}
	return l
}

func reverseSequenceLabels(c *call) labels {
	l := c.likeInput()
	l.in = append(l.in, []int{c.axis(c.intAttr("batch_axis", 1), c.rank(0))})
	return l
}

// recurrentLabels labels recurrent layers. They fold the axis of steps; call.lengths has the number of valid steps.
func recurrentLabels(c *call) labels {
	if c.intAttr("layout", 0) != 0 {
		return lettered("bt-,*,*,*,b,b--,b-- -> bt,b,b", "t")(c)
	}
	return lettered("tb-,*,*,*,b,-b-,-b- -> t-b,-b,-b", "t")(c)
}

// quantizeLabels labels QuantizeLinear and DequantizeLinear. Scales and zero points are scalars, or vectors along an
// axis, or have an element for each block along an axis. An axis with blocks is opaque.
func quantizeLabels(c *call) labels {
	l := c.likeInput()
	if c.rank(0) == 0 {
		return l
	}
	axis := c.intAttr("axis", 1)
	for i := 1; i < len(c.in); i++ {
		var at []int
		switch rank := c.rank(i); {
		case rank == 1 && !c.shapeOf(c.in[i])[0].Is(1):
			at = []int{c.axis(axis, c.rank(0))}
		case rank > 1:
			l.in[0][c.axis(axis, c.rank(0))] = opaque
		}
		l.in = append(l.in, at)
	}
	return l
}

// dynamicQuantizeLabels labels DynamicQuantizeLinear. All axes are folded, because the scale depends on all elements.
func dynamicQuantizeLabels(c *call) labels {
	all := numbered(0, c.rank(0))
	return labels{[][]int{all}, [][]int{all}, all}
}

// batchNormLabels labels BatchNormalization. The channels are opaque; in training all axes are, because it computes
// statistics of the batch.
func batchNormLabels(c *call) labels {
	l := c.likeInput()
	if len(l.in[0]) > 1 {
		l.in[0][1] = opaque
	}
	if c.flag("training_mode", false) {
		return labels{in: [][]int{nil}}
	}
	return l
}

// instanceLabels labels InstanceNormalization and GroupNormalization. They fold the axes after the channels.
func instanceLabels(c *call) labels {
	l := c.likeInput(axesFrom(2, c.rank(0))...)
	if len(l.in[0]) > 1 {
		l.in[0][1] = opaque
	}
	return l
}

// globalLabels labels a global pooling. It folds the axes after the channels; in the result they have extent 1.
func globalLabels(c *call) labels {
	l := c.likeInput(axesFrom(2, c.rank(0))...)
	out := slices.Clone(l.in[0])
	for i := 2; i < len(out); i++ {
		out[i] = opaque
	}
	l.out = [][]int{out}
	return l
}

// matmulLabels labels MatMul. It folds the contraction axis. The label of a batch axis counts from the innermost one.
func matmulLabels(c *call) labels {
	const rows, columns, contracted, firstBatch = 0, 1, 2, 3
	batch := func(rank int) []int { // the labels of the batch axes of a tensor
		axes := numbered(firstBatch, max(0, rank-2))
		slices.Reverse(axes)
		return axes
	}
	a, b := []int{contracted}, []int{contracted} // the labels of vectors
	result := batch(max(c.rank(0), c.rank(1)))
	if c.rank(0) != 1 {
		a, result = append(batch(c.rank(0)), rows, contracted), append(result, rows)
	}
	if c.rank(1) != 1 {
		b, result = append(batch(c.rank(1)), contracted, columns), append(result, columns)
	}
	return labels{in: [][]int{a, b}, out: [][]int{result}, folded: []int{contracted}}
}

// gemmLabels labels Gemm, the product of two matrices, to which a third operand is added.
func gemmLabels(c *call) labels {
	rows, columns, contracted := 0, 1, 2
	a, b, result := []int{rows, contracted}, []int{contracted, columns}, []int{rows, columns}
	if c.flag("transA", false) {
		slices.Reverse(a)
	}
	if c.flag("transB", false) {
		slices.Reverse(b)
	}
	l := labels{in: [][]int{a, b}, out: [][]int{result}, folded: []int{contracted}}
	if c.has(2) { // it broadcasts to the result, and may lack the outer axes
		l.in = append(l.in, result[max(0, 2-c.rank(2)):])
	}
	return l
}

// einsumLabels labels Einsum by the letters of its equation. A letter that an operand has twice is opaque. A letter
// that the result lacks is folded.
func einsumLabels(c *call) labels {
	terms, result, err := c.einsumTerms()
	if err != "" {
		c.fail("equation %q: %s", c.textAttr("equation", ""), err)
	}
	l := labels{}
	kept := []rune(result)
	for _, term := range append(terms, result) {
		var list []int
		for _, letter := range term {
			name := int(letter)
			if strings.Count(term, string(letter)) > 1 {
				name = opaque
			} else if !slices.Contains(kept, letter) {
				l.folded = append(l.folded, name)
			}
			list = append(list, name)
		}
		l.in = append(l.in, list)
	}
	last := len(l.in) - 1 // the result
	l.in, l.out = l.in[:last], l.in[last:]
	return l
}

// reduceLabels labels reductions, ArgMax and ArgMin.
func reduceLabels(c *call) labels {
	rank := c.rank(0)
	folded := c.foldedAxes(rank)
	l := c.likeInput(folded...)
	var out []int
	for i, name := range l.in[0] {
		switch {
		case !slices.Contains(folded, i):
			out = append(out, name)
		case c.intAttr("keepdims", 1) != 0:
			out = append(out, opaque) // an extent of 1
		}
	}
	l.out = [][]int{out}
	return l
}

// foldedAxes returns the axes that a reduction, or ArgMax and ArgMin, folds.
func (c *call) foldedAxes(rank int) []int {
	if strings.HasPrefix(c.node.Op, "Arg") {
		return []int{c.axis(c.intAttr("axis", 0), rank)}
	}
	axes, given := c.axes(1)
	switch {
	case given && len(axes) > 0:
		return c.resolved(axes, rank)
	case c.flag("noop_with_empty_axes", false):
		return nil
	}
	return axesFrom(0, rank)
}
