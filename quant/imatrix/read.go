package imatrix

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/internal/filefmt"
)

// minEntry is the minimum size in bytes of an entry of the older format (see Read): the length of its name, one byte of
// name, the number of calls that were counted, the number of values, and one value.
const minEntry = 4 + 1 + 4 + 4 + 4

// maxName bounds the length of names.
const maxName = 64 << 10

// Read reads an importance matrix in the older binary format. path only names the file in errors. All numbers are
// little-endian. The file has
//
//   - the number of entries, an i32;
//   - for each entry: the length of its name (i32), the name, the number of calls (i32), the number of values (i32),
//     and the values (f32), which are sums of squares over the calls;
//   - in newer files: the number of chunks (i32), the length of the dataset's name (i32), and the name.
func Read(data []byte, path string) (*Matrix, error) {
	c := cursor{src: filefmt.Source{Format: "imatrix", Path: path}, data: data}
	n := c.count(minEntry, "entries")
	m := &Matrix{sums: make(map[string][]float32, n)}
	for range n {
		if err := c.readEntry(m); err != nil {
			return nil, err
		}
	}
	if c.err == nil && c.pos < len(data) {
		m.Chunks = c.i32("the number of chunks")
		if m.Chunks < 0 {
			c.failAt(c.pos-4, "%d chunks", m.Chunks)
		}
		m.Datasets = []string{string(c.take(c.count(1, "bytes of the dataset's name"), "the dataset's name"))}
	}
	if c.err == nil && c.pos < len(data) {
		c.failAt(c.pos, "%d bytes follow the end", len(data)-c.pos)
	}
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

// readEntry reads an entry into m.
func (c *cursor) readEntry(m *Matrix) error {
	start := c.pos
	length := c.count(1, "bytes of a name")
	if length == 0 || length > maxName {
		c.failAt(start, "a name of %d bytes: want 1 to %d", length, maxName)
	}
	name := string(c.take(length, "a name"))
	calls := c.i32("the number of calls")
	valuesAt := c.pos + 4 // the number of values is before the values, and the number of calls before both
	values := c.floats(c.count(4, "values"), "values")
	if c.err != nil {
		return c.err
	}
	if _, ok := m.sums[name]; ok {
		c.failAt(start, "a second entry %q", name)
	}
	if calls < 0 {
		c.failAt(valuesAt-8, "entry %q has %d calls", name, calls)
	}
	if len(values) == 0 {
		c.failAt(valuesAt-4, "entry %q has no values", name)
	}
	if i := firstBad(values); i >= 0 {
		c.failAt(valuesAt+4*i, "entry %q: value %d is %g: want a sum of squares, at least 0", name, i, values[i])
	}
	m.sums[name] = values
	return c.err
}

// cursor reads little-endian values and never past the end. After the first failure every read returns zero.
type cursor struct {
	src  filefmt.Source
	data []byte
	pos  int
	err  error
}

func (c *cursor) failAt(pos int, format string, args ...any) {
	if c.err == nil {
		c.err = c.src.Errorf(int64(pos), format, args...)
	}
}

// take returns the next n bytes, or nil after a failure.
func (c *cursor) take(n int, what string) []byte {
	if left := len(c.data) - c.pos; n > left {
		c.failAt(c.pos, "the file ends inside %s: want %d bytes, %d are left", what, n, left)
	}
	if c.err != nil {
		return nil
	}
	c.pos += n
	return c.data[c.pos-n : c.pos]
}

// i32 reads a little-endian number. what names it in errors. After an error it returns 0.
func (c *cursor) i32(what string) int {
	if b := c.take(4, what); b != nil {
		return int(int32(binary.LittleEndian.Uint32(b)))
	}
	return 0
}

// count reads a number of items of at least size bytes each, and refuses a number that the rest of the file cannot
// hold.
func (c *cursor) count(size int, what string) int {
	n := c.i32(fmt.Sprintf("the number of %s", what))
	if left := len(c.data) - c.pos; n < 0 || n > left/size {
		c.failAt(c.pos-4, "%d %s: the rest of the file holds at most %d", n, what, left/size)
		return 0
	}
	return n
}

// floats reads n floats.
func (c *cursor) floats(n int, what string) []float32 {
	b := c.take(4*n, what)
	values := make([]float32, len(b)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return values
}
