package gguf

import (
	"encoding/binary"

	"github.com/vkc-go/vkc/internal/filefmt"
)

// cursor reads little-endian values, and never past the end of the file. After the first failure every read returns
// zero, so callers need to check err only once per record.
type cursor struct {
	src  filefmt.Source
	data []byte
	pos  int
	err  error
}

func (c *cursor) left() int { return len(c.data) - c.pos }

// failf records an error at the cursor's position. An earlier error stays.
func (c *cursor) failf(format string, args ...any) { c.failAt(c.pos, format, args...) }

// failAt records an error at a position of the file. An earlier error stays.
func (c *cursor) failAt(pos int, format string, args ...any) {
	if c.err == nil {
		c.err = c.src.Errorf(int64(pos), format, args...)
	}
}

// take returns the next n bytes, or nil after an error. what names them in errors.
func (c *cursor) take(n int, what string) []byte {
	if c.err == nil && n > c.left() {
		c.failf("the file ends inside %s: want %d bytes, %d are left", what, n, c.left())
	}
	if c.err != nil {
		return nil
	}
	b := c.data[c.pos : c.pos+n]
	c.pos += n
	return b
}

// u32 reads a little-endian number. what names it in errors. After an error it returns 0.
func (c *cursor) u32(what string) uint32 {
	if b := c.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// u64 reads a little-endian 64-bit number. what names it in errors. After an error it returns 0.
func (c *cursor) u64(what string) uint64 {
	if b := c.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads a 64-bit number of items that take at least minBytes each. A number that the rest of the file cannot hold
// is an error, so that allocations are never larger than the file justifies.
func (c *cursor) count(minBytes int, what string) int {
	at := c.pos
	n := c.u64(what)
	if c.err == nil && n > uint64(c.left()/minBytes) {
		c.failAt(at, "%s is %d, at %d bytes or more each, but %d bytes are left", what, n, minBytes, c.left())
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

// str reads a string of at most limit bytes: its length, and then the bytes.
func (c *cursor) str(limit int, what string) string {
	at := c.pos
	n := c.count(1, "the length of "+what)
	if n > limit {
		c.failAt(at, "the length of %s is %d: want at most %d", what, n, limit)
	}
	return string(c.take(n, what))
}
