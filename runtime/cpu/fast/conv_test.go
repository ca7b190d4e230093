package fast_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime/cpu/fast"
)

// TestConvLeavesPaddingOut: weights that are not finite count where they meet elements, not where they meet padding.
func TestConvLeavesPaddingOut(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
  %x = input {name="x", dtype=f32, shape=[1,4,5,6]}
  %w = input {name="w", dtype=f32, shape=[6,2,3,3]}
  %y = conv %x, %w {groups=2, padding_low=[1,1], padding_high=[1,2], stride=[1,2]}
  output "y" %y
}
`)
	if err != nil {
		t.Fatal(err)
	}
	x, w := make([]float64, 4*5*6), make([]float64, 6*2*3*3)
	for i := range x {
		x[i] = float64(i%7 + 1)
	}
	for i := range w {
		w[i] = float64(i%5) - 2
	}
	w[0], w[9+8], w[18+4], w[36+2], w[54+6] = math.Inf(1), math.Inf(-1), math.NaN(), math.NaN(), math.Inf(1)
	in := map[string]*ir.Data{}
	for _, name := range []string{"x", "w"} {
		values, dims := x, []int{1, 4, 5, 6}
		if name == "w" {
			values, dims = w, []int{6, 2, 3, 3}
		}
		if in[name], err = ir.FromFloats(ir.F32, values, dims...); err != nil {
			t.Fatal(err)
		}
	}
	results := map[string][]float64{}
	for name, replace := range map[string]func(*ir.Graph) []*interp.Kernel{"reference": nil, "fast": fast.Kernels} {
		p, err := interp.New(g, interp.Options{Replace: replace, Poison: true})
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Run(context.Background(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if results[name], err = out["y"].Floats(); err != nil {
			t.Fatal(err)
		}
	}
	numbers := 0
	for i, want := range results["reference"] {
		have := results["fast"][i]
		if have != want && !(have != have && want != want) {
			t.Errorf("element %d is %g, want %g", i, have, want)
		}
		if want-want == 0 {
			numbers++
		}
	}
	if n := len(results["reference"]); numbers == 0 || numbers == n {
		t.Errorf("%d of %d elements are finite: want some, and not all", numbers, n)
	}
}

// convCase is a convolution in a graph, and whether its weights are constant.
type convCase struct {
	op       ir.Op
	x, w     []int
	channels int // of the result
	dtype    ir.DType
	attrs    string
	constant bool
	after    string // further nodes, which compute %out from %y, a residual %r and a bias %b
}

// randomConv returns a convolution of one to three axes.
func randomConv(rng *rand.Rand) convCase {
	c := convCase{op: ir.OpConv, dtype: ir.F32, constant: rng.IntN(3) > 0}
	if rng.IntN(4) == 0 {
		c.op = ir.OpConvTranspose
	}
	axes, groups := 1+rng.IntN(3), []int{1, 1, 2, 3}[rng.IntN(4)]
	in, out := rng.IntN(7), 1+rng.IntN(10)
	switch rng.IntN(8) {
	case 0, 1:
		groups, in, out = 1+rng.IntN(5), 1, 1 // depthwise
	case 2:
		in, out = 6+rng.IntN(9), 17+rng.IntN(24) // enough work for several tasks
	}
	c.x, c.w, c.channels = []int{1 + rng.IntN(2), in * groups}, []int{out * groups, in}, out*groups
	if c.op == ir.OpConvTranspose {
		c.w = []int{in * groups, out}
	}
	var strides, dilations, low, high []string
	for axis := range axes {
		kernel, stride, dilation := 1+rng.IntN(4), 1+rng.IntN(3), 1+rng.IntN(2)
		if rng.IntN(3) == 0 {
			kernel, stride = 1, 1
		}
		most := 24
		switch {
		case axis < axes-1:
			most = 9
		case axes == 1:
			most = 200
		}
		if c.op == ir.OpConvTranspose {
			most = 1 + most/4
		}
		pads := [2]int{rng.IntN(3), rng.IntN(3)}
		if kernel == 1 {
			pads = [2]int{}
		}
		least := dilation*(kernel-1) + 1 - pads[0] - pads[1]
		if c.op == ir.OpConvTranspose {
			least = (pads[0]+pads[1]-dilation*(kernel-1)+stride-1)/stride + 1
		}
		c.x, c.w = append(c.x, max(1, least)+rng.IntN(most)), append(c.w, kernel)
		strides, dilations = append(strides, fmt.Sprint(stride)), append(dilations, fmt.Sprint(dilation))
		low, high = append(low, fmt.Sprint(pads[0])), append(high, fmt.Sprint(pads[1]))
	}
	list := func(values []string) string { return "[" + strings.Join(values, ",") + "]" }
	c.attrs = fmt.Sprintf("{groups=%d, stride=%s, dilation=%s, padding_low=%s, padding_high=%s}", groups, list(strides),
		list(dilations), list(low), list(high))
	c.after = []string{"%out = neg %y", "%s = add %y, %b\n%out = relu %s",
		"%s = add %r, %y\n%u = add %s, %b\n%out = silu %u", "%s = mul %y, %y\n%out = add %s, %b"}[rng.IntN(4)]
	if rng.IntN(4) == 0 {
		c.dtype = ir.F16
	}
	return c
}

// run computes the convolution alone and with the nodes after it.
func (c convCase) run(t *testing.T, replace func(*ir.Graph) []*interp.Kernel, workers int,
	values map[string]*ir.Data) map[string]*ir.Data {
	t.Helper()
	kind := "input"
	if c.constant {
		kind = "weight"
	}
	shape := func(dims []int) string { return strings.ReplaceAll(fmt.Sprint(dims), " ", ",") }
	bias := append([]int{c.channels}, slices.Repeat([]int{1}, len(c.w)-2)...)
	text := fmt.Sprintf(`graph "g" {
		%%x = input {name="x", dtype=%[1]s, shape=%[2]s}
		%%w = %[3]s {name="w", dtype=%[1]s, shape=%[4]s}
		%%b = weight {name="b", dtype=%[1]s, shape=%[5]s}
		%%alone = %[8]s %%x, %%w %[6]s
		%%r = sqr %%alone
		%%y = %[8]s %%x, %%w %[6]s
		%[7]s
		output "alone" %%alone
		output "out" %%out
	}`, c.dtype, shape(c.x), kind, shape(c.w), shape(bias), c.attrs, c.after, c.op)
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	p, err := interp.New(g, interp.Options{Weights: weightsOf(values), Replace: replace, Poison: true,
		Workers: workers})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	in := map[string]*ir.Data{"x": values["x"]}
	if !c.constant {
		in["w"] = values["w"]
	}
	var out map[string]*ir.Data
	for range 2 { // the second in memory that the first has used
		if out, err = p.Run(t.Context(), in, nil); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	return out
}

type weightsOf map[string]*ir.Data

func (w weightsOf) Weight(name string) (*ir.Data, error) { return w[name], nil }

// TestConvs compares convolutions of all kinds with the interpreter: alone, and with elementwise ops after them.
func TestConvs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	for i := range 400 {
		if i == 200 {
			defer fast.SetConvRoom(1 << 10)() // parts of few rows and columns
		}
		c := randomConv(rng)
		if underRace && i%8 != 0 {
			continue
		}
		if i == 0 { // planes that compete for the same part of the cache
			c = convCase{op: ir.OpConv, x: []int{2, 20, 8, 32}, w: []int{5, 20, 1, 1}, channels: 5, dtype: ir.F32,
				attrs: "{}", constant: true, after: "%out = neg %y"}
		}
		values := map[string]*ir.Data{}
		for name, dims := range map[string][]int{"x": c.x, "w": c.w,
			"b": append([]int{c.channels}, slices.Repeat([]int{1}, len(c.w)-2)...)} {
			list := make([]float64, volume(dims))
			for k := range list {
				list[k] = float64(rng.IntN(9)-4) / 4 // sums are exact in any order
			}
			d, err := ir.FromFloats(c.dtype, list, dims...)
			if err != nil {
				t.Fatal(err)
			}
			values[name] = d
		}
		want := c.run(t, nil, 1, values)
		for _, workers := range []int{1, 3} {
			have := c.run(t, fast.Kernels, workers, values)
			for name := range want {
				if err := interp.Compare(have[name], want[name], ir.Tolerance{Eps: 8}).Err(); err != nil {
					t.Errorf("case %d, %d workers, %s of %+v: %v", i, workers, name, c, err)
				}
			}
		}
		if t.Failed() {
			break
		}
	}
}

func volume(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// TestWinograd compares 3x3 convolutions of many channels with the interpreter's: of exact sums, and of elements that
// are not finite or almost too large.
func TestWinograd(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	for i, c := range []convCase{
		{x: []int{1, 16, 14, 13}, w: []int{18, 16, 3, 3}, attrs: "{padding_low=[1,1], padding_high=[1,1]}"},
		{x: []int{2, 17, 31, 40}, w: []int{16, 17, 3, 3}, attrs: "{padding_low=[0,2], padding_high=[2,0]}"},
		{x: []int{1, 64, 7, 7}, w: []int{30, 64, 3, 3}, attrs: "{padding_low=[2,2], padding_high=[0,0]}"},
		{x: []int{1, 33, 3, 300}, w: []int{33, 33, 3, 3}, attrs: "{}"},
		{x: []int{3, 20, 16, 16}, w: []int{20, 20, 3, 3}, attrs: "{}", dtype: ir.F16},
	} {
		c.op, c.channels, c.constant, c.after = ir.OpConv, c.w[0], true, "%s = add %y, %b\n%out = relu %s"
		if c.dtype == 0 {
			c.dtype = ir.F32
		}
		for _, bad := range []float64{0, 3e38, math.Inf(1), math.NaN()} {
			values := map[string]*ir.Data{}
			for name, dims := range map[string][]int{"x": c.x, "w": c.w, "b": {c.channels, 1, 1}} {
				list := make([]float64, volume(dims))
				for k := range list {
					list[k] = float64(rng.IntN(9)-4) / 4
				}
				if name == "x" && bad != 0 || name == "w" && math.IsInf(bad, 0) {
					list[len(list)/2] = bad
				}
				d, err := ir.FromFloats(c.dtype, list, dims...)
				if err != nil {
					t.Fatal(err)
				}
				values[name] = d
			}
			want := c.run(t, nil, 1, values)
			for _, workers := range []int{1, 3} {
				have := c.run(t, fast.Kernels, workers, values)
				for name := range want {
					if err := interp.Compare(have[name], want[name], ir.Tolerance{Eps: 8}).Err(); err != nil {
						t.Errorf("case %d with %g, %d workers, %s: %v", i, bad, workers, name, err)
					}
				}
			}
		}
	}
}
