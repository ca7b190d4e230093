package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// gollama is a trained model, in q8_0.
const gollama = "../../examples/gollama/gollama-q8_0.gguf"

// TestQuantizeModel quantizes a whole model and looks into the result.
func TestQuantizeModel(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.gguf")
	args := []string{"quantize", gollama, "-o", out, "--type", "q4_K", "--requantize", "--keep",
		"token_embd.weight=q6_K", "--keep", "blk.0.*=q8_0"}
	r := ok(t, args...)
	has(t, r.stdout,
		"TENSOR", "REL RMSE", "MAX ERROR",
		"token_embd.weight         [4096 256]  q8_0 -> q6_K  860160  1.79%",
		"blk.0.attn_norm.weight    [256]       f32 -> f32    1024    exact     0          a vector stays f32",
		"blk.0.attn_q.weight       [256 256]   q8_0 -> q8_0  69632   exact",
		"blk.7.ffn_down.weight     [256 768]   q8_0 -> q4_K  110592  7.",
		"q4_K:  49 tensors  5505024 elements  3.0 MiB    4.5 bits per weight\n",
		"out.gguf: 74 tensors, 7.5 MiB -> 4.6 MiB (1.6", "x smaller), 5.239 bits per weight, relative RMSE",
	)
	info := okJSON[quantizedInfo](t, args...)
	if len(info.Tensors) != 74 || !(info.RMSE > 0.03 && info.RMSE < 0.08) || info.Bytes >= info.Before ||
		info.Tensors[0].To != ir.Q6_K {
		t.Errorf("%+v", info)
	}
	in := okJSON[inspected](t, "inspect", out)
	if in.Format != "GGUF 3" || in.Bytes != info.Bytes || in.Elements != 7344384 || len(in.Tensors) != 74 {
		t.Errorf("%s, %d bytes, %d elements, %d tensors", in.Format, in.Bytes, in.Elements, len(in.Tensors))
	}
	if b := 8 * float64(in.Bytes) / float64(in.Elements); in.Bits != b || !(b > 5 && b < 5.5) {
		t.Errorf("%g bits per weight, want %g", in.Bits, b)
	}
}

