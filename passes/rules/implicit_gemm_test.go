package rules_test

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// TestStoredWindows compares convolutions of stored operands with the reference.
func TestStoredWindows(t *testing.T) {
	tests := []struct {
		name, inputs, op string
		stored           bool
	}{
		{"1d", "f16[2,3,17] f16[4,3,3]", "conv %0, %1 {padding_low=[1], padding_high=[1]}", true},
		{"2d", "f16[2,3,9,8] f16[5,3,3,2]", "conv %0, %1 {padding_low=[1,0], padding_high=[1,1]}", true},
		{"3d of one position", "bf16[2,3,2,3,2] bf16[4,3,2,3,2]", "conv %0, %1", true},
		{"3d", "f16[1,2,4,5,6] f16[4,2,2,3,2]", "conv %0, %1 {padding_low=[1,0,2], padding_high=[0,1,3]}", true},
		{"dilated rows", "f16[2,3,9,8] f16[5,3,3,2]", "conv %0, %1 {padding_low=[3,0], padding_high=[1,1], dilation=[2,1]}", true},
		{"dilated columns", "f16[2,3,9,8] f16[5,3,3,3]", "conv %0, %1 {padding_low=[0,2], padding_high=[0,2], dilation=[1,2]}", true},
		{"1x1", "f16[2,8,5,3] f16[7,8,1,1]", "conv %0, %1", true},
		{"lines made longer", "f16[2,2,3,48] f16[4,2,3,3]", "conv %0, %1 {padding_low=[1,1], padding_high=[1,1]}", true},
		{"padded beyond the window", "f16[1,2,3,4] f16[4,2,1,1]", "conv %0, %1 {padding_low=[3,2], padding_high=[1,5]}", true},
		{"of 8 bits", "f8e4m3[2,3,9,8] f8e4m3[5,3,3,2]", "conv %0, %1 {padding_low=[1,0], padding_high=[1,1]}", true},
		{"of bytes", "i8[2,3,9,8] i8[5,3,3,2]", "conv %0, %1 {padding_low=[1,0], padding_high=[1,1], padding_value=-7}", true},
		{"of bytes without a sign", "u8[1,4,6,5] u8[8,4,3,3]", "conv %0, %1 {padding_low=[1,1], padding_high=[1,1], padding_value=200}", true},
		{"of bytes in groups", "i8[1,8,6,6] i8[8,4,3,3]", "conv %0, %1 {groups=2}", false},
		{"no images", "f16[0,3,9,8] f16[5,3,3,2]", "conv %0, %1", false},
		{"strided", "f16[2,3,9,8] f16[5,3,3,2]", "conv %0, %1 {stride=[1,2]}", true},
		{"strided and padded", "f16[2,3,9,8] f16[5,3,3,3]", "conv %0, %1 {stride=[2,2], padding_low=[1,1], padding_high=[1,1]}", true},
		{"strided more than padded", "f16[2,3,11,13] f16[5,3,3,2]", "conv %0, %1 {stride=[3,4], padding_low=[1,2], padding_high=[2,0]}", true},
		{"strided and dilated", "bf16[2,3,11,12] bf16[4,3,3,3]", "conv %0, %1 {stride=[2,3], dilation=[3,2], padding_low=[2,1], padding_high=[0,3]}", true},
		{"every other position", "f16[2,8,7,6] f16[5,8,1,1]", "conv %0, %1 {stride=[2,2]}", true},
		{"strided bytes", "i8[2,3,9,8] i8[5,3,3,3]", "conv %0, %1 {stride=[2,2], padding_low=[1,0], padding_high=[0,1], padding_value=5}", true},
		{"strided in 3d", "f16[1,2,7,5,6] f16[4,2,2,3,2]", "conv %0, %1 {stride=[2,1,3], padding_low=[1,0,2], padding_high=[0,1,3]}", true},
		{"groups", "f16[1,8,6,6] f16[8,4,3,3]", "conv %0, %1 {groups=2}", false},
		{"transposed", "f16[2,4,5,6] f16[4,5,3,3]", "conv_transpose %0, %1", false},
		{"of 32 bits", "f32[2,3,9,8] f32[5,3,3,2]", "conv %0, %1", false},
		{"symbolic", "f16[N,3,T,8] f16[4,3,3,3]", "conv %0, %1 {padding_low=[1,1], padding_high=[1,1]}", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := passtest.OneOp(t, tt.inputs, tt.op)
			s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: passtest.ImplicitGEMMs}})
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{true: 3, false: 1}[tt.stored]; len(s.Kernels) != want {
				t.Errorf("%d kernels, want %d:\n%s", len(s.Kernels), want, s.Text())
			}
			for _, k := range s.Kernels {
				if k.Family != kernel.FamilyMap {
					continue
				}
				if have, want := k.Bindings[k.Stores[0].Bind].Elems, ir.Shape(k.Parallel).MaxElems(); have != want {
					t.Errorf("%s says that it stores %d elements, and has %d points", k.Name, have, want)
				}
			}
			for seed := range uint64(3) {
				passtest.Compare(t, g, s, seed)
			}
		})
	}
}

