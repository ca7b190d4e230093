package emit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// Buffer is a binding of the kernel, as the shader declares it.
type Buffer struct {
	kernel.Binding
	Slot int
	Base string // the binding's name, as a part of other names
	Name string // the name of the array of scalars
	// views are the vector widths of the buffer's array declarations. One binding may have an array of scalars (1) and
	// an array of vectors.
	views map[int]bool
	// Units are the sizes in bytes of the units that shaders read from its planes (arrays with one part of every
	// block).
	Units map[int]bool
	// Prefetched says that the shader prefetches words of its planes.
	Prefetched bool
	// access has the GLSL functions that read and write its elements, by verb such as "load4", if they are packed in
	// words.
	access map[string]string
	// byAddress says that the binding holds the buffer's address instead of the buffer; see [schedule.ByAddress].
	byAddress bool
	Wide      bool // its positions need 64 bits
	// byRows says that it is so large that its arrays must be addressed row by row. RowArrays has the names of the
	// arrays that AddressByRows has changed to that.
	byRows    bool
	RowArrays map[string]bool
}

// Storage has the buffers of the kernel, and returns their elements.
type Storage struct {
	Types
	Buffers []*Buffer
}

// newBuffer returns the buffer for a binding, under a name that GLSL allows and no other buffer has.
func (e *Emitter) newBuffer(slot int, binding kernel.Binding) *Buffer {
	b := &Buffer{Binding: binding, Slot: slot, Base: identifier(binding.Name), views: map[int]bool{},
		Units: map[int]bool{}, RowArrays: map[string]bool{}}
	b.Wide = b.Elems-1 > e.Caps.Position32()
	b.byAddress = schedule.ByAddress(e.K, binding, e.Caps)
	b.byRows = b.byAddress && b.bytes() > e.Caps.Position32()/2
	name := b.Base
	switch name {
	case "out", "output":
		name = "result"
	case "in", "input":
		name = "source"
	}
	if Unusable(name) || wordNames[name] && e.InWords(b) {
		name += "_data"
	}
	if b.byAddress {
		name += "_far" // the name of a macro, which must not be the name of a vector's component
		e.Need(NeedAddress)
	}
	b.Name = e.Fresh(e.Root, name)
	if slices.ContainsFunc(e.Buffers, func(o *Buffer) bool { return o.Base == b.Base }) {
		b.Base = b.Name // otherwise two buffers would share the functions declared for each
	}
	return b
}

// position returns a position as an argument of the buffer's functions: in 32 bits if the buffer is not Wide.
func (b *Buffer) position(at expr.Expr) expr.Expr {
	if b.Wide {
		return at
	}
	return expr.Narrow(at)
}

// Subscript returns a position as an index of one of the buffer's arrays. The position counts elements of this array,
// which may be vectors or units.
func (b *Buffer) Subscript(at expr.Expr) expr.Expr {
	if b.Wide && b.byRows {
		return at
	}
	return expr.Narrow(at)
}

// Element returns element at of the buffer's array of vectors of the given width.
func (st *Storage) Element(b *Buffer, width int, at expr.Expr) expr.Expr {
	return expr.At(syntax.Ident(st.View(b, width)), b.Subscript(at))
}

// View returns the name of the buffer's array with elements of the given width, and declares it.
func (st *Storage) View(b *Buffer, width int) string {
	b.views[width] = true
	st.NeedStorage(b)
	if width == 1 {
		return b.Name
	}
	return fmt.Sprintf("%s_vec%d", b.Name, width)
}

// NeedStorage records the device feature that accessing the buffer's elements needs.
func (st *Storage) NeedStorage(b *Buffer) {
	need := st.Scalar(b.DType).need
	if b.DType.IsBlock() {
		need = BlockUnits[kernel.BlockUnit(b.DType)].Need
	}
	if need != "" && !st.InWords(b) && !st.inPairs(b) {
		st.Need(need)
	}
}

// load returns a load: a lane of a vector that was loaded before, a decoded element of a block, or an array element.
func (e *Emitter) load(v *kernel.Expr) expr.Expr {
	b := e.Buffers[v.Bind]
	if !b.Read {
		e.Fail("binding %s is read but not declared so", b.Name)
	}
	if vector := e.vector(v); vector != nil {
		return e.FromCarrier(v.DType, expr.At(vector, Lane))
	}
	if b.DType.IsBlock() {
		return expr.Call(e.Decode(e, b, 1), b.position(e.IndexValue(v.Index)))
	}
	return e.FromCarrier(b.DType, e.CarrierAt(b, e.IndexValue(v.Index)))
}

