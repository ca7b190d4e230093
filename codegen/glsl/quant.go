package glsl

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// blockFormat is a row of the table of block formats as kernels read it.
type blockFormat struct{ *ir.BlockFormat }

// scaleType is what the scale snippet returns.
func scaleType(f ir.BlockForm) string {
	if f.Affine {
		return "vec2"
	}
	return "float"
}

// blockUnits gives, by the alignment of a format's blocks, the unit in which
// buffers of it are read.
var blockUnits = map[int]struct {
	name    string
	need    string
	readers string
}{
	4: {"uint", "", `
uint word_NAME(uint block, uint at) {
    return NAME[block * UNITSu + at / 4u];
}
uint short_NAME(uint block, uint at) {
    return NAME[block * UNITSu + at / 4u] >> at % 4u * 8u & 0xffffu;
}
uint byte_NAME(uint block, uint at) {
    return NAME[block * UNITSu + at / 4u] >> at % 4u * 8u & 0xffu;
}
float half_NAME(uint block, uint at) {
    return unpackHalf2x16(short_NAME(block, at)).x;
}`},
	2: {"uint16_t", NeedStorage16, `
uint word_NAME(uint block, uint at) {
    uint i = block * UNITSu + at / 2u;
    return uint(NAME[i]) | uint(NAME[i + 1u]) << 16;
}
uint short_NAME(uint block, uint at) {
    return uint(NAME[block * UNITSu + at / 2u]);
}
uint byte_NAME(uint block, uint at) {
    return uint(NAME[block * UNITSu + at / 2u]) >> at % 2u * 8u & 0xffu;
}
float half_NAME(uint block, uint at) {
    return unpackHalf2x16(short_NAME(block, at)).x;
}`},
	1: {"uint8_t", NeedStorage8, `
uint word_NAME(uint block, uint at) {
    uint i = block * UNITSu + at;
    return uint(NAME[i]) | uint(NAME[i + 1u]) << 8 | uint(NAME[i + 2u]) << 16 | uint(NAME[i + 3u]) << 24;
}
uint byte_NAME(uint block, uint at) {
    return uint(NAME[block * UNITSu + at]);
}`},
}

func blockNeeds(t ir.DType) []string {
	if need := blockUnits[kernel.BlockUnit(t)].need; need != "" {
		return []string{need}
	}
	return nil
}

// blockFormatOf returns the row of a buffer's format.
func (e *emitter) blockFormatOf(b *buffer) blockFormat {
	f, ok := ir.BlockFormatOf(b.DType)
	if !ok {
		e.fail("binding %s is %s, which is no block format", b.Name, b.DType)
		f = &ir.BlockFormat{}
	}
	return blockFormat{f}
}

// blockDecoder returns the function that decodes one element of a buffer of
// blocks, or four neighbours, and sees to it that the text has it.
func (e *emitter) blockDecoder(b *buffer, width int) string {
	f := e.blockFormatOf(b)
	if e.err != nil {
		return "unknown"
	}
	e.blockLevels(b)
	typ, element := "float", "[e % 4u]"
	switch width {
	case 1:
	case 4:
		typ, element = "vec4", ""
	default:
		e.fail("no decoder of %d elements of %s", width, b.DType)
	}
	levels := "levels_NAME(block, " + f.firstOf(b.DType, width == 4) + f.planeArg("e / STRIDEu % PLANESu") + ")" +
		element
	position, place := "uint", "uint block = i / ELEMSu, e = i % ELEMSu;"
	if b.wide {
		position, place = "int64_t", "uint block = uint(i / ELEMSu), e = uint(i % ELEMSu);"
	}
	lines := []string{place}
	if f.Affine { // fused, multiplication and addition would round once, and the host rounds twice
		lines = append(lines, "vec2 scale = scale_NAME(block, e);",
			"precise "+typ+" value = scale.x * "+levels+" + scale.y;", "return value;")
	} else {
		lines = append(lines, "return scale_NAME(block, e) * "+levels+";")
	}
	name := "decode_" + b.base
	note := "// Element i."
	if width == 4 {
		name, note = "decode4_"+b.base, "// Elements i to i+3, i being a multiple of 4."
	}
	e.blockFunction(b, typ+" "+name+"("+position+" i)", note, strings.Join(lines, "\n"))
	return name
}

