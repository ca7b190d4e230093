package ir

import (
	"slices"
	"strings"
)

// probeShape is the argument shape with which acceptedDTypes calls most shape rules. Its innermost axis is a whole
// number of blocks for every block dtype.
var probeShape = ShapeOf(2, 256)

// probeShapes are the argument shapes of ops that probeShape does not suit, by argument; the last one applies to all
// further arguments.
var probeShapes = map[Op][]Shape{
	OpRMSNorm:            {probeShape, ShapeOf(256)},
	OpLayerNorm:          {probeShape, ShapeOf(256)},
	OpRope:               {probeShape, ShapeOf(2), ShapeOf(128, 2)},
	OpRopeTables:         {probeShape, ShapeOf(128)},
	OpGroupNorm:          {probeShape, ShapeOf(256)},
	OpBatchNorm:          {probeShape, ShapeOf(256)},
	OpIndexSelect:        {probeShape, ShapeOf(2)},
	OpDynamicUpdateSlice: {probeShape, probeShape, {}},
	OpDynamicSlice:       {probeShape, {}},
	OpIndexAdd:           {probeShape, ShapeOf(2), probeShape},
	OpGatherND:           {probeShape, ShapeOf(2)},
	OpScatterND:          {probeShape, ShapeOf(2), {}},
	OpScatterNDAdd:       {probeShape, ShapeOf(2), {}},
	OpRandomUniform:      {{}},
	OpRandomNormal:       {{}},
	OpRandomBernoulli:    {{}},
	OpConv:               {ShapeOf(2, 2, 256), ShapeOf(2, 2, 256)},
	OpConvTranspose:      {ShapeOf(2, 2, 256), ShapeOf(2, 2, 256)},
	OpMatMulID:           {ShapeOf(2, 1, 256), ShapeOf(2, 2, 256), ShapeOf(2, 2)},
	OpExpertGroups:       {ShapeOf(2, 2)},
	OpFFT:                {ShapeOf(256, 2)},
	OpIRFFT:              {ShapeOf(128, 2)},
	OpCholesky:           {ShapeOf(256, 256)},
	OpTriangularSolve:    {ShapeOf(256, 256)},
	OpQR:                 {ShapeOf(256, 256)},
	OpEigH:               {ShapeOf(256, 256)},
	OpAttention:          {ShapeOf(2, 2, 256), ShapeOf(2, 2, 256), ShapeOf(2, 2, 256), ShapeOf(1, 1, 1), ShapeOf(2)},
	OpAttentionLSE:       {ShapeOf(2, 2, 256), ShapeOf(2, 2, 256), ShapeOf(1, 1, 1), ShapeOf(2)},
	OpCausalConv1D:       {probeShape, ShapeOf(256, 2), ShapeOf(1, 256)},
	OpSSMScan: {ShapeOf(2, 2, 2), ShapeOf(2, 2), ShapeOf(2, 1), ShapeOf(2, 1, 256), ShapeOf(2, 1, 256),
		ShapeOf(2, 2, 256)},
	OpDeltaRule: {ShapeOf(2, 1, 256), ShapeOf(2, 1, 256), ShapeOf(2, 2, 2), ShapeOf(2, 2, 1), ShapeOf(2, 2, 256),
		ShapeOf(2, 2, 256)},
	OpAttentionGrad: {ShapeOf(2, 2, 256), ShapeOf(2, 2, 256), ShapeOf(2, 2, 256), ShapeOf(2, 2, 256), ShapeOf(2, 2),
		ShapeOf(2, 2), ShapeOf(1, 1, 1)},
}

