package bench

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// Fill says which random values a tensor has. The zero value is the default:
// floats uniform in [-1, 1), integers in [0, 100).
type Fill struct{ Lo, Hi float64 }

// anyByte is every value of i8.
var anyByte = Fill{-128, 128}

// fillChunk is how many elements share a random generator, so that values do
// not depend on the number of cores.
const fillChunk = 1 << 16

// Random returns a tensor of random values that depend on its name, dtype and
// shape alone. Matrix units and memory use less power on zeros and on repeated
// values, and then run at clocks that no real data would see.
func Random(name string, t ir.DType, fill Fill, dims ...int) (*ir.Data, error) {
	d, err := ir.NewData(t, dims...)
	if err != nil {
		return nil, fmt.Errorf("random tensor %q: %w", name, err)
	}
	if fill == (Fill{}) {
		fill = Fill{-1, 1}
		if t.IsInteger() || t == ir.Bool {
			fill = Fill{0, 100}
		}
	}
	hash := fnv.New64a()
	hash.Write([]byte(name))
	seed := hash.Sum64()
	if t.IsBlock() {
		return d, fillBlocks(d, seed, fill)
	}
	size := d.DType.BlockBytes()
	chunks(d.Elems(), fillChunk, func(chunk, from, to int) {
		rng := rand.New(rand.NewPCG(seed, uint64(chunk)))
		dst := d.Bytes[from*size : to*size]
		if t.IsFloat() {
			fillFloats(rng, dst, t, to-from, fill)
		} else {
			fillInts(rng, dst, t, to-from, fill)
		}
	})
	return d, nil
}

// chunks calls f for pieces of n elements, on all cores.
func chunks(n, size int, f func(chunk, from, to int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				f(i, i*size, min((i+1)*size, n))
			}
		})
	}
	for i := 0; i*size < n; i++ {
		next <- i
	}
	close(next)
	wg.Wait()
}

func fillFloats(rng *rand.Rand, dst []byte, t ir.DType, n int, fill Fill) {
	values := make([]float64, n)
	for i := range values {
		values[i] = fill.Lo + (fill.Hi-fill.Lo)*rng.Float64()
	}
	ir.EncodeFloats(dst, t, values)
}

func fillInts(rng *rand.Rand, dst []byte, t ir.DType, n int, fill Fill) {
	values := make([]int64, n)
	span := max(int64(fill.Hi-fill.Lo), 1)
	if t == ir.Bool {
		span = 2
	}
	for i := range values {
		values[i] = int64(fill.Lo) + rng.Int64N(span)
	}
	ir.EncodeInts(dst, t, values)
}

// blockPool is how many different blocks a quantized tensor is drawn from:
// quantizing every block of a large matrix would take minutes in some formats.
const blockPool = 256

var pools sync.Map // poolKey to the bytes of its pool

type poolKey struct {
	ir.DType
	Fill
}

// fillBlocks draws quantized blocks at random from a pool of them.
func fillBlocks(d *ir.Data, seed uint64, fill Fill) error {
	pool, err := poolOf(poolKey{d.DType, fill})
	if err != nil {
		return err
	}
	size := d.DType.BlockBytes()
	chunks(len(d.Bytes)/size, fillChunk, func(chunk, from, to int) {
		rng := rand.New(rand.NewPCG(seed, uint64(chunk)))
		for i := from; i < to; i++ {
			j := rng.IntN(blockPool)
			copy(d.Bytes[i*size:(i+1)*size], pool[j*size:])
		}
	})
	return nil
}

func poolOf(key poolKey) ([]byte, error) {
	if p, ok := pools.Load(key); ok {
		return p.([]byte), nil
	}
	t := key.DType
	rng := rand.New(rand.NewPCG(1, uint64(t)))
	values := make([]float32, blockPool*t.BlockElems())
	for i := range values {
		values[i] = float32(key.Lo + (key.Hi-key.Lo)*rng.Float64())
	}
	pool := make([]byte, blockPool*t.BlockBytes())
	if err := quant.Quantize(pool, t, values, nil); err != nil {
		return nil, err
	}
	pools.Store(key, pool)
	return pool, nil
}
