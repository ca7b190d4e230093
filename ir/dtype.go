package ir

import (
	"fmt"
	"math"
	"strings"
)

// DType is the element type of a tensor. Scalar types have one value per element. GGML block types (Q4_0 and later)
// pack a fixed number of elements into one block of bytes and exist only as storage of weights and state.
type DType uint8

// The data types. Invalid is the zero value and belongs to no tensor.
const (
	Invalid DType = iota

	F32
	F16
	BF16
	F64
	F8E4M3
	F8E5M2
	I64
	I32
	U32
	I16
	U16
	I8
	U8
	Bool

	// Dtypes for storage: ops move and cast their values, and arithmetic needs a cast; see [DType.StorageOnly].
	I4
	U4
	I2
	U2
	F4E2M1
	F8E4M3FNUZ
	F8E5M2FNUZ
	F8E8M0

	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q8_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	Q8_K
	IQ1_S
	IQ1_M
	IQ2_XXS
	IQ2_XS
	IQ2_S
	IQ3_XXS
	IQ3_S
	IQ4_NL
	IQ4_XS
	TQ1_0
	TQ2_0
	MXFP4
	NVFP4

	numDTypes
)

// Kind groups data types by their arithmetic.
type Kind uint8

// The kinds of data type.
const (
	KindInvalid Kind = iota
	KindFloat
	KindInt
	KindUint
	KindBool
	KindBlock // GGML block storage: decoded before any arithmetic
)

var kindNames = [...]string{"invalid", "float", "int", "uint", "bool", "block"}

// String returns the lower-case name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// dtypeInfo is one row of the data type table.
type dtypeInfo struct {
	name  string
	kind  Kind
	elems int // elements per block; for scalar types the elements in a byte, or 1 for elements of whole bytes
	bytes int // bytes per block
	ggml  int // type number in a GGUF file, or noGGML
	// storageOnly says that ops only move and cast elements.
	storageOnly bool
	float       FloatFormat // of floats
}

// FloatFormat has the numbers of a float dtype.
type FloatFormat struct {
	Mantissa int     // binary digits after the point
	Least    int     // the exponent of the smallest normal number
	Largest  float64 // the largest finite number
	Infinite bool    // has infinities; other formats saturate
	// NaN is the code of NaN without a sign, in formats of up to 8 bits. If it is the sign bit of 8 bits, there is no
	// -0. In a format without NaN it is the code to which NaN is cast.
	NaN byte
	// Exponents says that a code is an exponent, and that there are neither signs nor 0.
	Exponents bool
}

