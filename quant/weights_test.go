package quant

import (
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestImportances: the weight of an element is its importance times sqrt(2*mean(x*x) + x*x), as in ggml.
func TestImportances(t *testing.T) {
	x, importance := []float32{3, -1, 0, 0.5, -2, 8}, []float32{1, 2, 3, 0, 0.25, 1}
	square := 0.0
	for _, v := range x {
		square += float64(v) * float64(v) / float64(len(x))
	}
	w := make([]float32, len(x))
	weighImportance(w, x, importance, meanSquare2(x))
	for i, v := range x {
		want := float64(importance[i]) * math.Sqrt(2*square+float64(v)*float64(v))
		if math.Abs(float64(w[i])-want) > 1e-6*want {
			t.Errorf("the weight of element %d is %g, want %g", i, w[i], want)
		}
	}
}

// weightedBits are the checksums of the blocks that TestWeightedBits quantizes.
var weightedBits = map[ir.DType]uint32{
	ir.Q4_0:    0xd85bce4d,
	ir.Q4_1:    0x7931d911,
	ir.Q5_0:    0xa78b63e7,
	ir.Q5_1:    0x079e38d6,
	ir.Q2_K:    0x5026a0e7,
	ir.Q3_K:    0x85d35f38,
	ir.Q4_K:    0x59591a3b,
	ir.Q5_K:    0xa7ad2714,
	ir.Q6_K:    0xd31f0bba,
	ir.IQ1_S:   0x67771ddc,
	ir.IQ1_M:   0x25a8cc09,
	ir.IQ2_XXS: 0x5c73e3a5,
	ir.IQ2_XS:  0x033bc57a,
	ir.IQ2_S:   0xd6d131cd,
	ir.IQ3_XXS: 0x13767c77,
	ir.IQ3_S:   0xf128c563,
	ir.IQ4_NL:  0x48e102ed,
	ir.IQ4_XS:  0xf50abc7b,
}

// TestWeightedBits: blocks quantized by importances have the bits that they had when the list was written. Bounds of
// the error cannot tell that a search weighs its elements slightly differently.
func TestWeightedBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	x, w := make([]float32, 1024), make([]float32, 1024)
	for i := range x {
		x[i], w[i] = float32((rng.Float64()-0.5)*rng.Float64()), float32(rng.Float64()*rng.Float64())
	}
	for _, dt := range ir.DTypes() {
		if !UsesWeights(dt) {
			continue
		}
		b := make([]byte, len(x)/dt.BlockElems()*dt.BlockBytes())
		mustQuantize(t, b, dt, x, &Options{Weights: w[:dt.BlockElems()]})
		if sum := crc32.ChecksumIEEE(b); sum != weightedBits[dt] {
			t.Errorf("%s: the checksum is %#08x, want %#08x", dt, sum, weightedBits[dt])
		}
	}
}
