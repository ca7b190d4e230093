package kernel

import (
	"reflect"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestMapIsExhaustive maps a kernel with a value in every field. The result must equal the kernel, and share no
// expression with it. If Map forgets a new field, the field is lost or keeps expressions of the old builder.
func TestMapIsExhaustive(t *testing.T) {
	k := wholeKernel()
	for i := range reflect.TypeFor[Kernel]().NumField() {
		if reflect.ValueOf(k).Elem().Field(i).IsZero() {
			t.Errorf("wholeKernel has nothing in %s", reflect.TypeFor[Kernel]().Field(i).Name)
		}
	}
	mapped := Map(k, Edit{})
	if mapped.Identity() != k.Identity() || mapped.Name != k.Name || !slices.Equal(mapped.Ops, k.Ops) ||
		!slices.Equal(mapped.After, k.After) {
		t.Errorf("Map makes another kernel of\n%swhich is\n%s", k, mapped)
	}
	const moved = 9
	elsewhere := Map(k, Edit{At: func(axis int, extent ir.Dim) Index { return Axis(axis+moved, extent) }})
	old := map[*Expr]bool{}
	visitBodies(k, func(_ string, e *Expr, _ *Factor) { old[e] = true })
	visitBodies(elsewhere, func(field string, e *Expr, f *Factor) {
		if e != nil && old[e] || f != nil && f.Kind == FactorAxis && f.Axis < moved {
			t.Errorf("%s is not rewritten", field)
		}
	})
}

// visitBodies visits the expressions and factors in each field of a kernel and of its parts.
func visitBodies(k *Kernel, visit func(field string, e *Expr, f *Factor)) {
	var walk func(v reflect.Value, name string)
	walk = func(v reflect.Value, name string) {
		switch {
		case v.Type() == reflect.TypeFor[*Expr]():
			visit(name, (*Expr)(v.UnsafePointer()), nil)
		case v.Type() == reflect.TypeFor[*Factor]():
			visit(name, nil, (*Factor)(v.UnsafePointer()))
		case v.Kind() == reflect.Pointer && !v.IsNil():
			walk(v.Elem(), name)
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), name)
			}
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), name+"."+v.Type().Field(i).Name)
			}
		}
	}
	walk(reflect.ValueOf(k), "Kernel")
}

// TestMapBindsWhatIsUsed removes a store from a kernel. Buffers that only the store used are no longer bound, and the
// others keep their roles.
func TestMapBindsWhatIsUsed(t *testing.T) {
	b := NewBuilder()
	at := Axis(0, ir.Symbol("T", 8))
	k := &Kernel{Name: "k", Family: FamilyMap, Parallel: []ir.Dim{ir.Symbol("T", 8)},
		Bindings: []Binding{{Name: "x", DType: ir.F32, Read: true, Buffer: 1},
			{Name: "y", DType: ir.F32, Read: true, Buffer: 2},
			{Name: "a", DType: ir.F32, Write: true, Buffer: 3}, {Name: "b", DType: ir.F32, Write: true, Buffer: 4},
			{Name: "params", DType: ir.U32, Read: true, Buffer: 5, Params: true}},
		Stores: []Store{{Bind: 2, Index: at, Value: b.Load(0, ir.F32, at, "x")}, {Bind: 3, Index: at, Value: b.Load(1, ir.F32, at, "y")}},
	}
	second := func(m *Mapping) []Store { return []Store{m.Store(k.Stores[1])} }
	out := Map(k, Edit{Stores: second})
	want := []Binding{k.Bindings[1], k.Bindings[3], k.Bindings[4]}
	if !slices.Equal(out.Bindings, want) || out.Stores[0].Bind != 1 || out.Stores[0].Value.Bind != 0 {
		t.Errorf("bindings are %+v and want %+v, of\n%s", out.Bindings, want, out)
	}
	if kept := Map(k, Edit{SameBindings: true, Stores: second}); !slices.Equal(kept.Bindings, k.Bindings) ||
		kept.Stores[0].Bind != 3 || kept.Stores[0].Value.Bind != 1 {
		t.Errorf("bindings are %+v and want %+v, of\n%s", kept.Bindings, k.Bindings, kept)
	}
	out = Map(k, Edit{Stores: func(m *Mapping) []Store {
		m.Rebind = func(bind int, b Binding) Binding {
			if bind == 3 {
				b.Name, b.Buffer = "c", 6
			}
			return b
		}
		return second(m)
	}})
	if want[1].Name, want[1].Buffer = "c", 6; !slices.Equal(out.Bindings, want) {
		t.Errorf("bindings are %+v and want %+v, of\n%s", out.Bindings, want, out)
	}
}
