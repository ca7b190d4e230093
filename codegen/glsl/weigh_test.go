package glsl

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// measured is the size of f32 ops in optimized SPIR-V, in units of 100 bytes: a thirtieth of the difference between
// kernels with chains of 40 and of 10 of them.
var measured = map[ir.Op]float64{
	ir.OpAdd: 1.5, ir.OpMul: 1.5, ir.OpDiv: 8.5, ir.OpSin: 139.4, ir.OpCos: 141, ir.OpTan: 281, ir.OpTanh: 33.7, ir.OpExp: 1,
	ir.OpLog: 59.2, ir.OpPow: 165.5, ir.OpErf: 48.2, ir.OpGelu: 9.4, ir.OpGeluErf: 52, ir.OpSilu: 3.8, ir.OpSigmoid: 3.4,
	ir.OpSoftplus: 31.5, ir.OpSinh: 33.8, ir.OpAtan2: 95.1, ir.OpMish: 66.5, ir.OpRelu: 4.6, ir.OpMax: 5.9, ir.OpMod: 24.1,
}

// TestWeigh compares the estimated sizes of ops with the measured sizes.
func TestWeigh(t *testing.T) {
	for op, want := range measured {
		if have := float64(Weigh(op, ir.F32)); have < want/2.5 || have > want*2.5 {
			t.Errorf("%s weighs %v, and takes %v", op, have, want)
		}
	}
	if single, double := Weigh(ir.OpExp, ir.F32), Weigh(ir.OpExp, ir.F64); double < 10*single {
		t.Errorf("exp of doubles weighs %d, and exp of floats %d", double, single)
	}
}
