package cpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// aliases are graphs in which several values share memory: x is [1,2,3], and y has the expected values. The exponential
// after y would reuse its memory if y were freed too early.
var aliases = map[string]struct {
	text string
	want []float64
}{
	"a later result of a loop is never updated": {`
		%n = input {name="n", dtype=i32, shape=[]}
		%a = neg %x
		%l = loop %n, %a {trips=[4], body=graph "" {
			%0 = state {name="n", dtype=i32, shape=[]}
			%1 = state {name="a", dtype=f32, shape=[3]}
			%2 = sub %0, %0
			update %0 = %2
		}}
		%y = result %l {index=1}`, []float64{-1, -2, -3}},
	"a later result of a loop becomes itself": {`
		%n = input {name="n", dtype=i32, shape=[]}
		%a = neg %x
		%l = loop %n, %a {trips=[4], body=graph "" {
			%0 = state {name="n", dtype=i32, shape=[]}
			%1 = state {name="a", dtype=f32, shape=[3]}
			%2 = reshape %1 {shape=[3]}
			update %1 = %2
		}}
		%y = result %l {index=1}`, []float64{-1, -2, -3}},
	"a loop of no trips": {`
		%n = input {name="n", dtype=i32, shape=[]}
		%a = neg %x
		%l = loop %n, %a {trips=[0], body=graph "" {
			%0 = state {name="n", dtype=i32, shape=[]}
			%1 = state {name="a", dtype=f32, shape=[3]}
			%2 = exp %1
			update %1 = %2
		}}
		%y = result %l {index=1}`, []float64{-1, -2, -3}},
	"a condition that is false at first": {`
		%n = input {name="n", dtype=i32, shape=[]}
		%c = ne %n, %n
		%a = neg %x
		%l = loop %c, %a {trips=[4], while=true, body=graph "" {
			%0 = state {name="c", dtype=bool, shape=[]}
			%1 = state {name="a", dtype=f32, shape=[3]}
			%2 = neg %1
			update %1 = %2
		}}
		%y = result %l {index=1}`, []float64{-1, -2, -3}},
	"two results trade places": {`
		%a = neg %x
		%b = exp %x
		%l = loop %a, %b, %a {trips=[2], body=graph "" {
			%0 = state {name="a", dtype=f32, shape=[3]}
			%1 = state {name="b", dtype=f32, shape=[3]}
			%2 = state {name="c", dtype=f32, shape=[3]}
			update %0 = %2
			update %1 = %0
			update %2 = %1
		}}
		%y = result %l {index=1}`, []float64{-1, -2, -3}},
	"a result of a loop is carried through another": {`
		%n = input {name="n", dtype=i32, shape=[]}
		%a = neg %x
		%l = loop %n, %a {trips=[2], body=graph "" {
			%0 = state {name="n", dtype=i32, shape=[]}
			%1 = state {name="a", dtype=f32, shape=[3]}
			%2 = loop %0, %1 {trips=[2], body=graph "" {
				%0 = state {name="n", dtype=i32, shape=[]}
				%1 = state {name="a", dtype=f32, shape=[3]}
				%2 = sub %0, %0
				update %0 = %2
			}}
			%3 = result %2 {index=1}
			update %1 = %3
		}}
		%r = result %l {index=1}
		%m = loop %l, %r {trips=[2], body=graph "" {
			%0 = state {name="n", dtype=i32, shape=[]}
			%1 = state {name="a", dtype=f32, shape=[3]}
			%2 = sub %0, %0
			update %0 = %2
		}}
		%y = result %m {index=1}`, []float64{-1, -2, -3}},
	"a branch gives its values on": {`
		%n = input {name="n", dtype=i32, shape=[]}
		%c = eq %n, %n
		%a = neg %x
		%i = if %c, %n, %a {then=graph "" {
			%0 = input {name="n", dtype=i32, shape=[]}
			%1 = input {name="a", dtype=f32, shape=[3]}
			output "n" %0
			output "a" %1
		}, else=graph "" {
			%0 = input {name="n", dtype=i32, shape=[]}
			%1 = input {name="a", dtype=f32, shape=[3]}
			%2 = neg %1
			output "n" %0
			output "a" %2
		}}
		%y = result %i {index=1}`, []float64{-1, -2, -3}},
	"a view of a result": {`
		%n = input {name="n", dtype=i32, shape=[]}
		%a = neg %x
		%v = reshape %a {shape=[1,3]}
		%l = loop %n, %v {trips=[2], body=graph "" {
			%0 = state {name="n", dtype=i32, shape=[]}
			%1 = state {name="a", dtype=f32, shape=[1,3]}
			%2 = sub %0, %0
			update %0 = %2
		}}
		%r = result %l {index=1}
		%y = reshape %r {shape=[3]}`, []float64{-1, -2, -3}},
}

func aliasGraph(t *testing.T, text string) *ir.Graph {
	t.Helper()
	return graph(t, `graph "g" {
		%x = input {name="x", dtype=f32, shape=[3]}`+text+`
		%e = exp %x
		%s = sum %e {axes=[0]}
		output "s" %s
		output "y" %y
	}`)
}

// TestAliases: a value keeps its room for as long as another that lies there is used.
func TestAliases(t *testing.T) {
	for name, tt := range aliases {
		t.Run(name, func(t *testing.T) {
			e, err := Load(aliasGraph(t, tt.text), nil, Options{Poison: true})
			if err != nil {
				t.Fatal(err)
			}
			in := map[string]*ir.Data{"x": floats(t, []float64{1, 2, 3}, 3)}
			for _, p := range e.Inputs() {
				if p.Name == "n" {
					in["n"] = &ir.Data{DType: ir.I32, Bytes: make([]byte, 4)}
				}
			}
			for range 2 {
				r, err := e.Run(t.Context(), in, runtime.RunOptions{})
				if err != nil {
					t.Fatal(err)
				}
				have, err := r.Outputs["y"].Floats()
				if diff := cmp.Diff(tt.want, have); err != nil || diff != "" {
					t.Errorf("y: %v %s", err, diff)
				}
			}
		})
	}
}

// TestControlWithStatesOfItsOwn: a program with states of its own runs bodies too.
func TestControlWithStatesOfItsOwn(t *testing.T) {
	e, err := Load(graph(t, `graph "g" {
		%x = input {name="x", dtype=f32, shape=[2]}
		%s = state {name="s", dtype=f32, shape=[2]}
		%l = loop %s, %x {trips=[3], body=graph "" {
			%0 = state {name="s", dtype=f32, shape=[2]}
			%1 = input {name="x", dtype=f32, shape=[2]}
			%2 = add %0, %1
			update %0 = %2
		}}
		update %s = %l
		output "y" %l
	}`), nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := e.NewStates()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]float64{{3, 6}, {6, 12}} {
		r, err := e.Run(t.Context(), map[string]*ir.Data{"x": floats(t, []float64{1, 2}, 2)},
			runtime.RunOptions{States: own})
		if err != nil {
			t.Fatal(err)
		}
		have, err := r.Outputs["y"].Floats()
		if diff := cmp.Diff(want, have); err != nil || diff != "" {
			t.Errorf("y: %v %s", err, diff)
		}
	}
}
