package vkc_test

import (
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// stateSteps are ways to change a part of a state of 64 MiB: s is f32[4096,4096], h f16[8192,4096], and q
// q8_0[8,2048,4096] has 68.
var stateSteps = []struct{ name, body string }{
	{"append", `
		%b = dynamic_update_slice %s, %row, %at
		update %s = %b`},
	{"change a row", `
		%old = dynamic_slice %s, %at {size=[1]}
		%new = add %old, %row
		%b = dynamic_update_slice %s, %new, %at
		update %s = %b`},
	{"concat", `
		%head = slice %s {starts=[0,0], limits=[7,4096]}
		%tail = slice %s {starts=[8,0], limits=[4096,4096]}
		%b = concat %head, %row, %tail
		update %s = %b`},
	{"a mask of rows", `
		%i = iota {dtype=i32, shape=[4096,1]}
		%hit = eq %i, %at
		%b = where %hit, %row, %s
		update %s = %b`},
	{"add to rows of f16", `
		%i = iota {dtype=i32, shape=[2]}
		%b = index_add %h, %i, %two {unique=true}
		update %h = %b`},
	{"largest of rows", `
		%i = iota {dtype=i32, shape=[2,1]}
		%wide = cast %two {dtype=f32}
		%b = scatter_nd_add %s, %i, %wide {mode="max", unique=true}
		update %s = %b`},
	{"append to each of 8 sequences", `
		%kv = reshape %h {shape=[8,1024,4096]}
		%i = reshape %each {shape=[8,1,1]}
		%all = broadcast %i {shape=[8,1,4096]}
		%b = scatter %kv, %all, %eight {axis=1}
		%c = reshape %b {shape=[8192,4096]}
		update %h = %c`},
	{"append blocks to each of 8 sequences", `
		%q = state {name="q", dtype=q8_0, shape=[8,2048,4096]}
		%sequence = iota {dtype=i32, shape=[8,1]}
		%at8 = reshape %each {shape=[8,1]}
		%where = concat %sequence, %at8 {axis=1}
		%flat = reshape %eight {shape=[8,4096]}
		%blocks = quantize %flat {dtype=q8_0}
		%b = scatter_nd %q, %where, %blocks {unique=true}
		update %q = %b`},
	{"fill a row", `
		%c = const {data=f32[](0.5)}
		%r = broadcast %c {shape=[1,4096]}
		%b = dynamic_update_slice %s, %r, %at
		update %s = %b`},
	{"fill all", `
		%c = const {data=f32[](0.5)}
		%b = broadcast %c {shape=[4096,4096]}
		update %s = %b`},
}

// BenchmarkStates is a step that changes a part of a state of 64 MiB, with the bytes that its kernels are said to move
// (M-states).
func BenchmarkStates(b *testing.B) {
	dev := devtest.OpenDevice(b)
	in := vkc.Tensors{}
	for name, d := range map[string]*ir.Data{
		"row": {DType: ir.F32, Dims: []int{1, 4096}}, "two": {DType: ir.F16, Dims: []int{2, 4096}},
		"at": {DType: ir.I32, Dims: []int{}}, "each": {DType: ir.I32, Dims: []int{8}},
		"eight": {DType: ir.F16, Dims: []int{8, 1, 4096}},
	} {
		d.Bytes = make([]byte, ir.ShapeOf(d.Dims...).MaxElems()*int64(d.DType.BlockBytes()))
		in[name] = d
	}
	for _, step := range stateSteps {
		b.Run(step.name, func(b *testing.B) {
			g, err := ir.Parse(`graph "step" {
				%s = state {name="s", dtype=f32, shape=[4096,4096]}
				%h = state {name="h", dtype=f16, shape=[8192,4096]}
				%row = input {name="row", dtype=f32, shape=[1,4096]}
				%two = input {name="two", dtype=f16, shape=[2,4096]}
				%eight = input {name="eight", dtype=f16, shape=[8,1,4096]}
				%each = input {name="each", dtype=i32, shape=[8]}
				%at = input {name="at", dtype=i32, shape=[]}` + step.body + "\n}")
			if err != nil {
				b.Fatal(err)
			}
			exe, err := dev.LoadGraph(b.Context(), g, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer exe.Close()
			res, err := exe.Run(b.Context(), in, vkc.RunOptions{Profile: true})
			if err != nil {
				b.Fatal(err)
			}
			moved := int64(0)
			for _, k := range res.Profile.Kernels {
				moved += k.Moved
			}
			for b.Loop() {
				if _, err := exe.Run(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(moved), "moved-B/op")
		})
	}
}
