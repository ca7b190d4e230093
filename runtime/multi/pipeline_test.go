package multi_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// TestTogether runs a graph on one Vulkan device opened four times, waited for, overlapped, on states of its own,
// and with outputs that go elsewhere: each result has the bits of one device.
func TestTogether(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	devices, err := vkc.OpenDevices("vulkan,vulkan,vulkan,vulkan")
	vktest.Need(t, err)
	g, weights := devtest.Layers(t, 4)
	together, err := devices.Together()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := together.LoadGraph(t.Context(), g, weights)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(exe.Why(), "of weights and states"); n != 4 {
		t.Errorf("%d parts: %s", n, exe.Why())
	}
	one, err := devices[0].LoadGraph(t.Context(), g, weights)
	if err != nil {
		t.Fatal(err)
	}
	compare := func(i int, have, want vkc.Tensors) {
		t.Helper()
		if len(have) != len(want) {
			t.Errorf("run %d: %d outputs, want %d", i, len(have), len(want))
		}
		for name := range want {
			if string(have[name].Bytes) != string(want[name].Bytes) {
				t.Errorf("run %d: %s differs from that of one device", i, name)
			}
		}
	}
	var in []vkc.Tensors
	for i := range 12 {
		in = append(in, vkc.Tensors{"x": devtest.Noise(t, 1+i%5, 24)})
	}
	var want []*vkc.Result
	for _, x := range in {
		r, err := one.Run(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r)
	}
	have, err := exe.RunBatch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		compare(i, have[i].Outputs, want[i].Outputs)
	}
	values, made, free := pipeline(exe).Buffers()
	if most := values * exe.Stages(); made < values || made > most || free != values {
		t.Errorf("after %d runs memory was made %d times for %d values, of which %d have some that is free: want %d "+
			"times at most, and all", len(in), made, values, free, most)
	}
	for _, s := range exe.States() {
		a, err := exe.ReadState(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := one.ReadState(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if string(a.Bytes) != string(b.Bytes) {
			t.Errorf("state %s differs from that of one device", s.Name)
		}
	}
	own, err := exe.NewStates()
	if err != nil {
		t.Fatal(err)
	}
	r, err := exe.Run(t.Context(), in[0], vkc.RunOptions{States: own, Keep: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Outputs["y"], err = r.Kept["y"].Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	compare(0, r.Outputs, want[0].Outputs)
	up, err := exe.Upload(t.Context(), in[1]["x"])
	if err != nil {
		t.Fatal(err)
	}
	into := &ir.Data{DType: ir.F32, Dims: []int{2, 24}, Bytes: make([]byte, 4*48)}
	r2, err := exe.Run(t.Context(), nil, vkc.RunOptions{States: own, Inputs: map[string]*vkc.DeviceTensor{"x": up},
		Into: vkc.Tensors{"y": into}})
	if err != nil {
		t.Fatal(err)
	}
	compare(1, r2.Outputs, want[1].Outputs)
	if string(into.Bytes) != string(want[1].Outputs["y"].Bytes) {
		t.Error("the memory given for y does not hold it")
	}
	for _, c := range []interface{ Close() error }{r.Kept["y"], up, own, exe, one, devices} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, _, free := pipeline(exe).Buffers(); free != 0 {
		t.Errorf("a closed program has memory for %d values", free)
	}
}

// TestTogetherAhead: runs that keep all outputs return before they begin. Each uses results of the previous one. They
// execute in order with runs of other programs on the same states, and give the bits of one device.
func TestTogetherAhead(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	const runs = 8
	devices, err := vkc.OpenDevices("vulkan,vulkan")
	vktest.Need(t, err)
	steps := func(g *frontend.Builder, x frontend.Tensor) {
		for i := range 4 {
			x = x.MatMul(g.Weight(fmt.Sprint("w", i), ir.F32, 24, 24)).Softmax(-1)
			sum := g.State(fmt.Sprint("s", i), ir.F32, 24)
			next := sum.Add(x.Sum(0))
			g.Update(sum, next)
			x = x.Add(next)
		}
		g.Output("y", x)
	}
	g, err := frontend.Build("step", func(b *frontend.Builder) { steps(b, b.Input("x", ir.F32, 3, 24)) })
	if err != nil {
		t.Fatal(err)
	}
	after, err := frontend.Build("after", func(b *frontend.Builder) { // which has no part on the first device
		b.Output("z", b.Input("y", ir.F32, 3, 24).MulScalar(3).Sum(-1))
	})
	if err != nil {
		t.Fatal(err)
	}
	weights := vkc.WeightMap{}
	for i := range 4 {
		weights[fmt.Sprint("w", i)] = devtest.Noise(t, 24, 24)
	}
	together, err := devices.Together()
	if err != nil {
		t.Fatal(err)
	}
	first := devtest.Noise(t, 3, 24)
	answers := func(d *vkc.Device, held bool) (list []string) {
		var exes []*vkc.Executable
		for i, graph := range []*ir.Graph{g, g, after} {
			var opt vkc.LoadOptions
			if i == 1 {
				opt.Share = exes[0] // its states
			}
			exe, err := d.LoadGraph(t.Context(), graph, weights, opt)
			if err != nil {
				t.Fatal(err)
			}
			exes = append(exes, exe)
		}
		if held && (exes[0].Stages() != 2 || exes[2].Stages() != 1 ||
			!exes[0].Asynchronous() || !exes[2].Asynchronous()) {
			t.Errorf("%d and %d stages, ahead %v, %v", exes[0].Stages(), exes[2].Stages(), exes[0].Asynchronous(),
				exes[2].Asynchronous())
		}
		let := func() {}
		if held {
			let = pipeline(exes[0]).Lock()
		}
		var kept []*vkc.DeviceTensor
		x := &ir.Data{DType: ir.F32, Dims: []int{3, 24}, Bytes: slices.Clone(first.Bytes)}
		in, there := vkc.Tensors{"x": x}, map[string]*vkc.DeviceTensor(nil)
		for i := range runs {
			r, err := exes[i%2].Run(t.Context(), in, vkc.RunOptions{Keep: []string{"y"}, Inputs: there})
			if err != nil {
				t.Fatal(err)
			}
			clear(x.Bytes) // which the run has taken
			z, err := exes[2].Run(t.Context(), nil, vkc.RunOptions{Keep: []string{"z"},
				Inputs: map[string]*vkc.DeviceTensor{"y": r.Kept["y"]}})
			if err != nil {
				t.Fatal(err)
			}
			in, there = nil, map[string]*vkc.DeviceTensor{"x": r.Kept["y"]}
			kept = append(kept, r.Kept["y"], z.Kept["z"])
		}
		if held {
			under := func(i int) int { return pipeline(exes[i]).InFlight() }
			a, b, c := under(0), under(1), under(2)
			if a+b != runs || c != runs {
				t.Errorf("%d and %d of %d runs are under way, and %d of what follows each", a, b, runs, c)
			}
		}
		kept[0].Close() // the second run reads it
		let()
		for _, tensor := range kept[1:] {
			d, err := tensor.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(d.Bytes))
			if err := tensor.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, s := range exes[0].States() {
			d, err := exes[0].ReadState(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(d.Bytes))
		}
		for _, exe := range exes {
			if err := exe.Close(); err != nil {
				t.Error(err)
			}
		}
		return list
	}
	if have, want := answers(together, true), answers(devices[0], false); !slices.Equal(have, want) {
		t.Error("results differ from those of one device")
	}
	if err := together.Close(); err != nil {
		t.Error(err)
	}
}

// openTogether opens two devices of software as one.
func openTogether(t *testing.T) *vkc.Device {
	t.Helper()
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	devices, err := vkc.OpenDevices("vulkan,vulkan")
	vktest.Need(t, err)
	t.Cleanup(func() { devices.Close() })
	together, err := devices.Together()
	if err != nil {
		t.Fatal(err)
	}
	return together
}

// TestTogetherAheadFails: if nothing waits for a run, its error is returned to the reader of its outputs, or else by
// the next run.
func TestTogetherAheadFails(t *testing.T) {
	together := openTogether(t)
	g, weights := devtest.Layers(t, 2)
	exe, err := together.LoadGraph(t.Context(), g, weights)
	if err != nil {
		t.Fatal(err)
	}
	if err := closePart(exe); err != nil {
		t.Fatal(err)
	}
	opt := vkc.RunOptions{Keep: []string{"early", "y"}}
	in := vkc.Tensors{"x": devtest.Noise(t, 3, 24)}
	r, err := exe.Run(t.Context(), in, opt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Kept["y"].Read(t.Context()); !errors.Is(err, vkc.ErrClosed) {
		t.Errorf("reading of a run that has failed: %v", err)
	} else {
		devtest.WantError(t, err, "part 2 of 2")
	}
	opt.Inputs = map[string]*vkc.DeviceTensor{"x": r.Kept["y"]}
	follows, err := exe.Run(t.Context(), nil, opt)
	if err != nil {
		t.Fatal(err) // somebody was told
	}
	_, err = follows.Kept["early"].Read(t.Context())
	devtest.WantError(t, err, `input "x"`)
	opt.Inputs = nil
	for err == nil || !strings.Contains(err.Error(), "was not waited for") {
		if r, err = exe.Run(t.Context(), in, opt); err == nil {
			for _, kept := range r.Kept {
				kept.Close()
			}
		}
	}
	if err := exe.Close(); err != nil {
		devtest.WantError(t, err, "was not waited for")
	}
	_, err = exe.Run(t.Context(), in, opt)
	devtest.WantError(t, err, "already closed")
}

// TestTogetherAheadFailsShared: a run that is waited for fails where one before it has that was not, also one of
// another program with the same states; the next one does not.
func TestTogetherAheadFailsShared(t *testing.T) {
	together := openTogether(t)
	g, weights := devtest.Layers(t, 2)
	exe, err := together.LoadGraph(t.Context(), g, weights)
	if err != nil {
		t.Fatal(err)
	}
	shares, err := together.LoadGraph(t.Context(), g, weights, vkc.LoadOptions{Share: exe})
	if err != nil {
		t.Fatal(err)
	}
	defer shares.Close()
	if err := closePart(exe); err != nil {
		t.Fatal(err)
	}
	let := pipeline(exe).Lock()
	in := vkc.Tensors{"x": devtest.Noise(t, 3, 24)}
	r, err := exe.Run(t.Context(), in, vkc.RunOptions{Keep: []string{"early", "y"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range r.Kept {
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := shares.Run(t.Context(), in)
		done <- err
	}()
	let()
	devtest.WantError(t, <-done, "was not waited for")
	if _, err := shares.Run(t.Context(), in); err != nil {
		t.Errorf("after somebody was told: %v", err)
	}
	if err := exe.Close(); err != nil {
		t.Error(err)
	}
}

// TestTogetherStress runs, starts, cancels and reads from several goroutines, and closes the program at the same time.
// Each result must be right or an error, and no run may be lost or counted twice.
func TestTogetherStress(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	devices, err := vkc.OpenDevices("vulkan,vulkan")
	vktest.Need(t, err)
	together, err := devices.Together()
	if err != nil {
		t.Fatal(err)
	}
	g, err := frontend.Build("counted", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1, 4)
		for i := range 2 {
			runs := b.State(fmt.Sprint("runs", i), ir.F32, 1)
			b.Update(runs, runs.AddScalar(1))
			x = x.MatMul(b.Weight(fmt.Sprint("w", i), ir.F32, 4, 4))
		}
		b.Output("y", x)
	})
	if err != nil {
		t.Fatal(err)
	}
	twice := &ir.Data{DType: ir.F32, Dims: []int{4, 4}, Bytes: make([]byte, 64)}
	for i := range 4 {
		binary.NativeEndian.PutUint32(twice.Bytes[20*i:], math.Float32bits(2))
	}
	exe, err := together.LoadGraph(t.Context(), g, vkc.WeightMap{"w0": twice, "w1": twice})
	if err != nil {
		t.Fatal(err)
	}
	if exe.Stages() != 2 {
		t.Fatalf("%d stages: %s", exe.Stages(), exe.Why())
	}
	var done, ended atomic.Int64
	var all sync.WaitGroup
	work := func(seed uint64, times int, mayClose bool) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for range times {
			value := float32(rng.IntN(1000))
			x, err := vkc.Of([]float32{value, value, value, value}, 1, 4)
			if err != nil {
				t.Error(err)
				return
			}
			in, ctx := vkc.Tensors{"x": x}, t.Context()
			var y *ir.Data
			how := rng.IntN(4)
			switch how {
			case 0, 1:
				var r *vkc.Result
				if r, err = exe.Run(ctx, in, vkc.RunOptions{Keep: []string{"y"}}); err == nil {
					y, err = r.Kept["y"].Read(ctx)
					r.Kept["y"].Close()
				}
			case 2, 3:
				var stop context.CancelFunc
				ctx, stop = context.WithCancel(ctx)
				started := exe.Start(ctx, in)
				if how == 3 {
					stop()
				}
				var r *vkc.Result
				if r, err = started.Wait(); err == nil {
					y = r.Outputs["y"]
				}
				stop()
			}
			switch {
			case err == nil && y.String() != x.String(), err == nil && valueOf(t, y) != 4*value:
				t.Errorf("of %v: %v", value, y)
			case err == nil:
				done.Add(1)
			case how == 3 && errors.Is(err, context.Canceled), mayClose && errors.Is(err, vkc.ErrClosed):
				ended.Add(1)
			default:
				t.Error(err)
			}
		}
	}
	for i := range 8 {
		all.Go(func() { work(uint64(i), 50, false) })
	}
	all.Wait()
	for _, s := range exe.States() {
		d, err := exe.ReadState(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if n := int64(valueOf(t, d)); n < done.Load() || n > done.Load()+ended.Load() {
			t.Errorf("%s is %d after %d runs and %d that were cancelled", s.Name, n, done.Load(), ended.Load())
		}
	}
	for i := range 8 {
		all.Go(func() { work(uint64(100+i), 20, true) })
	}
	if err := exe.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	if err := together.Close(); err != nil {
		t.Error(err)
	}
}

func valueOf(t *testing.T, d *ir.Data) float32 {
	t.Helper()
	list, err := vkc.Values[float32](d)
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// TestTogetherTogether: runs of several goroutines have their own results.
func TestTogetherTogether(t *testing.T) {
	devices, err := vkc.OpenDevices("cpu,cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer devices.Close()
	g, err := frontend.Build("two", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 4)
		for i := range 4 {
			x = x.Add(b.Weight(fmt.Sprint("w", i), ir.F32, 4)).Softmax(0)
		}
		b.Output("y", x)
	})
	if err != nil {
		t.Fatal(err)
	}
	weights := vkc.WeightMap{}
	for i := range 4 {
		weights[fmt.Sprint("w", i)] = devtest.Noise(t, 4)
	}
	together, err := devices.Together()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := together.LoadGraph(t.Context(), g, weights)
	if err != nil {
		t.Fatal(err)
	}
	one, err := devices[0].LoadGraph(t.Context(), g, weights)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		x := vkc.Tensors{"x": devtest.Noise(t, 4)}
		wg.Go(func() {
			for range 20 {
				have, err := exe.Run(t.Context(), x)
				if err != nil {
					t.Error(err)
					return
				}
				want, err := one.Run(t.Context(), x)
				if err != nil {
					t.Error(err)
					return
				}
				if string(have.Outputs["y"].Bytes) != string(want.Outputs["y"].Bytes) {
					t.Error("a result differs from that of one device")
				}
			}
		})
	}
	wg.Wait()
	if err := exe.Close(); err != nil {
		t.Error(err)
	}
	many, err := slices.Repeat(devices, 5).Together()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := many.LoadGraph(t.Context(), g, weights); err == nil {
		t.Error("eight ops are on ten devices")
	} else {
		devtest.WantError(t, err, "use fewer devices")
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
}

// TestTogetherModel runs a language model's steps on two devices. The logits must have the bits of one device, because
// no kernel is divided.
func TestTogetherModel(t *testing.T) {
	devices, err := vkc.OpenDevices("cpu,cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer devices.Close()
	f, err := gguf.Open("../../examples/gollama/gollama-q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := llm.Step(cfg, 16)
	if err != nil {
		t.Fatal(err)
	}
	together, err := devices.Together()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := together.LoadGraph(t.Context(), g, f)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	one, err := devices[0].LoadGraph(t.Context(), g, f)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	for i := range 4 {
		in := vkc.Tensors{}
		for _, p := range exe.Inputs() {
			d, err := vkc.Of([]int32{int32(7*i + 3)}, 1)
			if p.Name != "tokens" && p.Name != "token" {
				d, err = vkc.Of([]int32{int32(i)}, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Type.Shape) == 0 {
				d.Dims = nil
			}
			in[p.Name] = d
		}
		opt := vkc.RunOptions{Symbols: map[string]int64{"S": int64(i + 1)}}
		compareDevices(t, exe, one, in, opt, 0)
	}
	t.Log(exe.Why())
}
