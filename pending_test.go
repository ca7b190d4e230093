package vkc_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// summing is a program that gives x+1 and the sum of all x that it was ever given.
func summing(t testing.TB, dev *vkc.Device, n int) *vkc.Executable {
	t.Helper()
	g, err := frontend.Build("summing", func(b *frontend.Builder) {
		x, s := b.Input("x", ir.F32, n), b.State("s", ir.F32, n)
		b.Update(s, s.Add(x))
		b.Output("next", x.AddScalar(1))
		b.Output("sum", s.Add(x))
	})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := dev.LoadGraph(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	})
	return exe
}

// openNamed opens the reference or the Vulkan device.
func openNamed(t testing.TB, name string) *vkc.Device {
	t.Helper()
	if name != "cpu" {
		return openDevice(t)
	}
	dev, err := vkc.OpenDevice(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// full is a tensor of n equal numbers.
func full(t testing.TB, v float32, n int) *ir.Data {
	t.Helper()
	x := make([]float32, n)
	for i := range x {
		x[i] = v
	}
	d, err := vkc.Of(x, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// lastOf returns the last number of an output.
func lastOf(t testing.TB, r *vkc.Result, name string) float32 {
	t.Helper()
	x, err := vkc.Values[float32](r.Outputs[name])
	if err != nil {
		t.Fatal(err)
	}
	return x[len(x)-1]
}

// TestStart: runs have inputs and outputs of their own, small and large, and states pass through them in order.
func TestStart(t *testing.T) {
	needTools(t)
	ownCache(t)
	for _, name := range []string{"cpu", "vulkan"} {
		dev := openNamed(t, name)
		for _, n := range []int{8, 5000, 20000} { // the last does not overlap, as it has inputs of more than 64 KiB
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				exe := summing(t, dev, n)
				var all []*vkc.Pending
				for i := range 40 {
					opt := vkc.RunOptions{}
					switch i % 10 {
					case 3:
						opt.Into = vkc.Tensors{"sum": full(t, -1, n)}
					case 7:
						opt.Keep = []string{"next"}
					}
					all = append(all, exe.Start(t.Context(), vkc.Tensors{"x": full(t, float32(i), n)}, opt))
				}
				sum := float32(0)
				for i, p := range all {
					r, err := p.Wait()
					if err != nil {
						t.Fatal(err)
					}
					sum += float32(i)
					if have := lastOf(t, r, "sum"); have != sum {
						t.Errorf("run %d: the sum is %v, want %v", i, have, sum)
					}
					if kept := r.Kept["next"]; i%10 == 7 {
						if r.Outputs["next"], err = kept.Read(t.Context()); err != nil {
							t.Fatal(err)
						}
						if err := kept.Close(); err != nil {
							t.Fatal(err)
						}
					} else if r.Kept != nil {
						t.Errorf("run %d keeps %v", i, r.Kept)
					}
					if have := lastOf(t, r, "next"); have != float32(i+1) {
						t.Errorf("run %d: %v, want %d", i, have, i+1)
					}
				}
			})
		}
	}
}

// TestStartMany starts runs from many goroutines, of which some are cancelled and some do not fit. The others have
// their own results, and nothing stays on the device.
func TestStartMany(t *testing.T) {
	needTools(t)
	ownCache(t)
	dev := openDevice(t)
	exe := summing(t, dev, 8)
	if _, err := exe.Run(t.Context(), vkc.Tensors{"x": full(t, 0, 8)}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 40 {
				ctx, cancel := context.WithCancel(t.Context())
				v, n := float32(g*1000+i), 8
				bad := random.IntN(8) == 0
				if bad {
					n = 7
				}
				p := exe.Start(ctx, vkc.Tensors{"x": full(t, v, n)})
				if random.IntN(4) == 0 {
					cancel()
				}
				<-p.Done()
				r, err := p.Wait()
				cancelled := ctx.Err() != nil
				cancel()
				switch {
				case err == nil && bad:
					t.Error("a run of an input that does not fit succeeds")
				case err == nil:
					if have := lastOf(t, r, "next"); have != v+1 {
						t.Errorf("%v, want %v", have, v+1)
					}
				case !bad && !(cancelled && errors.Is(err, context.Canceled)):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := dev.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held := dev.Memory()[runtime.OwnTensors]; held != 0 {
		t.Errorf("%d bytes of tensors are left", held)
	}
}

// TestRunBatch: results come in the order of inputs, and an error says of which.
func TestRunBatch(t *testing.T) {
	exe := summing(t, openNamed(t, "cpu"), 2)
	var in []vkc.Tensors
	for i := range 30 {
		in = append(in, vkc.Tensors{"x": full(t, float32(i), 2)})
	}
	results, err := exe.RunBatch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if have := lastOf(t, r, "next"); have != float32(i+1) {
			t.Errorf("run %d: %v", i, have)
		}
	}
	in[17] = vkc.Tensors{"x": full(t, 0, 3)}
	_, err = exe.RunBatch(t.Context(), in)
	wantError(t, err, "run 17 of 30")
}

// BenchmarkStart is a run of a small program with others on their way, BenchmarkRun one that is waited for.
func BenchmarkStart(b *testing.B) {
	exe := summing(b, openDevice(b), 8)
	in := vkc.Tensors{"x": full(b, 1, 8)}
	var last *vkc.Pending
	for b.Loop() {
		last = exe.Start(b.Context(), in)
	}
	if _, err := last.Wait(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkRun(b *testing.B) {
	exe := summing(b, openDevice(b), 8)
	in := vkc.Tensors{"x": full(b, 1, 8)}
	for b.Loop() {
		if _, err := exe.Run(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
