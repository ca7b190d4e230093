package huggingface

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/quantize"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// made are the weights of the translated model. It implements gguf.Named.
type made struct {
	stored      *stored
	translation *llm.Folder
	names       []string
	all         map[string]*weight
}

// weight is a weight of the translated model.
type weight struct {
	llm.Origin
	more  string // the model has a weight of that suffix too, which comes with the tensors; see tensor.more
	dtype ir.DType
	dims  []int
	rowed []int // the dims before Dims took their place

	one  sync.Mutex
	last weak.Pointer[ir.Data] // the result of the last call of Weight, as long as it is in use
}

// newMade determines the type of each weight. In some folders a matrix comes with scales, or with an order of its
// columns. The scales and the order become weights of their own. But if alone is set, the elements of the matrix are
// multiplied by the scales instead.
func newMade(s *stored, f *llm.Folder, alone bool) (*made, error) {
	m := &made{stored: s, all: map[string]*weight{}, translation: f}
	names := map[string]bool{}
	for _, o := range f.Weights {
		names[o.Name] = true
	}
	unused := map[string]bool{}
	for _, o := range f.Weights {
		w := &weight{Origin: o}
		w.more = s.moreOf(w)
		// The model has no such weight in addition to the matrix, or it must not have it.
		if name := strings.TrimSuffix(o.Name, ".weight") + w.more; !names[name] || w.more == ".weight_scale" && alone {
			w.more = ""
		}
		for _, suffix := range []string{".order", ".weight_scale"} {
			if suffix != w.more {
				unused[strings.TrimSuffix(o.Name, ".weight")+suffix] = true
			}
		}
		m.all[o.Name] = w
	}
	for _, o := range f.Weights {
		if unused[o.Name] {
			delete(m.all, o.Name)
			continue
		}
		if err := m.all[o.Name].setType(s); err != nil {
			return nil, fmt.Errorf("weight %q, made of %q: %w", o.Name, o.From, err)
		}
		m.names = append(m.names, o.Name)
	}
	slices.Sort(m.names)
	return m, nil
}

// moreOf returns the suffix of the weight that accompanies weight w, such as its scales, or "" if there is none. All
// tensors of w must have such a companion, of the same kind and shape. And w must have the elements of its tensors
// unchanged, with columns in an order that keeps units together (see tensor.unit).
func (s *stored) moreOf(w *weight) string {
	var first tensor
	for i, name := range w.From {
		t := s.tensors[name]
		if t.more == "" || w.Change != nil || w.Dims != nil || !w.keepsUnits(t) || w.isTurned(t) {
			return ""
		}
		if i == 0 {
			first = t
		} else if t.more != first.more || !t.with.Type.Equal(first.with.Type) {
			return ""
		}
	}
	return first.more
}

// unit returns how many columns of a tensor belong together: the columns of a block, or of a scale.
func (t tensor) unit() int {
	if t.more == ".weight_scale" && !t.with.Shape[1].Is(1) {
		return t.Shape[1].Static() / t.with.Shape[1].Static()
	}
	return t.DType.BlockElems()
}

// keepsUnits reports whether the weight has the columns of a tensor in whole units. An order of columns is for the
// tensor's own columns only.
func (w *weight) keepsUnits(t tensor) bool {
	last := len(t.Shape) - 1 // the axis of the columns
	if w.Rows == nil || last < 0 || w.Stacked || w.RowAxis != last || w.isTurned(t) {
		return true
	}
	_, whole := inUnits(w.Rows(t.Shape[last].Static()), t.unit())
	return whole && t.more != ".order"
}

// inUnits converts indices of elements to indices of units of size elements each. whole is false if the indices do not
// consist of whole units.
func inUnits(indices []int, size int) (units []int, whole bool) {
	for i, at := range indices {
		first := indices[i-i%size]
		if first%size != 0 || at != first+i%size {
			return nil, false
		}
		if i%size == 0 {
			units = append(units, at/size)
		}
	}
	return units, len(indices)%size == 0
}