// firstOf prints the first element, in plane 0, of the quad that element e of a
// block is in; whole says that e begins a quad.
func (f blockFormat) firstOf(t ir.DType, whole bool) string {
	switch {
	case f.Planes == 1 && whole:
		return "e"
	case f.Planes == 1:
		return "e / 4u * 4u"
	case f.Stride == 4:
		return "e / SUPERBLOCKu * SUPERBLOCKu"
	}
	first := "e % STRIDEu"
	if !whole {
		first += " / 4u * 4u"
	}
	if f.Superblock() < t.BlockElems() {
		first = "e / SUPERBLOCKu * SUPERBLOCKu + " + first
	}
	return first
}

// planeArg prints the plane as a further argument, if there are several.
func (f blockFormat) planeArg(p string) string {
	if f.Planes == 1 {
		return ""
	}
	return ", " + p
}

// blockParts makes the text have the functions of a format's snippets over a
// buffer.
func (e *emitter) blockParts(b *buffer) {
	f := e.blockFormatOf(b)
	e.blockScale(b)
	if f.Decode.Levels != "" {
		e.blockFunction(b, "vec4 levels_NAME"+f.quadArgs(), f.quadNote()+".", f.Decode.Levels)
		return
	}
	narrow := strings.NewReplacer("WORDS(", "WORD(", "QUANTS", "uint")
	e.blockFunction(b, "uint quants_NAME"+f.quadArgs(), f.quadNote()+", a byte each.", narrow.Replace(f.Decode.Quants))
}

// blockScale makes the text have the function of a buffer's scales.
func (e *emitter) blockScale(b *buffer) {
	f := e.blockFormatOf(b)
	scale := f.Decode.Scale
	if b.Layout == kernel.LayoutPlanes && f.Decode.PlaneScale != "" {
		scale = f.Decode.PlaneScale
	}
	e.blockFunction(b, scaleType(f.BlockForm)+" scale_NAME(uint block, uint e)", fmt.Sprintf(
		"// %s: %d elements in %d bytes. The scale%s%s.", b.DType, b.DType.BlockElems(), b.DType.BlockBytes(),
		map[bool]string{true: " and offset"}[f.Affine],
		map[bool]string{true: " of element e"}[len(mentions(scale, "e")) > 0]), scale)
}

// quadArgs and quadNote are the parameters of a function of a quad, and what a
// reader is told of them.
func (f blockFormat) quadArgs() string { return "(uint block, uint e" + f.planeArg("uint p") + ")" }

func (f blockFormat) quadNote() string {
	note := "// Four neighbours from element e on"
	if f.Planes > 1 {
		note += ", or p times STRIDE further"
	}
	return note
}

// blockLevels makes the text have the function of a quad's levels.
func (e *emitter) blockLevels(b *buffer) {
	e.blockParts(b)
	f := e.blockFormatOf(b)
	if f.Decode.Levels != "" {
		return
	}
	levels := "bytes_unsigned"
	if f.Signed {
		levels = "bytes_signed"
	}
	levels += "(quants_NAME(block, e" + f.planeArg("p") + "))"
	if f.Bias != 0 {
		levels += fmt.Sprintf(" - %d.0", f.Bias)
	}
	e.blockFunction(b, "vec4 levels_NAME"+f.quadArgs(), "", "return "+levels+";")
}

// wideQuants makes the text have the function that returns quants of four quads, and
// pairQuants that of two.
func (e *emitter) wideQuants(b *buffer) string {
	f := e.blockFormatOf(b)
	body := f.Decode.Quants4
	if body == "" {
		body = strings.ReplaceAll(f.Decode.Quants, "QUANTS", "uvec4")
	}
	e.blockFunction(b, "uvec4 quants4_NAME"+f.quadArgs(), "// The same of four quads in a row.", body)
	return "quants4_" + b.base
}

