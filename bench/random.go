package bench

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/vkc-go/vkc/internal/randblocks"
	"github.com/vkc-go/vkc/ir"
)

// Fill is the distribution of a tensor's random values. The zero value is the default: floats uniform in [-1, 1),
// integers in [0, 100).
type Fill struct{ Lo, Hi float64 }

// anyByte is the distribution of all values of i8.
var anyByte = Fill{-128, 128}

// fillChunk is the number of elements per random generator, so that values do not depend on the number of cores.
const fillChunk = 1 << 16

// Random returns a tensor of random values, which depend only on the arguments. Zeros and repeated values would be
// misleading: tensor cores and memory use less power for them, and run at higher clocks than with real data.
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
	size := t.BlockBytes()
	n := len(d.Bytes) / size // elements, or blocks of a block format
	if t.IsPacked() {
		n = d.Elems() // several elements share a byte
	}
	chunks(n, fillChunk, func(chunk, from, to int) {
		rng := rand.New(rand.NewPCG(seed, uint64(chunk)))
		switch {
		case t.IsPacked():
			fillInts(rng, d.Bytes[from/t.BlockElems():], t, to-from, fill)
		case t.IsBlock():
			randblocks.Fill(d.Bytes[from*size:to*size], t, fill.Lo, fill.Hi, rng)
		case t.IsFloat():
			fillFloats(rng, d.Bytes[from*size:to*size], t, to-from, fill)
		default:
			fillInts(rng, d.Bytes[from*size:to*size], t, to-from, fill)
		}
	})
	return d, nil
}

// chunks calls f on all cores for consecutive ranges from..to of n elements, each of the given size except the last.
// chunk is the index of the range. It returns when all calls have.
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

// fillFloats writes n uniform random floats of dtype t into dst.
func fillFloats(rng *rand.Rand, dst []byte, t ir.DType, n int, fill Fill) {
	values := make([]float64, n)
	for i := range values {
		values[i] = fill.Lo + (fill.Hi-fill.Lo)*rng.Float64()
	}
	ir.EncodeFloats(dst, t, values)
}

// fillInts writes n uniform random integers or bools of dtype t into dst.
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
