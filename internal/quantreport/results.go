package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vkc-go/vkc/ir"
)

// results is what docs/quant.json holds.
type results struct {
	Text        textInfo   `json:"text"`
	Calibration textInfo   `json:"calibration"` // what the importance matrix was made from
	Device      string     `json:"device"`      // that the model ran on
	Parameters  int64      `json:"parameters"`
	Quantized   int64      `json:"quantized_parameters"` // those of the matrices
	F16         score      `json:"f16"`                  // of the unquantized model
	Formats     []measured `json:"formats"`              // in the order of package ir
}

type textInfo struct {
	Files  int    `json:"files"`
	Bytes  int    `json:"bytes"`
	Tokens int    `json:"tokens"` // that were predicted
	SHA256 string `json:"sha256"`
}

// measured is one format.
type measured struct {
	Type     ir.DType `json:"type"`
	RMSE     float64  `json:"relative_rmse"`    // of normally distributed weights
	Matmul   float64  `json:"matmul_error"`     // of their product, relative to its size
	Model    score    `json:"model"`            // with the model's matrices in it
	Weighted *score   `json:"model_imatrix"`    // the same with an importance matrix, if it takes one
	Device   string   `json:"device,omitempty"` // that the model ran on, where that is not the others'
}

// devices are what the model ran on, with the formats that ran on another one.
func (r *results) devices() string {
	text := r.Device
	for _, m := range r.Formats {
		if m.Device != "" {
			text += fmt.Sprintf(" (%s: %s)", m.Type, m.Device)
		}
	}
	return text
}

// score compares a model with the f16 one on a text.
type score struct {
	KL         float64 `json:"kl_divergence"` // from the f16 model's distribution, mean over tokens, in nats
	Perplexity float64 `json:"perplexity"`
	Accuracy   float64 `json:"accuracy"`  // share of tokens that were the most likely
	Agreement  float64 `json:"agreement"` // share of most likely tokens equal with the f16 model's
}

// bits is how many bits a format takes for an element.
func bits(t ir.DType) float64 { return 8 * float64(t.BlockBytes()) / float64(t.BlockElems()) }

// ratio is how many times smaller than f32 a format is.
func ratio(t ir.DType) float64 { return 32 / bits(t) }

func readResults(docs string) (*results, error) {
	path := filepath.Join(docs, resultsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: -model measures", err)
	}
	r := new(results)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
