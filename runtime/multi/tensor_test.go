package multi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/collective"
)

// parallel opens several devices that share each op, and one of them by itself.
func parallel(t *testing.T, list string) (together, one *vkc.Device) {
	t.Helper()
	devices, err := vkc.OpenDevices(list)
	vktest.Need(t, err)
	vktest.CloseAfter(t, devices)
	if together, err = devices.TensorParallel(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { together.Close() })
	return together, devices[0]
}

// TestTensorParallelModel runs a language model with quantized weights by tensor parallelism, and compares the logits
// with those of one device. They may differ slightly, because divided sums are added in another order. Two devices get
// whole heads. Four do not, and exchange more.
func TestTensorParallelModel(t *testing.T) {
	for list, why := range map[string]string{
		"cpu,cpu":         "72 of 90 weights and states are cut, and the devices exchange values 16 times",
		"cpu,cpu,cpu,cpu": "56 of 90 weights and states are cut, and the devices exchange values 40 times",
	} {
		t.Run(list, func(t *testing.T) { testModel(t, list, why) })
	}
}

func testModel(t *testing.T, list, why string) {
	t.Helper()
	together, one := parallel(t, list)
	f, err := gguf.Open("../../examples/gollama/gollama-q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, cache := range []ir.DType{ir.F16, ir.Q8_0} {
		g, err := llm.Steps(cfg, 4, 16, llm.Cache(cache))
		if err != nil {
			t.Fatal(err)
		}
		exe, err := together.LoadGraph(t.Context(), g, f)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		if !strings.Contains(exe.Why(), why) {
			t.Errorf("%s, want %q", exe.Why(), why)
		}
		want, err := one.LoadGraph(t.Context(), g, f)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		for i := range 3 {
			tokens, err := vkc.Of([]int32{int32(7*i + 3), 5}[:1+i%2], 1+i%2)
			if err != nil {
				t.Fatal(err)
			}
			opt := vkc.RunOptions{Symbols: map[string]int64{"S": int64(2*i + 1 + i%2)}}
			compareDevices(t, exe, want, vkc.Tensors{"tokens": tokens}, opt, 1e-3)
		}
	}
}

// compareDevices runs a program on several devices and on one. A tolerance of 0 wants the same bits of any dtype.
func compareDevices(t *testing.T, several, one *vkc.Executable, in vkc.Tensors, opt vkc.RunOptions,
	tolerance float64) {
	t.Helper()
	have, err := several.Run(t.Context(), in, opt)
	if err != nil {
		t.Fatal(err)
	}
	want, err := one.Run(t.Context(), in, opt)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range want.Outputs {
		if tolerance == 0 {
			if string(have.Outputs[name].Bytes) != string(d.Bytes) {
				t.Errorf("with %v, %s differs from that of one device", opt.Symbols, name)
			}
			continue
		}
		a, b := shardFloats(t, have.Outputs[name]), shardFloats(t, d)
		if len(a) != len(b) {
			t.Fatalf("%s has %d values, want %d", name, len(a), len(b))
		}
		for i := range b {
			if off := float64(a[i] - b[i]); off != off || off > tolerance || off < -tolerance {
				t.Fatalf("%s[%d] is %g, want %g", name, i, a[i], b[i])
			}
		}
	}
}