// CarrierAt returns element i of a buffer without blocks as a carrier: in the type of a loaded element that is not yet
// decoded, such as a uint for bf16.
func (st *Storage) CarrierAt(b *Buffer, i expr.Expr) expr.Expr {
	if st.InWords(b) {
		return st.loadFromWords(b, 1, expr.Narrow(i))
	}
	element := st.Element(b, 1, i)
	if s := st.Scalar(b.DType); s.Storage != s.Carrier {
		element = expr.Call(s.Carrier, element)
	}
	return element
}

// loadVector returns a load of width neighbours as a vector of carriers. at is the position of the first, a multiple of
// width.
func (e *Emitter) loadVector(b *Buffer, width int, at expr.Expr) (typ string, value expr.Expr) {
	if b.DType.IsBlock() {
		return "vec4", expr.Call(e.Decode(e, b, width), b.position(at))
	}
	return e.VectorAt(b, width, expr.Binary("/", at, expr.Uint(width)))
}

// VectorAt returns element i of the buffer's array of vectors of the given width, as a vector of carriers, and its
// type.
func (st *Storage) VectorAt(b *Buffer, width int, i expr.Expr) (typ string, value expr.Expr) {
	s := st.Scalar(b.DType)
	typ = fmt.Sprintf("%s%d", s.vec, width)
	if st.InWords(b) {
		return typ, st.loadFromWords(b, width, expr.Narrow(i))
	}
	value = st.Element(b, width, i)
	if s.vec != s.storageVec {
		value = expr.Call(typ, value)
	}
	return typ, value
}

// store returns the statement of a store. The caller has planned the values and indices that it uses.
func (e *Emitter) store(s kernel.Store) syntax.Stmt {
	b := e.Buffers[s.Bind]
	value := e.Value(s.Value)
	if b.DType.IsBlock() {
		e.Fail("%s cannot be written by a kernel", b.DType)
	}
	value = e.toCarrier(s.Value.DType, b.DType, value)
	if e.InWords(b) {
		return e.StoreToWords(b, 1, e.IndexValue(s.Index), value)
	}
	if s := e.Scalar(b.DType); s.Storage != s.Carrier { // the buffer has a narrower type than loaded elements
		value = expr.Call(s.Storage, value)
	}
	return &syntax.Assign{To: e.Element(b, 1, e.IndexValue(s.Index)), Op: "=", Value: value}
}

// ValuesOf lists the values of stores.
func ValuesOf(stores []kernel.Store) []*kernel.Expr {
	var values []*kernel.Expr
	for _, s := range stores {
		values = append(values, s.Value)
	}
	return values
}

// indicesOf lists the indices of stores.
func indicesOf(stores []kernel.Store) []kernel.Index {
	var indices []kernel.Index
	for _, s := range stores {
		indices = append(indices, s.Index)
	}
	return indices
}

// StoreAll writes the stores in the open scope. If the kernel reads a buffer that it also writes, it first computes all
// values that depend on that buffer.
func (e *Emitter) StoreAll(stores []kernel.Store) {
	e.Plan(ValuesOf(stores), indicesOf(stores))
	lines := make([]syntax.Stmt, len(stores))
	for i, s := range stores {
		lines[i] = e.store(s)
		if b := e.Buffers[s.Bind]; !b.Write {
			e.Fail("binding %s is written but not declared so", b.Name)
		}
	}
	e.Scope.Write(lines...)
}

// View is an array over a buffer that the shader declares.
type View struct {
	*Buffer
	Array
}

// Declarations returns the arrays that the functions use.
func (st *Storage) Declarations(functions []*syntax.Definition) (used []View) {
	names := map[string]bool{}
	for _, f := range functions {
		f.Names(func(name string) { names[name] = true })
	}
	for _, b := range st.Buffers {
		for _, a := range st.arraysOf(b) {
			if names[a.Name] {
				used = append(used, View{b, a})
			}
		}
	}
	return used
}

// arraysOf lists the arrays that the shader may declare over a buffer.
func (st *Storage) arraysOf(b *Buffer) (all []Array) {
	for _, w := range slices.Sorted(maps.Keys(b.views)) {
		all = append(all, st.arrayOf(b, w))
	}
	return append(all, b.planeArrays()...)
}

