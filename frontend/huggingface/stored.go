package huggingface

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// stored are the tensors of a folder as the model's program sees them. A matrix that the files have in several tensors,
// as small numbers and their scales, is one tensor here.
type stored struct {
	file    tensorFile
	tensors map[string]tensor
}

// tensor is a tensor of a folder, in the order of the folder.
type tensor struct {
	ir.Type
	load   func() (*ir.Data, error)
	packed bool // it is read by a packing, which determines its type

	// along means that its rows are along the axis that a matmul sums over, also in folders that have it the other way.
	along bool

	// A matrix may come with another tensor of nn.Linear: its name ends in more in place of .weight. plain is the same
	// matrix alone, for weights that are not used by nn.Linear.
	more  string
	with  *tensor
	plain *tensor
}

// A packing is a way to write one tensor as several.
type packing struct {
	suffix string // of the tensor that tells
	// read returns the tensor with that name less the suffix, and the names of the tensors it is made of.
	read func(s *reader, base string) (name string, t tensor, from []string, err error)
}

// packings is the table of packings, in the order in which they are tried.
var packings = []packing{
	{".qweight", fourBitMatrix},
	{".weight_packed", fourBitMatrix},
	{".weight_scale_inv", scaled},
	{".weight_scale", scaled},
	{"_blocks", mxfp4},
}

// reader reads tensors of a file.
type reader struct {
	tensorFile
	types map[string]ir.Type
	block [2]int // rows and columns that share a scale, of config.json; or zeros

	method, format string // of quantization_config in config.json
	bits           int
	scattered      bool // GPTQ has assigned columns to groups by their importance (desc_act)
}

// newStored reads the types of all tensors of a folder, and joins the tensors of each quantized matrix to one tensor.
// config is config.json, which names the method of quantization.
func newStored(file tensorFile, config []byte) (*stored, error) {
	r := &reader{tensorFile: file, types: map[string]ir.Type{}}
	if err := r.readQuantization(config); err != nil {
		return nil, err
	}
	s := &stored{file: file, tensors: map[string]tensor{}}
	names := file.Names()
	for _, name := range names {
		d, err := file.Weight(name)
		if err != nil {
			return nil, err
		}
		r.types[name] = ir.Type{DType: d.DType, Shape: ir.ShapeOf(d.Dims...)}
	}
	used := map[string]bool{} // tensors that are part of a quantized matrix
	for _, p := range packings {
		for _, name := range names {
			base, ok := strings.CutSuffix(name, p.suffix)
			if !ok || used[name] {
				continue
			}
			made, t, from, err := p.read(r, base)
			if err != nil {
				return nil, fmt.Errorf("tensor %q: %w", name, err)
			}
			for _, part := range from {
				used[part] = true
			}
			t.packed = true
			s.tensors[made] = t
			if t.more != "" {
				s.tensors[strings.TrimSuffix(made, ".weight")+t.more] = *t.with
			}
		}
	}
	for _, name := range names {
		// The other tensors are not quantized.
		if used[name] || strings.HasSuffix(name, ".input_scale") { // a scale of activations, which stay floats here
			continue
		}
		clean := strings.NewReplacer(".gamma", ".weight", ".beta", ".bias").Replace(name) // old names of norms
		s.tensors[clean] = tensor{Type: r.types[name], load: func() (*ir.Data, error) { return file.Weight(name) }}
	}
	return s, nil
}

// types returns the type of each tensor, without the tensors that come with matrices for nn.Linear.
func (s *stored) types() map[string]ir.Type {
	all := s.linearTypes()
	for name, t := range s.tensors {
		if t.more != "" {
			delete(all, strings.TrimSuffix(name, ".weight")+t.more)
		}
	}
	return all
}

// linearTypes returns the type of each tensor.
func (s *stored) linearTypes() map[string]ir.Type {
	all := map[string]ir.Type{}
	for name, t := range s.tensors {
		all[name] = t.Type
	}
	return all
}

// quantizations are the values of quant_method in config.json that packings read.
var quantizations = []string{"fp8", "mxfp4", "compressed-tensors", "fbgemm_fp8", "gptq", "awq"}

// compressions are the formats of compressed-tensors that packings read.
var compressions = []string{"float-quantized", "naive-quantized", "pack-quantized"}

