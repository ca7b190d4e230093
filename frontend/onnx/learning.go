package onnx

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// learningOps are the ops of domain ai.onnx.ml, for models of scikit-learn and similar libraries. Labels that are
// strings have no meaning on a device, but their scores do.
var learningOps = table{
	"ArrayFeatureExtractor":  tensorOp(arrayFeatureExtractor),
	"Binarizer":              tensorOp(binarizer),
	"FeatureVectorizer":      tensorOp(featureVectorizer),
	"Imputer":                tensorOp(imputer),
	"LabelEncoder":           tensorOp(labelEncoder),
	"LinearClassifier":       manyOp(linearClassifier).leaves("multi_class", "it says how the model was trained"),
	"LinearRegressor":        tensorOp(linearRegressor),
	"Normalizer":             tensorOp(normalizer),
	"OneHotEncoder":          tensorOp(oneHotEncoder),
	"SVMRegressor":           tensorOp(svmRegressor),
	"SVMClassifier":          manyOp(svmClassifier),
	"Scaler":                 tensorOp(scaler),
	"TreeEnsemble":           tensorOp(treeEnsemble).leaves("nodes_hitrates", hitRates),
	"TreeEnsembleClassifier": manyOp(treeClassifier).leaves("nodes_hitrates", hitRates).leaves("nodes_hitrates_as_tensor", hitRates),
	"TreeEnsembleRegressor":  tensorOp(treeRegressor).leaves("nodes_hitrates", hitRates).leaves("nodes_hitrates_as_tensor", hitRates),
}

const hitRates = "they say how often a node was visited, for the order of nodes in memory"

// floatsAttr returns an attribute with floats.
func (c *call) floatsAttr(name string) []float64 {
	if a := c.attr(name, AttrFloats); a != nil {
		return widened(a.Floats)
	}
	return nil
}

// vector returns numbers as a tensor of the graph, by default a vector.
func (c *call) vector(t ir.DType, numbers []float64, dims ...int) tensor {
	if len(dims) == 0 {
		dims = []int{len(numbers)}
	}
	d, err := ir.FromFloats(t, numbers, dims...)
	if err != nil {
		c.fail("%v", err)
	}
	return c.asTensor(&value{name: c.node.title(), data: d})
}

// intsAsFloats returns the integers of an attribute as floats.
func (c *call) intsAsFloats(name string) []float64 {
	var list []float64
	for _, n := range c.intsAttr(name) {
		list = append(list, float64(n))
	}
	return list
}

// places returns integers as an i32 tensor of the graph.
func (c *call) places(numbers []int32) tensor {
	list := make([]int64, len(numbers))
	for i, n := range numbers {
		list[i] = int64(n)
	}
	d, err := ir.FromInts(ir.I32, list, len(list))
	if err != nil {
		c.fail("%v", err)
	}
	return c.asTensor(&value{name: c.node.title(), data: d})
}

// rowsOf returns input 0 as N rows of F floats, [N, F]. A vector becomes one row.
func (c *call) rowsOf() tensor {
	x := c.x(0)
	if x.Rank() == 1 {
		x = x.Unsqueeze(0)
	}
	if x.Rank() != 2 {
		c.fail("of %s: want [rows, features]", x)
	}
	if x.DType() != ir.F64 {
		x = castTo(x, ir.F32)
	}
	return x
}

// arrayFeatureExtractor builds ArrayFeatureExtractor, which selects elements of the last axis by their indices.
func arrayFeatureExtractor(c *call) tensor {
	x, at := c.x(0), c.x(1).Reshape(-1)
	if x.Rank() == 1 {
		x = x.Unsqueeze(0)
	}
	return x.IndexSelect(x.Rank()-1, at)
}

func binarizer(c *call) tensor {
	x := c.x(0)
	return x.Gt(x.Lit(c.floatAttr("threshold", 0))).Cast(x.DType())
}

