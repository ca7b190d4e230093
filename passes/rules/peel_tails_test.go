package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/passes"
)

// tails cuts every matmul that extends beyond a position at that position.
func tails(t kernel.Tail) passes.Options {
	return passes.Options{Pricer: passtest.Choices{Tails: tailAt(t)}}
}

func tailAt(list ...kernel.Tail) func(*kernel.Kernel) []kernel.Tail {
	return func(*kernel.Kernel) []kernel.Tail { return slices.Clone(list) }
}

// TestCutTailPlan: a cut-off tail may be split. Only the kernel that sums its parts waits, because it writes to the
// same buffer as the others.
func TestCutTailPlan(t *testing.T) {
	s, err := passes.Run(passtest.Parse(t, `
		%x = input {name="x", dtype=f32, shape=[6,8]}
		%w = weight {name="w", dtype=f32, shape=[5,8]}
		%b = weight {name="b", dtype=f32, shape=[5]}
		%1 = matmul %x, %w {transpose_b=true}
		%2 = add %1, %b
		%3 = relu %2
		output "o" %3`), passes.Options{Pricer: passtest.Choices{
		Tails: tailAt(kernel.Tail{Axis: 0, From: 4}),
		Parts: func(k *kernel.Kernel) int {
			if strings.HasSuffix(k.Name, "_tail") {
				return 2
			}
			return 1
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `
program "test": 3 kernels, 1 barriers, arena 256 bytes (256 without sharing)
  buffer 0 input x : f32[6,8], 192 bytes
  buffer 1 output o : f32[6,5], 128 bytes
  buffer 2 weight w : f32[5,8], 160 bytes
  buffer 3 weight b : f32[5], 32 bytes
  buffer 4 temp scratch 0 : f32[2,2,5], 80 bytes at 0
  step 0 matmul_relu [r0 r2 r3 w1] ; matmul, add, relu
  step 1 matmul_relu_tail_parts [r0 r2 w4] ; matmul, add, relu
  barrier
  step 2 matmul_relu_tail_sum [r4 r3 w1] ; matmul, add, relu
`
	if have := s.Text(); have != strings.TrimPrefix(want, "\n") {
		t.Errorf("have\n%s\nwant%s", have, want)
	}
}

func TestCutTails(t *testing.T) {
	const inputs = `
		symbol T <= 9
		%x = input {name="x", dtype=f32, shape=[T,6]}
		%y = input {name="y", dtype=f32, shape=[6,5]}
		%z = input {name="z", dtype=f32, shape=[5,6]}
		%c = input {name="c", dtype=f32, shape=[3,4,6]}
		%d = input {name="d", dtype=f32, shape=[3,6,7]}
		%q = weight {name="q", dtype=q8_0, shape=[5,32]}
		%r = input {name="r", dtype=f32, shape=[4,32]}
		`
	tests := []struct {
		name, body string
		tail       kernel.Tail
		kernels    int
	}{
		{"columns", `%1 = matmul %x, %y
			output "o" %1`, kernel.Tail{Axis: 1, From: 3}, 2},
		{"columns as rows", `%1 = matmul %x, %y
			output "o" %1`, kernel.Tail{Axis: 1, From: 3, Swap: true}, 2},
		{"batches", `%1 = matmul %c, %d
			output "o" %1`, kernel.Tail{Axis: 0, From: 2}, 2},
		{"rows in batches", `%1 = matmul %c, %d
			output "o" %1`, kernel.Tail{Axis: 1, From: 1}, 2},
		{"two in one loop", `%1 = matmul %x, %y
			%2 = matmul %x, %z {transpose_b=true}
			%3 = silu %1
			%4 = mul %3, %2
			output "o" %4`, kernel.Tail{Axis: 1, From: 2}, 2},
		{"blocks, the result transposed", `%1 = matmul %r, %q {transpose_b=true}
			%2 = transpose %1 {perm=[1,0]}
			output "o" %2`, kernel.Tail{Axis: 0, From: 3}, 3},
		{"none", `%1 = matmul %x, %y
			output "o" %1`, kernel.Tail{}, 1},
		{"no product", `%1 = softmax %c {axis=2}
			output "o" %1`, kernel.Tail{Axis: 0, From: 1}, 1},
		{"an unknown extent", `%1 = matmul %x, %y
			output "o" %1`, kernel.Tail{Axis: 0, From: 1}, 1},
		{"beyond the end", `%1 = matmul %x, %y
			output "o" %1`, kernel.Tail{Axis: 1, From: 6}, 1},
		{"no such axis", `%1 = matmul %x, %y
			output "o" %1`, kernel.Tail{Axis: 2, From: 1}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := passtest.Parse(t, inputs+tt.body)
			if s := passtest.RunAndCompare(t, g, tails(tt.tail)); len(s.Kernels) != tt.kernels {
				t.Errorf("%d kernels, want %d:\n%s", len(s.Kernels), tt.kernels, s.Text())
			}
		})
	}
}

// TestCutTwice cuts rows, then columns of the rows that are left.
func TestCutTwice(t *testing.T) {
	g := passtest.Parse(t, `
		%x = input {name="x", dtype=f32, shape=[6,8]}
		%y = input {name="y", dtype=f32, shape=[8,5]}
		%1 = matmul %x, %y
		output "o" %1`)
	s := passtest.RunAndCompare(t, g,
		passes.Options{Pricer: passtest.Choices{Tails: tailAt(kernel.Tail{Axis: 0, From: 5},
			kernel.Tail{Axis: 1, From: 4})}})
	var extents []string
	for _, k := range s.Kernels {
		extents = append(extents, fmt.Sprint(k.Parallel))
	}
	if have := strings.Join(extents, " "); have != "[5 4] [1 5] [5 1]" {
		t.Errorf("kernels of %s", have)
	}
}
