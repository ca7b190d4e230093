package huggingface

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// fourBits is a matrix of 4-bit numbers with a scale and a zero for each group of a row's columns, as GPTQ (Frantar et
// al. 2022, arXiv:2210.17323), AWQ (Lin et al. 2023, arXiv:2306.00978) and llm-compressor make it. An element is
// scale*(number-zero).
type fourBits struct {
	*layout
	rows, columns, groups int
	numbers, zeros        []byte // 8 numbers in a word of 32 bits; no zeros mean 8
	scales                []float64
	groupOf               []byte  // of each column, a word of 32 bits; nil if groups are one after the other
	scattered             bool    // columns are sorted by groups, even if this matrix has them in order (desc_act)
	bias                  int     // added to zeros
	order                 []int64 // column order[i] of the file is column i; nil if columns are in the file's order
}

// layout says how the files of a method have the parts of a matrix.
type layout struct {
	numbers, scales, zeros, groups string // the ends of the names of tensors
	isRows                         bool   // the tensors have the matrix's rows; otherwise they are transposed

	// numberAt and zeroAt return the index of the 32-bit word that has a number or a zero, and its place in the word, 0
	// to 7. at is a column for numberAt, and a group for zeroAt.
	numberAt, zeroAt func(m *fourBits, row, at int) (word, place int)
}

// layouts has the layouts of matrices with 4-bit numbers, by the quantization method that config.json names.
var layouts = map[string]*layout{
	"gptq": {numbers: ".qweight", scales: ".scales", zeros: ".qzeros", groups: ".g_idx",
		numberAt: func(m *fourBits, row, column int) (int, int) { return column/8*m.rows + row, column % 8 },
		zeroAt:   func(m *fourBits, row, group int) (int, int) { return group*(m.rows/8) + row/8, row % 8 },
	},
	"awq": {numbers: ".qweight", scales: ".scales", zeros: ".qzeros", groups: ".g_idx",
		numberAt: (*fourBits).inTurns,
		zeroAt:   (*fourBits).inTurns,
	},
	"compressed-tensors": {numbers: ".weight_packed", scales: ".weight_scale", zeros: ".weight_zero_point",
		groups: ".weight_g_idx", isRows: true,
		numberAt: func(m *fourBits, row, column int) (int, int) { return row*(m.columns/8) + column/8, column % 8 },
		zeroAt:   func(m *fourBits, row, group int) (int, int) { return row/8*m.groups + group, row % 8 },
	},
}

// inTurns returns the word of a 4-bit number, and its place in the word, in the layout of AWQ. It serves as numberAt
// and zeroAt. A word has the rows 0, 2, 4, 6, 1, 3, 5 and 7 of 8, from the low end.
func (m *fourBits) inTurns(row, at int) (word, place int) {
	return at*(m.rows/8) + row/8, row%8/2 + row%2*4
}

// fourBits reads the types of the tensors of a 4-bit matrix, and returns its size and layout. from lists the names of
// the tensors.
func (r *reader) fourBits(base string) (m fourBits, from []string, err error) {
	m.layout = layouts[r.method]
	if m.layout == nil || r.bits != 4 {
		return m, nil, fmt.Errorf("it has %d bits by the method %q: want 4-bit numbers of %s", r.bits, r.method,
			strings.Join(slices.Sorted(maps.Keys(layouts)), ", "))
	}
	from = []string{base + m.layout.numbers, base + m.layout.scales}
	q, s := r.types[from[0]], r.types[from[1]]
	if q.DType != ir.I32 || !s.DType.IsFloat() || len(q.Shape) != 2 || len(s.Shape) != 2 {
		return m, nil, fmt.Errorf("it is %s, its scales %s: want words of 4-bit numbers, and floats", q, s)
	}
	if !m.setSize(q.Shape, s.Shape, r.method == "awq") {
		return m, nil, fmt.Errorf("it is %s, and its scales %s: want a scale for each group of a row", q, s)
	}
	optional, err := r.zerosAndGroups(base, &m)
	if err != nil {
		return m, nil, err
	}
	m.scattered = r.scattered && r.HasWeight(base+m.layout.groups)
	return m, append(from, optional...), nil
}

// setSize sets the rows, columns and groups of a matrix from the shapes of its words, which hold 8 numbers each, and of
// its scales. It reports whether the shapes fit each other. awq says that a word has 8 rows and not 8 columns.
func (m *fourBits) setSize(words, scales ir.Shape, awq bool) bool {
	first, second := words[0].Static(), words[1].Static()
	rows, groups := scales[1], scales[0].Static()
	switch {
	case m.isRows:
		m.rows, m.columns = first, 8*second
		rows, groups = scales[0], scales[1].Static()
	case awq:
		m.rows, m.columns = 8*second, first
	default:
		m.rows, m.columns = second, 8*first
	}
	m.groups = groups
	return groups >= 1 && m.columns%groups == 0 && rows.Is(m.rows)
}

