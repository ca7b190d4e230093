package kernel

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/vkc-go/vkc/ir"
)

// uncounted are the fields that make no difference to a kernel's identity, with
// the reason. Whatever else a kernel consists of must make one.
var uncounted = map[string]string{
	"Kernel.Name":          "a name",
	"Kernel.Ops":           "names",
	"Kernel.After":         "it says when a kernel runs, not what it does",
	"Custom.Op":            "its number; its name and definition count",
	"Binding.Name":         "a name",
	"Binding.Buffer":       "which buffer it is",
	"Binding.Fixed":        "it says when a kernel may run, not what it does",
	"Binding.KeepsDecoded": "it says when a kernel may run, not what it does",
	"Phase.Name":           "a name",
	"MatMul.Name":          "a name",
	"Expr.ID":              "the order in which a builder met them",
	"Expr.Hint":            "a name",
	"Expr.axes":            "computed from the rest",
	"Expr.accs":            "computed from the rest",
	"Factor.key":           "computed from the rest",
	"Factor.size":          "computed from the rest",
}

// pair is a custom kernel.
var pair = ir.MustRegisterCustom(ir.CustomOp{
	Name: "kerneltest.pair", Args: []ir.ArgInfo{{Name: "a"}},
	Infer: func(c *ir.Call) ([]ir.Type, error) { return []ir.Type{c.Args[0].Type()}, nil },
	Kernel: &ir.CustomKernel{Outputs: []string{"p"}, Workgroup: [3]int{64},
		Grid: [3][]ir.GridRule{{{Of: "p", Axis: ir.AllAxes, Tile: 64}}}, Body: "p[0] = a[p_dim0];"},
	Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) { return args, nil },
})

// wholeKernel is no kernel that makes sense: it has something in every field.
func wholeKernel() *Kernel {
	b := NewBuilder()
	t := ir.Symbol("T", 12).Times(3).Plus(2)
	at := Axis(0, ir.D(8))
	value := b.Load(0, ir.I32, at.Times(3).Plus(Const(1)), "x")
	quo, rem := at.Plus(DimIndex(t)).DivMod(ir.D(5))
	far := ValueIndex(value, DimIndex(t)).Plus(quo).Plus(rem.Times(7))
	load := b.Load(1, ir.F32, far, "y")
	seed := b.Integer(ir.U32, 7)
	word := b.Random(seed, b.Integer(ir.U32, 9), at, WordFirst)
	sum := b.Apply(ir.OpAdd, ir.F32, nil, b.Cast(ir.F16, load), b.Float(ir.F32, 0.5))
	other := b.AccOfPair(1, ir.F32, Axis(1, ir.D(6)), "z")
	cond := b.Apply(ir.OpLt, ir.Bool, nil, b.FromIndex(at), b.FromIndex(DimIndex(t)))
	return &Kernel{
		Name: "name", Family: FamilyMatMul, Parallel: []ir.Dim{ir.D(8), t}, Fold: ir.D(64), Take: ir.D(3), Ops: []string{"op"},
		Bindings: []Binding{
			{Name: "x", DType: ir.I32, Read: true, Buffer: 4, Elems: 100, Layout: LayoutPlanes, Codebook: ir.IQ4_NL},
			{Name: "y", DType: ir.F32, Read: true, Write: true, Buffer: 5, Elems: 50},
		},
		Loop:    &Loop{Trips: t, While: true, Carried: 2, Body: 3},
		Phases:  []Phase{{Combine: CombineMax, Value: sum, Name: "max", Exclusive: true}},
		MatMuls: []MatMul{{A: load, B: sum, Name: "p", Operands: ir.F16, HalfSums: true}},
		Stores:  []Store{{Bind: 1, Index: far, Value: other, PerElement: true, Cols: Cols{From: 2, To: 4}}, {Bind: 1, Value: word}},
		Limit:   &Limit{At: at, Below: t},
		Attention: &Attention{Q: load, K: sum, V: word, Mask: other, Dot: ir.D(16), Scale: 0.25, Causal: true,
			Factor: &AttentionFactor{Q: sum, K: load, Delta: word, Dot: ir.D(8)}},
		Recurrence: &Recurrence{Keys: ir.D(6), State: load, Decay: sum, Q: word, K: other, V: load, A: sum, B: word},
		Group:      &Group{Of: rem, Rows: 3, Bind: 1, Groups: 4},
		Custom:     &Custom{Op: pair, Types: []ir.Type{{DType: ir.F32, Shape: ir.Shape{t}}, {DType: ir.F16, Shape: ir.ShapeOf(4)}}, Args: 1},
		Guard:      &Guard{Batch: cond, Row: cond, Col: cond},
		Fault:      &Fault{Bind: 1, Index: at, Most: 5},
		After:      []int{6, 7},
	}
}