// setType determines the type and shape of a weight from its tensors.
func (w *weight) setType(s *stored) error {
	if len(w.From) == 0 {
		w.dtype, w.dims = ir.F32, []int{len(w.Values)}
		return nil
	}
	for i, name := range w.From {
		t, ok := w.part(s, name)
		if !ok {
			return fmt.Errorf("there is no tensor %q", name)
		}
		dims, err := w.partDims(t)
		if err != nil {
			return err
		}
		switch {
		case i == 0:
			w.dtype, w.dims = t.DType, dims
		case !slices.Equal(dims, w.dims) || t.DType != w.dtype && !(t.packed && s.tensors[w.From[0]].packed):
			return fmt.Errorf("%q is %s, and %q another type", name, t.Type, w.From[0])
		case t.DType != w.dtype: // f32 has the elements of all packings
			w.dtype = ir.F32
		}
		if t.packed && !w.keepsUnits(t) {
			w.dtype = ir.F32
		}
	}
	if w.Stacked {
		w.dims = append([]int{len(w.From)}, w.dims...)
	}
	if w.Rows != nil {
		if len(w.dims) <= w.RowAxis {
			return fmt.Errorf("it has the shape %v: want rows on axis %d", w.dims, w.RowAxis)
		}
		w.dims[w.RowAxis] = len(w.Rows(w.dims[w.RowAxis]))
	}
	w.rowed = w.dims
	if w.Dims != nil {
		if elements(w.Dims) != elements(w.dims) || w.dtype.IsBlock() && !sameRows(w.Dims, w.dims) {
			return fmt.Errorf("it has the shape %v: want %v", w.dims, w.Dims)
		}
		w.dims = slices.Clone(w.Dims)
	}
	// As in the files that quantizing writes, what is no matrix has the type f32.
	if w.dtype.IsFloat() && quantize.IsExact(w.Name, w.dims) || w.dtype.IsBlock() && w.Change != nil {
		w.dtype = ir.F32
	} else if w.more == "" && (w.dtype == ir.F8E4M3 || w.dtype == ir.F8E5M2) {
		w.dtype = ir.F16 // which has all values of 8-bit floats
	}
	return nil
}

// part returns one of the tensors that the weight is made of.
func (w *weight) part(s *stored, name string) (t tensor, ok bool) {
	t, ok = s.tensors[name]
	if t.more != "" && w.more == "" {
		return *t.plain, true
	}
	return t, ok
}

// elements returns the number of elements of a tensor.
func elements(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// sameRows reports whether two shapes have equal extents along the last axis, the axis of blocks.
func sameRows(a, b []int) bool { return len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] }

// partDims returns the dims of one of the tensors, as a part of the weight.
func (w *weight) partDims(t tensor) ([]int, error) {
	dims, err := t.Shape.Eval(nil)
	if n := len(dims); err == nil && w.isTurned(t) {
		if n < 2 {
			return nil, fmt.Errorf("it has the shape %v: want a matrix", dims)
		}
		dims[n-1], dims[n-2] = dims[n-2], dims[n-1]
	}
	return dims, err
}

// isTurned reports whether the axes of a tensor are exchanged.
func (w *weight) isTurned(t tensor) bool { return w.Transposed && !t.along }

// Unscaled implements gguf.Scaled.
func (m *made) Unscaled() (gguf.Named, error) { return newMade(m.stored, m.translation, true) }

// WeightNames implements gguf.Named.
func (m *made) WeightNames() []string { return m.names }

// WeightType implements gguf.Named.
func (m *made) WeightType(name string) (ir.DType, []int, error) {
	w, ok := m.all[name]
	if !ok {
		return ir.Invalid, nil, fmt.Errorf("there is no weight %q", name)
	}
	return w.dtype, slices.Clone(w.dims), nil
}

// Weight implements ir.WeightSource.
func (m *made) Weight(name string) (*ir.Data, error) {
	w, ok := m.all[name]
	if !ok {
		return nil, fmt.Errorf("there is no weight %q", name)
	}
	w.one.Lock()
	defer w.one.Unlock()
	// A weak reference: the same data serves several callers, and is collected after its last use.
	if d := w.last.Value(); d != nil {
		return d, nil
	}
	d := &ir.Data{DType: w.dtype, Dims: slices.Clone(w.dims)}
	err := mmap.Guard(func() (err error) { d.Bytes, err = w.load(m.stored); return err })
	if err == nil {
		err = d.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("weight %q, made of %q: %w", name, w.From, err)
	}
	w.last = weak.Make(d)
	return d, nil
}

