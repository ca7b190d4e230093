package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/ir"
)

// packedCase is a matmul of m rows by a weight, for a device.
type packedCase struct {
	weight    ir.DType
	m         int
	precision string
	profile   string
}

// packedCases returns matmuls with weights of every format, in every precision, for every device. Each device and each
// format has every precision of every number of rows, and each device has every format.
func packedCases() []packedCase {
	var all []packedCase
	for _, dt := range ir.DTypes() {
		if !dt.IsBlock() || dt == ir.Q8_1 {
			continue
		}
		for _, m := range []int{1, 8, 512} {
			for _, precision := range vkc.Precisions() {
				for _, profile := range device.Kinds() {
					all = append(all, packedCase{dt, m, precision, profile})
				}
			}
		}
	}
	return pairs.Cover(all, func(c packedCase) []string {
		return []string{fmt.Sprint(c.weight, c.profile), fmt.Sprint(c.weight, c.m, c.precision),
			fmt.Sprint(c.profile, c.m, c.precision)}
	})
}

// TestQuantizedWeightsStayPacked lowers matmuls with quantized weights for devices. No buffer except the weight's own
// may be as large as the weight, so there is no decoded copy. The exception are numbers of rows so large that decoding
// the weight first is faster: in every run, or once if the device has room for the copy.
func TestQuantizedWeightsStayPacked(t *testing.T) {
	const n, k = 4096, 14336
	for _, c := range packedCases() {
		g, err := frontend.Build("product", func(b *frontend.Builder) {
			b.Output("y", b.Input("x", ir.F32, c.m, k).MatMulT(b.Weight("w", c.weight, n, k)))
		})
		if err != nil {
			t.Fatal(err)
		}
		if g, err = vkc.WithPrecision(g, c.precision); err != nil {
			t.Fatal(err)
		}
		wantPacked(t, g, c.profile, c.weight, n*k, c.m > 256)
	}
}

// TestDecodedWeightsKept lowers a matmul of many rows for devices with more and less memory. A decoded copy of the
// weight is kept from the load if it fits into a quarter of the memory that the weight and a state leave. Otherwise
// each run decodes the weight.
func TestDecodedWeightsKept(t *testing.T) {
	const n, k = 4096, 14336
	const others = n*k/32*18 + 4*n // bytes of the weight and the state
	g, err := frontend.Build("product", func(b *frontend.Builder) {
		s := b.State("runs", ir.F32, n)
		b.Update(s, s.Neg())
		b.Output("y", b.Input("x", ir.F32, 512, k).MatMulT(b.Weight("w", ir.Q4_0, n, k)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = vkc.WithPrecision(g, ir.PrecisionHalf); err != nil {
		t.Fatal(err)
	}
	caps, err := device.Profile("nvidia-h100")
	if err != nil {
		t.Fatal(err)
	}
	for memory, want := range map[uint64]kernel.BufferKind{
		4*2*n*k + others:     kernel.BufPrepared,
		4*2*n*k + others - 1: kernel.BufTemp,
		caps.DeviceMemory:    kernel.BufPrepared,
	} {
		caps.DeviceMemory = memory
		low, err := compiler.Lower(context.Background(), g, caps, nil)
		if err != nil {
			t.Fatal(err)
		}
		var found []kernel.BufferKind
		for _, b := range low.Program.Buffers {
			if b.DType == ir.F16 && b.Shape.MaxElems() == n*k {
				found = append(found, b.Kind)
			}
		}
		if len(found) != 1 || found[0] != want {
			t.Errorf("%d bytes of memory: decoded copies of kinds %v, want one of kind %v", memory, found, want)
		}
	}
}

func wantPacked(t *testing.T, g *ir.Graph, profile string, dt ir.DType, elems int64, many bool) {
	t.Helper()
	caps, err := device.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	low, err := compiler.Lower(context.Background(), g, caps, nil)
	if without := (*vkc.UnsupportedError)(nil); errors.As(err, &without) {
		return // a device that has no elements of 8 bits
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", profile, err, g)
	}
	packed, err := dt.BytesFor(elems)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range low.Program.Buffers {
		switch {
		case b.Kind == kernel.BufWeight && b.Segments[0].Weight == "w":
			if b.DType != dt || b.Bytes > packed+packed/8 { // planes are padded to 16 bytes a row
				t.Errorf("%s: the weight, of %d bytes, is %s in %d", profile, packed, b.DType, b.Bytes)
			}
		case many && (b.Kind == kernel.BufTemp || b.Kind == kernel.BufPrepared):
		case b.Shape.MaxElems() >= elems || b.Kind == kernel.BufWeight && b.Bytes > packed/2:
			t.Errorf("%s: buffer %s holds %s%s beside a weight of %s", profile, b.Name, b.DType, b.Shape, dt)
		}
	}
}
