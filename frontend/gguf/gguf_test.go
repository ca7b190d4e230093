package gguf

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vkc-go/vkc/ir"
)

// everyValue has a metadata pair of every type, single and as an array.
func everyValue() []KV {
	return []KV{
		{"general.architecture", "llama"},
		{"u8", uint8(200)}, {"i8", int8(-100)}, {"u16", uint16(60000)}, {"i16", int16(-30000)},
		{"u32", uint32(4e9)}, {"i32", int32(-2e9)}, {"f32", float32(1.5)}, {"t", true}, {"f", false},
		{"u64", uint64(1<<64 - 1)}, {"i64", int64(-1 << 63)}, {"f64", 0.1},
		{"u8s", []uint8{1, 255}}, {"i8s", []int8{-1, 1}}, {"u16s", []uint16{1, 65535}}, {"i16s", []int16{-1}},
		{"u32s", []uint32{7}}, {"i32s", []int32{-7, 8, 9}}, {"f32s", []float32{-0.5, 2}}, {"bools", []bool{true, false}},
		{"strings", []string{"", "a", "\x00\xff"}}, {"u64s", []uint64{1 << 63}}, {"i64s", []int64{-1}}, {"f64s", []float64{1e300}},
		{"nothing", []string{}}, {"nested", []any{[]int32{1}, []string{"x", "y"}, []any{}}},
	}
}

func testTensors() map[string]*ir.Data {
	fill := func(t ir.DType, n int, dims ...int) *ir.Data {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*7 + n)
		}
		return &ir.Data{DType: t, Dims: dims, Bytes: b}
	}
	return map[string]*ir.Data{
		"blk.0.attn_q.weight": fill(ir.F16, 2*3*2, 2, 3),
		"blk.0.ffn.weight":    fill(ir.Q4_0, 2*2*18, 2, 64),
		"blk.0.attn_norm":     fill(ir.F32, 5*4, 5),
		"scalar":              fill(ir.F32, 4),
		"empty":               fill(ir.F32, 0, 0, 4),
		"rank4":               fill(ir.I8, 24, 1, 2, 3, 4),
	}
}

