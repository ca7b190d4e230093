package glsl_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestNearestQuotients: a quotient that a kernel rounds to an integer is the nearest float, also if the device's
// division is off by two units in the last place.
func TestNearestQuotients(t *testing.T) {
	t.Parallel()
	dev := vktest.Device(t, vk.DeviceOptions{})
	tools := toolchain(t)
	in, want := hardQuotients(t)
	g, err := ir.Parse(fmt.Sprintf(`graph "g" {
		%%x = input {name="x", dtype=f32, shape=[%d]}
		%%y = input {name="y", dtype=f32, shape=[%[1]d]}
		%%q = div %%x, %%y
		%%r = round %%q
		output "q" %%q
		output "r" %%r
	}`, len(want)))
	check(t, err)
	s, sources, err := build(g, func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
		caps := dev.Caps()
		caps.Type = device.DeviceDiscrete // no driver on a processor needs the correction
		sched, _, err := schedule.Select(k, caps)
		return sched, caps, err
	})
	check(t, err)
	const division = "float(x) / float(y)"
	if len(sources) != 1 || strings.Count(sources[0], division) != 1 {
		t.Fatalf("want one kernel with one %q:\n%s", division, strings.Join(sources, "\n"))
	}
	var wrong []string
	for off := -2; off <= 2; off++ {
		wrong = append(wrong, strings.Replace(sources[0], division,
			fmt.Sprintf("(%s + %d.0 * 1.1920929e-7)", division, off), 1))
	}
	modules, err := modulesOf(tools, shadersOf(wrong), spirv.Options{Optimize: true, CacheDir: moduleCache})
	check(t, err)
	for i, module := range modules {
		exe, err := dev.Load(context.Background(), s.Program, [][]byte{module}, nil, vk.LoadOptions{})
		check(t, err)
		have, err := exe.Run(context.Background(), in)
		exe.Close()
		check(t, err)
		quotients, err := have.Outputs["q"].Floats()
		check(t, err)
		rounded, err := have.Outputs["r"].Floats()
		check(t, err)
		for j, q := range quotients {
			w := float64(want[j])
			if q != w && (q == q || w == w) || rounded[j] != math.RoundToEven(w) && w == w {
				t.Fatalf("division off by %d units: quotient %d is %v, rounded %v, want %v", i-2, j, q, rounded[j], w)
			}
		}
	}
}

// hardQuotients returns operands and their quotients: every pair of some special values, operands with special and
// with random digits, and operands with quotients near integers and near the middle of two integers.
func hardQuotients(t *testing.T) (in map[string]*ir.Data, want []float32) {
	t.Helper()
	var xs, ys []float64
	add := func(x, y float32) {
		q := x / y
		if size := math.Abs(float64(q)); size > 0 && size < 0x1p-126 { // a device may flush it to zero
			return
		}
		xs, ys, want = append(xs, float64(x)), append(ys, float64(y)), append(want, q)
	}
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 3, 255, 0x1p-126, -0x1.fffffep-126,
		math.MaxFloat32, -0x1p127, 0x1.fffffcp126, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for _, x := range special {
		for _, y := range special {
			add(x, y)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	digits := []uint32{0, 1, 2, 0x3fffff, 0x400000, 0x400001, 0x7ffffd, 0x7ffffe, 0x7fffff}
	number := func() float32 {
		bits := rng.Uint32()&0x807fffff | (64+rng.Uint32N(128))<<23
		if rng.IntN(2) == 0 {
			bits = bits&0xff800000 | digits[rng.IntN(len(digits))]
		}
		return math.Float32frombits(bits)
	}
	for range 4000 {
		add(number(), number())
		y := number()
		x := y * (float32(rng.IntN(1024)) - 511.5 + float32(rng.IntN(2))/2)
		add(math.Float32frombits(math.Float32bits(x)+rng.Uint32N(3)-1), y)
	}
	in = map[string]*ir.Data{}
	for name, values := range map[string][]float64{"x": xs, "y": ys} {
		d, err := ir.FromFloats(ir.F32, values, len(values))
		check(t, err)
		in[name] = d
	}
	return in, want
}
