package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
)

// TestChosenForms: rows that are added by many indices, some of them equal and some of no row, accumulate or are
// sorted, whether into a state in place or into a value, and few are compared.
func TestChosenForms(t *testing.T) {
	const leaves = `
		%%base = input {name="base", dtype=%[1]s, shape=[2,90,8]}
		%%table = state {name="table", dtype=%[1]s, shape=[900,100]}
		%%updates = input {name="updates", dtype=%[1]s, shape=[2,N,8]}
		%%rows = input {name="rows", dtype=%[1]s, shape=[N,100]}
		%%ids = input {name="ids", dtype=%[2]s, shape=[N]}
		%%column = reshape %%ids {shape=[N,1]}
		`
	for _, tt := range []struct{ dtype, ids, bound, body, want string }{
		{"f32", "i32", "2600", `%y = index_add %base, %ids, %updates {axis=1}
			output "y" %y`, "vkc.rows_add_equal_f32"},
		{"f16", "i64", "700", `%y = index_add %base, %ids, %updates {axis=1}
			output "y" %y`, "vkc.rows_add_equal_f32"},
		{"i32", "u32", "700", `%y = index_add %base, %ids, %updates {axis=1}
			output "y" %y`, "vkc.scatter_sum"},
		{"f32", "i32", "700", `%y = scatter_nd_add %table, %column, %rows
			output "y" %y`, "vkc.rows_add_equal_f32"},
		{"f32", "i32", "700", `%y = scatter_nd_add %table, %column, %rows
			update %table = %y`, "vkc.rows_add_equal_f32"},
		{"f32", "i32", "700", `%y = index_add %table, %ids, %rows {axis=0}
			update %table = %y`, "vkc.rows_add_equal_f32"},
		{"f16", "i32", "50", `%all = reshape %table {shape=[90000]}
			%first = slice %rows {starts=[0,0], limits=[N,1]}
			%values = reshape %first {shape=[N]}
			%y = scatter_add %all, %ids, %values
			output "y" %y`, "vkc.scatter_fixed"},
		{"i32", "i32", "4", `%flat = reshape %ids {shape=[1,N,1]}
			%idx = broadcast %flat {shape=[2,N,8]}
			%y = scatter_add %base, %idx, %updates {axis=1}
			output "y" %y`, ""},
		{"f32", "i32", "3", `%y = index_add %table, %ids, %rows {axis=0}
			output "y" %y`, ""},
	} {
		t.Run(fmt.Sprint(tt.dtype, tt.ids, tt.bound, strings.Fields(tt.body)[2]), func(t *testing.T) {
			text := "symbol N <= " + tt.bound + fmt.Sprintf(leaves, tt.dtype, tt.ids) + tt.body
			s, c, err := passtest.Check(passtest.Parse(t, text), 1, 4)
			if err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(s.Text(), "vkc."); c.Ran == 0 || has != (tt.want != "") ||
				!strings.Contains(s.Text(), tt.want) {
				t.Errorf("%d runs of kernels, want one of %q:\n%s", c.Ran, tt.want, s.Text())
			}
		})
	}
}
