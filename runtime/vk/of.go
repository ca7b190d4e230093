package vk

// Of returns the *Device of a device of package vkc, for tools that measure or inspect it. It returns nil unless d is a
// single Vulkan device. Do not close it: closing d does.
func Of(d interface{ Backend() any }) *Device {
	v, _ := d.Backend().(*Device)
	return v
}

// Asynchronous returns true: see [runtime.Asynchronous].
func (e *Executable) Asynchronous() bool { return true }
