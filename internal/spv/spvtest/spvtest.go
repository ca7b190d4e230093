// Package spvtest makes SPIR-V modules for tests.
package spvtest

import "encoding/binary"

// Assemble returns a module of instructions, each its opcode and its operands.
// Ids are below 1000.
func Assemble(instructions ...[]uint32) []byte {
	words := []uint32{0x07230203, 0x00010500, 0, 1000, 0}
	for _, in := range instructions {
		words = append(words, uint32(len(in))<<16|in[0])
		words = append(words, in[1:]...)
	}
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// The instructions of a compute shader, main, that computes nothing.
var (
	Shader = []uint32{17, 1}                   // OpCapability Shader
	Main   = []uint32{15, 5, 2, 0x6e69616d, 0} // OpEntryPoint GLCompute %2 "main"
	End    = []uint32{56}                      // OpFunctionEnd
)

// LocalSize is the instruction for workgroups of that size.
func LocalSize(x, y, z uint32) []uint32 { return []uint32{16, 2, 17, x, y, z} }

// Module returns a shader with workgroups of that many invocations. It computes nothing, and contains a string of the
// given number of words of fill.
func Module(workgroup uint32, fill byte, words int) []byte {
	text := make([]uint32, 2+words)
	text[0], text[1] = 7, 1 // OpString
	for i := range words {
		text[2+i] = 0x01010101 * uint32(fill)
	}
	return Assemble(Shader, Main, LocalSize(workgroup, 1, 1), text, End)
}
