// Package blocks decodes and quantizes block formats. A decoder is a GLSL function that the package adds to a shader.
// Its body is a snippet of GLSL in the format's row in package ir. Snippets use names in capitals, such as WORD and
// CODEBOOK; the package replaces them for each buffer.
package blocks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// blockFormat is a block format's row in package ir. A quad is four neighbouring elements. Several quads, Stride
// elements apart, may share the same four bytes: each quad has one bit field of every byte (see ir.BlockForm).
type blockFormat struct{ *ir.BlockFormat }

// ScaleType is the GLSL type that the function scale_NAME of a format returns: vec2 if there is an offset too.
func ScaleType(f ir.BlockForm) string {
	if f.Affine {
		return "vec2"
	}
	return "float"
}

// blockFormatOf returns the format of a buffer. It fails if the buffer has no blocks.
func blockFormatOf(e *emit.Emitter, b *emit.Buffer) blockFormat {
	f, ok := ir.BlockFormatOf(b.DType)
	if !ok {
		e.Fail("binding %s is %s, which is not a block format", b.Name, b.DType)
		f = &ir.BlockFormat{}
	}
	return blockFormat{f}
}

// Decoder adds the function that decodes one element (width 1) or four neighbours (width 4) of a buffer, and returns
// its name.
func Decoder(e *emit.Emitter, b *emit.Buffer, width int) string {
	f := blockFormatOf(e, b)
	if e.Err != nil {
		return "unknown"
	}
	defineLevels(e, b)
	typ, element := "float", "[e % 4u]"
	switch width {
	case 1:
	case 4:
		typ, element = "vec4", ""
	default:
		e.Fail("no decoder of %d elements of %s", width, b.DType)
	}
	levels := "levels_NAME(block, " + f.firstOf(b.DType, width == 4) + f.fieldArg("e / STRIDEu % FIELDSu") + ")" +
		element
	// Positions in a wide buffer need 64 bits; its blocks still have 32-bit numbers.
	position, place := "uint", "uint block = i / ELEMSu, e = i % ELEMSu;"
	if b.Wide {
		position, place = "int64_t", "uint block = uint(i / ELEMSu), e = uint(i % ELEMSu);"
	}
	lines := []string{place}
	if f.Affine { // a fused multiply-add would round once, but the host rounds twice
		lines = append(lines, "vec2 scale = scale_NAME(block, e);",
			"precise "+typ+" value = scale.x * "+levels+" + scale.y;", "return value;")
	} else {
		lines = append(lines, "return scale_NAME(block, e) * "+levels+";")
	}
	name := "decode_" + b.Base
	note := "// Element i."
	if width == 4 {
		name, note = "decode4_"+b.Base, "// Elements i to i+3, i being a multiple of 4."
	}
	blockFunction(e, b, typ+" "+name+"("+position+" i)", note, strings.Join(lines, "\n"))
	return name
}

// wholeQuads is argument `whole` of firstOf for octets: eight elements, which always begin a quad (four elements).
const wholeQuads = true

