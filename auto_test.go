package vkc_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// autoDevice is the best Vulkan device, as if it were a GPU that "auto" opened.
func autoDevice(t *testing.T) *vkc.Device {
	t.Helper()
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev := devtest.OpenDevice(t)
	vkc.OpenedByAuto(dev)
	return dev
}

func onFastPath(exe interface{ Device() string }) bool {
	return strings.HasPrefix(exe.Device(), "CPU fast path")
}

// TestAutoHoldsWeights: the weights of a program that the GPU refused may go once it is loaded, as on the GPU.
func TestAutoHoldsWeights(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev, err := vkc.OpenDevice("vulkan", vkc.WithMemoryLimit(1<<10))
	vktest.Need(t, err)
	defer dev.Close()
	vkc.OpenedByAuto(dev)
	w, err := vkc.OfType(ir.Q8_0, slices.Repeat([]float32{1}, 2048), 64, 32)
	if err != nil {
		t.Fatal(err)
	}
	g := devtest.Build(t, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 3, 32).MatMulT(b.Weight("w", ir.Q8_0, 64, 32)))
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
		if y, _ := vkc.Values[float32](res.Outputs["y"]); !onFastPath(exe) || y[0] < 31 {
			t.Errorf("on %s: %v", exe.Device(), y)
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
			vkc.OpenedByAuto(dev)
			exe, err := dev.LoadGraph(t.Context(), tt.graph, weights)
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			if why := exe.Why(); !onFastPath(exe) || !strings.Contains(why, tt.why) ||
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
