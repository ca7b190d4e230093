package emit

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Elements of 2 and 4 bits are packed, and some devices have no 8-bit or 16-bit elements in storage buffers; see
// device.Caps.InWords. Shaders declare such a buffer as 32-bit words. The bytes in memory are the same on all devices.
//
// Shaders extract an element from its word. Neighbours that fill whole words are stored as words. A single element is
// stored by atomics that change only its own bits, because other invocations may write the rest of the word at the same
// time. Every buffer is a whole number of words long.

// InWords reports whether the shader declares a buffer as words. A custom kernel has its own shader and declares its
// own needs.
func (j *Job) InWords(b *Buffer) bool { return j.K.Custom == nil && j.Caps.InWords(b.DType) }

// wordNames are the variables of the GLSL functions in this file. They must not hide a buffer.
var wordNames = WordSet("i v at block word low high bits shift")

// nameWordAccess reserves the names of the functions that read and write buffers in words, before variables take them.
func (e *Emitter) nameWordAccess() {
	for _, b := range e.Buffers {
		if !e.InWords(b) {
			continue
		}
		b.access = map[string]string{}
		for _, verb := range []string{"load", "load2", "load4", "store", "store2", "store4"} {
			b.access[verb] = e.Fresh(e.Root, verb+"_"+b.Base)
		}
	}
}

// unitBits is the size in bits of a unit of a buffer in words: of an element, or of a unit of a block.
func unitBits(t ir.DType) int {
	if t.IsBlock() {
		return 8 * kernel.BlockUnit(t)
	}
	return t.Bits()
}

// unitOf is the GLSL type of width units in parameters and results.
func unitOf(t ir.DType, width int) string {
	s := Scalars[t]
	switch {
	case t.IsBlock():
		return "uint"
	case width == 1:
		return s.Carrier
	}
	return fmt.Sprintf("%s%d", s.vec, width)
}

// extract returns the unit of a word that begins at bit shift, as a value of type unitOf(t, 1).
func extract(t ir.DType, word, shift string) string {
	switch unitOf(t, 1) {
	case "float":
		if shift != "0" {
			word += " >> " + shift
		}
		return "unpackHalf2x16(" + word + ").x"
	case "int":
		word = "int(" + word + ")"
	}
	return fmt.Sprintf("bitfieldExtract(%s, %s, %d)", word, shift, unitBits(t))
}

// bits returns the bits of a unit as a uint. Bits above the unit may be set.
func (ts *Types) bits(t ir.DType, value string) string {
	switch unitOf(t, 1) {
	case "float":
		ts.Helper("f32_to_f16", "float")
		return "f32_to_f16(" + value + ")"
	case "int":
		return "uint(" + value + ")"
	}
	return value
}

// wordAt returns a word of a buffer. If the kernel also writes the buffer, it returns an atomic read, because other
// invocations may change other bits of the word at the same time.
func (st *Storage) wordAt(b *Buffer, at string) string {
	word := fmt.Sprintf("%s[%s]", st.View(b, 1), at)
	if b.Write {
		return "atomicOr(" + word + ", 0u)"
	}
	return word
}

// partOfWord returns the index of the word with item i, and the item's first bit in it. Items have the given number of
// bits.
func partOfWord(bits int) (word, shift string) {
	return fmt.Sprintf("i / %du", 32/bits), fmt.Sprintf("i %% %du * %du", 32/bits, bits)
}

