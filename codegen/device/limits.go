package device

// maxBindings limits the buffers of a kernel even if the device allows more: one more tensor saves little, and
// registers run out.
const maxBindings = 32

// Bindings is how many buffers fusion may have a kernel bind.
func Bindings(caps Caps) int { return int(min(caps.MaxStorageBuffers, maxBindings)) }
