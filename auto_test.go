package vkc_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

// autoDevice is the best Vulkan device, chosen per graph whatever it is.
func autoDevice(t *testing.T) *vkc.Device {
	t.Helper()
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev := devtest.OpenDevice(t)
	vkc.OpenedByAuto(dev, time.Hour) // on a busy machine, too, it is the trial that decides
	return dev
}

// timed is how long runs of a trial take, in us by the value of N. What is not there never ends.
type timed struct{ device, reference map[int64]int }

// set replaces the measurement of trial runs: they are executed, but report these times.
func (times timed) set(dev *vkc.Device) {
	vkc.SetTimeRun(dev, func(ctx context.Context, exe runtime.Executable, in vkc.Tensors,
		symbols map[string]int64) (time.Duration, error) {
		// The real duration does not matter; the test gives the time.
		if _, err := exe.Run(context.WithoutCancel(ctx), in, vkc.RunOptions{Symbols: symbols}); err != nil {
			return 0, err
		}
		by := times.device
		if onReference(exe) {
			by = times.reference
		}
		us, ends := by[symbols["N"]]
		if !ends {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return time.Duration(us) * time.Microsecond, nil
	})
}

func onReference(exe interface{ Device() string }) bool {
	return strings.HasPrefix(exe.Device(), "CPU fast path")
}

// noTrial fails the test where a program is tried.
func noTrial(t *testing.T, dev *vkc.Device) {
	vkc.SetTimeRun(dev, func(context.Context, runtime.Executable, vkc.Tensors,
		map[string]int64) (time.Duration, error) {
		t.Error("the program was tried")
		return 0, nil
	})
}

// counting counts its runs, whatever the input.
func counting(t *testing.T) *ir.Graph {
	t.Helper()
	return devtest.Build(t, func(b *frontend.Builder) {
		n := b.State("n", ir.F32)
		b.Update(n, n.AddScalar(1))
		b.Output("y", b.Input("x", ir.F32, b.Sym("N", 8)).Add(n))
	})
}

func runsOf(t *testing.T, exe *vkc.Executable) float32 {
	t.Helper()
	d, err := exe.ReadState("n")
	if err != nil {
		t.Fatal(err)
	}
	v, err := vkc.Values[float32](d)
	if err != nil {
		t.Fatal(err)
	}
	return v[0]
}

func TestAutoTakesTheFaster(t *testing.T) {
	slow, fast := map[int64]int{1: 409, 8: 5000}, map[int64]int{1: 86, 8: 99}
	for _, tt := range []struct {
		name      string
		times     timed
		reference bool
		why       string // after the device's name; DEVICE stands for the name of the other device
	}{
		{"reference", timed{slow, fast}, true, "86µs a run at N=1, DEVICE takes 409µs; 99µs a run at N=8, DEVICE takes 5ms"},
		{"device", timed{fast, slow}, false, "86µs a run at N=1, the CPU fast path takes 409µs"},
		{"device at more", timed{map[int64]int{1: 409, 8: 410}, map[int64]int{1: 86, 8: 1234567}}, false,
			"409µs a run at N=1, the CPU fast path takes 86µs; 410µs a run at N=8, the CPU fast path takes 1.23s"},
		{"reference, on the whole", timed{map[int64]int{1: 409, 8: 410}, map[int64]int{1: 86, 8: 420}}, true,
			"86µs a run at N=1, DEVICE takes 409µs; 420µs a run at N=8, DEVICE takes 410µs"},
		{"a reference without end at more", timed{slow, map[int64]int{1: 1}}, false,
			"409µs a run at N=1, the CPU fast path takes 1µs; 5ms a run at N=8, the CPU fast path takes longer"},
		{"equal", timed{slow, slow}, false, "409µs a run at N=1, the CPU fast path takes 409µs"},
		{"a reference without end", timed{slow, nil}, false, "409µs a run at N=1, the CPU fast path takes longer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dev := autoDevice(t)
			tt.times.set(dev)
			exe, err := dev.LoadGraph(t.Context(), counting(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			name := dev.Name()
			if tt.reference {
				name = "CPU fast path"
			}
			if want := name + ": " + strings.ReplaceAll(tt.why, "DEVICE", dev.Name()); exe.Why() != want {
				t.Errorf("why: %s\nwant %s", exe.Why(), want)
			}
			if onReference(exe) != tt.reference || (exe.Vulkan() == nil) != tt.reference {
				t.Errorf("it runs on %s", exe.Device())
			}
			if n := runsOf(t, exe); n != 0 {
				t.Errorf("loading left %v in a state", n)
			}
		})
	}
}

// TestAutoMeasures tries a program in earnest. Either may be faster.
func TestAutoMeasures(t *testing.T) {
	dev := autoDevice(t)
	exe, err := dev.LoadGraph(t.Context(), readGraph(t, "mlp.ir"), mlpWeights(t))
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if why := exe.Why(); !strings.Contains(why, " a run at T=") ||
		strings.HasPrefix(why, "CPU fast path: ") != onReference(exe) {
		t.Errorf("on %s: %s", exe.Device(), why)
	}
	t.Log(exe.Why())
}

// TestAutoWithoutReference: a program that fails on the reference stays on the device.
func TestAutoWithoutReference(t *testing.T) {
	dev := autoDevice(t)
	vkc.SetTimeRun(dev, func(_ context.Context, exe runtime.Executable, _ vkc.Tensors,
		_ map[string]int64) (time.Duration, error) {
		if onReference(exe) {
			return 0, errors.New("no memory")
		}
		return time.Millisecond, nil
	})
	exe, err := dev.LoadGraph(t.Context(), counting(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if onReference(exe) || !strings.HasSuffix(exe.Why(), ": 1ms a run at N=1, the CPU fast path fails: no memory") {
		t.Errorf("on %s: %s", exe.Device(), exe.Why())
	}
}

// TestAutoFailure: a failure on the device, or the end of the caller's context, is an error and not a reason to choose
// the reference. If anything stayed open on the device, closing it would fail the test.
func TestAutoFailure(t *testing.T) {
	lost := errors.New("lost")
	for _, fails := range []string{"device", "reference"} {
		dev := autoDevice(t)
		ctx, cancel := context.WithCancel(t.Context())
		vkc.SetTimeRun(dev, func(ctx context.Context, exe runtime.Executable, _ vkc.Tensors,
			_ map[string]int64) (time.Duration, error) {
			if fails == "device" {
				return 0, lost
			}
			if onReference(exe) {
				cancel()
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return time.Millisecond, nil
		})
		_, err := dev.LoadGraph(ctx, counting(t), nil)
		cancel()
		if want := map[string]error{"device": lost, "reference": context.Canceled}[fails]; !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		devtest.WantError(t, err, `load graph "custom": choose between `+dev.Name()+" and the CPU fast path")
	}
}

// TestAutoShares: an executable that shares with another one goes to the same device, without a trial.
func TestAutoShares(t *testing.T) {
	for _, reference := range []bool{false, true} {
		dev := autoDevice(t)
		device := map[int64]int{1: 400, 8: 400}
		times := timed{device, map[int64]int{1: 500}}
		if reference {
			times.reference = map[int64]int{1: 100, 8: 100}
		}
		times.set(dev)
		first, err := dev.LoadGraph(t.Context(), counting(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		noTrial(t, dev)
		if _, err := first.Run(t.Context(), vkc.Tensors{"x": devtest.Noise(t, 3)}); err != nil {
			t.Fatal(err)
		}
		second, err := dev.LoadGraph(t.Context(), counting(t), nil, vkc.LoadOptions{Share: first})
		if err != nil {
			t.Fatal(err)
		}
		if onReference(first) != reference || onReference(second) != reference ||
			!strings.HasSuffix(second.Why(), ": the executable that it shares with is there") {
			t.Errorf("on %s and %s: %s", first.Device(), second.Device(), second.Why())
		}
		if n := runsOf(t, second); n != 1 {
			t.Errorf("the shared state is %v after one run", n)
		}
		for _, exe := range []*vkc.Executable{first, second} {
			if err := exe.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAutoHoldsWeights: once a program is loaded its weights may go.
func TestAutoHoldsWeights(t *testing.T) {
	dev := autoDevice(t)
	timed{map[int64]int{0: 2}, map[int64]int{0: 1}}.set(dev)
	w, err := vkc.OfType(ir.Q8_0, slices.Repeat([]float32{1}, 64), 2, 32)
	if err != nil {
		t.Fatal(err)
	}
	g := devtest.Build(t, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 3, 32).MatMulT(b.Weight("w", ir.Q8_0, 2, 32)))
	})
	exe, err := dev.LoadGraph(t.Context(), g, vkc.WeightMap{"w": w})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	second, err := dev.LoadGraph(t.Context(), g, vkc.WeightMap{"w": w}, vkc.LoadOptions{Share: exe})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	clear(w.Bytes)
	for _, exe := range []*vkc.Executable{exe, second} {
		res, err := exe.Run(t.Context(), vkc.Tensors{"x": devtest.TensorOf(t, slices.Repeat([]float32{1}, 96), 3, 32)})
		if err != nil {
			t.Fatal(err)
		}
		if y, _ := vkc.Values[float32](res.Outputs["y"]); !onReference(exe) || y[0] < 31 {
			t.Errorf("on %s: %v", exe.Device(), y)
		}
	}
}

func TestAutoUntried(t *testing.T) {
	dev := autoDevice(t)
	noTrial(t, dev)
	for _, opt := range []vkc.LoadOptions{{Guards: true}, {NoTrial: true}} {
		exe, err := dev.LoadGraph(t.Context(), counting(t), nil, opt)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		if onReference(exe) || !strings.HasSuffix(exe.Why(), ": a program on the device was asked for") {
			t.Errorf("%+v: on %s: %s", opt, exe.Device(), exe.Why())
		}
	}
	custom, err := dev.LoadGraph(t.Context(), snakeGraph(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer custom.Close()
	if onReference(custom) || !strings.Contains(custom.Why(), "custom ops") {
		t.Errorf("on %s: %s", custom.Device(), custom.Why())
	}
	out, err := vkc.Run(t.Context(), counting(t), nil, vkc.Tensors{"x": devtest.Noise(t, 3)})
	if err != nil || out["y"] == nil {
		t.Error(out, err)
	}
}

func TestAutoExtents(t *testing.T) {
	input := func(n ...any) *ir.Graph {
		return devtest.Build(t, func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, n...).Neg()) })
	}
	symbol := func(bound int) *ir.Graph { return input(ir.Symbol("N", bound)) }
	at := func(values ...int64) (list []map[string]int64) {
		for _, v := range values {
			list = append(list, map[string]int64{"N": v})
		}
		return list
	}
	for _, tt := range []struct {
		g    *ir.Graph
		want []map[string]int64
		why  string
	}{
		{input(3), []map[string]int64{{}}, ""},
		{symbol(512), at(1, 64), ""},
		{symbol(8), at(1, 8), ""},
		{symbol(1), at(1), ""},
		{symbol(0), at(0), ""},
		{input(ir.Symbol("N", 512).Plus(-3)), at(64), ""},
		{input(ir.Symbol("N", 512).Plus(-100)), nil, "no small extents"},
		{input(64 << 20), nil, "is not tried with more than 32 million elements of weights, states and inputs, and there are 64"},
		{snakeGraph(t), nil, "custom ops"},
	} {
		list, why := vkc.TrialExtents(tt.g, runtime.SignatureOf(tt.g).Symbols())
		if !slices.EqualFunc(list, tt.want, maps.Equal) || !strings.Contains(why, tt.why) ||
			(why == "") != (tt.why == "") {
			t.Errorf("%v, %q; want %v, %q", list, why, tt.want, tt.why)
		}
	}
}

// TestAutoInSoftware: "auto" chooses per graph where the best device is a software one, "vulkan" never.
func TestAutoInSoftware(t *testing.T) {
	for _, want := range []string{"vulkan", "auto"} {
		dev, err := vkc.OpenDevice(want)
		vktest.Need(t, err)
		defer dev.Close()
		perGraph := want == "auto" && dev.Caps().Type == device.DeviceCPU
		if strings.Contains(dev.Why(), "each program runs there or on the CPU fast path") != perGraph {
			t.Errorf("%q: %s", want, dev.Why())
		}
	}
}

// TestAutoRunsWhatTheDeviceRefuses: a graph that the device cannot run, or that cannot be compiled without tools,
// runs on the reference and says why. A device that was named refuses it.
func TestAutoRunsWhatTheDeviceRefuses(t *testing.T) {
	devtest.NeedTools(t)
	doubles := devtest.Build(t, func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F64, 3).AddScalar(1)) })
	floats := devtest.Build(t, func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 3).AddScalar(1)) })
	symbolic := devtest.Build(t, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, b.Sym("N", 1<<32+1)).AddScalar(1))
	})
	long := devtest.Build(t, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, b.Sym("N", 1<<30+1)).AddScalar(1))
	})
	weights := vkc.WeightMap{"big": devtest.TensorOf(t, make([]float32, 1<<19), 1<<19)}
	remembering := devtest.Build(t, func(b *frontend.Builder) {
		big := b.Weight("big", ir.F32, 1<<19)
		b.Output("y", b.Input("x", ir.F32, 3).Add(big.Slice(0, 0, 3)).AddScalar(1))
	})
	for _, tt := range []struct {
		name   string
		graph  *ir.Graph
		in     *ir.Data
		refuse func(t *testing.T, dev *vkc.Device)
		why    string
	}{
		{"a feature", doubles, devtest.TensorOf(t, []float64{1, 2, 3}, 3), func(_ *testing.T, dev *vkc.Device) {
			caps := dev.Caps()
			caps.Features.Float64 = false
			vkc.SetCaps(dev, caps)
		}, "it lacks"},
		{"positions", symbolic, devtest.TensorOf(t, []float32{1, 2, 3}, 3), nil, "give symbols smaller bounds"},
		{"memory", remembering, devtest.TensorOf(t, []float32{1, 2, 3}, 3), nil, "limited to"},
		{"extents", long, devtest.TensorOf(t, []float32{1, 2, 3}, 3), nil, "give symbols smaller bounds than N <= 1073741825"},
		{"failing compiler", floats, devtest.TensorOf(t, []float32{1, 2, 3}, 3), func(t *testing.T, _ *vkc.Device) {
			tools := t.TempDir()
			for _, name := range []string{"glslc", "glslangValidator", "spirv-opt", "spirv-val"} {
				script := "#!/bin/sh\necho 'error: it is a trick' >&2\nexit 1\n"
				if err := os.WriteFile(filepath.Join(tools, name), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv(spirv.ToolsEnv, tools)
		}, "it is a trick"},
		{"tools", floats, devtest.TensorOf(t, []float32{1, 2, 3}, 3), func(t *testing.T, _ *vkc.Device) {
			t.Setenv(spirv.ToolsEnv, "")
			t.Setenv("PATH", t.TempDir())
			t.Setenv("XDG_DATA_HOME", t.TempDir())
		}, "not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			devtest.OwnCache(t)
			dev, err := vkc.OpenDevice("vulkan", vkc.WithMemoryLimit(1<<20))
			vktest.Need(t, err)
			defer dev.Close()
			if tt.refuse != nil {
				tt.refuse(t, dev)
			}
			if _, err := dev.LoadGraph(t.Context(), tt.graph, weights); err == nil ||
				!strings.Contains(err.Error(), tt.why) {
				t.Fatalf("the device that was named: %v, want %q", err, tt.why)
			}
			vkc.OpenedByAuto(dev, time.Hour)
			noTrial(t, dev)
			exe, err := dev.LoadGraph(t.Context(), tt.graph, weights)
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			if why := exe.Why(); !onReference(exe) || !strings.Contains(why, tt.why) ||
				!strings.Contains(why, dev.Name()) || strings.Contains(why, "\n") {
				t.Errorf("runs on %s: %s", exe.Device(), why)
			}
			if exe.Fallback() == nil || !strings.Contains(exe.Fallback().Error(), tt.why) {
				t.Errorf("the fallback is %v, want %q", exe.Fallback(), tt.why)
			}
			res, err := exe.Run(t.Context(), vkc.Tensors{"x": tt.in})
			if err != nil {
				t.Fatal(err)
			}
			if y, err := res.Outputs["y"].Floats(); err != nil || !slices.Equal(y, []float64{2, 3, 4}) {
				t.Errorf("y is %v, %v", y, err)
			}
		})
	}
}

