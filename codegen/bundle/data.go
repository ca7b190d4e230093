package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// index describes the weight data section: the tensors in it, and checksums. A chunk is ChunkBytes consecutive bytes.
type index struct {
	// CRC32C has a little-endian uint32 for each chunk, in order. The last chunk may be shorter.
	ChunkBytes int64    `json:"chunk_bytes"`
	CRC32C     []byte   `json:"crc32c"`
	Tensors    []tensor `json:"tensors"`
}

// tensor is one weight. Offset counts bytes from the start of the section.
type tensor struct {
	Name   string   `json:"name"`
	DType  ir.DType `json:"dtype"`
	Dims   []int    `json:"dims"`
	Offset int64    `json:"offset"`
	Bytes  int64    `json:"bytes"`
}

// writeWeights writes the weight data section, and then the index section, which contains the checksums.
func (w *writer) writeWeights(refs []weightRef, src ir.WeightSource) error {
	w.begin(KindData, 0)
	start := w.pos
	idx := index{ChunkBytes: chunkSize}
	for _, r := range refs {
		d, err := r.load(src)
		if err != nil {
			return err
		}
		// The zeros before a tensor are part of a chunk, so they count in its checksum.
		w.writeSummed(make([]byte, ceil.Multiple(w.pos-start, tensorAlign)-(w.pos-start)))
		t := tensor{Name: r.name, DType: d.DType, Dims: d.Dims, Offset: w.pos - start, Bytes: int64(len(d.Bytes))}
		// A scalar has dims [] in JSON; nil would give null.
		if t.Dims == nil {
			t.Dims = []int{}
		}
		// d.Bytes may be a mapped file, whose pages fail to load if another process truncates it.
		if err := mmap.Guard(func() error { w.writeSummed(d.Bytes); return w.err }); err != nil {
			return fmt.Errorf("weight %q: %w", r.name, err)
		}
		idx.Tensors = append(idx.Tensors, t)
	}
	w.end()
	w.sums.finish() // the last chunk, which may be shorter
	idx.CRC32C = w.sums.crcs
	w.json(KindIndex, idx)
	return w.err
}

// writeSummed writes bytes of weight data and updates the checksums of their chunks.
func (w *writer) writeSummed(p []byte) {
	for len(p) > 0 {
		n := min(len(p), chunkSize-w.sums.fill)
		w.sums.add(p[:n])
		w.write(p[:n])
		p = p[n:]
	}
}

// chunkSums computes the checksums of weight data while it is written, chunk by chunk.
type chunkSums struct {
	signed bool   // compute SHA-256 too
	crcs   []byte // CRC-32C of each finished chunk, as a little-endian uint32
	shas   []byte // SHA-256 of each finished chunk
	crc    uint32 // CRC-32C of the current chunk so far
	sha    []byte // the current chunk so far, if signed, to be hashed when it is complete
	fill   int    // number of bytes of the current chunk so far
}

// add adds bytes, which must fit in the current chunk.
func (c *chunkSums) add(p []byte) {
	c.crc = crc32.Update(c.crc, crcTable, p)
	if c.signed {
		c.sha = append(c.sha, p...)
	}
	c.fill += len(p)
	if c.fill == chunkSize {
		c.finish()
	}
}

// finish ends the current chunk, unless it is empty.
func (c *chunkSums) finish() {
	if c.fill == 0 {
		return
	}
	c.crcs = binary.LittleEndian.AppendUint32(c.crcs, c.crc)
	if c.signed {
		sum := sha256.Sum256(c.sha)
		c.shas = append(c.shas, sum[:]...)
	}
	c.crc, c.sha, c.fill = 0, c.sha[:0], 0
}

// store is the weights of an open bundle. Several goroutines may use it at the same time.
type store struct {
	data    []byte // the weight data section
	pos     int64  // its position in the file
	index   index
	byName  map[string]int
	shas    []byte        // of each chunk, if the bundle is signed
	checked []atomic.Bool // chunks with a verified checksum
}

// newStore returns the weights of a bundle. It checks the index against the data section, which begins at pos in the
// file.
func newStore(idx index, data []byte, pos int64) (*store, error) {
	// The last chunk may be shorter, so round up.
	chunks := ceil.Div(int64(len(data)), chunkSize)
	switch {
	case idx.ChunkBytes != chunkSize:
		return nil, fmt.Errorf("checksums are of chunks of %d bytes, want %d", idx.ChunkBytes, chunkSize)
	case int64(len(idx.CRC32C)) != 4*chunks:
		return nil, fmt.Errorf("%d bytes of checksums for %d chunks", len(idx.CRC32C), chunks)
	}
	s := &store{data: data, pos: pos, index: idx, byName: map[string]int{}, checked: make([]atomic.Bool, chunks)}
	// end is the end of the previous tensor. The next one must follow directly, so that every byte belongs to a tensor.
	end := int64(0)
	for i, t := range idx.Tensors {
		if err := s.checkTensor(t, ceil.Multiple(end, tensorAlign)); err != nil {
			return nil, fmt.Errorf("weight %q: %w", t.Name, err)
		}
		s.byName[t.Name] = i
		end = t.Offset + t.Bytes
	}
	if end != int64(len(data)) {
		return nil, fmt.Errorf("the weights have %d bytes, their section %d", end, len(data))
	}
	return s, nil
}

// checkTensor checks a tensor, which must begin at offset in the section.
func (s *store) checkTensor(t tensor, offset int64) error {
	typ := ir.Type{DType: t.DType, Shape: ir.ShapeOf(t.Dims...)}
	if err := typ.Shape.Check(); err != nil {
		return err
	}
	want, err := typ.MaxBytes()
	if err != nil {
		return err
	}
	switch _, twice := s.byName[t.Name]; {
	case t.Name == "":
		return fmt.Errorf("has no name")
	case twice:
		return fmt.Errorf("is there twice")
	case t.Bytes != want:
		return fmt.Errorf("has %d bytes, %s needs %d", t.Bytes, typ, want)
	case t.Offset != offset:
		return fmt.Errorf("begins at byte %d of the weight data, want %d", t.Offset, offset)
	case t.Offset+t.Bytes > int64(len(s.data)):
		return fmt.Errorf("ends at byte %d of the weight data, which has %d", t.Offset+t.Bytes, len(s.data))
	}
	return nil
}

// bytes returns the content of a tensor.
func (s *store) bytes(t tensor) []byte {
	// The third index keeps an append from overwriting the next tensor.
	return s.data[t.Offset : t.Offset+t.Bytes : t.Offset+t.Bytes]
}

// check verifies all chunks that contain bytes from begin to end, unless they were verified before.
func (s *store) check(begin, end int64) error {
	for i := begin / chunkSize; i*chunkSize < end; i++ {
		if s.checked[i].Load() {
			continue
		}
		at := i * chunkSize
		chunk := s.data[at:min(at+chunkSize, int64(len(s.data)))]
		if crc32.Checksum(chunk, crcTable) != binary.LittleEndian.Uint32(s.index.CRC32C[4*i:]) {
			return faultf(s.pos+at, "the checksum does not match the next %d bytes, of weight data: the file is "+
				"damaged", len(chunk))
		}
		if s.shas != nil {
			if have := sha256.Sum256(chunk); !bytes.Equal(have[:], s.shas[i*sha256.Size:(i+1)*sha256.Size]) {
				return faultf(s.pos+at, "the next %d bytes, of weight data, are not those that were signed", len(chunk))
			}
		}
		s.checked[i].Store(true)
	}
	return nil
}
