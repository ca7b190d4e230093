package vkc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// summing is a program that gives x+1 and the sum of all x that it was ever given.
func summing(t testing.TB, dev *vkc.Device, n int) *vkc.Executable {
	t.Helper()
	return built(t, dev, "summing", func(b *frontend.Builder) {
		x, s := b.Input("x", ir.F32, n), b.State("s", ir.F32, n)
		b.Update(s, s.Add(x))
		b.Output("next", x.AddScalar(1))
		b.Output("sum", s.Add(x))
	})
}

// built builds a graph and loads it, until the test ends.
func built(t testing.TB, dev *vkc.Device, name string, build func(*frontend.Builder)) *vkc.Executable {
	t.Helper()
	g, err := frontend.Build(name, build)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := dev.LoadGraph(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, exe)
	return exe
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
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	for _, name := range []string{"cpu", "vulkan"} {
		dev := devtest.OpenNamed(t, name)
		for _, n := range []int{8, 5000, 20000} { // inputs of the last are large ones, of more than 64 KiB
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

// TestStartMany starts runs from many goroutines. Some are cancelled and some have bad inputs. The others get their own
// results, and nothing stays on the device.
func TestStartMany(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev := devtest.OpenDevice(t)
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
	if err := exe.Close(); err != nil {
		t.Fatal(err)
	}
	if err := dev.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held := dev.Memory()[runtime.OwnTensors]; held != 0 {
		t.Errorf("%d bytes of tensors are left", held)
	}
}

// TestStartCancelled: a run with a context that has already ended reports that, and not that other runs block it.
func TestStartCancelled(t *testing.T) {
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	exe := summing(t, dev, 8)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 16 { // each of these is equally likely to find room first
		_, err := exe.Start(ctx, vkc.Tensors{"x": full(t, 1, 8)}).Wait()
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "had not begun") {
			t.Fatalf("%v, want that a run that had not begun was cancelled", err)
		}
	}
}

// TestStartInto: a result tensor of the wrong shape is rejected before the run, so states do not change.
func TestStartInto(t *testing.T) {
	exe := summing(t, devtest.OpenNamed(t, "cpu"), 2)
	x := vkc.Tensors{"x": full(t, 1, 2)}
	_, err := exe.Start(t.Context(), x, vkc.RunOptions{Into: vkc.Tensors{"sum": full(t, 0, 3)}}).Wait()
	devtest.WantError(t, err, "the tensor given for it is f32[3], in this run it is f32[2]")
	r, err := exe.Start(t.Context(), x).Wait()
	if err != nil {
		t.Fatal(err)
	}
	if have := lastOf(t, r, "sum"); have != 1 {
		t.Errorf("the sum is %v after one run, want 1", have)
	}
}

// TestOwnStates runs a program on its own states and on two others, in turns, overlapped and waited for.
func TestOwnStates(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	for _, name := range []string{"cpu", "vulkan"} {
		t.Run(name, func(t *testing.T) {
			dev := devtest.OpenNamed(t, name)
			exe, other := summing(t, dev, 300), summing(t, dev, 300)
			all := []vkc.States{nil, nil, nil}
			for i := range all[1:] {
				s, err := exe.NewStates()
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
				all[i+1] = s
			}
			var sums [3]float32
			for i := range 30 {
				v := float32(i + 1)
				in, opt := vkc.Tensors{"x": full(t, v, 300)}, vkc.RunOptions{States: all[i%3]}
				var r *vkc.Result
				var err error
				if i%2 == 0 {
					r, err = exe.Run(t.Context(), in, opt)
				} else {
					r, err = exe.Start(t.Context(), in, opt).Wait()
				}
				if err != nil {
					t.Fatal(err)
				}
				sums[i%3] += v
				if have := lastOf(t, r, "sum"); have != sums[i%3] {
					t.Errorf("run %d: the sum is %v, want %v", i, have, sums[i%3])
				}
			}
			if err := all[1].Reset(); err != nil {
				t.Fatal(err)
			}
			if err := all[2].Write("s", full(t, 7, 300)); err != nil {
				t.Fatal(err)
			}
			for i, want := range []float32{sums[0], 0, 7} {
				d, err := exe.ReadState("s")
				if i > 0 {
					d, err = all[i].Read("s")
				}
				if err != nil {
					t.Fatal(err)
				}
				if have := lastOf(t, &vkc.Result{Outputs: vkc.Tensors{"s": d}}, "s"); have != want {
					t.Errorf("state %d is %v, want %v", i, have, want)
				}
			}
			in := vkc.Tensors{"x": full(t, 1, 300)}
			_, err := other.Run(t.Context(), in, vkc.RunOptions{States: all[1]})
			devtest.WantError(t, err, "of another executable")
			if err := all[1].Close(); err != nil {
				t.Fatal(err)
			}
			_, err = exe.Run(t.Context(), in, vkc.RunOptions{States: all[1]})
			devtest.WantError(t, err, "closed")
		})
	}
}

// TestStartPriority: among waiting runs, the one with the highest priority begins first.
func TestStartPriority(t *testing.T) {
	exe := summing(t, devtest.OpenNamed(t, "cpu"), 1)
	release, err := exe.HoldStarts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []*vkc.Pending
	for i, p := range []int{0, 0, 5, 1, 5} {
		all = append(all, exe.Start(t.Context(), vkc.Tensors{"x": full(t, float32(int(1)<<i), 1)},
			vkc.RunOptions{Priority: p}))
	}
	release()
	for i, want := range []float32{4 + 16 + 8 + 1, 4 + 16 + 8 + 1 + 2, 4, 4 + 16 + 8, 4 + 16} {
		r, err := all[i].Wait()
		if err != nil {
			t.Fatal(err)
		}
		if have := lastOf(t, r, "sum"); have != want {
			t.Errorf("run %d: the sum is %v, want %v", i, have, want)
		}
	}
}

// TestCloseUnderLoad closes executables, and then devices, while many goroutines start runs. Some runs are cancelled.
// Every successful run has the right result, every other one has an error with the reason, and nothing stays on the
// device. VKC_TEST_RUNS sets the total number of runs of the 64 goroutines.
func TestCloseUnderLoad(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	runs, devices := 2000, 4
	if s := os.Getenv("VKC_TEST_RUNS"); s != "" {
		if _, err := fmt.Sscan(s, &runs); err != nil {
			t.Fatal(err)
		}
		devices = max(runs/500, 1)
	}
	for i := range devices {
		closeUnderLoad(t, i%2 == 0, 64, runs/devices/64+1)
	}
}

// closeUnderLoad starts runs from several goroutines, and closes the program or its device when half of the runs are
// done. Each goroutine continues until a run reports that it is closed.
func closeUnderLoad(t *testing.T, device bool, goroutines, runs int) {
	dev, err := vkc.OpenDevice("vulkan")
	if err != nil {
		t.Fatal(err)
	}
	exe := summing(t, dev, 8)
	var over atomic.Int64
	half := make(chan struct{})
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 2))
			met := false
			for i := 0; i < runs || !met; i++ { // each continues until it has seen the closed program
				if over.Add(1) == int64(goroutines*runs/2) {
					close(half)
				}
				ctx, cancel := context.WithCancel(t.Context())
				v, opt := float32(g*1000+i), vkc.RunOptions{Priority: random.IntN(3)}
				if random.IntN(3) == 0 {
					opt.Into = vkc.Tensors{"next": full(t, 0, 8)}
				}
				p := exe.Start(ctx, vkc.Tensors{"x": full(t, v, 8)}, opt)
				if random.IntN(4) == 0 {
					cancel()
				}
				r, err := p.Wait()
				cancelled := ctx.Err() != nil
				cancel()
				switch {
				case err == nil:
					if have := lastOf(t, r, "next"); have != v+1 {
						t.Errorf("%v, want %v", have, v+1)
					}
				case errors.Is(err, vkc.ErrClosed):
					met = true
				case !(cancelled && errors.Is(err, context.Canceled)):
					t.Error(err)
					return
				}
			}
		})
	}
	<-half
	if !device {
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if held := dev.Memory()[runtime.OwnTensors]; held != 0 {
			t.Errorf("%d bytes of tensors are left", held)
		}
	}
	err = dev.Close()
	if device && err == nil {
		t.Error("a device is closed under a program, and Close does not say so")
	} else if !device && err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// TestRunBatch: results come in the order of inputs, and an error has the index of its input.
