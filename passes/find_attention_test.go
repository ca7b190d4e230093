package passes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/golden"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/passes"
)

// spelledAttentions are attentions of 2 batches, 4 heads, 5 queries, 6 keys and 8 elements, as
// exporters spell them, and the kernels that they become: one where nothing else is written.
var spelledAttentions = []struct{ name, families, body string }{
	{"plain", "", `
		%s = matmul %q, %k {transpose_b=true}
		%p = softmax %s {axis=-1}
		%o = matmul %p, %v`},
	{"a transpose", "", `
		%kt = transpose %k {perm=[0,1,3,2]}
		%s = matmul %q, %kt
		%p = softmax %s {axis=3}
		%o = matmul %p, %v`},
	{"a scale of scores", "", `
		%s = matmul %q, %k {transpose_b=true}
		%c = affine %s {mul=0.35}
		%p = softmax %c {axis=-1}
		%o = matmul %p, %v`},
	{"a quotient of scores by the root of a constant", "", `
		%eight = const {data=f32[](8)}
		%root = sqrt %eight
		%s = matmul %q, %k {transpose_b=true}
		%c = div %s, %root
		%p = softmax %c {axis=-1}
		%o = matmul %p, %v`},
	{"scales of queries and keys", "", `
		%qs = affine %q {mul=0.6}
		%ks = affine %k {mul=0.6}
		%s = matmul %qs, %ks {transpose_b=true}
		%p = softmax %s {axis=-1}
		%o = matmul %p, %v`},
	{"an added mask", "", `
		%s = matmul %q, %k {transpose_b=true}
		%c = affine %s {mul=0.35}
		%m = add %c, %mask
		%p = softmax %m {axis=-1}
		%o = matmul %p, %v`},
	{"a mask before the scale", "", `
		%s = matmul %q, %k {transpose_b=true}
		%m = add %mask, %s
		%c = affine %m {mul=0.35}
		%p = softmax %c {axis=-1}
		%o = matmul %p, %v`},
	{"two masks, one subtracted", "", `
		%s = matmul %q, %k {transpose_b=true}
		%m = add %s, %mask
		%n = sub %m, %bias
		%p = softmax %n {axis=-1}
		%o = matmul %p, %v`},
	{"where with -inf", "", `
		%inf = const {data=f32[](-inf)}
		%s = matmul %q, %k {transpose_b=true}
		%c = affine %s {mul=0.35}
		%w = where %seen, %c, %inf
		%p = softmax %w {axis=-1}
		%o = matmul %p, %v`},
	{"where with the least number, operands exchanged", "", `
		%min = const {data=f32[](-3.4028234663852886e+38)}
		%hidden = not %seen
		%s = matmul %q, %k {transpose_b=true}
		%w = where %hidden, %min, %s
		%p = softmax %w {axis=-1}
		%o = matmul %p, %v`},
	{"where with a number that a score may reach", "matmul row matmul", `
		%min = const {data=f32[](-10000)}
		%s = matmul %q, %k {transpose_b=true}
		%w = where %seen, %s, %min
		%p = softmax %w {axis=-1}
		%o = matmul %p, %v`},
	{"a causal mask by positions", "", `
		%row = iota {shape=[5,6], axis=0}
		%col = iota {shape=[5,6], axis=1}
		%past = ge %row, %col
		%inf = const {data=f32[](-inf)}
		%s = matmul %q, %k {transpose_b=true}
		%w = where %past, %s, %inf
		%p = softmax %w {axis=-1}
		%o = matmul %p, %v`},
	{"a soft cap", "", `
		%s = matmul %q, %k {transpose_b=true}
		%c = affine %s {mul=0.1}
		%t = tanh %c
		%u = affine %t {mul=5}
		%m = add %u, %mask
		%p = softmax %m {axis=-1}
		%o = matmul %p, %v`},
	{"a soft cap of numbers", "", `
		%cap = const {data=f32[1](5)}
		%s = matmul %q, %k {transpose_b=true}
		%c = div %s, %cap
		%t = tanh %c
		%u = mul %cap, %t
		%p = softmax %u {axis=-1}
		%o = matmul %p, %v`},
	{"a mask inside a soft cap", "matmul row matmul", `
		%s = matmul %q, %k {transpose_b=true}
		%m = add %s, %mask
		%t = tanh %m
		%p = softmax %t {axis=-1}
		%o = matmul %p, %v`},
	{"heads that share keys by a broadcast", "", `
		%k5 = reshape %k2 {shape=[2,2,1,6,8]}
		%v5 = unsqueeze %v2 {axes=[2]}
		%kb = broadcast %k5 {shape=[2,2,2,6,8]}
		%vb = broadcast %v5 {shape=[2,2,2,6,8]}
		%kr = reshape %kb {shape=[2,4,6,8]}
		%vr = reshape %vb {shape=[2,4,6,8]}
		%kt = transpose %kr {perm=[0,1,3,2]}
		%s = matmul %q, %kt
		%p = softmax %s {axis=-1}
		%o = matmul %p, %vr`},
	{"heads that share keys by a matmul of five axes", "", `
		%q5 = reshape %q {shape=[2,2,2,5,8]}
		%k5 = reshape %k2 {shape=[2,2,1,6,8]}
		%v5 = reshape %v2 {shape=[2,2,1,6,8]}
		%s = matmul %q5, %k5 {transpose_b=true}
		%p = softmax %s {axis=-1}
		%r = matmul %p, %v5
		%o = reshape %r {shape=[2,4,5,8]}`},
	{"heads and batches as one axis", "", `
		%q3 = reshape %q {shape=[8,5,8]}
		%k3 = reshape %k {shape=[8,6,8]}
		%v3 = reshape %v {shape=[8,6,8]}
		%s = matmul %q3, %k3 {transpose_b=true}
		%s4 = reshape %s {shape=[2,4,5,6]}
		%m = add %s4, %mask
		%m3 = reshape %m {shape=[8,5,6]}
		%p = softmax %m3 {axis=-1}
		%r = matmul %p, %v3
		%o = reshape %r {shape=[2,4,5,8]}`},
	{"heads as the second innermost axis", "", `
		%qb = transpose %ql {perm=[0,2,1,3]}
		%kb = transpose %kl {perm=[0,2,3,1]}
		%vb = transpose %vl {perm=[0,2,1,3]}
		%s = matmul %qb, %kb
		%p = softmax %s {axis=-1}
		%r = matmul %p, %vb
		%o = transpose %r {perm=[0,2,1,3]}`},
	{"no heads", "", `
		%a = slice %q {starts=[0,0,0,0], limits=[1,1,5,8]}
		%b = slice %k {starts=[0,0,0,0], limits=[1,1,6,8]}
		%c = slice %v {starts=[0,0,0,0], limits=[1,1,6,8]}
		%q1 = reshape %a {shape=[5,8]}
		%k1 = reshape %b {shape=[6,8]}
		%v1 = reshape %c {shape=[6,8]}
		%s = matmul %q1, %k1 {transpose_b=true}
		%p = softmax %s {axis=-1}
		%o = matmul %p, %v1`},
	{"softmax in f32 of halves", "", `
		%qh = cast %q {dtype=f16}
		%kh = cast %k {dtype=f16}
		%vh = cast %v {dtype=f16}
		%s = matmul %qh, %kh {transpose_b=true}
		%w = cast %s {dtype=f32}
		%p = softmax %w {axis=-1}
		%h = cast %p {dtype=f16}
		%o = matmul %h, %vh`},
	{"a softmax without NaN, of a mask that hides all keys of a query, and scales of both operands", "", `
		%row = iota {shape=[5,6], axis=0}
		%two = const {data=i32[](2)}
		%first = ge %row, %two
		%some = and %seen, %first
		%zero = const {data=f32[](0)}
		%inf = const {data=f32[](-inf)}
		%added = where %some, %zero, %inf
		%eight = const {data=f32[](0.125)}
		%half = sqrt %eight
		%factor = sqrt %half
		%kr = reshape %k {shape=[8,6,8]}
		%kt = transpose %kr {perm=[0,2,1]}
		%k4 = reshape %kt {shape=[2,4,8,6]}
		%qs = mul %q, %factor
		%ks = mul %factor, %k4
		%s = matmul %qs, %ks
		%m = add %s, %added
		%p = softmax %m {axis=3}
		%bad = is_nan %p
		%w = where %bad, %zero, %p
		%o = matmul %w, %v`},
	{"a softmax without NaN of halves", "", `
		%qh = cast %q {dtype=f16}
		%kh = cast %k {dtype=f16}
		%vh = cast %v {dtype=f16}
		%c = const {data=f16[1](0.6)}
		%zero = const {data=f16[1](0)}
		%kt = transpose %kh {perm=[0,1,3,2]}
		%qs = mul %qh, %c
		%ks = div %kt, %c
		%s = matmul %qs, %ks
		%p = softmax %s {axis=3}
		%bad = is_nan %p
		%w = where %bad, %zero, %p
		%o = matmul %w, %vh`},
	{"a softmax without NaN, whose test is also an output", "matmul row matmul", `
		%s = matmul %q, %k {transpose_b=true}
		%p = softmax %s {axis=-1}
		%bad = is_nan %p
		output "bad" %bad
		%zero = const {data=f32[](0)}
		%w = where %bad, %zero, %p
		%o = matmul %w, %v`},
	{"a softmax with ones in place of NaN", "matmul row matmul", `
		%s = matmul %q, %k {transpose_b=true}
		%p = softmax %s {axis=-1}
		%bad = is_nan %p
		%one = const {data=f32[](1)}
		%w = where %bad, %one, %p
		%o = matmul %w, %v`},
	{"the least number added to all keys of a query", "", `
		%row = iota {shape=[5,6], axis=0}
		%two = const {data=i32[](2)}
		%hidden = lt %row, %two
		%zero = const {data=f32[](0)}
		%min = const {data=f32[](-3.4028234663852886e+38)}
		%added = where %hidden, %min, %zero
		%s = matmul %q, %k {transpose_b=true}
		%m = add %s, %added
		%p = softmax %m {axis=-1}
		%o = matmul %p, %v`},
	{"heads that share keys by a concat, with scales", "", `
		%k5 = unsqueeze %k2 {axes=[2]}
		%v5 = unsqueeze %v2 {axes=[2]}
		%kb = concat %k5, %k5 {axis=2}
		%vb = concat %v5, %v5 {axis=2}
		%kr = reshape %kb {shape=[8,6,8]}
		%vr = reshape %vb {shape=[2,4,6,8]}
		%kt = transpose %kr {perm=[0,2,1]}
		%k4 = reshape %kt {shape=[2,4,8,6]}
		%qs = affine %q {mul=0.6}
		%ks = affine %k4 {mul=0.6}
		%s = matmul %qs, %ks
		%p = softmax %s {axis=-1}
		%o = matmul %p, %vr`},
	{"heads and batches as one axis, with a scale before the reshape and keys with their axes exchanged", "", `
		%qs = affine %q {mul=0.35}
		%q3 = reshape %qs {shape=[8,5,8]}
		%kt = transpose %k {perm=[0,1,3,2]}
		%k3 = reshape %kt {shape=[8,8,6]}
		%v3 = reshape %v {shape=[8,6,8]}
		%s = matmul %q3, %k3
		%p = softmax %s {axis=-1}
		%r = matmul %p, %v3
		%o = reshape %r {shape=[2,4,5,8]}`},
	{"softmax weights that are also an output", "matmul row matmul", `
		%s = matmul %q, %k {transpose_b=true}
		%p = softmax %s {axis=-1}
		output "weights" %p
		%o = matmul %p, %v`},
	{"softmax along another axis", "matmul row matmul", `
		%s = matmul %q, %k {transpose_b=true}
		%p = softmax %s {axis=2}
		%o = matmul %p, %v`},
}