// zerosAndGroups returns the names of two tensors of a matrix, if the folder has them: the zero points, which only a
// matrix in rows may lack, and the group of each column.
func (r *reader) zerosAndGroups(base string, m *fourBits) (names []string, err error) {
	zeros := ir.ShapeOf(m.groups, (m.rows+7)/8) // 8 rows a word
	if m.isRows {
		zeros = ir.ShapeOf((m.rows+7)/8, m.groups)
	}
	for _, tensor := range []struct {
		end      string
		shape    ir.Shape
		required bool
	}{{m.layout.zeros, zeros, !m.isRows}, {m.layout.groups, ir.ShapeOf(m.columns), false}} {
		name := base + tensor.end
		t, has := r.types[name]
		switch {
		case has && t.DType == ir.I32 && t.Shape.Equal(tensor.shape):
			names = append(names, name)
		case has || tensor.required:
			return nil, fmt.Errorf("its tensor %q is %s: want %s", name, t, ir.Type{DType: ir.I32, Shape: tensor.shape})
		}
	}
	return names, nil
}

// read reads the tensors of the matrix. from lists their names. The 4-bit numbers of the matrix are most of the bytes:
// read reads them only if numbers is set.
func (m *fourBits) read(r *reader, from []string, numbers bool) (err error) {
	for _, name := range from {
		var to *[]byte
		switch name[strings.LastIndexByte(name, '.'):] {
		case m.layout.numbers:
			to = &m.numbers
		case m.layout.zeros:
			to = &m.zeros
		case m.layout.groups:
			to = &m.groupOf
		default:
			if m.scales, err = r.floats(name); err != nil {
				return err
			}
			continue
		}
		if to == &m.numbers && !numbers {
			continue
		}
		d, err := r.Weight(name)
		if err != nil {
			return err
		}
		*to = d.Bytes
	}
	if r.method == "gptq" && r.format != "gptq_v2" {
		m.bias = 1 // the files have zeros less 1
	}
	return m.checkGroups()
}

// checkGroups checks the groups of columns. Compressed tensors have -1 for columns that stay in their order.
func (m *fourBits) checkGroups() error {
	for c := range len(m.groupOf) / 4 {
		g := int32(binary.LittleEndian.Uint32(m.groupOf[4*c:]))
		if g == -1 && m.isRows {
			m.groupOf = nil // the columns are in their order
			break
		}
		if g < 0 || int(g) >= m.groups {
			return fmt.Errorf("column %d is in group %d: want 0 to %d", c, g, m.groups-1)
		}
	}
	return nil
}

// nibbleAt returns the 4 bits of word `word` from bit 4*at on.
func nibbleAt(words []byte, word, at int) int {
	return int(binary.LittleEndian.Uint32(words[4*word:]) >> (4 * at) & 15)
}

// scale returns the index of a group's scale in a row.
func (m *fourBits) scale(row, group int) int {
	if m.isRows {
		return row*m.groups + group
	}
	return group*m.rows + row
}

// group returns the group of a column.
func (m *fourBits) group(column int) int {
	if m.groupOf == nil {
		return column / (m.columns / m.groups)
	}
	return int(binary.LittleEndian.Uint32(m.groupOf[4*column:]))
}

// format returns the dtype that represents every element exactly. An element is scale * (number - zero), with a number
// of 4 bits and a scale in f16 for each group of columns. If all zeros are 8, the dtype is q4_0. For other zeros, which
// are 0 to 16, the difference needs 5 bits, and the dtype is q5_0. A block format needs groups of whole blocks, and
// other matrices are f32. GPTQ with desc_act scatters the columns of a group, so format sorts columns by group first.
func (m *fourBits) format() (ir.DType, error) {
	size := m.columns / m.groups
	if size%ir.Q4_0.BlockElems() != 0 || !m.sort(size) {
		return ir.F32, nil
	}
	halves, err := ir.FromFloats(ir.F16, m.scales, len(m.scales))
	if err != nil {
		return ir.F32, err
	}
	if kept, err := halves.Floats(); err != nil || !slices.Equal(kept, m.scales) {
		return ir.F32, err
	}
	for g := range m.groups {
		for row := range m.rows {
			if m.zero(row, g) != 8 {
				return ir.Q5_0, nil
			}
		}
	}
	return ir.Q4_0, nil
}

