package schedule

import "github.com/vkc-go/vkc/codegen/device"

// apple returns the heuristics of Apple GPUs. An invocation has 256 registers of 16 bits, and spills beyond that.
// Subgroups have 32 invocations. Shared memory is 32 KiB, and memory is unified.
func apple(caps device.Caps) heuristics {
	t := generic(caps)
	t.registers = 128
	t.vecSums = 5 // each needs about 10 registers over blocks (golden/drivers)
	return t
}
