package gguf

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

// rawFile builds files that Writer refuses to write.
type rawFile struct{ b []byte }

func raw(version uint32, tensors, kvs uint64) rawFile {
	return rawFile{appendU64(appendU64(appendU32([]byte(magic), version), tensors), kvs)}
}

func (r rawFile) str(s string) rawFile { return rawFile{appendString(slices.Clip(r.b), s)} }
func (r rawFile) u32(vs ...uint32) rawFile {
	return rawFile{fixed[uint32]{}.appendTo(slices.Clip(r.b), vs)}
}
func (r rawFile) u64(vs ...uint64) rawFile {
	return rawFile{fixed[uint64]{}.appendTo(slices.Clip(r.b), vs)}
}
func (r rawFile) bytes(vs ...byte) rawFile           { return rawFile{append(slices.Clip(r.b), vs...)} }
func (r rawFile) kv(key string, t ValueType) rawFile { return r.str(key).u32(uint32(t)) }

// tensor appends a record of a tensor with those dims, innermost first.
func (r rawFile) tensor(name string, ggmlType uint32, offset uint64, dims ...uint64) rawFile {
	return r.str(name).u32(uint32(len(dims))).u64(dims...).u32(ggmlType).u64(offset)
}

// data pads to the default alignment and appends n bytes of tensor data.
func (r rawFile) data(n int) rawFile {
	return r.bytes(make([]byte, int(ceil.Multiple(int64(len(r.b)), defaultAlignment))-len(r.b)+n)...)
}

const huge = math.MaxUint64

