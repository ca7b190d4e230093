package vkc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/runtime/vk"
)

// The names of the CPU devices, in Caps (Name) and for OpenDevice (Want). The fast path has the kernels of
// runtime/cpu/fast; the reference interprets each op.
const (
	processorName = "CPU fast path"
	processorWant = "cpu"
	referenceName = "CPU reference"
	referenceWant = "reference"
	autoWant      = "auto"
)

// OpenDevice opens a device:
//
//   - "auto" or "": the fastest one, see below;
//   - "vulkan": the best Vulkan device, in the order discrete, integrated, virtual, software;
//   - "cpu": the CPU fast path, with kernels for the CPU and without Vulkan;
//   - "reference": the CPU reference, the slow and simple specification of every op;
//   - a number: the Vulkan device with that index in `vkc devices`;
//   - anything else: the best Vulkan device whose name contains it;
//   - a list such as "0,1": several of these as one device; see [Devices.Together].
//
// "auto" opens the best GPU. A graph that cannot be compiled for the GPU or loaded there runs on the CPU fast path, and
// [Executable.Why] says why: the GPU may lack a feature or memory, its driver may fail, or a GLSL compiler may be
// missing. If a GPU cannot be opened, "auto" opens the fast path, and [Device.Fallback] says why. Only "auto" falls
// back to the CPU. On a named device a failed compile or load is an error.
//
// On a machine without a GPU, "auto" opens the fast path, where programs begin at once. It tries a program that runs
// long, or often, on a Vulkan device in software; see [Executable.Why]. Only graphs with custom ops run there from the
// beginning. On Linux a machine without a device node of a GPU, such as /dev/dri/renderD128, has none.
//
// If the device does not exist OpenDevice returns an error, which is [vk.ErrUnavailable] if there is no Vulkan device
// at all.
func OpenDevice(want string, opt ...DeviceOption) (*Device, error) {
	all, err := OpenDevices(want, opt...)
	if err != nil {
		return nil, err
	}
	return all.Together()
}

// DeviceOption adjusts OpenDevice.
type DeviceOption func(*openOptions)

// openOptions are the options of OpenDevice.
type openOptions struct {
	vk.DeviceOptions
	open       func() (*vk.Instance, error) // vk.Open; tests replace it
	mayHaveGPU func() bool                  // vk.MayHaveGPU; tests replace it
}

// WithMemoryLimit limits the bytes of everything on a Vulkan device: weights, states, temporaries, inputs and outputs,
// device tensors and staging. An allocation beyond it fails with a *[vk.OutOfMemoryError], which lists the owners of
// memory. 0 means only the device's own limit. The CPU fast path applies the limit to the values of each run.
func WithMemoryLimit(bytes uint64) DeviceOption {
	return func(o *openOptions) { o.MemoryLimit = bytes }
}

// OpenSandbox is [OpenDevice] for untrusted programs: the driver checks every buffer access of their kernels, which
// costs time. [vk.Device.Robustness] returns the guarantee of the driver.
func OpenSandbox(want string, opt ...DeviceOption) (*Device, error) {
	return OpenDevice(want, append(slices.Clone(opt), func(o *openOptions) { o.Robust = true })...)
}

// OpenDevices opens the devices of a list such as "0,1". Each name is one that [OpenDevice] accepts. A device named
// twice is opened twice; both share the hardware.
func OpenDevices(list string, opt ...DeviceOption) (_ Devices, err error) {
	options := openOptions{open: vk.Open, mayHaveGPU: vk.MayHaveGPU}
	for _, set := range opt {
		if set != nil {
			set(&options)
		}
	}
	var all Devices
	defer func() {
		if err != nil {
			err = errors.Join(err, all.Close())
		}
	}()
	for want := range strings.SplitSeq(list, ",") {
		if want = strings.TrimSpace(want); want == "" && strings.Contains(list, ",") {
			return nil, fmt.Errorf("devices %q: a name is missing: want a list such as 0,1", list)
		}
		one, err := openKind(want, options)
		if err != nil {
			return nil, err
		}
		all = append(all, &Device{kind: one})
	}
	return all, nil
}

// openKind opens one device by its name: the CPU fast path, the reference, "auto", or a Vulkan device.
func openKind(want string, options openOptions) (kind, error) {
	switch {
	case strings.EqualFold(want, processorWant):
		return newProcessor(processorName, "asked for", options), nil
	case strings.EqualFold(want, referenceWant):
		return newProcessor(referenceName, "asked for", options), nil
	case want == "" || strings.EqualFold(want, autoWant):
		return openAuto(want, options), nil
	}
	d, err := openVulkan(want, options)
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", want, err)
	}
	return d, nil
}