// AddressByRows rewrites reads of arrays of 2^31 bytes and more. Each read then calls a macro, which adds the offset
// of a row of 2^16 elements to the buffer's address in 64 bits. That is necessary because SPIR-V takes an index as a
// signed number, and because drivers may compute the byte offset of an element in 32 bits even for an address, as
// NVIDIA's does on an H100. An array that a built-in function takes as a whole cannot be rewritten, so it must be
// smaller.
func (st *Storage) AddressByRows(functions []*syntax.Definition) []*syntax.Definition {
	for _, b := range st.Buffers {
		if !b.byRows {
			continue
		}
		for _, a := range st.arraysOf(b) {
			b.RowArrays[a.Name] = onlyIndexed(functions, a.Name)
			if b.RowArrays[a.Name] {
				functions = slices.Clone(functions)
				for i, f := range functions {
					functions[i] = f.Map(func(x *syntax.Expr) *syntax.Expr { return callForIndex(x, a.Name) })
				}
				continue
			}
			if bytes := b.bytes(); bytes > math.MaxUint32 || b.Elems > maxIndex || b.Wide && !b.DType.IsBlock() {
				st.Fail("%s has %d bytes, and is read by a built-in function, which counts them in 32 bits: "+
					"use smaller tensors", b.Name, bytes)
			}
		}
	}
	return functions
}

// maxIndex is the largest index that SPIR-V can take.
const maxIndex = math.MaxInt32

// bytes is the size of all elements in bytes.
func (b *Buffer) bytes() int64 {
	return b.Elems / int64(b.DType.BlockElems()) * int64(b.DType.BlockBytes())
}

// indexes reports whether x is an element of the named array.
func indexes(x *syntax.Expr, array string) bool { return x.Op == syntax.Index && x.Args[0].Is(array) }

// onlyIndexed reports whether functions use an array only element by element.
func onlyIndexed(functions []*syntax.Definition, array string) bool {
	unindexed := 0 // mentions of the array, minus those in array[i]
	for _, f := range functions {
		f.Walk(func(x *syntax.Expr) {
			if indexes(x, array) {
				unindexed--
			} else if x.Is(array) {
				unindexed++
			}
		})
	}
	return unindexed == 0
}

// callForIndex returns array(i) if x is array[i]. It returns other expressions unchanged.
func callForIndex(x *syntax.Expr, array string) *syntax.Expr {
	if !indexes(x, array) {
		return x
	}
	return &syntax.Expr{Op: syntax.Call, Text: array, Type: x.Type, Args: x.Args[1:]}
}

// Array is the declaration of an array over a buffer.
type Array struct {
	Qualifiers string // each with a space after it
	Typ, Name  string
	note       string // a comment, with a space before it
}

// rowElems is the number of elements in a row of an array that is addressed row by row.
const rowElems = 1 << 16

// rowDeclaration returns the declaration of an array that is addressed row by row. Each row is a buffer reference. slot
// is the binding that holds the buffer's address, and wide says that positions have 64 bits.
func (a Array) rowDeclaration(slot int, wide bool) string {
	row, column := "(i) >> 16", fmt.Sprintf("(i) & %du", rowElems-1)
	if wide {
		row, column = "uint("+row+")", "uint("+column+")"
	}
	return a.fill(slot, "ELEMS", fmt.Sprint(rowElems), "BYTES", fmt.Sprint(rowElems*typeBytes(a.Typ)), "ROW", row,
		"COLUMN", column).Replace("layout(buffer_reference, std430, buffer_reference_align = 16) " +
		`ACCESSbuffer BLOCK_array { TYPE data[ELEMS]; };NOTE
layout(set = 0, binding = SLOT, std430) readonly buffer BLOCK_buffer { uvec2 NAME_at; };
// The address of a row of ELEMS elements, counted in 64 bits.
uvec2 NAME_row(uint row) {
    uint high, low, carry;
    umulExtended(row, BYTESu, high, low);
    low = uaddCarry(NAME_at.x, low, carry);
    return uvec2(low, NAME_at.y + high + carry);
}
#define NAME(i) BLOCK_array(NAME_row(ROW)).data[COLUMN]
`)
}

