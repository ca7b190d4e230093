package gguf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

// copyOf returns a Writer with the contents of a file.
func copyOf(t testing.TB, f *File) *Writer {
	t.Helper()
	var w Writer
	for _, kv := range f.Metadata() {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range f.Names() {
		d, err := f.Weight(name)
		if err == nil {
			err = w.Add(name, d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &w
}

func written(t testing.TB, w *Writer) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, err := w.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestWriteParts divides a file by several sizes, and opens each part: the model is the same to the byte.
func TestWriteParts(t *testing.T) {
	for _, alignment := range []uint32{32, 64} {
		whole := encode(t, append(everyValue(), KV{alignmentKey, alignment}), testTensors())
		f, err := NewReader(whole)
		if err != nil {
			t.Fatal(err)
		}
		last := len(testTensors()) + 1
		for _, size := range []int64{1, 400, 1300, 1 << 20} {
			paths, err := copyOf(t, f).WriteParts(filepath.Join(t.TempDir(), "m.gguf"), size)
			want := len(paths)
			if err != nil || want >= last || size == 1 && want != last-1 || size == 1<<20 && want != 1 {
				t.Fatalf("%d bytes: %d parts after %d, %v", size, want, last, err)
			}
			last = want
			for i, path := range paths {
				if base := filepath.Base(path); base != fmt.Sprintf("m-%05d-of-%05d.gguf", i+1, want) {
					t.Errorf("part %d is %s", i, base)
				}
				// The metadata alone are larger than the smaller sizes.
				if info, err := os.Stat(path); err != nil || i > 0 && size > 1 && info.Size() > size {
					t.Errorf("%s has %d bytes, %v; want at most %d", path, info.Size(), err, size)
				}
				joined, err := Open(path)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(written(t, copyOf(t, joined)), whole) {
					t.Errorf("%s: the model has changed", path)
				}
				if list := joined.Paths(); want > 1 && !slices.Equal(list, paths) {
					t.Errorf("%s: files %q", path, list)
				}
				if end := joined.Tensors()[5]; end.Part != want-1 {
					t.Errorf("%s: the last tensor is in part %d", path, end.Part)
				}
				if err := joined.Close(); err != nil {
					t.Error(err)
				}
				if _, err := joined.Weight("scalar"); err == nil {
					t.Error("a closed file gives a tensor")
				}
			}
		}
	}
	var w Writer
	for i := range filefmt.MaxParts + 1 {
		if err := w.Add(fmt.Sprint(i), &ir.Data{DType: ir.I8, Dims: []int{0}}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if _, err := w.WriteParts(filepath.Join(dir, "m.gguf"), 1); err == nil || !strings.Contains(err.Error(),
		"more than 4096: want larger parts") {
		t.Errorf("parts of a byte: %v", err)
	}
	if err := w.WriteFile(filepath.Join(dir, "m-00001-of-00002.gguf")); err == nil || !strings.Contains(err.Error(),
		"give a whole model another name") {
		t.Errorf("a whole model with the name of a part: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// partFile is a file of a hostile model: its keys and its only tensor.
type partFile struct {
	keys   []KV
	tensor string
}

func split(no, count any, more ...KV) []KV {
	return append([]KV{{splitNoKey, no}, {splitCountKey, count}}, more...)
}

// TestRefusesParts: parts that are missing, foreign or hostile are named.
func TestRefusesParts(t *testing.T) {
	name, other := KV{"general.name", "x"}, KV{"general.name", "y"}
	good := partFile{split(uint16(0), uint16(2), name), "a"}
	const first, second = "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"
	for says, files := range map[string]map[string]partFile{
		first + ": this is part 1 of 2 of a model: part 2 is missing: put " + second: {first: good},
		"x.gguf: this is part 2 of 2 of a model: the names of the other parts": {
			"x.gguf": {split(uint16(1), uint16(2)), "a"}},
		"m-00001-of-00003.gguf: this is part 1 of 2 of a model: the names of the other parts": {"m-00001-of-00003.gguf": good},
		"its metadata say that it is part 1 of 2: want part 2 of 2 of the model of " + first: {
			first: good, second: good},
		second + ": its metadata say that it is part 2 of 3: want part 2 of 2": {first: good,
			second: {split(uint16(1), uint16(3)), "b"}},
		second + ": its metadata say that it is part 1 of 1: want part 2 of 2": {first: good,
			second: {split(uint16(0), uint16(0)), "b"}},
		second + `: metadata "general.name" differs from ` + first: {first: good,
			second: {split(uint16(1), uint16(2), other), "b"}},
		second + `: metadata "extra" differs from ` + first: {first: good,
			second: {split(uint16(1), uint16(2), KV{"extra", "y"}), "b"}},
		second + `: at byte `: {first: good, second: {split(uint16(1), uint16(2)), "a"}},
		`tensor "a" is also in ` + first + ": want each tensor": {first: good, second: {split(uint16(1), uint16(2)), "a"}},
		first + ": split.tensors.count is 3, but its 2 parts have 2 tensors": {
			first:  {split(uint16(0), uint16(2), KV{splitTensorsKey, int32(3)}), "a"},
			second: {split(uint16(1), uint16(2), KV{splitTensorsKey, int32(3)}), "b"}},
		`split.tensors.count" is the int32 -1`: {first: {split(uint16(0), uint16(2), KV{splitTensorsKey, int32(-1)}), "a"},
			second: {split(uint16(1), uint16(2)), "b"}},
		"this is a part of a model of 1000000000 files: want at most 4096": {first: {split(uint16(0), uint32(1e9)), "a"}},
		"a part of a model of 100000 files":                                {"m-000001-of-100000.gguf": {nil, "a"}},
		"split.no is 2, of 2 parts: want 0 to 1":                           {first: {split(uint16(2), uint16(2)), "a"}},
		"split.no is 18446744073709551615, of 2":                           {first: {split(uint64(1<<64-1), uint16(2)), "a"}},
		`"split.count" is a string: want an integer`:                       {first: {split(uint16(0), "2"), "a"}},
		`no such metadata key: "split.no"`:                                 {first: {[]KV{{splitCountKey, uint16(2)}}, "a"}},
	} {
		dir := t.TempDir()
		for file, p := range files {
			one := &ir.Data{DType: ir.F32, Dims: []int{1}, Bytes: make([]byte, 4)}
			data := encode(t, p.keys, map[string]*ir.Data{p.tensor: one})
			if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for file := range files {
			if file == second && len(files) > 1 {
				continue // the other one is then the foreign one
			}
			if f, err := Open(filepath.Join(dir, file)); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, %v\nwant %q", file, f, err, says)
			}
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, first)
	if err := os.WriteFile(path, encode(t, good.keys, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, second)); err != nil {
		t.Skip(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "part 2 of 2: gguf: "+
		filepath.Join(dir, second)+" is a directory and not a regular file") {
		t.Errorf("a link to a directory: %v", err)
	}
	if _, err := NewReader(encode(t, good.keys, nil)); err == nil || !strings.Contains(err.Error(),
		"gguf: the data: this is part 1 of 2 of a model: open it as a file") {
		t.Errorf("a part in memory: %v", err)
	}
}

// FuzzParts joins two files as parts of a model. What opens can be written and has the tensors of both.
func FuzzParts(f *testing.F) {
	dir := f.TempDir()
	whole, err := NewReader(encode(f, everyValue(), testTensors()))
	if err != nil {
		f.Fatal(err)
	}
	paths, err := copyOf(f, whole).WriteParts(filepath.Join(dir, "m.gguf"), 1300)
	if err != nil || len(paths) != 2 {
		f.Fatal(paths, err)
	}
	var seeds [2][]byte
	for i, path := range paths {
		if seeds[i], err = os.ReadFile(path); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(seeds[0], seeds[1])
	f.Add(seeds[1], seeds[0])
	f.Add(encode(f, nil, nil), encode(f, nil, testTensors()))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var parts []*File
		for i, data := range [][]byte{a, b} {
			part, err := parse(filefmt.Source{Format: "gguf", Path: fmt.Sprintf("m-%d-of-2.gguf", i+1)}, data)
			if err == nil {
				_, _, err = part.part()
			}
			if err != nil {
				return
			}
			parts = append(parts, part)
		}
		file, err := join(parts)
		if err != nil {
			if !strings.Contains(err.Error(), "-of-2.gguf: ") {
				t.Fatalf("%v does not name the file", err)
			}
			return
		}
		checkRewrite(t, file)
	})
}