// sort sets the order of the columns in which groups follow each other. It returns false unless all groups have size
// columns.
func (m *fourBits) sort(size int) bool {
	order := make([]int64, m.columns)
	for c := range order {
		order[c] = int64(c)
	}
	byGroup := func(a, b int64) int { return cmp.Compare(m.group(int(a)), m.group(int(b))) }
	if m.scattered || !slices.IsSortedFunc(order, byGroup) {
		slices.SortStableFunc(order, byGroup)
		m.order = order
	}
	for i, c := range order {
		if m.group(int(c)) != i/size {
			return false
		}
	}
	return true
}

// zero returns the zero of a row in a group, 0 to 16.
func (m *fourBits) zero(row, group int) int {
	if m.zeros == nil {
		return 8
	}
	word, place := m.zeroAt(m, row, group)
	return nibbleAt(m.zeros, word, place) + m.bias
}

// number returns the 4-bit number of an element.
func (m *fourBits) number(row, column int) int {
	word, place := m.numberAt(m, row, column)
	return nibbleAt(m.numbers, word, place)
}

// fourBitMatrix reads a matrix of 4-bit numbers. It becomes q4_0 or q5_0 if that has the same elements, and else f32.
func fourBitMatrix(r *reader, base string) (name string, t tensor, from []string, err error) {
	m, parts, err := r.fourBits(base)
	if err == nil {
		err = m.read(r, parts, false)
	}
	if err != nil {
		return "", t, nil, err
	}
	format, err := m.format()
	if err != nil {
		return "", t, nil, err
	}
	as := func(format ir.DType) tensor {
		return tensor{Type: ir.Type{DType: format, Shape: ir.ShapeOf(m.rows, m.columns)}, packed: true, along: true,
			load: func() (*ir.Data, error) {
				m := m // a copy, so that the numbers are not kept
				if err := m.read(r, parts, true); err != nil {
					return nil, err
				}
				out, err := ir.NewData(format, m.rows, m.columns)
				if err == nil && format.IsBlock() {
					err = m.blocks(out.Bytes, format)
				} else if err == nil {
					m.floats(out.Bytes)
				}
				return out, err
			}}
	}
	t = as(format)
	if format.IsBlock() && m.order != nil {
		plain, order := as(ir.F32), m.order
		t.more, t.plain = ".order", &plain
		t.with = &tensor{Type: ir.Type{DType: ir.I32, Shape: ir.ShapeOf(m.columns)},
			load: func() (*ir.Data, error) { return ir.FromInts(ir.I32, order, len(order)) }}
	}
	from = slices.Clone(parts)
	if shape := base + ".weight_shape"; r.HasWeight(shape) { // the numbers and the scales say the same
		from = append(from, shape)
	}
	return base + ".weight", t, from, nil
}

// floats writes the elements as f32, which has them exactly.
func (m *fourBits) floats(out []byte) {
	for row := range m.rows {
		for c := range m.columns {
			g := m.group(c)
			v := m.scales[m.scale(row, g)] * float64(m.number(row, c)-m.zero(row, g))
			binary.LittleEndian.PutUint32(out[4*(row*m.columns+c):], math.Float32bits(float32(v)))
		}
	}
}

// column returns the file's column of a sorted one.
func (m *fourBits) column(sorted int) int {
	if m.order == nil {
		return sorted
	}
	return int(m.order[sorted])
}

// blocks writes the elements as blocks of q4_0: a scale, and 16 bytes with a number of the first half and one of the
// second half. A block of q5_0 has the fifth bits of all numbers between them.
func (m *fourBits) blocks(out []byte, format ir.DType) error {
	scales, err := ir.FromFloats(ir.F16, m.scales, len(m.scales))
	if err != nil {
		return err
	}
	size, elems := format.BlockBytes(), format.BlockElems()
	middle := map[ir.DType]int{ir.Q4_0: 8, ir.Q5_0: 16}[format] // the number that stands for 0
	for row := range m.rows {
		for first := 0; first < m.columns; first += elems {
			block, fifths := out[:size], uint32(0)
			out = out[size:]
			g := m.group(m.column(first))
			copy(block, scales.Bytes[2*m.scale(row, g):][:2]) // two bytes, a float16
			half := elems / 2
			nibbles := block[size-half:]
			for i := range elems {
				n := m.number(row, m.column(first+i)) - m.zero(row, g) + middle
				fifths |= uint32(n>>4) << i
				nibbles[i%half] |= byte(n&15) << (i / half * 4) // the second half is in the high bits
			}
			if format == ir.Q5_0 {
				binary.LittleEndian.PutUint32(block[2:], fifths)
			}
		}
	}
	return nil
}