// heldWords makes the text have the function that returns the words of four quads of each plane, and heldQuants that
// which decodes those of one plane, once for all buffers of a format.
func (e *emitter) heldWords(b *buffer) string {
	_, at, _ := cutWords(e.blockFormatOf(b).Decode.Quants)
	e.blockFunction(b, "uvec4 words_NAME(uint block, uint e)",
		"// The words that have four quads in a row of each plane.", "return WORDS("+at+");")
	return "words_" + b.base
}

func (e *emitter) heldQuants(b *buffer) string {
	f := e.blockFormatOf(b)
	before, _, after := cutWords(f.Decode.Quants)
	name := "quants_of_" + b.DType.String()
	e.blockFunction(b, "uvec4 "+name+"(uvec4 words"+f.planeArg("uint p")+")",
		"// Four quads of a plane, out of such words.", strings.ReplaceAll(before+"words"+after, "QUANTS", "uvec4"))
	return name
}

// cutWords takes the one reading of WORDS(at) out of a text (ir.BlockDecode.ReadsOnce).
func cutWords(body string) (before, at, after string) {
	before, rest, _ := strings.Cut(body, "WORDS(")
	at, after, _ = strings.Cut(rest, ")")
	return before, at, after
}

// unpackScale makes the text have the function that unpacks a scale of a word, and returns its name, and false where
// blocks have more than one scale, or take more than a word for it. scaleWord is the function that returns the word.
func (e *emitter) unpackScale(b *buffer) (string, bool) {
	f := e.blockFormatOf(b)
	_, unpack, ok := cutScale(f.Decode.Scale)
	if !ok {
		return "", false
	}
	name := "scale_of_" + b.DType.String()
	head := scaleType(f.BlockForm) + " " + name + "(uint word)"
	e.blockFunction(b, head, "// A scale, out of the word that has it.", unpack)
	return name, true
}

func (e *emitter) scaleWord(b *buffer) string {
	read, _, _ := cutScale(e.blockFormatOf(b).Decode.Scale)
	e.blockFunction(b, "uint scale_word_NAME(uint block)", "// The word that has the scale.", read)
	return "scale_word_" + b.base
}

// cutScale takes the one reading of a word or a half out of a scale's text.
func cutScale(body string) (read, unpack string, ok bool) {
	all := blockReader.FindAllStringIndex(body, -1)
	if len(all) != 1 || !strings.HasPrefix(body, "return ") || len(mentions(body, "e")) > 0 {
		return "", "", false
	}
	before, reading := body[:all[0][0]], body[all[0][0]:]
	reader, rest, _ := strings.Cut(reading, "(")
	at, after, _ := strings.Cut(rest, ")")
	switch reader {
	case "HALF":
		return "return SHORT(" + at + ");", before + "unpackHalf2x16(word).x" + after, true
	case "WORD":
		return "return WORD(" + at + ");", before + "word" + after, true
	}
	return "", "", false
}

func (e *emitter) pairQuants(b *buffer) string {
	f := e.blockFormatOf(b)
	body := strings.NewReplacer("QUANTS", "uvec2", "WORDS(", "PAIRS(").Replace(f.Decode.Quants)
	e.blockFunction(b, "uvec2 quants2_NAME"+f.quadArgs(), f.quadNote()+", and the four after them, a byte each.", body)
	return "quants2_" + b.base
}

var (
	blockReader  = regexp.MustCompile(`\b(WORDS|PAIRS|WORD|SHORT|BYTE|HALF)\((?:(\d+)u)?`)
	functionName = regexp.MustCompile(`\b[a-z]\w*\(`)
)