// dtypes is the table of dtypes. The rows of block formats are derived from blockFormats.
var dtypes = withBlocks([numDTypes]dtypeInfo{
	Invalid: {name: "invalid", ggml: noGGML},

	F32:    floatRow("f32", 4, 0, FloatFormat{Mantissa: 23, Least: -126, Largest: math.MaxFloat32, Infinite: true}),
	F16:    floatRow("f16", 2, 1, FloatFormat{Mantissa: 10, Least: -14, Largest: 65504, Infinite: true}),
	BF16:   floatRow("bf16", 2, 30, FloatFormat{Mantissa: 7, Least: -126, Largest: 0x1.fep127, Infinite: true}),
	F64:    floatRow("f64", 8, 28, FloatFormat{Mantissa: 52, Least: -1022, Largest: math.MaxFloat64, Infinite: true}),
	F8E4M3: floatRow("f8e4m3", 1, noGGML, FloatFormat{Mantissa: 3, Least: -6, Largest: 448, NaN: 0x7f}),
	F8E5M2: floatRow("f8e5m2", 1, noGGML,
		FloatFormat{Mantissa: 2, Least: -14, Largest: 57344, Infinite: true, NaN: 0x7e}),

	I64:  {name: "i64", kind: KindInt, elems: 1, bytes: 8, ggml: 27},
	I32:  {name: "i32", kind: KindInt, elems: 1, bytes: 4, ggml: 26},
	U32:  {name: "u32", kind: KindUint, elems: 1, bytes: 4, ggml: noGGML},
	I16:  {name: "i16", kind: KindInt, elems: 1, bytes: 2, ggml: 25},
	U16:  {name: "u16", kind: KindUint, elems: 1, bytes: 2, ggml: noGGML},
	I8:   {name: "i8", kind: KindInt, elems: 1, bytes: 1, ggml: 24},
	U8:   {name: "u8", kind: KindUint, elems: 1, bytes: 1, ggml: noGGML},
	Bool: {name: "bool", kind: KindBool, elems: 1, bytes: 1, ggml: noGGML},

	I4:         storageRow("i4", KindInt, 2, FloatFormat{}),
	U4:         storageRow("u4", KindUint, 2, FloatFormat{}),
	I2:         storageRow("i2", KindInt, 4, FloatFormat{}),
	U2:         storageRow("u2", KindUint, 4, FloatFormat{}),
	F4E2M1:     storageRow("f4e2m1", KindFloat, 2, FloatFormat{Mantissa: 1, Largest: 6, NaN: 0x8}),
	F8E4M3FNUZ: storageRow("f8e4m3fnuz", KindFloat, 1, FloatFormat{Mantissa: 3, Least: -7, Largest: 240, NaN: 0x80}),
	F8E5M2FNUZ: storageRow("f8e5m2fnuz", KindFloat, 1, FloatFormat{Mantissa: 2, Least: -15, Largest: 57344, NaN: 0x80}),
	F8E8M0: storageRow("f8e8m0", KindFloat, 1,
		FloatFormat{Least: -127, Largest: 0x1p127, NaN: 0xff, Exponents: true}),
})

// noGGML is the type number of dtypes that GGUF files do not have.
const noGGML = -1

// floatRow makes the row of a float dtype.
func floatRow(name string, bytes, ggml int, f FloatFormat) dtypeInfo {
	return dtypeInfo{name: name, kind: KindFloat, elems: 1, bytes: bytes, ggml: ggml, float: f}
}

// storageRow makes the row of a storage-only dtype with a number of elements in a byte.
func storageRow(name string, kind Kind, elems int, f FloatFormat) dtypeInfo {
	return dtypeInfo{name: name, kind: kind, elems: elems, bytes: 1, ggml: noGGML, storageOnly: true, float: f}
}

// withBlocks adds the rows of block formats to the table.
func withBlocks(table [numDTypes]dtypeInfo) [numDTypes]dtypeInfo {
	for t, f := range blockFormats {
		if f != nil {
			table[t] = dtypeInfo{name: f.Name, kind: KindBlock, elems: f.Elems, bytes: f.Bytes, ggml: f.GGML}
		}
	}
	return table
}

// DTypes returns every valid data type, in declaration order.
func DTypes() []DType {
	all := make([]DType, 0, numDTypes-1)
	for t := Invalid + 1; t < numDTypes; t++ {
		all = append(all, t)
	}
	return all
}

// ParseDType returns the type of a name as printed by String. It ignores case, because GGML uses both.
func ParseDType(name string) (DType, error) {
	for t := Invalid + 1; t < numDTypes; t++ {
		if strings.EqualFold(dtypes[t].name, name) {
			return t, nil
		}
	}
	return Invalid, fmt.Errorf("unknown dtype %q: want one of %s", name, dtypeList())
}

// DTypeOfGGML returns the type with that GGUF type number.
func DTypeOfGGML(number uint32) (DType, bool) {
	for t := Invalid + 1; t < numDTypes; t++ {
		if dtypes[t].ggml >= 0 && uint32(dtypes[t].ggml) == number {
			return t, true
		}
	}
	return Invalid, false
}

// dtypeList returns the names of all dtypes, for errors.
func dtypeList() string {
	names := make([]string, 0, numDTypes)
	for _, t := range DTypes() {
		names = append(names, t.String())
	}
	return strings.Join(names, " ")
}

