package spirv

import (
	"slices"

	"github.com/vkc-go/vkc/internal/spv"
)

// Opcodes of SPIR-V instructions.
const (
	opCapability = 17
	opTypeInt    = 21
	opTypeFloat  = 22
	opTypeVector = 23
	opTypeArray  = 28
	opTypeStruct = 30
	opConstTrue  = 41 // the first opcode of constants
	opSpecConst  = 52 // the last opcode of constants
)

// CheckModule returns an error if module is not a complete SPIR-V module. It does not check the instructions; spirv-val
// does.
func CheckModule(module []byte) error { return spv.Check(module) }

// smallConstants reports whether a valid module has 8- or 16-bit constants, or composites of them, although its
// capabilities allow only loads, stores and conversions of these types. spirv-val and drivers reject such constants.
func smallConstants(module []byte) bool {
	// capability has the number of the capability (Int8, Int16 or Float16) for full arithmetic, by the type's opcode
	// and width.
	capability := map[[2]uint32]uint32{{opTypeInt, 8}: 39, {opTypeInt, 16}: 22, {opTypeFloat, 16}: 9}
	has := map[uint32]bool{}     // declared capabilities
	limited := map[uint32]bool{} // ids of types without full arithmetic
	found := false
	spv.Instructions(module, func(op uint32, a []uint32) {
		switch {
		case op == opCapability && len(a) >= 1:
			has[a[0]] = true
		case (op == opTypeInt || op == opTypeFloat) && len(a) >= 2:
			needs, small := capability[[2]uint32{op, a[1]}]
			limited[a[0]] = small && !has[needs]
		case (op == opTypeVector || op == opTypeArray) && len(a) >= 2:
			limited[a[0]] = limited[a[1]]
		case op == opTypeStruct && len(a) >= 1:
			limited[a[0]] = slices.ContainsFunc(a[1:], func(member uint32) bool { return limited[member] })
		case op >= opConstTrue && op <= opSpecConst && len(a) >= 1 && limited[a[0]]:
			found = true
		}
	})
	return found
}
