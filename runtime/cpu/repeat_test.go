package cpu

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// repeatText has values of each kind in a repeated run: fixed values, states that are written in place or replaced,
// extents that depend on a symbol, an if with one of two fixed values, outputs, and an op that picks an element.
const repeatText = `graph "g" {
	symbol S <= 8
	%x = input {name="x", dtype=f32, shape=[1,4]}
	%at = input {name="at", dtype=i32, shape=[]}
	%ring = state {name="ring", dtype=f32, shape=[8,4]}
	%sum = state {name="sum", dtype=f32, shape=[1,4]}
	%a = tanh %x
	%b = exp %a
	%next = dynamic_update_slice %ring, %b, %at {axis=0}
	update %ring = %next
	%seen = slice %next {starts=[0,0], limits=[S,4]}
	%best = argmax %seen {axis=0}
	%odd = cast %at {dtype=bool}
	%which = if %odd, %a, %b {then=graph "" {
		%0 = input {name="a", dtype=f32, shape=[1,4]}
		%1 = input {name="b", dtype=f32, shape=[1,4]}
		output "a" %0
	}, else=graph "" {
		%0 = input {name="a", dtype=f32, shape=[1,4]}
		%1 = input {name="b", dtype=f32, shape=[1,4]}
		output "b" %1
	}}
	%c = neg %b
	%d = exp %c
	%e = softmax %d {axis=1}
	%f = add %e, %which
	%new = add %f, %sum
	update %sum = %new
	%g = cast %best {dtype=f32}
	%h = add %f, %g
	output "h" %h
	output "a" %a
}`

// TestRepeatedRuns compares runs that repeat tasks with the reference, also after runs that fail.
func TestRepeatedRuns(t *testing.T) {
	var ways [2]runtime.Executable
	for i, opt := range []Options{{Reference: true}, {Poison: true}} {
		var err error
		if ways[i], err = Load(graph(t, repeatText), nil, opt); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 12 {
		in := map[string]*ir.Data{"x": floats(t, []float64{float64(i), 1, -2, 0.5}, 1, 4),
			"at": integer(t, i%8)}
		run := func(ctx context.Context, e runtime.Executable, seen int64) (*runtime.Result, error) {
			return e.Run(ctx, in, runtime.RunOptions{Symbols: map[string]int64{"S": seen}})
		}
		var failed [2]error
		var results [2]*runtime.Result
		for w, e := range ways {
			if _, err := run(ended, e, 1); !errors.Is(err, context.Canceled) {
				t.Fatalf("run %d: a cancelled run returns %v", i, err)
			}
			_, failed[w] = run(t.Context(), e, 0)
			var err error
			if results[w], err = run(t.Context(), e, int64(i%8+1)); err != nil {
				t.Fatal(err)
			}
		}
		if failed[0] == nil || failed[1] == nil || failed[0].Error() != failed[1].Error() {
			t.Errorf("run %d without elements to pick: errors %v and %v", i, failed[0], failed[1])
		}
		for _, name := range []string{"h", "a"} {
			want, have := results[0].Outputs[name], results[1].Outputs[name]
			if !near(t, want, have) {
				t.Errorf("run %d, output %q: %v, want %v", i, name, elementsOf(t, have), elementsOf(t, want))
			}
		}
		for _, name := range []string{"ring", "sum"} {
			var list [2]*ir.Data
			for w, e := range ways {
				var err error
				if list[w], err = e.ReadState(name); err != nil {
					t.Fatal(err)
				}
			}
			if !near(t, list[0], list[1]) {
				t.Errorf("run %d, state %q: %v, want %v", i, name, elementsOf(t, list[1]), elementsOf(t, list[0]))
			}
		}
	}
}

// TestRepeatedStates: the memory of a value that became a state is not used again by a repeated run.
func TestRepeatedStates(t *testing.T) {
	e, err := Load(graph(t, `graph "g" {
		%x = input {name="x", dtype=f32, shape=[2]}
		%s = state {name="s", dtype=f32, shape=[2]}
		%a = exp %x
		%b = sort %a {axis=0}
		%c = neg %b
		%d = sort %c {axis=0}
		%e = add %x, %x
		update %s = %e
		output "d" %d
		output "s" %s
	}`), nil, Options{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{0, 0}
	for i := range 6 {
		v := float64(i + 1)
		r, err := e.Run(t.Context(), map[string]*ir.Data{"x": floats(t, []float64{v, -v}, 2)})
		if err != nil {
			t.Fatal(err)
		}
		if have := elementsOf(t, r.Outputs["s"]); !slices.Equal(have, want) {
			t.Errorf("run %d: state %v, want %v", i, have, want)
		}
		want = []float64{2 * v, -2 * v}
	}
}

func integer(t *testing.T, v int) *ir.Data {
	t.Helper()
	d, err := ir.FromInts(ir.I32, []int64{int64(v)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func elementsOf(t *testing.T, d *ir.Data) []float64 {
	t.Helper()
	list, err := d.Floats()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// near reports whether two tensors have about the same elements.
func near(t *testing.T, a, b *ir.Data) bool {
	t.Helper()
	return bytes.Equal(a.Bytes, b.Bytes) || slices.EqualFunc(elementsOf(t, a), elementsOf(t, b),
		func(x, y float64) bool { return x-y < 1e-5 && y-x < 1e-5 })
}
