package ir_test

import (
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestInitialText: an initial value survives conversion to text, alone and in a graph. Invalid texts are rejected.
func TestInitialText(t *testing.T) {
	for _, i := range []ir.Initial{{}, ir.InitialConstant(-0.1), ir.InitialUniform(-1, 2.5, 1<<62),
		ir.InitialNormal(0, 1e-30, 1<<64-1), ir.InitialWeight("blk.0 attn_q.weight"), ir.InitialConstant(math.Inf(1))} {
		back, err := ir.ParseInitial(i.String())
		if err != nil || back != i {
			t.Errorf("%q came back as %q: %v", i, back, err)
		}
	}
	if old, err := ir.ParseInitial("normal 0 1 -1"); err != nil || old != ir.InitialNormal(0, 1, 1<<64-1) {
		t.Errorf("a negative seed of an early version is read as %q: %v", old, err)
	}
	for text, want := range map[string]string{
		"zeros": "want constant, uniform, normal or weight", "constant": "want the form constant VALUE",
		"constant 1 2": "want the form constant VALUE", "constant x": `"x" is not a number`,
		"uniform 0 1":    "want the form uniform LOW HIGH SEED",
		"normal 0 NaN 1": "NaN is not finite", "normal 0 1 0.5": `the seed "0.5" is not a 64-bit integer`, "weight": "want the weight's name",
	} {
		if i, err := ir.ParseInitial(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v: want %q", text, i, err, want)
		}
	}
	for leaf, want := range map[string]string{
		`dtype=i32, shape=[2], init="normal 0 1 2"`:   `a state of i32 cannot begin as "normal 0 1 2"`,
		`dtype=q8_0, shape=[32], init="constant 1"`:   `a state of q8_0 cannot begin as "constant 1"`,
		`dtype=u8, shape=[2], init="constant -1"`:     "the dtype does not have the value",
		`dtype=f32, shape=[2], init="nothing at all"`: "want constant, uniform, normal or weight",
	} {
		g, err := ir.Parse("graph \"g\" {\n%s = state {name=\"s\", " + leaf + "}\noutput \"y\" %s\n}")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %v, %v: want %q", leaf, g, err, want)
		}
	}
}

// TestInitialRandom: random states equal the results of the ops with the same seed, across the boundaries of chunks and
// blocks.
func TestInitialRandom(t *testing.T) {
	const n = 3<<16 + 3
	g, err := ir.Parse(`graph "g" {
		%seed = const {data=i64[](-5)}
		%offset = const {data=i64[](0)}
		%u = random_uniform %seed, %offset {dtype=f32, shape=[196611]}
		%n = random_normal %seed, %offset {dtype=f32, shape=[196611]}
		output "uniform" %u
		output "normal" %n
	}`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := interp.New(g, interp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, i := range map[string]ir.Initial{
		"uniform": ir.InitialUniform(0, 1, 1<<64-5), "normal": ir.InitialNormal(0, 1, 1<<64-5),
	} {
		d, err := i.Value(ir.F32, []int{n}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(d.Bytes) != string(out[name].Bytes) {
			t.Errorf("%s differs from the op", name)
		}
	}
	low, err := ir.InitialUniform(-2, -1, 3).Value(ir.F64, []int{1000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := low.Floats()
	for _, x := range list {
		if !(x >= -2 && x < -1) {
			t.Fatalf("%v is not in [-2, -1)", x)
		}
	}
}