// TestAutoKeepsMistakes: mistakes in the graph, its weights or the caller's shader are errors under "auto" too.
func TestAutoKeepsMistakes(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev := autoDevice(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	op := devtest.Build(t, func(b *frontend.Builder) {
		b.Output("y", frontend.CustomOp(broken, []frontend.Tensor{b.Input("x", ir.F32, 4)}))
	})
	for _, tt := range []struct {
		name string
		ctx  context.Context
		load func(ctx context.Context) (*vkc.Executable, error)
		want string
	}{
		{"a graph that computes nothing", t.Context(), func(ctx context.Context) (*vkc.Executable, error) {
			return dev.LoadGraph(ctx, ir.NewGraph("empty"), nil)
		}, "computes nothing"},
		{"no weights", t.Context(), func(ctx context.Context) (*vkc.Executable, error) {
			return dev.LoadGraph(ctx, readGraph(t, "mlp.ir"), vkc.WeightMap{})
		}, "weight"},
		{"a context that has ended", canceled, func(ctx context.Context) (*vkc.Executable, error) {
			return dev.LoadGraph(ctx, readGraph(t, "mlp.ir"), mlpWeights(t))
		}, "canceled"},
		{"the caller's shader", t.Context(), func(ctx context.Context) (*vkc.Executable, error) {
			return dev.LoadGraph(ctx, op, nil)
		}, "testcustom.broken"},
	} {
		if exe, err := tt.load(tt.ctx); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v; want an error with %q", tt.name, exe, err, tt.want)
		}
	}
}

// TestNamedDevices: several devices are named, so the CPU does not stand in for them. The error says so, except if the
// caller's weights are at fault.
func TestNamedDevices(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	devices, err := vkc.OpenDevices("vulkan,vulkan", vkc.WithMemoryLimit(1<<12))
	vktest.Need(t, err)
	dev, err := devices.Together()
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	g, weights := devtest.Layers(t, 4)
	_, err = dev.LoadGraph(t.Context(), g, weights)
	devtest.WantError(t, err, "part 1 of 2", "out of memory", "several devices are not replaced", "--device auto")
	delete(weights, "w0")
	if _, err = dev.LoadGraph(t.Context(), g, weights); err == nil || strings.Contains(err.Error(), "--device auto") {
		t.Errorf("a missing weight: %v", err)
	}
}
