package quant

import (
	"cmp"
	"runtime"
	"sync"

	"github.com/vkc-go/vkc/internal/mmap"
)

// minChunk is the minimum number of elements worth a goroutine: around 10 µs of the fastest decoder.
const minChunk = 16 << 10

// forChunks divides n blocks of elems elements among workers, and calls fn once for each worker, with the range of its
// blocks, lo to hi-1. It returns the error of the first range that failed, in block order. A range also fails if fn
// reads a mapped file that has been truncated. workers at or below zero means one per core.
func forChunks(n, elems, workers int, fn func(lo, hi int) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, n/(minChunk/elems))
	if workers <= 1 {
		return mmap.Guard(func() error { return fn(0, n) })
	}
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { errs[i] = mmap.Guard(func() error { return fn(n*i/workers, n*(i+1)/workers) }) })
	}
	wg.Wait()
	return cmp.Or(errs...) // the first one
}
