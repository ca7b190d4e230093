package emit

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

var matrixElements = map[ir.DType]string{ir.F16: "float16_t", ir.BF16: "bfloat16_t", ir.F32: "float",
	ir.I8: "int8_t", ir.U8: "uint8_t", ir.I32: "int", ir.U32: "uint"}

// MatrixElement is the GLSL element type of cooperative matrices of a dtype.
func MatrixElement(t ir.DType) string { return matrixElements[t] }

// MatrixType is the GLSL type of a cooperative matrix. scope is Subgroup or Workgroup, and use is A, B or Accumulator.
func MatrixType(scope string, t ir.DType, rows, cols int, use string) string {
	return fmt.Sprintf("coopmat<%s, gl_Scope%s, %d, %d, gl_MatrixUse%s>", MatrixElement(t), scope, rows, cols, use)
}

// MultiplyAdd writes sum += a * b for cooperative matrices.
func (c *Code) MultiplyAdd(sum, a, b expr.Expr) {
	c.Assign(sum, expr.Call("coopMatMulAdd", a, b, sum))
}

// LoadMatrix writes a load of a cooperative matrix from an array, beginning at index at. major is Row or Column.
func (c *Code) LoadMatrix(to, array, at expr.Expr, pitch int, major string) {
	c.Do("coopMatLoad", to, array, at, expr.Uint(pitch), syntax.Ident("gl_CooperativeMatrixLayout"+major+"Major"))
}

// StoreMatrix writes a statement that stores the matrix from to a shared array, from index at on. pitch and major are
// as for LoadMatrix.
func (c *Code) StoreMatrix(from, array, at expr.Expr, pitch int, major string) {
	c.Do("coopMatStore", from, array, at, expr.Uint(pitch), syntax.Ident("gl_CooperativeMatrixLayout"+major+"Major"))
}

// Fragment is the GLSL type of a cooperative matrix of subgroup scope. use is A, B or Accumulator.
func Fragment(f kernel.Fragment, t ir.DType, use string) string {
	rows, cols := f.FragM, f.FragN
	switch use {
	case "A":
		cols = f.FragK
	case "B":
		rows = f.FragK
	}
	return MatrixType("Subgroup", t, rows, cols, use)
}

// Dot returns the sum of the four products of two vec4. The sum of a matmul or an attention may be computed in any
// order and with fused multiply-adds, so Dot is dot of GLSL. On a device that fuses nothing, a helper fixes the order
// of the operations (see [device.FusesNothing]).
func (r *Requirements) Dot(a, b expr.Expr) expr.Expr {
	name := "dot"
	if device.FusesNothing(r.Caps) {
		name = "dot_in_order"
		r.Helper(name, "vec4")
	}
	return expr.Call(name, a, b)
}

// Shuffled returns the value of x in the subgroup's invocation with the number (own number XOR mask).
func Shuffled(x expr.Expr, mask int) expr.Expr {
	return expr.Call("subgroupShuffleXor", x, expr.Uint(mask))
}

// AtLeast writes x = max(x, other).
func (c *Code) AtLeast(x, other expr.Expr) { c.Assign(x, expr.Call("max", x, other)) }

// AddProduct writes sum += a * b, as fma or as a helper that fixes the order (see Dot). All operands have the given
// type.
func (e *Emitter) AddProduct(typ string, sum, a, b expr.Expr) {
	name := "fma"
	if device.FusesNothing(e.Caps) {
		name = "fma_in_order"
		e.Helper(name, typ)
	}
	e.Assign(sum, expr.Call(name, a, b, sum))
}
