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
