// Package vk runs compute kernels on Vulkan devices.
//
// This is its lower layer: devices, memory, transfers, pipelines, recorded command lists, submission and
// timestamps. It knows nothing of graphs; the loading of compiled programs, [Device.Load], stands on top of it.
//
// Start from [Open], which finds the devices, [Instance.OpenDevice], and [Device.Load], which makes a
// compiled program an [Executable]. Most programs use package vkc, which does all of that.
//
// # Order
//
// All that a [Device] is given ([Device.Upload], [Device.Download], [Device.Submit]) takes effect as if one were done
// after the other, in the order of the calls: every recording starts with a full barrier, and copies between host and
// device, which have a queue of their own where the device has one for transfers alone, wait for recordings and these
// for them. Inside one recording nothing is ordered but what [CommandList.Barrier] orders, so that independent kernels
// overlap. Tensors that an [Executable] is given or leaves on the device are written once. So copies of them go beside
// recordings: one that is uploaded waits for nothing, and one that is read waits for the run that wrote it.
//
// # Lifetime
//
// Everything made by a device has a Close method, and is to be closed before the device. Closing is
// safe at any time: what the device may still be using is kept until the submissions made so far are
// done. [Device.Close] reports what was left open, and closes it. Nothing relies on finalizers.
//
// # Availability
//
// Built without cgo the package has the same API, and [Open] returns an error that wraps
// [ErrUnavailable], as it does where the machine has no Vulkan loader.
//
// Devices need Vulkan 1.1 with timeline semaphores; everything else is optional and told by
// target.Caps of package codegen/target.
package vk
