package glsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// blockFormat is one row of the table of formats that kernels can read: how a
// buffer of it is declared, and functions that decode one element or four
// neighbours. NAME in them is the array, FUNC the function. Blocks of 18 or 34
// bytes are aligned to 2 bytes only, hence the 16-bit units.
type blockFormat struct {
	unit   string
	needs  []string
	scalar string // float FUNC(uint i)
	quad   string // vec4 FUNC(uint i), i a multiple of 4
}

var blockFormats = map[ir.DType]blockFormat{
	// A half scale and 32 signed bytes.
	ir.Q8_0: {
		unit: "uint16_t", needs: []string{NeedStorage16},
		scalar: `
float FUNC(uint i) {
    uint block = i / 32u * 17u;
    float scale = unpackHalf2x16(uint(NAME[block])).x;
    int pair = int(uint(NAME[block + 1u + i % 32u / 2u]));
    return scale * float(bitfieldExtract(pair, int(i % 2u) * 8, 8));
}`,
		quad: `
vec4 FUNC(uint i) {
    uint block = i / 32u * 17u;
    float scale = unpackHalf2x16(uint(NAME[block])).x;
    uint q = block + 1u + i % 32u / 2u;
    int low = int(uint(NAME[q])), high = int(uint(NAME[q + 1u]));
    return scale * vec4(bitfieldExtract(low, 0, 8), bitfieldExtract(low, 8, 8),
                        bitfieldExtract(high, 0, 8), bitfieldExtract(high, 8, 8));
}`,
	},
	// A half scale and 16 bytes: element i in the low half of byte i, element
	// i+16 in its high half, both less 8.
	ir.Q4_0: {
		unit: "uint16_t", needs: []string{NeedStorage16},
		scalar: `
float FUNC(uint i) {
    uint block = i / 32u * 9u;
    float scale = unpackHalf2x16(uint(NAME[block])).x;
    uint pair = uint(NAME[block + 1u + i % 16u / 2u]);
    uint q = pair >> (i % 2u * 8u + i % 32u / 16u * 4u) & 15u;
    return scale * (float(q) - 8.0);
}`,
		quad: `
vec4 FUNC(uint i) {
    uint block = i / 32u * 9u;
    float scale = unpackHalf2x16(uint(NAME[block])).x;
    uint q = block + 1u + i % 16u / 2u;
    uint four = uint(NAME[q]) | uint(NAME[q + 1u]) << 16;
    uvec4 quants = uvec4(four, four >> 8, four >> 16, four >> 24) >> i % 32u / 16u * 4u & 15u;
    return scale * (vec4(quants) - 8.0);
}`,
	},
}

func blockNeeds(t ir.DType) []string { return blockFormats[t].needs }

// readableFormats lists the block formats that have kernels.
func readableFormats() string {
	var names []string
	for t := range blockFormats {
		names = append(names, t.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// blockDecoder returns the function that decodes one element of a buffer of
// blocks, or four neighbours, and sees to it that the text has it.
func (e *emitter) blockDecoder(b *buffer, width int) string {
	f, ok := blockFormats[b.DType]
	if !ok {
		e.fail("binding %s is %s, which no kernel reads yet: formats with kernels are %s", b.Name, b.DType, readableFormats())
		return "unknown"
	}
	name, source := "decode_"+b.base, f.scalar
	if width == 4 {
		name, source = "decode4_"+b.base, f.quad
	} else if width != 1 {
		e.fail("no decoder of %d elements of %s", width, b.DType)
	}
	if !e.tables[name] {
		e.tables[name] = true
		source = strings.NewReplacer("NAME", e.view(b, 1), "FUNC", name).Replace(strings.TrimPrefix(source, "\n"))
		e.decoders = append(e.decoders, fmt.Sprintf("// %s: %d elements in %d bytes.\n%s\n", b.DType, b.DType.BlockElems(), b.DType.BlockBytes(), source))
	}
	return name
}