// info returns the dtype's row in the table, or a row with only a name if the dtype is unknown.
func (t DType) info() *dtypeInfo {
	if t >= numDTypes {
		return &dtypeInfo{name: fmt.Sprintf("dtype(%d)", uint8(t)), ggml: -1}
	}
	return &dtypes[t]
}

// String returns the name used in text IR, graph.json and on the command line.
func (t DType) String() string { return t.info().name }

// Valid reports whether t names a type.
func (t DType) Valid() bool { return t > Invalid && t < numDTypes }

// Kind returns the kind of arithmetic of t.
func (t DType) Kind() Kind { return t.info().kind }

// IsFloat reports whether t is a floating-point scalar type.
func (t DType) IsFloat() bool { return t.Kind() == KindFloat }

// holdsBoth returns the narrowest float dtype that represents all values of two others.
func holdsBoth(a, b DType) DType {
	for _, t := range []DType{a, b, F16, F32} {
		if t.holds(a) && t.holds(b) {
			return t
		}
	}
	return F64
}

// holds reports whether float dtype t represents every value of u.
func (t DType) holds(u DType) bool {
	a, b := t.Float(), u.Float()
	return a.Mantissa >= b.Mantissa && a.Least-a.Mantissa <= b.Least-b.Mantissa && a.Largest >= b.Largest
}

// holds reports whether v is in the range of the format, apart from infinities and rounding.
func (f FloatFormat) holds(v float64) bool {
	return f.Infinite || math.Abs(v) <= f.Largest && !(f.Exponents && v < math.Ldexp(1, f.Least))
}

// Float returns the format of a float dtype.
func (t DType) Float() FloatFormat { return t.info().float }

// Bits returns the bits of one element of a scalar type.
func (t DType) Bits() int { return 8 * t.info().bytes / max(t.info().elems, 1) }

// IsPacked reports whether t is a scalar type with several elements in a byte. They follow one another in row-major
// order, the first in the lowest bits, and rows begin within bytes. Unused bits of the last byte are 0.
func (t DType) IsPacked() bool { return t.info().elems > 1 && !t.IsBlock() }

// StorageOnly reports whether ops only store, move and cast elements of t. For arithmetic they are cast first.
func (t DType) StorageOnly() bool { return t.info().storageOnly }

// IsInteger reports whether t is a signed or unsigned integer type.
func (t DType) IsInteger() bool { k := t.Kind(); return k == KindInt || k == KindUint }

// IsBlock reports whether t is a GGML block type.
func (t DType) IsBlock() bool { return t.Kind() == KindBlock }

// BlockElems returns the number of elements in one block: 1 for scalar types of whole bytes, and for packed ones the
// elements in a byte.
func (t DType) BlockElems() int { return t.info().elems }

// BlockBytes returns the number of bytes of one block; for scalar types of whole bytes that is the size of one element.
func (t DType) BlockBytes() int { return t.info().bytes }

// GGML returns the type's number in GGUF files, and false if GGUF has none.
func (t DType) GGML() (uint32, bool) {
	n := t.info().ggml
	return uint32(max(n, 0)), n >= 0
}

// BytesFor returns the size of n elements in bytes. Block types store whole blocks along the innermost axis, so n must
// be a multiple of BlockElems. Packed types fill whole bytes.
func (t DType) BytesFor(n int64) (int64, error) {
	in := t.info()
	switch {
	case in.elems == 0:
		return 0, fmt.Errorf("%s has no size", t)
	case n < 0:
		return 0, fmt.Errorf("negative element count %d", n)
	case t.IsPacked():
		n += -n & int64(in.elems-1) // rounds up to whole bytes
	case n%int64(in.elems) != 0:
		return 0, fmt.Errorf("%d elements are not a whole number of %s blocks of %d", n, t, in.elems)
	}
	blocks := n / int64(in.elems)
	if blocks > maxElems/int64(in.bytes) {
		return 0, fmt.Errorf("%d elements of %s take more than %d bytes", n, t, int64(maxElems))
	}
	return blocks * int64(in.bytes), nil
}
