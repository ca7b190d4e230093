package onnx_test

import (
	"math"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestRandom checks the mean and deviation of random tensors, and how they differ between nodes, seeds and loop trips.
func TestRandom(t *testing.T) {
	const n = 1 << 12
	like := names("x")
	seeded := func(out string, seed float32) msg {
		return node("RandomNormalLike", like, names(out), floatAttr("seed", seed))
	}
	noise := graph(inputs(port("i", int64s), port("c", boolean), port("v", float, n)),
		nodes(node("RandomNormalLike", names("v"), names("r"))), outputs("c", "v", "r"))
	m := model(22, graph(inputs(port("x", float, n), port("logits", float, 1, 3)),
		weights(ints("two", []int64{2}), floats("ratio", []float32{0.25}),
			tensorOf("yes", boolean, nil).bytes(9, []byte{1})),
		nodes(
			node("RandomNormal", nil, names("normal"), intsAttr("shape", n), floatAttr("mean", 5),
				floatAttr("scale", 2)),
			node("RandomUniform", nil, names("uniform"), intsAttr("shape", n), floatAttr("low", -1),
				floatAttr("high", 3)),
			node("RandomUniformLike", like, names("unit")),
			seeded("a", 1), seeded("b", 1), seeded("other", 2),
			node("Bernoulli", like, names("coin")),
			node("Dropout", names("x", "ratio", "yes"), names("dropped", "kept")),
			node("Multinomial", names("logits"), names("class"), intAttr("sample_size", n)),
			node("Loop", names("two", "", "x"), names("", "trips"), graphAttr("body", noise))),
		outputs("normal", "uniform", "unit", "a", "b", "other", "coin", "dropped", "kept", "class", "trips")))
	f := built(t, m, onnx.Options{})
	x := make([]float64, n)
	for i := range x {
		x[i] = 0.3
	}
	in := map[string]*ir.Data{"x": f32(t, x, n),
		"logits": f32(t, []float64{math.Log(1), math.Log(2), math.Log(5)}, 1, 3)}
	out, again := run(t, f, in), run(t, f, in)
	values := map[string][]float64{}
	for name, d := range out {
		if !slices.Equal(d.Bytes, again[name].Bytes) {
			t.Errorf("%s is another in a second run", name)
		}
		values[name] = numbers(t, d)
	}
	values["first class"], values["last class"] = share(values["class"], 0), share(values["class"], 2)
	// A mean of 4096 is within 5 of its deviations.
	for name, want := range map[string]struct{ mean, deviation float64 }{
		"normal": {5, 2}, "uniform": {1, 4 / math.Sqrt(12)}, "unit": {0.5, 1 / math.Sqrt(12)}, "a": {0, 1},
		"coin": {0.3, math.Sqrt(0.21)}, "dropped": {0.3, 0.3 / 0.75 * math.Sqrt(0.1875)}, "trips": {0, 1},
		"kept": {0.75, math.Sqrt(0.1875)}, "first class": {0.125, 0.3307}, "last class": {0.625, 0.4841},
	} {
		mean, deviation := moments(values[name])
		if off := math.Abs(mean - want.mean); off > 5*want.deviation/math.Sqrt(n) {
			t.Errorf("the mean of %s is %.3f, want %.3f", name, mean, want.mean)
		}
		if off := math.Abs(deviation/want.deviation - 1); off > 0.1 {
			t.Errorf("the deviation of %s is %.3f, want %.3f", name, deviation, want.deviation)
		}
	}
	if !slices.Equal(values["a"], values["b"]) || slices.Equal(values["a"], values["other"]) ||
		slices.Equal(values["a"], values["normal"]) {
		t.Error("equal seeds draw other numbers, or others the same")
	}
	if slices.Equal(values["trips"][:n], values["trips"][n:]) {
		t.Error("both trips of the loop draw the same numbers")
	}
}

// numbers are the elements of any dtype.
func numbers(t *testing.T, d *ir.Data) []float64 {
	t.Helper()
	if d.DType.IsFloat() {
		list, err := d.Floats()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	ints, err := d.Ints()
	if err != nil {
		t.Fatal(err)
	}
	list := make([]float64, len(ints))
	for i, n := range ints {
		list[i] = float64(n)
	}
	return list
}

// share is 1 where a number is that one.
func share(list []float64, is float64) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		if v == is {
			out[i] = 1
		}
	}
	return out
}

func moments(list []float64) (mean, deviation float64) {
	for _, v := range list {
		mean += v / float64(len(list))
	}
	for _, v := range list {
		deviation += (v - mean) * (v - mean) / float64(len(list))
	}
	return mean, math.Sqrt(deviation)
}
