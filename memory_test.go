package vkc_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestMemoryByOwner: all memory of a device belongs to somebody, who gives it back.
func TestMemoryByOwner(t *testing.T) {
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		ctx := t.Context()
		weights := vkc.WeightMap{"w": devtest.TensorOf(t, []float32{1, 2, 3, 4}, 4)}
		exe, err := dev.LoadGraph(ctx, sharing(t, "memory", 1, 4), weights)
		if err != nil {
			t.Fatal(err)
		}
		owners := []runtime.MemoryOwner{runtime.OwnWeights, runtime.OwnStates}
		if vk.Of(dev) != nil {
			owners = append(owners, runtime.OwnPorts)
		}
		for _, owner := range owners {
			if dev.Memory()[owner] == 0 {
				t.Errorf("%s have nothing: %v", owner, dev.Memory())
			}
		}
		x := upload(t, exe, devtest.TensorOf(t, make([]float32, 256), 256))
		if use := dev.Memory(); use[runtime.OwnTensors] != 1024 {
			t.Errorf("a tensor of 1024 bytes: %v", use)
		}
		if err := errors.Join(x.Close(), exe.Close(), dev.Synchronize(ctx)); err != nil {
			t.Fatal(err)
		}
		if use := dev.Memory(); use.Total() != use[runtime.OwnStaging] {
			t.Errorf("when all is closed: %v", use)
		}
		if v := vk.Of(dev); v != nil && v.MemoryStats().InUse != dev.Memory().Total() {
			t.Errorf("%d bytes in use, and of owners %v", v.MemoryStats().InUse, dev.Memory())
		}
	})
}

// TestMemoryLimit: an allocation above the limit is an error that lists the current users of memory. After tensors are
// closed there is room again.
func TestMemoryLimit(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := t.Context()
	devtest.OpenDevice(t) // skips the test if there is no device
	dev, err := vkc.OpenDevice("vulkan", vkc.WithMemoryLimit(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	exe := loadStepping(t, dev, 1<<12) // inputs and outputs of 64 KiB
	x := upload(t, exe, devtest.TensorOf(t, make([]float32, 1<<14), 1<<12, 4))
	var held []*vkc.DeviceTensor
	for err == nil && len(held) < 100 {
		var res *vkc.Result
		if res, err = exe.Run(ctx, nil, given(x, "next")); err == nil {
			held = append(held, res.Kept["next"])
		}
	}
	devtest.WantError(t, err, "kept output next", "limited to 1.0 MiB", "in use are", "device tensors, ",
		"close device tensors", "or a higher limit")
	var memory *vk.OutOfMemoryError
	if !errors.As(err, &memory) || memory.Use.Largest()[0] != runtime.OwnTensors ||
		memory.Use.Total() > 1<<20 || memory.Use.Total()+memory.Requested <= 1<<20 {
		t.Fatalf("%+v", memory)
	}
	for _, h := range held {
		h.Close()
	}
	res, err := exe.Run(ctx, nil, given(x, "next"))
	if err != nil {
		t.Fatal(err)
	}
	res.Kept["next"].Close()
	x.Close()
	_, err = dev.LoadGraph(ctx, stepping(t, 1<<20), nil)
	devtest.WantError(t, err, "the program as a whole", "limited to 1.0 MiB")
}

// TestWithoutCopies: a program that would keep decoded copies of its weights is compiled again without them, if others
// have taken the memory since. It computes the same, and says so.
func TestWithoutCopies(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	devtest.OpenDevice(t) // skips the test if there is no device
	const n, layers, limit = 256, 8, 8 << 20
	g := devtest.Build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F16, 4, n)
		for i := range layers { // a scan of the decoded weight is a kernel of its own
			w := b.Weight(fmt.Sprint("w", i), ir.Q8_0, n, n)
			x = x.MatMul(w.Dequantize(ir.F16).CumSum(1)).Tanh()
		}
		b.Output("y", x)
	})
	weights := vkc.WeightMap{}
	for i := range layers {
		w, err := ir.NewData(ir.Q8_0, n, n)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float32, n*n)
		for j := range values {
			values[j] = float32((j*7+i)%19-9) / 256
		}
		if err := quant.Quantize(w.Bytes, ir.Q8_0, values, nil); err != nil {
			t.Fatal(err)
		}
		weights[fmt.Sprint("w", i)] = w
	}
	x, err := ir.FromFloats(ir.F16, slices.Repeat([]float64{0.5, -0.25}, 2*n), 4, n)
	if err != nil {
		t.Fatal(err)
	}
	results := map[bool]*ir.Data{}
	for _, full := range []bool{false, true} {
		dev, err := vkc.OpenDevice("vulkan", vkc.WithMemoryLimit(limit))
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		program, err := dev.Compile(t.Context(), g, vkc.CompileOptions{Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		if full { // all but 1.4 MB: the weights need 0.6, the copies 1.0, and the temporaries less
			holder := loadStepping(t, dev, 1<<4)
			held := upload(t, holder, devtest.TensorOf(t, make([]float32, (limit-14e5)/4), (limit-14e5)/4))
			defer held.Close()
		}
		exe, err := dev.Load(t.Context(), program, vkc.LoadOptions{Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		if exe.WithoutCopies() != full || strings.Contains(exe.Why(), vkc.WithoutCopies) != full {
			t.Errorf("the device is full: %v; without copies: %v, %q", full, exe.WithoutCopies(), exe.Why())
		}
		res, err := exe.Run(t.Context(), vkc.Tensors{"x": x})
		if err != nil {
			t.Fatal(err)
		}
		results[full] = res.Outputs["y"]
	}
	if !bytes.Equal(results[true].Bytes, results[false].Bytes) {
		t.Error("the results differ")
	}
}
