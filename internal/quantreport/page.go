package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// page is docs/QUANT.md.
func page(r *results) string {
	var b strings.Builder
	b.WriteString(`<!-- Written by go run ./internal/quantreport from quant.json: do not edit. -->
# What the block formats cost

vkc reads and writes every GGML block format. This page says how much smaller each makes a model and how much is lost,
measured on random numbers and on a trained language model. The command that measures is at the end.

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

func (r *results) writeNormal(b *strings.Builder) {
	fmt.Fprintf(b, `## On random numbers

A matrix of %d x %d normally distributed numbers is stored and read back. RMSE is the root of the mean squared error over
that of the numbers; the matmul error is the same for the product of the matrix with %d vectors in f32, added up in float64.
No importance matrix.

| format | bits per weight | smaller than f32 | relative RMSE | matmul error |
|---|---:|---:|---:|---:|
`, normalRows, normalColumns, normalVectors)
	for _, m := range r.Formats {
		fmt.Fprintf(b, "| %s | %.4g | %.2fx | %s | %s |\n", m.Type, bits(m.Type), ratio(m.Type), percent(m.RMSE),
			percent(m.Matmul))
	}
	b.WriteString("\n")
}

func (r *results) writeModel(b *strings.Builder) {
	fmt.Fprintf(b, `## On a language model

The model of examples/gollama (%.1f M parameters, trained on Go source, context 1024), from its f16 weights. All its matrices,
the embedding too, %.2f %% of the parameters, are stored in the format; norms stay f32. It predicts each token of %.1f kB of Go
source that it was not trained on. KL is the mean Kullback-Leibler divergence from the f16 model's distribution of the next
token, in nats; perplexity is of the text, %.4f with f16 weights; *same* is the share of tokens where the most likely one is
the f16 model's; *right* is the share where it is the one that comes, relative to the f16 model's %s. Small models suffer more
from few bits than large ones. q8_1 and q8_K are formats of activations, here for comparison; tq1_0 and tq2_0 are for models
that were trained with weights of -1, 0 and 1.

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

// rise is a perplexity, and by how much, or how many times, it is above the f16 model's.
func (r *results) rise(s score) string {
	times := s.Perplexity / r.F16.Perplexity
	if times >= 2 {
		return fmt.Sprintf("%.3g (%.3gx)", s.Perplexity, times)
	}
	return fmt.Sprintf("%s (%s)", digits(s.Perplexity), signed(times-1))
}

// target is what the project set out to reach with a format.
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

func (r *results) writeTargets(b *strings.Builder) {
	b.WriteString(`## The targets

"Loss of accuracy" can mean many things; here each measure is compared with the target's number, so that a reader can take
the one that matters to them. Accuracy proper, the share of next tokens that the model gets right, is the first.

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

func (t target) sizeVerdict() string {
	have := ratio(t.format)
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

` + "`vkc quantize`" + ` writes GGUF 3. What was checked:

- Against the specification (docs/gguf.md of ggml), by a reader in the tests that shares no code with vkc's: magic and
  version, counts, strings with 64-bit lengths, axes with the innermost first, ggml's type numbers, every tensor at a multiple
  of 32 bytes from the start of the data, zeros in all padding, also after the last tensor.
- By ggml itself (commit d99724f, August 2026, its gguf and quants sources compiled alone): gollama in f32, f16, bf16 and each
  of the 22 formats loads with gguf_init_from_file, every tensor passes ggml_validate_row_data, and all 7 344 384 elements
  that ggml decodes are equal, bit for bit, with those that vkc decodes.
- The blocks themselves: of all 7 340 032 weights in gollama's matrices, ggml_quantize_chunk of the same build (x86-64, no fused
  multiply-add) makes exactly the blocks that vkc does, in q4_0, q4_1, q5_0, q5_1, q8_0, q2_K to q6_K, iq4_nl, iq4_xs, tq1_0,
  tq2_0 and mxfp4. In iq1, iq2 and iq3 vkc's have 0.71 to 0.95 times the RMSE of ggml's.
- By vkc's own reader: metadata, types, shapes, and bytes equal with those of package quant for the whole tensor.
- Not checked: generating text with llama.cpp or another program from a written file.

Metadata is copied; general.file_type becomes the type that most weights have, general.quantization_version 2. Names longer
than 63 bytes, which ggml has no room for, are noted. From safetensors a file has neither architecture nor tokenizer, and its
names are not GGUF's: such a file serves vkc, and ggml programs only after conversion.

`

const measuredText = `## How it was measured

    go run ./internal/quantreport -model gollama-f16.gguf   # measures, and keeps the numbers in docs/quant.json
    go run ./internal/quantreport -model F16 -only nvfp4    # measures one format, and keeps what is known of the others
    go run ./internal/quantreport                           # measures on random numbers alone
    go test ./quant -run '^$' -bench 'Quantize|Dequantize'  # speed of one core, in bytes of f32

The text is the %d files of internal/quantreport/testdata/heldout, %d bytes or %d tokens, written for this purpose. Each file
is cut into runs of at most 1024 tokens, each after the token that begins a text, and every token is predicted. The weights
are decoded to f32 first and everything else is f32 too, so that the numbers are of the weights alone. The model ran on:
%s. The importance matrix comes from the f16 model's activations over %d files of the Go standard
library, %d bytes or %d tokens. The blocks of the formats with a codebook (iq1, iq2, iq3) and of all formats with an
importance matrix are found by vkc's own search; without one, the others are bit for bit ggml's.
`
