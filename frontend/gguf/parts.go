package gguf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/filefmt"
)

// Metadata keys of a file that is a part of a model. They describe the file, not the model, so the metadata of a whole
// model do not contain them.
const (
	splitNoKey      = "split.no"            // index of the part, from 0
	splitCountKey   = "split.count"         // number of parts; 0 or 1 for a whole model
	splitTensorsKey = "split.tensors.count" // tensors of all parts
)

// part returns the number of the file's part, from 1, and the number of parts, at most 1 for a whole model. The
// metadata have both numbers, or else the file's name, since parts made by other programs may lack the metadata.
func (f *File) part() (part, of uint64, err error) {
	if _, ok := f.keys[splitCountKey]; !ok {
		part, of = filefmt.PartOf(f.src.Path)
	} else if of, err = f.Uint(splitCountKey); err == nil && of > 1 {
		part, err = f.Uint(splitNoKey)
		part++ // the metadata count from 0
	}
	switch {
	case err != nil:
		return 0, 0, err
	case of > filefmt.MaxParts:
		err = fmt.Errorf("gguf: %sthis is a part of a model of %d files: want at most %d", f.prefix(), of,
			filefmt.MaxParts)
	case of > 1 && (part < 1 || part > of):
		err = fmt.Errorf("gguf: %s%s is %d, of %d parts: want 0 to %d", f.prefix(), splitNoKey, part-1, of, of-1)
	}
	return part, of, err
}

// whole opens the other parts of a model if f is one of its parts, and returns a File of all parts. Otherwise it drops
// the split.* keys from the metadata, and returns f. After an error it closes all parts that it has, f included.
func (f *File) whole() (_ *File, err error) {
	opened := []*File{f}
	defer func() {
		if err != nil {
			for _, part := range opened {
				err = errors.Join(err, part.Close())
			}
		}
	}()
	no, of, err := f.part()
	if err != nil {
		return nil, err
	}
	if of <= 1 {
		f.dropKeys(splitNoKey, splitCountKey, splitTensorsKey)
		return f, nil
	}
	alone := &filefmt.PartError{Source: f.src, Part: no, Of: of}
	switch nameNo, nameOf := filefmt.PartOf(f.src.Path); {
	case f.src.Path == "":
		alone.Remedy = "open it as a file, in a folder with the other parts"
		return nil, alone
	case nameNo != no || nameOf != of:
		alone.Remedy = fmt.Sprintf("the names of the other parts follow from its name, so name it %s, and put all "+
			"parts into one folder", filepath.Base(filefmt.PartPath(f.src.Path, int(no), int(of))))
		return nil, alone
	}
	parts := make([]*File, of)
	parts[no-1] = f
	for i := range parts {
		if parts[i] == nil {
			if parts[i], err = f.sibling(uint64(i)+1, alone); err != nil {
				return nil, err
			}
			opened = append(opened, parts[i])
		}
	}
	return join(parts)
}

// sibling opens part number i, from 1, of the model that f is a part of. alone becomes the error if the part is
// missing.
func (f *File) sibling(i uint64, alone *filefmt.PartError) (*File, error) {
	path := filefmt.SiblingPart(f.src.Path, i)
	part, err := OpenPart(path)
	if errors.Is(err, fs.ErrNotExist) {
		alone.Err = err
		alone.Remedy = fmt.Sprintf("part %d is missing: put %s into the same folder", i, filepath.Base(path))
		return nil, alone
	}
	if err != nil {
		return nil, fmt.Errorf("part %d of %d: %w", i, alone.Of, err)
	}
	no, of, err := part.part()
	if err == nil && (no != i || of != alone.Of) {
		err = fmt.Errorf("gguf: %s: its metadata say that it is part %d of %d: want part %d of %d of the model of %s; "+
			"fetch the part again", path, max(no, 1), max(of, 1), i, alone.Of, filepath.Base(f.src.Path))
	}
	if err != nil {
		return nil, errors.Join(err, part.Close())
	}
	return part, nil
}

// join returns a File of all parts of a model. Closing it closes the parts. The metadata come from the first part.
func join(parts []*File) (*File, error) {
	first := parts[0]
	f := &File{src: first.src, version: first.version, alignment: first.alignment, kvs: first.kvs, keys: first.keys,
		names: map[string]int{}, parts: parts}
	for i, part := range parts {
		if err := part.belongsTo(first); err != nil {
			return nil, err
		}
		for _, t := range part.tensors {
			if other, dup := f.names[t.Name]; dup {
				return nil, part.src.Errorf(t.Offset, "tensor %q is also in %s: want each tensor in one part", t.Name,
					filepath.Base(parts[f.tensors[other].Part].src.Path))
			}
			t.Part = i
			f.names[t.Name] = len(f.tensors)
			f.tensors = append(f.tensors, t)
		}
	}
	if _, ok := f.keys[splitTensorsKey]; ok {
		n, err := f.Uint(splitTensorsKey)
		if err == nil && n != uint64(len(f.tensors)) {
			err = fmt.Errorf("gguf: %s: %s is %d, but its %d parts have %d tensors: want the parts of one model",
				first.src.Path, splitTensorsKey, n, len(parts), len(f.tensors))
		}
		if err != nil {
			return nil, err
		}
	}
	f.dropKeys(splitNoKey, splitCountKey, splitTensorsKey)
	return f, nil
}

