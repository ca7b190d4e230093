package interp_test

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

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
