package bundle

import (
	"crypto/ed25519"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// keepCRC xors the polynomial of CRC-32C into the first five bytes of b. The checksum does not change, because it is
// the remainder modulo that polynomial.
func keepCRC(t *testing.T, b []byte) {
	t.Helper()
	before := crc32.Checksum(b, crcTable)
	var change [8]byte
	binary.LittleEndian.PutUint64(change[:], 1|uint64(crc32.Castagnoli)<<1)
	for i, x := range change[:5] {
		b[i] ^= x
	}
	if after := crc32.Checksum(b, crcTable); after != before {
		t.Fatalf("the checksum %x has become %x", before, after)
	}
}

// TestForgeryOfEqualChecksum changes weights without changing the index, its checksums or other sections. Only the
// signed hashes detect this, at every position of every weight.
func TestForgeryOfEqualChecksum(t *testing.T) {
	b := signed(t)
	f, err := Read(slices.Clone(b))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(f.Sections(), func(s Section) bool { return s.Kind == KindData })
	data := f.Sections()[i]
	for _, name := range f.WeightNames() {
		at := f.weights.index.Tensors[f.weights.byName[name]]
		for _, offset := range []int64{0, at.Bytes / 2, at.Bytes - 5} {
			if offset < 0 || offset+5 > at.Bytes {
				continue // the change takes five bytes
			}
			forged := slices.Clone(b)
			keepCRC(t, forged[data.Offset+at.Offset+offset:data.end()])
			g, err := Read(forged)
			if err != nil {
				t.Fatalf("weight %q changed: %v, and nothing but weights has", name, err)
			}
			if _, err := g.Weight(name); err == nil || !strings.Contains(err.Error(), "not those that were signed") {
				t.Errorf("weight %q changed at byte %d: %v, want an error about the signature", name, offset, err)
			}
			if err := g.Verify(); err == nil || !strings.Contains(err.Error(), "not those that were signed") {
				t.Errorf("weight %q changed at byte %d: Verify says %v", name, offset, err)
			}
			path := filepath.Join(t.TempDir(), "forged.vkb")
			if err := os.WriteFile(path, forged, 0o600); err != nil {
				t.Fatal(err)
			}
			other := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
			if err := Sign(path, path+".signed", other); err == nil {
				t.Errorf("weight %q changed at byte %d: it was signed again", name, offset)
			}
		}
	}
	plain := small(t)
	f, err = Read(plain)
	if err != nil {
		t.Fatal(err)
	}
	data = f.Sections()[i]
	keepCRC(t, plain[data.Offset:data.end()])
	if err := f.Verify(); err != nil {
		t.Errorf("without a signature the change shows (%v), so it proves nothing", err)
	}
}

// TestSignedChunks: each chunk of weights is held to its own sum.
func TestSignedChunks(t *testing.T) {
	whole := make([]byte, 2*chunkSize+100)
	sums := chunkSums{signed: true}
	for at := 0; at < len(whole); at += chunkSize {
		sums.add(whole[at:min(at+chunkSize, len(whole))])
	}
	sums.finish()
	idx := index{ChunkBytes: chunkSize, CRC32C: sums.crcs,
		Tensors: []tensor{{Name: "w", DType: ir.U8, Dims: []int{len(whole)}, Bytes: int64(len(whole))}}}
	for changed := range 3 {
		data := slices.Clone(whole)
		keepCRC(t, data[changed*chunkSize+7:min((changed+1)*chunkSize, len(data))])
		s, err := newStore(idx, data, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.shas = sums.shas
		for chunk := range 3 {
			begin := int64(chunk * chunkSize)
			if err := s.check(begin, begin+1); (err != nil) != (chunk == changed) {
				t.Errorf("chunk %d is changed, and of chunk %d is said: %v", changed, chunk, err)
			}
		}
	}
}
