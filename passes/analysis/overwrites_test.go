package analysis_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// inPlaceStates are graphs with a state of 6x4x8 elements and their kernels. All of them write the state in place
// except those with copies set.
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
	{"scatter_nd of lines", "row map", `
		%b = scatter_nd %s, %pairs, %few
		update %s = %b
		output "y" %b`, false},
	{"scatter_nd_add of lines", "row row map", `
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
	{"six slices, one of nothing", "map map map map map map", `
		%none = input {name="none", dtype=f32, shape=[0,4,8]}
		%i = iota {shape=[6,1,1]}
		%idx = broadcast %i {shape=[6,4,8]}
		%a = dynamic_update_slice %s, %row, %at
		%b = dynamic_update_slice %a, %none, %other
		%c = scatter %b, %idx, %updates {unique=true}
		%d = dynamic_update_slice %c, %lane, %other {axis=1}
		%e = dynamic_update_slice %d, %row, %other
		%f = dynamic_update_slice %e, %row, %at
		update %s = %f
		output "y" %f`, false},
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
		output "y" %b`, false},
	{"a row is read, changed and written", "map map", `
		%old = dynamic_slice %s, %at {size=[1]}
		%new = add %old, %row
		%b = dynamic_update_slice %s, %new, %at
		update %s = %b`, false},
	{"rows multiplied go where others, changed, are read by position", "matmul row row map map", `
		%w = weight {name="w", dtype=f32, shape=[8,8]}
		%old = dynamic_slice %s, %at {size=[1]}
		%new = matmul %old, %w
		%a = dynamic_update_slice %s, %new, %other
		%two = slice %positions {starts=[0], limits=[2]}
		%rows = index_select %s, %two
		%twice = add %rows, %rows
		%b = index_add %a, %two, %twice
		update %s = %b`, false},
	{"the place depends on the old value", "map map", `
		%one = slice %s {starts=[0,0,0], limits=[1,1,1]}
		%num = reshape %one {shape=[]}
		%place = cast %num {dtype=i32}
		%b = dynamic_update_slice %s, %row, %place
		update %s = %b`, false},
	{"most of the old value in the update", "map map", `
		%five = slice %s {starts=[1,0,0], limits=[6,4,8]}
		%b = dynamic_update_slice %s, %five, %at
		update %s = %b`, true},
	{"rows in another order", "row map map", `
		%flat = reshape %positions {shape=[6,1,1]}
		%idx = broadcast %flat {shape=[6,4,8]}
		%b = scatter %s, %idx, %s {unique=true}
		update %s = %b`, true},
	{"all of one number", "map", `
		%c = const {data=f32[](0.5)}
		%b = broadcast %c {shape=[6,4,8]}
		update %s = %b`, true},
	{"a row of one number", "map", `
		%c = const {data=f32[](0.5)}
		%r = broadcast %c {shape=[1,4,8]}
		%b = dynamic_update_slice %s, %r, %at
		update %s = %b`, false},
	{"where a mask says", "map", `
		%zero = const {data=i32[](0)}
		%seen = gt %positions, %zero
		%mask = reshape %seen {shape=[6,1,1]}
		%c = const {data=f32[](0.5)}
		%b = where %mask, %c, %s
		update %s = %b`, false},
	{"where a mask of integers does not say", "map", `
		%mask = reshape %positions {shape=[6,1,1]}
		%b = where %mask, %s, %updates
		update %s = %b`, false},
	{"where a mask says, and a row", "map map", `
		%zero = const {data=i32[](0)}
		%seen = gt %positions, %zero
		%mask = reshape %seen {shape=[6,1,1]}
		%a = where %mask, %row, %s
		%b = dynamic_update_slice %a, %row, %at
		update %s = %b`, false},
	{"where the old value says", "map", `
		%zero = const {data=f32[](0)}
		%neg = lt %s, %zero
		%b = where %neg, %zero, %s
		update %s = %b`, true},
	{"a piece between pieces of the old value", "map", `
		%head = slice %s {starts=[0,0,0], limits=[6,1,8]}
		%tail = slice %s {starts=[0,2,0], limits=[6,4,8]}
		%b = concat %head, %lane, %tail {axis=1}
		update %s = %b`, false},
	{"pieces around one of the old value", "map map", `
		%mid = slice %s {starts=[1,0,0], limits=[5,4,8]}
		%b = concat %row, %mid, %row
		update %s = %b`, false},
	{"f16 added at places that differ", "map", `
		%h = state {name="h", dtype=f16, shape=[6,8]}
		%v = input {name="v", dtype=f16, shape=[3,8]}
		%i = iota {dtype=i32, shape=[3]}
		%b = index_add %h, %i, %v {unique=true}
		update %h = %b`, false},
	{"f16 added at places that may be equal", "row row map", `
		%h = state {name="h", dtype=f16, shape=[6,8]}
		%v = input {name="v", dtype=f16, shape=[6,8]}
		%b = index_add %h, %positions, %v
		update %h = %b`, false},
	{"bytes added at places that may be equal", "row row map", `
		%h = state {name="h", dtype=i8, shape=[6,8]}
		%v = input {name="v", dtype=i8, shape=[6,8]}
		%b = index_add %h, %positions, %v
		update %h = %b`, false},
	{"the largest of rows of f16", "row row map", `
		%h = state {name="h", dtype=f16, shape=[6,8]}
		%v = input {name="v", dtype=f32, shape=[6,8]}
		%i = reshape %positions {shape=[6,1]}
		%b = scatter_nd_add %h, %i, %v {mode="max"}
		update %h = %b`, false},
	{"products of bytes", "row row map", `
		%h = state {name="h", dtype=i8, shape=[6,8]}
		%v = input {name="v", dtype=i8, shape=[6,8]}
		%flat = reshape %positions {shape=[6,1]}
		%idx = broadcast %flat {shape=[6,8]}
		%b = scatter_add %h, %idx, %v {mode="mul"}
		update %h = %b`, false},
	{"the smallest, at places that differ", "map", `
		%i = iota {shape=[6,4,8]}
		%b = scatter_add %s, %i, %updates {mode="min", unique=true}
		update %s = %b`, false},
	{"f32 scattered into bf16", "row row map", `
		%h = state {name="h", dtype=bf16, shape=[6,8]}
		%v = input {name="v", dtype=f32, shape=[6,8]}
		%flat = reshape %positions {shape=[6,1]}
		%idx = broadcast %flat {shape=[6,8]}
		%b = scatter_add %h, %idx, %v
		update %h = %b`, false},
	{"the old value moved by one", "map map", `
		%tail = slice %s {starts=[1,0,0], limits=[6,4,8]}
		%b = concat %tail, %row
		update %s = %b`, true},
	{"a write that is also read by itself", "map", `
		%a = dynamic_update_slice %s, %row, %at
		%b = dynamic_update_slice %a, %row, %other
		update %s = %b
		output "y" %a`, true},
	{"a write that the next one moves", "map map", `
		%a = dynamic_update_slice %s, %row, %at
		%b = dynamic_update_slice %a, %a, %other {wrap=true}
		update %s = %b`, true},
}

