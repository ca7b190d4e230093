package fast

import "github.com/vkc-go/vkc/ir"

// Ops lists the ops with kernels in this package.
func Ops() []ir.Op {
	var list []ir.Op
	for _, op := range ir.Ops() {
		if _, ok := rows[op]; ok || op.Class() == ir.ClassElementwise && op.Info().Float != nil {
			list = append(list, op)
		}
	}
	return list
}
