package onnx_test

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// tensorAttr writes an attribute that is a tensor.
func tensorAttr(name string, t msg) msg { return msg{}.text(1, name).bytes(5, t).int(20, attrTensor) }

// TestTreeEnsemble descends two trees. A node of the first tests membership, and NaN follows its false branch.
func TestTreeEnsemble(t *testing.T) {
	nan := float32(math.NaN())
	tree := func(attributes ...msg) *onnx.File {
		return built(t, model(21, graph(inputs(port("x", float, 5, 2)), nodes(of("ai.onnx.ml", node("TreeEnsemble",
			names("x"), names("y"), append([]msg{
				intsAttr("tree_roots", 0, 2), intAttr("n_targets", 2),
				intsAttr("nodes_featureids", 0, 1, 1), tensorAttr("nodes_splits", floats("", []float32{9, 0.5, -1}, 3)),
				tensorAttr("nodes_modes", bytesOf("", 2, []byte{6, 0, 3}, 3)), // member, at most, above
				tensorAttr("membership_values", floats("", []float32{1, 4, nan}, 3)),
				intsAttr("nodes_truenodeids", 0, 1, 3), intsAttr("nodes_trueleafs", 1, 1, 1),
				intsAttr("nodes_falsenodeids", 1, 2, 4), intsAttr("nodes_falseleafs", 0, 1, 1),
				tensorAttr("leaf_weights", floats("", []float32{10, 20, 30, 1, 2}, 5)),
				intsAttr("leaf_targetids", 0, 0, 1, 0, 1)}, attributes...)...))), outputs("y"))), onnx.Options{})
	}
	x := f32(t, []float64{1, 0, 4, -2, 3, 0.5, 3, 2, math.NaN(), math.NaN()}, 5, 2)
	for name, c := range map[string]struct {
		attributes []msg
		want       []float64
	}{
		"sums":  {nil, []float64{11, 0, 10, 2, 21, 0, 1, 30, 0, 32}},
		"means": {[]msg{intAttr("aggregate_function", 0)}, []float64{5.5, 0, 5, 1, 10.5, 0, 0.5, 15, 0, 16}},
		"least": {[]msg{intAttr("aggregate_function", 2)}, []float64{1, 0, 10, 2, 1, 0, 1, 30, 0, 2}},
		"most":  {[]msg{intAttr("aggregate_function", 3)}, []float64{10, 0, 10, 2, 20, 0, 1, 30, 0, 30}},
		"NaN follows the true branch": {[]msg{intsAttr("nodes_missing_value_tracks_true", 1, 0, 1)},
			[]float64{11, 0, 10, 2, 21, 0, 1, 30, 11, 0}},
	} {
		got := run(t, tree(c.attributes...), map[string]*ir.Data{"x": x})["y"]
		if err := onnx.Compare(got, f32(t, c.want, 5, 2), 0, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A tree that leads back to itself, or out of the nodes, is refused.
	for name, yes := range map[string]int64{"itself": 0, "out": 7} {
		_, err := onnx.NewReader(model(21, graph(inputs(port("x", float, 5, 2)), nodes(of("ai.onnx.ml",
			node("TreeEnsemble", names("x"), names("y"), intsAttr("tree_roots", 0), intAttr("n_targets", 1),
				intsAttr("nodes_featureids", 0), tensorAttr("nodes_splits", floats("", []float32{9}, 1)),
				tensorAttr("nodes_modes", bytesOf("", 2, []byte{0}, 1)), intsAttr("nodes_truenodeids", yes),
				intsAttr("nodes_trueleafs", 0), intsAttr("nodes_falsenodeids", 0), intsAttr("nodes_falseleafs", 1),
				tensorAttr("leaf_weights", floats("", []float32{10}, 1)), intsAttr("leaf_targetids", 0)))),
			outputs("y"))), onnx.Options{})
		if err == nil || !strings.Contains(err.Error(), "a node leads") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestDeepTree descends a tree of 20 levels, a chain that counts how many of the numbers 0 to 19 are below x.
func TestDeepTree(t *testing.T) {
	const levels = 20
	var yes, no, zeros, leafs []int64
	var splits, weights []float32
	for i := range int64(levels) {
		zeros, splits = append(zeros, 0), append(splits, float32(i))
		yes, no, leafs = append(yes, i), append(no, i+1), append(leafs, 0)
		weights = append(weights, float32(i))
	}
	leafs[levels-1], no[levels-1] = 1, levels
	weights = append(weights, levels)
	ones := make([]int64, levels)
	for i := range ones {
		ones[i] = 1
	}
	n := node("TreeEnsemble", names("x"), names("y"), intsAttr("tree_roots", 0), intsAttr("nodes_featureids", zeros...),
		tensorAttr("nodes_splits", floats("", splits, levels)),
		tensorAttr("nodes_modes", bytesOf("", 2, make([]byte, levels), levels)),
		intsAttr("nodes_truenodeids", yes...), intsAttr("nodes_trueleafs", ones...),
		intsAttr("nodes_falsenodeids", no...), intsAttr("nodes_falseleafs", leafs...),
		tensorAttr("leaf_weights", floats("", weights, levels+1)),
		intsAttr("leaf_targetids", make([]int64, levels+1)...))
	f := built(t, model(21, graph(inputs(port("x", float, "N", 1)), nodes(of("ai.onnx.ml", n)), outputs("y"))),
		onnx.Options{})
	x := f32(t, []float64{-3, 0, 0.5, 7.2, 18.9, 40}, 6, 1)
	is(t, run(t, f, map[string]*ir.Data{"x": x})["y"], f32(t, []float64{0, 0, 1, 8, 19, 20}, 6, 1))
}

// TestTensorAttributeWithoutTensor expects an error for an attribute of type tensor that has none.
func TestTensorAttributeWithoutTensor(t *testing.T) {
	keys := msg{}.text(1, "keys_tensor").int(20, attrTensor)
	n := of("ai.onnx.ml", node("LabelEncoder", names("x"), names("y"), keys, intsAttr("values_int64s", 1)))
	content := model(21, graph(inputs(port("x", int64s, 2)), nodes(n), outputs("y")))
	_, err := onnx.NewReader(content, onnx.Options{})
	if err == nil || !strings.Contains(err.Error(), "keys_tensor") {
		t.Errorf("error %v", err)
	}
}

// TestHostileSupportVectors: numbers of support vectors with a sum that overflows, and pairs of classes whose weights
// would need gigabytes, are refused.
func TestHostileSupportVectors(t *testing.T) {
	const many = 300
	labels := make([]int64, many)
	ones := make([]int64, many)
	for i := range labels {
		labels[i], ones[i] = int64(i), 1
	}
	ones[0] += 100
	for name, c := range map[string]struct {
		labels, per []int64
		vectors     int
		want        string
	}{
		"a sum of 0": {labels[:4], []int64{1 << 62, 1 << 62, 1 << 62, 1 << 62}, 0, "support vectors"},
		"negative":   {labels[:2], []int64{2, -1}, 1, "support vectors"},
		"gigabytes":  {labels, ones, many + 100, "weights: want at most"},
	} {
		n := of("ai.onnx.ml", node("SVMClassifier", names("x"), names("label", "y"),
			intsAttr("vectors_per_class", c.per...),
			floatsAttr("coefficients", make([]float32, c.vectors*(len(c.labels)-1))...),
			floatsAttr("rho", make([]float32, len(c.labels)*(len(c.labels)-1)/2)...),
			floatsAttr("support_vectors", make([]float32, c.vectors)...), intsAttr("classlabels_ints", c.labels...)))
		content := model(21, graph(inputs(port("x", float, 2, 1)), nodes(n), outputs("y")))
		_, err := onnx.NewReader(content, onnx.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// TestLabelsOfStrings: scores are there next to labels that are strings, which cannot be read.
func TestLabelsOfStrings(t *testing.T) {
	n := of("ai.onnx.ml", node("LinearClassifier", names("x"), names("label", "y"),
		floatsAttr("coefficients", 1, -1), floatsAttr("intercepts", 0, 0.5), msg{}.text(1, "classlabels_strings").
			text(9, "no").text(9, "yes").int(20, 8)))
	content := func(out string) []byte {
		return model(21, graph(inputs(port("x", float, 2, 1)), nodes(n), outputs(out)))
	}
	f := built(t, content("y"), onnx.Options{})
	got := run(t, f, map[string]*ir.Data{"x": f32(t, []float64{1, -2}, 2, 1)})["y"]
	is(t, got, f32(t, []float64{1, -0.5, -2, 2.5}, 2, 2))
	_, err := onnx.NewReader(content("label"), onnx.Options{})
	if err == nil || !strings.Contains(err.Error(), "strings") {
		t.Errorf("labels are read: error %v", err)
	}
}

// TestFlexAttention compares FlexAttention with a causal Attention, whose mask the graph of the scores applies.
func TestFlexAttention(t *testing.T) {
	past := graph(inputs(port("s", float, 1, 2, 3, 3)), weights(tensorOf("mask", boolean, []int64{3, 3}).bytes(9,
		[]byte{1, 0, 0, 1, 1, 0, 1, 1, 1}), floats("none", []float32{float32(math.Inf(-1))})),
		nodes(node("Where", names("mask", "s", "none"), names("t"))), outputs("t"))
	twice := graph(inputs(port("p", float, 1, 2, 3, 3)), nodes(node("Add", names("p", "p"), names("r"))), outputs("r"))
	flex := node("FlexAttention", names("q", "k", "k"), names("y"), graphAttr("score_mod", past),
		graphAttr("prob_mod", twice), floatAttr("scale", 0.3)).text(7, "ai.onnx.preview")
	plain := nodes(node("Attention", names("q", "k", "k"), names("h"), intAttr("is_causal", 1),
		floatAttr("scale", 0.3)), node("Add", names("h", "h"), names("y")))
	in := map[string]*ir.Data{"q": f32(t, spread(24), 1, 2, 3, 4), "k": f32(t, spread(12), 1, 1, 3, 4)}
	var got []*ir.Data
	for _, list := range [][]part{nodes(flex), plain} {
		f := built(t, model(24, graph(inputs(port("q", float, 1, 2, 3, 4), port("k", float, 1, 1, 3, 4)), list,
			outputs("y"))), onnx.Options{})
		got = append(got, run(t, f, in)["y"])
	}
	if err := onnx.Compare(got[0], got[1], 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}

// TestImageDecoder decodes a picture that is a constant.
func TestImageDecoder(t *testing.T) {
	picture := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	picture.Set(0, 0, color.NRGBA{10, 20, 30, 255})
	picture.Set(1, 0, color.NRGBA{255, 0, 7, 255})
	var file bytes.Buffer
	if err := png.Encode(&file, picture); err != nil {
		t.Fatal(err)
	}
	for form, want := range map[string][]byte{"RGB": {10, 20, 30, 255, 0, 7}, "BGR": {30, 20, 10, 7, 0, 255},
		"Grayscale": {18, 77}} {
		content := model(21, graph(weights(bytesOf("file", 2, file.Bytes(), int64(file.Len()))),
			nodes(node("ImageDecoder", names("file"), names("p"), textAttr("pixel_format", form)),
				node("Identity", names("p"), names("y"))), outputs("y")))
		got := run(t, built(t, content, onnx.Options{}), nil)["y"]
		if !bytes.Equal(got.Bytes, want) {
			t.Errorf("%s: %v, want %v", form, got.Bytes, want)
		}
	}
	for raw, want := range map[string][]byte{
		"P3 # text\n2 1 255 10 20 30 255 0 7\n": {10, 20, 30, 255, 0, 7},
		"P6 2 1 255\n\x0a\x14\x1e\xff\x00\x07":  {10, 20, 30, 255, 0, 7},
		"P2 2 1 3 3 1":                          {255, 255, 255, 85, 85, 85},
		"P5 2 1 65535\n\xff\xff\x80\x00":        {255, 255, 255, 128, 128, 128},
		"P1 2 1 01":                             {255, 255, 255, 0, 0, 0},
		"P4 2 1\n\x40":                          {255, 255, 255, 0, 0, 0},
	} {
		content := model(21, graph(weights(bytesOf("file", 2, []byte(raw), int64(len(raw)))),
			nodes(node("ImageDecoder", names("file"), names("p")), node("Identity", names("p"), names("y"))),
			outputs("y")))
		if got := run(t, built(t, content, onnx.Options{}), nil)["y"]; !bytes.Equal(got.Bytes, want) {
			t.Errorf("%q: %v, want %v", raw, got.Bytes, want)
		}
	}
	broken := append([]byte{}, file.Bytes()...)
	binary.BigEndian.PutUint32(broken[16:], 1<<30) // the width
	for name, raw := range map[string][]byte{"wide": broken, "short": file.Bytes()[:20], "empty": {0},
		"a wide pnm": []byte("P6 99999999 99999999 255\n"), "a short pnm": []byte("P6 1 1 255\n12")} {
		_, err := onnx.NewReader(model(21, graph(weights(bytesOf("file", 2, raw, int64(len(raw)))),
			nodes(node("ImageDecoder", names("file"), names("y"))), outputs("y"))), onnx.Options{})
		if err == nil || !strings.Contains(err.Error(), "picture") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestSmoothColours interpolates colours between pixels that share them, and converts both ranges of values.
func TestSmoothColours(t *testing.T) {
	p := image.NewYCbCr(image.Rect(0, 0, 4, 2), image.YCbCrSubsampleRatio420)
	for i := range p.Y {
		p.Y[i] = 128
	}
	p.Cb, p.Cr = []byte{128, 160}, []byte{128, 128}
	var blue []byte
	for x := range 4 {
		blue = append(blue, onnx.Smooth(p, false)(x, 0).B)
	}
	if want := []byte{128, 142, 171, 185}; !bytes.Equal(blue, want) { // colours of 128, 136, 152 and 160
		t.Errorf("blue is %v, want %v", blue, want)
	}
	if got, want := onnx.Smooth(p, true)(0, 0), (color.NRGBA{130, 130, 130, 255}); got != want {
		t.Errorf("grey of WebP is %v, want %v", got, want) // 255*(128-16)/219
	}
}
