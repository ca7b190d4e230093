package interp_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestRopePositionsOfABatch: positions [B, T] turn each sequence as a vector of its own would.
func TestRopePositionsOfABatch(t *testing.T) {
	g, err := ir.Parse(`graph "rope" {
		%x = input {name="x", dtype=f32, shape=[2,3,5,8]}
		%p = input {name="p", dtype=i32, shape=[2,5]}
		%y = rope %x, %p
		output "all" %y
		%x0 = slice %x {starts=[0,0,0,0], limits=[1,3,5,8]}
		%x1 = slice %x {starts=[1,0,0,0], limits=[2,3,5,8]}
		%p0 = slice %p {starts=[0,0], limits=[1,5]}
		%p1 = slice %p {starts=[1,0], limits=[2,5]}
		%q0 = reshape %p0 {shape=[5]}
		%q1 = reshape %p1 {shape=[5]}
		%y0 = rope %x0, %q0
		%y1 = rope %x1, %q1
		%z = concat %y0, %y1 {axis=0}
		output "each" %z
	}`)
	if err != nil {
		t.Fatal(err)
	}
	values := graphgen.Values{Seed: 1, Graph: g}
	in, err := values.Inputs(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if in["p"], err = ir.NewData(ir.I32, 2, 5); err != nil {
		t.Fatal(err)
	}
	for i, at := range []int32{0, 1, 2, 3, 4, 70, 71, 9, 9, 1000} {
		in["p"].Bytes[4*i], in["p"].Bytes[4*i+1] = byte(at), byte(at>>8)
	}
	p, err := interp.New(g, interp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(context.Background(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out["all"].Bytes, out["each"].Bytes) {
		t.Error("sequences of a batch are turned otherwise than each by itself")
	}
	for _, wrong := range []string{"[3,5]", "[2,4]", "[2,3,5,8]", "[5,2]", "[]"} {
		_, err := ir.Parse(`graph "rope" {
			%x = input {name="x", dtype=f32, shape=[2,3,5,8]}
			%p = input {name="p", dtype=i32, shape=` + wrong + `}
			%y = rope %x, %p
			output "y" %y
		}`)
		if err == nil {
			t.Errorf("positions of shape %s are taken", wrong)
		}
	}
}
