package vk

// Of returns the Vulkan device behind a device of package vkc, for tools that measure or inspect it. It is nil if
// programs do not run on exactly one Vulkan device. The owner closes it.
func Of(d interface{ Backend() any }) *Device {
	v, _ := d.Backend().(*Device)
	return v
}

// GoesAhead is for runtime.GoesAhead.
func (e *Executable) GoesAhead() bool { return true }
