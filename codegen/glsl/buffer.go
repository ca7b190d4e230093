package glsl

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// buffer is a binding as the shader declares it.
type buffer struct {
	kernel.Binding
	slot int
	base string // the binding's name as a part of other names
	name string // the array's name
	// views are the element widths that it is declared with. One binding may have a view of scalars and a view of
	// vectors.
	views map[int]bool
	// units are the sizes in bytes of the units that its planes are read by.
	units map[int]bool
	// early says that words of its planes are also prefetched.
	early bool
	// access names the functions that read and write it, if its elements are packed in words.
	access map[string]string
	// far says that the binding holds the buffer's address; see [schedule.ByAddress].
	far bool
	// wide says that its positions take 64 bits. byRows says that it is large enough to be addressed row by row.
	wide, byRows bool
	// folded are the arrays that shaders address row by row, through a macro of the position.
	folded map[string]bool
}

func (e *emitter) newBuffer(slot int, b kernel.Binding) *buffer {
	base := identifier(b.Name)
	name := base
	switch base {
	case "out", "output":
		name = "result"
	case "in", "input":
		name = "source"
	}
	if unusable(name) || wordNames[name] && e.inWords(&buffer{Binding: b}) {
		name += "_data"
	}
	far := schedule.ByAddress(e.k, b, e.caps)
	if far {
		name += "_far" // the name of a macro, and never a vector component's
		e.need(NeedAddress)
	}
	name = e.fresh(e.root, name)
	if slices.ContainsFunc(e.buffers, func(o *buffer) bool { return o.base == base }) {
		base = name // or two buffers would share the functions declared for each
	}
	return &buffer{Binding: b, slot: slot, base: base, name: name, views: map[int]bool{}, units: map[int]bool{},
		far: far, wide: b.Elems-1 > e.caps.Position32(),
		byRows: far && (&buffer{Binding: b}).bytes() > e.caps.Position32()/2, folded: map[string]bool{}}
}

// position prints a position as an argument of the buffer's functions.
func (b *buffer) position(at text) text {
	if b.wide {
		return at
	}
	return narrow(at)
}

// subscript prints a position as an index of one of the buffer's arrays. The position may count vectors or units.
func (b *buffer) subscript(at text) text {
	if b.wide && b.byRows {
		return at
	}
	return narrow(at)
}

// element is an element of the buffer's array of vectors of width neighbours.
func (e *emitter) element(b *buffer, width int, at text) text {
	return elementAt(syntax.Ident(e.view(b, width)), b.subscript(at))
}

// view returns the name of the array with elements of width neighbours.
func (e *emitter) view(b *buffer, width int) string {
	b.views[width] = true
	e.need(e.storageNeeds(b)...)
	if width == 1 {
		return b.name
	}
	return fmt.Sprintf("%s_vec%d", b.name, width)
}

func (e *emitter) storageNeeds(b *buffer) []string {
	if e.inWords(b) || e.inPairs(b) {
		return nil
	}
	if b.DType.IsBlock() {
		return blockNeeds(b.DType)
	}
	return e.scalar(b.DType).needs
}

// load prints a load: a lane of a vector that was loaded before, a decoded element of a block, or an array element.
func (e *emitter) load(v *kernel.Expr) text {
	b := e.buffers[v.Bind]
	if !b.Read {
		e.fail("binding %s is read but not declared so", b.Name)
	}
	if vector := e.vector(v); vector != nil {
		return e.fromCarrier(v.DType, elementAt(vector, lane))
	}
	if b.DType.IsBlock() {
		return call(e.decode(e, b, 1), b.position(e.indexValue(v.Index)))
	}
	return e.fromCarrier(b.DType, e.carrierAt(b, e.indexValue(v.Index)))
}

// carrierAt prints element i of a buffer without blocks, before it is decoded.
func (e *emitter) carrierAt(b *buffer, i text) text {
	if e.inWords(b) {
		return e.loadFromWords(b, 1, narrow(i))
	}
	element := e.element(b, 1, i)
	if s := e.scalar(b.DType); s.storage != s.carrier {
		element = call(s.carrier, element)
	}
	return element
}

// loadVector prints a load of width neighbours as a vector of carriers. at is the position of the first, a multiple of
// width.
func (e *emitter) loadVector(b *buffer, width int, at text) (typ string, value text) {
	if b.DType.IsBlock() {
		return "vec4", call(e.decode(e, b, width), b.position(at))
	}
	return e.vectorAt(b, width, binary("/", at, uintLit(width)))
}

// vectorAt prints element i of the buffer's array of vectors.
func (e *emitter) vectorAt(b *buffer, width int, i text) (typ string, value text) {
	s := e.scalar(b.DType)
	typ = fmt.Sprintf("%s%d", s.vec, width)
	if e.inWords(b) {
		return typ, e.loadFromWords(b, width, narrow(i))
	}
	value = e.element(b, width, i)
	if s.vec != s.storageVec {
		value = call(typ, value)
	}
	return typ, value
}

