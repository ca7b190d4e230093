package fast

import "github.com/vkc-go/vkc/ir"

// Rows are the ops of the table.
func Rows() []ir.Op {
	var list []ir.Op
	for op := range rows {
		list = append(list, op)
	}
	return list
}
