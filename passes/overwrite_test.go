package passes_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// inPlaceStates are graphs of a state of 6x4x8 elements and the kernels that they become.
// All of them write the state in place but those that say that they copy.
var inPlaceStates = []struct {
	name, families, body string
	copies               bool
}{
	{"two slices", "map map", `
		%a = dynamic_update_slice %s, %row, %at
		%b = dynamic_update_slice %a, %row, %other
		update %s = %b
		output "y" %b`, false},
	{"a slice along two axes", "map", `
		%old = dynamic_slice %s, %at {size=[1]}
		%new = dynamic_update_slice %old, %line, %other {axis=1}
		%b = dynamic_update_slice %s, %new, %at
		update %s = %b
		output "y" %b`, false},
	{"a slice along two axes, seen without the first", "map", `
		%old = dynamic_slice %s, %at {size=[1]}
		%flat = reshape %old {shape=[4,8]}
		%piece = reshape %line {shape=[1,8]}
		%new = dynamic_update_slice %flat, %piece, %other
		%whole = reshape %new {shape=[1,4,8]}
		%b = dynamic_update_slice %s, %whole, %at
		update %s = %b
		output "y" %b`, false},
	{"scatter of one line per sequence", "map", `
		%flat = reshape %positions {shape=[6,1,1]}
		%idx = broadcast %flat {shape=[6,1,8]}
		%b = scatter %s, %idx, %lines {axis=1}
		update %s = %b
		output "y" %b`, false},
	{"scatter with equal indices", "row map", `
		%flat = reshape %positions {shape=[6,1,1]}
		%idx = broadcast %flat {shape=[6,4,8]}
		%b = scatter %s, %idx, %updates
		update %s = %b
		output "y" %b`, false},
	{"scatter with distinct indices", "map", `
		%flat = reshape %positions {shape=[6,1,1]}
		%i = iota {shape=[6,1,1]}
		%all = broadcast %i {shape=[6,4,8]}
		%b = scatter %s, %all, %updates {unique=true}
		update %s = %b
		output "y" %b`, false},
	{"scatter_add", "row row map", `
		%flat = reshape %positions {shape=[6,1,1]}
		%idx = broadcast %flat {shape=[6,4,8]}
		%b = scatter_add %s, %idx, %updates
		update %s = %b
		output "y" %b`, false},
	{"index_add", "row row map", `
		%b = index_add %s, %positions, %updates
		update %s = %b
		output "y" %b`, false},
	{"scatter_nd of lines", "map row map", `
		%b = scatter_nd %s, %pairs, %few
		update %s = %b
		output "y" %b`, false},
	{"scatter_nd_add of lines", "map row row map", `
		%b = scatter_nd_add %s, %pairs, %few
		update %s = %b
		output "y" %b`, false},
	{"a scatter of another shape", "row map", `
		%rows = reshape %s {shape=[24,8]}
		%new = reshape %few {shape=[3,8]}
		%col = slice %pairs {starts=[0,0], limits=[3,1]}
		%a = scatter_nd %rows, %col, %new
		%b = reshape %a {shape=[6,4,8]}
		update %s = %b
		output "y" %b`, false},
	{"the old value read before", "row map", `
		%sum = sum %s
		%b = dynamic_update_slice %s, %row, %at
		update %s = %b
		output "y" %sum`, false},
	{"the old value needed beside the new one", "map", `
		%b = dynamic_update_slice %s, %row, %at
		%d = sub %b, %s
		update %s = %b
		output "y" %d`, true},
	{"the old value in the update", "map map", `
		%first = slice %s {starts=[1,0,0], limits=[2,4,8]}
		%twice = add %first, %first
		%b = dynamic_update_slice %s, %twice, %at
		update %s = %b
		output "y" %b`, true},
	{"a write that is also read by itself", "map", `
		%a = dynamic_update_slice %s, %row, %at
		%b = dynamic_update_slice %a, %row, %other
		update %s = %b
		output "y" %a`, true},
}

// TestInPlace: only what changes of a state is written, each element by one invocation,
// and the values are those of the reference.
func TestInPlace(t *testing.T) {
	const leaves = `
		%s = state {name="s", dtype=f32, shape=[6,4,8]}
		%row = input {name="row", dtype=f32, shape=[1,4,8]}
		%line = input {name="line", dtype=f32, shape=[1,1,8]}
		%lines = input {name="lines", dtype=f32, shape=[6,1,8]}
		%few = input {name="few", dtype=f32, shape=[3,8]}
		%updates = input {name="updates", dtype=f32, shape=[6,4,8]}
		%at = input {name="at", dtype=i32, shape=[]}
		%other = input {name="other", dtype=i32, shape=[]}
		%positions = input {name="positions", dtype=i32, shape=[6]}
		%pairs = input {name="pairs", dtype=i32, shape=[3,2]}`
	for _, tt := range inPlaceStates {
		t.Run(tt.name, func(t *testing.T) {
			s, c, err := checkGraph(parse(t, leaves+tt.body), 1, 8)
			if err != nil {
				t.Fatal(err)
			}
			// What is read again goes out by a copy, which is no part of the update.
			if have := strings.TrimSuffix(families(s), " map"); c.ran == 0 || families(s) != tt.families &&
				have != tt.families {
				t.Errorf("%d runs of kernels %q, want %q\n%s", c.ran, families(s), tt.families, s.Text())
			}
			v := s.Graph.Updates()[0].Value
			if copies := v.Op() == ir.OpReshape && v.Shape().Equal(v.Arg(0).Shape()); copies != tt.copies {
				t.Errorf("the state is written whole: %v\n%s", copies, s.Text())
			}
		})
	}
}