// firstOf returns a GLSL expression for the element that a decoder of quads is given to decode element e: the first
// element of e's quad. If several quads share bytes, each in a bit field of its own, it is the first element of the
// quad in field 0. whole says that e is the first element of a quad.
func (f blockFormat) firstOf(t ir.DType, whole bool) string {
	switch {
	case f.Fields == 1 && whole:
		return "e"
	case f.Fields == 1:
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

// fieldArg returns the text of one more argument, the bit field p. It is empty if bytes have one field.
func (f blockFormat) fieldArg(p string) string {
	if f.Fields == 1 {
		return ""
	}
	return ", " + p
}

// Parts adds two functions. scale_NAME reads the scale of an element. levels_NAME or quants_NAME decodes a quad without
// its scale: levels_NAME returns floats, if the format has levels, and quants_NAME otherwise returns bytes.
func Parts(e *emit.Emitter, b *emit.Buffer) {
	f := blockFormatOf(e, b)
	Scale(e, b)
	if f.Decode.Levels != "" {
		blockFunction(e, b, "vec4 levels_NAME"+f.quadArgs(), f.quadNote()+".", f.Decode.Levels)
		return
	}
	// One quad is one word of bytes.
	narrow := strings.NewReplacer("WORDS(", "WORD(", "QUANTS", "uint")
	blockFunction(e, b, "uint quants_NAME"+f.quadArgs(), f.quadNote()+", a byte each.", narrow.Replace(f.Decode.Quants))
}

// Scale adds the function scale_NAME, which reads a scale of a buffer.
func Scale(e *emit.Emitter, b *emit.Buffer) {
	f := blockFormatOf(e, b)
	scale := f.Decode.Scale
	if b.Layout == kernel.LayoutPlanes && f.Decode.PlaneScale != "" {
		scale = f.Decode.PlaneScale
	}
	blockFunction(e, b, ScaleType(f.BlockForm)+" scale_NAME(uint block, uint e)", fmt.Sprintf(
		"// %s: %d elements in %d bytes. The scale%s%s.", b.DType, b.DType.BlockElems(), b.DType.BlockBytes(),
		map[bool]string{true: " and offset"}[f.Affine],
		map[bool]string{true: " of element e"}[mentionsElement(snippet(e, scale))]), scale)
}

// quadArgs returns the parameters of a function that reads a quad. quadNote is the comment that describes them.
func (f blockFormat) quadArgs() string { return "(uint block, uint e" + f.fieldArg("uint p") + ")" }

// quadNote returns the comment of the functions that read four neighbours.
func (f blockFormat) quadNote() string {
	note := "// Four neighbours from element e on"
	if f.Fields > 1 {
		note += ", or p times STRIDE further"
	}
	return note
}

// defineLevels adds the function levels_NAME, which decodes a quad to floats without its scale.
func defineLevels(e *emit.Emitter, b *emit.Buffer) {
	Parts(e, b)
	f := blockFormatOf(e, b)
	// Parts has added levels_NAME.
	if f.Decode.Levels != "" {
		return
	}
	levels := "bytes_unsigned"
	if f.Signed {
		levels = "bytes_signed"
	}
	levels += "(quants_NAME(block, e" + f.fieldArg("p") + "))"
	if f.Bias != 0 {
		levels += fmt.Sprintf(" - %d.0", f.Bias)
	}
	blockFunction(e, b, "vec4 levels_NAME"+f.quadArgs(), "", "return "+levels+";")
}

// WideQuants adds the function that returns the quants of four quads, and returns its name.
func WideQuants(e *emit.Emitter, b *emit.Buffer) string {
	f := blockFormatOf(e, b)
	body := cmp.Or(f.Decode.Quants4, strings.ReplaceAll(f.Decode.Quants, "QUANTS", "uvec4"))
	blockFunction(e, b, "uvec4 quants4_NAME"+f.quadArgs(), "// The same of four quads in a row.", body)
	return "quants4_" + b.Base
}

// FieldWords adds the function that loads the raw words of four quads of each bit field, and returns its name.
func FieldWords(e *emit.Emitter, b *emit.Buffer) string {
	_, reading := cutRead(snippet(e, blockFormatOf(e, b).Decode.Quants), "words") // the expression that reads
	defineTree(e, b, "uvec4 words_NAME(uint block, uint e)",
		"// The words that have four quads in a row of each plane.", []syntax.Stmt{&syntax.Return{X: reading}})
	return "words_" + b.Base
}

// FieldQuants adds the function that decodes one bit field of the words of FieldWords, and returns its name. Buffers of
// the same format share it.
func FieldQuants(e *emit.Emitter, b *emit.Buffer) string {
	f := blockFormatOf(e, b)
	rest, _ := cutRead(snippet(e, f.Decode.Quants), "words")
	name := "quants_of_" + b.DType.String()
	defineTree(e, b, "uvec4 "+name+"(uvec4 words"+f.fieldArg("uint p")+")",
		"// Four quads of a plane, out of such words.", syntax.Renamed(rest, map[string]string{"QUANTS": "uvec4"}))
	return name
}

// cutRead splits a snippet into the expression that reads the block, and the rest, which uses a variable in its place.
// So loads can be issued before they are needed. It returns nil unless the snippet reads the block exactly once.
func cutRead(list []syntax.Stmt, variable string) (rest []syntax.Stmt, reading *syntax.Expr) {
	count := 0
	rest = syntax.Map(list, func(x *syntax.Expr) *syntax.Expr {
		if x.Op != syntax.Call || !blockReaders[x.Text] {
			return x
		}
		reading = x
		count++
		return syntax.Ident(variable)
	})
	if count != 1 {
		return nil, nil
	}
	return rest, reading
}

// UnpackScale adds the function that unpacks a scale from a raw word, and returns its name. It returns false if a block
// has several scales, or if a scale takes more than one word.
func UnpackScale(e *emit.Emitter, b *emit.Buffer) (string, bool) {
	f := blockFormatOf(e, b)
	_, unpack := cutScale(e, f)
	if unpack == nil {
		return "", false
	}
	name := "scale_of_" + b.DType.String()
	head := ScaleType(f.BlockForm) + " " + name + "(uint word)"
	defineTree(e, b, head, "// A scale, out of the word that has it.", unpack)
	return name, true
}

// ScaleWord adds the function that reads the word of a block that has its scale, and returns its name.
func ScaleWord(e *emit.Emitter, b *emit.Buffer) string {
	read, _ := cutScale(e, blockFormatOf(e, b))
	defineTree(e, b, "uint scale_word_NAME(uint block)", "// The word that has the scale.", read)
	return "scale_word_" + b.Base
}

// cutScale splits a scale snippet into the statement that reads a word (or half a word) and the statements that unpack
// the scale from it. It returns nil unless all elements of a block share the scale, and one read has it.
func cutScale(e *emit.Emitter, f blockFormat) (read, unpack []syntax.Stmt) {
	list := snippet(e, f.Decode.Scale)
	unpack, reading := cutRead(list, "word")
	if reading == nil || len(list) != 1 || mentionsElement(list) {
		return nil, nil
	}
	// An f16 is read as its 16 bits, and unpacked afterwards.
	switch reading.Text {
	case "HALF":
		half := &syntax.Expr{Op: syntax.Member, Text: "x", Args: []*syntax.Expr{
			syntax.Calling("unpackHalf2x16", syntax.Ident("word"))}}
		unpack = syntax.Map(unpack, func(x *syntax.Expr) *syntax.Expr {
			if x.Is("word") {
				return half
			}
			return x
		})
		reading = syntax.Calling("SHORT", reading.Args...)
	case "WORD":
	default:
		return nil, nil
	}
	return []syntax.Stmt{&syntax.Return{X: reading}}, unpack
}

// mentionsElement reports whether statements use e, the position of an element in its block.
func mentionsElement(list []syntax.Stmt) bool {
	found := false
	syntax.Names(list, func(name string) { found = found || name == "e" })
	return found
}

// PairQuants adds the function that returns the quants of two quads, and returns its name.
func PairQuants(e *emit.Emitter, b *emit.Buffer) string {
	f := blockFormatOf(e, b)
	body := syntax.Renamed(snippet(e, f.Decode.Quants), map[string]string{"QUANTS": "uvec2", "WORDS": "PAIRS"})
	defineTree(e, b, "uvec2 quants2_NAME"+f.quadArgs(), f.quadNote()+", and the four after them, a byte each.", body)
	return "quants2_" + b.Base
}

// blockReaders are the functions that snippets call to read bytes of their block.
var blockReaders = emit.WordSet("WORDS PAIRS WORD SHORT BYTE HALF")

// snippets caches the syntax trees of snippets, by their source.
var snippets sync.Map

// snippet parses a snippet: the body of a function, such as a block format's decoder.
func snippet(e *emit.Emitter, body string) []syntax.Stmt {
	if list, ok := snippets.Load(body); ok {
		return list.([]syntax.Stmt)
	}
	list, err := syntax.Statements(body)
	if err != nil {
		e.Fail("%v", err)
		return nil
	}
	snippets.Store(body, list)
	return list
}

// blockFunction adds a function over the blocks of a buffer, unless the shader has it. head is its signature, note its
// comment, and body a snippet.
func blockFunction(e *emit.Emitter, b *emit.Buffer, head, note, body string) {
	defineTree(e, b, head, note, snippet(e, strings.Trim(body, "\n")))
}

// defineTree adds a function over the blocks of a buffer, unless the shader has it. head is its signature, note its
// comment, and body a parsed snippet.
func defineTree(e *emit.Emitter, b *emit.Buffer, head, note string, body []syntax.Stmt) {
	f := blockFormatOf(e, b)
	head = strings.ReplaceAll(head, "NAME", b.Base)
	if e.Err != nil || !e.Once(head) {
		return
	}
	sizes := map[string]string{"ELEMS": fmt.Sprint(b.DType.BlockElems()), "SUPERBLOCK": fmt.Sprint(f.Superblock()),
		"STRIDE": fmt.Sprint(f.Stride), "FIELDS": fmt.Sprint(f.Fields)}
	d := e.Definition(head + " {\n}\n")
	if note != "" {
		d.Note = strings.ReplaceAll(note, "STRIDE", sizes["STRIDE"]) + "\n"
	}
	d.Body = syntax.Map(body, func(x *syntax.Expr) *syntax.Expr { return substitute(e, b, x, sizes) })
	e.Definitions = append(e.Definitions, d)
}

// substitute returns part x of a GLSL snippet with its names in capitals replaced: CODEBOOK, NAME (the buffer's base
// name), and the numbers in sizes, such as ELEMS. It also adds the functions that x calls to the shader.
func substitute(e *emit.Emitter, b *emit.Buffer, x *syntax.Expr, sizes map[string]string) *syntax.Expr {
	switch {
	case x.Op == syntax.Call && blockReaders[x.Text]:
		return syntax.Calling(readerOf(e, b, x), append([]*syntax.Expr{syntax.Ident("block")}, x.Args...)...)
	case x.Op == syntax.Call && lib.Names[x.Text]:
		e.Helper(x.Text, "float")
	case x.Op == syntax.Name && x.Text == "CODEBOOK":
		return syntax.Ident(Codebook(e, b))
	case x.Op == syntax.Name && strings.HasSuffix(x.Text, "u") && sizes[x.Text[:len(x.Text)-1]] != "": // such as ELEMSu
		return &syntax.Expr{Op: syntax.Number, Text: sizes[x.Text[:len(x.Text)-1]] + "u"}
	case (x.Op == syntax.Call || x.Op == syntax.Name) && strings.Contains(x.Text, "NAME"):
		y := *x
		y.Text = strings.ReplaceAll(x.Text, "NAME", b.Base)
		return &y
	}
	return x
}

// readerOf adds the buffer's function for a call x of a reader, such as WORD(16 + e), and returns its name. If the
// parts of blocks are in planes, the number with which the argument begins (16) is an offset in the block, which
// identifies the plane.
func readerOf(e *emit.Emitter, b *emit.Buffer, x *syntax.Expr) string {
	name := strings.ToLower(x.Text)
	if b.Layout == kernel.LayoutPlanes {
		start := x.Args[0]
		// In 16 + e, follow the first operands to the 16.
		for start.Op == syntax.Binary {
			start = start.Args[0]
		}
		from, _ := expr.LiteralOf(expr.Of(start.String()))
		return planeReader(e, b, name, int(from.V))
	}
	defineReader(e, b, name)
	return name + "_" + b.Base
}

// defineReader adds one of the functions that read bytes of a block, for a buffer of whole blocks.
func defineReader(e *emit.Emitter, b *emit.Buffer, name string) {
	if !e.Once(name + " " + b.Base) {
		return
	}
	switch name {
	// Its body calls short_NAME.
	case "half":
		defineReader(e, b, "short")
	case "words", "pairs":
		words := map[string]int{"words": 4, "pairs": 2}[name]
		e.AddFunction(
			fmt.Sprintf("uvec%d %s_%s(uint block, uint at)", words, name, b.Base),
			fmt.Sprintf("    return %s[block * %du + at / %du];\n", e.View(b, words), b.DType.BlockBytes()/(4*words),
				4*words))
		return
	}
	unit := kernel.BlockUnit(b.DType)
	readers := unitReaders[unit]
	// The device cannot read units this small, so the buffer is an array of words.
	if e.InWords(b) && unit < 4 {
		readers = wordReaders
	}
	result := "uint"
	if name == "half" {
		result = "float"
	}
	body, ok := readers[name]
	if !ok {
		e.Fail("blocks of %d bytes have no reader %q", b.DType.BlockBytes(), name)
		return
	}
	body = strings.NewReplacer("ARRAY", e.View(b, 1), "NAME", b.Base, "UNITS", fmt.Sprint(b.DType.BlockBytes()/unit),
		"BYTES", fmt.Sprint(b.DType.BlockBytes())).Replace(body)
	e.AddFunction(fmt.Sprintf("%s %s_%s(uint block, uint at)", result, name, b.Base), body)
}

// Codebook returns the name of the array with the codebook of a buffer's format.
func Codebook(e *emit.Emitter, b *emit.Buffer) string {
	i := slices.IndexFunc(e.Buffers, func(c *emit.Buffer) bool { return c.Codebook == b.DType })
	if i < 0 {
		e.Fail("binding %s is %s, but none of the bindings is its codebook", b.Name, b.DType)
		return "unknown"
	}
	if e.SharedTables[i] != "" {
		return e.SharedTables[i]
	}
	return e.View(e.Buffers[i], 1)
}

// unitReaders are the bodies of the functions that read the bytes of a block from offset at on, by the size of the
// buffer's units in bytes and by reader. Blocks are whole numbers of units. ARRAY is the buffer, NAME its name in other
// names, and UNITS the number of units in a block.
var unitReaders = map[int]map[string]string{
	4: {
		"word":  "    return ARRAY[block * UNITSu + at / 4u];\n",
		"short": "    return ARRAY[block * UNITSu + at / 4u] >> at % 4u * 8u & 0xffffu;\n",
		"byte":  "    return ARRAY[block * UNITSu + at / 4u] >> at % 4u * 8u & 0xffu;\n",
		"half":  halfOfShort,
	},
	2: {
		"word": "    uint i = block * UNITSu + at / 2u;\n" +
			"    return uint(ARRAY[i]) | uint(ARRAY[i + 1u]) << 16;\n",
		"short": "    return uint(ARRAY[block * UNITSu + at / 2u]);\n",
		"byte":  "    return uint(ARRAY[block * UNITSu + at / 2u]) >> at % 2u * 8u & 0xffu;\n",
		"half":  halfOfShort,
	},
	1: {
		"word": "    uint i = block * UNITSu + at;\n    return uint(ARRAY[i]) | uint(ARRAY[i + 1u]) << 8 | " +
			"uint(ARRAY[i + 2u]) << 16 | uint(ARRAY[i + 3u]) << 24;\n",
		"byte": "    return uint(ARRAY[block * UNITSu + at]);\n",
	},
}

// halfOfShort is the body of the reader of an f16. It calls the reader of 16 bits.
const halfOfShort = "    return unpackHalf2x16(short_NAME(block, at)).x;\n"

// wordReaders are the bodies of the same readers for a buffer of words with blocks that are not aligned to words. BYTES
// is the size of a block. A word of a block may span two words of the buffer, so its reader reads both. If the word is
// aligned, both reads return this word, and the second one is shifted to 0.
var wordReaders = map[string]string{
	"word": "    uint i = block * BYTESu + at, shift = i % 4u * 8u;\n" +
		"    return ARRAY[i / 4u] >> shift | ARRAY[(i + 3u) / 4u] << 1u << 31u - shift;\n",
	"short": "    uint i = block * BYTESu + at;\n    return ARRAY[i / 4u] >> i % 4u * 8u & 0xffffu;\n",
	"byte":  "    uint i = block * BYTESu + at;\n    return ARRAY[i / 4u] >> i % 4u * 8u & 0xffu;\n",
	"half":  halfOfShort,
}

// planeInWords returns the body of a function that reads a byte or a short of plane p from an array of words. It is for
// planes with units smaller than a word. The plane begins at byte `base` of the array.
func planeInWords(p kernel.Plane, reader, array string, base int64) string {
	size := map[string]int{"byte": 1, "short": 2}[reader]
	i := expr.Plus(expr.Uint(base), expr.Times(expr.Of("block"), p.Bytes))
	// A part of one unit needs no offset.
	if at := expr.Of("at"); p.At > 0 && p.Bytes > size {
		i = expr.Plus(i, expr.Binary("-", at, expr.Uint(p.At)))
	} else if p.Bytes > size {
		i = expr.Plus(i, at)
	}
	return fmt.Sprintf("uint i = %s;\n    return %s[i / 4u] >> i %% 4u * 8u & %#xu;", i, array, 1<<(8*size)-1)
}
