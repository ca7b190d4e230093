package ir_test

import (
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

// TestTrim cuts outputs along an inner axis, and refuses what a bundle from elsewhere may say of them.
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
		"is no number":                        found(0, "pair"),
		"l: the loop would have gone on":      {Loops: []string{"l.unfinished"}},
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
