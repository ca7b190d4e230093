package vkc_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/ir"
)

// TestTooLarge: what takes coordinates that kernels do not count to is refused before anything is compiled, with the
// op, the tensor, its size and the limit. What just does not is compiled, with positions of 64 bits where 32 do not
// hold them.
func TestTooLarge(t *testing.T) {
	caps := profile(t, "lavapipe")
	caps.MaxStorageRange = math.MaxUint32 // the most that Vulkan has: the rest is reached by address
	for _, tt := range []struct{ name, graph, want string }{
		{"iota", `%i = iota {dtype=i64, shape=[2147483649], axis=0}
			%s = reduce_max %i {axes=[0]}
			output "o" %s`, "2147483647"},
		{"iota over two axes", `%i = iota {dtype=i32, shape=[65536,65536], axis=1}
			output "o" %i`, ""},
		{"index_select", `%x = weight {name="table", dtype=u8, shape=[3000000000,1]}
			%i = input {name="i", dtype=i64, shape=[4]}
			%y = index_select %x, %i {axis=0}
			output "o" %y`, `"table"`},
		{"gather of many columns", `%x = weight {name="table", dtype=u8, shape=[100000,50000]}
			%i = input {name="i", dtype=i32, shape=[4,50000]}
			%y = gather %x, %i {axis=0}
			output "o" %y`, ""},
		{"a symbol at its bound", `symbol T <= 70000
			%x = input {name="x", dtype=u8, shape=[T,70000]}
			%y = flip %x {axes=[1]}
			output "o" %y`, ""},
		{"number of a dim", `symbol T <= 2000000000
			%x = input {name="x", dtype=u8, shape=[T]}
			%d = dim_value {dim=[2*T]}
			output "d" %d
			%s = reduce_max %x {axes=[0]}
			output "o" %s`, "4000000000"},
		{"flip", `%x = input {name="x", dtype=u8, shape=[2200000000]}
			%y = flip %x {axes=[0]}
			%s = reduce_max %y {axes=[0]}
			output "o" %s`, ""},
		{"concat", `%x = input {name="x", dtype=u8, shape=[2000000000]}
			%y = concat %x, %x {axis=0}
			output "o" %y`, "more than"},
		{"row", `%x = input {name="x", dtype=u8, shape=[2,2200000000]}
			%s = reduce_max %x {axes=[1]}
			output "o" %s`, ""},
		{"a table whose bytes fit", `%x = weight {name="table", dtype=u8, shape=[40000,100000]}
			%i = input {name="i", dtype=i64, shape=[4]}
			%y = index_select %x, %i {axis=0}
			output "o" %y`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := ir.Parse("graph \"large\" {\n" + tt.graph + "\n}")
			if err != nil {
				t.Fatal(err)
			}
			low, err := vkc.Lower(context.Background(), g, caps, nil)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "more than the")):
				t.Errorf("error %v, want %q", err, tt.want)
				if low != nil {
					t.Log(low.GLSL)
				}
			default:
				t.Log(err)
			}
		})
	}
}

// TestFarRows: SPIR-V takes an index as a number with a sign, and drivers may count bytes in 32 bits, so what lies
// behind an address is reached row by row where it has more bytes than such a number counts.
func TestFarRows(t *testing.T) {
	needTools(t)
	ownCache(t)
	caps := profile(t, "lavapipe")
	caps.MaxStorageRange = 128 << 20
	for _, tt := range []struct {
		dtype  string
		rows   int
		folded bool
	}{{"u8", 20000, false}, {"u8", 40000, true}, {"f32", 5000, false}, {"f32", 10000, true}} {
		g, err := ir.Parse(fmt.Sprintf(`graph "large" {
			%%x = weight {name="table", dtype=%s, shape=[%d,100000]}
			%%i = input {name="i", dtype=i64, shape=[4]}
			%%y = index_select %%x, %%i {axis=0}
			output "o" %%y
		}`, tt.dtype, tt.rows))
		if err != nil {
			t.Fatal(err)
		}
		p, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: caps})
		if err != nil {
			t.Fatal(err)
		}
		if text := p.Contents.GLSL[0]; strings.Contains(text, "_row((i) >> 16)).data[(i) & 65535u]") != tt.folded {
			t.Errorf("%d rows of %s:\n%s", tt.rows, tt.dtype, text)
		}
	}
}