// What comes before and after a convolution stays in its kernels.
func TestStoredWindowsFuse(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
		%x = input {name="x", dtype=f16, shape=[2,3,6,5]}
		%w = input {name="w", dtype=f16, shape=[4,3,3,3]}
		%b = input {name="b", dtype=f16, shape=[4,1,1]}
		%1 = neg %x
		%2 = conv %1, %w {padding_low=[1,1], padding_high=[1,1]}
		%3 = add %2, %b
		%4 = relu %3
		%5 = reshape %4 {shape=[2,120]}
		output "y" %5
	}`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: passtest.ImplicitGEMMs}})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Kernels) != 3 {
		t.Errorf("%d kernels, want 3:\n%s", len(s.Kernels), s.Text())
	}
	for seed := range uint64(4) {
		passtest.Compare(t, g, s, seed)
	}
}

// TestChainedWindows compares convolutions that store their results as the next
// one's argument with the reference.
func TestChainedWindows(t *testing.T) {
	const inputs = `%x = input {name="x", dtype=f16, shape=[2,4,6,5]}
		%w = input {name="w", dtype=f16, shape=[4,4,3,3]}
		`
	const first = "%1 = conv %x, %w {padding_low=[1,1], padding_high=[1,1]}\n"
	tests := []struct {
		name, body string
		joined     int // convolutions that do without a kernel that stores the argument
	}{
		{"at once", first + `%2 = conv %1, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %2`, 1},
		{"elementwise between", first + `%2 = relu %1 %3 = conv %2, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %3`, 1},
		{"three", first + `%2 = relu %1 %3 = conv %2, %w {padding_low=[1,1], padding_high=[1,1]} %4 = neg %3
			%5 = conv %4, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %5`, 2},
		{"a bias and an addition", `%b = input {name="b", dtype=f16, shape=[4,1,1]} ` + first + `%2 = add %1, %b %3 = add %2, %x
			%4 = conv %3, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %4`, 1},
		{"other sides padded", `%1 = conv %x, %w {padding_low=[0,2], padding_high=[2,0]}
			%2 = conv %1, %w {padding_low=[2,0], padding_high=[0,2]} output "y" %2`, 1},
		{"dilated", first + `%2 = conv %1, %w {padding_low=[1,1], padding_high=[1,1], dilation=[1,1]}
			%3 = conv %2, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %3`, 2},
		{"lines made longer", `%y = input {name="y", dtype=f16, shape=[1,4,2,48]} %1 = conv %y, %w {padding_low=[1,1], padding_high=[1,1]} %2 = relu %1
			%3 = conv %2, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %3`, 1},
		{"one image", `%y = input {name="y", dtype=f16, shape=[1,4,3,9]} %1 = conv %y, %w {padding_low=[1,1], padding_high=[1,1]}
			%3 = conv %1, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %3`, 1},
		{"of bytes, made again between", `%q = input {name="q", dtype=u8, shape=[2,4,6,5]} %v = input {name="v", dtype=i8, shape=[4,4,3,3]}
			%qf = cast %q {dtype=f32} %qx = affine %qf {mul=0.5, add=-5} %vf = cast %v {dtype=f32}
			%1 = conv %qx, %vf {padding_low=[1,1], padding_high=[1,1]} %2 = relu %1 %3 = affine %2 {mul=0.0625, add=3}
			%4 = round %3 %5 = cast %4 {dtype=u8} %6 = cast %5 {dtype=f32} %7 = affine %6 {add=-3}
			%8 = conv %7, %vf {padding_low=[1,1], padding_high=[1,1]} output "y" %8`, 1},
		{"read twice", first + `%2 = conv %1, %w {padding_low=[1,1], padding_high=[1,1]} %3 = add %2, %1 output "y" %3`, 0},
		{"an output", first + `%2 = conv %1, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %2 output "z" %1`, 0},
		{"other pitches", first + `%2 = conv %1, %w {padding_low=[2,2], padding_high=[2,2], dilation=[2,2]} output "y" %2`, 0},
		{"turned between", `%1 = conv %x, %w {padding_low=[1,1], padding_high=[2,3]} %2 = slice %1 {starts=[0,0,1,1], limits=[2,4,7,6], steps=[1,1,1,1]} %3 = conv %2, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %3`, 0},
		{"in another order", first + `%2 = slice %1 {starts=[0,3,0,0], limits=[2,4,6,5], steps=[1,1,1,1]} %4 = slice %1 {starts=[0,0,0,0], limits=[2,3,6,5], steps=[1,1,1,1]} %5 = concat %2, %4 {axis=1} %3 = conv %5, %w {padding_low=[1,1], padding_high=[1,1]} output "y" %3`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := ir.Parse("graph \"g\" {\n" + inputs + tt.body + "\n}")
			if err != nil {
				t.Fatal(err)
			}
			s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: passtest.ImplicitGEMMs}})
			if err != nil {
				t.Fatal(err)
			}
			padded := 0
			for _, k := range s.Kernels {
				if k.Name == "conv_padding" {
					padded++
				}
			}
			if padded != tt.joined {
				t.Errorf("%d convolutions store the next argument, want %d:\n%s", padded, tt.joined, s.Text())
			}
			for seed := range uint64(3) {
				passtest.Compare(t, g, s, seed)
			}
		})
	}
}
