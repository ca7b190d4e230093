package imatrix

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/internal/filefmt"
)

// minEntry is the minimum size of an entry in bytes: the length of its name, one byte of name, calls, the number of
// values and one value.
const minEntry = 4 + 1 + 4 + 4 + 4

// maxName bounds the length of names.
const maxName = 64 << 10

// Read reads the older binary format. All of it is little-endian: an i32 number of entries; for each an i32 length and
// its name, i32 calls, an i32 number of values and these as f32, sums of squares over the calls; then, in newer files,
// i32 chunks, an i32 length and the dataset's name. path only names the file in errors.
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
	valuesAt := c.pos + 4
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
		c.failAt(valuesAt+4*i, "entry %q: value %d is %g, which is no sum of squares", name, i, values[i])
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

func (c *cursor) floats(n int, what string) []float32 {
	b := c.take(4*n, what)
	values := make([]float32, len(b)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return values
}