// featureVectorizer builds FeatureVectorizer, which joins the columns of its inputs. Attribute inputdimensions has the
// number of columns of each input.
func featureVectorizer(c *call) tensor {
	sizes := c.intsAttr("inputdimensions")
	var parts []tensor
	for i, x := range c.all() {
		if x.Rank() == 1 {
			x = x.Unsqueeze(0)
		}
		if i < len(sizes) && !x.Dim(1).Is(sizes[i]) {
			c.fail("attribute inputdimensions is %v, but input %d is %s", sizes, i, x)
		}
		parts = append(parts, castTo(x, ir.F32))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return parts[0].Concat(1, parts[1:]...)
}

// imputer builds Imputer: elements that equal a given value, which may be NaN, become the value for their column.
func imputer(c *call) tensor {
	x := c.x(0)
	if x.DType().IsInteger() {
		c.must("imputed_value_int64s", AttrInts)
		list := c.intsAsFloats("imputed_value_int64s")
		from := c.intAttr("replaced_value_int64", 0)
		return x.Eq(x.Lit(float64(from))).Where(scalarOrRow(c.vector(x.DType(), list)), x)
	}
	c.must("imputed_value_floats", AttrFloats)
	from := c.floatAttr("replaced_value_float", 0)
	is := x.Eq(x.Lit(from))
	if math.IsNaN(from) { // NaN is not equal to itself
		is = x.IsNaN()
	}
	return is.Where(scalarOrRow(c.vector(x.DType(), c.floatsAttr("imputed_value_floats"))), x)
}

// labelEncoder builds LabelEncoder: it maps each element that equals a key to the key's value, and others to a default.
// Keys and values are integers or floats.
func labelEncoder(c *call) tensor {
	keys, _ := c.encoderNumbers("keys")
	values, t := c.encoderNumbers("values")
	if len(keys) != len(values) || len(keys) == 0 {
		c.fail("it has %d keys and %d values", len(keys), len(values))
	}
	otherwise := c.floatAttr("default_float", 0) // the value of elements without a key
	if t != ir.F32 {
		otherwise = float64(c.intAttr("default_int64", -1))
	}
	if c.hasAttr("default_tensor") {
		list, _ := c.tensorAttr("default_tensor")
		if len(list) != 1 {
			c.fail("attribute default_tensor is not a single number")
		}
		otherwise = list[0]
	}
	x := c.x(0)
	// hit has a last axis for the keys. Argmax finds the first key that matches, and Any whether any key does.
	hit := x.Unsqueeze(x.Rank()).Eq(c.vector(x.DType(), keys))
	at := hit.Cast(ir.I32).Argmax(x.Rank())
	y := c.vector(t, values).IndexSelect(0, at.Reshape(-1)).Reshape(x.Shape())
	return hit.Any(x.Rank()).Where(y, y.Lit(otherwise))
}

// encoderNumbers returns the keys or values of LabelEncoder, and their dtype. kind is "keys" or "values". One of three
// attributes has them.
func (c *call) encoderNumbers(kind string) ([]float64, ir.DType) {
	switch {
	case c.hasAttr(kind + "_int64s"):
		return c.intsAsFloats(kind + "_int64s"), ir.I64
	case c.hasAttr(kind + "_floats"):
		return c.floatsAttr(kind + "_floats"), ir.F32
	case c.hasAttr(kind + "_tensor"):
		return c.tensorAttr(kind + "_tensor")
	}
	c.fail("it has no %s of numbers: strings have no meaning on a device", kind)
	return nil, ir.Invalid
}

// tensorAttr returns the numbers of a required attribute that is a tensor, and their dtype.
func (c *call) tensorAttr(name string) ([]float64, ir.DType) {
	t := c.must(name, AttrTensor).Tensor
	if t == nil {
		c.fail("attribute %s, a tensor, has no value", name)
	}
	d, err := t.data(c.file.externals)
	if err != nil {
		c.fail("attribute %s: %v", name, err)
	}
	list, err := d.Floats()
	if err != nil {
		c.fail("attribute %s: %v", name, err)
	}
	return list, d.DType
}

// normalizer builds Normalizer: it divides each row by its norm. A row of zeros stays.
func normalizer(c *call) tensor {
	x := c.rowsOf()
	norm := tensor{}
	switch c.choice("norm", "MAX", "L1", "L2") {
	case "MAX":
		norm = x.ReduceMaxKeep(1)
	case "L1":
		norm = x.Abs().SumKeep(1)
	default:
		norm = x.Sqr().SumKeep(1).Sqrt()
	}
	return castTo(norm.Eq(norm.Lit(0)).Where(x, x.Div(norm)), ir.F32)
}

// oneHotEncoder builds OneHotEncoder: a new last axis has 1 at the category that an element equals, and 0 elsewhere.
func oneHotEncoder(c *call) tensor {
	if c.hasAttr("cats_strings") {
		c.fail("attribute cats_strings has strings, which have no meaning on a device")
	}
	c.must("cats_int64s", AttrInts)
	if !c.flag("zeros", true) {
		c.fail("attribute zeros is 0, so an unknown category is an error: vkc programs cannot raise it")
	}
	cats := c.intsAsFloats("cats_int64s")
	x := c.x(0)
	if !x.DType().IsInteger() {
		x = x.Cast(ir.I64)
	}
	return x.Unsqueeze(x.Rank()).Eq(c.vector(x.DType(), cats)).Cast(ir.F32)
}

// scaler builds Scaler: (x - offset) * scale.
func scaler(c *call) tensor {
	x := c.x(0)
	if x.DType() != ir.F64 {
		x = castTo(x, ir.F32)
	}
	if offset := c.floatsAttr("offset"); len(offset) > 0 {
		x = x.Sub(scalarOrRow(c.vector(x.DType(), offset)))
	}
	if scale := c.floatsAttr("scale"); len(scale) > 0 {
		x = x.Mul(scalarOrRow(c.vector(x.DType(), scale)))
	}
	return castTo(x, ir.F32)
}

// probit returns the quantile of the standard normal distribution at probability x, 0 < x < 1. It approximates the
// inverse error function (Winitzki 2008).
func probit(x tensor) tensor {
	const a = 0.147 // the constant of the approximation
	x = x.MulScalar(2).SubScalar(1)
	log := x.Neg().AddScalar(1).Mul(x.AddScalar(1)).Log()
	v := log.MulScalar(0.5).AddScalar(2 / (math.Pi * a))
	root := v.Sqr().Sub(log.MulScalar(1 / a)).Sqrt().Sub(v).Sqrt()
	return x.Lt(x.Lit(0)).Where(root.Neg(), root).MulScalar(math.Sqrt2)
}

// transformed applies attribute post_transform to scores [N, C]. The attribute is a name or, in TreeEnsemble, a number.
func (c *call) transformed(y tensor) tensor {
	names := []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}
	name := ""
	if a := c.anyAttr("post_transform"); a != nil && a.Type == AttrInt {
		if a.Int < 0 || a.Int >= int64(len(names)) {
			c.fail("attribute post_transform is %d", a.Int)
		}
		name = names[a.Int]
	} else {
		name = c.choice("post_transform", names...)
	}
	switch name {
	case "SOFTMAX":
		return y.Softmax(1)
	case "LOGISTIC":
		return y.Sigmoid()
	case "PROBIT":
		return probit(y)
	case "SOFTMAX_ZERO": // scores of 0 stay
		most := y.ReduceMaxKeep(1)
		is := y.Abs().Gt(y.Lit(1e-7)) // ONNX Runtime's limit for 0
		e := is.Where(y.Sub(most).Exp(), y.Lit(0))
		return e.Div(e.SumKeep(1))
	}
	return y
}

