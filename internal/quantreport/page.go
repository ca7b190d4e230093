package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// page returns the text of docs/QUANT.md.
func page(r *results) string {
	var b strings.Builder
	b.WriteString(`<!-- Written by go run ./internal/quantreport from quant.json: do not edit. -->
# What the block formats cost

vkc reads and writes every GGML block format. This page gives the size and the error of each format, measured on random
numbers and on a trained language model. The commands at the end repeat the measurements.

`)
	fmt.Fprintf(&b, "![Error over bits per weight](%s)\n\n", plotFile)
	r.writeNormal(&b)
	r.writeModel(&b)
	r.writeTargets(&b)
	b.WriteString(filesText)
	fmt.Fprintf(&b, measuredText, r.Text.Files, r.Text.Bytes, r.Text.Tokens, r.devices(), r.Calibration.Files,
		r.Calibration.Bytes, r.Calibration.Tokens)
	return b.String()
}

// writeNormal writes the section of the errors on random numbers.
func (r *results) writeNormal(b *strings.Builder) {
	fmt.Fprintf(b, `## On random numbers

vkc quantizes a matrix of %d x %d normally distributed numbers and decodes it again. The relative RMSE is the root mean
square of the errors divided by the root mean square of the numbers. The matmul error is the relative RMSE of a matmul
of the matrix by %d f32 vectors, summed in float64. There is no importance matrix.

| format | bits per weight | smaller than f32 | relative RMSE | matmul error |
|---|---:|---:|---:|---:|
`, normalRows, normalColumns, normalVectors)
	for _, m := range r.Formats {
		fmt.Fprintf(b, "| %s | %.4g | %.2fx | %s | %s |\n", m.Type, bits(m.Type), ratio(m.Type), percent(m.RMSE),
			percent(m.Matmul))
	}
	b.WriteString("\n")
}

// writeModel writes the section of the errors of a language model.
func (r *results) writeModel(b *strings.Builder) {
	fmt.Fprintf(b, `## On a language model

The model is examples/gollama: %.1f M parameters, trained on Go source, context 1024. vkc
quantizes all matrices of its f16 file to the format, including the embedding: %.2f %% of the parameters. Norms stay
f32. The model predicts each token of %.1f kB of Go source that was not in its training data.

- *KL* is the mean Kullback-Leibler divergence from the f16 model's distribution of the next token, in nats.
- *perplexity* is the perplexity of the Go source. It is %.4f with f16 weights.
- *same* is the share of tokens for which the model and the f16 model have the same most likely token.
- *right* is the share of tokens that the model predicts correctly, relative to the f16 model's %s.

Formats of few bits harm small models more than large ones. q8_1 and q8_K are formats of activations, listed for
comparison. tq1_0 and tq2_0 are for models trained with weights of -1, 0 and 1.

| format | KL | perplexity | same | right | KL, imatrix | perplexity, imatrix |
|---|---:|---:|---:|---:|---:|---:|
`, float64(r.Parameters)/1e6, 100*float64(r.Quantized)/float64(r.Parameters), float64(r.Text.Bytes)/1000, r.F16.Perplexity, percent(r.F16.Accuracy))
	for _, m := range r.Formats {
		kl, ppl := "", ""
		if m.Weighted != nil {
			kl, ppl = digits(m.Weighted.KL), r.rise(*m.Weighted)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", m.Type, digits(m.Model.KL), r.rise(m.Model),
			percent(m.Model.Agreement),
			signed(m.Model.Accuracy/r.F16.Accuracy-1), kl, ppl)
	}
	b.WriteString("\n")
}

// rise formats a perplexity and its increase, absolute or as a factor, over the f16 model's.
func (r *results) rise(s score) string {
	times := s.Perplexity / r.F16.Perplexity
	if times >= 2 {
		return fmt.Sprintf("%.3g (%.3gx)", s.Perplexity, times)
	}
	return fmt.Sprintf("%s (%s)", digits(s.Perplexity), signed(times-1))
}

// target is the project's goal for a format.
type target struct {
	format ir.DType
	ratio  float64 // times smaller than f32
	loss   float64 // of accuracy, at most
}

// loss is one measure of accuracy that was lost.
type loss struct {
	name  string
	value float64
}

var targets = []target{
	{ir.Q4_0, 7.1, 0.02},
	{ir.Q8_0, 3.8, 0.005},
	{ir.IQ2_XXS, 16, 0.05},
}

