package e2e

import (
	"context"
	"math"
	"testing"

	"github.com/x448/float16"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// TestRoundsToHalfInside casts to f16 and back within one kernel: every f16, the
// numbers halfway to the next, and those a little to both sides of these.
// Compilers of drivers take such casts for nothing if they are left to see them.
func TestRoundsToHalfInside(t *testing.T) {
	dev := openDevice(t)
	var xs []float32
	for h := range 1 << 16 {
		x := float16.Frombits(uint16(h)).Float32()
		next := float16.Frombits(uint16(h + 1)).Float32()
		middle := float32((float64(x) + float64(next)) / 2)
		if math.Abs(float64(x)) == 65504 {
			middle = float32(math.Copysign(65520, float64(x)))
		}
		xs = append(xs, x, middle, math.Nextafter32(middle, 0), math.Nextafter32(middle, float32(math.Inf(1))))
	}
	g := build(t, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, len(xs)).Cast(ir.F16).Cast(ir.F32))
	})
	in, err := ir.NewData(ir.F32, len(xs))
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, len(xs))
	for i, x := range xs {
		bits := math.Float32bits(x)
		in.Bytes[4*i], in.Bytes[4*i+1], in.Bytes[4*i+2], in.Bytes[4*i+3] = byte(bits), byte(bits>>8),
			byte(bits>>16), byte(bits>>24)
		want[i] = float16.Fromfloat32(x).Float32()
	}
	exe := load(t, dev, g, nil)
	r, err := exe.Run(context.Background(), map[string]*ir.Data{"x": in}, runtime.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	have, err := r.Outputs["y"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for i, w := range want {
		h := float32(have[i])
		flushed := h == 0 && math.Abs(float64(xs[i])) < 0x1p-126 // a subnormal f32, which devices may take for 0
		if h != w && !(h != h && w != w) && !flushed {
			if wrong++; wrong < 10 {
				t.Errorf("%v (%#x) became %v, want %v", xs[i], math.Float32bits(xs[i]), h, w)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d are wrong", wrong, len(xs))
	}
}