// blockFunction adds a function over the blocks of a buffer to the text, once.
func (e *emitter) blockFunction(b *buffer, head, note, body string) {
	f := e.blockFormatOf(b)
	head = strings.ReplaceAll(head, "NAME", b.base)
	if e.tables[head] {
		return
	}
	e.tables[head] = true
	body = strings.Trim(body, "\n")
	body = e.placeReaders(b, body)
	for _, name := range functionName.FindAllString(body, -1) {
		if name = strings.TrimSuffix(name, "("); libraryNames[name] {
			e.helper(name, "float")
		}
	}
	if strings.Contains(body, "CODEBOOK") {
		body = strings.ReplaceAll(body, "CODEBOOK", e.codebook(b))
	}
	var text strings.Builder
	if note != "" {
		text.WriteString(note + "\n")
	}
	text.WriteString(head + " {\n")
	for _, line := range strings.Split(body, "\n") {
		text.WriteString("    " + line + "\n")
	}
	text.WriteString("}\n")
	e.decoders = append(e.decoders, parseDefinition(strings.NewReplacer("NAME", b.base, "ELEMS",
		fmt.Sprint(b.DType.BlockElems()), "SUPERBLOCK", fmt.Sprint(f.Superblock()), "STRIDE", fmt.Sprint(f.Stride),
		"PLANES", fmt.Sprint(f.Planes)).Replace(text.String())))
}

// placeReaders puts the readers of a buffer for those of a snippet, and sees to
// it that the text has them.
func (e *emitter) placeReaders(b *buffer, body string) string {
	return blockReader.ReplaceAllStringFunc(body, func(s string) string {
		m := blockReader.FindStringSubmatch(s)
		name := strings.ToLower(m[1])
		if b.Layout == kernel.LayoutPlanes {
			name = e.planeReader(b, name, m[2])
		} else {
			e.blockReader(b, name)
			name += "_NAME"
		}
		if m[2] != "" {
			m[2] += "u"
		}
		return name + "(block, " + m[2]
	})
}

// blockReader adds one of the functions that read bytes of a block.
func (e *emitter) blockReader(b *buffer, name string) {
	if e.tables[name+" "+b.base] {
		return
	}
	e.tables[name+" "+b.base] = true
	switch name {
	case "half":
		e.blockReader(b, "short")
	case "words", "pairs":
		words := map[string]int{"words": 4, "pairs": 2}[name]
		e.decoders = append(e.decoders, newFunction(
			fmt.Sprintf("uvec%d %s_%s(uint block, uint at)", words, name, b.base),
			fmt.Sprintf("    return %s[block * %du + at / %du];\n", e.view(b, words), b.DType.BlockBytes()/(4*words),
				4*words)))
		return
	}
	unit := kernel.BlockUnit(b.DType)
	readers := blockUnits[unit].readers
	if e.inWords(b) && unit < 4 {
		readers = wordReaders
	}
	for _, source := range strings.SplitAfter(strings.TrimPrefix(readers, "\n"), "\n}") {
		source = strings.TrimPrefix(source, "\n")
		if !strings.Contains(source, " "+name+"_NAME(") ||
			!strings.HasPrefix(source[strings.Index(source, " ")+1:], name+"_NAME(") {
			continue
		}
		source = strings.NewReplacer("NAME[", e.view(b, 1)+"[", "NAME", b.base,
			"UNITS", fmt.Sprint(b.DType.BlockBytes()/unit), "BYTES", fmt.Sprint(b.DType.BlockBytes())).Replace(source)
		e.decoders = append(e.decoders, parseDefinition(source+"\n"))
		return
	}
	e.fail("blocks of %d bytes have no reader %q", b.DType.BlockBytes(), name)
}

// codebook returns the array that holds the codebook of a buffer's format.
func (e *emitter) codebook(b *buffer) string {
	i := slices.IndexFunc(e.buffers, func(c *buffer) bool { return c.Codebook == b.DType })
	if i < 0 {
		e.fail("binding %s is %s, but none of the bindings is its codebook", b.Name, b.DType)
		return "unknown"
	}
	if e.sharedTables[i] != "" {
		return e.sharedTables[i]
	}
	return e.view(e.buffers[i], 1)
}
