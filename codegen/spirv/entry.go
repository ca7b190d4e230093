package spirv

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vkc-go/vkc/internal/atomicfile"
)

// The layout of a cache entry, all integers little-endian:
//
//	offset 0   8 bytes   magic "VKCSPIRV"
//	offset 8   uint32    cacheFormat
//	offset 12  uint32    zero
//	offset 16  32 bytes  key, the same as in the file name
//	offset 48  uint64    length of the payload
//	offset 56  32 bytes  SHA-256 of the payload
//	offset 88  payload, to the end of the file
const (
	entryMagic  = "VKCSPIRV"
	cacheFormat = 1
	headerSize  = 88
	maxPayload  = maxOutput
)

// Key addresses a cache entry: a SHA-256 over everything that the result
// depends on.
type Key [sha256.Size]byte

// String returns the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// keyHash computes a Key from parts. Each part is preceded by its length, so
// that no two different lists of parts feed the hash the same bytes.
type keyHash struct{ hash.Hash }

func newKeyHash(purpose string) keyHash {
	h := keyHash{sha256.New()}
	h.add(purpose)
	return h
}

func (h keyHash) add(part string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
	h.Write(n[:])
	io.WriteString(h, part)
}

func (h keyHash) key() Key { return Key(h.Sum(nil)) }

// encodeEntry returns the content of the file for payload.
func encodeEntry(key Key, payload []byte) []byte {
	sum := sha256.Sum256(payload)
	b := make([]byte, 0, headerSize+len(payload))
	b = append(b, entryMagic...)
	b = binary.LittleEndian.AppendUint32(b, cacheFormat)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(payload)))
	b = append(b, sum[:]...)
	return append(b, payload...)
}

// decodeEntry returns the payload of a file, which is a part of b, or why the
// file is not the whole, undamaged entry for key.
func decodeEntry(b []byte, key Key) ([]byte, error) {
	if len(b) < headerSize {
		return nil, fmt.Errorf("%d bytes, shorter than the header of %d", len(b), headerSize)
	}
	payload := b[headerSize:]
	sum := sha256.Sum256(payload)
	switch {
	case string(b[:8]) != entryMagic:
		return nil, fmt.Errorf("magic %q, want %q", b[:8], entryMagic)
	case binary.LittleEndian.Uint32(b[8:]) != cacheFormat:
		return nil, fmt.Errorf("format %d, want %d", binary.LittleEndian.Uint32(b[8:]), cacheFormat)
	case binary.LittleEndian.Uint32(b[12:]) != 0:
		return nil, errors.New("reserved field is not zero")
	case !bytes.Equal(b[16:48], key[:]):
		return nil, fmt.Errorf("entry is for key %x", b[16:48])
	case binary.LittleEndian.Uint64(b[48:]) != uint64(len(payload)):
		return nil, fmt.Errorf("payload has %d bytes, header says %d", len(payload), binary.LittleEndian.Uint64(b[48:]))
	case !bytes.Equal(b[56:88], sum[:]):
		return nil, errors.New("checksum does not match the payload")
	}
	return payload, nil
}

// readEntry reads and checks the entry in a file.
func readEntry(path string, key Key) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, headerSize+maxPayload+1))
	if err != nil {
		return nil, err
	}
	if len(b) > headerSize+maxPayload {
		return nil, fmt.Errorf("larger than any entry may be (%d MiB)", maxPayload>>20)
	}
	return decodeEntry(b, key)
}

// loadEntry is readEntry for use: a file that is not a sound entry is removed
// and counts as absent.
func loadEntry(path string, key Key) ([]byte, bool) {
	payload, err := readEntry(path, key)
	if err == nil {
		return payload, true
	}
	if !errors.Is(err, fs.ErrNotExist) {
		os.Remove(path) // best effort: the next write replaces it
	}
	return nil, false
}

// storeEntry writes an entry, making its directory if need be.
func storeEntry(path string, key Key, payload []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, encodeEntry(key, payload), 0o644)
}
