package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/filefmt"
)

// The layout of a bundle, all integers little-endian:
//
//	offset 0   8 bytes   magic
//	offset 8   uint32    version
//	offset 12  uint32    number of sections
//	offset 16  uint64    size of the file
//	offset 24  uint64    zero
//	offset 32  32 bytes  SHA-256 of bytes 0 to 32 and of the directory
//	offset 64  the directory: an entry of 56 bytes for each section
//	then       the sections in the directory's order, each aligned, with
//	           zeros between them
//
// A directory entry:
//
//	offset 0   uint32    kind
//	offset 4   uint32    index: the shader it belongs to, or 0
//	offset 8   uint64    position in the file
//	offset 16  uint64    length
//	offset 24  32 bytes  SHA-256 of the content; zeros for weight data
const (
	version    = 1
	headerSize = 64
	entrySize  = 56
	hashedHead = 32 // bytes of the header covered by its checksum

	sectionAlign = 64
	// dataAlign allows weight data to be mapped, or imported by a device, without other sections.
	dataAlign = 4096
	// tensorAlign is the alignment of tensors inside the weight data.
	tensorAlign = 64
	// chunkSize is the number of weight bytes per checksum.
	chunkSize = 1 << 20

	maxShaders  = 1 << 16
	maxParts    = 64 // other programs of a model
	maxSections = 2*maxShaders + maxParts + 10
)

// magic begins with a non-ASCII byte and contains both kinds of line end, so that a transfer in text mode is detected,
// as in PNG.
const magic = filefmt.BundleMagic + "\r\n\x1a\n"

// crcTable is CRC-32C, which processors compute at memory speed.
var crcTable = crc32.MakeTable(crc32.Castagnoli)

// Kind is the kind of a section.
type Kind uint32

// The kinds of sections. See order for their order in a bundle.
const (
	KindMeta      Kind = 1 + iota // JSON of Meta
	KindGraph                     // the graph, as graph.json
	KindProgram                   // JSON of kernel.Program
	KindSPIRV                     // one shader's SPIR-V
	KindGLSL                      // one shader's source
	KindData                      // the bytes of all weights
	KindIndex                     // JSON: names, positions and checksums of the weights
	KindSignature                 // JSON: a signature of all other sections
	KindModel                     // the metadata of the model's file, as a GGUF file without tensors
	KindPart                      // another program of the model: a bundle without weights
	numKinds
)

// kinds has the name and the maximum length of each kind of section.
var kinds = [numKinds]struct {
	name string
	max  int64
}{
	KindMeta:    {"meta", 1 << 20},
	KindGraph:   {"graph", 1 << 30},
	KindProgram: {"program", 1 << 28},
	KindSPIRV:   {"spirv", 1 << 26},
	KindGLSL:    {"glsl", 1 << 26},
	KindData:    {"weight data", 1 << 50},
	KindIndex:   {"weight index", 1 << 28},
	// 32 bytes in base64 for each MiB of the largest weight data that the index allows
	KindSignature: {"signature", 1 << 32},
	KindModel:     {"model", 1 << 30},
	KindPart:      {"part", 1 << 31},
}

// String returns the kind in words.
func (k Kind) String() string {
	if k < KindMeta || k >= numKinds {
		return fmt.Sprintf("kind %d", uint32(k))
	}
	return kinds[k].name
}

// align returns the alignment of a section's content, in bytes.
func (k Kind) align() int64 {
	if k == KindData {
		return dataAlign
	}
	return sectionAlign
}

// numbered reports whether a bundle may have several sections of that kind: one per shader, or one per additional
// program of a model.
func (k Kind) numbered() bool { return k == KindSPIRV || k == KindGLSL || k == KindPart }

// order returns a number by which the sections of a bundle are sorted: the kind, with the signature after all others.
func (k Kind) order() Kind {
	if k == KindSignature {
		return numKinds
	}
	return k
}

// Section describes a section of a bundle.
type Section struct {
	Kind   Kind
	Index  int // the number of the shader or program, or 0
	Offset int64
	Length int64
	SHA256 [sha256.Size]byte // zero for weight data, which has its checksums in the index
}

// String names the section: "program", "spirv 3".
func (s Section) String() string {
	if s.Kind.numbered() {
		return fmt.Sprintf("%s %d", s.Kind, s.Index)
	}
	return s.Kind.String()
}

func (s Section) end() int64 { return s.Offset + s.Length }

// encodeHead returns the header and the directory of a file of size bytes.
func encodeHead(sections []Section, size int64) []byte {
	le := binary.LittleEndian
	b := make([]byte, headerSize, headSize(len(sections)))
	copy(b, magic)
	le.PutUint32(b[8:], version)
	le.PutUint32(b[12:], uint32(len(sections)))
	le.PutUint64(b[16:], uint64(size))
	for _, s := range sections {
		b = le.AppendUint32(b, uint32(s.Kind))
		b = le.AppendUint32(b, uint32(s.Index))
		b = le.AppendUint64(b, uint64(s.Offset))
		b = le.AppendUint64(b, uint64(s.Length))
		b = append(b, s.SHA256[:]...)
	}
	sum := headSum(b)
	copy(b[hashedHead:headerSize], sum[:])
	return b
}

func headSize(sections int) int64 { return headerSize + int64(sections)*entrySize }

// headSum is the checksum of a header and directory.
func headSum(b []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(b[:hashedHead])
	h.Write(b[headerSize:])
	h.Sum(sum[:0])
	return sum
}

