package imatrix_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/quant/imatrix"
)

// builder writes the older form, right or wrong.
type builder struct{ b []byte }

func (w *builder) i32(v int) *builder {
	w.b = binary.LittleEndian.AppendUint32(w.b, uint32(int32(v)))
	return w
}

func (w *builder) text(s string) *builder {
	w.i32(len(s))
	w.b = append(w.b, s...)
	return w
}

func (w *builder) entry(name string, calls int, values ...float32) *builder {
	w.text(name).i32(calls).i32(len(values))
	for _, v := range values {
		w.b = binary.LittleEndian.AppendUint32(w.b, math.Float32bits(v))
	}
	return w
}

func file(entries int) *builder { return new(builder).i32(entries) }

// sample has a plain weight and a stack of two matrices, the second never used.
func sample() *builder {
	return file(2).
		entry("blk.0.attn_q.weight", 3, 1, 2, 3, 6).
		entry("blk.0.ffn_up_exps.weight", 3, 1, 3, 0, 0)
}

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name     string
		data     []byte
		chunks   int
		datasets []string
	}{
		{"without an end", sample().b, 0, nil},
		{"with chunks and dataset", sample().i32(7).text("text.raw").b, 7, []string{"text.raw"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := imatrix.Read(tc.data, "x.dat")
			if err != nil {
				t.Fatal(err)
			}
			checkSample(t, m, tc.chunks, tc.datasets)
		})
	}
}

func TestFromTensors(t *testing.T) {
	m, err := imatrix.FromTensors(sampleGGUF(t, "imatrix", "imatrix.chunk_count", uint32(9),
		"imatrix.datasets", []string{"a", "b"}))
	if err != nil {
		t.Fatal(err)
	}
	checkSample(t, m, 9, []string{"a", "b"})
	m, err = imatrix.FromTensors(sampleGGUF(t, "imatrix"))
	if err != nil {
		t.Fatal(err)
	}
	checkSample(t, m, 0, nil)
}

// sampleGGUF is sample in the GGUF form with more metadata.
func sampleGGUF(t *testing.T, kind string, more ...any) *gguf.File {
	t.Helper()
	var w gguf.Writer
	set := func(key string, value any) {
		if err := w.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if kind != "" {
		set("general.type", kind)
	}
	for i := 0; i < len(more); i += 2 {
		set(more[i].(string), more[i+1])
	}
	addFloats(t, &w, "blk.0.attn_q.weight.in_sum2", []float64{1, 2, 3, 6}, 1, 4)
	addFloats(t, &w, "blk.0.attn_q.weight.counts", []float64{30}, 1, 1)
	addFloats(t, &w, "blk.0.ffn_up_exps.weight.in_sum2", []float64{1, 3, 0, 0}, 2, 2)
	addFloats(t, &w, "blk.0.ffn_up_exps.weight.counts", []float64{30, 0}, 2, 1)
	return open(t, &w)
}

func addFloats(t *testing.T, w *gguf.Writer, name string, values []float64, dims ...int) {
	t.Helper()
	d, err := ir.FromFloats(ir.F32, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(name, d); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, w *gguf.Writer) *gguf.File {
	t.Helper()
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.NewReader(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func checkSample(t *testing.T, m *imatrix.Matrix, chunks int, datasets []string) {
	t.Helper()
	if m.Chunks != chunks || !slices.Equal(m.Datasets, datasets) {
		t.Errorf("%d chunks of %q, want %d of %q", m.Chunks, m.Datasets, chunks, datasets)
	}
	if want := []string{"blk.0.attn_q.weight", "blk.0.ffn_up_exps.weight"}; !slices.Equal(m.Names(), want) {
		t.Errorf("names %q, want %q", m.Names(), want)
	}
	for _, tc := range []struct {
		name                      string
		columns, matrices, matrix int
		want                      []float32
	}{
		{"blk.0.attn_q.weight", 4, 1, 0, []float32{1. / 3, 2. / 3, 1, 2}},
		{"blk.0.attn_q.weight", 4, 3, 2, []float32{1. / 3, 2. / 3, 1, 2}}, // one row for all
		{"blk.0.ffn_up_exps.weight", 2, 2, 0, []float32{0.5, 1.5}},
		{"blk.0.ffn_up_exps.weight", 2, 2, 1, []float32{1, 1}}, // never used
		{"output.weight", 4, 1, 0, nil},
	} {
		row, ok, err := m.Row(tc.name, tc.columns, tc.matrices, tc.matrix)
		if err != nil {
			t.Error(err)
		}
		if ok != (tc.want != nil) || !slices.Equal(row, tc.want) {
			t.Errorf("row %d of %s is %v (%v), want %v", tc.matrix, tc.name, row, ok, tc.want)
		}
	}
}

func TestRowRefuses(t *testing.T) {
	m, err := imatrix.Read(sample().b, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		columns, matrices, matrix int
		want                      string
	}{
		{8, 1, 0, "has 4 values; a weight of 1 matrices with 8 columns takes 8"},
		{2, 3, 0, "takes 6"},
		{2, 2, 2, "matrix 2 of 2"},
		{2, 2, -1, "matrix -1 of 2"},
		{0, 1, 0, "0 columns"},
	} {
		_, ok, err := m.Row("blk.0.attn_q.weight", tc.columns, tc.matrices, tc.matrix)
		if !ok {
			t.Errorf("%+v: not known", tc)
		}
		wantError(t, err, tc.want)
	}
}

func TestReadRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "at byte 0: the file ends inside the number of entries"},
		{"negative entries", file(-1).b, "at byte 0: -1 entries"},
		{"too many entries", file(1 << 30).b, "1073741824 entries: the rest of the file holds at most 0"},
		{"a GGUF file", append([]byte("GGUF"), make([]byte, 100)...), "1179993927 entries"},
		{"an entry too few", file(2).entry("a", 1, 1, 2, 3, 4, 5, 6).b, "ends inside the number of bytes of a name"},
		{"empty name", file(1).entry("", 1, 1, 1).b, "a name of 0 bytes"},
		{"huge name", file(1).entry(strings.Repeat("a", 1<<17), 1, 1).b, "a name of 131072 bytes"},
		{"name past the end", file(1).i32(100).i32(0).i32(0).i32(0).i32(0).b, "100 bytes of a name"},
		{"negative calls", file(1).entry("a", -2, 1).b, `at byte 9: entry "a" has -2 calls`},
		{"no values", file(1).entry("ab", 1).i32(0).b, `entry "ab" has no values`},
		{"values past the end", file(1).text("a").i32(1).i32(1 << 29).i32(0).b, "536870912 values"},
		{"negative value", file(1).entry("a", 1, 1, -1).b, `at byte 21: entry "a": value 1 is -1`},
		{"NaN", file(1).entry("a", 1, nan).b, "value 0 is NaN"},
		{"infinity", file(1).entry("a", 1, inf).b, "value 0 is +Inf"},
		{"the same twice", file(2).entry("a", 1, 1).entry("a", 1, 1).b, `at byte 21: a second entry "a"`},
		{"negative chunks", sample().i32(-1).text("x").b, "-1 chunks"},
		{"part of the end", sample().i32(1).b, "bytes of the dataset's name"},
		{"bytes after the end", sample().i32(1).text("x").i32(0).b, "4 bytes follow the end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := imatrix.Read(tc.data, "x.dat")
			wantError(t, err, tc.want)
			wantError(t, err, "imatrix: x.dat: ")
		})
	}
}

func TestFromTensorsRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, kind string
		more       []any
		want       string
	}{
		{name: "no type", want: "there is no general.type: want imatrix"},
		{name: "a model", kind: "model", want: "general.type is model"},
		{name: "chunks as text", kind: "imatrix", more: []any{"imatrix.chunk_count", "7"}, want: "chunk_count is a string"},
		{name: "one dataset as text", kind: "imatrix", more: []any{"imatrix.datasets", "a"}, want: "datasets is a string"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := imatrix.FromTensors(sampleGGUF(t, tc.kind, tc.more...))
			wantError(t, err, tc.want)
		})
	}
	t.Run("negative sum", func(t *testing.T) {
		var w gguf.Writer
		w.Set("general.type", "imatrix")
		addFloats(t, &w, "a.in_sum2", []float64{1, -1}, 2)
		_, err := imatrix.FromTensors(open(t, &w))
		wantError(t, err, `"a.in_sum2": value 1 is -1`)
	})
	t.Run("integers", func(t *testing.T) {
		var w gguf.Writer
		w.Set("general.type", "imatrix")
		d, err := ir.FromInts(ir.I32, []int64{1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		w.Add("a.in_sum2", d)
		_, err = imatrix.FromTensors(open(t, &w))
		wantError(t, err, "want f32")
	})
	t.Run("part of a tensor", func(t *testing.T) {
		_, err := imatrix.FromTensors(broken{})
		wantError(t, err, `tensor "a.in_sum2"`)
	})
	t.Run("closed", func(t *testing.T) {
		f := sampleGGUF(t, "imatrix")
		f.Close()
		_, err := imatrix.FromTensors(f)
		wantError(t, err, "closed")
	})
}

// broken is a source with a tensor that has fewer bytes than its shape needs.
type broken struct{}

func (broken) Names() []string { return []string{"a.in_sum2"} }
func (broken) Lookup(key string) (any, bool) {
	return "imatrix", key == "general.type"
}

func (broken) Weight(string) (*ir.Data, error) {
	return &ir.Data{DType: ir.F32, Dims: []int{2}, Bytes: make([]byte, 4)}, nil
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one containing %q", err, want)
	}
}

// FuzzRead reads arbitrary bytes. It must not panic, and accepted files must be usable as importance weights.
func FuzzRead(f *testing.F) {
	f.Add(sample().b)
	f.Add(sample().i32(7).text("text.raw").b)
	f.Add(file(1).entry("w", 1, slices.Repeat([]float32{0, 3e38, 1e-45, 1}, 8)...).b)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := imatrix.Read(data, "")
		if err != nil {
			return
		}
		for _, name := range m.Names() {
			row, ok, err := m.Row(name, 32, 1, 0)
			if !ok {
				t.Fatalf("%q is listed but not known", name)
			}
			if err != nil {
				continue // not 32 columns
			}
			if err := quant.Quantize(make([]byte, 18), ir.Q4_0, make([]float32, 32),
				&quant.Options{Weights: row}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