// belongsTo returns an error if a part's metadata contradict the metadata of the first part, which describe the model.
// Most later parts have only the metadata about parts.
func (f *File) belongsTo(first *File) error {
	for _, kv := range f.kvs {
		if kv.Key == splitNoKey || kv.Key == alignmentKey {
			continue
		}
		other, ok := first.Lookup(kv.Key)
		a, aerr := encodedValue(kv.Value)
		b, berr := encodedValue(other)
		if !ok || aerr != nil || berr != nil || !bytes.Equal(a, b) {
			return fmt.Errorf("gguf: %s: metadata %q differs from %s: this part belongs to another model; fetch all "+
				"parts again", f.src.Path, kv.Key, filepath.Base(first.src.Path))
		}
	}
	return nil
}

// dropKeys removes metadata.
func (f *File) dropKeys(keys ...string) {
	f.kvs = slices.DeleteFunc(slices.Clone(f.kvs), func(kv KV) bool { return slices.Contains(keys, kv.Key) })
	f.keys = make(map[string]int, len(f.kvs))
	for i, kv := range f.kvs {
		f.keys[kv.Key] = i
	}
}

// WriteParts writes the model as files of at most maxBytes each, or more for a file with a single tensor: for path
// m.gguf, m-00001-of-00003.gguf and so on. The first file has all metadata. WriteParts returns the paths. No file gets
// its name before all files are complete.
func (w *Writer) WriteParts(path string, maxBytes int64) (paths []string, err error) {
	parts, err := w.split(maxBytes)
	if err != nil {
		return nil, fmt.Errorf("gguf: write %s: %w", path, err)
	}
	var files []*atomicfile.File
	defer func() {
		for _, f := range files {
			f.Close() // discards it, unless it was committed
		}
	}()
	for i, part := range parts {
		paths = append(paths, filefmt.PartPath(path, i+1, len(parts)))
		f, err := atomicfile.Create(paths[i], 0o666)
		if err == nil {
			files = append(files, f)
			_, err = part.WriteTo(f)
		}
		if err != nil {
			return nil, fmt.Errorf("gguf: write %s: %w", paths[i], err)
		}
	}
	for i, f := range files {
		if err := f.Commit(); err != nil {
			return nil, fmt.Errorf("gguf: write %s: %w", paths[i], err)
		}
	}
	return paths, nil
}

// split divides the tensors among writers, in order. The first one has the metadata.
func (w *Writer) split(maxBytes int64) ([]*Writer, error) {
	alignment := cmp.Or(w.alignment, defaultAlignment)
	first := &Writer{alignment: w.alignment, kvs: slices.Clone(w.kvs), keys: maps.Clone(w.keys)}
	if err := first.setPart(0, 0, len(w.tensors)); err != nil { // the number of parts is not known yet
		return nil, err
	}
	parts, part := []*Writer{first}, first
	head, data := int64(len(first.header(alignment))), int64(0) // bytes of part
	for _, t := range w.tensors {
		record, bytes := int64(len(t.appendRecord(nil, 0))), ceil.Multiple(t.bytes, alignment)
		if len(part.tensors) > 0 && ceil.Multiple(head+record, alignment)+data+bytes > maxBytes {
			if len(parts) == filefmt.MaxParts {
				return nil, fmt.Errorf("parts of %d bytes would be more than %d: want larger parts", maxBytes,
					filefmt.MaxParts)
			}
			part = &Writer{}
			if err := part.setPart(len(parts), 0, len(w.tensors)); err != nil {
				return nil, err
			}
			if w.alignment != 0 {
				if err := part.Set(alignmentKey, uint32(w.alignment)); err != nil {
					return nil, err
				}
			}
			parts = append(parts, part)
			head, data = int64(len(part.header(alignment))), 0
		}
		part.tensors = append(part.tensors, t)
		head, data = head+record, data+bytes
	}
	for i, part := range parts {
		if err := part.setPart(i, len(parts), len(w.tensors)); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// setPart sets the keys of part number no, from 0.
func (w *Writer) setPart(no, count, tensors int) error {
	return errors.Join(w.Set(splitNoKey, uint16(no)), w.Set(splitCountKey, uint16(count)),
		w.Set(splitTensorsKey, int32(tensors)))
}

// refusePartName returns an error for the path of a whole model that Open would take for a part.
func refusePartName(path string) error {
	if part, of := filefmt.PartOf(path); of > 1 {
		return fmt.Errorf("gguf: write %s: this is the name of part %d of %d of a model: give a whole model another "+
			"name", path, part, of)
	}
	return nil
}
