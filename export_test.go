package vkc

import (
	"context"
	"slices"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// WithVulkan opens Vulkan by another function.
func WithVulkan(open func() (*vk.Instance, error)) DeviceOption {
	return func(o *openOptions) { o.open, o.mayHaveGPU = open, func() bool { return true } }
}

// OpenedByAuto makes a Vulkan device a GPU that "auto" opened.
func OpenedByAuto(d *Device) {
	d.kind = &auto{d.kind.(*vulkan), newProcessor(processorName, "", openOptions{})}
}

// WithoutGPU has "auto" find no GPU on this machine.
func WithoutGPU() DeviceOption {
	return func(o *openOptions) { o.mayHaveGPU = func() bool { return false } }
}

// SetTrial sets how long programs run before they are tried, the memory of a trial in bytes, and the clock for runs.
func SetTrial(d *Device, after time.Duration, bytes int64,
	clock func(runtime.Executable, func() error) (time.Duration, error)) {
	d.kind.(*software).limits = trialLimits{fixed: after, times: 1, bytes: bytes, clock: clock}
}

// SetCaps has programs compiled for a device as if those were its caps.
func SetCaps(d *Device, caps device.Caps) { d.kind.id().caps = caps }

// HoldStarts has runs that are started wait until the function that it returns is called.
func (e *Executable) HoldStarts(ctx context.Context) (release func(), err error) {
	x, err := e.starts.enter(ctx, 0)
	if err != nil {
		return nil, err
	}
	return func() {
		e.starts.next()
		e.starts.leave()
	}, e.starts.wait(ctx, x)
}

// Under is how many runs are on their way, by device.
func Under(r *Replicas) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.inProgress)
}