// writeTargets writes the section that compares the measurements with the project's goals.
func (r *results) writeTargets(b *strings.Builder) {
	b.WriteString(`## The targets

"Loss of accuracy" has several meanings. The table compares each of them with the target, so that readers can choose the
one that matters to them. The first is accuracy in the strict sense: the share of correctly predicted tokens.

| target | measure | measured | holds |
|---|---|---:|---|
`)
	for _, t := range targets {
		m := r.format(t.format)
		t.row(b, fmt.Sprintf("%s %gx smaller than f32", t.format, t.ratio), "size of the blocks",
			fmt.Sprintf("%.3gx", ratio(t.format)), t.sizeVerdict())
		name := fmt.Sprintf("%s loses under %g %%", t.format, 100*t.loss)
		measures := []loss{
			{"next tokens that are right, relative to f16", 1 - m.Model.Accuracy/r.F16.Accuracy},
			{"perplexity above f16's", m.Model.Perplexity/r.F16.Perplexity - 1},
			{"most likely token is another than f16's", 1 - m.Model.Agreement},
			{"matmul error on normal numbers", m.Matmul},
		}
		if m.Weighted != nil {
			measures = append(measures, loss{"next tokens that are right, with an importance matrix",
				1 - m.Weighted.Accuracy/r.F16.Accuracy})
		}
		for _, measure := range measures {
			t.row(b, name, measure.name, percent(measure.value), verdict(measure.value < t.loss))
		}
	}
	b.WriteString("\n")
}

func (t target) row(b *strings.Builder, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// sizeVerdict says whether the format is as much smaller than f32 as the target says: "yes", "rounded only" or "no",
// with the reason.
func (t target) sizeVerdict() string {
	have := ratio(t.format)
	// Round to the digits that the target has: one after the point, or none.
	scale := 10.0
	if t.ratio == math.Trunc(t.ratio) {
		scale = 1
	}
	switch rounded := math.Round(have*scale) / scale; {
	case have >= t.ratio:
		return "yes"
	case rounded >= t.ratio:
		return fmt.Sprintf("rounded only: a block is %d bytes for %d weights", t.format.BlockBytes(),
			t.format.BlockElems())
	}
	return fmt.Sprintf("no: a block is %d bytes for %d weights", t.format.BlockBytes(), t.format.BlockElems())
}

// verdict returns the word for a cell of the table.
func verdict(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

// format returns the measurements of a format; zeros if there are none.
func (r *results) format(t ir.DType) measured {
	for _, m := range r.Formats {
		if m.Type == t {
			return m
		}
	}
	return measured{Type: t}
}

// percent prints a share with three digits.
func percent(v float64) string {
	if v > 0.9 && v <= 1 {
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	return strings.TrimSuffix(digits(100*v), ".") + " %"
}

func signed(v float64) string { return fmt.Sprintf("%+.2f %%", 100*v) }

// digits prints three significant digits without an exponent.
func digits(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return fmt.Sprintf("%.*f", decimals, v)
}

const filesText = `## Files for ggml programs

` + "`vkc quantize`" + ` writes GGUF 3. The following was checked:

- **Specification** (docs/gguf.md of ggml): a test reads the files with a reader that shares no code with vkc's. It checks
  magic and version, counts, strings with 64-bit lengths, axes with the innermost first, and ggml's type numbers. It
  also checks that every tensor is at a multiple of 32 bytes from the start of the data, and that all padding is zero.
- **ggml** (commit d99724f, August 2026, its gguf and quants sources compiled alone): gguf_init_from_file loads gollama in
  f32, f16, bf16 and each of the 22 formats. Every tensor passes ggml_validate_row_data. All 7 344 384 elements that
  ggml decodes equal vkc's elements, bit for bit.
- **Blocks**: for all 7 340 032 weights in gollama's matrices, ggml_quantize_chunk of the same build (x86-64, no fused
  multiply-add) makes the same blocks as vkc, in q4_0, q4_1, q5_0, q5_1, q8_0, q2_K to q6_K, iq4_nl, iq4_xs, tq1_0,
  tq2_0 and mxfp4. In iq1, iq2 and iq3 vkc's blocks have 0.71 to 0.95 times the RMSE of ggml's.
- **vkc's own reader**: metadata, types and shapes are right, and the bytes equal package quant's for the whole tensor.
- Not checked: generating with llama.cpp or another program from a written file.

The command copies metadata. general.file_type becomes the type of most weights, and general.quantization_version is 2.
ggml has no room for names longer than 63 bytes; the command warns about them. A file made from a
Hugging Face folder has GGUF's architecture, names and tokenizer. A file made from a safetensors file alone has neither
architecture nor tokenizer, and its names are not GGUF's. vkc can use such a file. ggml programs need a conversion first.

`

const measuredText = `## How it was measured

    go run ./internal/quantreport -model gollama-f16.gguf   # measures, and stores the numbers in docs/quant.json
    go run ./internal/quantreport -model F16 -only nvfp4    # measures one format, and keeps the others' numbers
    go run ./internal/quantreport                           # measures on random numbers only
    go test ./quant -run '^$' -bench 'Quantize|Dequantize'  # speed of one core, in bytes of f32

The Go source is in the %d files of internal/quantreport/testdata/heldout, %d bytes or %d tokens, written for this
purpose. Each file is cut into sequences of at most 1024 tokens. The model reads each after the start token, and every
token is predicted. The weights are decoded to f32 first and all arithmetic is f32, so the numbers show the error of the
weights alone. The model ran on %s.

The importance matrix comes from the f16 model's activations over %d files of the Go standard library, %d bytes or %d
tokens. vkc's own search finds the blocks of the codebook formats (iq1, iq2, iq3), and all blocks that use an importance
matrix. The other blocks equal ggml's bit for bit.
`
