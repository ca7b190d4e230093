// Package device describes devices: their features, limits and speed.
//
// Start from [Caps], plain data about one device. Package runtime/vk fills it in for a live device, and built-in
// profiles have it too ([Profile], profiles/*.json). [MachineOf] returns the rates of a device: measured rates, or the
// rates in the profile of its class ([Class], vendors.go). [Caps.Without] turns features off. drivers.go has the
// workarounds for drivers.
//
// Package codegen/schedule chooses the schedules of kernels on a device.
package device
