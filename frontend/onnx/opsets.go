package onnx

import (
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// change describes how an op changed in an opset. Rows only know the newest form.
type change struct {
	opset int64
	// gone lists attributes that the op no longer has. From this opset on such an attribute is an error, because it
	// would be ignored.
	gone []string
	// older builds a node in the form of the previous opset. It converts the node to the form of this opset and calls
	// newer, and may also convert the results back. If the forms have nothing in common, it does not call newer.
	older func(c *call, newer func() []*value) []*value
}

// changes lists the changes of each op of ONNX's own domain, in the order of opsets. A change is in the op's attributes
// and inputs, in a default, or in its meaning.
var changes map[string][]change

// init fills changes. A declaration cannot, because ops with subgraphs refer to it.
func init() {
	changes = map[string][]change{
		"Add": alignedOperand, "Sub": alignedOperand, "Mul": alignedOperand, "Div": alignedOperand, "Pow": alignedOperand,
		"And": alignedOperand, "Or": alignedOperand, "Xor": alignedOperand,
		"Equal": alignedOperand, "Greater": alignedOperand, "Less": alignedOperand,

		"BatchNormalization": {{7, []string{"is_test"}, onNode(testedIfSaid)},
			{9, []string{"spatial"}, onNode(ofChannels)}, {14, nil, onNode(trainedWhereWanted)}},
		"Cast":   {{6, nil, onNode(numberOfType)}},
		"Clip":   {inputSince(11, "min", "max")},
		"Concat": {{4, nil, onNode(func(c *call) { c.defaultInt("axis", 1) })}},
		"DFT": {{20, []string{"axis"}, onNode(func(c *call) {
			c.defaultInt("axis", 1)
			c.toInput("axis", 2)
		})}},
		// Before opset 7, Dropout dropped elements unless is_test was set. Models for inference do not want that, and
		// later opsets control it with an input.
		"Dropout": {{7, []string{"is_test"}, leftOut("is_test")}, {10, nil, maskOfNumbers}, inputSince(12, "ratio")},
		"GRU":     {outputsByName},
		"Gemm":    {{7, []string{"broadcast"}, leftOut("broadcast")}}, // the shapes imply it
		"GridSample": {{20, nil, onNode(func(c *call) {
			c.renameText("mode", "linear", map[string]string{"bilinear": "linear", "bicubic": "cubic"})
		})}},
		"GroupNormalization":        {{21, nil, onNode(scalePerGroup)}},
		"Hardmax":                   {{13, nil, flattened}},
		"LSTM":                      {outputsByName},
		"LogSoftmax":                {{13, nil, flattened}},
		"MeanVarianceNormalization": {{9, []string{"across_channels", "normalize_variance"}, onNode(acrossChannels)}},
		"Pad":                       {{2, []string{"paddings"}, onNode(padsRenamed)}, inputSince(11, "pads", "value")},
		"PRelu":                     {{7, nil, onNode(slopePerChannel)}},
		"RNN":                       {outputsByName},
		"ReduceL1":                  {inputSince(18, "axes")},
		"ReduceL2":                  {inputSince(18, "axes")},
		"ReduceLogSum":              {inputSince(18, "axes")},
		"ReduceLogSumExp":           {inputSince(18, "axes")},
		"ReduceMax":                 {inputSince(18, "axes")},
		"ReduceMean":                {inputSince(18, "axes")},
		"ReduceMin":                 {inputSince(18, "axes")},
		"ReduceProd":                {inputSince(18, "axes")},
		"ReduceSum":                 {inputSince(13, "axes")},
		"ReduceSumSquare":           {inputSince(18, "axes")},
		"Reshape":                   {inputSince(5, "shape")},
		"Resize":                    {{11, nil, instead("Upsample")}},
		"RoiAlign": {{16, nil, onNode(func(c *call) {
			c.renameText("coordinate_transformation_mode", "output_half_pixel", nil)
		})}},
		"Scan": {{9, []string{"directions"}, func(c *call, _ func() []*value) []*value { return c.scanBatch() }}},
		"Selu": {{6, nil, onNode(func(c *call) {
			c.defaultFloat("alpha", 1.6732)
			c.defaultFloat("gamma", 1.0507)
		})}},
		"Slice":     {inputSince(10, "starts", "ends", "axes")},
		"Softmax":   {{13, nil, flattened}},
		"Split":     {inputSince(13, "split")},
		"Squeeze":   {inputSince(13, "axes")},
		"Tile":      {{6, nil, onNode(oneAxisRepeated)}},
		"TopK":      {inputSince(10, "k")},
		"Unsqueeze": {inputSince(13, "axes")},
		"Upsample":  {{7, []string{"height_scale", "width_scale"}, onNode(twoScales)}, inputSince(9, "scales")},
	}
}

// ofOpset builds a node of an older opset. It applies the changes of list that are newer than the node's opset, and
// then calls newest, which builds the node in the form of the newest opset.
func (c *call) ofOpset(list []change, newest func() []*value) []*value {
	for i, ch := range list {
		if c.version < ch.opset {
			return ch.older(c, func() []*value { return c.ofOpset(list[i+1:], newest) })
		}
		for _, name := range ch.gone {
			if c.hasAttr(name) {
				c.fail("it has attribute %s, which the op does not have from opset %d on, but the model's opset is %d",
					name, ch.opset, c.version)
			}
		}
	}
	return newest()
}

// onNode returns the function older (see type change) of a change that only affects the node's attributes and inputs.
func onNode(change func(c *call)) func(c *call, newer func() []*value) []*value {
	return func(c *call, newer func() []*value) []*value {
		change(c)
		return newer()
	}
}

// instead returns the function older (see type change) of a change that gave the op another meaning. The older form is
// built as another op.
func instead(op string) func(c *call, newer func() []*value) []*value {
	return func(c *call, _ func() []*value) []*value {
		row := domains[""][op]
		return c.byRow(&row)
	}
}

// inputSince returns the change of version opset, in which attributes became inputs 1, 2 and so on.
func inputSince(opset int64, attrs ...string) change {
	return change{opset, attrs, onNode(func(c *call) {
		for i, name := range attrs {
			c.toInput(name, 1+i)
		}
	})}
}

// leftOut returns the function older (see type change) of a change that removed an attribute without effect on the
// result.
func leftOut(name string) func(c *call, newer func() []*value) []*value {
	return onNode(func(c *call) { c.setAttr(name, nil) })
}

// The following variables and functions are changes, or functions for the field older. Their comments say how the op
// was before.

// outputsByName drops attribute output_sequence, which also said whether a result exists.
var outputsByName = change{7, []string{"output_sequence"}, leftOut("output_sequence")}

// toInput converts an attribute, which the op has only in older opsets, to input i. It drops the attribute if that
// input is given.
func (c *call) toInput(name string, i int) {
	a := c.anyAttr(name)
	c.setAttr(name, nil)
	if a == nil || c.has(i) {
		return
	}
	var d *ir.Data
	var err error
	switch a.Type {
	case AttrInt:
		d, err = ir.FromInts(ir.I64, []int64{a.Int})
	case AttrInts:
		d, err = ir.FromInts(ir.I64, a.Ints, len(a.Ints))
	case AttrFloat:
		d, err = ir.FromFloats(ir.F32, []float64{float64(a.Float)})
	case AttrFloats:
		d, err = ir.FromFloats(ir.F32, widened(a.Floats), len(a.Floats))
	default:
		c.fail("attribute %s has type %d", name, a.Type)
	}
	if err != nil {
		panic(nodeError{err})
	}
	c.setInput(i, &value{data: d})
}

// setInput replaces input i of this call. The model's node stays unchanged.
func (c *call) setInput(i int, v *value) {
	c.in = slices.Clone(c.in)
	for len(c.in) <= i {
		c.in = append(c.in, nil)
	}
	c.in[i] = v
}

// setAttr replaces an attribute in this call, or removes it if a is nil. The model's node stays unchanged.
func (c *call) setAttr(name string, a *Attribute) {
	n := *c.node
	n.Attributes = slices.DeleteFunc(slices.Clone(n.Attributes), func(old *Attribute) bool { return old.Name == name })
	if a != nil {
		a.Name = name
		n.Attributes = append(n.Attributes, a)
	}
	c.node = &n
}

// defaultInt sets an attribute to its former default n if the node lacks it.
func (c *call) defaultInt(name string, n int64) {
	if !c.hasAttr(name) {
		c.setAttr(name, &Attribute{Type: AttrInt, Int: n})
	}
}

// defaultFloat sets an attribute to its former default f if the node lacks it.
func (c *call) defaultFloat(name string, f float32) {
	if !c.hasAttr(name) {
		c.setAttr(name, &Attribute{Type: AttrFloat, Float: f})
	}
}

// renameText replaces the former names of an attribute's values by the new ones, in `names`. `otherwise` is the former
// default.
func (c *call) renameText(name, otherwise string, names map[string]string) {
	text := c.textAttr(name, otherwise)
	if other, ok := names[text]; ok {
		text = other
	}
	c.setAttr(name, &Attribute{Type: AttrString, String: text})
}

// reshaped returns v with shape s. A constant stays a constant.
func (c *call) reshaped(v *value, s ir.Shape) *value {
	if v.valid != nil {
		c.failPartlyValid(v)
	}
	out := &value{name: v.name, from: v.from, unsigned: v.unsigned}
	if d := v.data; d != nil && s.IsStatic() {
		dims := make([]int, len(s))
		for i, n := range s {
			dims[i] = n.Static()
		}
		out.data = &ir.Data{DType: d.DType, Dims: dims, Bytes: d.Bytes}
		return out
	}
	out.tensor = c.asTensor(v).Reshape(s)
	return out
}

// ones returns n extents of 1.
func ones(n int) ir.Shape { return slices.Repeat(ir.Shape{ir.D(1)}, max(0, n)) }

// alignedOperand is the change of binary ops in opset 7. Before, attribute axis aligned the second operand at an axis
// of the first one, instead of at the innermost axis.
var alignedOperand = []change{{7, []string{"axis", "broadcast"}, onNode(func(c *call) {
	broadcast, hasAxis := c.flag("broadcast", false), c.hasAttr("axis") // reads both attributes
	if !broadcast || !hasAxis {
		return
	}
	x, y := c.shapeOf(c.input(0)), c.shapeOf(c.input(1))
	at := c.axis(c.intAttr("axis", 0), len(x))
	c.setInput(1, c.reshaped(c.in[1], slices.Concat(y, ones(len(x)-at-len(y)))))
})}}

// ofChannels converts BatchNormalization of an opset before 9. With attribute spatial 0 it had statistics for each
// element instead of each channel, which vkc does not support.
func ofChannels(c *call) {
	c.only("spatial", 1, "statistics are those of channels")
	c.setAttr("spatial", nil)
}

// testedIfSaid converts BatchNormalization of an old opset, in which attribute is_test said that the node is not in
// training mode.
func testedIfSaid(c *call) {
	if c.flag("is_test", false) && c.wants(1) {
		c.fail("is_test is 1, but it has the results of training")
	}
	c.setAttr("is_test", nil)
}

// trainedWhereWanted converts BatchNormalization of an old opset, which was in training mode if it had further results.
func trainedWhereWanted(c *call) {
	if c.wants(1) {
		c.setAttr("training_mode", &Attribute{Type: AttrInt, Int: 1})
	}
}

// numberOfType builds Cast of an old opset, in which attribute to has the name of a type instead of its number.
func numberOfType(c *call) {
	name := c.must("to", AttrString).String
	for number, row := range dataTypes {
		if row.dtype != ir.Invalid && strings.EqualFold(row.name, name) {
			c.setAttr("to", &Attribute{Type: AttrInt, Int: int64(number)})
			return
		}
	}
	c.fail("attribute to is %q, which vkc does not support", name)
}

// maskOfNumbers builds Dropout of an old opset, in which the mask has the dtype of the elements instead of bools.
// newer builds it with a mask of bools.
func maskOfNumbers(c *call, newer func() []*value) []*value {
	results := newer()
	if len(results) > 1 {
		results[1] = &value{tensor: castTo(c.asTensor(results[1]), c.dtypeOf(c.input(0)))}
	}
	return results
}

// scalePerGroup builds GroupNormalization of an old opset, which had one scale and one bias for each group instead of
// each channel.
func scalePerGroup(c *call) {
	x := c.shapeOf(c.input(0))
	for i := 1; i <= 2; i++ {
		v := c.x(i)
		if v.Rank() != 1 || len(x) < 2 || v.Dim(0) == x[1] {
			continue // one group per channel
		}
		each := x[1].Static() / max(1, v.Dim(0).Static())
		c.setInput(i, &value{tensor: repeatEach(v, 0, each).Reshape(x[1]), from: c.in[i].from})
	}
}

// flattened builds an op along an axis, such as Softmax, of an opset before 13, in which the axis and all later axes
// counted as a single axis. newer builds the op as later opsets define it.
func flattened(c *call, newer func() []*value) []*value {
	s := c.shapeOf(c.input(0))
	axis := c.axis(c.intAttr("axis", 1), len(s))
	c.setAttr("axis", &Attribute{Type: AttrInt, Int: int64(axis)})
	if axis == len(s)-1 {
		return newer()
	}
	c.setInput(0, c.reshaped(c.in[0], slices.Concat(s[:axis], ir.Shape{c.numel(s[axis:])})))
	results := newer()
	for i, v := range results {
		results[i] = c.reshaped(v, s)
	}
	return results
}

// acrossChannels converts old attributes of MeanVarianceNormalization to attribute axes. across_channels said whether
// means include all channels.
func acrossChannels(c *call) {
	axes := []int64{0, 2, 3}
	if c.intAttr("across_channels", 0) != 0 {
		axes = []int64{0, 1, 2, 3}
	}
	c.setAttr("across_channels", nil)
	c.only("normalize_variance", 1, "it always divides by deviations")
	c.setAttr("normalize_variance", nil)
	if !c.hasAttr("axes") {
		c.setAttr("axes", &Attribute{Type: AttrInts, Ints: axes})
	}
}

// twoScales builds Upsample of an old opset, which had the factors of height and width as separate attributes.
func twoScales(c *call) {
	h, w := c.must("height_scale", AttrFloat).Float, c.must("width_scale", AttrFloat).Float
	c.setAttr("height_scale", nil)
	c.setAttr("width_scale", nil)
	c.setAttr("scales", &Attribute{Type: AttrFloats, Floats: []float32{1, 1, h, w}})
}

// padsRenamed builds Pad of an old opset, in which attribute pads had the name paddings.
func padsRenamed(c *call) {
	if a := c.attr("paddings", AttrInts); a != nil {
		c.setAttr("pads", &Attribute{Type: AttrInts, Ints: a.Ints})
		c.setAttr("paddings", nil)
	}
}

// slopePerChannel builds PRelu of an old opset, in which a vector of slopes had one for each channel.
func slopePerChannel(c *call) {
	x, slope := c.shapeOf(c.input(0)), c.shapeOf(c.input(1))
	if len(slope) == 1 && len(x) > 2 {
		c.setInput(1, c.reshaped(c.in[1], slices.Concat(slope, ones(len(x)-2))))
	}
}

// oneAxisRepeated converts Tile of an old opset, which repeated a single axis: input 1 had the number of repeats, and
// input 2 the axis.
func oneAxisRepeated(c *call) {
	repeats := ones(len(c.shapeOf(c.input(0))))
	repeats[c.axis(c.ints(2)[0], len(repeats))] = ir.D(c.ints(1)[0])
	c.in = []*value{c.in[0], dimsValue(repeats, false)}
}