func names(m map[string]*ir.Data) []string {
	var all []string
	for name := range m {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// encode writes a file with those contents, tensors in alphabetical order.
func encode(tb testing.TB, kvs []KV, tensors map[string]*ir.Data) []byte {
	tb.Helper()
	var w Writer
	for _, kv := range kvs {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			tb.Fatal(err)
		}
	}
	for _, name := range names(tensors) {
		if err := w.Add(name, tensors[name]); err != nil {
			tb.Fatal(err)
		}
	}
	var buf bytes.Buffer
	n, err := w.WriteTo(&buf)
	if err != nil {
		tb.Fatal(err)
	}
	if n != int64(buf.Len()) {
		tb.Fatalf("WriteTo reports %d bytes and wrote %d", n, buf.Len())
	}
	return buf.Bytes()
}

func checkContents(t *testing.T, f *File, kvs []KV, tensors map[string]*ir.Data) {
	t.Helper()
	if diff := cmp.Diff(kvs, f.Metadata()); diff != "" {
		t.Errorf("metadata (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(names(tensors), f.Names()); diff != "" {
		t.Errorf("names (-written +read):\n%s", diff)
	}
	for name, want := range tensors {
		got, err := f.Weight(name)
		if err != nil {
			t.Errorf("Weight(%q): %v", name, err)
			continue
		}
		if err := got.Check(); err != nil {
			t.Errorf("Weight(%q): %v", name, err)
		}
		if got.DType != want.DType || !slices.Equal(got.Dims, want.Dims) || !bytes.Equal(got.Bytes, want.Bytes) {
			t.Errorf("Weight(%q) = %v %x, want %v %x", name, got, got.Bytes, want, want.Bytes)
		}
	}
}

// TestEdit: a copy has the file's tensors, and metadata with changed and added pairs. This also works when copying a
// file onto itself.
func TestEdit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, encode(t, []KV{{"a", "x"}, {"b", uint32(1)}}, testTensors()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{path + ".copy", path} {
		if err := Edit(path, to, KV{"a", "y"}, KV{"c", "z"}); err != nil {
			t.Fatal(err)
		}
		f, err := Open(to)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		checkContents(t, f, []KV{{"a", "y"}, {"b", uint32(1)}, {"c", "z"}}, testTensors())
	}
	if err := Edit(path, path, KV{"", "z"}); err == nil || !strings.Contains(err.Error(), "key has 0 bytes") {
		t.Errorf("a key without a name: %v", err)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, alignment := range []uint32{0, 1, 8, 32, 4096} {
		kvs, tensors := everyValue(), testTensors()
		if alignment != 0 {
			kvs = append(kvs, KV{alignmentKey, alignment})
		}
		data := encode(t, kvs, tensors)
		f, err := NewReader(data)
		if err != nil {
			t.Fatalf("alignment %d: %v", alignment, err)
		}
		if f.Version() != 3 {
			t.Errorf("version %d, want 3", f.Version())
		}
		checkContents(t, f, kvs, tensors)
		for _, tensor := range f.Tensors() {
			if a := int64(max(alignment, 1)); tensor.Offset%a != 0 {
				t.Errorf("alignment %d: tensor %q is at %d", alignment, tensor.Name, tensor.Offset)
			}
		}
	}
}

func TestRoundTripThroughAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	var w Writer
	if err := w.Set("general.name", "first"); err != nil {
		t.Fatal(err)
	}
	if err := w.Set("general.name", "second"); err != nil { // replaces
		t.Fatal(err)
	}
	want := testTensors()
	for _, name := range names(want) {
		d := want[name]
		if err := w.AddFunc(name, d.DType, d.Dims, func() (*ir.Data, error) { return d, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	checkContents(t, f, []KV{{"general.name", "second"}}, want)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Weight("scalar"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Weight after Close = %v, want os.ErrClosed", err)
	}
}

func TestWeightIsNotCopied(t *testing.T) {
	data := encode(t, nil, testTensors())
	f, err := NewReader(data)
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.Weight("rank4")
	if err != nil {
		t.Fatal(err)
	}
	data[f.Tensors()[slices.Index(f.Names(), "rank4")].Offset] ^= 0xff
	if d.Bytes[0] == testTensors()["rank4"].Bytes[0] {
		t.Error("the tensor does not alias the file")
	}
	if cap(d.Bytes) != len(d.Bytes) {
		t.Error("appending to the tensor would write into the file")
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.gguf")
	if err := os.WriteFile(path, []byte("GGUF\x09\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	if want := "gguf: " + path + ": at byte 4: version is 9: want 2 or 3"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := Open(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: got %v, want os.ErrNotExist", err)
	}
}

func TestWeightErrors(t *testing.T) {
	data := encode(t, nil, testTensors())
	// Turn the type of the scalar, the last record, into one that ir does not have.
	record := bytes.Index(data, []byte("scalar"))
	data[record+len("scalar")+4] = 4
	f, err := NewReader(data)
	if err != nil {
		t.Fatalf("an unsupported type is no error until it is asked for: %v", err)
	}
	if _, err := f.Weight("scalar"); err == nil || !strings.Contains(err.Error(), "4 (q4_2)") {
		t.Errorf("unsupported type: got %v, want it named", err)
	}
	if _, err := f.Weight("blk.0.attn_k.weight"); err == nil ||
		!strings.Contains(err.Error(), "nearest: blk.0.attn_q.weight") {
		t.Errorf("unknown name: got %v, want the nearest name", err)
	}
	if f.HasWeight("absent") || !f.HasWeight("rank4") {
		t.Error("HasWeight is wrong")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Weight("rank4"); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Weight after Close = %v, want an error that says so", err)
	}
}

func TestAccessors(t *testing.T) {
	f, err := NewReader(encode(t, everyValue(), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		get  func(string) (any, error)
		key  string
		want any // nil for an error
	}{
		{"String", wrap(f.String), "general.architecture", "llama"},
		{"String", wrap(f.String), "u8", nil},
		{"Bool", wrap(f.Bool), "t", true},
		{"Bool", wrap(f.Bool), "f32", nil},
		{"Float", wrap(f.Float), "f32", 1.5},
		{"Float", wrap(f.Float), "f64", 0.1},
		{"Float", wrap(f.Float), "u8", nil},
		{"Uint", wrap(f.Uint), "u8", uint64(200)},
		{"Uint", wrap(f.Uint), "u64", uint64(1<<64 - 1)},
		{"Uint", wrap(f.Uint), "i8", nil},
		{"Uint", wrap(f.Uint), "f32", nil},
		{"Int", wrap(f.Int), "i16", int64(-30000)},
		{"Int", wrap(f.Int), "u32", int64(4e9)},
		{"Int", wrap(f.Int), "u64", nil},
		{"Strings", wrap(f.Strings), "strings", []string{"", "a", "\x00\xff"}},
		{"Strings", wrap(f.Strings), "nothing", []string{}},
		{"Strings", wrap(f.Strings), "i32s", nil},
		{"Floats", wrap(f.Floats), "f32s", []float32{-0.5, 2}},
		{"Floats", wrap(f.Floats), "f64s", nil},
		{"Ints", wrap(f.Ints), "u8s", []int64{1, 255}},
		{"Ints", wrap(f.Ints), "i32s", []int64{-7, 8, 9}},
		{"Ints", wrap(f.Ints), "u64s", nil},
		{"Ints", wrap(f.Ints), "strings", nil},
	} {
		got, err := c.get(c.key)
		if c.want == nil {
			if err == nil || errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), c.key) {
				t.Errorf("%s(%q) = %v, %v, want an error about its type", c.what, c.key, got, err)
			}
		} else if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s(%q) = %v, %v, want %v", c.what, c.key, got, err, c.want)
		}
		if _, err := c.get("absent"); !errors.Is(err, ErrNoKey) {
			t.Errorf("%s of an absent key: %v, want ErrNoKey", c.what, err)
		}
	}
}

func wrap[T any](get func(string) (T, error)) func(string) (any, error) {
	return func(key string) (any, error) { return get(key) }
}

func TestWriterRefuses(t *testing.T) {
	scalar := &ir.Data{DType: ir.F32, Bytes: make([]byte, 4)}
	var deep any = []int32{1}
	for range maxArrayDepth {
		deep = []any{deep}
	}
	for name, c := range map[string]struct {
		do   func(w *Writer) error
		want string
	}{
		"empty key":         {func(w *Writer) error { return w.Set("", true) }, "metadata key has 0 bytes"},
		"unsized integer":   {func(w *Writer) error { return w.Set("k", 3) }, "cannot be a int"},
		"inner value":       {func(w *Writer) error { return w.Set("k", []any{true}) }, "cannot be a bool"},
		"deep nesting":      {func(w *Writer) error { return w.Set("k", deep) }, "nest more than 4 deep"},
		"alignment type":    {func(w *Writer) error { return w.Set(alignmentKey, int32(32)) }, "want a uint32"},
		"alignment value":   {func(w *Writer) error { return w.Set(alignmentKey, uint32(24)) }, "power of two"},
		"empty tensor name": {func(w *Writer) error { return w.Add("", scalar) }, "name has 0 bytes"},
		"type":              {func(w *Writer) error { return w.Add("w", &ir.Data{DType: ir.Bool, Bytes: make([]byte, 1)}) }, "no type for bool"},
		"rank":              {func(w *Writer) error { return w.Add("w", &ir.Data{DType: ir.F32, Dims: make([]int, 5)}) }, "5 axes"},
		"block rows":        {func(w *Writer) error { return w.Add("w", &ir.Data{DType: ir.Q8_0, Dims: []int{32, 1}}) }, "blocks"},
		"twice": {func(w *Writer) error {
			if err := w.Add("w", scalar); err != nil {
				return err
			}
			return w.Add("w", scalar)
		}, "added twice"},
		"data of another size": {func(w *Writer) error {
			if err := w.Add("w", &ir.Data{DType: ir.F32, Dims: []int{2}, Bytes: make([]byte, 4)}); err != nil {
				return err
			}
			_, err := w.WriteTo(io.Discard)
			return err
		}, "the data has 4 bytes: want 8 for f32[2]"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.do(new(Writer)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	var w Writer
	broken := errors.New("broken")
	if err := w.AddFunc("w", ir.F32, nil, func() (*ir.Data, error) { return nil, broken }); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteFile(filepath.Join(dir, "m.gguf")); !errors.Is(err, broken) {
		t.Errorf("got %v, want the loader's error", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("a failed write left %v", left)
	}
}