// load returns the bytes of the weight, from a file or computed.
func (w *weight) load(s *stored) ([]byte, error) {
	if len(w.From) == 0 { // constants of the translation
		out := make([]byte, 4*len(w.Values))
		for i, v := range w.Values {
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(v))
		}
		return out, nil
	}
	var all []byte
	from := ir.Invalid
	for _, name := range w.From {
		t, _ := w.part(s, name)
		d, err := t.load()
		if err != nil {
			return nil, err
		}
		if w.dtype == ir.F32 && t.DType != ir.F32 && t.packed {
			if d, err = inF32(d); err != nil {
				return nil, err
			}
		}
		part := d.Bytes
		if w.isTurned(t) {
			part = transpose(part, d.Dims, d.DType.BlockBytes())
		}
		from = d.DType
		if len(w.From) == 1 { // no copy
			all = part
		} else {
			all = append(all, part...)
		}
	}
	if w.Rows != nil {
		var err error
		if all, err = w.selectRows(all, from); err != nil {
			return nil, err
		}
	}
	if from != w.dtype || w.Change != nil {
		return w.convert(all, from)
	}
	return all, nil
}

// inF32 converts floats, or blocks of floats.
func inF32(d *ir.Data) (*ir.Data, error) {
	out, err := ir.NewData(ir.F32, d.Dims...)
	if err != nil {
		return nil, err
	}
	if !d.DType.IsBlock() {
		values, err := d.Floats()
		if err == nil {
			ir.EncodeFloats(out.Bytes, ir.F32, values)
		}
		return out, err
	}
	values := make([]float32, out.Elems())
	if err := quant.Dequantize(values, d.DType, d.Bytes); err != nil {
		return nil, err
	}
	for i, v := range values {
		binary.LittleEndian.PutUint32(out.Bytes[4*i:], math.Float32bits(v))
	}
	return out, nil
}

// transpose exchanges the last two axes of a tensor, whose elements have size bytes each.
func transpose(in []byte, dims []int, size int) []byte {
	rows, columns := dims[len(dims)-2], dims[len(dims)-1]
	out := make([]byte, len(in))
	for base := 0; base < len(in); base += rows * columns * size {
		from, to := in[base:], out[base:]
		for r := range rows {
			for c := range columns {
				copy(to[(c*rows+r)*size:][:size], from[(r*columns+c)*size:])
			}
		}
	}
	return out
}

// selectRows returns the rows of the weight that w.Rows names, in its order, from the bytes `all` of the stored tensor
// of dtype from. Rows are slices along w.RowAxis.
func (w *weight) selectRows(all []byte, from ir.DType) ([]byte, error) {
	outer, rowElems := 1, int64(1) // the extents before and after the axis of rows, multiplied
	for i, n := range w.rowed {
		if i < w.RowAxis {
			outer *= n
		} else if i > w.RowAxis {
			rowElems *= int64(n)
		}
	}
	unit := 1 // blocks move as wholes
	if w.RowAxis == len(w.rowed)-1 {
		unit = from.BlockElems()
	}
	bytes, err := from.BytesFor(rowElems * int64(unit))
	if err != nil {
		return nil, err
	}
	size := int(bytes)
	if outer == 0 || size == 0 {
		return nil, nil
	}
	n := len(all) / outer / size
	rows, _ := inUnits(w.Rows(n*unit), unit)
	out := make([]byte, 0, outer*len(rows)*size)
	for o := range outer {
		part := all[o*n*size:][:n*size]
		for _, r := range rows {
			if r >= n {
				return nil, fmt.Errorf("it has %d rows: want row %d", n, r)
			}
			out = append(out, part[r*size:][:size]...)
		}
	}
	return out, nil
}

// convert converts elements to the weight's type, and changes them.
func (w *weight) convert(all []byte, from ir.DType) ([]byte, error) {
	values, err := (&ir.Data{DType: from, Dims: []int{len(all) / from.BlockBytes()}, Bytes: all}).Floats()
	if err != nil {
		return nil, err
	}
	rows := 1
	if len(w.dims) > 0 {
		rows = max(w.dims[0], 1)
	}
	if w.Change != nil {
		perRow := len(values) / rows
		for i, v := range values {
			values[i] = float64(float32(w.Change(i/perRow, v))) // models compute it in f32
		}
	}
	d, err := ir.FromFloats(w.dtype, values, len(values))
	if err != nil {
		return nil, err
	}
	return d.Bytes, nil
}
