package vkc_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/multi"
	"github.com/vkc-go/vkc/runtime/vk"
)

// twoWeights is a graph with two weights that devices may share.
func twoWeights(t *testing.T) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("two weights", func(b *frontend.Builder) {
		h := b.Input("x", ir.F32, 1, 64).MatMulT(b.ShardedWeight(0, "up", ir.F32, 64, 64)).Silu()
		b.Output("y", h.MatMulT(b.ShardedWeight(1, "down", ir.F32, 64, 64)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestDeprecatedNames: a program that uses the names of the last version still builds, and gets the same values.
func TestDeprecatedNames(t *testing.T) {
	g := twoWeights(t)
	caps := devtest.Profile(t, "nvidia-h100")
	var low *vkc.Lowered
	low, err := vkc.Lower(t.Context(), g, caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := compiler.Lower(t.Context(), g, caps, nil); err != nil || !slices.Equal(low.GLSL, want.GLSL) {
		t.Errorf("Lower has not the shaders of compiler.Lower: %v", err)
	}
	var prices []vkc.SplitPrice
	if prices, err = vkc.SplitPrices(t.Context(), g, []device.Caps{caps, caps}); err != nil {
		t.Fatal(err)
	}
	members := slices.Repeat([]multi.Member{multi.Unused(caps)}, 2)
	want, err := multi.Prices(t.Context(), g, members, compiler.Estimate)
	if err != nil || fmt.Sprint(prices) != fmt.Sprint(want) {
		t.Errorf("SplitPrices: %v, want %v: %v", prices, want, err)
	}

	dev := devtest.OpenNamed(t, "cpu")
	if dev.Vulkan() != nil || dev.Robustness() != vk.WithinBuffer {
		t.Errorf("the CPU is Vulkan device %v, with robustness %v", dev.Vulkan(), dev.Robustness())
	}
	_, err = dev.Expected(t.Context(), g)
	devtest.WantError(t, err, "is not known")
	_, err = dev.Expected(t.Context(), nil)
	devtest.WantError(t, err, "expected time: ")
	plain := counter(t)
	var checker *vkc.Checker
	if checker, err = vkc.NewChecker(plain, nil); err != nil {
		t.Fatal(err)
	}
	exe, err := dev.LoadGraph(t.Context(), plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if exe.GoesAhead() != exe.Asynchronous() {
		t.Errorf("GoesAhead is %v, and Asynchronous is not", exe.GoesAhead())
	}
	in := vkc.Tensors{"x": devtest.TensorOf(t, []float32{1, 2}, 2)}
	res, err := exe.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var report *vkc.CheckReport
	if report, err = checker.Check(t.Context(), exe, in, nil, res.Outputs); err != nil {
		t.Fatal(err)
	}
	var values []vkc.ValueCheck = report.Values
	if len(values) == 0 || !report.OK() {
		t.Errorf("check: %+v", report)
	}
}

// TestDeprecatedOfDevices: the expected time on devices together is the price of their strategy.
func TestDeprecatedOfDevices(t *testing.T) {
	g := twoWeights(t)
	for strategy, open := range map[multi.Strategy]func() (*vkc.Device, error){
		multi.OneDevice:        func() (*vkc.Device, error) { return vkc.OpenSandbox("vulkan") },
		multi.PipelineParallel: func() (*vkc.Device, error) { return vkc.OpenDevice("vulkan,vulkan") },
		multi.TensorParallel:   func() (*vkc.Device, error) { return vkc.OpenTensorParallel("vulkan,vulkan") },
	} {
		dev, err := open()
		vktest.Need(t, err)
		if one := dev.Vulkan(); (one != nil) != (strategy == multi.OneDevice) || one != vk.Of(dev) {
			t.Errorf("%s: Vulkan returns %v", strategy, one)
		}
		if got := dev.Robustness(); (got != vk.Unchecked) != (strategy == multi.OneDevice) {
			t.Errorf("%s: robustness: %v", strategy, got)
		}
		got, err := dev.Expected(t.Context(), g)
		if err != nil {
			t.Fatalf("%s: %v", strategy, err)
		}
		var list []multi.Member
		for _, d := range dev.Parts() {
			list = append(list, multi.MemberOf(vk.Of(d), d.Caps()))
		}
		if want, err := multi.Expected(t.Context(), g, list, strategy, compiler.Estimate); err != nil || got != want {
			t.Errorf("%s: %v nanoseconds, want %v: %v", strategy, got, want, err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}