// store is the statement that stores a value. Its parts are planned already.
func (e *emitter) store(s kernel.Store) syntax.Stmt {
	b := e.buffers[s.Bind]
	value := e.value(s.Value)
	if b.DType.IsBlock() {
		e.fail("%s cannot be written by a kernel", b.DType)
	}
	value = e.toCarrier(s.Value.DType, b.DType, value)
	if e.inWords(b) {
		return e.storeToWords(b, 1, e.indexValue(s.Index), value)
	}
	if s := e.scalar(b.DType); s.storage != s.carrier {
		value = call(s.storage, value)
	}
	return &syntax.Assign{To: e.element(b, 1, e.indexValue(s.Index)), Op: "=", Value: value}
}

// valuesOf lists the values of stores.
func valuesOf(stores []kernel.Store) []*kernel.Expr {
	var values []*kernel.Expr
	for _, s := range stores {
		values = append(values, s.Value)
	}
	return values
}

// storeAll writes the stores in the open scope. It computes every value that depends on a buffer which the kernel also
// writes before it writes the first one.
func (e *emitter) storeAll(stores []kernel.Store) {
	var indices []kernel.Index
	for _, s := range stores {
		indices = append(indices, s.Index)
	}
	e.plan(valuesOf(stores), indices)
	lines := make([]syntax.Stmt, len(stores))
	for i, s := range stores {
		lines[i] = e.store(s)
		if b := e.buffers[s.Bind]; !b.Write {
			e.fail("binding %s is written but not declared so", b.Name)
		}
	}
	e.scope.write(lines...)
}

// view is a declared array over a buffer.
type view struct {
	*buffer
	array
}

// declarations are the views that the functions use.
func (e *emitter) declarations(functions []*syntax.Definition) (used []view) {
	names := map[string]bool{}
	for _, f := range functions {
		f.Names(func(name string) { names[name] = true })
	}
	for _, b := range e.buffers {
		for _, a := range e.arraysOf(b) {
			if names[a.name] {
				used = append(used, view{b, a})
			}
		}
	}
	return used
}

// arraysOf lists the arrays that the shader may declare over a buffer.
func (e *emitter) arraysOf(b *buffer) (all []array) {
	for _, w := range slices.Sorted(maps.Keys(b.views)) {
		all = append(all, e.arrayOf(b, w))
	}
	return append(all, b.planeArrays()...)
}

// foldFar rewrites reads of large arrays in buffers by address, of 2^31 bytes and more. They go through a macro that
// adds the row to the address in 64 bits. SPIR-V takes an index as a signed number, and drivers may compute the byte
// offset of an element in 32 bits, for any address: an H100's does. If a built-in function takes the whole array, the
// array may be as large as that offset allows.
func (e *emitter) foldFar(functions []*syntax.Definition) []*syntax.Definition {
	for _, b := range e.buffers {
		bytes := b.bytes()
		if !b.byRows {
			continue
		}
		for _, a := range e.arraysOf(b) {
			if b.folded[a.name] = onlyIndexed(functions, a.name); b.folded[a.name] {
				functions = slices.Clone(functions)
				for i, f := range functions {
					functions[i] = f.Map(func(x *syntax.Expr) *syntax.Expr { return callsForIndices(x, a.name) })
				}
			} else if bytes > math.MaxUint32 || b.Elems > maxIndex || b.wide && !b.DType.IsBlock() {
				e.fail("%s has %d bytes, and is read by a built-in function, which counts them in 32 bits: "+
					"use smaller tensors", b.Name, bytes)
			}
		}
	}
	return functions
}

// maxIndex is the largest index in SPIR-V.
const maxIndex = math.MaxInt32

// bytes is the size of all elements.
func (b *buffer) bytes() int64 {
	return b.Elems / int64(b.DType.BlockElems()) * int64(b.DType.BlockBytes())
}

// indexes reports whether x is an element of an array.
func indexes(x *syntax.Expr, array string) bool { return x.Op == syntax.Index && x.Args[0].Is(array) }

// onlyIndexed reports whether functions use an array only by its elements.
func onlyIndexed(functions []*syntax.Definition, array string) bool {
	whole := 0
	for _, f := range functions {
		f.Walk(func(x *syntax.Expr) {
			if indexes(x, array) {
				whole--
			} else if x.Is(array) {
				whole++
			}
		})
	}
	return whole == 0
}

// callsForIndices returns x with array(i) for every array[i].
func callsForIndices(x *syntax.Expr, array string) *syntax.Expr {
	return x.Map(func(x *syntax.Expr) *syntax.Expr {
		if !indexes(x, array) {
			return x
		}
		return &syntax.Expr{Op: syntax.Call, Text: array, Type: x.Type, Args: x.Args[1:]}
	})
}

// array is the declaration of an array over a buffer.
type array struct {
	qualifiers string // each with a space after it
	typ, name  string
	note       string // a comment, with a space before it
}

// rowElems is the number of elements in a row of a folded array.
const rowElems = 1 << 16

