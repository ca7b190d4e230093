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
	return func(o *openOptions) { o.open = open }
}

// OpenedByAuto makes a Vulkan device one that "auto" opened, with that limit for the fast path to load for a trial.
func OpenedByAuto(d *Device, trialLoad time.Duration) {
	if v, ok := d.kind.(*vulkan); ok {
		d.kind = &auto{vulkan: v, host: newProcessor(processorName, "", openOptions{}), timeRun: timeRun}
	}
	d.kind.(*auto).trialLoad = trialLoad
}

// SetTimeRun replaces the measurement of trial runs by f, on a device that "auto" opened.
func SetTimeRun(d *Device, f func(ctx context.Context, exe runtime.Executable, in Tensors,
	symbols map[string]int64) (time.Duration, error)) {
	d.kind.(*auto).timeRun = f
}

// SetCaps has programs compiled for a device as if those were its caps.
func SetCaps(d *Device, caps device.Caps) { d.kind.id().caps = caps }

// TrialExtents are the values of symbols that programs are tried at.
var TrialExtents = trialExtents

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
	return slices.Clone(r.under)
}
