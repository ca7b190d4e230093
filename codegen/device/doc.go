// Package device describes devices: their features, limits and speed.
//
// Start from [Caps], plain data that runtime/vk fills in for a live device, or that a built-in profile has ([Profile],
// profiles/*.json). [MachineOf] returns the rates of a device: measured rates, or the rates in its class's profile
// ([Class], vendors.go). [Caps.Without] turns features off. drivers.go has the workarounds for drivers.
//
// Package codegen/schedule chooses the schedules of kernels on a device.
package device
