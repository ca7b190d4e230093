package ir

import "fmt"

var nameAttr = AttrInfo{Name: "name", Kind: AttrString, Doc: "name of the tensor"}

var shardAttr = AttrInfo{Name: "shard", Kind: AttrInt, Default: int64(-1),
	Doc: "axis along which devices that run the graph together may each have a part; -1 for none"}

// init adds the rows of the leaves to the op table.
func init() {
	typed := []AttrInfo{nameAttr,
		{Name: "dtype", Kind: AttrDType, Doc: "the element type"},
		{Name: "shape", Kind: AttrShape, Doc: "the shape"},
	}
	rows(
		OpInfo{Op: OpInput, Name: "input", Class: ClassLeaf, Moves: true, Attrs: typed, Infer: inferNamed,
			Doc: "A tensor given at each run."},
		OpInfo{Op: OpWeight, Name: "weight", Class: ClassLeaf, Moves: true,
			Attrs: append(typed[:len(typed):len(typed)], shardAttr),
			Infer: inferNamed,
			Doc: "A constant tensor found by name in a weights file or bundle. weight, const and state are the only " +
				"leaves that may have a block dtype."},
		OpInfo{Op: OpConst, Name: "const", Class: ClassLeaf, Moves: true,
			Attrs: []AttrInfo{{Name: "data", Kind: AttrData, Doc: "the values"}}, Infer: inferConst,
			Doc: "A constant tensor held in the graph itself."},
		OpInfo{Op: OpState, Name: "state", Class: ClassLeaf, Moves: true,
			Attrs: append(typed[:len(typed):len(typed)], AttrInfo{Name: "init", Kind: AttrString, Default: "",
				Doc: "the initial value, zeros if empty: `constant VALUE`, `uniform LOW HIGH SEED`, `normal MEAN DEVIATION SEED` or `weight NAME`"}, shardAttr),
			Infer: inferState,
			Doc: "A tensor that persists from run to run. Reads return its value from before the run. An update " +
				"sets its value for the next run."},
		OpInfo{Op: OpIota, Name: "iota", Class: ClassLeaf,
			Attrs: []AttrInfo{
				{Name: "dtype", Kind: AttrDType, Default: I32, Doc: "the element type"},
				{Name: "shape", Kind: AttrShape, Doc: "the shape"},
				{Name: "axis", Kind: AttrInt, Default: int64(0), Doc: "axis with the coordinate that is the value"},
			}, Infer: inferIota,
			Doc: "Each element is its own coordinate along one axis: 0, 1, 2, …"},
		OpInfo{Op: OpDimValue, Name: "dim_value", Class: ClassLeaf,
			Attrs: []AttrInfo{{Name: "dim", Kind: AttrShape, Doc: "the dim, as a shape of one axis"}}, Infer: inferDimValue,
			Doc: "An i32 scalar with the run-time value of a dim."},
	)
}

// inferNamed is the type rule of inputs, weights and states, which have their type as attributes.
func inferNamed(c *Call) (Type, error) {
	t := Type{c.Attrs.DType("dtype"), c.Attrs.Shape("shape")}
	if c.Attrs.String_("name") == "" {
		return Type{}, fmt.Errorf("needs a name")
	}
	if axis := c.Attrs.Int("shard"); c.Op != OpInput && (axis < -1 || axis >= len(t.Shape)) {
		return Type{}, fmt.Errorf("shard is %d: want an axis of %s, or -1", axis, t.Shape)
	}
	if t.DType.IsBlock() {
		if c.Op == OpInput && !c.inBody {
			return Type{}, fmt.Errorf("%s is a storage type of weights and states, not of inputs", t.DType)
		}
		if !t.Shape.IsStatic() {
			return Type{}, fmt.Errorf("%s needs a static shape, have %s", t.DType, t.Shape)
		}
	}
	if c.Op != OpInput && !t.Shape.IsStatic() && !(c.Op == OpState && c.inBody) {
		return Type{}, fmt.Errorf("a %s needs a static shape, have %s: use the symbol's bound and slice the "+
			"tensor", c.Op,
			t.Shape)
	}
	return t, nil
}

// inferState is the type rule of state, which also has an initial value.
func inferState(c *Call) (Type, error) {
	i, err := ParseInitial(c.Attrs.String_("init"))
	if err == nil {
		err = i.check(c.Attrs.DType("dtype"))
	}
	if err != nil {
		return Type{}, fmt.Errorf("init: %w", err)
	}
	return inferNamed(c)
}

func inferConst(c *Call) (Type, error) {
	d := c.Attrs.Data("data")
	return Type{d.DType, ShapeOf(d.Dims...)}, nil
}

// inferIota is the type rule of iota.
func inferIota(c *Call) (Type, error) {
	t := Type{c.Attrs.DType("dtype"), c.Attrs.Shape("shape")}
	if k := t.DType.Kind(); k == KindBlock || k == KindBool {
		return Type{}, fmt.Errorf("%s cannot count", t.DType)
	}
	_, err := c.axis("axis", len(t.Shape))
	return t, err
}

// inferDimValue checks attribute dim, a single extent. The result is a scalar i32.
func inferDimValue(c *Call) (Type, error) {
	if s := c.Attrs.Shape("dim"); len(s) != 1 {
		return Type{}, fmt.Errorf("dim %s is not one dim", s)
	}
	return Type{I32, Shape{}}, nil
}
