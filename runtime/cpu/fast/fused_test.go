package fast

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// TestFusedOps: each op of fused instructions computes the same bits as its primitive, with operands for each element
// and with operands that are the same for all elements.
func TestFusedOps(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 2.5, 300, -300, 3e9, inf, -inf, nan}
	rng := rand.New(rand.NewPCG(3, 1))
	list := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			if x[i] = rng.Float32()*8 - 4; rng.IntN(3) == 0 {
				x[i] = special[rng.IntN(len(special))]
			}
		}
		return x
	}
	eachWidth(t, func(t *testing.T) {
		if !canFuse() {
			t.Skip("there is no assembly")
		}
		for op := fusedStore + 1; op < len(fusedOps); op++ {
			name, backwards := strings.CutPrefix(fusedOps[op], "backwards ")
			if primitives[name].name != name {
				t.Errorf("primitive %q has the name %q", name, primitives[name].name)
			}
			for _, n := range []int{1, 17, 40, 64, 150} {
				x, y, same := list(n), list(n), list(1)[0]
				repeated := make([]float32, fusedElems)
				for i := range repeated {
					repeated[i] = same
				}
				for mask, operand := range map[int][]float32{-1: y, 0: repeated} {
					have, want := make([]float32, n), make([]float32, n)
					steps := []fusedStep{{fusedLoad, unsafe.Pointer(&x[0]), -1},
						{op, unsafe.Pointer(&operand[0]), mask}, {fusedStore, unsafe.Pointer(&have[0]), -1}}
					vector.fused(&steps[0].op, len(steps), n)
					other := make([]float32, n)
					for i := range other {
						other[i] = operand[i&mask]
					}
					if backwards {
						primitives[name].plain(want, other, x, x)
					} else {
						primitives[name].plain(want, x, other, x)
					}
					for i, y := range want {
						x, either := have[i], have[i] != have[i] && y != y
						if strings.HasPrefix(name, "nan_") { // zeros of both signs are equal
							either = either || x == y
						}
						if math.Float32bits(x) != math.Float32bits(y) && !either {
							t.Fatalf("%s: element %d of %d is %g, want %g", fusedOps[op], i, n, x, y)
						}
					}
				}
			}
		}
	})
}

// TestFindFused: only results that other instructions read go through memory.
func TestFindFused(t *testing.T) {
	of := func(name string, in ...int) func(b *compiler) int {
		return func(b *compiler) int { return b.instruction(primitives[name], in) }
	}
	const x, y, first, second = 0, 1, 2, 3 // values: two operands, and the results of the first instructions
	for _, tt := range []struct {
		code []func(b *compiler) int
		want string
	}{
		{[]func(b *compiler) int{of("+", x, y), of("*", first, y)}, "[load 0][+ 1][* 1][store result]"},
		{[]func(b *compiler) int{of("-", x, y), of("/", x, first)}, "[load 0][- 1][backwards / 0][store result]"},
		{[]func(b *compiler) int{of("+", x, y), of("*", first, first)}, "[load 0][+ 1][store 2][* 2][store result]"},
		{[]func(b *compiler) int{of("+", x, y), of("*", first, x), of("-", second, first)},
			"[load 0][+ 1][store 2][* 0][- 2][store result]"},
		{[]func(b *compiler) int{of("+", x, y), of("exp", first), of("*", first, second)},
			"[load 0][+ 1][store result] [load 2][* 3][store result]"},
		{[]func(b *compiler) int{of("exp", x)}, ""},
	} {
		b, result := newCompiler(), 0
		b.value(value[float32]{})
		b.value(value[float32]{})
		for _, add := range tt.code {
			result = add(b)
		}
		var have []string
		found := b.findFused(b.readers(result))
		for _, i := range slices.Sorted(maps.Keys(found)) {
			text := ""
			for _, s := range found[i].steps {
				step := fmt.Sprintf("[%s %d]", fusedOps[s.op], s.operand)
				text += strings.Replace(step, fmt.Sprint(fusedResult), "result", 1)
			}
			have = append(have, text)
		}
		if have := strings.Join(have, " "); have != tt.want {
			t.Errorf("the steps are %q, want %q", have, tt.want)
		}
	}
}
