package ir

import (
	"strings"
	"testing"
)

const indicesGraph = `graph "indices" {
  symbol T <= 8
  symbol V <= 9
  %0 = input {name="ids", dtype=i32, shape=[T,2]} : i32[T,2]
  %1 = input {name="rows", dtype=i64, shape=[3]} : i64[3]
  %2 = input {name="part", dtype=i32, shape=[3]} : i32[3]
  %3 = input {name="computed", dtype=i32, shape=[3]} : i32[3]
  %4 = input {name="table", dtype=f32, shape=[V,4]} : f32[V,4]
  %5 = weight {name="vocabulary", dtype=f32, shape=[6,4]} : f32[6,4]
  %6 = transpose %0 {perm=[1,0]} : i32[2,T]
  %7 = embedding %5, %6 : f32[2,T,4]
  %8 = cast %1 {dtype=i32} : i32[3]
  %9 = index_select %4, %8 {axis=0} : f32[3,4]
  %10 = slice %2 {starts=[0], limits=[2]} : i32[2]
  %11 = index_select %5, %10 {axis=-1} : f32[6,2]
  %12 = neg %3 : i32[3]
  %13 = index_select %5, %12 {axis=0} : f32[3,4]
  output "a" %7
  output "b" %9
  output "c" %11
  output "d" %13
}
`

// TestCheckIndices: indices from the host are checked against every axis that they index unchanged.
func TestCheckIndices(t *testing.T) {
	g, err := Parse(indicesGraph)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, r := range g.IndexRanges() {
		found = append(found, r.Input+" "+r.Node.Op().String()+" "+r.Extent.String())
	}
	if got := strings.Join(found, ", "); got != "ids embedding 6, rows index_select V" {
		t.Errorf("index ranges %s", got) // not for slices of indices or computed indices
	}
	ints := func(dt DType, dims []int, v ...int64) *Data {
		d, err := NewData(dt, dims...)
		if err != nil {
			t.Fatal(err)
		}
		EncodeInts(d.Bytes, dt, v)
		return d
	}
	check := func(ids, rows []int64, v int) error {
		table, err := NewData(F32, v, 4)
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]*Data{"ids": ints(I32, []int{len(ids) / 2, 2}, ids...), "rows": ints(I64, []int{3}, rows...),
			"part": ints(I32, []int{3}, -1, 99, 99), "computed": ints(I32, []int{3}, -1, 1, 99), "table": table}
		symbols, err := BindInputs(g, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range g.Picks() {
			if err := p.Check(symbols); err != nil {
				return err
			}
		}
		return CheckIndices(g, in, symbols)
	}
	for _, ids := range [][]int64{{0, 5}, {}, {5, 4, 3, 2, 1, 0}} {
		if err := check(ids, []int64{0, 1, 6}, 7); err != nil {
			t.Errorf("%v: %v", ids, err)
		}
	}
	for _, tt := range []struct {
		ids, rows []int64
		v         int
		want      string
	}{
		{[]int64{0, 1, 2, 6}, []int64{0, 0, 0}, 7,
			`input "ids": element [1 1] is 6: want 0 to 5, an index of axis 0 of f32[6,4] "vocabulary", from which embedding %7`},
		{[]int64{0, 1, -1, 0}, []int64{0, 0, 0}, 7, `input "ids": element [1 0] is -1: want 0 to 5`},
		{[]int64{0, 1}, []int64{0, 1 << 32, 0}, 7, `input "rows": element [1] is 4294967296: want 0 to 6`},
		{[]int64{0, 1}, []int64{0, 1, 3}, 3, `input "rows": element [2] is 3: want 0 to 2`},
		{[]int64{0, 1}, []int64{0, 0, 0}, 0,
			`input "table": V is 0, so axis 0 of f32[V,4] is empty, and index_select %9 has nothing to pick: want at least 1 element along axis 0`},
	} {
		if err := check(tt.ids, tt.rows, tt.v); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, %v of %d: %v, want %s", tt.ids, tt.rows, tt.v, err, tt.want)
		}
	}
}

// TestPicks: the ops that clamp indices according to their documentation are those with Picks.
func TestPicks(t *testing.T) {
	for _, op := range Ops() {
		info := op.Info()
		if !strings.Contains(info.Doc, "Out-of-range i") {
			continue
		}
		picks := false
		for _, a := range info.Args {
			picks = picks || a.Picks != "" && info.Arg(a.Picks) >= 0
		}
		if picks == (info.Op == OpGatherND) { // its coordinates are for several axes
			t.Errorf("%s: picks %v", info.Name, picks)
		}
	}
}
