package device

// maxBindings limits the number of buffers of a kernel even if the device allows more: fusing one more tensor then
// saves little, and registers run out.
const maxBindings = 32

// Bindings is the maximum number of buffers that fusion may bind to one kernel.
func Bindings(caps Caps) int { return int(min(caps.MaxStorageBuffers, maxBindings)) }
