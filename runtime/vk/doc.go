// Package vk runs compute kernels on Vulkan devices.
//
// Its lower layer does not know graphs: it has devices, memory, transfers, pipelines, recorded command lists,
// submission and timestamps. Its upper layer, [Device.Load] and [Executable], loads and runs compiled programs.
//
// Start with [Open], which finds the devices. [Instance.OpenDevice] opens one, and [Device.Load] makes an [Executable]
// of a compiled program. Most users need only package vkc, which calls these.
//
// # Order
//
// All operations of a [Device] ([Device.Upload], [Device.Download], [Device.Submit]) take effect in the order of the
// calls. Every recording starts with a full barrier. If the device has a queue for transfers only, copies between host
// and device use it, and copies and recordings wait for one another. Inside a recording only [CommandList.Barrier]
// orders commands, so that independent kernels can overlap.
//
// A [runtime.DeviceTensor] is written only once, so its copies need less order and can overlap with recordings: an
// upload waits for nothing, and a read waits only for the run that writes the tensor.
//
// # Lifetime
//
// Everything made by a device has a Close method, and must be closed before the device. Closing is safe at any time:
// resources that the device may still use are kept until the submissions made so far are done. [Device.Close] reports
// and closes resources that were left open. Nothing relies on finalizers.
//
// # Availability
//
// Without cgo the package has the same API, and [Open] returns an error that wraps [ErrUnavailable]. On a machine
// without a Vulkan loader it does the same.
//
// Devices need Vulkan 1.1 with timeline semaphores. Everything else is optional; device.Caps of package codegen/device
// describes it.
package vk