func shardFloats(t *testing.T, d *ir.Data) []float32 {
	t.Helper()
	v, err := vkc.Values[float32](d)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// shardedProduct loads a matmul with a weight whose rows are divided among the devices.
func shardedProduct(t *testing.T, together *vkc.Device) *vkc.Executable {
	t.Helper()
	g, err := frontend.Build("product", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1, 24)
		b.Output("y", x.MatMulT(b.ShardedWeight(0, "w", ir.F32, 64, 24)))
	})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := together.LoadGraph(t.Context(), g, vkc.WeightMap{"w": devtest.Noise(t, 64, 24)})
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// TestTensorParallelStops: a device that does not come to an exchange ends the run of all, with an error that says so.
func TestTensorParallelStops(t *testing.T) {
	for _, list := range []string{"cpu,cpu", "vulkan,vulkan"} {
		if strings.HasPrefix(list, "vulkan") {
			devtest.NeedTools(t)
		}
		together, _ := parallel(t, list)
		exe := shardedProduct(t, together)
		if _, err := exe.Run(t.Context(), vkc.Tensors{"x": devtest.Noise(t, 1, 24)}); err != nil {
			t.Error(err)
		}
		if err := closePart(exe); err != nil {
			t.Error(err)
		}
		_, err := exe.Run(t.Context(), vkc.Tensors{"x": devtest.Noise(t, 1, 24)})
		if !errors.Is(err, vkc.ErrClosed) || !strings.Contains(err.Error(), "part 2 of 2") {
			t.Errorf("on %s: %v", list, err)
		}
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTensorParallelLimit: if a device never sends anything, the run of all devices ends after a time, by every
// transport.
func TestTensorParallelLimit(t *testing.T) {
	for name, list := range map[string]string{"processor": "cpu,cpu", "shared": "vulkan,vulkan",
		"relayed": "vulkan,vulkan"} {
		t.Run(name, func(t *testing.T) {
			if list != "cpu,cpu" {
				devtest.NeedTools(t)
			}
			together, _ := parallel(t, list)
			if exchange := transports[name]; exchange != nil {
				exchange(together)
			}
			exe := shardedProduct(t, together)
			defer exe.Close()
			losePart(exe)
			group(together).Limit = time.Millisecond
			for range 2 {
				_, err := exe.Run(t.Context(), vkc.Tensors{"x": devtest.Noise(t, 1, 24)})
				if err == nil || !strings.Contains(err.Error(), "timed out after 1ms") {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// TestCopiesFail: a copy that fails or exceeds the time limit ends the run on all devices with an error, and later runs
// work. If copies are not available, this transport is removed and the reason is recorded.
func TestCopiesFail(t *testing.T) {
	devtest.NeedTools(t)
	for _, c := range []struct {
		copied func(n int) (bool, error)
		limit  time.Duration
		want   string
	}{
		{func(int) (bool, error) { return false, errors.New("the cable is cut") }, time.Hour, "the cable is cut"},
		{func(int) (bool, error) { return false, nil }, time.Millisecond, "timed out after 1ms"},
	} {
		together, _ := parallel(t, "vulkan,vulkan")
		copied := func(int) (bool, error) { return true, nil }
		copyByHost(together, func(n int) (bool, error) { return copied(n) })
		exe := shardedProduct(t, together)
		defer exe.Close()
		in := vkc.Tensors{"x": devtest.Noise(t, 1, 24)}
		if _, err := exe.Run(t.Context(), in); err != nil {
			t.Error(err)
		}
		copied = c.copied
		group(together).Limit = c.limit
		if _, err := exe.Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		copied = func(int) (bool, error) { return true, nil }
		group(together).Limit = time.Hour
		if _, err := exe.Run(t.Context(), in); err != nil {
			t.Error(err)
		}
	}
	together, _ := parallel(t, "vulkan,vulkan")
	lackCopies(together)
	exe := shardedProduct(t, together)
	defer exe.Close()
	want := "programs end, and cards copy to one another: vk: peer copies between 2 devices, the first of which is " +
		together.Parts()[0].Name() + ": "
	if !strings.Contains(exe.Why(), want) {
		t.Errorf("%s: want %q", exe.Why(), want)
	}
	if _, err := exe.Run(t.Context(), vkc.Tensors{"x": devtest.Noise(t, 1, 24)}); err != nil {
		t.Error(err)
	}
}

// TestExchangesChosen: two GPUs use relayed flags for one token of a model with 20 layers of width 8192, and for 64
// tokens. If there is no room for separate slots, they use one program per exchange, and say so.
func TestExchangesChosen(t *testing.T) {
	devtest.NeedTools(t)
	for _, c := range []struct {
		rows, width, times int
		want               string
	}{
		{1, 8192, 40, "40 times a run: the host tells kernels of one another; "},
		{64, 8192, 40, "40 times a run: the host tells kernels of one another; "},
		{512, 8192, 10, "from one to the next; the host tells kernels of one another: slots for all of them have " +
			"more than 256 MiB; "},
	} {
		devices, err := vkc.OpenDevices("vulkan,vulkan")
		vktest.Need(t, err)
		together, err := devices.TensorParallel()
		if err != nil {
			t.Fatal(err)
		}
		defer together.Close()
		card := collective.Traits{Caps: devices[0].Caps()}
		card.Caps.Type = device.DeviceDiscrete
		group(together).Choices = collective.Available([]collective.Traits{card, card})
		group(together).ProbeLimit = time.Hour
		exe, err := together.LoadGraph(t.Context(), allReduces(t, c.rows, c.width, c.times), vkc.WeightMap{
			"terms": devtest.Noise(t, c.rows, 4), "columns": devtest.Noise(t, 4, c.width)})
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		if !strings.Contains(exe.Why(), c.want) {
			t.Errorf("%d times %d by %d: %s, want %q", c.times, c.rows, c.width, exe.Why(), c.want)
		}
	}
}

// TestExchangesOfSoftware: if the devices are the same processor, their kernels wait for one another after a trial. The
// trial may take long on a busy machine.
func TestExchangesOfSoftware(t *testing.T) {
	devtest.NeedTools(t)
	together, one := parallel(t, "vulkan,vulkan")
	if one.Caps().Type != device.DeviceCPU {
		t.Skip("the device is no software")
	}
	group(together).ProbeLimit = time.Hour
	exe := shardedProduct(t, together)
	defer exe.Close()
	if want := "1 times a run: kernels wait for one another; "; !strings.Contains(exe.Why(), want) {
		t.Errorf("%s, want %q", exe.Why(), want)
	}
}

// TestTryExchanges: devices find out whether kernels see the host's writes, and otherwise avoid this transport.
func TestTryExchanges(t *testing.T) {
	devtest.NeedTools(t)
	together, _ := parallel(t, "vulkan,vulkan")
	if err := probeRelayed(t.Context(), together, time.Hour); err != nil {
		t.Error(err)
	}
	if err := probeRelayed(t.Context(), together, 0); err == nil || !strings.Contains(err.Error(), "timed out after") {
		t.Errorf("exchanges that must end at once: %v", err)
	}
	g, err := frontend.Build("tried", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 1, 24).MatMulT(b.ShardedWeight(0, "w", ir.F32, 64, 24)))
	})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := together.LoadGraph(t.Context(), g, vkc.WeightMap{"w": devtest.Noise(t, 64, 24)})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if why := exe.Why(); !strings.Contains(why, "since another transport fails") {
		t.Error(why)
	}
	if _, err := exe.Run(t.Context(), vkc.Tensors{"x": devtest.Noise(t, 1, 24)}); err != nil {
		t.Error(err)
	}
}

// TestTensorParallelBits: the bits are those of one device if no sum is divided or its terms are added in the same
// order, with every transport. States are joined correctly, runs may have their own states, and a graph without
// anything to share also runs. With -devices 0,1 the test uses two cards.
func TestTensorParallelBits(t *testing.T) {
	devtest.NeedTools(t)
	for transport := range transports {
		for _, list := range tensorDevices() {
			n := strings.Count(list, ",") + 1
			t.Run(fmt.Sprintf("%s/%d", transport, n), func(t *testing.T) {
				testBits(t, transport, transports[transport], list, n)
			})
		}
	}
}

// tensorDevices returns lists of devices for tensor parallelism: the one of -devices, or else two and four devices.
func tensorDevices() []string {
	if *devicesFlag != "" {
		return []string{*devicesFlag}
	}
	return []string{"vulkan,vulkan", "vulkan,vulkan,vulkan,vulkan"}
}

func testBits(t *testing.T, transport string, by func(*vkc.Device), list string, devices int) {
	t.Helper()
	together, one := parallel(t, list)
	if one.Caps().Type != device.DeviceCPU && transport == "shared" {
		t.Skip("such devices do not see one another's words")
	}
	by(together)
	weights := vkc.WeightMap{"up": devtest.Noise(t, 64, 24), "b": devtest.Noise(t, 64), "out": devtest.Noise(t, 10, 64)}
	build := func(sum func(x, y frontend.Tensor) frontend.Tensor) *ir.Graph {
		g, err := frontend.Build("parallel", func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, b.Sym("T", 5), 24)
			h := x.MatMulT(b.ShardedWeight(0, "up", ir.F32, 64, 24)).Add(b.ShardedWeight(0, "b", ir.F32, 64)).Silu()
			s := b.ShardedState(0, "s", ir.F32, 64)
			next := s.Add(h.Sum(0))
			b.Update(s, next)
			out := b.ShardedWeight(1, "out", ir.F32, 10, 64)
			b.Output("h", h.Add(s))
			b.Output("y", sum(h, out))
		})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	// One device is made to add up terms, as the devices do.
	terms := func(x, w frontend.Tensor) (sum frontend.Tensor) {
		for rank := range devices {
			from, to := 64*rank/devices, ir.D(64*(rank+1)/devices)
			term := x.Slice(1, from, to).MatMulT(w.Slice(1, from, to))
			if rank == 0 {
				sum = term
			} else {
				sum = sum.Add(term)
			}
		}
		return sum
	}
	exe, err := together.LoadGraph(t.Context(), build(frontend.Tensor.MatMulT), weights)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if !strings.Contains(exe.Why(), "4 of 4 weights and states are cut") {
		t.Error(exe.Why())
	}
	want, err := one.LoadGraph(t.Context(), build(terms), weights)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	for i := range 5 {
		compareDevices(t, exe, want, vkc.Tensors{"x": devtest.Noise(t, 1+i%5, 24)}, vkc.RunOptions{}, 0)
	}
	for range 2 {
		a, err := exe.ReadState("s")
		if err != nil {
			t.Fatal(err)
		}
		b, err := want.ReadState("s")
		if err != nil {
			t.Fatal(err)
		}
		if string(a.Bytes) != string(b.Bytes) {
			t.Error("the state differs from that of one device")
		}
		if err := exe.WriteState("s", noiseAs(t, want)); err != nil {
			t.Fatal(err)
		}
	}
	own, err := exe.NewStates()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := want.ResetStates(); err != nil {
		t.Fatal(err)
	}
	r, err := exe.Run(t.Context(), vkc.Tensors{"x": devtest.Noise(t, 2, 24)},
		vkc.RunOptions{States: own, Keep: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	y, err := r.Kept["y"].Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := want.Run(t.Context(), vkc.Tensors{"x": devtest.Noise(t, 2, 24)})
	if err != nil {
		t.Fatal(err)
	}
	if string(y.Bytes) != string(w.Outputs["y"].Bytes) {
		t.Error("y on states of its own differs from that of one device")
	}
	if err := r.Kept["y"].Close(); err != nil {
		t.Error(err)
	}
}

// noiseAs writes random values to a state of one device and returns them.
func noiseAs(t *testing.T, one *vkc.Executable) *ir.Data {
	t.Helper()
	d := devtest.Noise(t, 64)
	if err := one.WriteState("s", d); err != nil {
		t.Fatal(err)
	}
	return d
}

// chained is a step that adds its output to a state. The next step takes the output as input.
func chained(t *testing.T) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("chained", func(b *frontend.Builder) {
		h := b.Input("x", ir.F32, 1, 24).MatMulT(b.ShardedWeight(0, "up", ir.F32, 64, 24)).Silu()
		y := h.MatMulT(b.ShardedWeight(1, "out", ir.F32, 24, 64))
		s := b.State("s", ir.F32, 1, 24)
		b.Update(s, s.Add(y))
		b.Output("y", y)
		b.Output("s", s)
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestTensorParallelAhead: asynchronous runs take outputs of the previous run, with programs without weights in
// between. They give the bits of synchronous runs, also when more are started than the devices can have in flight.
func TestTensorParallelAhead(t *testing.T) {
	devtest.NeedTools(t)
	weights := vkc.WeightMap{"up": devtest.Noise(t, 64, 24), "out": devtest.Noise(t, 24, 64)}
	half, err := frontend.Build("half", func(b *frontend.Builder) {
		b.Output("x", b.Input("y", ir.F32, 1, 24).MulScalar(0.5))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range tensorDevices() {
		together, _ := parallel(t, list)
		transports["relayed"](together)
		load := func(g *ir.Graph, weights ir.WeightSource) *vkc.Executable {
			exe, err := together.LoadGraph(t.Context(), g, weights)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { exe.Close() })
			return exe
		}
		ahead, waited, halves := load(chained(t), weights), load(chained(t), weights), load(half, nil)
		if !ahead.Asynchronous() || !halves.Asynchronous() {
			t.Errorf("on %s, runs are waited for", list)
		}
		now, err := ahead.Upload(t.Context(), devtest.Noise(t, 1, 24))
		if err != nil {
			t.Fatal(err)
		}
		in := vkc.Tensors{"x": devtest.Noise(t, 1, 24)}
		for i := range 30 {
			r, err := ahead.Run(t.Context(), nil, vkc.RunOptions{Keep: []string{"y", "s"},
				Inputs: map[string]*vkc.DeviceTensor{"x": now}})
			if err != nil {
				t.Fatal(err)
			}
			z, err := halves.Run(t.Context(), nil, vkc.RunOptions{Keep: []string{"x"},
				Inputs: map[string]*vkc.DeviceTensor{"y": r.Kept["y"]}})
			if err != nil {
				t.Fatal(err)
			}
			want, err := waited.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if i%10 == 9 {
				for name, d := range want.Outputs {
					have, err := r.Kept[name].Read(t.Context())
					if err != nil || string(have.Bytes) != string(d.Bytes) {
						t.Errorf("on %s, %s of run %d differs from that of one that is waited for: %v", list, name,
							i, err)
					}
				}
			}
			if want, err = halves.Run(t.Context(), vkc.Tensors{"y": want.Outputs["y"]}); err != nil {
				t.Fatal(err)
			}
			in = vkc.Tensors{"x": want.Outputs["x"]}
			for _, old := range []*vkc.DeviceTensor{now, r.Kept["y"], r.Kept["s"]} {
				if err := old.Close(); err != nil {
					t.Error(err)
				}
			}
			now = z.Kept["x"]
		}
		now.Close()
	}
}

// TestTensorParallelAheadStops: if a device does not get an asynchronous run, the reader of the run's outputs gets the
// error, or else the next run does. Later runs work.
func TestTensorParallelAheadStops(t *testing.T) {
	devtest.NeedTools(t)
	together, _ := parallel(t, "vulkan,vulkan")
	transports["relayed"](together)
	weights := vkc.WeightMap{"up": devtest.Noise(t, 64, 24), "out": devtest.Noise(t, 24, 64)}
	load := func() *vkc.Executable {
		exe, err := together.LoadGraph(t.Context(), chained(t), weights)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { exe.Close() })
		return exe
	}
	lame, sound := load(), load()
	losePart(lame)
	in, keep := vkc.Tensors{"x": devtest.Noise(t, 1, 24)}, vkc.RunOptions{Keep: []string{"y", "s"}}
	for _, reads := range []bool{true, false} {
		group(together).Limit = time.Millisecond
		r, err := lame.Run(t.Context(), in, keep)
		if err != nil {
			t.Fatal(err)
		}
		told := func(err error) {
			if err == nil || !strings.Contains(err.Error(), "timed out after 1ms") {
				t.Errorf("reads %v: %v", reads, err)
			}
		}
		if reads {
			_, err := r.Kept["y"].Read(t.Context())
			told(err)
			_, err = sound.Run(t.Context(), nil, vkc.RunOptions{Inputs: map[string]*vkc.DeviceTensor{"x": r.Kept["y"]}})
			told(err)
		}
		group(together).Limit = time.Hour
		if !reads {
			if err := together.Synchronize(t.Context()); err != nil {
				t.Error(err)
			}
			_, err := sound.Run(t.Context(), in)
			told(err)
		}
		if _, err := sound.Run(t.Context(), in); err != nil {
			t.Error(err)
		}
		for _, y := range r.Kept {
			y.Close()
		}
	}
}