// attentionLeaves are the inputs of the graphs.
const attentionLeaves = `
	%q = input {name="q", dtype=f32, shape=[2,4,5,8]}
	%k = input {name="k", dtype=f32, shape=[2,4,6,8]}
	%v = input {name="v", dtype=f32, shape=[2,4,6,8]}
	%k2 = input {name="k2", dtype=f32, shape=[2,2,6,8]}
	%v2 = input {name="v2", dtype=f32, shape=[2,2,6,8]}
	%ql = input {name="ql", dtype=f32, shape=[2,5,4,8]}
	%kl = input {name="kl", dtype=f32, shape=[2,6,4,8]}
	%vl = input {name="vl", dtype=f32, shape=[2,6,4,8]}
	%mask = input {name="mask", dtype=f32, shape=[2,1,5,6]}
	%bias = input {name="bias", dtype=f32, shape=[4,1,6]}
	%seen = input {name="seen", dtype=bool, shape=[5,6]}`

// TestFindAttention: attention that is spelled by ops is one kernel, of the same values.
func TestFindAttention(t *testing.T) {
	for _, tt := range spelledAttentions {
		t.Run(tt.name, func(t *testing.T) {
			s, c, err := passtest.Check(passtest.Parse(t, attentionLeaves+tt.body+"\noutput \"o\" %o"), 1, 6)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.families
			if want == "" {
				want = "attention"
			}
			if have := passtest.Families(s); have != want || c.Ran == 0 {
				t.Errorf("%d runs of kernels %q, want %q\n%s", c.Ran, have, want, s.Text())
			}
			// where keys are depends on the batch and the group alone, and not on the query's head
			if keys := "load 1 [96*a1 + 48*a2 + 8*"; strings.HasPrefix(tt.name, "heads that share") &&
				!strings.Contains(s.Kernels[0].String(), keys) {
				t.Errorf("the heads of keys are not shared:\n%s", s.Kernels[0])
			}
		})
	}
}

// TestAttentionTable: docs/ATTENTION.md says which kernels each spelling becomes.
func TestAttentionTable(t *testing.T) {
	const page = "../docs/ATTENTION.md"
	text := "# Attention by ops\n\n" +
		"Models from other frameworks write attention as several ops. The table lists the spellings " +
		"that vkc is tested with, and\n" +
		"the families of the kernels that each becomes. One kernel `attention` means that vkc " +
		"recognizes the spelling: the kernel\n" +
		"stores no scores. Otherwise a matmul, a softmax (`row`) and a second matmul compute it, and store them.\n" +
		"`go test ./passes -run AttentionTable -update-golden` writes this page.\n\n" +
		"| spelling | kernels | which |\n|---|---:|---|\n"
	for _, tt := range spelledAttentions {
		s, err := passes.Run(passtest.Parse(t, attentionLeaves+tt.body+"\noutput \"o\" %o"), passes.Options{})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		families := strings.ReplaceAll(passtest.Families(s), " ", ", ")
		text += fmt.Sprintf("| %s | %d | %s |\n", tt.name, len(s.Kernels), families)
	}
	golden.Check(t, page, text, *updateGolden, "go test ./passes -run AttentionTable -update-golden")
}