// loadFromWords returns a call that loads the i-th group of `width` neighbours of a buffer that is declared as words.
// It adds the called function to the shader.
func (st *Storage) loadFromWords(b *Buffer, width int, i expr.Expr) expr.Expr {
	verb, t, bits := "load", b.DType, unitBits(b.DType)
	if width > 1 {
		verb = fmt.Sprintf("load%d", width)
	}
	name := b.access[verb]
	var body, note string
	group := width * bits // the size of a group
	switch {
	case width == 1:
		word, shift := partOfWord(bits)
		if unitOf(t, 1) != "float" {
			shift = "int(" + shift + ")"
		}
		note, body = "Element i", "    return "+extract(t, st.wordAt(b, word), shift)+";\n"
	case group < 32:
		word, shift := partOfWord(group)
		body = fmt.Sprintf("    uint word = %s >> %s;\n", st.wordAt(b, word), shift) + vectorOfWords(t, width, "word")
	case group == 32:
		body = fmt.Sprintf("    uint word = %s[i];\n", st.View(b, 1)) + vectorOfWords(t, width, "word")
	default: // 64 bits
		body = fmt.Sprintf("    uint low = %s[2u * i], high = %[1]s[2u * i + 1u];\n", st.View(b, 1)) +
			vectorOfWords(t, width, "low", "high")
	}
	if note == "" {
		note = fmt.Sprintf("The i-th %d elements", width)
	}
	if st.Once(name) {
		st.Add(fmt.Sprintf("// %s of %s, which is %s in words.\n%s %s(uint i) {\n%s}\n", note, b.Name, t,
			unitOf(t, width), name, body))
	}
	return expr.Call(name, i)
}

// vectorOfWords returns the statement that returns the units in words as a vector, from the low bits up.
func vectorOfWords(t ir.DType, width int, words ...string) string {
	var units []string
	for n := range width {
		at := n * unitBits(t)
		units = append(units, extract(t, words[at/32], fmt.Sprint(at%32)))
	}
	return fmt.Sprintf("    return %s(%s);\n", unitOf(t, width), strings.Join(units, ", "))
}

// StoreToWords returns the statement that stores the i-th unit, or vector of units, of a buffer.
func (st *Storage) StoreToWords(b *Buffer, width int, i, value expr.Expr) syntax.Stmt {
	verb := "store"
	if width > 1 {
		verb = fmt.Sprintf("store%d", width)
	}
	name := b.access[verb]
	body := st.storeBody(b, width)
	if st.Once(name) {
		st.Add(fmt.Sprintf("void %s(uint i, %s v) {\n%s}\n", name, unitOf(b.DType, width), body))
	}
	return &syntax.Do{X: expr.Call(name, expr.Narrow(i), value)}
}

// storeBody returns the GLSL that stores v as the i-th group of width units of a buffer. Other invocations may store
// the rest of a word at the same time, so a group smaller than a word is stored by atomics.
func (st *Storage) storeBody(b *Buffer, width int) string {
	t, bits, array := b.DType, unitBits(b.DType), st.View(b, 1)
	unit := func(n int) string {
		if width == 1 {
			return st.bits(t, "v")
		}
		return st.bits(t, fmt.Sprintf("v[%d]", n))
	}
	// pack returns count units, beginning with unit first, packed into one word.
	pack := func(first, count int) string {
		packed := unit(first)
		for n := 1; n < count; n++ {
			packed = fmt.Sprintf("bitfieldInsert(%s, %s, %d, %d)", packed, unit(first+n), n*bits, 32-n*bits)
		}
		return packed
	}
	group := width * bits // the size of the group
	switch {
	case group < 32:
		word, shift := partOfWord(group)
		mask := fmt.Sprintf("%#xu", uint32(1)<<group-1)
		return fmt.Sprintf("    uint bits = %s & %s, shift = %s;\n", pack(0, width), mask, shift) +
			fmt.Sprintf("    atomicAnd(%s[%s], ~(%s << shift));\n    atomicOr(%[1]s[%s], bits << shift);\n", array,
				word, mask)
	case group == 32:
		return fmt.Sprintf("    %s[i] = %s;\n", array, pack(0, width))
	}
	// two words
	return fmt.Sprintf("    %s[2u * i] = %s;\n    %[1]s[2u * i + 1u] = %[3]s;\n", array, pack(0, width/2),
		pack(width/2, width/2))
}
