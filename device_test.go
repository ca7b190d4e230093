package vkc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/runtime/vk"
)

func TestOpenReference(t *testing.T) {
	for want, name := range map[string]string{"cpu": "CPU fast path", " CPU ": "CPU fast path",
		"reference": "CPU reference"} {
		dev, err := vkc.OpenDevice(want)
		if err != nil {
			t.Fatal(err)
		}
		if !dev.IsCPU() || dev.Fallback() != nil || dev.Name() != name ||
			dev.IsReference() != (want == "reference") || !strings.Contains(dev.Why(), "asked for") {
			t.Errorf("%q opened %s (%s), fallback %v", want, dev.Name(), dev.Why(), dev.Fallback())
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWithoutVulkan(t *testing.T) {
	noLoader := fmt.Errorf("no loader: %w", vk.ErrUnavailable)
	without := vkc.WithVulkan(func() (*vk.Instance, error) { return nil, noLoader })
	for _, want := range []string{"", "auto", "AUTO"} {
		dev, err := vkc.OpenDevice(want, without)
		if err != nil {
			t.Fatal(err)
		}
		if !dev.IsCPU() || !errors.Is(dev.Fallback(), vk.ErrUnavailable) ||
			!strings.Contains(dev.Why(), "no Vulkan device") {
			t.Errorf("%q opened %s (%s), fallback %v", want, dev.Name(), dev.Why(), dev.Fallback())
		}
	}
	for _, want := range []string{"0", "radeon", "vulkan"} {
		_, err := vkc.OpenDevice(want, without)
		devtest.WantError(t, err, want, "no loader")
	}
}

// TestBrokenVulkan: if Vulkan exists but fails, "auto" opens the CPU fast path and says why. A device requested by name
// is an error.
func TestBrokenVulkan(t *testing.T) {
	broken := &vk.Error{Op: "enumerate devices", Result: vk.ErrorOutOfHostMemory}
	without := vkc.WithVulkan(func() (*vk.Instance, error) { return nil, broken })
	dev, err := vkc.OpenDevice("auto", without)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if !dev.IsCPU() || !errors.Is(dev.Fallback(), broken) {
		t.Errorf("opened %s, fallback %v", dev.Why(), dev.Fallback())
	}
	exe, err := dev.LoadGraph(t.Context(), readGraph(t, "mlp.ir"), mlpWeights(t))
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if !errors.Is(exe.Fallback(), broken) {
		t.Errorf("the program's fallback is %v", exe.Fallback())
	}
	if dev, err := vkc.OpenDevice("vulkan", without); !errors.Is(err, broken) {
		t.Errorf("got %v, %v; want the error of Vulkan", dev, err)
	}
}

func TestOpenDeviceThatIsNotThere(t *testing.T) {
	devtest.OpenDevice(t)
	for _, want := range []string{"99", "-1", "no such device"} {
		_, err := vkc.OpenDevice(want)
		devtest.WantError(t, err, want)
	}
}

func TestOpenDevice(t *testing.T) {
	dev := devtest.OpenDevice(t)
	if dev.IsCPU() || dev.Caps().Name != dev.Name() || !strings.HasPrefix(dev.Why(), dev.Name()) {
		t.Errorf("opened %s (%s)", dev.Name(), dev.Why())
	}
	again, err := vkc.OpenDevice(dev.Name()[:5])
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !strings.Contains(again.Why(), "name contains") {
		t.Errorf("by a part of its name: %s", again.Why())
	}
}

// TestLoadForeignProgram: a program that the device cannot run is rejected before anything is created on the device.
// The error says what to do.
func TestLoadForeignProgram(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := context.Background()
	dev := devtest.OpenDevice(t)
	caps, err := device.Profile("generic")
	if err != nil {
		t.Fatal(err)
	}
	g := readGraph(t, "mlp.ir")
	p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
	if err != nil {
		t.Fatal(err)
	}
	prog := *p.Contents.Program
	prog.Shaders = append(prog.Shaders[:0:0], prog.Shaders...)
	for i := range prog.Shaders {
		prog.Shaders[i].Needs = []string{"noSuchFeature"}
	}
	prog.Target = "another device"
	p.Contents.Program = &prog
	_, err = dev.Load(ctx, p, vkc.LoadOptions{Weights: mlpWeights(t)})
	devtest.WantError(t, err, "another device", dev.Name(), "noSuchFeature", "vkc compile --target auto")
	if mismatch := (*vk.MismatchError)(nil); !errors.As(err, &mismatch) {
		t.Errorf("error of type %T", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := context.Background()
	g := readGraph(t, "mlp.ir")
	cpu, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	interpreted, err := cpu.Compile(ctx, g, vkc.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	devtest.WantError(t, interpreted.Save(t.TempDir()+"/x.vkb", nil), "CPU fast path", "compile the graph for a device")
	few := mlpWeights(t)
	delete(few, "layer.1.weight")
	wrong := mlpWeights(t)
	wrong["layer.0.bias"] = devtest.Noise(t, 17)

	for _, dev := range []*vkc.Device{cpu, devtest.OpenDevice(t)} {
		p, err := dev.Compile(ctx, g, vkc.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = dev.Load(ctx, p, vkc.LoadOptions{})
		if err == nil || !strings.Contains(err.Error(), "layer.0.weight") || !strings.Contains(err.Error(), "weights") {
			t.Errorf("without weights: %v", err)
		}
		_, err = dev.Load(ctx, p, vkc.LoadOptions{Weights: few})
		devtest.WantError(t, err, "layer.1.weight")
		_, err = dev.Load(ctx, p, vkc.LoadOptions{Weights: wrong})
		devtest.WantError(t, err, "layer.0.bias", "[17]", "[16]")
		if !dev.IsCPU() {
			_, err = dev.Load(ctx, interpreted, vkc.LoadOptions{Weights: mlpWeights(t)})
			devtest.WantError(t, err, dev.Name(), "compile the graph for this device")
		}
	}
}
