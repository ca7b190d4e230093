package e2e_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/spv"
	"github.com/vkc-go/vkc/ir"
)

// TestRowsBecomeTheSameBytes multiplies rows of all magnitudes by an identity matrix, which blocks represent exactly.
// So the result shows the rounded rows. The rounding must equal ir.ByteSteps on the processor and in all kernels of the
// device. No kernel may divide floats for it, because a device's quotient may be off by 2.5 units in the last place,
// and that decides ties.
func TestRowsBecomeTheSameBytes(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := context.Background()
	dev := devtest.OpenDevice(t)
	caps, _ := planedCaps(t, dev.Caps())
	if !caps.Features.IntegerDotProduct {
		t.Skip("the device multiplies no bytes")
	}
	host, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for _, c := range []struct {
		dtype       ir.DType
		rows, depth int
		by          string // text of the kernel that rounds
	}{
		{ir.Q4_0, 1, 512, "byte_steps("},
		{ir.Q4_0, 3, 512, "roundEven("},
		{ir.Q8_0, 8, 128, "roundEven("},
	} {
		t.Run(fmt.Sprintf("%d rows by %s", c.rows, c.dtype), func(t *testing.T) {
			weights := vkc.WeightMap{"w": identityBlocks(t, c.dtype, c.depth)}
			g, err := frontend.Build("rounded", func(b *frontend.Builder) {
				x, w := b.Input("x", ir.F32, c.rows, c.depth), b.Weight("w", c.dtype, c.depth, c.depth)
				b.Output("y", x.MatMulTIn(frontend.ByteRows, w))
			})
			if err != nil {
				t.Fatal(err)
			}
			p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(p.Contents.GLSL, ""); !strings.Contains(text, c.by) {
				if caps.SubgroupSize*4 < ir.ByteGroup {
					t.Skip("rows are not rounded where subgroups are so small")
				}
				t.Errorf("no kernel has %s:\n%s", c.by, text)
			}
			for i, module := range p.Contents.SPIRV {
				const fDiv = 136
				spv.Instructions(module, func(op uint32, _ []uint32) {
					if op == fDiv {
						t.Errorf("kernel %d divides floats:\n%s", i, p.Contents.GLSL[i])
					}
				})
			}
			onDevice, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: weights})
			if err != nil {
				t.Fatal(err)
			}
			defer onDevice.Close()
			onHost, err := host.LoadGraph(ctx, g, weights)
			if err != nil {
				t.Fatal(err)
			}
			defer onHost.Close()
			rng := rand.New(rand.NewPCG(18, 1))
			for _, top := range []float32{0, 0x1p-149, 0x1p-130, 0x1p-126, 0x1p-122, 0x1.fffffep-119, 0x1p-118,
				0x1.5p-118, 1e-30, 0.7, 1, 3, 127, 1e10, 0x1p125, 0x1p126, 0x1.000002p126, 1e38, 0x1p127,
				math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
				x := rowsUpTo(rng, top, c.rows*c.depth)
				in, err := vkc.Of(x, c.rows, c.depth)
				if err != nil {
					t.Fatal(err)
				}
				for name, exe := range map[string]*vkc.Executable{"device": onDevice, "processor": onHost} {
					res, err := exe.Run(ctx, map[string]*ir.Data{"x": in})
					if err != nil {
						t.Fatal(err)
					}
					have, err := vkc.Values[float32](res.Outputs["y"])
					if err != nil {
						t.Fatal(err)
					}
					for i, want := range asBytes(x) {
						if have[i] != want && !(have[i] != have[i] && want != want) {
							t.Errorf("%s, rows of up to %g: %g becomes %g, want %g", name, top, x[i], have[i], want)
							break
						}
					}
				}
			}
		})
	}
}

// rowsUpTo returns n floats in groups with top as the largest magnitude.
func rowsUpTo(rng *rand.Rand, top float32, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch at := i % ir.ByteGroup; {
		case at == 7:
			x[i] = top
		case at < 4:
			x[i] = float32(math.Ldexp(float64(top), -at))
		case at == 4 && float32(math.Abs(float64(top))) > 1:
			x[i] = 0x1p-130 // subnormal
		case top-top == 0:
			x[i] = top * float32(2*rng.Float64()-1)
		default:
			x[i] = float32(rng.NormFloat64())
		}
	}
	return x
}

// asBytes is x as the definition rounds it.
func asBytes(x []float32) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		var top float32
		for _, v := range x[i/ir.ByteGroup*ir.ByteGroup:][:ir.ByteGroup] {
			top = max(top, float32(math.Abs(float64(v))))
		}
		steps, scale := ir.ByteSteps(top)
		y[i] = scale
		if scale == scale {
			y[i] = float32(math.RoundToEven(float64(x[i]*steps))) * scale
		}
	}
	return y
}

// identityBlocks returns the n x n identity matrix in blocks with scale 1.
func identityBlocks(t *testing.T, d ir.DType, n int) *ir.Data {
	t.Helper()
	w, err := ir.NewData(d, n, n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n * n / ir.ByteGroup {
		block := w.Bytes[i*d.BlockBytes():][:d.BlockBytes()]
		binary.LittleEndian.PutUint16(block, 0x3c00)
		row, at := i*ir.ByteGroup/n, i*ir.ByteGroup%n
		for e := range ir.ByteGroup {
			one := at+e == row
			switch {
			case d == ir.Q8_0 && one:
				block[2+e] = 1
			case d == ir.Q4_0 && one:
				block[2+e%16] += 9 << (e / 16 * 4)
			case d == ir.Q4_0:
				block[2+e%16] += 8 << (e / 16 * 4)
			}
		}
	}
	return w
}
