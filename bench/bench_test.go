package bench_test

import (
	"math"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

func random(t *testing.T, name string, dtype ir.DType, fill bench.Fill, dims ...int) *ir.Data {
	t.Helper()
	d, err := bench.Random(name, dtype, fill, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRandom: values fill their range, differ by name, and do not depend on the
// number of cores.
func TestRandom(t *testing.T) {
	for _, tt := range []struct {
		dtype  ir.DType
		fill   bench.Fill
		lo, hi float64
	}{
		{ir.F32, bench.Fill{}, -1, 1}, {ir.F16, bench.Fill{}, -1, 1}, {ir.BF16, bench.Fill{Lo: 2, Hi: 3}, 2, 3},
		{ir.I32, bench.Fill{}, 0, 99}, {ir.I32, bench.Fill{Hi: 5}, 0, 4}, {ir.Bool, bench.Fill{}, 0, 1},
		{ir.Q4_0, bench.Fill{}, -1.2, 1.2}, {ir.Q6_K, bench.Fill{}, -1.2, 1.2}, {ir.IQ2_XXS, bench.Fill{}, -2, 2},
	} {
		d := random(t, "x", tt.dtype, tt.fill, 300, 512)
		other := random(t, "y", tt.dtype, tt.fill, 300, 512)
		before := goruntime.GOMAXPROCS(1)
		alone := random(t, "x", tt.dtype, tt.fill, 300, 512)
		goruntime.GOMAXPROCS(before)
		if slices.Equal(d.Bytes, other.Bytes) || !slices.Equal(d.Bytes, alone.Bytes) {
			t.Errorf("%s: equal for two names, or other on one core", tt.dtype)
		}
		values := floats(t, d)
		lo, hi := slices.Min(values), slices.Max(values)
		span := tt.hi - tt.lo
		if lo < tt.lo || hi > tt.hi || lo > tt.lo+0.3*span || hi < tt.hi-0.3*span {
			t.Errorf("%s: values from %v to %v; want about %v to %v", tt.dtype, lo, hi, tt.lo, tt.hi)
		}
	}
}

// floats decodes any tensor.
func floats(t *testing.T, d *ir.Data) []float64 {
	t.Helper()
	if d.DType.IsBlock() {
		g := ir.NewGraph("decode")
		w, err := g.Add(ir.OpWeight, nil,
			[]ir.Attr{{Name: "name", Value: "w"}, {Name: "dtype", Value: d.DType},
				{Name: "shape", Value: ir.ShapeOf(d.Dims...)}}, "")
		if err != nil {
			t.Fatal(err)
		}
		y, err := g.Add(ir.OpDequantize, []*ir.Node{w}, []ir.Attr{{Name: "dtype", Value: ir.F32}}, "")
		if err != nil {
			t.Fatal(err)
		}
		out, err := interp.Eval(t.Context(), g, []*ir.Node{y}, interp.Options{Weights: weights{"w": d}})
		if err != nil {
			t.Fatal(err)
		}
		d = out[0]
	}
	if d.DType.IsFloat() {
		values, err := d.Floats()
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	ints, err := d.Ints()
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float64, len(ints))
	for i, v := range ints {
		values[i] = float64(v)
	}
	return values
}

type weights map[string]*ir.Data

func (w weights) Weight(name string) (*ir.Data, error) { return w[name], nil }

func TestCases(t *testing.T) {
	for _, scale := range []bench.Scale{bench.Full, bench.Tiny} {
		seen := map[string]bool{}
		for _, c := range bench.Cases(scale) {
			if seen[c.Name] {
				t.Errorf("two cases are %s", c.Name)
			}
			seen[c.Name] = true
			if !slices.Contains(bench.Suites(), c.Suite) || c.Precision == "" {
				t.Errorf("case %s: suite %q, precision %q", c.Name, c.Suite, c.Precision)
			}
			if _, err := c.Graph(c.Sizes); err != nil {
				t.Errorf("case %s: %v", c.Name, err)
			}
		}
	}
	if got := len(bench.Cases(bench.Tiny, "memory", "ops")); got == 0 || got >= len(bench.Cases(bench.Tiny)) {
		t.Errorf("two suites have %d cases", got)
	}
}

// TestSamples computes every tiny case as a whole with the reference, which the
// samples must agree with, unless one of the sampled elements is changed.
func TestSamples(t *testing.T) {
	for _, c := range bench.Cases(bench.Tiny) {
		if c.Suite == "model" {
			continue // compared as a whole
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			g, err := c.Graph(c.Sizes)
			if err != nil {
				t.Fatal(err)
			}
			in, w := tensors(t, &c, g, ir.OpInput), tensors(t, &c, g, ir.OpWeight)
			p, err := interp.New(g, interp.Options{Weights: weights(w)})
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.Run(t.Context(), in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Check(t.Context(), in, w, out); err != nil {
				t.Errorf("the reference differs from itself: %v", err)
			}
			if c.MatMul {
				wrongTile(t, &c, in, w, out)
			}
			// The first element is in every sample.
			clear(out["y"].Bytes[:max(out["y"].DType.BlockBytes(), 1)])
			out["y"].Bytes[0], out["y"].Bytes[out["y"].DType.BlockBytes()-1] = 0x55, 0x55
			if err := c.Check(t.Context(), in, w, out); err == nil || !strings.Contains(err.Error(), `"y"`) {
				t.Errorf("a wrong first element: %v", err)
			}
		})
	}
}

// wrongTile changes a corner of the result for any samples, like a wrongly computed tile.
func wrongTile(t *testing.T, c *bench.Case, in, w, out map[string]*ir.Data) {
	t.Helper()
	c.Samples = []bench.Sample{{"m": bench.First(1), "n": bench.First(1)}}
	y := out["y"]
	right := slices.Clone(y.Bytes)
	size, width := y.DType.BlockBytes(), y.Dims[1]
	for row := y.Dims[0] - min(y.Dims[0], 16); row < y.Dims[0]; row++ {
		clear(y.Bytes[((row+1)*width-16)*size : (row+1)*width*size])
	}
	if err := c.Check(t.Context(), in, w, out); err == nil || !strings.Contains(err.Error(), "±") {
		t.Errorf("a wrong tile: %v", err)
	}
	copy(y.Bytes, right)
}

func tensors(t *testing.T, c *bench.Case, g *ir.Graph, op ir.Op) map[string]*ir.Data {
	t.Helper()
	all := map[string]*ir.Data{}
	for _, n := range g.Leaves(op) {
		dims, err := n.Shape().Eval(nil)
		if err != nil {
			t.Fatal(err)
		}
		all[n.Name()] = random(t, n.Name(), n.DType(), c.Fills[n.Name()], dims...)
	}
	return all
}

func TestShare(t *testing.T) {
	c := bench.Ceilings{Machine: device.Machine{CopyGBps: 1000, VectorF32: 10, MatrixF16: 100}}
	for _, tt := range []struct {
		p            bench.Precision
		gbps, tflops float64
		share        float64
		of           string
	}{
		{bench.NoFlops, 900, 50, 0.9, "memory"},
		{bench.MatrixF16, 100, 50, 0.5, "arithmetic"},
		{bench.SplitF32, 100, 25, 0.75, "arithmetic"},
		{bench.VectorF32, 600, 5, 0.6, "memory"},
		{bench.VectorF32, 400, 5, 0.5, "arithmetic"},
	} {
		if share, of := c.Share(tt.p, tt.gbps, tt.tflops); math.Abs(share-tt.share) > 1e-9 || of != tt.of {
			t.Errorf("%+v: %v of %s", tt, share, of)
		}
	}
	if share, _ := (bench.Ceilings{}).Share(bench.MatrixF16, 10, 10); share != 0 {
		t.Errorf("without ceilings: %v", share)
	}
}
