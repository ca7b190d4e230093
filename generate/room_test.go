package generate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestNoRoom: a model with too large a KV cache is rejected before compilation. The error has the sizes.
func TestNoRoom(t *testing.T) {
	path := changed(t, gguf.KV{Key: "llama.context_length", Value: uint32(1 << 30)})
	_, err := generate.Open(t.Context(), path, generate.Options{Device: "cpu", Context: 1 << 30, Cache: ir.F16})
	var room *generate.RoomError
	if !errors.As(err, &room) {
		t.Fatalf("%v, want a RoomError", err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var weights uint64
	for _, name := range f.Names() {
		d, err := f.Weight(name)
		if err != nil {
			t.Fatal(err)
		}
		weights += uint64(len(d.Bytes))
	}
	if room.Weights != weights || room.Caches < 1<<36 || room.Have >= room.Caches {
		t.Errorf("%+v, want weights of %d bytes and more keys and values than memory", room, weights)
	}
	if !strings.Contains(room.Error(), "--ctx") {
		t.Errorf("%v says not what to do", room)
	}
}

// TestGPUMemory: a device without its own memory rejects a GPU memory limit.
func TestGPUMemory(t *testing.T) {
	devices := []string{"cpu"}
	if dev, err := vkc.OpenDevice("vulkan"); err == nil {
		if !vk.Of(dev).HasHostMemory() {
			devices = append(devices, "vulkan")
		}
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, device := range devices {
		_, err := generate.Open(t.Context(), gollama, generate.Options{Device: device, Context: 64, GPUMemory: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), "shares the host's memory") {
			t.Errorf("%s: %v", device, err)
		}
	}
}