func TestRunBatch(t *testing.T) {
	exe := summing(t, devtest.OpenNamed(t, "cpu"), 2)
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
	devtest.WantError(t, err, "run 17 of 30")
}

// chain is a program of 100 kernels. Each sorts the result of the previous one, so that none are fused.
func chain(b *testing.B) (*vkc.Executable, vkc.Tensors) {
	exe := built(b, devtest.OpenDevice(b), "chain", func(g *frontend.Builder) {
		x := g.Input("x", ir.F32, 8)
		for range 100 {
			x = x.Sort(0).AddScalar(1)
		}
		g.Output("y", x)
	})
	if steps := exe.Vulkan().Stats().Steps; steps < 100 {
		b.Fatalf("%d kernels, want 100", steps)
	}
	return exe, vkc.Tensors{"x": full(b, 1, 8)}
}

// BenchmarkStart100 and BenchmarkRun100 are runs of 100 kernels, with others on their way and waited for. On a driver
// that runs nothing they are the host's time.
func BenchmarkStart100(b *testing.B) {
	exe, in := chain(b)
	var last *vkc.Pending
	for b.Loop() {
		last = exe.Start(b.Context(), in)
	}
	if _, err := last.Wait(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkRun100(b *testing.B) {
	exe, in := chain(b)
	for b.Loop() {
		if _, err := exe.Run(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart is a run of a small program with others on their way, BenchmarkRun one that is waited for.
func BenchmarkStart(b *testing.B) {
	exe := summing(b, devtest.OpenDevice(b), 8)
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
	exe := summing(b, devtest.OpenDevice(b), 8)
	in := vkc.Tensors{"x": full(b, 1, 8)}
	for b.Loop() {
		if _, err := exe.Run(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTransfers measures how well copies overlap with kernels. It starts a batch of runs; each copies 16 MiB to
// the device, computes for a millisecond or more, and reads 16 MiB back. With -short all sizes are small.
func BenchmarkTransfers(b *testing.B) {
	const depth, batch = 8, 32
	size := 2048
	if testing.Short() {
		size = 256
	}
	exe := built(b, devtest.OpenDevice(b), "products", func(g *frontend.Builder) {
		x := g.Input("x", ir.F32, size, size)
		y := x
		for range depth {
			y = y.MatMul(x)
		}
		g.Output("y", y)
	})
	newData := func() *ir.Data {
		d, err := ir.NewData(ir.F32, size, size)
		if err != nil {
			b.Fatal(err)
		}
		return d
	}
	in, out := make([]vkc.Tensors, batch), make([]vkc.RunOptions, batch)
	for i := range in {
		x, diagonal := newData(), make([]float64, size*size)
		for j := range size {
			diagonal[j*(size+1)] = 1 + float64(i)/64
		}
		ir.EncodeFloats(x.Bytes, ir.F32, diagonal)
		in[i], out[i] = vkc.Tensors{"x": x}, vkc.RunOptions{Into: vkc.Tensors{"y": newData()}}
	}
	runs := make([]*vkc.Pending, batch)
	for b.Loop() {
		for i := range runs {
			runs[i] = exe.Start(b.Context(), in[i], out[i])
		}
		for i, p := range runs {
			if _, err := p.Wait(); err != nil {
				b.Fatal(err)
			}
			bits := binary.NativeEndian.Uint32(out[i].Into["y"].Bytes[4*(size+1):])
			want := math.Pow(1+float64(i)/64, depth+1)
			if got := float64(math.Float32frombits(bits)); math.Abs(got-want) > 1e-5*want {
				b.Fatalf("run %d gives %v: want %v", i, got, want)
			}
		}
	}
	b.ReportMetric(batch*float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}