// linear returns the rows of x [N, F] times the coefficients [outputs, F], plus the intercepts.
func (c *call) linear(x tensor, outputs int) tensor {
	weights, offsets := c.floatsAttr("coefficients"), c.floatsAttr("intercepts")
	if outputs < 1 || len(weights)%outputs != 0 || !x.Dim(1).Is(len(weights)/outputs) {
		c.fail("%d coefficients for %d outputs of %s", len(weights), outputs, x)
	}
	y := castTo(x, ir.F32).MatMulT(c.vector(ir.F32, weights, outputs, len(weights)/outputs))
	if len(offsets) > 0 {
		y = y.Add(scalarOrRow(c.vector(ir.F32, offsets)))
	}
	return y
}

func linearRegressor(c *call) tensor {
	c.must("coefficients", AttrFloats)
	return c.transformed(c.linear(c.rowsOf(), c.intAttr("targets", 1)))
}

// labels returns the label of each row. `at` has the label's index in the attribute `numbers`. If the labels are
// strings, in attribute `names`, labels returns the zero Tensor, and fails if something reads the node's result.
func (c *call) labels(at tensor, names, numbers string) tensor {
	if !c.hasAttr(numbers) {
		if c.hasAttr(names) && c.wants(0) && c.uses(c.node.Outputs[0]) > 0 {
			c.fail("its result 0 has the strings of %s, which have no meaning on a device: read result 1, the scores",
				names)
		}
		return tensor{}
	}
	return c.vector(ir.I64, c.intsAsFloats(numbers)).IndexSelect(0, at)
}

// classCount returns the number of labels in the attribute `numbers` or, without it, `names`.
func (c *call) classCount(names, numbers string) int {
	if a := c.attr(numbers, AttrInts); a != nil {
		return len(a.Ints)
	}
	if a := c.attr(names, AttrStrings); a != nil {
		return len(a.Strings)
	}
	return 0
}