// fill returns a replacer for the words in capitals in a declaration of the array, which is bound to slot. more has
// further words, each followed by its replacement.
func (a Array) fill(slot int, more ...string) *strings.Replacer {
	return strings.NewReplacer(append(more, "ACCESS", a.Qualifiers, "BLOCK", blockName(a.Name), "TYPE", a.Typ,
		"NAME", a.Name, "NOTE", a.note, "SLOT", fmt.Sprint(slot))...)
}

// typeBytes is the size in bytes of a scalar or vector type in a buffer. The name of a vector type, such as u16vec4,
// consists of a kind, "vec" and a width.
func typeBytes(typ string) int {
	kind, width := typ, 1
	if prefix, digits, isVector := strings.Cut(typ, "vec"); isVector {
		kind = prefix
		width, _ = strconv.Atoi(digits)
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

// String returns the declaration of the array in its interface block. If the binding holds the buffer's address, the
// block holds a reference, and the array's name is a macro for the array that it refers to.
func (v View) String() string {
	b, a := v.Buffer, v.Array
	switch {
	case !b.byAddress:
		return a.fill(b.Slot).Replace("layout(set = 0, binding = SLOT, std430) ACCESSbuffer BLOCK_buffer " +
			"{ TYPE NAME[]; };NOTE\n")
	case b.RowArrays[a.Name]:
		return a.rowDeclaration(b.Slot, b.Wide && !b.DType.IsBlock())
	}
	return a.fill(b.Slot).Replace("layout(buffer_reference, std430, buffer_reference_align = 16) " +
		`ACCESSbuffer BLOCK_array { TYPE data[]; };NOTE
layout(set = 0, binding = SLOT, std430) readonly buffer BLOCK_buffer { BLOCK_array NAME_at; };
#define NAME NAME_at.data
`)
}

// arrayOf returns the array over a buffer with elements of the given width.
func (st *Storage) arrayOf(b *Buffer, width int) Array {
	a := Array{Typ: st.Scalar(b.DType).Storage, Name: b.Name}
	switch {
	case !b.Write:
		a.Qualifiers = "readonly "
	case !b.Read && !b.Fault && !st.InWords(b): // atomics read
		a.Qualifiers = "writeonly "
	}
	if st.InWords(b) {
		a.Typ = "uint"
	} else if b.DType.IsBlock() {
		a.Typ = BlockUnits[kernel.BlockUnit(b.DType)].Name
	}
	if width > 1 {
		a.Typ, a.Name = fmt.Sprint(st.Scalar(b.DType).storageVec, width), fmt.Sprintf("%s_vec%d", b.Name, width)
	}
	if width == schedule.OctetElems || width > 1 && b.DType.IsBlock() { // raw 16-bit elements, or blocks
		a.Typ = fmt.Sprintf("uvec%d", min(width, 4))
	}
	converted := st.Scalar(b.DType).Storage != st.Scalar(b.DType).Compute
	if b.DType.IsBlock() || converted && a.Typ != b.DType.String() { // the type does not show the dtype
		a.note = " // " + b.DType.String()
	}
	return a
}

// blockName is the name of the interface block of an array, which must differ from the array's name.
func blockName(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// BlockUnits has the GLSL type of the units in which kernels read blocks, and the device feature that it needs, by the
// unit's size in bytes (see [kernel.BlockUnit]).
var BlockUnits = map[int]struct{ Name, Need string }{
	4: {"uint", ""}, 2: {"uint16_t", NeedStorage16}, 1: {"uint8_t", NeedStorage8},
}

// PlaneUnits has the element types that shaders read a plane with, by size in bytes.
var PlaneUnits = map[int]struct{ typ, View string }{
	16: {"uvec4", "quads"}, 8: {"uvec2", "pairs"}, 4: {"uint", "words"}, 2: {"uint16_t", "shorts"},
	1: {"uint8_t", "bytes"},
}

// planeArrays returns the arrays over the planes of a buffer, one for each unit size that the shader reads.
func (b *Buffer) planeArrays() (list []Array) {
	for _, unit := range []int{1, 2, 4, 8, 16} {
		if b.Units[unit] {
			u := PlaneUnits[unit]
			note := " // " + b.DType.String()
			if b.Layout == kernel.LayoutPlanes {
				note += " in planes"
			}
			list = append(list, Array{"readonly ", u.typ, b.Name + "_" + u.View, note})
		}
	}
	if b.Prefetched {
		list = append(list, Array{"readonly volatile ", "uint", b.Name + "_early", ""})
	}
	return list
}
