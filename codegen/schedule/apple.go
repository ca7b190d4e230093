package schedule

import "github.com/vkc-go/vkc/codegen/device"

// apple: an invocation has 256 registers of 16 bits, and beyond spills. Subgroups of 32, 32 KiB of shared memory,
// unified memory.
func apple(caps device.Caps) heuristics {
	t := generic(caps)
	t.registers = 128
	t.vecSums = 5 // each needs about 10 registers over blocks (golden/drivers)
	return t
}
