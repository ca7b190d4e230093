package device

// maxBindings is how many buffers a kernel binds at most, however many the device
// allows: what one tensor more saves becomes little, and registers run out.
const maxBindings = 32

// Bindings is how many buffers fusion may have a kernel bind.
func Bindings(caps Caps) int { return int(min(caps.MaxStorageBuffers, maxBindings)) }
