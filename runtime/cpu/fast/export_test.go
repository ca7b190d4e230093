package fast

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// EachWidth is eachWidth.
func EachWidth(t *testing.T, test func(t *testing.T)) { eachWidth(t, test) }

// Ops lists the ops with kernels in this package.
func Ops() []ir.Op {
	var list []ir.Op
	for _, op := range ir.Ops() {
		_, ok := rows[op]
		in := op.Info()
		ok = ok || op == ir.OpConv || op == ir.OpConvTranspose
		if ok || in.Class == ir.ClassElementwise && in.Float != nil || foldable(op) ||
			in.Class == ir.ClassReduce && wordReducer(op, ir.I32, 1) != nil {
			list = append(list, op)
		}
	}
	return list
}

// SetConvRoom sets the size of a convolution's parts, and returns a function that restores it.
func SetConvRoom(n int) (restore func()) {
	before := taskElems
	taskElems = n
	return func() { taskElems = before }
}
