package huggingface

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// fourBits is a matrix of 4-bit numbers with a scale and a zero for each group of a row's columns, as GPTQ (Frantar et
// al. 2022, arXiv:2210.17323) and AWQ (Lin et al. 2023, arXiv:2306.00978) make it. An element is scale*(number-zero).
// The files have all of it transposed.
type fourBits struct {
	rows, columns, groups int
	numbers, zeros        []byte // 8 numbers in a word of 32 bits
	scales                []float64
	groupOf               []byte  // of each column, a word of 32 bits; nil if groups are one after the other
	scattered             bool    // groups have no order in the file, although those of this matrix may have one
	bias                  int     // added to zeros
	order                 []int64 // column order[i] of the file is column i; nil if columns are in the file's order
}

// fourBits reads the types of a matrix's tensors.
func (r *reader) fourBits(base string) (m fourBits, from []string, err error) {
	from = []string{base + ".qweight", base + ".qzeros", base + ".scales"}
	q, z, s := r.types[from[0]], r.types[from[1]], r.types[from[2]]
	if q.DType != ir.I32 || z.DType != ir.I32 || !s.DType.IsFloat() || len(q.Shape) != 2 || len(z.Shape) != 2 ||
		len(s.Shape) != 2 || r.bits != 4 {
		return m, nil, fmt.Errorf("it is %s, its zeros %s, its scales %s, of %d bits: want words of 4-bit numbers, "+
			"and floats", q, z, s, r.bits)
	}
	m.columns, m.rows = 8*q.Shape[0].Static(), q.Shape[1].Static()
	if r.method == "awq" {
		m.columns, m.rows = q.Shape[0].Static(), 8*q.Shape[1].Static()
	}
	if m.groups = s.Shape[0].Static(); m.groups < 1 || m.columns%m.groups != 0 || s.Shape[1].Static() != m.rows ||
		z.Shape[0].Static() != m.groups || 8*z.Shape[1].Static() != m.rows {
		return m, nil, fmt.Errorf("it is %s, its zeros %s and its scales %s: want a scale and a zero for each group "+
			"of a row", q, z, s)
	}
	if name := base + ".g_idx"; r.HasWeight(name) {
		from, m.scattered = append(from, name), r.scattered
		if g := r.types[name]; g.DType != ir.I32 || !g.Shape.Equal(ir.ShapeOf(m.columns)) {
			return m, nil, fmt.Errorf("its groups are %s: want a number for each of %d columns", g, m.columns)
		}
	}
	return m, from, nil
}

// read reads the tensors of the matrix. from lists their names. The 4-bit numbers of the matrix are most of the bytes:
// read reads them only if numbers is set.
func (m *fourBits) read(r *reader, from []string, numbers bool) error {
	// In the order of from; the scales, at nil, are read as floats below.
	for i, to := range []*[]byte{&m.numbers, &m.zeros, nil, &m.groupOf}[:len(from)] {
		if to == nil || i == 0 && !numbers {
			continue
		}
		d, err := r.Weight(from[i])
		if err != nil {
			return err
		}
		*to = d.Bytes
	}
	var err error
	m.scales, err = r.floats(from[2])
	if r.method == "gptq" && r.format != "gptq_v2" {
		m.bias = 1 // the files have zeros less 1
	}
	return err
}

// nibbleAt returns the 4 bits of word `word` from bit 4*at on.
func nibbleAt(words []byte, word, at int) int {
	return int(binary.LittleEndian.Uint32(words[4*word:]) >> (4 * at) & 15)
}

// across returns a number from a table with 8 columns of the file in a word, at a row and a column.
func (m *fourBits) across(words []byte, row, column int, awq bool) int {
	at := column % 8
	if awq {
		at = at/2 + at%2*4 // a word has the columns 0, 2, 4, 6, 1, 3, 5 and 7, from the low end
	}
	return nibbleAt(words, row*(m.rows/8)+column/8, at)
}

// group returns the group of a column.
func (m *fourBits) group(column int) int {
	if m.groupOf == nil {
		return column / (m.columns / m.groups)
	}
	return min(int(binary.LittleEndian.Uint32(m.groupOf[4*column:])), m.groups-1)
}

// format returns the dtype that represents every element exactly. An element is scale * (number - zero), with a number
// of 4 bits and a scale in f16 for each group of columns. That is q4_0 if all zeros are 8. For other zeros, which are 0
// to 16, the difference needs 5 bits, and the dtype is q5_0. Both need groups of whole blocks. GPTQ with desc_act
// scatters the columns of a group, so the caller sorts columns by group first. Other matrices are f32. awq says that
// the file has AWQ's layout, not GPTQ's.
func (m *fourBits) format(awq bool) (ir.DType, error) {
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
			if m.zero(row, g, awq) != 8 {
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
func (m *fourBits) zero(row, group int, awq bool) int {
	return m.across(m.zeros, group, row, awq) + m.bias
}

// number returns the 4-bit number of an element.
func (m *fourBits) number(row, column int, awq bool) int {
	if awq {
		return m.across(m.numbers, column, row, true)
	}
	return nibbleAt(m.numbers, column/8*m.rows+row, column%8)
}

// fourBitMatrix reads a matrix of GPTQ or AWQ. It becomes q4_0 or q5_0 if that has the same elements, and else f32.
func fourBitMatrix(r *reader, base string) (name string, t tensor, from []string, err error) {
	awq := r.method == "awq"
	m, from, err := r.fourBits(base)
	if err == nil {
		err = m.read(r, from, false)
	}
	if err != nil {
		return "", t, nil, err
	}
	format, err := m.format(awq)
	if err != nil {
		return "", t, nil, err
	}
	as := func(format ir.DType) tensor {
		return tensor{Type: ir.Type{DType: format, Shape: ir.ShapeOf(m.rows, m.columns)}, packed: true, along: true,
			load: func() (*ir.Data, error) {
				m := m // the numbers are not kept
				if err := m.read(r, from, true); err != nil {
					return nil, err
				}
				out, err := ir.NewData(format, m.rows, m.columns)
				if err == nil && format.IsBlock() {
					err = m.blocks(out.Bytes, format, awq)
				} else if err == nil {
					m.floats(out.Bytes, awq)
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
	return base + ".weight", t, from, nil
}

// floats writes the elements as f32, which has them exactly.
func (m *fourBits) floats(out []byte, awq bool) {
	for row := range m.rows {
		for c := range m.columns {
			g := m.group(c)
			v := m.scales[g*m.rows+row] * float64(m.number(row, c, awq)-m.zero(row, g, awq))
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
func (m *fourBits) blocks(out []byte, format ir.DType, awq bool) error {
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
			copy(block, scales.Bytes[2*(g*m.rows+row):][:2])
			for i := range elems {
				n := m.number(row, m.column(first+i), awq) - m.zero(row, g, awq) + middle
				fifths |= uint32(n>>4) << i
				block[size-elems/2+i%(elems/2)] |= byte(n&15) << (i / (elems / 2) * 4)
			}
			if format == ir.Q5_0 {
				binary.LittleEndian.PutUint32(block[2:], fifths)
			}
		}
	}
	return nil
}