// fault is an error in the content of a bundle, with its position in the file.
type fault struct {
	pos int64
	msg string
}

func (f *fault) Error() string { return fmt.Sprintf("at byte %d: %s", f.pos, f.msg) }

func faultf(pos int64, format string, args ...any) error {
	return &fault{pos, fmt.Sprintf(format, args...)}
}

// require ends decodeHead with an error at byte pos, unless ok: it panics, and decodeHead recovers.
func require(ok bool, pos int64, format string, args ...any) {
	if !ok {
		bailout.Check(faultf(pos, format, args...))
	}
}

// decodeHead returns the sections of a bundle. It checks the header, the directory, and the sections' extents and
// checksums.
func decodeHead(b []byte) (sections []Section, err error) {
	defer bailout.Caught(&err)
	n := decodeHeader(b)
	head := b[:headSize(n)]
	sum := headSum(head)
	require(bytes.Equal(sum[:], head[hashedHead:headerSize]), hashedHead,
		"the checksum does not match the header and directory: the file is damaged")
	sections = make([]Section, n)
	end := int64(len(head))
	for i := range sections {
		at := headSize(i)
		s := decodeEntry(head, at)
		if i > 0 {
			require(follows(s, sections[i-1]), at,
				"section %s stands after section %s: sections must be in order, each once", s, sections[i-1])
		}
		want := ceil.Multiple(end, s.Kind.align())
		require(s.Offset == want, at, "section %s begins at byte %d, want %d, after the one before", s, s.Offset, want)
		checkExtent(b, s, end, at)
		sections[i], end = s, s.end()
	}
	require(end == int64(len(b)), end, "%d bytes belong to no section", int64(len(b))-end)
	return sections, nil
}

// decodeHeader checks the header and returns the number of sections. b then contains the whole directory.
func decodeHeader(b []byte) int {
	le, length := binary.LittleEndian, int64(len(b))
	// A file that begins with the magic was cut short; other short files are something else.
	if length < headerSize {
		require(!bytes.HasPrefix(b, []byte(magic)), length,
			"the file ends inside the header of %d bytes: it was cut short", headerSize)
		require(false, 0, "not a vkc bundle: %d bytes, want a header of %d", length, headerSize)
	}
	require(string(b[:len(magic)]) == magic, 0, "not a vkc bundle: it begins with %q, want %q", b[:len(magic)], magic)
	v, n, size := le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint64(b[16:])
	require(v <= version, 8, "the format has version %d, this vkc reads version %d: use a newer vkc", v, version)
	require(v == version, 8, "the format has version %d, want %d", v, version)
	require(size <= uint64(length), length,
		"the file ends here, but had %d bytes when it was written: it was cut short", size)
	require(size == uint64(length), int64(size), "the file goes on after its end, to byte %d", length)
	require(n <= maxSections && headSize(int(n)) <= length, 12, "%d sections do not fit the file", n)
	require(le.Uint64(b[24:]) == 0, 24, "a reserved field is not zero")
	return int(n)
}

// decodeEntry decodes the section table entry at byte at of the file's head, and checks its kind, index and size.
func decodeEntry(head []byte, at int64) Section {
	le := binary.LittleEndian
	b := head[at : at+entrySize]
	s := Section{Kind: Kind(le.Uint32(b)), Index: int(le.Uint32(b[4:])), SHA256: [sha256.Size]byte(b[24:56])}
	require(s.Kind >= KindMeta && s.Kind < numKinds, at,
		"a section is of %s, which this vkc does not know: use a newer vkc", s.Kind)
	require(s.Index == 0 || s.Kind.numbered() && s.Index > 0 && s.Index < maxShaders, at+4, "section %s has index %d",
		s.Kind, s.Index)
	offset, length := le.Uint64(b[8:]), le.Uint64(b[16:])
	require(length <= uint64(kinds[s.Kind].max), at+16, "section %s has %d bytes, the limit is %d", s, length,
		kinds[s.Kind].max)
	require(offset <= 1<<62, at+8, "section %s begins at byte %d", s, offset)
	s.Offset, s.Length = int64(offset), int64(length)
	return s
}

// checkExtent checks that section s is inside the file b, that the bytes from end to its start are zero, and that its
// checksum matches. at is the position of its directory entry.
func checkExtent(b []byte, s Section, end, at int64) {
	require(s.end() <= int64(len(b)), at+8, "section %s ends at byte %d, the file at %d", s, s.end(), len(b))
	padding := b[end:s.Offset]
	zeros := len(padding) - len(bytes.TrimLeft(padding, "\x00"))
	require(zeros == len(padding), end+int64(zeros), "the padding before section %s is not zero: the file is damaged",
		s)
	want := [sha256.Size]byte{}
	if s.Kind != KindData {
		want = sha256.Sum256(b[s.Offset:s.end()])
	}
	require(s.SHA256 == want, s.Offset, "the checksum does not match section %s: the file is damaged", s)
}

// follows reports whether section b may come after section a.
func follows(b, a Section) bool {
	return b.Kind.order() > a.Kind.order() || b.Kind == a.Kind && b.Index > a.Index
}

// errNoFile is the error of the methods of a nil File.
var errNoFile = errors.New("vkb: there is no bundle: Open and Read make one, unless they return an error")

// content returns f, or an empty file if f is nil.
func (f *File) content() *File {
	if f == nil {
		return &File{}
	}
	return f
}