// far prints the declaration of a folded array. Each row is a reference of its own.
func (a array) far(slot int, wide bool) string {
	row, column := "(i) >> 16", fmt.Sprintf("(i) & %du", rowElems-1)
	if wide {
		row, column = "uint("+row+")", "uint("+column+")"
	}
	return fmt.Sprintf(`layout(buffer_reference, std430, buffer_reference_align = 16) %sbuffer %s_array { %s data[%d]; };%s
layout(set = 0, binding = %d, std430) readonly buffer %[2]s_buffer { uvec2 %[7]s_at; };
// The address of a row of %[4]d elements, counted in 64 bits.
uvec2 %[7]s_row(uint row) {
    uint high, low, carry;
    umulExtended(row, %[8]du, high, low);
    low = uaddCarry(%[7]s_at.x, low, carry);
    return uvec2(low, %[7]s_at.y + high + carry);
}
#define %[7]s(i) %[2]s_array(%[7]s_row(%[9]s)).data[%[10]s]
`, a.qualifiers, blockName(a.name), a.typ, rowElems, a.note, slot, a.name, rowElems*typeBytes(a.typ), row, column)
}

// typeBytes is the size of a scalar or vector in a buffer.
func typeBytes(typ string) int {
	kind, width := typ, 1
	if base, n, ok := strings.Cut(typ, "vec"); ok {
		kind = base
		width, _ = strconv.Atoi(n)
	}
	switch kind {
	case "int8_t", "uint8_t", "i8", "u8":
		return width
	case "int16_t", "uint16_t", "float16_t", "bfloat16_t", "i16", "u16", "f16", "bf16":
		return 2 * width
	case "int64_t", "uint64_t", "double", "i64", "u64", "d":
		return 8 * width
	}
	return 4 * width
}

// symbol is the name of the array.
func (v view) symbol() string { return v.array.name }

// signature is the name, too.
func (v view) signature() string { return v.array.name }

// String prints the declaration of the array in its block. If the binding holds the buffer's address, the block holds a
// reference, and the array's name is a macro for the referenced array.
func (v view) String() string {
	b, a := v.buffer, v.array
	block := blockName(a.name)
	if !b.far {
		return fmt.Sprintf("layout(set = 0, binding = %d, std430) %sbuffer %s_buffer { %s %s[]; };%s\n", b.slot,
			a.qualifiers, block, a.typ, a.name, a.note)
	}
	if b.folded[a.name] {
		return a.far(b.slot, b.wide && !b.DType.IsBlock())
	}
	return fmt.Sprintf(`layout(buffer_reference, std430, buffer_reference_align = 16) %sbuffer %s_array { %s data[]; };%s
layout(set = 0, binding = %d, std430) readonly buffer %[2]s_buffer { %[2]s_array %[6]s_at; };
#define %[6]s %[6]s_at.data
`, a.qualifiers, block, a.typ, a.note, b.slot, a.name)
}

// arrayOf is the array over a buffer with elements of width neighbours.
func (e *emitter) arrayOf(b *buffer, width int) array {
	a := array{typ: e.scalar(b.DType).storage, name: b.name}
	switch {
	case !b.Write:
		a.qualifiers = "readonly "
	case !b.Read && !b.Fault && !e.inWords(b): // atomics read
		a.qualifiers = "writeonly "
	}
	if e.inWords(b) {
		a.typ = "uint"
	} else if b.DType.IsBlock() {
		a.typ = blockUnits[kernel.BlockUnit(b.DType)].name
	}
	if width == schedule.OctetElems || width > 1 && b.DType.IsBlock() { // the raw 16-bit elements or blocks
		a.typ, a.name = fmt.Sprintf("uvec%d", min(width, 4)), fmt.Sprintf("%s_vec%d", b.name, width)
	} else if width > 1 {
		a.typ, a.name = fmt.Sprintf("%s%d", e.scalar(b.DType).storageVec, width), fmt.Sprintf("%s_vec%d", b.name, width)
	}
	if b.DType.IsBlock() || a.typ != b.DType.String() && e.scalar(b.DType).storage != e.scalar(b.DType).compute {
		a.note = " // " + b.DType.String()
	}
	return a
}

// blockName is the interface block's name, which must differ from the array's.
func blockName(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// blockUnits gives the unit that kernels read a buffer by, for each alignment of the format's blocks.
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

// planeUnits are the element types that a plane is read as, by their size in bytes.
var planeUnits = map[int]struct{ typ, view string }{
	16: {"uvec4", "quads"}, 8: {"uvec2", "pairs"}, 4: {"uint", "words"}, 2: {"uint16_t", "shorts"}, 1: {"uint8_t",
		"bytes"},
}

// planeArrays are the arrays over the planes of a buffer.
func (b *buffer) planeArrays() (list []array) {
	for _, unit := range []int{1, 2, 4, 8, 16} {
		if u := planeUnits[unit]; b.units[unit] {
			note := " // " + b.DType.String()
			if b.Layout == kernel.LayoutPlanes {
				note += " in planes"
			}
			list = append(list, array{"readonly ", u.typ, b.name + "_" + u.view, note})
		}
	}
	if b.early {
		list = append(list, array{"readonly volatile ", "uint", b.name + "_early", ""})
	}
	return list
}
