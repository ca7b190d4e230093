package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/ir"
)

// needMatrix records the device features of matrices of a dtype.
func (e *emitter) needMatrix(t ir.DType) {
	switch t {
	case ir.BF16:
		e.need(NeedBFloat16Matrix)
	case ir.I8, ir.U8:
		e.need(NeedInt8)
	default:
		e.need(NeedFloat16)
	}
}

var matrixElements = map[ir.DType]string{ir.F16: "float16_t", ir.BF16: "bfloat16_t", ir.F32: "float",
	ir.I8: "int8_t", ir.U8: "uint8_t", ir.I32: "int", ir.U32: "uint"}

// matrixElement is the element type of matrices of a dtype.
func matrixElement(t ir.DType) string {
	return matrixElements[t]
}

// matrixType is the type of a cooperative matrix of a scope. use is A, B or Accumulator.
func matrixType(scope string, t ir.DType, rows, cols int, use string) string {
	return fmt.Sprintf("coopmat<%s, gl_Scope%s, %d, %d, gl_MatrixUse%s>", matrixElement(t), scope, rows, cols, use)
}

// multiplyAdd adds the product of two cooperative matrices to a third.
func (e *emitter) multiplyAdd(sum, a, b text) { e.assign(sum, call("coopMatMulAdd", a, b, sum)) }

// loadMatrix loads a cooperative matrix from an array. major is Row or Column.
func (e *emitter) loadMatrix(to, array, at text, pitch int, major string) {
	e.do("coopMatLoad", to, array, at, uintLit(pitch), syntax.Ident("gl_CooperativeMatrixLayout"+major+"Major"))
}

// storeMatrix is the inverse of loadMatrix.
func (e *emitter) storeMatrix(from, array, at text, pitch int, major string) {
	e.do("coopMatStore", from, array, at, uintLit(pitch), syntax.Ident("gl_CooperativeMatrixLayout"+major+"Major"))
}

// fragment is the type of a cooperative matrix of subgroup scope.
func (e *emitter) fragment(t ir.DType, use string) string {
	rows, cols := e.sched.FragM, e.sched.FragN
	switch use {
	case "A":
		cols = e.sched.FragK
	case "B":
		rows = e.sched.FragK
	}
	return matrixType("Subgroup", t, rows, cols, use)
}
