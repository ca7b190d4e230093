package fast

import "github.com/vkc-go/vkc/ir"

// Ops are the ops of which nodes are computed here.
func Ops() []ir.Op {
	var list []ir.Op
	for _, op := range ir.Ops() {
		if _, ok := rows[op]; ok || op.Class() == ir.ClassElementwise && op.Info().Float != nil {
			list = append(list, op)
		}
	}
	return list
}
