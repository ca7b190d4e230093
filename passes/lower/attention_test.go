package lower_test

import (
	"github.com/vkc-go/vkc/internal/passtest"
	"strings"
	"testing"
)

// TestKeysEnd: keys that a mask hides up to the last one are skipped, for each text of a batch by its own length, if
// the mask comes from a comparison. The values match the reference.
func TestKeysEnd(t *testing.T) {
	const leaves = `
		%q = input {name="q", dtype=f32, shape=[3,4,1,8]}
		%k = input {name="k", dtype=f32, shape=[3,2,20,8]}
		%len = input {name="len", dtype=i32, shape=[3]}
		%wide = input {name="wide", dtype=i64, shape=[3]}
		%of_head = input {name="of_head", dtype=i32, shape=[4]}
		%other = input {name="other", dtype=bool, shape=[3,1,1,20]}
		%n = reshape %len {shape=[3,1,1,1]}
		%at = iota {shape=[1,1,1,20], axis=3}
		%zero = const {data=f32[](0.0)}
		%one = const {data=f32[](1.0)}
		%inf = const {data=f32[](-inf)}
		%low = const {data=f32[](-1e30)}`
	const attend = `
		%o = attention %q, %k, %k, %mask
		output "o" %o`
	for _, tt := range []struct{ name, body, want string }{
		{"lt", `%c = lt %at, %n  %mask = where %c, %zero, %inf`, "before clamp("},
		{"le", `%c = le %at, %n  %mask = where %c, %one, %inf`, "19) + 1"},
		{"gt", `%c = gt %n, %at  %mask = where %c, %zero, %inf`, "before clamp("},
		{"ge, the other way round", `%c = ge %at, %n  %mask = where %c, %inf, %zero`, "before clamp("},
		{"not", `%l = lt %at, %n  %c = not %l  %mask = where %c, %inf, %zero`, "before clamp("},
		{"a window", `%l = le %at, %n  %four = const {data=i32[](4)}  %m = sub %n, %four  %g = gt %at, %m  %c = and %g, %l
			%mask = where %c, %zero, %inf`, "19) + 1"},
		{"hidden by either", `%g = gt %at, %n  %c = or %other, %g  %mask = where %c, %inf, %zero`, "19) + 1"},
		{"a number", `%five = const {data=i32[](5)}  %c = lt %at, %five  %mask = where %c, %zero, %inf`, "before 5"},
		{"half", `%c = lt %at, %n  %m = where %c, %zero, %inf  %mask = cast %m {dtype=f16}`, "before clamp("},
		{"seen by either", `%l = lt %at, %n  %c = or %other, %l  %mask = where %c, %zero, %inf`, ""},
		{"keys before", `%c = ge %at, %n  %mask = where %c, %zero, %inf`, ""},
		{"not hidden for sure", `%c = lt %at, %n  %mask = where %c, %zero, %low`, ""},
		{"an end of each head", `%h = reshape %of_head {shape=[1,4,1,1]}  %c = lt %at, %h  %mask = where %c, %zero, %inf`, ""},
		{"64 bits", `%w = reshape %wide {shape=[3,1,1,1]}  %a = cast %at {dtype=i64}  %c = lt %a, %w
			%mask = where %c, %zero, %inf`, ""},
		{"another mask", `%mask = where %other, %zero, %inf`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c, err := passtest.Check(passtest.Parse(t, leaves+tt.body+attend), 3, 6)
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, k := range s.Kernels {
				_, after, _ := strings.Cut(k.String(), "attention q")
				line, _, _ := strings.Cut(after, "\n")
				text += line
			}
			if c.Ran == 0 || strings.Contains(text, " before ") != (tt.want != "") || !strings.Contains(text, tt.want) {
				t.Errorf("%d runs of an attention%s, want %q", c.Ran, text, tt.want)
			}
		})
	}
}