// TestInPlace: only the changed elements of a state are written, each by one invocation, and the values match the
// reference.
func TestInPlace(t *testing.T) {
	const leaves = `
		%s = state {name="s", dtype=f32, shape=[6,4,8]}
		%row = input {name="row", dtype=f32, shape=[1,4,8]}
		%line = input {name="line", dtype=f32, shape=[1,1,8]}
		%lane = input {name="lane", dtype=f32, shape=[6,1,8]}
		%lines = input {name="lines", dtype=f32, shape=[6,1,8]}
		%few = input {name="few", dtype=f32, shape=[3,8]}
		%updates = input {name="updates", dtype=f32, shape=[6,4,8]}
		%at = input {name="at", dtype=i32, shape=[]}
		%other = input {name="other", dtype=i32, shape=[]}
		%positions = input {name="positions", dtype=i32, shape=[6]}
		%pairs = input {name="pairs", dtype=i32, shape=[3,2]}`
	for _, tt := range inPlaceStates {
		t.Run(tt.name, func(t *testing.T) {
			s, c, err := passtest.Check(passtest.Parse(t, leaves+tt.body), 1, 8)
			if err != nil {
				t.Fatal(err)
			}
			// What is read again goes out by a copy, which is no part of the update.
			families := passtest.Families(s)
			if have := strings.TrimSuffix(families, " map"); c.Ran == 0 || families != tt.families &&
				have != tt.families {
				t.Errorf("%d runs of kernels %q, want %q\n%s", c.Ran, passtest.Families(s), tt.families, s.Text())
			}
			v := s.Graph.Updates()[0].Value
			if copies := v.Op() == ir.OpReshape && v.Shape().Equal(v.Arg(0).Shape()); copies != tt.copies {
				t.Errorf("the state is written whole: %v\n%s", copies, s.Text())
			}
		})
	}
}

