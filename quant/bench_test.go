package quant

import (
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// benchElems is one megabyte of float32.
const benchElems = 1 << 18

// BenchmarkQuantize measures one core, in bytes of float32 input.
func BenchmarkQuantize(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float32, benchElems)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for _, t := range ir.DTypes() {
		if _, ok := Supported(t); !ok {
			continue
		}
		b.Run(t.String(), func(b *testing.B) {
			dst := make([]byte, benchElems/t.BlockElems()*t.BlockBytes())
			b.SetBytes(4 * benchElems)
			for b.Loop() {
				if err := Quantize(dst, t, x, &Options{Workers: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDequantize measures one core, in bytes of float32 output.
func BenchmarkDequantize(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, t := range ir.DTypes() {
		if ok, _ := Supported(t); !ok {
			continue
		}
		b.Run(t.String(), func(b *testing.B) {
			src := make([]byte, benchElems/t.BlockElems()*t.BlockBytes())
			for i := range src {
				src[i] = byte(rng.Uint32()) & 0x3b // avoid NaN exponents, whose speed may differ
			}
			dst := make([]float32, benchElems)
			b.SetBytes(4 * benchElems)
			for b.Loop() {
				if err := Dequantize(dst, t, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
