package quantize_test

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/vkc-go/vkc/frontend/quantize"
	"github.com/vkc-go/vkc/ir"
)

// specReader reads a GGUF file as ggml's docs/gguf.md describes it, sharing no code
// with package gguf, and stops the test where the file departs from it.
type specReader struct {
	t   *testing.T
	b   []byte
	pos int
}

func (r *specReader) bytes(n uint64) []byte {
	r.t.Helper()
	if n > uint64(len(r.b)-r.pos) {
		r.t.Fatalf("at byte %d: %d bytes are not there", r.pos, n)
	}
	r.pos += int(n)
	return r.b[r.pos-int(n) : r.pos]
}

func (r *specReader) u32() uint32  { r.t.Helper(); return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *specReader) u64() uint64  { r.t.Helper(); return binary.LittleEndian.Uint64(r.bytes(8)) }
func (r *specReader) text() string { r.t.Helper(); return string(r.bytes(r.u64())) }

// skipValue passes over a metadata value of type uint32, string or array, the only
// ones in the file of this test, and returns the value of a uint32.
func (r *specReader) skipValue(kind uint32) uint32 {
	r.t.Helper()
	switch kind {
	case 4:
		return r.u32()
	case 8:
		r.text()
	case 9:
		elem, n := r.u32(), r.u64()
		for range n {
			r.skipValue(elem)
		}
	default:
		r.t.Fatalf("at byte %d: type %d", r.pos, kind)
	}
	return 0
}

// TestSpec reads a written file by the specification: magic, version 3, counts,
// metadata, the reversed dims, ggml's type numbers, and tensors at multiples of 32
// with zeros between them, the last one padded too.
func TestSpec(t *testing.T) {
	in := modelFile(t,
		named{"odd.weight", normal(t, ir.F32, 3, 32)}, // 54 bytes, so that the next needs padding
		named{"stack.weight", normal(t, ir.F16, 2, 3, 64)},
		named{"norm.weight", normal(t, ir.F32, 5)})
	_, _, out := quantized(t, in, quantize.Options{Type: ir.Q4_0})
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	r := &specReader{t: t, b: b}
	if magic, version := string(r.bytes(4)), r.u32(); magic != "GGUF" || version != 3 {
		t.Fatalf("%q version %d", magic, version)
	}
	tensors, keys := r.u64(), r.u64()
	if tensors != 3 || keys != 4 {
		t.Fatalf("%d tensors, %d keys", tensors, keys)
	}
	values := map[string]uint32{}
	for range keys {
		key := r.text()
		values[key] = r.skipValue(r.u32())
	}
	if values["general.file_type"] != 2 || values["general.quantization_version"] != 2 {
		t.Errorf("metadata %v", values)
	}
	type record struct {
		name         string
		dims         []uint64 // ggml's order: the innermost axis first
		kind         uint32
		offset, size uint64
	}
	want := []record{
		{"odd.weight", []uint64{32, 3}, 2, 0, 54},
		{"stack.weight", []uint64{64, 3, 2}, 2, 64, 2 * 3 * 2 * 18},
		{"norm.weight", []uint64{5}, 0, 64 + 224, 20},
	}
	for _, w := range want {
		if name := r.text(); name != w.name {
			t.Fatalf("tensor %q, want %q", name, w.name)
		}
		if n := r.u32(); n != uint32(len(w.dims)) {
			t.Fatalf("%s: %d axes", w.name, n)
		}
		for i, d := range w.dims {
			if got := r.u64(); got != d {
				t.Errorf("%s: ne[%d] is %d, want %d", w.name, i, got, d)
			}
		}
		if kind, offset := r.u32(), r.u64(); kind != w.kind || offset != w.offset {
			t.Errorf("%s: type %d at %d, want %d at %d", w.name, kind, offset, w.kind, w.offset)
		}
	}
	start := (r.pos + 31) / 32 * 32
	at := r.pos
	for _, w := range want {
		zeros(t, b[at:start+int(w.offset)], w.name)
		at = start + int(w.offset+w.size)
	}
	zeros(t, b[at:], "the end")
	if len(b)%32 != 0 {
		t.Errorf("the file has %d bytes", len(b))
	}
}

func zeros(t *testing.T, b []byte, before string) {
	t.Helper()
	for _, v := range b {
		if v != 0 {
			t.Errorf("padding before %s is % x", before, b)
			return
		}
	}
}
