package spirv

import (
	"encoding/binary"
	"fmt"
)

const (
	magicWord    = 0x07230203
	headerWords  = 5
	maxIDBound   = 0x3FFFFF // universal limit of the SPIR-V specification, section 2.17
	opEntryPoint = 15
	opCapability = 17
	opTypeInt    = 21
	opTypeFloat  = 22
	opTypeVector = 23
	opTypeArray  = 28
	opTypeStruct = 30
	opConstTrue  = 41 // the first opcode of a constant
	opSpecConst  = 52 // the last one
	opFuncEnd    = 56
)

// CheckModule tells a whole SPIR-V module from garbage and from a truncated
// file: it checks the header (magic number, little-endian as written by the
// tools here, version 1.x, id bound) and walks the instructions, which must end
// exactly at the end with OpFunctionEnd and include an entry point. What the
// instructions say is for spirv-val to judge.
func CheckModule(module []byte) error {
	if len(module) < headerWords*4 || len(module)%4 != 0 {
		return fmt.Errorf("not SPIR-V: %d bytes, want a multiple of 4 and at least %d", len(module), headerWords*4)
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(module[4*i:]) }
	if m := word(0); m != magicWord {
		return fmt.Errorf("not SPIR-V: magic number %#08x, want %#08x", m, uint32(magicWord))
	}
	if v := word(1); v>>16 != 1 || v&0xff != 0 {
		return fmt.Errorf("not SPIR-V 1.x: version word %#08x", v)
	}
	if b := word(3); b == 0 || b > maxIDBound {
		return fmt.Errorf("damaged SPIR-V: id bound %d, want 1 to %d", b, maxIDBound)
	}
	if s := word(4); s != 0 {
		return fmt.Errorf("damaged SPIR-V: reserved header word is %#x, want 0", s)
	}
	return checkInstructions(len(module)/4, word)
}

func checkInstructions(n int, word func(int) uint32) error {
	entry, last := false, uint32(0)
	for i := headerWords; i < n; {
		size := int(word(i) >> 16)
		if size == 0 || i+size > n {
			return fmt.Errorf("damaged SPIR-V: instruction at word %d has %d words, %d are left", i, size, n-i)
		}
		last = word(i) & 0xffff
		entry = entry || last == opEntryPoint
		i += size
	}
	switch {
	case !entry:
		return fmt.Errorf("damaged SPIR-V: no entry point in %d words", n)
	case last != opFuncEnd:
		return fmt.Errorf("truncated SPIR-V: ends in opcode %d, want OpFunctionEnd", last)
	}
	return nil
}

// smallConstants reports whether a sound module has constants of types that its
// capabilities let it load, store and convert only, which spirv-val and drivers
// refuse: numbers of 8 or 16 bits, and what is made of them.
func smallConstants(module []byte) bool {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(module[4*i:]) }
	// By type's opcode and width, the capability of numbers in full.
	capability := map[[2]uint32]uint32{{opTypeInt, 8}: 39, {opTypeInt, 16}: 22, {opTypeFloat, 16}: 9}
	has, limited := map[uint32]bool{}, map[uint32]bool{}
	for i := headerWords; i < len(module)/4; {
		op, size := word(i)&0xffff, int(word(i)>>16)
		switch {
		case op == opCapability && size >= 2:
			has[word(i+1)] = true
		case (op == opTypeInt || op == opTypeFloat) && size >= 3:
			needs, small := capability[[2]uint32{op, word(i + 2)}]
			limited[word(i+1)] = small && !has[needs]
		case (op == opTypeVector || op == opTypeArray) && size >= 3:
			limited[word(i+1)] = limited[word(i+2)]
		case op == opTypeStruct:
			for k := 2; k < size; k++ {
				limited[word(i+1)] = limited[word(i+1)] || limited[word(i+k)]
			}
		case op >= opConstTrue && op <= opSpecConst && size >= 2 && limited[word(i+1)]:
			return true
		}
		i += size
	}
	return false
}