// TestIdentity changes every field of a kernel and of its parts, one at a time. It covers new fields automatically.
func TestIdentity(t *testing.T) {
	k := wholeKernel()
	was := k.Identity()
	if was.Symbols != "T" || was != wholeKernel().Identity() {
		t.Fatalf("one kernel has two identities:\n%+v\n%+v", was, wholeKernel().Identity())
	}
	changed := map[string]bool{}
	visitLeaves(reflect.ValueOf(k).Elem(), "Kernel", map[unsafe.Pointer]bool{}, func(field string, v reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		defer v.Set(old)
		if field == "Custom.Op" || !change(v) {
			return
		}
		changed[field] = true
		why, out := uncounted[field]
		if now := k.Identity(); (now != was) == out {
			t.Errorf("%s = %v: identity changes: %t; it is left out: %t (%s)", field, v, now != was, out, why)
		}
	})
	for field := range uncounted {
		if !changed[field] && field != "Custom.Op" && field != "Expr.axes" && field != "Expr.accs" {
			t.Errorf("no kernel has a field %s", field)
		}
	}
	for _, field := range []string{"Binding.Elems", "Dim.Bound", "Index.c", "Term.Coef", "Factor.Axis", "Factor.Kind",
		"MatMul.ByteRows", "Cols.To", "Expr.Value", "Attention.Half", "Guard.Col", "Custom.Args", "Type.DType"} {
		if !changed[field] {
			t.Errorf("%s was not changed", field)
		}
	}
}

// change gives a field another value, and reports whether it can.
func change(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Pointer: // the value behind a pointer is changed separately
		if v.Type() != reflect.TypeFor[*Expr]() || v.IsNil() {
			return false
		}
		v.SetZero()
	default:
		return false
	}
	return true
}

// visitLeaves visits every field reachable from v with its type and name, if the field is meaningful for the kind of
// its expression or factor.
func visitLeaves(v reflect.Value, name string, seen map[unsafe.Pointer]bool, visit func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if name == "Guard.Batch" || name == "Guard.Row" || name == "Guard.Col" || name == "Attention.Mask" {
			visit(name, v) // the others cannot be nil
		}
		if v.IsNil() || seen[v.UnsafePointer()] {
			return
		}
		seen[v.UnsafePointer()] = true
		visitLeaves(v.Elem(), name, seen, visit)
	case reflect.Slice:
		for i := range v.Len() {
			visitLeaves(v.Index(i), name, seen, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			f = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
			field := fmt.Sprintf("%s.%s", v.Type().Name(), v.Type().Field(i).Name)
			if meaningless(v, field) {
				continue
			}
			visitLeaves(f, field, seen, visit)
		}
	case reflect.Interface: // the value of an attribute
	default:
		visit(name, v)
	}
}

// meaningless reports whether an expression, a factor or a dim has no use for
// a field.
func meaningless(v reflect.Value, field string) bool {
	switch x := v.Addr().Interface().(type) {
	case *Expr:
		kinds, limited := map[string][]ExprKind{
			"Expr.Bind": {ExprLoad}, "Expr.Value": {ExprConst}, "Expr.Int": {ExprConst}, "Expr.Op": {ExprApply}, "Expr.Attrs": {ExprApply},
			"Expr.Acc": {ExprAcc}, "Expr.Other": {ExprAcc}, "Expr.Word": {ExprRandom}, "Expr.axes": {}, "Expr.accs": {},
		}[field]
		return limited && !slices.Contains(kinds, x.Kind)
	case *Factor:
		kinds, limited := map[string][]FactorKind{
			"Factor.Axis": {FactorAxis}, "Factor.Extent": {FactorAxis}, "Factor.Sym": {FactorSym}, "Factor.Bound": {FactorSym},
			"Factor.X": {FactorDiv, FactorMod, FactorClamp}, "Factor.D": {FactorDiv, FactorMod, FactorClamp}, "Factor.Value": {FactorValue},
			// Only a quotient, a remainder and a clamp can be taken for one another.
			"Factor.Kind": {FactorDiv, FactorMod},
		}[field]
		return limited && !slices.Contains(kinds, x.Kind)
	case *ir.Dim:
		return x.IsStatic() && field != "Dim.Add"
	}
	return false
}
