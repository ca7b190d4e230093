package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// Named is a tensor to be written and its name.
type Named struct {
	Name string
	Data *ir.Data
}

// headerAlignment is the alignment of the tensor data. Since Write puts tensors with larger elements first, each tensor
// is then aligned to its elements.
const headerAlignment = 8

// WriteFile writes the file at path. After an error, the file at path is unchanged.
func WriteFile(path string, metadata map[string]string, tensors []Named) error {
	return filefmt.Source{Format: "safetensors", Path: path}.WriteFile(func(w io.Writer) error {
		return Write(w, metadata, tensors)
	})
}

// Write writes a safetensors file. It writes tensors with larger elements first, so that each is aligned, and otherwise
// keeps the given order. metadata may be nil.
func Write(w io.Writer, metadata map[string]string, tensors []Named) error {
	ordered := slices.Clone(tensors)
	slices.SortStableFunc(ordered, func(a, b Named) int {
		return cmp.Compare(b.Data.DType.BlockBytes(), a.Data.DType.BlockBytes())
	})
	head, err := encodeHeader(metadata, ordered)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range ordered {
		if err := mmap.Guard(func() error { _, err := w.Write(t.Data.Bytes); return err }); err != nil {
			return err
		}
	}
	return nil
}

// encodeHeader returns everything before the data: the header length, the header and padding.
func encodeHeader(metadata map[string]string, tensors []Named) ([]byte, error) {
	b := append(make([]byte, lengthBytes), '{')
	if len(metadata) > 0 {
		pairs, err := json.Marshal(metadata)
		if err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
		b = fmt.Appendf(b, `"%s":%s,`, metadataKey, pairs)
	}
	offset := 0
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %q occurs twice", t.Name)
		}
		seen[t.Name] = true
		e, err := encodeEntry(t, offset)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		b = append(append(b, e...), ',')
		offset += len(t.Data.Bytes)
	}
	b = append(bytes.TrimSuffix(b, []byte{','}), '}')
	for len(b)%headerAlignment != 0 {
		b = append(b, ' ')
	}
	if n := len(b) - lengthBytes; n > maxHeaderBytes {
		return nil, fmt.Errorf("the header has %d bytes: want at most %d, so use several files", n, maxHeaderBytes)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-lengthBytes))
	return b, nil
}

// encodeEntry returns the header's entry for a tensor at a byte offset of the data.
func encodeEntry(t Named, offset int) ([]byte, error) {
	if t.Name == metadataKey || !utf8.ValidString(t.Name) {
		return nil, fmt.Errorf("the name cannot be used: want valid UTF-8 other than %q", metadataKey)
	}
	if err := t.Data.Check(); err != nil {
		return nil, err
	}
	dtype, ok := typeName(t.Data.DType)
	if !ok {
		return nil, fmt.Errorf("safetensors has no type for %s: convert it to another", t.Data.DType)
	}
	name, err := json.Marshal(t.Name)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}{dtype, append([]int{}, t.Data.Dims...), [2]int{offset, offset + len(t.Data.Bytes)}})
	return fmt.Appendf(nil, "%s:%s", name, body), err
}

// typeName returns the format's name of a dtype.
func typeName(t ir.DType) (name string, ok bool) {
	for name, dtype := range dtypes {
		if dtype == t {
			return name, true
		}
	}
	return "", false
}
