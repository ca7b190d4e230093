package ir_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

func data(t *testing.T, dt ir.DType, bytes []byte, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(dt, dims...)
	if err != nil {
		t.Fatal(err)
	}
	copy(d.Bytes, bytes)
	return d
}

// TestTrim trims outputs along an inner axis, and rejects invalid counts from a hostile bundle.
func TestTrim(t *testing.T) {
	outputs := func(count byte) map[string]*ir.Data {
		return map[string]*ir.Data{"y": data(t, ir.U8, []byte{1, 2, 3, 4, 5, 6}, 2, 3),
			"n": data(t, ir.I32, []byte{count}), "x": data(t, ir.U8, []byte{7}, 1),
			"pair": data(t, ir.I32, nil, 2), "real": data(t, ir.F32, nil), "l.unfinished": data(t, ir.Bool, []byte{count})}
	}
	found := func(axis int, count string) ir.OutputInfo {
		return ir.OutputInfo{Found: map[string]ir.Found{"y": {Axis: axis, Count: count}}}
	}
	out := outputs(2)
	if err := found(1, "n").Trim(out); err != nil {
		t.Fatal(err)
	}
	if y := out["y"]; !slices.Equal(y.Dims, []int{2, 2}) || !slices.Equal(y.Bytes, []byte{1, 2, 4, 5}) ||
		out["x"].Bytes[0] != 7 {
		t.Errorf("y is %s, %v", y, y.Bytes)
	}
	for want, r := range map[string]ir.OutputInfo{
		"2 elements of u8[2 3] along axis 2":  found(2, "n"),
		"2 elements of u8[2 3] along axis -1": found(-1, "n"),
		"is not a number":                     found(0, "pair"),
		"l: the loop had not ended": {Loops: []string{"l.unfinished"},
			Mismatches: []string{"a.mismatched"}},
	} {
		if err := r.Trim(outputs(2)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := found(1, "n").Trim(outputs(4)); err == nil {
		t.Error("4 of 3 elements are no error")
	}
	if err := (ir.OutputInfo{Loops: []string{"l.unfinished"}}).Trim(outputs(0)); err != nil {
		t.Errorf("a loop that ended: %v", err)
	}
}

// TestOutputInfo writes the metadata of outputs to graph.json and reads it again. Invalid metadata is rejected.
func TestOutputInfo(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
  %0 = input {name="x", dtype=f32, shape=[2,3]}
  %1 = input {name="n", dtype=i32, shape=[]}
  %2 = input {name="b", dtype=bool, shape=[]}
  output "y" %0
  output "n" %1
  output "l.unfinished" %2
  output "a.mismatched" %2
}`)
	if err != nil {
		t.Fatal(err)
	}
	info := ir.OutputInfo{Found: map[string]ir.Found{"y": {Axis: 1, Count: "n"}}, Loops: []string{"l.unfinished"}}
	if err := g.SetOutputInfo(info); err != nil {
		t.Fatal(err)
	}
	copied, err := ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		return rw.Copy(n, args)
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := copied.MarshalJSONText()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ir.ReadJSON("g.json", text)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.OutputInfo(); !reflect.DeepEqual(got, info) {
		t.Errorf("read %v, want %v", got, info)
	}
	for from, to := range map[string]string{
		`"count": "n"`: `"count": "y"`, `"axis": 1`: `"axis": 2`, `"unfinished": true`: `"found": {"axis": 0, "count": "n"}`,
		`"name": "n"`: `"unfinished": true, "name": "n"`, `"name": "y"`: `"mismatched": true, "name": "y"`, `"axis": 1, `: ``,
	} {
		bad := strings.Replace(string(text), from, to, 1)
		if _, err := ir.ReadJSON("g.json", []byte(bad)); bad == string(text) || err == nil {
			t.Errorf("%s in place of %s: error %v", to, from, err)
		}
	}
}
