package onnx_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// random are numbers from -1 to 1.
func random(rng *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(float32(2*rng.Float64() - 1))
	}
	return out
}

func narrow(values []float64) []float32 {
	out := make([]float32, len(values))
	for i, v := range values {
		out[i] = float32(v)
	}
	return out
}

// corners are the elements around a point of a plane [h, w], times their shares; beyond its edges they are 0.
func corners(plane []float64, h, w int, y, x float64) (list [4]float64) {
	y0, x0 := math.Floor(y), math.Floor(x)
	for k := range list {
		at, to := y0+float64(k/2), x0+float64(k%2)
		if at >= 0 && at < float64(h) && to >= 0 && to < float64(w) {
			list[k] = plane[int(at)*w+int(to)] * (1 - math.Abs(y-at)) * (1 - math.Abs(x-to))
		}
	}
	return list
}

func sumOf(list [4]float64) float64 { return list[0] + list[1] + list[2] + list[3] }

// TestDeformConv compares with the definition, element by element: two groups, two groups of offsets, a stride, a
// dilation, padding, a bias and a mask.
func TestDeformConv(t *testing.T) {
	const n, channels, h, w, outs, kh, kw, groups, bends = 2, 4, 5, 6, 6, 2, 3, 2, 2
	const oh, ow, taps, strideY, strideX, dilation, top, left = 3, 6, kh * kw, 2, 1, 2, 1, 2
	rng := rand.New(rand.NewPCG(1, 2))
	x, weight := random(rng, n*channels*h*w), random(rng, outs*channels/groups*taps)
	offset, mask := random(rng, n*bends*taps*2*oh*ow), random(rng, n*bends*taps*oh*ow)
	for i := range offset {
		offset[i] *= 2
	}
	bias := random(rng, outs)
	var want []float64
	for b := range n {
		for o := range outs {
			for p := range oh * ow {
				sum := bias[o]
				for c := range channels / groups {
					from := o/(outs/groups)*(channels/groups) + c
					plane, bend := x[(b*channels+from)*h*w:][:h*w], b*bends+from/(channels/bends)
					for k := range taps {
						at := func(axis int) float64 { return offset[((bend*taps+k)*2+axis)*oh*ow+p] }
						y := float64(p/ow*strideY-top+k/kw*dilation) + at(0)
						z := float64(p%ow*strideX-left+k%kw*dilation) + at(1)
						sum += weight[(o*channels/groups+c)*taps+k] * mask[(bend*taps+k)*oh*ow+p] *
							sumOf(corners(plane, h, w, y, z))
					}
				}
				want = append(want, sum)
			}
		}
	}
	m := model(19, graph(
		inputs(port("x", float, "N", channels, h, w), port("offset", float, "N", bends*taps*2, oh, ow),
			port("mask", float, "N", bends*taps, oh, ow)),
		weights(floats("w", narrow(weight), outs, channels/groups, kh, kw), floats("b", narrow(bias), outs)),
		nodes(node("DeformConv", names("x", "w", "offset", "b", "mask"), names("y"), intAttr("group", groups),
			intAttr("offset_group", bends), intsAttr("strides", strideY, strideX),
			intsAttr("pads", top, left, top, left), intsAttr("dilations", dilation, dilation))),
		outputs("y")))
	out := run(t, built(t, m, onnx.Options{}), map[string]*ir.Data{"x": f32(t, x, n, channels, h, w),
		"offset": f32(t, offset, n, bends*taps*2, oh, ow), "mask": f32(t, mask, n, bends*taps, oh, ow)})
	if err := onnx.Compare(out["y"], f32(t, want, n, outs, oh, ow), 1e-5, 1e-5); err != nil {
		t.Error(err)
	}
}

// TestRoiAlignMax takes the largest of all elements around all samples of a cell, each times its share.
func TestRoiAlignMax(t *testing.T) {
	const h, w, ratio, cells = 6, 7, 2, 3
	rng := rand.New(rand.NewPCG(3, 4))
	x := random(rng, 2*h*w)
	rois := []float64{0.5, 1, 5.5, 4, 1, 0, 3, 5}
	var want []float64
	for r := range 2 {
		roi, plane := rois[4*r:][:4], x[(1-r)*h*w:][:h*w]
		for cell := range cells * cells {
			most := math.Inf(-1)
			for s := range ratio * ratio {
				place := func(low, high float64, cell, sample int) float64 {
					return low - 0.5 + (high-low)*(float64(cell*ratio+sample)+0.5)/(cells*ratio)
				}
				y := place(roi[1], roi[3], cell/cells, s/ratio)
				z := place(roi[0], roi[2], cell%cells, s%ratio)
				for _, v := range corners(plane, h, w, max(y, 0), max(z, 0)) {
					most = max(most, v)
				}
			}
			want = append(want, most)
		}
	}
	m := model(16, graph(inputs(port("x", float, 2, 1, h, w)),
		weights(floats("rois", narrow(rois), 2, 4), ints("batch", []int64{1, 0}, 2)),
		nodes(node("RoiAlign", names("x", "rois", "batch"), names("y"), textAttr("mode", "max"),
			intAttr("output_height", cells), intAttr("output_width", cells), intAttr("sampling_ratio", ratio))),
		outputs("y")))
	out := run(t, built(t, m, onnx.Options{}), map[string]*ir.Data{"x": f32(t, x, 2, 1, h, w)})
	if err := onnx.Compare(out["y"], f32(t, want, 2, 1, cells, cells), 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}

// TestDet compares with the sum over all permutations (Leibniz), also for matrices with zeros as first pivots and for
// singular ones.
func TestDet(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for n := 1; n <= 6; n++ {
		const matrices = 4
		x := random(rng, matrices*n*n)
		x[0] = 0 // so rows are exchanged
		for i := range n {
			x[3*n*n+i*n] = 0 // a column of zeros
		}
		var want []float64
		for m := range matrices {
			want = append(want, leibniz(x[m*n*n:][:n*n], n, 0, 0))
		}
		f := built(t, model(13, graph(inputs(port("x", float, 2, 2, n, n)),
			nodes(node("Det", names("x"), names("y"))), outputs("y"))), onnx.Options{})
		out := run(t, f, map[string]*ir.Data{"x": f32(t, x, 2, 2, n, n)})
		if err := onnx.Compare(out["y"], f32(t, want, 2, 2), 1e-5, 1e-5); err != nil {
			t.Errorf("%d rows: %v", n, err)
		}
	}
}

// leibniz sums the signed products of one element of each row, from the given row on, in columns that are not taken.
func leibniz(a []float64, n, row, taken int) float64 {
	if row == n {
		return 1
	}
	sum, sign := 0.0, 1.0
	for column := range n {
		if taken>>column&1 == 0 {
			sum += sign * a[row*n+column] * leibniz(a, n, row+1, taken|1<<column)
			sign = -sign
		}
	}
	return sum
}
