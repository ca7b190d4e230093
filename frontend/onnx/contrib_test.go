package onnx_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/frontend/onnx/onnxtest"
	"github.com/vkc-go/vkc/ir"
)

// TestContrib compares ONNX Runtime's own ops with results of ONNX Runtime. bench/onnxruntime/ops records them.
func TestContrib(t *testing.T) {
	cases, err := onnxtest.Read("testdata/contrib.txt")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("testdata/contrib-results.txt")
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		key, _, _ := strings.Cut(lines.Text(), " ")
		results[key] = lines.Text()
	}
	if len(results) != len(cases) {
		t.Errorf("%d cases and %d results: record the results again", len(cases), len(results))
	}
	for _, c := range cases {
		want, ok := results[c.Key()]
		if !ok {
			t.Errorf("%s: contrib-results.txt has no result", c.Line)
			continue
		}
		f, err := onnx.NewReader(c.Model, onnx.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.Line, err)
			continue
		}
		out := run(t, f, c.Fed())
		if err := errors.Join(f.Graph.OutputInfo().Trim(out), c.Check(out, want)); err != nil {
			t.Errorf("%s: %v", c.Line, err)
		}
	}
}

// TestContribAsOthers compares ops that ONNX Runtime has only on GPUs with the ops that define them.
func TestContribAsOthers(t *testing.T) {
	const ms = "com.microsoft"
	x := port("x", float, 2, 4, 4)
	constants := func() []part {
		return weights(floats("b", []float32{1, -1, 0.5, 2}, 4), floats("c", []float32{0.5, 1, -2, 0.25}, 4),
			floats("m", []float32{0.5, -1, 2, 0, 1, 3, -2, 0.25, 0.75, 1, -1, 0.5, 2, -0.5, 1, 1}, 4, 4),
			ints("axes", []int64{2}, 1), ints("flat", []int64{0, 0, -1}, 3), ints("same", []int64{2, 4, 4}, 3),
			ints("image", []int64{2, 2, 2, 4}, 4), ints("halves", []int64{2, 2}, 2),
			floats("k", []float32{1, 2, 0, -1, 0.5, 1, 1, 0}, 2, 4, 1), floats("kb", []float32{3, -3}, 2),
			floats("half", []float32{0.5}), ints("last", []int64{-1}, 1))
	}
	ms1 := func(op string, in []string, attributes ...msg) []part {
		return nodes(of(ms, node(op, in, names("y"), attributes...)))
	}
	normed := nodes(of(ms, node("SkipSimplifiedLayerNormalization", names("x", "m", "b"), names("n0"),
		floatAttr("epsilon", 0.01))))
	nbits := func(w, bias, to string) msg {
		return of(ms, node("MatMulNBits", names("n0", w, "s", "", "", bias), names(to), intAttr("K", 4),
			intAttr("N", 2), intAttr("block_size", 4)))
	}
	packed := func(n int) []part { // n times x, by head
		return nodes(node("Reshape", names("x", "heads"), names("h")), node("Concat", slices.Repeat(names("h"), n),
			names("packed"), intAttr("axis", 3)))
	}
	swap := func(from, to string) msg { return node("Transpose", names(from), names(to), intsAttr("perm", 0, 2, 1)) }
	for name, c := range map[string]struct{ node, others []part }{
		"BiasAdd": {ms1("BiasAdd", names("x", "b", "x")),
			nodes(node("Add", names("x", "b"), names("s")), node("Add", names("s", "x"), names("y")))},
		"BiasSplitGelu": {ms1("BiasSplitGelu", names("x", "b")), nodes(node("Add", names("x", "b"), names("s")),
			node("Split", names("s", "halves"), names("l", "r"), intAttr("axis", 2)),
			node("Gelu", names("r"), names("g")), node("Mul", names("l", "g"), names("y")))},
		"BiasSoftmax": {ms1("BiasSoftmax", names("x", "m"), intAttr("axis", 1), intAttr("is_inner_broadcast", 0)),
			nodes(node("Add", names("x", "m"), names("s")), node("Reshape", names("s", "rows"), names("r")),
				node("Softmax", names("r"), names("p")), node("Reshape", names("p", "same"), names("y")))},
		"BiasDropout": {ms1("BiasDropout", names("x", "b", "x", "half")),
			nodes(node("Add", names("x", "b"), names("s")), node("Add", names("s", "x"), names("y")))},
		"GemmFastGelu": {ms1("GemmFastGelu", names("x", "m", "b")), nodes(node("MatMul", names("x", "m"), names("p")),
			node("Add", names("p", "b"), names("s")),
			node("Gelu", names("s"), names("y"), textAttr("approximate", "tanh")))},
		"FusedMatMulActivation": {ms1("FusedMatMulActivation", names("x", "m"), textAttr("activation", "LeakyRelu"),
			floatAttr("activation_alpha", 0.25), intAttr("transB", 1), floatAttr("alpha", 2)),
			nodes(node("Transpose", names("m"), names("mt")), node("MatMul", names("x", "mt"), names("p")),
				node("Add", names("p", "p"), names("s")),
				node("LeakyRelu", names("s"), names("y"), floatAttr("alpha", 0.25)))},
		"NhwcConv": {ms1("NhwcConv", names("x", "k", "kb")),
			nodes(swap("x", "t"), node("Conv", names("t", "k", "kb"), names("v")), swap("v", "y"))},
		"NhwcFusedConv": {ms1("NhwcFusedConv", names("x", "k", "kb", "z"), textAttr("activation", "Relu")),
			nodes(swap("x", "t"), node("Conv", names("t", "k", "kb"), names("v")), swap("v", "u"),
				node("Add", names("u", "z"), names("a")), node("Relu", names("a"), names("y")))},
		"GroupNorm": {ms1("GroupNorm", names("x", "b", "c"), intAttr("groups", 2), intAttr("activation", 1),
			floatAttr("epsilon", 0.01)),
			nodes(swap("x", "t"), node("GroupNormalization", names("t", "b", "c"), names("g"), intAttr("num_groups", 2),
				floatAttr("epsilon", 0.01)), swap("g", "u"), node("Sigmoid", names("u"), names("s")),
				node("Mul", names("u", "s"), names("y")))},
		"SkipGroupNorm": {ms1("SkipGroupNorm", names("x", "b", "c", "n", "b"), intAttr("groups", 2),
			intAttr("activation", 0), intAttr("channels_last", 0)),
			nodes(node("Unsqueeze", names("n", "last"), names("n1")),
				node("Unsqueeze", names("b", "last"), names("b1")),
				node("Add", names("x", "n1"), names("s")), node("Add", names("s", "b1"), names("u")),
				node("GroupNormalization", names("u", "b", "c"), names("y"), intAttr("num_groups", 2)))},
		"MultiHeadAttention of packed queries, keys and values": {append(packed(3),
			ms1("MultiHeadAttention", names("packed"), intAttr("num_heads", 2))...),
			ms1("MultiHeadAttention", names("x", "x", "x"), intAttr("num_heads", 2))},
		"MultiHeadAttention of packed keys and values": {append(packed(2),
			ms1("MultiHeadAttention", names("x", "packed"), intAttr("num_heads", 2))...),
			ms1("MultiHeadAttention", names("x", "x", "x"), intAttr("num_heads", 2))},
		"MatMulNBitsMlp": {ms1("MatMulNBitsMlp", names("x", "m", "b", "w1", "s", "two", "w2", "s"), intAttr("K", 4),
			intAttr("N", 2), intAttr("block_size", 4), textAttr("activation", "Sigmoid"), floatAttr("epsilon", 0.01)),
			append(normed, nodes(nbits("w1", "two", "g"), nbits("w2", "", "u"), node("Sigmoid", names("g"), names("a")),
				node("Mul", names("a", "u"), names("y")))...)},
		"MatMulNBitsQkv": {append(nodes(of(ms, node("MatMulNBitsQkv", names("x", "m", "b", "w1", "s", "", "w2", "s",
			"two", "w1", "s", "two"), names("q0", "k0", "v0"), intAttr("K", 4), intAttr("Nq", 2), intAttr("Nkv", 2),
			intAttr("block_size", 4), floatAttr("epsilon", 0.01)))), nodes(node("Concat", names("q0", "k0", "v0"),
			names("y"), intAttr("axis", 2)))...),
			append(normed, nodes(nbits("w1", "", "q0"), nbits("w2", "two", "k0"), nbits("w1", "two", "v0"),
				node("Concat", names("q0", "k0", "v0"), names("y"), intAttr("axis", 2)))...)},
		"MultiHeadAttention with a shared cache": {
			ms1("MultiHeadAttention", names("q", "q", "q", "", "", "", "past", "past", "used"), intAttr("num_heads", 2)),
			ms1("DecoderMaskedMultiHeadAttention", names("q", "q", "q", "", "", "past", "past", "used"),
				intAttr("num_heads", 2), intAttr("past_present_share_buffer", 1))},
	} {
		t.Run(name, func(t *testing.T) {
			more := weights(ints("rows", []int64{2, -1}, 2), floats("n", []float32{1, 2, 3, 4, -1, -2, -3, -4}, 2, 4),
				ints("heads", []int64{2, 4, 2, 1, 2}, 5), tensorOf("used", 6, []int64{1}).bytes(9, []byte{1, 0, 0, 0}),
				floats("q", []float32{1, 2, -1, 0.5}, 1, 1, 4), floats("s", []float32{0.5, 0.3}, 2, 1),
				bytesOf("w1", 2, []byte{0x1f, 0x73, 0xa2, 0x90}, 2, 1, 2), floats("two", []float32{5, -1}, 2),
				bytesOf("w2", 2, []byte{0x05, 0xc4, 0x2b, 0xe9}, 2, 1, 2),
				floats("past", []float32{1, 0, -1, 2, 3, -2, 1, 1, 0.5, 0, 2, -1}, 1, 2, 3, 2),
				floats("z", []float32{1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8}, 2, 4, 2))
			in := map[string]*ir.Data{"x": f32(t, spread(32), 2, 4, 4)}
			build := func(list []part) *ir.Data {
				f := built(t, model(21, graph(inputs(x), constants(), more, list, outputs("y"))), onnx.Options{})
				return run(t, f, in)["y"]
			}
			if err := onnx.Compare(build(c.node), build(c.others), 1e-5, 1e-6); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBlocksBecomeFormats: weights whose blocks have the same numbers as a format of vkc get that format.
func TestBlocksBecomeFormats(t *testing.T) {
	cases, err := onnxtest.Read("testdata/contrib.txt")
	if err != nil {
		t.Fatal(err)
	}
	formats := map[ir.DType]int{}
	for _, c := range cases {
		if c.Op != "MatMulNBits" && c.Op != "QMoE" {
			continue
		}
		f := built(t, c.Model, onnx.Options{})
		for _, n := range f.Graph.Leaves(ir.OpWeight) {
			formats[n.DType()]++
		}
	}
	for _, want := range []ir.DType{ir.Q4_0, ir.Q4_1, ir.Q8_0, ir.U8} {
		if formats[want] == 0 {
			t.Errorf("no case has weights of %s: %v", want, formats)
		}
	}
}

// TestRefusedOps: an op that is left out is refused with a reason.
func TestRefusedOps(t *testing.T) {
	for op, want := range map[string]string{"BeamSearch": "export the decoder alone", "PagedAttention": "pages",
		"PackedAttention": "padding", "SparseAttention": "GroupQueryAttention", "Sampling": "generates text"} {
		_, err := onnx.NewReader(model(21, graph(inputs(port("x", float, 1)),
			nodes(of("com.microsoft", node(op, names("x"), names("y")))), outputs("y"))), onnx.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), op) {
			t.Errorf("%s: error %v", op, err)
		}
	}
}

// spread returns n different numbers between -2 and 2.
func spread(n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = float64((i*37+11)%101)/25 - 2
	}
	return list
}

// TestGroupQueryAttentionByStep runs GroupQueryAttention as a language model does: over a prompt, and then a token at a
// time, with the keys and values of the steps before. All extents are symbols, and the total length is one of its own.
func TestGroupQueryAttentionByStep(t *testing.T) {
	node1 := of("com.microsoft", node("GroupQueryAttention", names("x", "", "", "past_k", "past_v", "ends", "total",
		"cos", "sin"), names("y", "k", "v"), intAttr("num_heads", 2), intAttr("kv_num_heads", 1),
		intAttr("do_rotary", 1)))
	cache := func(name string) msg { return port(name, float, "batch", 1, "past_sequence_length", 4) }
	content := model(21, graph(inputs(port("x", float, "batch", "sequence_length", 16), cache("past_k"),
		cache("past_v"), port("mask", int64s, "batch", "total_sequence_length")),
		weights(floats("cos", []float32{1, 1, 0, 0.6, -1, 0.8, 0, 1, 1, 0.6}, 5, 2),
			floats("sin", []float32{0, 0, 1, 0.8, 0, 0.6, -1, 0, 0, -0.8}, 5, 2), ints("one", []int64{1}, 1),
			ints("at", []int64{1})),
		nodes(node("ReduceSum", names("mask", "one"), names("sum"), intAttr("keepdims", 0)),
			node("Sub", names("sum", "one"), names("last")),
			node("Cast", names("last"), names("ends"), intAttr("to", 6)),
			node("Shape", names("mask"), names("shape")), node("Gather", names("shape", "at"), names("length")),
			node("Cast", names("length"), names("total"), intAttr("to", 6)), node1), outputs("y", "k", "v")))
	f := built(t, content, onnx.Options{})
	// Two sequences, of which the first prompt of the second one is shorter by a token.
	tokens := func(from, to int) *ir.Data {
		var list []float64
		for b := range 2 {
			for i := from; i < to; i++ {
				for k := range 16 {
					list = append(list, float64((b*31+i*17+k*7)%23)/11-1)
				}
			}
		}
		return f32(t, list, 2, to-from, 16)
	}
	mask := func(n int, second int) *ir.Data {
		list := make([]int64, 2*n)
		for i := range n {
			list[i] = 1
			if i < second {
				list[n+i] = 1
			}
		}
		d, err := ir.FromInts(ir.I64, list, 2, n)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	empty := func() *ir.Data { return &ir.Data{DType: ir.F32, Dims: []int{2, 1, 0, 4}} }
	step := func(from, to, valid int, before map[string]*ir.Data) map[string]*ir.Data {
		return run(t, f, map[string]*ir.Data{"x": tokens(from, to), "past_k": before["k"], "past_v": before["v"],
			"mask": mask(to, valid)})
	}
	none := map[string]*ir.Data{"k": empty(), "v": empty()}
	whole, first := step(0, 5, 5, none), step(0, 3, 3, none)
	second := step(3, 4, 4, first)
	third := step(4, 5, 5, second)
	is(t, third["k"], whole["k"])
	is(t, third["v"], whole["v"])
	all, err := whole["y"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	last := slices.Concat(all[4*8:5*8], all[9*8:])
	is(t, third["y"], f32(t, last, 2, 1, 8))
	// A step after a padded prompt: the padded sequence's new key comes directly after its own past.
	ragged := step(3, 4, 3, first)
	keys, err := ragged["k"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	before, err := first["k"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := keys[4*4:4*4+2*4], before[3*4:3*4+2*4]; !slices.Equal(got, want) {
		t.Errorf("the first two keys of the padded sequence are %v, want %v", got, want)
	}
	if slices.Equal(keys[4*4+2*4:4*4+3*4], before[3*4+2*4:]) {
		t.Error("the key of padding is still there")
	}
}