// TestStatesOfOldValues: states that take each other's old values are updated in place if some order of kernels allows
// it. For each other state there is a reason.
func TestStatesOfOldValues(t *testing.T) {
	const leaves = `
		%s = state {name="s", dtype=f32, shape=[6,8]}
		%t = state {name="t", dtype=f32, shape=[6,8]}
		%u = state {name="u", dtype=f32, shape=[6,8]}
		%row = input {name="row", dtype=f32, shape=[1,8]}
		%at = input {name="at", dtype=i32, shape=[]}`
	for _, tt := range []struct {
		name, body string
		inPlace    string // states
		why        string // the reason for the others
	}{
		{"a line of each goes into the other", `
			%p = dynamic_slice %t, %at {size=[1]}
			%q = dynamic_slice %s, %at {size=[1]}
			%a = dynamic_update_slice %s, %p, %at
			%b = dynamic_update_slice %t, %q, %at
			update %s = %a
			update %t = %b`, "s", "the old value is needed where the new one is, or after it"},
		{"lines go round three states", `
			%p = dynamic_slice %t, %at {size=[1]}
			%q = dynamic_slice %u, %at {size=[1]}
			%r = dynamic_slice %s, %at {size=[1]}
			%a = dynamic_update_slice %s, %p, %at
			%b = dynamic_update_slice %t, %q, %at
			%c = dynamic_update_slice %u, %r, %at
			update %s = %a
			update %t = %b
			update %u = %c`, "s t", "the old value is needed"},
		{"lines go down three states", `
			%p = dynamic_slice %s, %at {size=[1]}
			%q = dynamic_slice %t, %at {size=[1]}
			%a = dynamic_update_slice %s, %row, %at
			%b = dynamic_update_slice %t, %p, %at
			%c = dynamic_update_slice %u, %q, %at
			update %s = %a
			update %t = %b
			update %u = %c`, "s t u", ""},
		{"lines go up three states that are read twice", `
			%p = dynamic_slice %t, %at {size=[1]}
			%q = dynamic_slice %u, %at {size=[1]}
			%x = add %p, %q
			%a = dynamic_update_slice %s, %x, %at
			%b = dynamic_update_slice %t, %q, %at
			%c = dynamic_update_slice %u, %row, %at
			update %s = %a
			update %t = %b
			update %u = %c`, "s t u", ""},
		{"sums of states in a circle", `
			%a = add %s, %t
			%b = add %t, %u
			%c = add %u, %s
			update %s = %a
			update %t = %b
			update %u = %c`, "", "is not a write of parts of the old value"},
		{"an old value is added to another state's new one", `
			%p = dynamic_slice %t, %at {size=[1]}
			%a = dynamic_update_slice %s, %p, %at
			%b = dynamic_update_slice %t, %row, %at
			%x = add %a, %b
			%c = dynamic_update_slice %u, %row, %at
			update %s = %a
			update %t = %b
			update %u = %c
			output "y" %x`, "s u", "the old value is needed"},
		{"one new value of two states", `
			%a = dynamic_update_slice %s, %row, %at
			update %s = %a
			update %t = %a`, "", "another state has the same new value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c, err := passtest.Check(passtest.Parse(t, leaves+tt.body), 1, 8)
			if err != nil {
				t.Fatal(err)
			}
			var inPlace []string
			for _, u := range s.Graph.Updates() {
				copied := u.Value.Op() == ir.OpReshape && u.Value.Shape().Equal(u.Value.Arg(0).Shape())
				if why := s.Fusion.Why(u.Value); !copied {
					inPlace = append(inPlace, u.State.Name())
				} else if !strings.Contains(why, "is written whole: ") || !strings.Contains(why, tt.why) {
					t.Errorf("%s is not updated in place: %q, want %q", u.State.Name(), why, tt.why)
				}
			}
			if have := strings.Join(inPlace, " "); have != tt.inPlace || c.Ran == 0 {
				t.Errorf("%q are updated in place in %d runs, want %q\n%s", have, c.Ran, tt.inPlace, s.Text())
			}
		})
	}
}

// TestMovedBytes: a step that writes a slice of a state counts the slice, not the state.
func TestMovedBytes(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		atMost     int64
	}{
		{"elements", `
			%s = state {name="s", dtype=f32, shape=[1000,64]}
			%b = dynamic_update_slice %s, %row, %at`, 3 * 64 * 4},
		{"blocks", `
			%s = state {name="s", dtype=q8_0, shape=[1000,64]}
			%q = quantize %row {dtype=q8_0}
			%b = dynamic_update_slice %s, %q, %at`, 2 * 64 * 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := passes.Run(passtest.Parse(t, `
				%row = input {name="row", dtype=f32, shape=[1,64]}
				%at = input {name="at", dtype=i32, shape=[]}`+tt.body+`
				update %s = %b`), passes.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if n := s.Program.Steps[0].Moved; len(s.Program.Steps) != 1 || n < 5*64 || n > tt.atMost {
				t.Errorf("the first of %d steps moves %d bytes, want the row read and written\n%s",
					len(s.Program.Steps), n, s.Text())
			}
		})
	}
}
