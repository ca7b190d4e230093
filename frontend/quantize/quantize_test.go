package quantize_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/quantize"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/quant/imatrix"
)

// normal makes a tensor of normally distributed numbers.
func normal(t *testing.T, dtype ir.DType, dims ...int) *ir.Data {
	t.Helper()
	n := 1
	for _, d := range dims {
		n *= d
	}
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	values := make([]float64, n)
	for i := range values {
		values[i] = rng.NormFloat64()
	}
	d, err := ir.FromFloats(dtype, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type named struct {
	name string
	data *ir.Data
}

// modelFile writes a GGUF file with some metadata.
func modelFile(t *testing.T, tensors ...named) string {
	t.Helper()
	var w gguf.Writer
	for _, kv := range []struct {
		key   string
		value any
	}{{"general.architecture", "llama"}, {"general.file_type", uint32(1)},
		{"tokenizer.ggml.tokens", []string{"a", "", "日"}}} {
		if err := w.Set(kv.key, kv.value); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range tensors {
		if err := w.Add(n.name, n.data); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "in.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func source(t *testing.T, path string) *quantize.Source {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	src, err := quantize.NewSource(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	return src
}

// quantized quantizes a file, which must succeed, and opens the result.
func quantized(t *testing.T, path string, opt quantize.Options) (*quantize.Report, *gguf.File, string) {
	t.Helper()
	plan, err := quantize.New(source(t, path), opt)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.gguf")
	report, err := plan.WriteFile(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return report, f, out
}

// TestEveryType compares the written file with package quant's result for the whole tensor, and the reported errors
// with those computed here.
func TestEveryType(t *testing.T) {
	matrix := normal(t, ir.F32, 3, 512)
	in := modelFile(t, named{"blk.0.attn_q.weight", matrix}, named{"blk.0.attn_norm.weight", normal(t, ir.F16, 512)})
	wide, _ := matrix.Floats()
	x := make([]float32, len(wide))
	for i, v := range wide {
		x[i] = float32(v)
	}
	for _, dt := range ir.DTypes() {
		if _, ok := quantize.FileType(dt); !ok || !dt.IsBlock() {
			continue
		}
		t.Run(dt.String(), func(t *testing.T) {
			report, f, _ := quantized(t, in, quantize.Options{Type: dt})
			got, err := f.Weight("blk.0.attn_q.weight")
			if err != nil {
				t.Fatal(err)
			}
			want, err := ir.NewData(dt, 3, 512)
			if err != nil {
				t.Fatal(err)
			}
			if err := quant.Quantize(want.Bytes, dt, x, nil); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() || !bytes.Equal(got.Bytes, want.Bytes) {
				t.Errorf("%s differs from package quant's %s", got, want)
			}
			y := make([]float32, len(x))
			if err := quant.Dequantize(y, dt, want.Bytes); err != nil {
				t.Fatal(err)
			}
			var e, total, worst float64
			for i := range x {
				d := float64(x[i]) - float64(y[i])
				e, total, worst = e+d*d, total+float64(x[i])*float64(x[i]), max(worst, math.Abs(d))
			}
			r := report.Tensors[0]
			if math.Abs(r.RMSE-math.Sqrt(e/total)) > 1e-9 || r.MaxError != worst ||
				r.BytesOut != int64(len(want.Bytes)) {
				t.Errorf("reported %g, %g, %d bytes; want %g, %g, %d", r.RMSE, r.MaxError, r.BytesOut,
					math.Sqrt(e/total), worst, len(want.Bytes))
			}
			if norm, err := f.Weight("blk.0.attn_norm.weight"); err != nil || norm.String() != "f32[512]" {
				t.Errorf("the norm is %s, %v", norm, err)
			}
			number, _ := quantize.FileType(dt)
			if v, err := f.Uint("general.file_type"); err != nil || v != uint64(number) {
				t.Errorf("file type %d, %v", v, err)
			}
			if v, err := f.Uint("general.quantization_version"); err != nil || v != 2 {
				t.Errorf("quantization version %d, %v", v, err)
			}
			if tokens, err := f.Strings("tokenizer.ggml.tokens"); err != nil ||
				!slices.Equal(tokens, []string{"a", "", "日"}) {
				t.Errorf("tokens %q, %v", tokens, err)
			}
		})
	}
}

// TestRules checks the new types of tensors and the notes.
func TestRules(t *testing.T) {
	ints, err := ir.FromInts(ir.I32, []int64{1, 2}, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	in := modelFile(t,
		named{"token_embd.weight", normal(t, ir.F16, 4, 256)},
		named{"blk.0.ffn_up.weight", normal(t, ir.F32, 4, 96)},
		named{"blk.0.ffn_down.weight", normal(t, ir.F16, 4, 40)},
		named{"blk.0.odd.weight", normal(t, ir.F32, 4, 40)},
		named{"blk.0.experts.weight", normal(t, ir.BF16, 2, 3, 256)},
		named{"blk.0.attn_q_norm.weight", normal(t, ir.F16, 4, 256)},
		named{"blk.0.bias", normal(t, ir.BF16, 4, 256)},
		named{"row.weight", normal(t, ir.F16, 1, 256)},
		named{"scalar", normal(t, ir.F16)},
		named{"table", ints},
	)
	for _, tt := range []struct {
		opt  quantize.Options
		want map[string]string // "type; part of the note"
	}{
		{quantize.Options{Type: ir.Q4_K}, map[string]string{
			"token_embd.weight":        "q4_K; ",
			"blk.0.ffn_up.weight":      "q5_0; rows of 96 are not whole blocks of 256: q5_0 instead of q4_K",
			"blk.0.ffn_down.weight":    "f16; f16 instead of q4_K",
			"blk.0.odd.weight":         "f16; rows of 40",
			"blk.0.experts.weight":     "q4_K; ",
			"blk.0.attn_q_norm.weight": "f32; a norm stays f32",
			"blk.0.bias":               "f32; a bias stays f32",
			"row.weight":               "f32; a vector stays f32",
			"scalar":                   "f32; a vector stays f32",
			"table":                    "i32; no floats: copied",
		}},
		{quantize.Options{Type: ir.IQ2_XXS,
			Keep: []quantize.Rule{{"token*", ir.Q6_K}, {"blk.*.bias", ir.F16}, {"*", ir.Q5_K}}}, map[string]string{
			"token_embd.weight":    "q6_K; ",
			"blk.0.bias":           "f16; ",
			"blk.0.experts.weight": "q5_K; ",
			"blk.0.ffn_up.weight":  "q5_1; rows of 96",
			"row.weight":           "f32; a vector",
		}},
		{quantize.Options{Type: ir.TQ2_0}, map[string]string{"blk.0.ffn_up.weight": "q4_0; "}},
		{quantize.Options{Type: ir.IQ3_S}, map[string]string{"blk.0.ffn_up.weight": "iq4_nl; "}},
		{quantize.Options{Type: ir.Q6_K}, map[string]string{"blk.0.ffn_up.weight": "q8_0; "}},
		{quantize.Options{Type: ir.Q8_0}, map[string]string{"blk.0.ffn_up.weight": "q8_0; ", "blk.0.odd.weight": "f16; "}},
		{quantize.Options{Type: ir.BF16}, map[string]string{"blk.0.ffn_up.weight": "bf16; ", "scalar": "f32; "}},
	} {
		report, f, _ := quantized(t, in, tt.opt)
		for _, r := range report.Tensors {
			want, ok := tt.want[r.Name]
			if !ok {
				continue
			}
			dtype, note, _ := strings.Cut(want, "; ")
			if r.To.String() != dtype || !strings.Contains(r.Note, note) || note == "" && r.Note != "" &&
				dtype == tt.opt.Type.String() {
				t.Errorf("%s: %s becomes %s (%s), want %s", tt.opt.Type, r.Name, r.To, r.Note, want)
			}
			if d, err := f.Weight(r.Name); err != nil || d.DType != r.To || !slices.Equal(d.Dims, r.Dims) {
				t.Errorf("%s: %s is %s, %v", tt.opt.Type, r.Name, d, err)
			}
		}
	}
}

// TestLarge quantizes tensors in several chunks, stacked and not. The bytes must be those of the whole tensor for any
// number of goroutines.
func TestLarge(t *testing.T) {
	data := normal(t, ir.F32, 3, 700, 1024)
	in := modelFile(t, named{"w.weight", data})
	wide, _ := data.Floats()
	x := make([]float32, len(wide))
	for i, v := range wide {
		x[i] = float32(v)
	}
	want, err := ir.NewData(ir.Q8_0, data.Dims...)
	if err != nil {
		t.Fatal(err)
	}
	if err := quant.Quantize(want.Bytes, ir.Q8_0, x, nil); err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{0, 1} {
		last := quantize.Progress{}
		_, f, _ := quantized(t, in, quantize.Options{Type: ir.Q8_0, Workers: workers,
			Progress: func(p quantize.Progress) {
				if p.Done <= last.Done || p.Total != int64(len(data.Bytes)) {
					t.Errorf("progress %+v after %+v", p, last)
				}
				last = p
			}})
		if last.Done != last.Total {
			t.Errorf("the last progress is %+v", last)
		}
		if got, err := f.Weight("w.weight"); err != nil || !bytes.Equal(got.Bytes, want.Bytes) {
			t.Errorf("%d workers: %v, other bytes than at once", workers, err)
		}
	}
}

// TestImatrix gives two stacked matrices weights of their own.
func TestImatrix(t *testing.T) {
	data := normal(t, ir.F32, 2, 8, 64)
	in := modelFile(t, named{"experts.weight", data}, named{"other.weight", normal(t, ir.F32, 2, 64)})
	sums := make([]float32, 128)
	for i := range sums {
		sums[i] = float32(i%64 + 1)
		if i >= 64 {
			sums[i] = float32(128 - i)
		}
	}
	m := importance(t, "experts.weight", sums)
	report, f, _ := quantized(t, in, quantize.Options{Type: ir.Q4_0, Imatrix: m})
	if r := report.Tensors; !r[0].Weighted || r[0].Note != "" || r[1].Weighted ||
		!strings.Contains(r[1].Note, "does not have it") {
		t.Errorf("%+v", r)
	}
	got, err := f.Weight("experts.weight")
	if err != nil {
		t.Fatal(err)
	}
	wide, _ := data.Floats()
	for matrix := range 2 {
		x := make([]float32, 8*64)
		for i := range x {
			x[i] = float32(wide[matrix*len(x)+i])
		}
		row, _, err := m.Row("experts.weight", 64, 2, matrix)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, len(got.Bytes)/2)
		if err := quant.Quantize(want, ir.Q4_0, x, &quant.Options{Weights: row}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes[matrix*len(want):][:len(want)], want) {
			t.Errorf("matrix %d is not quantized with its weights", matrix)
		}
	}
	if report, _, _ = quantized(t, in, quantize.Options{Type: ir.Q8_0, Imatrix: m}); report.Tensors[0].Weighted ||
		!strings.Contains(report.Tensors[0].Note, "q8_0 takes no importance weights") {
		t.Errorf("q8_0: %+v", report.Tensors[0])
	}
	_, err = quantize.New(source(t, in),
		quantize.Options{Type: ir.Q4_0, Imatrix: importance(t, "other.weight", sums[:60])})
	wantError(t, err, `tensor "other.weight"`, "is the file of this model?")
}

func importance(t *testing.T, name string, sums []float32) *imatrix.Matrix {
	t.Helper()
	var w gguf.Writer
	if err := w.Set("general.type", "imatrix"); err != nil {
		t.Fatal(err)
	}
	wide := make([]float64, len(sums))
	for i, v := range sums {
		wide[i] = float64(v)
	}
	d, err := ir.FromFloats(ir.F32, wide, len(wide))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(name+".in_sum2", d); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.NewReader(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	m, err := imatrix.FromTensors(f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q in it", err, text)
		}
	}
}

// TestBadValues: the error has the value that cannot be stored, and an existing file stays unchanged.
func TestBadValues(t *testing.T) {
	for _, tt := range []struct {
		value float64
		at    int
		dtype ir.DType // of the source
		to    ir.DType
		dims  []int
		want  []string
	}{
		{math.NaN(), 3*64 + 5, ir.F32, ir.Q4_0, []int{8, 64}, []string{`tensor "w"`, "element [3 5]", "value 197 is NaN"}},
		{math.Inf(-1), 0, ir.F16, ir.Q8_0, []int{8, 64}, []string{"element [0 0]", "value 0 is -Inf"}},
		// In the second chunk.
		{math.Inf(1), 1<<20 + 64 + 1, ir.BF16, ir.Q8_0, []int{1 << 15, 64}, []string{"element [16385 1]", "is +Inf"}},
		// A vector, not quantized.
		{math.NaN(), 7, ir.F32, ir.Q4_0, []int{64}, []string{"element [7]", "is NaN"}},
		{1e5, 70, ir.F32, ir.F16, []int{2, 64}, []string{"element [1 6]", "is 100000", "up to 65504 fit"}},
		{1e300, 70, ir.F64, ir.Q8_0, []int{2, 64}, []string{"element [1 6]", "is +Inf"}},
	} {
		n := 1
		for _, d := range tt.dims {
			n *= d
		}
		values := make([]float64, n)
		values[tt.at] = tt.value
		d, err := ir.FromFloats(tt.dtype, values, tt.dims...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := quantize.New(source(t, modelFile(t, named{"w", d})), quantize.Options{Type: tt.to})
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out.gguf")
		if err := os.WriteFile(out, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = plan.WriteFile(context.Background(), out)
		wantError(t, err, tt.want...)
		if bad := (*quant.ValueError)(nil); !errors.As(err, &bad) || bad.Index != tt.at {
			t.Errorf("%v: no *quant.ValueError with index %d", err, tt.at)
		}
		onlyOld(t, out)
	}
}

// onlyOld checks that a file is unchanged and alone in its directory.
func onlyOld(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	entries, _ := os.ReadDir(filepath.Dir(path))
	if err != nil || string(text) != "old" || len(entries) != 1 {
		t.Errorf("%q, %v, %d files beside it", text, err, len(entries)-1)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	opt := quantize.Options{Type: ir.Q8_0, Progress: func(quantize.Progress) { cancel() }}
	in := modelFile(t, named{"a", normal(t, ir.F32, 4, 64)}, named{"b", normal(t, ir.F32, 4, 64)})
	plan, err := quantize.New(source(t, in), opt)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.gguf")
	if err := os.WriteFile(out, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.WriteFile(ctx, out); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	onlyOld(t, out)
}

func TestSafetensors(t *testing.T) {
	long := strings.Repeat("n", 64)
	path := filepath.Join(t.TempDir(), "in.safetensors")
	err := safetensors.WriteFile(path, map[string]string{"format": "pt"}, []safetensors.Named{
		{Name: "model.layers.0.mlp.up_proj.weight", Data: normal(t, ir.BF16, 4, 64)},
		{Name: "model.layers.0.input_layernorm.weight", Data: normal(t, ir.BF16, 64)},
		{Name: long, Data: normal(t, ir.F32, 2, 64)},
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	src, err := quantize.NewSource(f)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	plan, err := quantize.New(src, quantize.Options{Type: ir.Q4_1})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.gguf")
	report, err := plan.WriteFile(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Notes; len(n) != 2 || !strings.Contains(n[0], "no architecture") ||
		!strings.Contains(n[1], "64 bytes") {
		t.Errorf("notes %q", n)
	}
	got, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	for name, want := range map[string]string{"model.layers.0.mlp.up_proj.weight": "q4_1[4 64]",
		"model.layers.0.input_layernorm.weight": "f32[64]", long: "q4_1[2 64]"} {
		if d, err := got.Weight(name); err != nil || d.String() != want {
			t.Errorf("%s is %s, %v", name, d, err)
		}
	}
	if keys := got.Metadata(); len(keys) != 2 || keys[0].Key != "general.file_type" || keys[0].Value != uint32(3) {
		t.Errorf("metadata %v", keys)
	}
}

func TestRequantize(t *testing.T) {
	_, _, once := quantized(t, modelFile(t, named{"w", normal(t, ir.F32, 4, 256)}), quantize.Options{Type: ir.Q8_0})
	_, err := quantize.New(source(t, once), quantize.Options{Type: ir.Q4_K})
	wantError(t, err, `tensor "w": it is already q8_0`, "--requantize")
	report, _, _ := quantized(t, once, quantize.Options{Type: ir.Q4_K, Requantize: true})
	if r := report.Tensors[0]; r.To != ir.Q4_K || !(r.RMSE > 0.01) {
		t.Errorf("%+v", r)
	}
	if report, _, _ = quantized(t, once, quantize.Options{Type: ir.Q8_0}); report.Tensors[0].RMSE != 0 ||
		report.Ratio() != 1 {
		t.Errorf("the same type again: %+v", report)
	}
}

func TestRefuses(t *testing.T) {
	src := source(t, modelFile(t, named{"w", normal(t, ir.F32, 4, 64)}))
	for _, tt := range []struct {
		opt  quantize.Options
		want string
	}{
		{quantize.Options{}, "invalid is not a quantized type"},
		{quantize.Options{Type: ir.I32}, "i32 is not a quantized type"},
		{quantize.Options{Type: ir.Q8_K}, "a format of activations"},
		{quantize.Options{Type: ir.Q8_0, Keep: []quantize.Rule{{"v", ir.F16}}}, `no tensor matches the pattern "v"`},
		{quantize.Options{Type: ir.Q8_0, Keep: []quantize.Rule{{"[", ir.F16}}}, "syntax error in pattern"},
		{quantize.Options{Type: ir.Q8_0, Keep: []quantize.Rule{{"w", ir.Bool}}}, "bool is not a quantized type"},
	} {
		_, err := quantize.New(src, tt.opt)
		wantError(t, err, tt.want)
	}
}

// cutAtRead cuts a file short when its tensor is asked for the second time: the
// first is for its type.
type cutAtRead struct {
	*gguf.File
	path  string
	asked int
}

func (c *cutAtRead) Weight(name string) (*ir.Data, error) {
	d, err := c.File.Weight(name)
	if c.asked++; err == nil && c.asked == 2 {
		err = os.Truncate(c.path, 0)
	}
	return d, err
}

// TestTruncatedSource cuts a model short while it is quantized. Without a guard
// the test binary dies.
func TestTruncatedSource(t *testing.T) {
	for _, to := range []ir.DType{ir.Q4_0, ir.F16} {
		path := modelFile(t, named{"blk.0.ffn_up.weight", normal(t, ir.F32, 512, 256)})
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		src, err := quantize.NewSource(&cutAtRead{File: f, path: path})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := quantize.New(src, quantize.Options{Type: to})
		if err != nil {
			t.Fatal(err)
		}
		_, err = plan.WriteFile(context.Background(), filepath.Join(t.TempDir(), "out.gguf"))
		if runtime.GOOS == "linux" && (err == nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "cut short")) {
			t.Errorf("to %s: %v; want an error that names %s and says that it was cut short", to, err, path)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestIsExact: small and sensitive tensors of recurrent layers stay f32, and their matrices do not.
func TestIsExact(t *testing.T) {
	for name, want := range map[string]bool{
		"blk.0.ssm_a": true, "blk.0.ssm_d": true, "blk.0.ssm_conv1d.weight": true, "blk.0.shortconv.conv.weight": true,
		"model.layers.0.mamba.A_log": true, "backbone.layers.0.mixer.D": true, "blk.0.ssm_norm.weight": true,
		"blk.0.time_mix_w1.weight": true, "blk.0.ssm_in.weight": false, "blk.0.ssm_alpha.weight": false,
		"blk.0.shortconv.in_proj.weight": false, "blk.0.time_mix_key.weight": false,
	} {
		if got := quantize.IsExact(name, []int{64, 32}); got != want {
			t.Errorf("%s stays f32: %v, want %v", name, got, want)
		}
	}
}
