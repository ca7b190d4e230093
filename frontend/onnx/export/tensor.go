package export

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// elemTypes has ONNX's numbers of dtypes.
var elemTypes = map[ir.DType]int64{ir.F32: 1, ir.U8: 2, ir.I8: 3, ir.U16: 4, ir.I16: 5, ir.I32: 6, ir.I64: 7,
	ir.Bool: 9, ir.F16: 10, ir.F64: 11, ir.U32: 12, ir.BF16: 16, ir.F8E4M3: 17, ir.F8E4M3FNUZ: 18,
	ir.F8E5M2: 19, ir.F8E5M2FNUZ: 20, ir.U4: 21, ir.I4: 22, ir.F4E2M1: 23, ir.F8E8M0: 24, ir.U2: 25, ir.I2: 26}

// typesSince has the opset that introduced a type, if a writer's oldest opset lacks it.
var typesSince = map[ir.DType]int{ir.F4E2M1: 23, ir.F8E8M0: 24, ir.U2: 25, ir.I2: 25}

func elemType(t ir.DType) int64 { return elemTypes[t] }

// tensor is an initializer. Its content is computed when it is written, so that a large model is never in memory.
type tensor struct {
	name    string
	dtype   ir.DType
	dims    []int64
	size    int64
	content func() ([]byte, error)

	external bool // whether it is in the file of large weights, at the offset
	offset   int64
}

// message writes a TensorProto. The field numbers are from onnx.proto: 1 is an extent, 2 the element type, 8 the name,
// 9 the contents, 13 a property of external data, and 14 says that the data are external. data is the name of the file
// of large weights. A large weight has its place in that file instead of its contents.
func (t *tensor) message(data string) (message, error) {
	m := message{}
	for _, d := range t.dims {
		m = m.int(1, d)
	}
	m = m.int(2, elemType(t.dtype)).text(8, t.name)
	if t.external {
		m = m.bytes(13, pair("location", data)).bytes(13, pair("offset", fmt.Sprint(t.offset)))
		return m.bytes(13, pair("length", fmt.Sprint(t.size))).int(14, 1), nil
	}
	content, err := t.content()
	if err != nil {
		return nil, err
	}
	return m.bytes(9, content), nil
}

// add adds an initializer and returns its name, which is the given one or, if that is taken, a similar one.
func (w *writer) add(name string, t ir.DType, dims []int64, content func() ([]byte, error)) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	n, _ = t.BytesFor(n) // the graph has checked its sizes
	x := &tensor{name: w.unique(name), dtype: t, dims: dims, size: n, content: content}
	w.tensors = append(w.tensors, x)
	return x.name
}

// constant returns the name of an initializer with value d. Equal small values share an initializer. Large values share
// it only if d is the same pointer.
func (w *writer) constant(d *ir.Data) string {
	key := fmt.Sprintf("%s%v%x", d.DType, d.Dims, d.Bytes)
	if len(d.Bytes) > 64 {
		key = fmt.Sprintf("%p", d)
	}
	if name, ok := w.constants[key]; ok {
		return name
	}
	dims := make([]int64, len(d.Dims))
	for i, n := range d.Dims {
		dims[i] = int64(n)
	}
	w.count++
	name := w.add(fmt.Sprintf("constant_%d", w.count), d.DType, dims, func() ([]byte, error) { return d.Bytes, nil })
	w.constants[key] = name
	return name
}

