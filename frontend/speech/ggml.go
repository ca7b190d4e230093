package speech

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// GGMLMagic is the beginning of whisper.cpp's files, such as ggml-base.bin.
const GGMLMagic = "lmgg"

// OpenGGML opens a file of whisper.cpp (its ggml format), and returns it in the form of a GGUF file. Tensors are valid
// until Close.
func OpenGGML(path string) (*gguf.File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ggml: %w", err)
	}
	var f *gguf.File
	err = mmap.Guard(func() (err error) {
		f, err = readGGML(filefmt.Source{Format: "ggml", Path: path}, m.Bytes(), m)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return f, nil
}

// ReadGGML reads a file of whisper.cpp in memory. Tensors may alias data.
func ReadGGML(data []byte) (*gguf.File, error) {
	return readGGML(filefmt.Source{Format: "ggml"}, data, nil)
}

// ggmlSizes lists the sizes at the beginning of a file, in order, by their keys in GGUF. The last one is the number of
// the file's type.
var ggmlSizes = []string{"vocab_size", "encoder.context_length", "embedding_length", "encoder.attention.head_count",
	"encoder.block_count", "context_length", "embedding_length", "attention.head_count", "block_count",
	"encoder.mel_bins", ""}

// ggmlQuantVersion is the version of the block formats that files may have.
const ggmlQuantVersion = 2

// ggmlFile reads a file.
type ggmlFile struct {
	src     filefmt.Source
	data    []byte
	pos     int
	mapping *mmap.File // nil in memory
	err     error

	tensors map[string]ggmlTensor // by name in GGUF
}

// ggmlTensor is a tensor of the file.
type ggmlTensor struct {
	ir.Type
	dims   []int
	offset int
	bytes  int
}

// readGGML reads a file of whisper.cpp: sizes, filters, vocabulary and tensors, in this order. The result closes
// mapping, which is nil for a file in memory.
func readGGML(src filefmt.Source, data []byte, mapping *mmap.File) (*gguf.File, error) {
	r := &ggmlFile{src: src, data: data, mapping: mapping, tensors: map[string]ggmlTensor{}}
	if magic := r.take(4, "the magic number"); r.err == nil && string(magic) != GGMLMagic {
		r.failf("the file begins with %q: want %q", magic, GGMLMagic)
	}
	arch := whisper // which all files have
	metadata := []gguf.KV{{Key: "general.architecture", Value: arch.name},
		{Key: arch.name + "." + normKey, Value: float32(arch.norm)}}
	var c Config
	for _, key := range ggmlSizes {
		n := r.number("a size")
		if key == "" { // the format of the weights, times 1000 for its version
			if version := n / 1000; r.err == nil && version != 0 && version != ggmlQuantVersion {
				r.failf("version %d of block formats: want %d", version, ggmlQuantVersion)
			}
			continue
		}
		i := slices.IndexFunc(sizeKeys, func(k sizeKey) bool { return k.key == key })
		size := sizeKeys[i].size(&c)
		if r.err == nil && (n < 1 || n > sizeKeys[i].bound) {
			r.failf("%s is %d: want 1 to %d", key, n, sizeKeys[i].bound)
		}
		if r.err == nil && *size != 0 && *size != n {
			r.failf("%s is %d for the decoder and %d for the encoder: want one", key, n, *size)
		}
		*size = n
	}
	c.Hidden = 4 * c.Width // the files do not say
	r.readFilters(c)
	vocabulary := r.readVocabulary(c)
	r.readTensors(arch, c)
	if r.err != nil {
		return nil, r.err
	}
	for _, k := range sizeKeys {
		metadata = append(metadata, gguf.KV{Key: arch.name + "." + k.key, Value: uint32(*k.size(&c))})
	}
	closing := func() error { return nil }
	if mapping != nil {
		closing = mapping.Close
	}
	f, err := gguf.Of(append(metadata, vocabulary...), r, closing)
	if err == nil {
		_, err = FromGGUF(f)
	}
	return f, err
}

func (r *ggmlFile) failf(format string, args ...any) {
	if r.err == nil {
		r.err = r.src.Errorf(int64(r.pos), format, args...)
	}
}

// take returns the next n bytes, or nil after an error.
func (r *ggmlFile) take(n int, what string) []byte {
	if r.err == nil && (n < 0 || n > len(r.data)-r.pos) {
		r.failf("the file ends after %d of %d bytes of %s", len(r.data)-r.pos, n, what)
	}
	if r.err != nil {
		return nil
	}
	b := r.data[r.pos:][:n]
	r.pos += n
	return b
}

// number returns the next integer.
func (r *ggmlFile) number(what string) int {
	b := r.take(4, what)
	if b == nil {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

// readFilters checks that the bands of the file's spectrograms equal MelFilters'.
func (r *ggmlFile) readFilters(c Config) {
	mels, bins := r.number("the number of bands"), r.number("the number of frequencies")
	if r.err == nil && (mels != c.Mels || bins != fft/2+1) {
		r.failf("filters for %d bands of %d frequencies: want %d of %d", mels, bins, c.Mels, fft/2+1)
	}
	if r.err != nil {
		return
	}
	const within = 1e-5 // the file's numbers are rounded
	raw := r.take(4*mels*bins, "the filters")
	for i, want := range MelFilters(mels) {
		if r.err != nil {
			return
		}
		if v := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); !(math.Abs(float64(v-want)) <= within) {
			r.failf("the filter of band %d is %v at frequency %d: want %v, by Slaney's scale", i/bins, v, i%bins, want)
		}
	}
}

// readVocabulary reads the tokens of text, and returns the metadata of the vocabulary. It adds the tokens that control
// the model, which follow from the sizes.
func (r *ggmlFile) readVocabulary(c Config) []gguf.KV {
	n := r.number("the number of tokens")
	if r.err == nil && (n < 1 || n > c.Vocab) {
		r.failf("%d tokens: want 1 to %d", n, c.Vocab)
	}
	var words [][]byte
	for i := 0; i < n && r.err == nil; i++ {
		size := r.number("the length of a token")
		if r.err == nil && size > maxTokenBytes {
			r.failf("token %d has %d bytes: want at most %d", i, size, maxTokenBytes)
		}
		words = append(words, r.take(size, "a token"))
	}
	if r.err != nil {
		return nil
	}
	if n := len(words) - 1; n > 0 && string(words[n]) == endName {
		words = words[:n] // some files have it, others do not
	}
	control, err := controlNames(c, len(words))
	if err != nil {
		r.failf("%v", err)
		return nil
	}
	return vocabularyOf(words, control)
}

// maxTokenBytes is the largest length of a token.
const maxTokenBytes = 1024

// readTensors reads the names, types and places of the tensors, up to the end of the file.
func (r *ggmlFile) readTensors(arch architecture, c Config) {
	if r.err != nil {
		return
	}
	own := map[string]string{}
	specs := map[string]weightSpec{}
	for name, foreign := range arch.foreign(c, inGGML) {
		own[foreign] = name
	}
	for _, w := range arch.weights(c) {
		specs[w.name] = w
	}
	for r.err == nil && r.pos < len(r.data) {
		name, dtype, dims := r.readTensorHead()
		if r.err != nil {
			return
		}
		t := ggmlTensor{dims: dims}
		elems := 1
		for _, n := range dims {
			elems *= n
		}
		if spec, ok := specs[own[name]]; ok && len(spec.dims) == 1 {
			t.dims = []int{elems} // some files have vectors as matrices
		}
		bytes, err := dtype.BytesFor(int64(elems))
		if err != nil || t.dims[len(t.dims)-1]%dtype.BlockElems() != 0 {
			r.failf("tensor %q has rows of %d elements, which are not whole blocks of %s", name, t.dims[len(t.dims)-1],
				dtype)
			return
		}
		t.DType, t.Shape, t.offset, t.bytes = dtype, ir.ShapeOf(t.dims...), r.pos, int(bytes)
		r.take(t.bytes, "tensor "+name)
		if own[name] == "" {
			r.failf("architecture %q has no weight for tensor %q", arch.name, name) // an error is reported at the end
		} else {
			name = own[name]
		}
		if _, twice := r.tensors[name]; twice {
			r.failf("there are two tensors of the name %q", name)
		}
		r.tensors[name] = t
	}
}

// readTensorHead reads the name, the type and the extents of a tensor, outermost first. The file has the innermost
// extent first.
func (r *ggmlFile) readTensorHead() (name string, dtype ir.DType, dims []int) {
	axes, length, number := r.number("a number of axes"), r.number("the length of a name"), r.number("a type")
	if r.err == nil && (axes < 1 || axes > 4 || length < 1 || length > maxTokenBytes) {
		r.failf("a tensor of %d axes with a name of %d bytes: want 1 to 4, and 1 to %d", axes, length,
			maxTokenBytes)
	}
	elems := 1
	for range axes {
		n := r.number("an extent")
		if r.err == nil && (n < 1 || n > math.MaxInt32/elems) {
			r.failf("an extent of %d: want 1 or more, and at most 2^31 elements", n)
		}
		if r.err != nil {
			return "", ir.Invalid, nil
		}
		elems *= n
		dims = slices.Insert(dims, 0, n)
	}
	name = string(r.take(length, "a name"))
	dtype, known := ir.DTypeOfGGML(uint32(number))
	if r.err == nil && !known {
		r.failf("tensor %q has GGML type %d, which is not supported", name, number)
	}
	return name, dtype, dims
}

// WeightNames implements gguf.Named.
func (r *ggmlFile) WeightNames() []string { return slices.Sorted(maps.Keys(r.tensors)) }

// WeightType implements gguf.Named.
func (r *ggmlFile) WeightType(name string) (ir.DType, []int, error) {
	t, ok := r.tensors[name]
	if !ok {
		return ir.Invalid, nil, r.src.Unknown("tensor", name, r.WeightNames())
	}
	return t.DType, slices.Clone(t.dims), nil
}

// Weight implements ir.WeightSource.
func (r *ggmlFile) Weight(name string) (*ir.Data, error) {
	t, ok := r.tensors[name]
	if !ok {
		return nil, r.src.Unknown("tensor", name, r.WeightNames())
	}
	// Another process may have cut the mapped file short since it was opened.
	if r.mapping != nil {
		if err := r.mapping.Intact(); err != nil {
			return nil, fmt.Errorf("ggml: tensor %q: %w", name, err)
		}
	}
	return &ir.Data{DType: t.DType, Dims: slices.Clone(t.dims), Bytes: r.data[t.offset:][:t.bytes:t.bytes]}, nil
}

// vocabularyOf returns the metadata of a byte-level vocabulary. The tokens of text are in the order of their merges;
// each merge joins two earlier tokens.
func vocabularyOf(words [][]byte, control []string) []gguf.KV {
	var names, merges []string
	var types []int32
	ranks := make(map[string]int, len(words))
	for id, word := range words {
		if _, twice := ranks[string(word)]; !twice {
			ranks[string(word)] = id
		}
	}
	for id, word := range words {
		names, types = append(names, byteLevel(word)), append(types, 1) // normal
		if at := split(word, ranks, id); at > 0 {
			merges = append(merges, byteLevel(word[:at])+" "+byteLevel(word[at:]))
		}
	}
	for _, name := range control {
		names, types = append(names, name), append(types, 3) // control
	}
	end := uint32(len(words))
	return []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "gpt2"}, {Key: "tokenizer.ggml.pre", Value: "gpt-2"},
		{Key: "tokenizer.ggml.tokens", Value: names}, {Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: merges}, {Key: "tokenizer.ggml.eos_token_id", Value: end},
		{Key: "tokenizer.ggml.bos_token_id", Value: end}, {Key: "tokenizer.ggml.add_bos_token", Value: false},
	}
}

