package interp

import (
	"context"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestBodiesAfterNew: the bodies of loops and branches, which are prepared when they first run, ask the context of that
// run whether to go on, and not the one that New had.
func TestBodiesAfterNew(t *testing.T) {
	const text = `graph "g" {
  %x = input {name="x", dtype=f32, shape=[2]} : f32[2]
  %y = loop %x {trips=[3], body=graph "body" {
    %s = state {name="s", dtype=f32, shape=[2]} : f32[2]
    %i = iota {shape=[2]} : i32[2]
    %c = cast %i {dtype=f32} : f32[2]
    %n = add %s, %c : f32[2]
    update %s = %n
  }} : f32[2]
  output "y" %y
}`
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	loading, loaded := context.WithCancel(t.Context())
	p, err := New(g, Options{Context: loading})
	if err != nil {
		t.Fatal(err)
	}
	loaded()
	out, err := p.Run(t.Context(), map[string]*ir.Data{"x": floats(t, ir.F32, []float64{1, 3}, 2)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if y, err := out["y"].Floats(); err != nil || y[0] != 1 || y[1] != 6 {
		t.Errorf("1 and 3 after 0 and 1 are added three times are %v, %v", y, err)
	}
}
