package onnx_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// pooling is a pool over one axis, as the specification's text has it and not as any code of vkc.
type pooling struct {
	n, kernel, stride, dilation, low, high int
	ceil                                   bool
	auto                                   string
}

// windows lists the tensor positions in the window of each position of the result, including those in padding (below 0,
// or n and more), and those beyond the padding that ceil_mode adds, which do not count for the mean.
func (p pooling) windows() (all [][]int) {
	reach := (p.kernel-1)*p.dilation + 1
	low, high, count := p.low, p.high, 0
	switch p.auto {
	case "VALID":
		low, high = 0, 0
	case "SAME_UPPER", "SAME_LOWER":
		count = (p.n + p.stride - 1) / p.stride
		total := max(0, (count-1)*p.stride+reach-p.n)
		low, high = total/2, total-total/2
		if p.auto == "SAME_LOWER" {
			low, high = high, low
		}
	}
	for start := -low; ; start += p.stride {
		fits := start+reach <= p.n+high
		hangs := p.ceil && start < p.n && start-p.stride+reach < p.n+high
		if !fits && !hangs {
			break
		}
		var places []int
		for k := range p.kernel {
			if at := start + k*p.dilation; at < p.n+high {
				places = append(places, at)
			}
		}
		all = append(all, places)
	}
	return all
}

// TestPools compares pools with their definition over lengths, kernels, strides, dilations and paddings that differ at
// both ends, with and without ceil_mode and auto_pad: their shapes and their elements.
func TestPools(t *testing.T) {
	var all []pooling
	for _, n := range []int{5, 6, 7, 8} {
		for _, kernel := range []int{1, 2, 3} {
			for _, stride := range []int{1, 2, 3} {
				for _, pads := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 2}, {2, 1}} {
					for _, dilation := range []int{1, 2} {
						if max(pads[0], pads[1]) >= (kernel-1)*dilation+1 {
							continue
						}
						for _, ceil := range []bool{false, true} {
							all = append(all, pooling{n, kernel, stride, dilation, pads[0], pads[1], ceil, "NOTSET"})
						}
					}
				}
				for _, auto := range []string{"VALID", "SAME_UPPER", "SAME_LOWER"} {
					all = append(all, pooling{n, kernel, stride, 1, 1, 0, false, auto})
				}
			}
		}
	}
	for i, p := range all {
		ceil := int64(0)
		if p.ceil {
			ceil = 1
		}
		common := []msg{intsAttr("kernel_shape", int64(p.kernel)), intsAttr("strides", int64(p.stride)),
			intsAttr("dilations", int64(p.dilation)), intsAttr("pads", int64(p.low), int64(p.high)),
			intAttr("ceil_mode", ceil), textAttr("auto_pad", p.auto)}
		of := func(op, y string, more ...msg) msg {
			return node(op, names("x"), names(y), slices.Concat(common, more)...)
		}
		values := make([]float64, p.n)
		for k := range values {
			values[k] = float64((k*7+i)%11) - 5.5
		}
		want := map[string][]float64{}
		for _, window := range p.windows() {
			largest, sum, power, cube, inside := math.Inf(-1), 0.0, 0.0, 0.0, 0
			for _, at := range window {
				if at < 0 || at >= p.n {
					continue
				}
				v := values[at]
				largest, sum, inside = max(largest, v), sum+v, inside+1
				power, cube = power+v*v, cube+math.Pow(math.Abs(v), 3)
			}
			want["max"] = append(want["max"], largest)
			want["mean"] = append(want["mean"], sum/float64(inside))
			want["padded"] = append(want["padded"], sum/float64(len(window)))
			want["l2"] = append(want["l2"], math.Sqrt(power))
			want["l3"] = append(want["l3"], math.Cbrt(cube))
		}
		extent := any(p.n)
		if i%2 == 1 && strings.HasPrefix(p.auto, "SAME") { // padding that a run computes
			extent = "N"
		}
		m := model(19, graph(inputs(port("x", float, 1, 1, extent)), nodes(of("MaxPool", "max"),
			of("AveragePool", "mean"), of("AveragePool", "padded", intAttr("count_include_pad", 1)), of("LpPool", "l2"),
			of("LpPool", "l3", intAttr("p", 3))), outputs("max", "mean", "padded", "l2", "l3")))
		out := run(t, built(t, m, onnx.Options{}), map[string]*ir.Data{"x": f32(t, values, 1, 1, p.n)})
		for name, list := range want {
			if slices.ContainsFunc(list, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
				continue // a window with only padding; ONNX does not define its result
			}
			if err := onnx.Compare(out[name], f32(t, list, 1, 1, len(list)), 1e-5, 1e-5); err != nil {
				t.Errorf("%s of %s: %v", name, fmt.Sprintf("%+v", p), err)
			}
		}
	}
	t.Logf("%d pools", len(all))
}

// TestConvOfAnySize convolves pictures of symbolic extents with padding that depends on them, as fixed ones.
func TestConvOfAnySize(t *testing.T) {
	for _, auto := range []string{"SAME_UPPER", "SAME_LOWER"} {
		for _, size := range [][2]int{{5, 8}, {4, 1}} {
			content := func(h, w any) []byte {
				return model(19, graph(inputs(port("x", float, 1, 2, h, w)),
					weights(floats("w", countedUp(24), 2, 2, 2, 3), floats("b", []float32{1, 2}, 2)),
					nodes(node("Conv", names("x", "w", "b"), names("y"),
						intsAttr("strides", 2, 3), textAttr("auto_pad", auto))), outputs("y")))
			}
			in := map[string]*ir.Data{"x": f32(t, countUp(2*size[0]*size[1]), 1, 2, size[0], size[1])}
			want := run(t, built(t, content(size[0], size[1]), onnx.Options{}), in)["y"]
			is(t, run(t, built(t, content("H", "W"), onnx.Options{}), in)["y"], want)
		}
	}
}

// TestStrideOfZero expects an error for strides and dilations that are not positive, in all ways of padding.
func TestStrideOfZero(t *testing.T) {
	for _, auto := range []string{"NOTSET", "SAME_UPPER"} {
		for _, name := range []string{"strides", "dilations"} {
			m := model(19, graph(inputs(port("x", float, 1, 1, 8)), weights(floats("w", countedUp(3), 1, 1, 3)),
				nodes(node("Conv", names("x", "w"), names("y"), intsAttr(name, 0), textAttr("auto_pad", auto))),
				outputs("y")))
			want := "attribute " + name + " is [0]"
			if _, err := onnx.NewReader(m, onnx.Options{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of 0 with %s: error %v", name, auto, err)
			}
		}
	}
}