// split returns where the last merge of a token joins two tokens, or 0 if no merges make it. It merges the bytes of the
// word by ranks below the token's own, the lowest first, as byte-pair encoding does.
func split(word []byte, ranks map[string]int, rank int) int {
	if len(word) < 2 {
		return 0
	}
	ends := make([]int, len(word)) // of the parts so far
	for i := range ends {
		ends[i] = i + 1
	}
	for len(ends) > 2 {
		best, at := rank, -1
		begin := 0
		for i := range len(ends) - 1 {
			if r, ok := ranks[string(word[begin:ends[i+1]])]; ok && r < best {
				best, at = r, i
			}
			begin = ends[i]
		}
		if at < 0 {
			return 0
		}
		ends = slices.Delete(ends, at, at+1)
	}
	_, first := ranks[string(word[:ends[0]])]
	_, second := ranks[string(word[ends[0]:])]
	if !first || !second {
		return 0
	}
	return ends[0]
}

// byteLevel writes each byte as one printable character, as byte-level vocabularies do: printable characters of Latin-1
// stand for themselves, and the other bytes, in order, have the characters from 256 on.
func byteLevel(word []byte) string {
	var out []byte
	for _, b := range word {
		out = utf8.AppendRune(out, byteRunes[b])
	}
	return string(out)
}

var byteRunes = func() (table [256]rune) {
	next := rune(256)
	for b := range rune(256) {
		table[b] = b
		if b < '!' || b > '~' && b < 0xa1 || b == 0xad {
			table[b] = next
			next++
		}
	}
	return table
}()
