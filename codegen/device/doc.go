// Package device describes devices: what each can do and how fast it is.
//
// Start from [Caps], plain data that runtime/vk fills in for a live device, or that a built-in profile has ([Profile],
// profiles/*.json). [MachineOf] has the rates of a device: measured ones, or those of the profile of its class
// ([Class], vendors.go). [Caps.Without] turns features off. drivers.go has what drivers do otherwise than they say.
//
// How a kernel is scheduled on a device is chosen by package codegen/schedule.
package device
