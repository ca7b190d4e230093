package schedule

import "github.com/vkc-go/vkc/codegen/device"

// qualcomm returns the heuristics of Adreno GPUs. They run waves of 64 or 128 invocations and have 32 KiB of shared
// memory in the shader processor. Kernels with many registers leave few waves resident, so invocations compute tiles of
// at most 4x4.
func qualcomm(caps device.Caps) heuristics {
	t := generic(caps)
	t.registers = 128 // half of the 192 that allow 2 waves of 16 on a core
	// A workgroup shares 48 Ki registers. With 512 invocations, a kernel that needs 90 of 96 spills (golden/drivers).
	t.registerFile = 44 << 10
	t.byteWord, t.unrolled = 3, 128 // the values of Mesa's compiler (golden/drivers)
	t.rowLanes = 256
	t.vecWorkgroup = 128
	t.vecSums = 8 // each needs about 10 registers over blocks (golden/drivers)
	return t
}
