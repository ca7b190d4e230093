package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

// file puts a header length before header and n bytes of data after it.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func filled(t ir.DType, dims ...int) *ir.Data {
	d, err := ir.NewData(t, dims...)
	if err != nil {
		panic(err)
	}
	for i := range d.Bytes {
		d.Bytes[i] = byte(i*5 + 1)
	}
	return d
}

// testTensors has a tensor of every type that the format and ir share.
func testTensors() []Named {
	all := []Named{{"scalar", filled(ir.F32)}, {"empty", filled(ir.F32, 0, 3)}, {`odd "name" <ü>`, filled(ir.U8, 3)}}
	for name, dtype := range dtypes {
		all = append(all, Named{"t." + name, filled(dtype, 2, 3)})
	}
	slices.SortFunc(all, func(a, b Named) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func encode(tb testing.TB, metadata map[string]string, tensors []Named) []byte {
	tb.Helper()
	var buf bytes.Buffer
	if err := Write(&buf, metadata, tensors); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func checkWeights(t *testing.T, source ir.WeightSource, tensors []Named) {
	t.Helper()
	for _, want := range tensors {
		got, err := source.Weight(want.Name)
		if err != nil {
			t.Errorf("Weight(%q): %v", want.Name, err)
			continue
		}
		if got.DType != want.Data.DType || !slices.Equal(got.Dims, want.Data.Dims) ||
			!bytes.Equal(got.Bytes, want.Data.Bytes) {
			t.Errorf("Weight(%q) = %v %x, want %v %x", want.Name, got, got.Bytes, want.Data, want.Data.Bytes)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	metadata := map[string]string{"format": "pt", "note": "a \"quoted\" line\n"}
	if err := WriteFile(path, metadata, testTensors()); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(metadata, f.Metadata()); diff != "" {
		t.Errorf("metadata (-written +read):\n%s", diff)
	}
	checkWeights(t, f, testTensors())
	for _, tensor := range f.Tensors() {
		if size := int64(tensor.DType.BlockBytes()); tensor.Offset%size != 0 {
			t.Errorf("%s of %d-byte elements is at %d", tensor.Name, size, tensor.Offset)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Weight("scalar"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Weight after Close = %v, want os.ErrClosed", err)
	}
}

// TestReadsTheFormat reads a file written out by hand from the format's
// description, so that an error common to reader and writer would show.
func TestReadsTheFormat(t *testing.T) {
	data := file(`{"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},`+
		`"b":{"data_offsets":[0,2],"shape":[],"dtype":"BF16"}}   `, 10)
	copy(data[len(data)-10:], []byte{0x80, 0x3f, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40})
	f, err := NewReader(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"w", "b"}, f.Names()); diff != "" {
		t.Errorf("names:\n%s", diff)
	}
	checkWeights(t, f, []Named{
		{"w", &ir.Data{DType: ir.F32, Dims: []int{2, 1}, Bytes: []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}}},
		{"b", &ir.Data{DType: ir.BF16, Dims: []int{}, Bytes: []byte{0x80, 0x3f}}},
	})
	data[len(data)-10] = 0x42
	if b, _ := f.Weight("b"); b.Bytes[0] != 0x42 || cap(b.Bytes) != 2 {
		t.Errorf("the tensor does not alias just its part of the file: %x, cap %d", b.Bytes, cap(b.Bytes))
	}
}

func TestWeightErrors(t *testing.T) {
	f, err := NewReader(
		file(`{"wq":{"dtype":"C64","shape":[0],"data_offsets":[0,0]},"wk":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}`, 3))
	if err != nil {
		t.Fatalf("an unsupported type is no error until it is asked for: %v", err)
	}
	if _, err := f.Weight("wq"); err == nil || !strings.Contains(err.Error(), `type "C64"`) {
		t.Errorf("unsupported type: got %v, want it named", err)
	}
	if _, err := f.Weight("wkk"); err == nil || !strings.Contains(err.Error(), "among 2; nearest: wk") {
		t.Errorf("unknown name: got %v, want the nearest name", err)
	}
	if f.HasWeight("wkk") || !f.HasWeight("wk") {
		t.Error("HasWeight is wrong")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Weight("wk"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Weight after Close = %v, want os.ErrClosed", err)
	}
}

// one returns a header with a single tensor with the given members.
func one(members string) string { return `{"w":{` + members + `}}` }

func TestRefusesDamagedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":              {nil, "the file has 0 bytes"},
		"length cut":         {[]byte{1, 0, 0}, "the file has 3 bytes"},
		"length over limit":  {bytes.Repeat([]byte{0xff}, 8), "want at most 100000000"},
		"length over file":   {[]byte{9, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, "is 9, but 2 bytes are left"},
		"no header":          {file("", 0), "does not begin with '{'"},
		"space first":        {file(" {}", 0), "does not begin with '{'"},
		"not UTF-8":          {file("{\"\xff\":1}", 0), "UTF-8"},
		"not an object":      {file("[]", 0), "does not begin with '{'"},
		"header cut":         {file(`{"w":{"dtype":"F32",`, 0), "the header ends inside"},
		"comma last":         {file(`{"__metadata__":{},}`, 0), "at byte 27: the header: invalid character '}'"},
		"goes on":            {file(`{} {}`, 0), "more text after its end"},
		"garbage after":      {file(`{} x`, 0), "more text after its end"},
		"tensor twice":       {file(`{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0077":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), `has "w" twice`},
		"member twice":       {file(one(`"dtype":"U8","dtype":"U8"`), 0), `has "dtype" twice`},
		"member unknown":     {file(one(`"dtype":"U8","strides":[1]`), 0), `has "strides"`},
		"member missing":     {file(one(`"dtype":"U8","shape":[0]`), 0), "has 2 of dtype, shape and data_offsets"},
		"tensor a number":    {file(`{"w":3}`, 0), "has 3: want {"},
		"tensor null":        {file(`{"w":null}`, 0), "has null: want {"},
		"dtype a number":     {file(one(`"dtype":8`), 0), "is 8: want a string"},
		"shape a number":     {file(one(`"shape":8`), 0), "has 8: want ["},
		"shape of strings":   {file(one(`"shape":["2"]`), 0), `has the string "2": want an integer`},
		"shape negative":     {file(one(`"shape":[-1]`), 0), "has -1: want an integer from 0"},
		"shape fraction":     {file(one(`"shape":[1.5]`), 0), "has 1.5: want an integer from 0"},
		"shape huge":         {file(one(`"shape":[9223372036854775808]`), 0), "want an integer from 0 to 2^63-1"},
		"shape nested":       {file(one(`"shape":[[1]]`), 0), "has [: want an integer"},
		"shape rank":         {file(one(`"shape":[1,1,1,1,1,1,1,1,1]`), 0), "more than 8 elements"},
		"offsets short":      {file(one(`"data_offsets":[0]`), 0), "has 1 elements: want 2"},
		"offsets long":       {file(one(`"data_offsets":[0,1,2]`), 0), "more than 2 elements"},
		"metadata a number":  {file(`{"__metadata__":{"k":1}}`, 0), "is 1: want a string"},
		"metadata twice":     {file(`{"__metadata__":{"k":"1","k":"2"}}`, 0), `has "k" twice`},
		"elements overflow":  {file(one(`"dtype":"U8","shape":[1073741824,1073741824,1073741824],"data_offsets":[0,1]`), 1), "more elements than can be counted"},
		"range backwards":    {file(one(`"dtype":"U8","shape":[1],"data_offsets":[1,0]`), 1), "byte range [1, 0)"},
		"range past the end": {file(one(`"dtype":"U8","shape":[2],"data_offsets":[0,2]`), 1), "inside the data, which has 1 bytes"},
		"range too long":     {file(one(`"dtype":"F32","shape":[2],"data_offsets":[0,12]`), 12), "is f32[2], which is 8 bytes, but its range has 12"},
		"gap":                {file(one(`"dtype":"U8","shape":[1],"data_offsets":[1,2]`), 2), "begins at byte 1 of the data: want 0"},
		"data left over":     {file(one(`"dtype":"U8","shape":[1],"data_offsets":[0,1]`), 3), "2 bytes of data belong to no tensor"},
		"overlap": {file(
			`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`,
			3),
			`"b" begins at byte 1 of the data: want 2`},
		"deep nesting": {file(`{"w":`+strings.Repeat("[", 20000), 0), "want {"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewReader(c.file)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if e := new(filefmt.Error); !errors.As(err, &e) {
				t.Errorf("%v has no position", err)
			}
		})
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	whole := encode(t, map[string]string{"k": "v"}, testTensors())
	for n := range whole {
		if _, err := NewReader(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", n, len(whole))
		}
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.safetensors")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.HasPrefix(err.Error(), "safetensors: "+path+": at byte 0: ") {
		t.Errorf("got %v, want the path and the position first", err)
	}
	if _, err := Open(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: got %v, want os.ErrNotExist", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	one := filled(ir.U8, 1)
	for name, c := range map[string]struct {
		tensors []Named
		want    string
	}{
		"twice":         {[]Named{{"w", one}, {"w", one}}, `"w" occurs twice`},
		"reserved name": {[]Named{{metadataKey, one}}, "the name cannot be used"},
		"name":          {[]Named{{"\xff", one}}, "the name cannot be used"},
		"type":          {[]Named{{"w", filled(ir.Q4_0, 32)}}, "no type for q4_0"},
		"size":          {[]Named{{"w", &ir.Data{DType: ir.F32, Dims: []int{2}, Bytes: make([]byte, 4)}}}, "needs 8 bytes, have 4"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Write(new(bytes.Buffer), nil, c.tensors); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func writeShards(t *testing.T, index string) string {
	t.Helper()
	dir := t.TempDir()
	all := testTensors()
	for i, tensors := range [][]Named{all[:3], all[3:]} {
		if err := WriteFile(filepath.Join(dir, fmt.Sprintf("%d.safetensors", i)), nil, tensors); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "model.safetensors.index.json")
	if err := os.WriteFile(path, []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestIndex(t *testing.T) {
	all := testTensors()
	var places []string
	for i, tensor := range all {
		places = append(places, fmt.Sprintf("%q:\"%d.safetensors\"", tensor.Name, min(i/3, 1)))
	}
	x, err := OpenIndex(writeShards(t, `{"metadata":{"total_size":1},"weight_map":{`+strings.Join(places, ",")+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Names()) != len(all) || !slices.IsSorted(x.Names()) {
		t.Errorf("names %q: want all %d, sorted", x.Names(), len(all))
	}
	checkWeights(t, x, all)
	if _, err := x.Weight("scalars"); err == nil || !strings.Contains(err.Error(), "nearest: scalar") ||
		x.HasWeight("scalars") {
		t.Errorf("unknown name: got %v, want the nearest name", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Weight(all[0].Name); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Weight after Close = %v, want os.ErrClosed", err)
	}
}

func TestIndexRefuses(t *testing.T) {
	for name, c := range map[string]struct{ index, want string }{
		"not JSON":      {`{"weight_map"`, "not valid JSON"},
		"wrong type":    {`{"weight_map":{"w":3}}`, "not valid JSON"},
		"no map":        {`{}`, "weight_map"},
		"a graph":       {`{"format":"vkc.graph","nodes":[]}`, `the file's format is "vkc.graph", but it has no weights`},
		"absent shard":  {`{"weight_map":{"scalar":"9.safetensors"}}`, "no such file"},
		"outside":       {`{"weight_map":{"scalar":"../0.safetensors"}}`, "want a file in the folder"},
		"absolute":      {`{"weight_map":{"scalar":"/0.safetensors"}}`, "want a file in the folder"},
		"absent tensor": {`{"weight_map":{"other":"0.safetensors"}}`, "does not have it"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeShards(t, c.index)
			if _, err := OpenIndex(path); err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error with %q and the path", err, c.want)
			}
		})
	}
	if _, err := OpenIndex(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent index: got %v, want os.ErrNotExist", err)
	}
}

func FuzzReader(f *testing.F) {
	whole := encode(f, map[string]string{"k": "v"}, testTensors())
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(file("{}", 0))
	f.Add(file(one(`"dtype":"F4","shape":[3],"data_offsets":[0,2]`), 2))
	f.Add(file(one(`"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1]`), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := NewReader(data)
		if err != nil {
			if e := new(filefmt.Error); !errors.As(err, &e) || e.Pos < 0 || e.Pos > int64(len(data)) {
				t.Fatalf("%v: want a position inside the %d bytes", err, len(data))
			}
			return
		}
		var known []Named
		for _, tensor := range file.Tensors() {
			d, err := file.Weight(tensor.Name)
			if (err != nil) != (tensor.DType == ir.Invalid) {
				t.Fatalf("Weight(%q) of type %s: %v", tensor.Name, tensor.DType, err)
			}
			if err == nil {
				known = append(known, Named{tensor.Name, d})
			}
		}
		again, err := NewReader(encode(t, file.Metadata(), known))
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		checkWeights(t, again, known)
	})
}
