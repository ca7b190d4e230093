package vkc_test

import (
	"errors"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/devtest"
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
