package vkc_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// softwareDevice is what "auto" opens without a GPU. Programs are tried after their first run, if the machine has a
// Vulkan device; by a clock by which that device is ten times as fast.
func softwareDevice(t *testing.T, bytes int64) *vkc.Device {
	t.Helper()
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	devtest.OpenDevice(t)
	dev, err := vkc.OpenDevice("auto", vkc.WithoutGPU())
	if err != nil {
		t.Fatal(err)
	}
	vkc.SetTrial(dev, 1, bytes, func(exe runtime.Executable, run func() error) (time.Duration, error) {
		if onFastPath(exe) {
			return 10 * time.Millisecond, run()
		}
		return time.Millisecond, run()
	})
	t.Cleanup(func() {
		if err := dev.Close(); err != nil { // it names what is open on the device
			t.Error(err)
		}
	})
	return dev
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

// runCounting runs a counting program after n runs.
func runCounting(t *testing.T, exe *vkc.Executable, n int) {
	t.Helper()
	res, err := exe.Run(t.Context(), vkc.Tensors{"x": devtest.TensorOf(t, make([]float32, 3), 3)})
	if err != nil {
		t.Fatal(err)
	}
	if y, _ := vkc.Values[float32](res.Outputs["y"]); y[0] != float32(n) {
		t.Fatalf("after %d runs y is %v", n, y)
	}
}

// settleCounting runs a counting program until its trial has ended, and returns the number of runs.
func settleCounting(t *testing.T, dev *vkc.Device, exe *vkc.Executable) (n int) {
	t.Helper()
	for ; exe.Why() == dev.Why(); n++ {
		runCounting(t, exe, n)
	}
	return n
}

// TestSoftwareStartsAtOnce: without a GPU, loading a program and running it starts no compiler and does not load
// Vulkan.
func TestSoftwareStartsAtOnce(t *testing.T) {
	devtest.OwnCache(t)
	tools := t.TempDir()
	called := filepath.Join(tools, "called")
	for _, name := range []string{"glslc", "glslangValidator", "spirv-opt", "spirv-val"} {
		script := fmt.Sprintf("#!/bin/sh\ntouch '%s'\nexit 1\n", called)
		if err := os.WriteFile(filepath.Join(tools, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(spirv.ToolsEnv, tools)
	var opened atomic.Int64
	open := vkc.WithVulkan(func() (*vk.Instance, error) {
		opened.Add(1)
		return vk.Open()
	})
	for name, options := range map[string][]vkc.DeviceOption{
		"no GPU":                          {open, vkc.WithoutGPU()},
		"maybe a GPU, but it is software": {open},
	} {
		t.Run(name, func(t *testing.T) {
			opened.Store(0)
			dev, err := vkc.OpenDevice("auto", options...)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			if len(options) == 1 {
				best, err := vkc.OpenDevice("vulkan")
				vktest.Need(t, err)
				defer best.Close()
				if best.Caps().Type != device.DeviceCPU {
					t.Skip(best.Name(), " is a GPU")
				}
			}
			exe, err := dev.LoadGraph(t.Context(), counting(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			for n := range 3 {
				runCounting(t, exe, n)
			}
			if _, err := vkc.Run(t.Context(), counting(t), nil, vkc.Tensors{"x": devtest.Noise(t, 3)}); err != nil {
				t.Error(err)
			}
			if !dev.IsCPU() || dev.Fallback() != nil || exe.Fallback() != nil || !onFastPath(exe) ||
				exe.Vulkan() != nil {
				t.Errorf("on %s, fallback %v: %s", exe.Device(), exe.Fallback(), exe.Why())
			}
			if _, err := os.Stat(called); err == nil {
				t.Error("a compiler was started")
			}
			if len(options) == 2 && opened.Load() != 0 {
				t.Error("Vulkan was loaded")
			}
		})
	}
}

// TestSoftwareChangesOver: a program changes over to a Vulkan device with its states, and back if another one shares
// them.
func TestSoftwareChangesOver(t *testing.T) {
	dev := softwareDevice(t, 1<<20)
	exe, err := dev.LoadGraph(t.Context(), counting(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	n := settleCounting(t, dev, exe)
	if !strings.HasPrefix(exe.Why(), "Vulkan in software: it took 3ms for 3 of your runs") || onFastPath(exe) {
		t.Errorf("on %s: %s", exe.Device(), exe.Why())
	}
	p := exe.Start(t.Context(), vkc.Tensors{"x": devtest.TensorOf(t, make([]float32, 3), 3)})
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	runCounting(t, exe, n+1)
	second, err := dev.LoadGraph(t.Context(), counting(t), nil, vkc.LoadOptions{Share: exe})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	runCounting(t, second, n+2)
	runCounting(t, exe, n+3)
	if got := runsOf(t, second); got != float32(n+4) || !onFastPath(exe) || !onFastPath(second) {
		t.Errorf("the state is %v after %d runs; on %s and %s", got, n+4, exe.Device(), second.Device())
	}
}

// TestSoftwareBundle: a bundle's kernels are tried, also if the bundle was closed after it was loaded.
func TestSoftwareBundle(t *testing.T) {
	dev := softwareDevice(t, 1<<20)
	target, err := vkc.OpenDevice("vulkan")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	p, err := target.Compile(t.Context(), counting(t), vkc.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "counting.vkb")
	if err := p.Save(path, nil); err != nil {
		t.Fatal(err)
	}
	bundle, err := vkc.OpenBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := dev.Load(t.Context(), bundle, vkc.LoadOptions{})
	if err := errors.Join(err, bundle.Close()); err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	devtest.EmptyCache(t)
	t.Setenv(spirv.ToolsEnv, "")
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	runCounting(t, exe, settleCounting(t, dev, exe))
	if onFastPath(exe) {
		t.Error(exe.Why())
	}
}

// TestSoftwareTrialFails: the program stays on the CPU, says why, and its runs do not notice.
func TestSoftwareTrialFails(t *testing.T) {
	for name, tt := range map[string]struct {
		dev func(t *testing.T) *vkc.Device
		why string
	}{
		"memory": {func(t *testing.T) *vkc.Device { return softwareDevice(t, 8) }, "and a trial may take 0"},
		"no Vulkan": {func(t *testing.T) *vkc.Device {
			dev, err := vkc.OpenDevice("auto", vkc.WithVulkan(func() (*vk.Instance, error) {
				return nil, errors.New("no loader")
			}), vkc.WithoutGPU())
			if err != nil {
				t.Fatal(err)
			}
			vkc.SetTrial(dev, 1, 1<<20, nil)
			return dev
		}, "Vulkan in software was tried and failed: no loader"},
		"no compiler": {func(t *testing.T) *vkc.Device {
			dev := softwareDevice(t, 1<<20)
			devtest.EmptyCache(t)
			t.Setenv(spirv.ToolsEnv, "")
			t.Setenv("PATH", t.TempDir())
			t.Setenv("XDG_DATA_HOME", t.TempDir())
			return dev
		}, "Vulkan in software was tried and failed: "},
	} {
		t.Run(name, func(t *testing.T) {
			dev := tt.dev(t)
			exe, err := dev.LoadGraph(t.Context(), counting(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			n := settleCounting(t, dev, exe)
			runCounting(t, exe, n)
			if !onFastPath(exe) || !strings.Contains(exe.Why(), tt.why) || strings.Contains(exe.Why(), "\n") ||
				exe.Fallback() != nil {
				t.Errorf("on %s, fallback %v: %s", exe.Device(), exe.Fallback(), exe.Why())
			}
		})
	}
}

// TestSoftwareCloses: a program closes while it is tried, and nothing is left open on the device.
func TestSoftwareCloses(t *testing.T) {
	dev := softwareDevice(t, 1<<20)
	for runs := 1; runs <= 4; runs++ {
		exe, err := dev.LoadGraph(t.Context(), counting(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range runs {
			runCounting(t, exe, n)
		}
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	}
	if v := vk.Of(dev); v != nil {
		t.Error("the device is", v)
	}
}

// TestSoftwareCustomOps: graphs with custom ops run on the Vulkan device, because their Go code is for checks.
func TestSoftwareCustomOps(t *testing.T) {
	dev := softwareDevice(t, 1<<20)
	exe, err := dev.LoadGraph(t.Context(), snakeGraph(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if exe.Vulkan() == nil {
		t.Errorf("on %s: %s", exe.Device(), exe.Why())
	}
	p, err := dev.Compile(t.Context(), counting(t), vkc.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	next, err := dev.Load(t.Context(), p, vkc.LoadOptions{Share: exe})
	if err != nil {
		t.Fatalf("a program that shares with it: %v", err)
	}
	defer next.Close()
	if next.Vulkan() == nil {
		t.Errorf("the program that shares with it is on %s: %s", next.Device(), next.Why())
	}
	if y := runsOf(t, next); y != 0 {
		t.Errorf("its first run counts %v before it", y)
	}
}
