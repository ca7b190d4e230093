package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

func blockTypes() []ir.DType {
	return slices.DeleteFunc(slices.Clone(ir.DTypes()), func(t ir.DType) bool { return !t.IsBlock() })
}

// oneWeight is a weight source of one tensor.
type oneWeight struct{ d *ir.Data }

func (w oneWeight) Weight(string) (*ir.Data, error) { return w.d, nil }

// TestDequantizeBits decodes random blocks of every format on the device and compares the bits with the host. Devices
// may flush subnormals to 0, including results that could be a level times a subnormal scale. Non-finite values only
// need to be non-finite.
func TestDequantizeBits(t *testing.T) {
	dev := openDevice(t)
	var graphs []*ir.Graph
	for _, dtype := range blockTypes() {
		graphs = append(graphs, build(t, func(b *frontend.Builder) {
			b.Output("y", b.Weight("w", dtype, 50, 6*dtype.BlockElems()).Dequantize(ir.F32))
		}))
	}
	devtest.CompileShaders(t, dev.Caps(), graphs...)
	for i, dtype := range blockTypes() {
		t.Run(dtype.String(), func(t *testing.T) {
			n, g := 6*dtype.BlockElems(), graphs[i]
			w := randomBlocks(t, dtype, 50, n)
			want := make([]float32, 50*n)
			if err := quant.Dequantize(want, dtype, w.Bytes); err != nil {
				t.Fatal(err)
			}
			exe := load(t, dev, g, oneWeight{w})
			r, err := exe.Run(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := sameBits(r.Outputs["y"], want); err != nil {
				t.Error(err)
			}
		})
	}
}

// randomBlocks makes blocks of any bytes: scales may be anything too.
func randomBlocks(t *testing.T, dtype ir.DType, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(dtype), 1))
	for i := range d.Bytes {
		d.Bytes[i] = byte(rng.Uint32())
	}
	return d
}

func sameBits(have *ir.Data, want []float32) error {
	values, err := have.Floats()
	if err != nil {
		return err
	}
	compared := 0
	for i, w := range want {
		h, finite := float32(values[i]), !math.IsNaN(float64(w)) && !math.IsInf(float64(w), 0)
		switch a := math.Abs(float64(w)); {
		case !finite:
			if !math.IsNaN(float64(h)) && !math.IsInf(float64(h), 0) {
				return fmt.Errorf("element %d is %v, want %v", i, h, w)
			}
		case a < 0x1p-118:
			if math.Abs(float64(h)) > a {
				return fmt.Errorf("element %d is %v, want %v or 0", i, h, w)
			}
		case math.Float32bits(h) != math.Float32bits(w):
			return fmt.Errorf("element %d is %v (%#x), want %v (%#x)", i, h, math.Float32bits(h), w,
				math.Float32bits(w))
		default:
			compared++
		}
	}
	if compared < len(want)/2 {
		return fmt.Errorf("only %d of %d elements compared", compared, len(want))
	}
	return nil
}