// bothClasses returns scores [N, 2] of two classes from the scores y [N, 1] of the second class. probabilities says
// that y are probabilities, so that the scores of a row have the sum 1.
func (c *call) bothClasses(y tensor, probabilities bool) tensor {
	switch c.choice("post_transform", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT") {
	case "LOGISTIC":
		return y.Neg().Sigmoid().Concat(1, y.Sigmoid())
	case "PROBIT":
		return c.transformed(y) // one column
	}
	if probabilities {
		return y.Neg().AddScalar(1).Concat(1, y)
	}
	return y.Neg().Concat(1, y)
}

// linearClassifier builds LinearClassifier: labels, and scores of the classes.
func linearClassifier(c *call) []*value {
	c.must("coefficients", AttrFloats)
	x := c.rowsOf()
	classes := c.classCount("classlabels_strings", "classlabels_ints")
	// The number of outputs is the number of intercepts or, without intercepts, of rows of coefficients.
	outputs := max(len(c.floatsAttr("intercepts")), 1)
	if len(c.floatsAttr("intercepts")) == 0 && x.Dim(1).IsStatic() && x.Dim(1).Static() > 0 {
		outputs = len(c.floatsAttr("coefficients")) / x.Dim(1).Static()
	}
	y := c.linear(x, outputs)
	at := y.Argmax(1)
	var scores tensor
	if outputs == 1 && classes == 2 { // the output is the score of the second class
		at = y.Index(1, 0).Gt(y.Lit(0)).Cast(ir.I32)
		scores = c.bothClasses(y, true)
	} else {
		scores = c.transformed(y)
	}
	return several(c.labels(at, "classlabels_strings", "classlabels_ints"), scores)
}

// kernelOfVectors returns the kernel function of each row of x [N, F] with each of S support vectors, [N, S]. vectors
// has the support vectors one after another.
func (c *call) kernelOfVectors(x tensor, vectors []float64) tensor {
	features := x.Dim(1)
	if !features.IsStatic() || features.Static() < 1 || len(vectors)%features.Static() != 0 {
		c.fail("%d numbers of support vectors do not fit rows of %s", len(vectors), x)
	}
	count := len(vectors) / features.Static()
	sv := c.vector(ir.F32, vectors, count, features.Static())
	gamma, offset, degree := 0.0, 0.0, 0.0
	if p := c.floatsAttr("kernel_params"); len(p) == 3 {
		gamma, offset, degree = p[0], p[1], p[2]
	}
	switch c.choice("kernel_type", "LINEAR", "POLY", "RBF", "SIGMOID") {
	case "POLY":
		return x.MatMulT(sv).MulScalar(gamma).AddScalar(offset).Powf(degree)
	case "RBF":
		return x.Unsqueeze(1).Sub(sv.Unsqueeze(0)).Sqr().Sum(2).MulScalar(-gamma).Exp()
	case "SIGMOID":
		return x.MatMulT(sv).MulScalar(gamma).AddScalar(offset).Tanh()
	}
	return x.MatMulT(sv)
}

// svmRegressor builds SVMRegressor: a weighted sum of kernels with support vectors.
func svmRegressor(c *call) tensor {
	x := castTo(c.rowsOf(), ir.F32)
	coefficients, rho := c.floatsAttr("coefficients"), c.floatsAttr("rho")
	if len(coefficients) == 0 || len(rho) == 0 {
		c.fail("it has %d coefficients and %d rho: want at least one coefficient and one rho", len(coefficients),
			len(rho))
	}
	kernel, vectors := x, c.floatsAttr("support_vectors")
	if n := c.intAttr("n_supports", 0); n > 0 {
		kernel = c.kernelOfVectors(x, vectors)
	} else {
		// Without support vectors the sum is linear, and these attributes have no effect.
		c.choice("kernel_type", "LINEAR", "POLY", "RBF", "SIGMOID")
		c.floatsAttr("kernel_params")
	}
	if !kernel.Dim(1).Is(len(coefficients)) {
		c.fail("%d coefficients for %s", len(coefficients), kernel)
	}
	y := kernel.MatMulT(c.vector(ir.F32, coefficients, 1, len(coefficients))).AddScalar(rho[0])
	if c.flag("one_class", false) {
		return y.Gt(y.Lit(0)).Where(y.Lit(1), y.Lit(-1))
	}
	return c.transformed(y)
}

