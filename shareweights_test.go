package vkc_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// weighing is a program that adds a weight of n numbers to its input, and reads the sum's last one.
func weighing(t *testing.T, weight string, n int) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("weighing", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 1).Add(b.Weight(weight, ir.F32, n)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestShareByContent: executables have equal weights once whatever they call them, each is closed by itself, and
// weights that differ in their last byte are two.
func TestShareByContent(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx, dev := t.Context(), devtest.OpenDevice(t)
	const n = 40 << 10 // more than is looked at before the comparison
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	load := func(name string, last float32) (*vkc.Executable, error) {
		mine := append([]float32(nil), values...)
		mine[n-1] = last
		d, err := vkc.Of(mine, n)
		if err != nil {
			return nil, err
		}
		return dev.LoadGraph(ctx, weighing(t, name, n), vkc.WeightMap{name: d})
	}
	mustLoad := func(name string, last float32) *vkc.Executable {
		t.Helper()
		exe, err := load(name, last)
		if err != nil {
			t.Fatal(err)
		}
		return exe
	}
	held := func() uint64 { return dev.Memory()[runtime.OwnWeights] }
	last := func(exe *vkc.Executable) float32 {
		t.Helper()
		res, err := exe.Run(ctx, vkc.Tensors{"x": devtest.TensorOf(t, []float32{1}, 1)})
		if err != nil {
			t.Fatal(err)
		}
		y, err := vkc.Values[float32](res.Outputs["y"])
		if err != nil {
			t.Fatal(err)
		}
		return y[n-1]
	}
	first := mustLoad("a", 7)
	once := held()
	if once < 4*n {
		t.Fatalf("weights of %d bytes take %d", 4*n, once)
	}
	second, other := mustLoad("b", 7), mustLoad("a", float32(math.Nextafter32(7, 8)))
	if have := held(); have != 2*once {
		t.Errorf("two contents take %d bytes, want %d", have, 2*once)
	}
	closeAll := func(list ...*vkc.Executable) {
		t.Helper()
		for _, exe := range list {
			if err := exe.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := dev.Synchronize(ctx); err != nil {
			t.Fatal(err)
		}
	}
	closeAll(first, other)
	if v := last(second); v != 8 {
		t.Errorf("when the one that uploaded the weights is closed: %v, want 8", v)
	}
	closeAll(second)

	// At the same time.
	var all [8]*vkc.Executable
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			exe, err := load(fmt.Sprint("w", i), float32(i%2))
			if err != nil {
				t.Error(err)
			}
			all[i] = exe
		})
	}
	wg.Wait()
	if have := held(); have != 2*once {
		t.Errorf("two contents, loaded at once by %d, take %d bytes, want %d", len(all), have, 2*once)
	}
	for i, exe := range all {
		if v := last(exe); v != 1+float32(i%2) {
			t.Errorf("executable %d: %v", i, v)
		}
		closeAll(exe)
	}
	res := mustLoad("c", 0) // frees the retired memory
	closeAll(res)
	if have := held(); have > once {
		t.Errorf("when all are closed weights take %d bytes", have)
	}
}
