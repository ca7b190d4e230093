package vkc_test

import (
	"errors"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

var replicasFlag = flag.String("replicas", "vulkan", "the devices that benchmarks of several run on, such as 0,1")

// BenchmarkReplicas runs a batch of 64 inputs on the devices of -replicas: `go test . -bench Replicas -args -replicas
// 0,1`. Each run takes milliseconds of f32 matmuls and copies little. It logs the run times by the devices' clocks
// along with the batch times by the wall clock.
func BenchmarkReplicas(b *testing.B) {
	const size, depth, batch = 2048, 8, 64
	devices, err := vkc.OpenDevices(*replicasFlag)
	vktest.Need(b, err)
	defer devices.Close()
	g, err := frontend.Build("products", func(b *frontend.Builder) {
		seed := b.Scalar(ir.U32, 7)
		w := b.RandomUniform(seed, seed, ir.F32, ir.D(size), ir.D(size)).Sub(b.Scalar(ir.F32, 0.5))
		x := b.Input("x", ir.F32, size, 1).Mul(w)
		for range depth {
			x = x.MatMul(w)
		}
		b.Output("y", x.Mean(-1))
	})
	if err != nil {
		b.Fatal(err)
	}
	r, err := devices.LoadGraph(b.Context(), g, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	one, err := ir.NewData(ir.F32, size, 1)
	if err != nil {
		b.Fatal(err)
	}
	in := make([]vkc.Tensors, batch)
	for i := range in {
		in[i] = vkc.Tensors{"x": one}
	}
	var batches []time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := r.RunBatch(b.Context(), in); err != nil {
			b.Fatal(err)
		}
		batches = append(batches, time.Since(begin))
	}
	b.ReportMetric(batch*float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	slices.Sort(batches)
	took := runsOfAll(b, r, in[0])
	share := batch / float64(len(took))
	for i, one := range took {
		alone := time.Duration(share * float64(one))
		b.Logf("replica %d: a run takes the device %v while all have some, so %.4g runs %v; batches took %v, %v at "+
			"the median and %v at most", i, one, share, alone.Round(time.Microsecond), batches[0],
			batches[len(batches)/2], batches[len(batches)-1])
	}
}

// runsOfAll returns the median run time of each device by its own clock, while all devices are busy.
func runsOfAll(b *testing.B, r *vkc.Replicas, in vkc.Tensors) []time.Duration {
	const runs = 15
	took, errs := make([]time.Duration, len(r.Executables())), make([]error, len(r.Executables()))
	var all sync.WaitGroup
	for i, e := range r.Executables() {
		all.Go(func() {
			var list []time.Duration
			for range runs {
				result, err := e.Run(b.Context(), in, vkc.RunOptions{Profile: true})
				if err != nil {
					errs[i] = err
					return
				}
				list = append(list, result.Profile.GPU)
			}
			slices.Sort(list)
			took[i] = list[runs/2]
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	return took
}