// probeAttr returns a value for an attribute that is valid with the probe's shapes.
func probeAttr(op Op, a AttrInfo) any {
	switch {
	case op == OpQuantize:
		return Q8_0
	case op == OpMatMul && a.Name == "transpose_b":
		return true
	case op == OpDynamicSlice && a.Name == "size":
		return ShapeOf(1)
	case op == OpIRFFT && a.Name == "n":
		return int64(254) // numbers with the 128 frequencies in probeShapes
	case a.Default != nil:
		return a.Default
	case a.Kind == AttrShape:
		return probeShape
	case a.Kind == AttrDType:
		return F32
	case a.Kind == AttrFloat:
		return 1.0
	case a.Name == "perm":
		return []int64{0, 1}
	case a.Name == "kernel":
		return []int64{1, 1}
	case a.Name == "groups" || a.Name == "experts" || a.Name == "rows":
		return int64(1)
	case a.Name == "axes":
		return []int64{}
	case a.Kind == AttrInts:
		return []int64{0, 0}
	}
	return int64(0)
}

// acceptedDTypes returns the dtypes that an op's shape rule accepts for argument i with at least one choice of dtypes
// for the other arguments.
func acceptedDTypes(in *OpInfo, i int) []DType {
	if in.Class == ClassControl { // any type that the bodies accept
		if in.Args[i].Name == "condition" {
			return []DType{Bool}
		}
		return DTypes()
	}
	var accepted []DType
	for _, t := range DTypes() {
		var attrs Attrs
		for _, a := range in.Attrs {
			attrs = append(attrs, Attr{a.Name, probeAttr(in.Op, a)})
		}
		if in.Converts() { // from t to t
			attrs[0].Value = t
		}
		types := make([]DType, len(in.Args))
		types[i] = t
		if probeRest(in, attrs, types, i, 0) {
			accepted = append(accepted, t)
		}
	}
	return accepted
}

// probeRest reports whether an op's shape rule accepts types for some choice of dtypes of the arguments from next on.
// The dtype of argument number probed stays as it is, and so do those before next.
func probeRest(in *OpInfo, attrs Attrs, types []DType, probed, next int) bool {
	if next == len(types) {
		_, err := (&Call{Op: in.Op, Args: probeArgs(in.Op, types), Attrs: attrs}).infer(in)
		return err == nil
	}
	if next == probed {
		return probeRest(in, attrs, types, probed, next+1)
	}
	choices := []DType{types[probed], F32, I32, U32, Bool}
	if len(types) > 5 { // the number of combinations is exponential
		choices = choices[:2]
	}
	for _, t := range choices {
		types[next] = t
		if probeRest(in, attrs, types, probed, next+1) {
			return true
		}
	}
	return false
}

// probeArgs returns arguments of the given dtypes, with the shapes that the op needs.
func probeArgs(op Op, types []DType) []*Node {
	shapes := probeShapes[op]
	if shapes == nil {
		shapes = []Shape{probeShape}
	}
	args := make([]*Node, len(types))
	for i, t := range types {
		args[i] = &Node{typ: Type{t, shapes[min(i, len(shapes)-1)]}}
	}
	if op == OpMatMulID { // its groups depend on its ids
		args[3].op, args[3].args = OpExpertGroups, args[2:3]
		args[3].attrs = Attrs{{"experts", args[1].typ.Shape[0].Add}, {"rows", int64(1)}}
	}
	return args
}

// dtypeNames names a set of dtypes, by kind if it contains a whole kind.
func dtypeNames(set []DType) string {
	if len(set) == len(DTypes()) {
		return "any"
	}
	var parts []string
	for _, k := range []Kind{KindFloat, KindInt, KindUint, KindBool, KindBlock} {
		whole, have := 0, []string{}
		for _, t := range DTypes() {
			if t.Kind() != k || t.StorageOnly() {
				continue
			}
			whole++
			if slices.Contains(set, t) {
				have = append(have, t.String())
			}
		}
		if len(have) == whole {
			have = []string{k.String()}
		}
		parts = append(parts, have...)
	}
	if slices.ContainsFunc(set, DType.StorageOnly) {
		parts = append(parts, "storage-only")
	}
	return strings.Join(parts, ", ")
}
