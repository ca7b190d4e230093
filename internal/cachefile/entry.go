package cachefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// The layout of an entry, all integers little-endian:
//
//	offset 0   8 bytes   Dir.Magic
//	offset 8   uint32    Dir.Format
//	offset 12  uint32    zero
//	offset 16  32 bytes  key, the same as in the file name
//	offset 48  uint64    length of the payload
//	offset 56  32 bytes  SHA-256 of bytes 0 to 56 and of the payload
//	offset 88  payload, to the end of the file
//
// The checksum covers the key, so that an entry copied to another key's file name is invalid.
const (
	sumOffset  = 56
	headerSize = sumOffset + sha256.Size
)

// Key addresses an entry: a SHA-256 over everything that the payload depends on.
type Key [sha256.Size]byte

// KeyOf computes a key from parts. It hashes the length of each part before the part, so that different lists have
// different keys.
func KeyOf(parts ...string) Key {
	h := sha256.New()
	var n [8]byte
	for _, part := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		io.WriteString(h, part)
	}
	return Key(h.Sum(nil))
}

// String returns the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// encode returns the content of the file for payload.
func (d Dir) encode(key Key, payload []byte) []byte {
	b := make([]byte, 0, headerSize+len(payload))
	b = append(b, d.Magic[:]...)
	b = binary.LittleEndian.AppendUint32(b, d.Format)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(payload)))
	b = append(b, checksum(b, payload)...)
	return append(b, payload...)
}

// checksum returns the checksum of an entry with header head.
func checksum(head, payload []byte) []byte {
	h := sha256.New()
	h.Write(head[:sumOffset])
	h.Write(payload)
	return h.Sum(nil)
}

// decode checks that the file content b is the complete, undamaged entry for key, and returns its payload, a slice of
// b.
func (d Dir) decode(b []byte, key Key) ([]byte, error) {
	if len(b) < headerSize {
		return nil, fmt.Errorf("%d bytes, shorter than the header of %d", len(b), headerSize)
	}
	payload := b[headerSize:]
	switch {
	case !bytes.Equal(b[:8], d.Magic[:]):
		return nil, fmt.Errorf("magic %q, want %q", b[:8], d.Magic)
	case binary.LittleEndian.Uint32(b[8:]) != d.Format:
		return nil, fmt.Errorf("format %d, want %d", binary.LittleEndian.Uint32(b[8:]), d.Format)
	case binary.LittleEndian.Uint32(b[12:]) != 0:
		return nil, errors.New("reserved field is not zero")
	case !bytes.Equal(b[16:48], key[:]):
		return nil, fmt.Errorf("entry is for key %x", b[16:48])
	case binary.LittleEndian.Uint64(b[48:]) != uint64(len(payload)):
		return nil, fmt.Errorf("payload has %d bytes, header says %d", len(payload), binary.LittleEndian.Uint64(b[48:]))
	case !bytes.Equal(b[sumOffset:headerSize], checksum(b, payload)):
		return nil, errors.New("checksum does not match the entry")
	}
	return payload, nil
}

// read reads and checks the entry in a file.
func (d Dir) read(path string, key Key) ([]byte, error) {
	b, err := ReadFile(path, headerSize+d.MaxPayload)
	if err != nil {
		return nil, err
	}
	payload, err := d.decode(b, key)
	if err == nil && d.Check != nil {
		err = d.Check(payload)
	}
	return payload, err
}