// ints returns a vector of int64.
func (w *writer) ints(list ...int64) string {
	var b []byte
	for _, v := range list {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return w.constant(&ir.Data{DType: ir.I64, Dims: []int{len(list)}, Bytes: b})
}

// scalar returns a scalar of a dtype.
func (w *writer) scalar(t ir.DType, v float64) string {
	d := &ir.Data{DType: t, Bytes: make([]byte, t.BlockBytes())}
	if t.IsFloat() {
		ir.EncodeFloats(d.Bytes, t, []float64{v})
	} else {
		ir.EncodeInts(d.Bytes, t, []int64{int64(v)})
	}
	return w.constant(d)
}

// filled returns a vector of one value.
func (w *writer) filled(t ir.DType, n int, v float64) string {
	list := make([]float64, n)
	for i := range list {
		list[i] = v
	}
	return w.floats(t, list, n)
}

// floats returns a tensor of a dtype.
func (w *writer) floats(t ir.DType, list []float64, dims ...int) string {
	d := &ir.Data{DType: t, Dims: dims, Bytes: make([]byte, len(list)*t.BlockBytes())}
	ir.EncodeFloats(d.Bytes, t, list)
	return w.constant(d)
}

// label returns a name for a weight, or for a constant in blocks.
func label(n *ir.Node) string {
	if n.Op() == ir.OpConst {
		return fmt.Sprintf("blocks_%d", n.ID())
	}
	return n.Name()
}

// weight returns the name of an initializer with a weight as dtype `as`. A weight in blocks is decoded when the file is
// written.
func (w *writer) weight(n *ir.Node, as ir.DType) string {
	name := label(n)
	if as != n.DType() && as != ir.F32 {
		name += "." + as.String()
	}
	key := fmt.Sprintf("weight %s %s", name, as)
	if have, ok := w.constants[key]; ok {
		return have
	}
	have := w.add(name, as, extents(n.Shape()), func() ([]byte, error) {
		d, err := w.read(n)
		if err != nil || as == n.DType() {
			return bytesOf(d), err
		}
		return decoded(d, as)
	})
	w.constants[key] = have
	return have
}

// bytesOf returns the bytes of data, or nil.
func bytesOf(d *ir.Data) []byte {
	if d == nil {
		return nil
	}
	return d.Bytes
}

// read returns the data of a weight or of a constant. It returns an error if there are no weights, or if the weight has
// another dtype than the graph declares.
func (w *writer) read(n *ir.Node) (*ir.Data, error) {
	if n.Op() == ir.OpConst {
		return n.Attrs().Data("data"), nil
	}
	if w.weights == nil {
		return nil, fmt.Errorf("weight %q: there are no weights: give a file", n.Name())
	}
	d, err := w.weights.Weight(n.Name())
	if err == nil && d.DType != n.DType() {
		err = fmt.Errorf("weight %q is %s, and the graph wants %s", n.Name(), d, n.Type())
	}
	if err == nil {
		err = d.Check()
	}
	return d, err
}

// decoded decodes blocks to a float dtype.
func decoded(d *ir.Data, as ir.DType) ([]byte, error) {
	values := make([]float32, d.Elems())
	if err := quant.DequantizeParallel(values, d.DType, d.Bytes); err != nil {
		return nil, err
	}
	b := make([]byte, len(values)*as.BlockBytes())
	if as == ir.F32 {
		for i, v := range values {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
		}
		return b, nil
	}
	wide := make([]float64, len(values))
	for i, v := range values {
		wide[i] = float64(v)
	}
	ir.EncodeFloats(b, as, wide)
	return b, nil
}

// extents returns the extents of a static shape.
func extents(s ir.Shape) []int64 {
	dims := make([]int64, len(s))
	for i, d := range s {
		dims[i] = d.Add
	}
	return dims
}

// levels describes a block format with elements scale*(level-bias), which MatMulNBits and DequantizeLinear can
// represent.
type levels struct {
	bits, bias int
	// read writes the 32 levels of a block to level.
	read func(block []byte, level *[32]byte)
}

// scaled has the block formats that levels can describe. A block has 32 elements and begins with a scale in f16.
var scaled = map[ir.DType]levels{
	ir.Q4_0: {bits: 4, bias: 8, read: func(b []byte, level *[32]byte) {
		for i := range 16 {
			level[i], level[i+16] = b[2+i]&15, b[2+i]>>4
		}
	}},
	ir.Q8_0: {bits: 8, bias: 128, read: func(b []byte, level *[32]byte) {
		for i := range 32 {
			level[i] = b[2+i] ^ 0x80
		}
	}},
}

// blockSize is the number of elements of a block of these formats.
const blockSize = 32

// scales adds an initializer with the scales of a weight in blocks as dtype t, unless it exists, and returns its name.
func (w *writer) scales(n *ir.Node, t ir.DType, dims ...int64) string {
	key := fmt.Sprintf("scales %s %s %v", label(n), t, dims)
	if have, ok := w.constants[key]; ok {
		return have
	}
	size := n.DType().BlockBytes()
	have := w.add(label(n)+".scales", t, dims, func() ([]byte, error) {
		d, err := w.read(n)
		if err != nil {
			return nil, err
		}
		count := len(d.Bytes) / size
		raw := make([]byte, 0, 2*count)
		for i := range count {
			raw = append(raw, d.Bytes[i*size:][:2]...) // the scale, two bytes at the block's beginning
		}
		if t == ir.F16 {
			return raw, nil
		}
		values := make([]float64, count)
		ir.DecodeFloats(values, ir.F16, raw)
		out := make([]byte, count*t.BlockBytes())
		ir.EncodeFloats(out, t, values)
		return out, nil
	})
	w.constants[key] = have
	return have
}

// packed adds an initializer with the levels of a weight as MatMulNBits reads them, unless it exists, and returns its
// name. A byte has one level of 8 bits, or two of 4 bits with the first in the low bits.
func (w *writer) packed(n *ir.Node, f levels) string {
	key := "packed " + label(n)
	if have, ok := w.constants[key]; ok {
		return have
	}
	s := extents(n.Shape())
	size := n.DType().BlockBytes()
	have := w.add(label(n)+".packed", ir.U8, []int64{s[0], s[1] / blockSize, int64(blockSize * f.bits / 8)},
		func() ([]byte, error) {
			d, err := w.read(n)
			if err != nil {
				return nil, err
			}
			out := make([]byte, 0, len(d.Bytes))
			var level [32]byte
			for b := d.Bytes; len(b) > 0; b = b[size:] {
				f.read(b[:size], &level)
				if f.bits == 8 {
					out = append(out, level[:]...)
					continue
				}
				for i := 0; i < blockSize; i += 2 {
					out = append(out, level[i]|level[i+1]<<4)
				}
			}
			return out, nil
		})
	w.constants[key] = have
	return have
}

// signed adds an initializer with the levels of a weight minus the bias as int8, unless it exists, and returns its
// name.
func (w *writer) signed(n *ir.Node, f levels) string {
	key := "signed " + label(n)
	if have, ok := w.constants[key]; ok {
		return have
	}
	size := n.DType().BlockBytes()
	have := w.add(label(n)+".levels", ir.I8, extents(n.Shape()), func() ([]byte, error) {
		d, err := w.read(n)
		if err != nil {
			return nil, err
		}
		out := make([]byte, 0, d.Elems())
		var level [32]byte // of one block
		for b := d.Bytes; len(b) > 0; b = b[size:] {
			f.read(b[:size], &level)
			for _, v := range level {
				out = append(out, v-byte(f.bias))
			}
		}
		return out, nil
	})
	w.constants[key] = have
	return have
}
