package vk_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/apitest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// api is this package.
var api apitest.Package

func TestNothing(t *testing.T) {
	api.Complete(t, (*vk.Instance)(nil), (*vk.Device)(nil), (*vk.Buffer)(nil), (*vk.Bindings)(nil), (*vk.Pipeline)(nil),
		(*vk.CommandList)(nil), (*vk.Recording)(nil), (*vk.Timestamps)(nil), (*vk.Executable)(nil), (*vk.Replicas)(nil),
		(*vk.Burst)(nil), (*vk.HostBuffer)(nil), (*vk.Peers)(nil), (*vk.PeerBuffers)(nil),
		vk.Clock{}, vk.MemoryKind(0), vk.Robustness(0), vk.Result(0), (*vk.Error)(nil), (*vk.OutOfMemoryError)(nil),
		(*vk.MismatchError)(nil),
		(*vk.OverrunError)(nil))
	api.Calls(t, &vk.Error{}, &vk.OutOfMemoryError{}, &vk.MismatchError{}, &vk.OverrunError{},
		(*vk.Device)(nil).NewCommandList())
}

// TestNothingOnDevice calls an open device, and then it and all that was made on
// it once it is closed.
func TestNothingOnDevice(t *testing.T) {
	inst := vktest.Instance(t)
	index, _, err := vk.Choose(inst.Devices(), os.Getenv("VKC_DEVICE"))
	vktest.Need(t, err)
	d, err := inst.OpenDevice(index, vk.DeviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	api.Calls(t, openDevice{d})
	buffer, err := d.NewBuffer("x", 64, vk.UploadMemory)
	if err != nil {
		t.Fatal(err)
	}
	list := d.NewCommandList()
	list.FillBuffer(buffer, 0, 64, 1)
	recording, err := d.Record("fill", list)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := weighted(t)
	e, err := d.Load(context.Background(), f.program, f.spirv, f.weights, vk.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	api.Calls(t, d.NewCommandList())
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "still open") {
		t.Errorf("closing over open things: %v", err)
	}
	api.Calls(t, d, buffer, recording, e, d.NewCommandList())
}

// openDevice hides the Close of a device.
type openDevice struct{ *vk.Device }

func (openDevice) Close() error { return nil }
