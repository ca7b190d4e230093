package fast_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestCopies compares ops that move elements with the interpreter, for elements of all sizes in memory. The argument is
// an input, which may stay in the format of tensors, or the result of an op that the interpreter computes; and the
// result is an output, or the argument of such an op.
func TestCopies(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	for _, of := range []string{"slice %a {starts=[1,0,2], limits=[3,4,T]}",
		"slice %a {starts=[0,1,1], limits=[3,4,T], steps=[1,2,3]}", "broadcast %row {shape=[3,4,T]}",
		"broadcast %column {shape=[3,4,T]}", "broadcast %one {shape=[3,4,T]}", "flip %a {axes=[2]}",
		"flip %a {axes=[0,1]}", "roll %a {shifts=[1,-1,5]}", "roll %a {shifts=[0,9,0]}", "concat %a, %x, %a {axis=1}",
		"concat %a, %x {axis=2}", "concat %x, %a {axis=0}", "pad %a {low=[1,0,2], high=[0,3,1], value=2.0}",
		"pad %a {low=[0,0,1], high=[0,0,0], mode=\"replicate\"}", "tril %a", "triu %a {k=1}", "tril %a {k=-1}",
		"triu %a {k=-2}", "transpose %a {perm=[2,0,1]}", "gather %a, %i {axis=2}", "index_select %a, %j {axis=1}",
		"index_select %a, %j {axis=2}", "gather %a, %i {axis=0}", "cast %x {dtype=DTYPE}"} {
		for k, d := range []string{"f32", "i32", "f16", "u8", "bool", "i64", "f64", "bf16", "i8", "u16"} {
			before, after := "%a = reshape %x {shape=[3,4,T]}", "%o = eq %r, %r"
			if k%2 == 0 { // the interpreter computes the argument
				before = "%at = const {data=i32[](0)}\n%u = slice %x {starts=[0,0,0], limits=[1,4,T]}\n" +
					"%a = dynamic_update_slice %x, %u, %at {axis=0}"
			}
			if rng.IntN(2) == 0 {
				after = "%o = dynamic_update_slice %r, %r, %zero {axis=0}"
			}
			text := fmt.Sprintf(`graph "g" {
				symbol T <= 4000
				%%x = input {name="x", dtype=%s, shape=[3,4,T]}
				%%row = input {name="row", dtype=%s, shape=[T]}
				%%column = input {name="column", dtype=%s, shape=[4,1]}
				%%one = input {name="one", dtype=%s, shape=[1,1]}
				%%i = input {name="i", dtype=i32, shape=[3,4,T]}
				%%j = input {name="j", dtype=u8, shape=[5]}
				%%zero = const {data=i32[](0)}
				%s
				%%r = %s
				%s
				output "r" %%r
				output "o" %%o
			}`, d, d, d, d, before, strings.ReplaceAll(of, "DTYPE", d), after)
			g, err := ir.Parse(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			sizes := []int64{3, 4, 37}
			if strings.HasPrefix(of, "concat %x") || strings.HasPrefix(of, "cast") {
				sizes = append(sizes, 3001) // several tasks
			}
			for _, size := range sizes {
				symbols := map[string]int64{"T": size}
				compare(t, g, values(t, rng, g, symbols), symbols)
			}
		}
	}
}