// readQuantization reads "quantization_config" of config.json.
func (r *reader) readQuantization(config []byte) error {
	var c struct {
		Quantization *struct {
			Method  string `json:"quant_method"`
			Format  string `json:"format"`
			Block   []int  `json:"weight_block_size"`
			Bits    int    `json:"bits"`
			Zeros   string `json:"checkpoint_format"` // of GPTQ
			Scatter bool   `json:"desc_act"`          // of GPTQ
			Layout  string `json:"version"`           // of AWQ
			Groups  map[string]struct {
				Weights struct {
					Bits int    `json:"num_bits"`
					Type string `json:"type"`
				} `json:"weights"`
			} `json:"config_groups"` // of compressed-tensors
		} `json:"quantization_config"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	q := c.Quantization
	if q == nil {
		return nil
	}
	if !slices.Contains(quantizations, q.Method) ||
		q.Method == "compressed-tensors" && !slices.Contains(compressions, q.Format) {
		return fmt.Errorf("config.json: quantization_config has the method %q %q, which is not supported: want %s",
			q.Method, q.Format, strings.Join(quantizations, ", "))
	}
	if q.Method == "awq" && q.Layout != "" && !strings.EqualFold(q.Layout, "gemm") {
		return fmt.Errorf("config.json: AWQ in the layout %q is not supported: want gemm", q.Layout)
	}
	r.method, r.format, r.bits, r.scattered = q.Method, q.Zeros, q.Bits, q.Scatter
	for _, group := range q.Groups {
		if w := group.Weights; w.Type == "int" && (r.bits == 0 || w.Bits != 4) { // several numbers of bits are refused
			r.bits = w.Bits
		}
	}
	if len(q.Block) == 2 && q.Block[0] > 0 && q.Block[1] > 0 {
		r.block = [2]int(q.Block)
	}
	return nil
}

// scaled reads a matrix of 8-bit floats with its scales. There is one scale for the matrix, for each row, or for each
// block of rows and columns. A value is the 8-bit number times its scale. The matrix stays in 8 bits. scaled returns
// the weight's name, its tensor t, and the names of the tensors that it read (from).
func scaled(r *reader, base string) (name string, t tensor, from []string, err error) {
	name = base + ".weight"
	scales := base + ".weight_scale_inv"
	if !r.HasWeight(scales) {
		scales = base + ".weight_scale"
	}
	w, s := r.types[name], r.types[scales]
	if !r.HasWeight(name) || w.DType != ir.F8E4M3 && w.DType != ir.F8E5M2 || len(w.Shape) != 2 || !s.DType.IsFloat() {
		return "", t, nil, fmt.Errorf("it is the scale of %q, which is %s: want a matrix of 8-bit floats with float "+
			"scales", name, w)
	}
	rows, columns := w.Shape[0].Static(), w.Shape[1].Static()
	block := [2]int{rows, columns}
	elems := 1
	for _, d := range s.Shape {
		elems *= d.Static()
	}
	blocks := func(n, size int) ir.Dim { return ir.D((n + size - 1) / size) }
	switch {
	case elems == 1: // one scale for the matrix
	case elems == rows && (len(s.Shape) == 1 || s.Shape[len(s.Shape)-1].Is(1)):
		block[0] = 1 // one scale for each row
	case r.block[0] > 0 && s.Shape.Equal(ir.Shape{blocks(rows, r.block[0]), blocks(columns, r.block[1])}):
		block = r.block
	default:
		return "", t, nil, fmt.Errorf("the scales of %q %s are %s: want one, one for each row, or one for each block "+
			"of weight_block_size in config.json", name, w, s)
	}
	if rows*columns == 0 {
		return "", t, nil, fmt.Errorf("%q is %s, without elements", name, w)
	}
	block[1] = min(block[1], columns)
	m := scaledMatrix{name: name, scales: scales, rows: rows, columns: columns, block: block}
	from = []string{name, scales}
	plain, err := m.plain(r)
	if err != nil || m.group() == 1 && columns > 1 { // a scale for each element would take more room than f32
		return name, plain, from, err
	}
	t = tensor{Type: w, load: func() (*ir.Data, error) { return r.Weight(name) }, packed: true,
		more: ".weight_scale", with: m.rowScales(r), plain: &plain}
	return name, t, from, nil
}

// scaledMatrix is a matrix of 8-bit floats with a scale for each block of rows and columns.
type scaledMatrix struct {
	name, scales  string // of tensors
	rows, columns int
	block         [2]int
}

// scaleOf returns the number of the scale of an element.
func (m scaledMatrix) scaleOf(row, column int) int {
	blocksPerRow := (m.columns + m.block[1] - 1) / m.block[1]
	return row/m.block[0]*blocksPerRow + column/m.block[1]
}

// group returns the largest n for which each n columns of a row, counted from the first, share one scale. n divides the
// columns of a block and, as the last block of a row may be shorter, the columns of a row. So it is the greatest common
// divisor of both.
func (m scaledMatrix) group() int {
	size, rest := m.block[1], m.columns
	for rest != 0 {
		size, rest = rest, size%rest
	}
	return size
}

// plain returns the matrix as floats, with the scales multiplied in.
func (m scaledMatrix) plain(r *reader) (t tensor, err error) {
	t = tensor{Type: ir.Type{DType: ir.F32, Shape: ir.ShapeOf(m.rows, m.columns)}, packed: true}
	scale, err := r.floats(m.scales)
	if err != nil {
		return t, err
	}
	if !slices.ContainsFunc(scale, func(v float64) bool { return !keepsDigits(v) }) {
		t.DType = ir.BF16 // which has all multiples of 8-bit floats by powers of two
	}
	t.load = func() (*ir.Data, error) {
		values, err := r.floats(m.name)
		if err != nil {
			return nil, err
		}
		scale, err := r.floats(m.scales)
		if err != nil {
			return nil, err
		}
		for i, v := range values {
			values[i] = v * scale[m.scaleOf(i/m.columns, i%m.columns)]
		}
		out, err := ir.NewData(t.DType, m.rows, m.columns)
		if err == nil {
			ir.EncodeFloats(out.Bytes, t.DType, values)
		}
		return out, err
	}
	return t, nil
}

// rowScales returns the scales of the matrix as [rows, groups]: a scale for each row and each group of columns,
// repeated from the scales of blocks.
func (m scaledMatrix) rowScales(r *reader) *tensor {
	groups := m.columns / m.group()
	return &tensor{Type: ir.Type{DType: ir.F32, Shape: ir.ShapeOf(m.rows, groups)}, packed: true,
		load: func() (*ir.Data, error) {
			scale, err := r.floats(m.scales)
			if err != nil {
				return nil, err
			}
			all := make([]float64, m.rows*groups)
			for i := range all {
				row, column := i/groups, i%groups*m.group() // the first column of the group
				all[i] = scale[m.scaleOf(row, column)]
			}
			return ir.FromFloats(ir.F32, all, m.rows, groups)
		}}
}

// keepsDigits reports whether multiplying by v keeps the digits of an 8-bit float: v is a power of two, far from the
// smallest and largest numbers of bf16.
func keepsDigits(v float64) bool {
	digits, exponent := math.Frexp(v)
	return digits == 0.5 && exponent > -80 && exponent < 80
}

// floats returns the elements of a tensor.
func (r *reader) floats(name string) ([]float64, error) {
	d, err := r.Weight(name)
	if err != nil {
		return nil, err
	}
	return d.Floats()
}

// mxfp4 reads a stack of matrices in blocks of 32 numbers of 4 bits, with a scale for each block. In the file, byte i
// of a block has the numbers 2i and 2i+1. A block of format mxfp4 has its scale first. Byte i after the scale has the
// numbers i and i+16.
func mxfp4(r *reader, base string) (name string, t tensor, from []string, err error) {
	const elems, bytes = 32, 16 // of a block, without its scale
	blocks, scales := base+"_blocks", base+"_scales"
	blocksType, scalesType := r.types[blocks], r.types[scales]
	last := len(blocksType.Shape) - 1
	if !r.HasWeight(scales) || blocksType.DType != ir.U8 || scalesType.DType != ir.U8 || last < 1 ||
		blocksType.Shape[last].Static() != bytes || !scalesType.Shape.Equal(blocksType.Shape[:last]) {
		return "", t, nil, fmt.Errorf("it is %s, and %q is %s: want blocks of 16 bytes, and a byte for each as scale",
			blocksType, scales, scalesType)
	}
	shape := slices.Clone(scalesType.Shape) // [..., blocks in a row]
	shape[last-1] = ir.D(elems * shape[last-1].Static())
	t.Type, t.along = ir.Type{DType: ir.MXFP4, Shape: shape}, true
	t.load = func() (*ir.Data, error) {
		numbers, err := r.Weight(blocks)
		if err != nil {
			return nil, err
		}
		scale, err := r.Weight(scales)
		if err != nil {
			return nil, err
		}
		dims, err := shape.Eval(nil)
		if err != nil {
			return nil, err
		}
		out, err := ir.NewData(ir.MXFP4, dims...)
		if err != nil {
			return nil, err
		}
		size := ir.MXFP4.BlockBytes()
		for i, exponent := range scale.Bytes {
			to, in := out.Bytes[i*size:][:size], numbers.Bytes[bytes*i:][:bytes]
			to[0] = exponent
			for j := range elems / 2 {
				low, high := nibble(in, j), nibble(in, elems/2+j)
				to[1+j] = low | high<<4
			}
		}
		return out, nil
	}
	return base, t, []string{blocks, scales}, nil
}

// nibble returns number i of bytes with two numbers each, the low half first.
func nibble(b []byte, i int) byte { return b[i/2] >> (i % 2 * 4) & 15 }