// svmClassifier builds SVMClassifier. With support vectors, each pair of classes is compared, and the class with the
// most wins is a row's class.
func svmClassifier(c *call) []*value {
	x := castTo(c.rowsOf(), ir.F32)
	if c.hasAttr("prob_a") || c.hasAttr("prob_b") {
		c.fail("it has attributes prob_a and prob_b, and vkc computes no probabilities of pairs: export the model " +
			"without them")
	}
	per, rho := c.intsAttr("vectors_per_class"), c.floatsAttr("rho")
	classes := c.classCount("classlabels_strings", "classlabels_ints")
	coefficients := c.floatsAttr("coefficients")
	if len(per) == 0 {
		return c.linearSVM(x, classes, coefficients, rho)
	}
	total, inRange := 0, true
	for _, n := range per {
		inRange = inRange && n >= 0 && n <= len(coefficients)
		total += n
	}
	pairs := classes * (classes - 1) / 2
	if !inRange || len(per) != classes || classes < 2 || len(coefficients) != total*(classes-1) || len(rho) < pairs {
		c.fail("%d support vectors, %d coefficients and %d rho for %d classes", per, len(coefficients), len(rho),
			classes)
	}
	kernel := c.kernelOfVectors(x, c.floatsAttr("support_vectors")) // [N, S]
	if !kernel.Dim(1).Is(total) {
		c.fail("%s support vectors, but the sum of vectors_per_class is %d", kernel.Dim(1), total)
	}
	if size := pairs * max(total, classes); size > maxPairWeights {
		c.fail("%d pairs of classes with %d support vectors have %d weights: want at most %d", pairs, total, size,
			maxPairWeights)
	}
	weights, firsts, seconds := pairsOfClasses(per, coefficients, total)
	scores := kernel.MatMulT(c.vector(ir.F32, weights, pairs, total)).Add(c.vector(ir.F32, rho[:pairs]))
	wins := scores.Gt(scores.Lit(0)).Cast(ir.F32) // [N, pairs]: 1 if the first class of the pair wins, otherwise 0
	votes := wins.MatMul(c.vector(ir.F32, firsts, pairs, classes)).
		Add(wins.Neg().AddScalar(1).MatMul(c.vector(ir.F32, seconds, pairs, classes)))
	if classes == 2 {
		scores = c.bothClasses(scores, false)
	} else {
		scores = c.transformed(scores)
	}
	return several(c.labels(votes.Argmax(1), "classlabels_strings", "classlabels_ints"), scores)
}

// linearSVM builds SVMClassifier without support vectors, for rows x [N, F]: a linear model of each class, with
// coefficients [classes, F].
func (c *call) linearSVM(x tensor, classes int, coefficients, rho []float64) []*value {
	if classes < 1 || len(coefficients)%classes != 0 || len(rho) < 1 {
		c.fail("%d coefficients for %d classes", len(coefficients), classes)
	}
	if kind := c.choice("kernel_type", "LINEAR", "POLY", "RBF", "SIGMOID"); kind != "LINEAR" {
		c.fail("attribute kernel_type is %s without support vectors", kind)
	}
	c.floatsAttr("kernel_params") // read, but without effect
	y := x.MatMulT(c.vector(ir.F32, coefficients, classes, len(coefficients)/classes)).AddScalar(rho[0])
	return several(c.labels(y.Argmax(1), "classlabels_strings", "classlabels_ints"), c.transformed(y))
}

// maxPairWeights limits the matrices of pairsOfClasses, which grow with the cube of a file's size.
const maxPairWeights = 1 << 24

// pairsOfClasses returns matrices with a row for each pair of classes i < j: the weights of the support vectors in the
// decision between them, and the first and second class of the pair as one-hot rows. per is the number of support
// vectors of each class, total their sum. A support vector of class i has a coefficient for each other class j, in row
// j-1 if j > i, else j.
func pairsOfClasses(per []int, coefficients []float64, total int) (weights, firsts, seconds []float64) {
	classes := len(per)
	start := make([]int, classes+1) // of the classes' support vectors; the last one is the total
	for i, n := range per {
		start[i+1] = start[i] + n
	}
	oneHot := func(class int) []float64 {
		row := make([]float64, classes)
		row[class] = 1
		return row
	}
	for i := range classes {
		for j := i + 1; j < classes; j++ {
			row := make([]float64, total)
			copy(row[start[i]:start[i+1]], coefficients[(j-1)*total+start[i]:])
			copy(row[start[j]:start[j+1]], coefficients[i*total+start[j]:])
			weights = append(weights, row...)
			firsts, seconds = append(firsts, oneHot(i)...), append(seconds, oneHot(j)...)
		}
	}
	return weights, firsts, seconds
}