func TestRefusesDamagedFiles(t *testing.T) {
	nested := raw(3, 0, 1).kv("k", TypeArray)
	for range maxArrayDepth {
		nested = nested.u32(uint32(TypeArray)).u64(1)
	}
	for name, c := range map[string]struct {
		file rawFile
		want string
	}{
		"empty":             {rawFile{}, "at byte 0: the file ends inside the magic"},
		"magic":             {rawFile{[]byte("GGML    ")}, `begins with "GGML"`},
		"version 1":         {raw(1, 0, 0), "at byte 4: version 1"},
		"big-endian":        {raw(3<<24, 0, 0), "big-endian"},
		"version 0":         {raw(0, 0, 0), "version is 0"},
		"tensor count":      {raw(3, huge, 0), "at byte 8: the tensor count is 18446744073709551615"},
		"metadata count":    {raw(3, 0, 2).bytes(make([]byte, 27)...), "at byte 16: the metadata count is 2"},
		"key length":        {raw(3, 0, 1).u64(huge).u64(0), "the length of metadata key 0"},
		"key too long":      {raw(3, 0, 1).str(strings.Repeat("k", maxKeyBytes+1)), "want at most 65535"},
		"empty key":         {raw(3, 0, 1).kv("", TypeUint64).u64(0), "is empty"},
		"key twice":         {raw(3, 0, 2).kv("k", TypeUint32).u32(1).kv("k", TypeUint32).u32(1), `"k" occurs twice`},
		"value type":        {raw(3, 0, 1).kv("k", 13).u64(0), "at byte 33: the type of metadata value \"k\" is 13"},
		"value cut":         {raw(3, 0, 1).kv("kkkkkk", TypeUint64).u32(0), "the file ends inside metadata value"},
		"bool":              {raw(3, 0, 1).kv("k", TypeBool).bytes(2), "want 0 or 1"},
		"string length":     {raw(3, 0, 1).kv("k", TypeString).u64(huge), "the length of metadata value"},
		"array type":        {raw(3, 0, 1).kv("k", TypeArray).u32(99).u64(0), "the type of an element"},
		"array count":       {raw(3, 0, 1).kv("k", TypeArray).u32(uint32(TypeUint64)).u64(1 << 61), "the element count"},
		"string array":      {raw(3, 0, 1).kv("k", TypeArray).u32(uint32(TypeString)).u64(1).u64(9), "the length of"},
		"array bool":        {raw(3, 0, 1).kv("k", TypeArray).u32(uint32(TypeBool)).u64(2).bytes(1, 3), "at byte 50: metadata value \"k\" has the byte 3"},
		"nesting":           {nested.u32(uint32(TypeUint8)).u64(0), "nests arrays more than 4 deep"},
		"alignment type":    {raw(3, 0, 1).kv(alignmentKey, TypeUint64).u64(32), "is a uint64"},
		"alignment zero":    {raw(3, 0, 1).kv(alignmentKey, TypeUint32).u32(0), "power of two"},
		"alignment huge":    {raw(3, 0, 1).kv(alignmentKey, TypeUint32).u32(1 << 31), "power of two"},
		"tensor name":       {raw(3, 1, 0).str(strings.Repeat("n", maxNameBytes+1)), "want at most 1024"},
		"empty name":        {raw(3, 1, 0).tensor("", 0, 0), "is empty"},
		"tensor twice":      {raw(3, 2, 0).tensor("w", 0, 0).tensor("w", 0, 32).data(64), `"w" occurs twice`},
		"rank":              {raw(3, 1, 0).tensor("w", 0, 0, 1, 1, 1, 1, 1), "5 axes"},
		"dim":               {raw(3, 1, 0).tensor("w", 0, 0, 1<<32), "a dim of 4294967296"},
		"elements overflow": {raw(3, 1, 0).tensor("w", 0, 0, 1<<31-1, 1<<31-1, 1<<31-1), `tensor "w"`},
		"bytes overflow":    {raw(3, 1, 0).tensor("w", 0, 0, 1<<31-1, 1<<31-1).data(8), "bytes"},
		"block row":         {raw(3, 1, 0).tensor("w", 2, 0, 33).data(64), "whole number of q4_0 blocks"},
		"offset alignment":  {raw(3, 1, 0).tensor("w", 0, 4, 1).data(64), "offset 4: want a multiple of the alignment, 32"},
		"offset":            {raw(3, 1, 0).tensor("w", 0, 64, 1).data(64), "offset 64 of the data, which has 64 bytes"},
		"offset overflow":   {raw(3, 1, 0).tensor("w", 0, huge&^31, 1).data(64), "offset 18446744073709551584"},
		"empty, overflow":   {raw(3, 1, 0).tensor("w", 0, huge&^31, 0).data(64), "offset 18446744073709551584"},
		"data cut":          {raw(3, 1, 0).tensor("w", 0, 0, 17).data(67), "has 68 bytes at offset 0 of the data, which has 67"},
		"no data":           {raw(3, 1, 0).tensor("w", 0, 0, 1), "which has 0 bytes"},
		"overlap":           {raw(3, 2, 0).tensor("b", 0, 32, 8).tensor("a", 0, 0, 9).data(64), `tensor "b" begins inside tensor "a"`},
		"same place":        {raw(3, 2, 0).tensor("a", 0, 0, 1).tensor("b", 0, 0, 1).data(64), `tensor "b" begins inside tensor "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewReader(c.file.b)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if e := new(filefmt.Error); !errors.As(err, &e) {
				t.Errorf("%v has no position", err)
			}
		})
	}
}

func TestAcceptsUnusualFiles(t *testing.T) {
	for name, file := range map[string]rawFile{
		"nothing at all":              raw(3, 0, 0),
		"version 2":                   raw(2, 0, 0),
		"gap and disorder":            raw(3, 2, 0).tensor("b", 0, 64, 1).tensor("a", 0, 0, 1).data(68),
		"no padding at the end":       raw(3, 1, 0).tensor("w", 0, 0, 17).data(68),
		"empty tensor past the end":   raw(3, 1, 0).tensor("w", 0, 1<<40, 0),
		"empty tensor inside another": raw(3, 2, 0).tensor("a", 0, 0, 16).tensor("b", 0, 32, 0).data(64),
	} {
		t.Run(name, func(t *testing.T) {
			f, err := NewReader(file.b)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range f.Names() {
				if _, err := f.Weight(n); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	tensors := testTensors()
	whole := encode(t, everyValue(), tensors)
	f, err := NewReader(whole)
	if err != nil {
		t.Fatal(err)
	}
	var end int64
	for _, tensor := range f.Tensors() {
		end = max(end, tensor.Offset+tensor.Bytes)
	}
	for n := range end {
		if _, err := NewReader(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", n, end)
		}
	}
}

func FuzzReader(f *testing.F) {
	whole := encode(f, everyValue(), testTensors())
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(whole[:200])
	f.Add(raw(3, 0, 0).b)
	f.Add(raw(2, 2, 0).tensor("b", 0, 64, 1).tensor("a", 25, 0, 1).data(68).b)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := NewReader(data)
		if err != nil && bytes.Contains(data, []byte("split.")) {
			return // errors about the keys of parts have no position
		}
		if err != nil {
			if e := new(filefmt.Error); !errors.As(err, &e) || e.Pos < 0 || e.Pos > int64(len(data)) {
				t.Fatalf("%v: want a position inside the %d bytes", err, len(data))
			}
			return
		}
		checkRewrite(t, file)
	})
}

// checkRewrite writes the file's contents, and expects to read the same again.
func checkRewrite(t *testing.T, file *File) {
	var w Writer
	for _, kv := range file.Metadata() {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
	}
	for _, tensor := range file.Tensors() {
		d, err := file.Weight(tensor.Name)
		if tensor.DType == ir.Invalid {
			if err == nil {
				t.Fatalf("tensor %q of an unknown type was read", tensor.Name)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(tensor.Name, d); err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
	}
	var buf bytes.Buffer
	if _, err := w.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	again, err := NewReader(buf.Bytes())
	if err != nil {
		t.Fatalf("cannot read what was written: %v", err)
	}
	for _, name := range again.Names() {
		a, _ := file.Weight(name)
		b, err := again.Weight(name)
		if err != nil || a.DType != b.DType || !slices.Equal(a.Dims, b.Dims) || !bytes.Equal(a.Bytes, b.Bytes) {
			t.Fatalf("tensor %q is %v, was %v (%v)", name, b, a, err)
		}
	}
	if len(again.Metadata()) != len(file.Metadata()) {
		t.Fatalf("%d metadata pairs, were %d", len(again.Metadata()), len(file.Metadata()))
	}
}
