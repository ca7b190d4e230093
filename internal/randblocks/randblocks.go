// Package randblocks makes random tensors of block dtypes, for tests and benchmarks.
package randblocks

import (
	"math/rand/v2"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// size is the number of different blocks in a tensor. Quantizing every block of a large tensor would take minutes in
// some formats.
const size = 256

var pools sync.Map // key to the bytes of its pool

type key struct {
	ir.DType
	lo, hi float64
}

// Fill fills dst with random blocks of t, quantized from elements between lo and hi. It panics if t is not a block
// dtype with a quantizer.
func Fill(dst []byte, t ir.DType, lo, hi float64, rng *rand.Rand) {
	pool := poolOf(key{t, lo, hi})
	for n := t.BlockBytes(); len(dst) > 0; dst = dst[n:] {
		copy(dst[:n], pool[rng.IntN(size)*n:])
	}
}

// poolOf returns `size` random blocks of a key, encoded. It makes them once per key and returns the same bytes
// afterwards.
func poolOf(k key) []byte {
	if p, ok := pools.Load(k); ok {
		return p.([]byte)
	}
	rng := rand.New(rand.NewPCG(1, uint64(k.DType)))
	values := make([]float32, size*k.BlockElems())
	for i := range values {
		values[i] = float32(k.lo + float64((k.hi-k.lo)*rng.Float64()))
	}
	pool := make([]byte, size*k.BlockBytes())
	if err := quant.Quantize(pool, k.DType, values, nil); err != nil {
		panic("randblocks: " + err.Error())
	}
	pools.Store(k, pool)
	return pool
}