// TestQuantizeRecipe: a name in capitals is a recipe, --pure takes its format, and rows that do not fit are listed.
func TestQuantizeRecipe(t *testing.T) {
	const v, q, embd = "blk.0.attn_v.weight", "blk.0.attn_q.weight", "token_embd.weight"
	var model gguf.Writer
	for _, name := range []string{embd, v, q} {
		d, err := ir.FromFloats(ir.F32, make([]float64, 2*256), 2, 256)
		if err == nil {
			err = model.Add(name, d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	in, out := filepath.Join(t.TempDir(), "in.gguf"), filepath.Join(t.TempDir(), "out.gguf")
	if err := model.WriteFile(in); err != nil {
		t.Fatal(err)
	}
	types := func(args ...string) map[string]string {
		all := map[string]string{}
		for _, s := range okJSON[quantizedInfo](t, append([]string{"quantize", in, "-o", out}, args...)...).Tensors {
			all[s.Name] = s.To.String()
		}
		return all
	}
	for _, tt := range []struct{ args, embd, v, q string }{
		{"--type Q4_K_M", "q6_K", "q6_K", "q4_K"},
		{"--type q4_k_m --token-embedding-type Q8_0 --tensor-type attn_v=q5_K", "q8_0", "q5_K", "q4_K"},
		{"--type Q4_K_M --pure --output-tensor-type f16", "f16", "q4_K", "q4_K"},
		{"--type q4_K", "q4_K", "q4_K", "q4_K"},
		{"--type Q4_K", "q6_K", "q6_K", "q4_K"},
		{"--type BF16", "bf16", "bf16", "bf16"},
	} {
		got := types(strings.Fields(tt.args)...)
		if got[embd] != tt.embd || got[v] != tt.v || got[q] != tt.q {
			t.Errorf("%s: %s, %s, %s", tt.args, got[embd], got[v], got[q])
		}
	}
	if in := okJSON[inspected](t, "inspect", out); in.Types[0].Type != "bf16" {
		t.Errorf("%+v", in.Types)
	}
	has(t, ok(t, "quantize", smallSafetensors(t, 1), "-o", out, "--type", "Q4_K_M").stdout,
		"ROWS THAT DO NOT FIT  SHAPE   WANTED", "fc.weight             [4 64]  q4_K    q5_0",
		"176    5.5", "q5_0:", "1 tensor")
}

func smallSafetensors(t *testing.T, value float64) string {
	t.Helper()
	values := make([]float64, 4*64)
	values[64+2] = value
	d, err := ir.FromFloats(ir.F32, values, 4, 64)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "in.safetensors")
	if err := safetensors.WriteFile(path, map[string]string{"format": "pt"},
		[]safetensors.Named{{Name: "fc.weight", Data: d}}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestQuantizeSafetensors(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.gguf")
	r := ok(t, "quantize", smallSafetensors(t, 1), "-o", out, "--type", "Q8_0")
	if !strings.Contains(r.stderr, "vkc: note: a file from safetensors has no architecture") {
		t.Errorf("no note in %q", r.stderr)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if d, err := f.Weight("fc.weight"); err != nil || d.String() != "q8_0[4 64]" {
		t.Errorf("%s, %v", d, err)
	}
}

// TestQuantizeImatrix takes the weights of either form of file.
func TestQuantizeImatrix(t *testing.T) {
	le := func(v uint32) string { return string([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}) }
	dat := le(1) + le(9) + "fc.weight" + le(1) + le(64)
	for range 64 {
		dat += le(math.Float32bits(2))
	}
	var w gguf.Writer
	ones := make([]float64, 64)
	d, err := ir.FromFloats(ir.F32, ones, 1, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Set("general.type", "imatrix"); err != nil {
		t.Fatal(err)
	}
	if err := w.Add("fc.weight.in_sum2", d); err != nil {
		t.Fatal(err)
	}
	modern := filepath.Join(t.TempDir(), "imatrix.gguf")
	if err := w.WriteFile(modern); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{write(t, "imatrix.dat", []byte(dat)), modern} {
		out := filepath.Join(t.TempDir(), "out.gguf")
		info := okJSON[quantizedInfo](t, "quantize", smallSafetensors(t, 1), "-o", out, "--type", "q4_0",
			"--imatrix", file)
		if !info.Tensors[0].Weighted {
			t.Errorf("%s: %+v", file, info.Tensors[0])
		}
	}
}

func TestQuantizeFails(t *testing.T) {
	in, dir := smallSafetensors(t, 1), t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	for _, tt := range []struct {
		code int
		line string
		want []string
	}{
		{exitUsage, "quantize", []string{"IN.gguf or IN.safetensors is missing"}},
		{exitUsage, "quantize " + in, []string{"-o OUT.gguf is missing"}},
		{exitUsage, "quantize " + in + " -o " + out, []string{"--type is missing: want one of", "q4_K"}},
		{exitUsage, "quantize " + in + " -o " + out + " --type q8_1", []string{`--type "q8_1" is none of`}},
		{exitUsage, "quantize " + in + " -o " + out + " --type q8_0 --threads -1", []string{"--threads -1"}},
		{exitUsage, "quantize " + in + " -o " + out + " --type q8_0 --keep x", []string{"want PATTERN=TYPE"}},
		{exitUsage, "quantize " + in + " -o " + out + " --type q8_0 --keep [=f16", []string{"open bracket"}},
		{exitUsage, "quantize " + in + " -o " + out + " --type q8_0 --keep x=y", []string{`--keep x=y: "y" is none of`}},
		{exitUsage, "quantize " + in + " -o " + out + " --type Q4_K_X", []string{`--type "Q4_K_X" is none of`, "Q4_K_M"}},
		{exitUsage, "quantize " + in + " -o " + out + " --type q8_0 --tensor-type x", []string{"want REGEXP=TYPE"}},
		{exitUsage, "quantize " + in + " -o " + out + " --type q8_0 --tensor-type [=f16", []string{"missing closing ]"}},
		{exitUsage, "quantize " + in + " -o " + out + " --type q8_0 --output-tensor-type x", []string{"--output-tensor-type"}},
		{exitUsage, "quantize " + in + " -o " + out + " --type q8_0 --split-size 0", []string{"--split-size"}},
		{exitFailure, "quantize " + in + " -o " + out + " --type q8_0 --tensor-type x=f16", []string{`no tensor matches the pattern "x"`}},
		{exitFailure, "quantize " + in + " -o " + out + " --type q8_0 --keep x=f16", []string{`no tensor matches the pattern "x"`}},
		{exitUsage, "quantize " + in + " -o " + in + " --type q8_0", []string{"both the input and the output"}},
		{exitFailure, "quantize " + gollama + " -o " + out + " --type q4_0", []string{`"token_embd.weight": it is already q8_0`, "--requantize"}},
		{exitFailure, "quantize " + smallSafetensors(t, math.Inf(1)) + " -o " + out + " --type q4_0", []string{`tensor "fc.weight"`, "element [1 2]", "+Inf"}},
		{exitFailure, "quantize none.gguf -o " + out + " --type q4_0", []string{"none.gguf"}},
		{exitFailure, "quantize " + in + " -o " + out + " --type q4_0 --imatrix " + in, []string{"imatrix", in}},
		{exitFailure, "quantize " + in + " -o " + out + " --type q4_0 --imatrix " + gollama, []string{"not an importance matrix"}},
		{exitFailure, "quantize " + in + " -o " + filepath.Join(dir, "no", "x") + " --type q4_0", []string{"no such file"}},
	} {
		fails(t, tt.code, strings.Fields(tt.line), tt.want...)
	}
	if list := files(t, dir); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
}

// TestQuantizeInterrupted: nothing is left of a file that was not finished.
func TestQuantizeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	r := runCtx(t, ctx, "quantize", smallSafetensors(t, 1), "-o", filepath.Join(dir, "x.gguf"), "--type", "q8_0")
	if r.code != exitInterrupted || !strings.HasSuffix(r.stderr, "vkc: interrupted\n") || len(files(t, dir)) != 0 {
		t.Errorf("%+v, files %v", r, files(t, dir))
	}
}

func TestInspectGGUF(t *testing.T) {
	r := ok(t, "inspect", gollama)
	has(t, r.stdout,
		gollama+": GGUF 3, ",
		"general.architecture                    string        \"llama\"\n",
		"tokenizer.ggml.token_type               [4096]int32   [3 1 1 1 1 1 …]\n",
		"llama.attention.layer_norm_rms_epsilon  float32       1e-05\n",
		"blk.0.attn_q.weight       [256 256]   q8_0  69632    8.5\n",
		"q8_0:  57 tensors  7340032 elements  7.4 MiB\n",
		"74 tensors, 7344384 elements, 7.5 MiB, 8.514 bits per weight\n",
	)
	short := okJSON[inspected](t, "inspect", gollama)
	all := okJSON[inspected](t, "inspect", gollama, "--all")
	for i, k := range all.Metadata {
		if values, ok := k.Value.([]any); ok &&
			(len(values) != k.Count || len(short.Metadata[i].Value.([]any)) != shownItems ||
				short.Metadata[i].Count != k.Count) {
			t.Errorf("%s has %d values, %d with --all", k.Key, len(short.Metadata[i].Value.([]any)), len(values))
		}
	}
	if f, err := gguf.Open(gollama); err != nil || f.Tensors()[3].Offset != all.Tensors[3].Offset {
		t.Errorf("tensor 3 is at %d, %v", all.Tensors[3].Offset, err)
	}
}

func TestInspectOthers(t *testing.T) {
	r := ok(t, "inspect", smallSafetensors(t, 1))
	has(t, r.stdout, ": safetensors, ", "format  string  \"pt\"", "fc.weight  [4 64]  f32",
		"1 tensor, 256 elements, 1.0 KiB, 32 bits per weight")
	path := filepath.Join(t.TempDir(), "model.safetensors.index.json")
	index := `{"weight_map": {"fc.weight": "in.safetensors"}}`
	if err := os.WriteFile(path, []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	shard, err := os.ReadFile(smallSafetensors(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "in.safetensors"), shard, 0o600); err != nil {
		t.Fatal(err)
	}
	if info := okJSON[inspected](t, "inspect", path); info.Format != "safetensors index" || info.Bytes != 1024 ||
		len(info.Tensors) != 1 {
		t.Errorf("%+v", info)
	}
	fails(t, exitFailure, []string{"inspect", "none.gguf"}, "none.gguf")
	fails(t, exitFailure, []string{"inspect", write(t, "x.safetensors.index.json", []byte("{}"))}, "weight_map")
	fails(t, exitFailure, []string{"inspect", write(t, "x.gguf", []byte("GGUF"))}, "the file ends")
}

// TestInspectGraph: for a graph in either format, inspect shows its inputs, outputs and weights.
func TestInspectGraph(t *testing.T) {
	info := okJSON[inspected](t, "inspect", mlpGraph)
	ports := []inspectedPort{{"input", "x", "f32[T,8]"}, {"output", "probabilities", "f32[T,4]"},
		{"output", "label", "i32[T]"}}
	if info.Format != "vkc graph" || !cmp.Equal(info.Ports, ports) || len(info.Tensors) != 3 || info.Bytes != 832 ||
		info.Tensors[0].Name != "layer.0.weight" {
		t.Errorf("%+v", info)
	}
	if r := ok(t, "inspect", viewsGraph); !strings.Contains(r.stdout, "vkc graph") ||
		!strings.Contains(r.stdout, "output ") {
		t.Errorf("inspect of text IR:\n%s", r.stdout)
	}
	fails(t, exitFailure, []string{"inspect", write(t, "g.json", []byte(`{"format": "vkc.graph"}`))}, "g.json:1:1",
		`"version" is missing`)
}

func TestInspectBundle(t *testing.T) {
	needTools(t)
	devtest.OwnCache(t)
	path := bundleOf(t)
	info := okJSON[inspected](t, "inspect", path)
	if info.Format != "vkb bundle" || len(info.Tensors) != 3 || info.Bytes != 4*(16*8+16+4*16) ||
		len(info.Sections) == 0 {
		t.Errorf("%+v", info)
	}
	if r := ok(t, "inspect", path); !strings.Contains(r.stdout, "layer.0.weight  [16 8]  f32") ||
		!strings.Contains(r.stdout, "section spirv 0") {
		t.Errorf("prints\n%s", r.stdout)
	}
}
