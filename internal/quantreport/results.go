package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vkc-go/vkc/ir"
)

// results is the content of docs/quant.json.
type results struct {
	Text        textInfo   `json:"text"`
	Calibration textInfo   `json:"calibration"` // text of which the importance matrix was made
	Device      string     `json:"device"`      // device that ran the model
	Parameters  int64      `json:"parameters"`
	Quantized   int64      `json:"quantized_parameters"` // parameters in matrices
	F16         score      `json:"f16"`                  // score of the unquantized model
	Formats     []measured `json:"formats"`              // in the order of package ir
}

type textInfo struct {
	Files  int    `json:"files"`
	Bytes  int    `json:"bytes"`
	Tokens int    `json:"tokens"` // number of predicted tokens
	SHA256 string `json:"sha256"`
}

// measured is one format.
type measured struct {
	Type     ir.DType `json:"type"`
	RMSE     float64  `json:"relative_rmse"`    // of normally distributed weights
	Matmul   float64  `json:"matmul_error"`     // error of their matmul, relative to its size
	Model    score    `json:"model"`            // score of the model with quantized matrices
	Weighted *score   `json:"model_imatrix"`    // the same with an importance matrix, if the format uses one
	Device   string   `json:"device,omitempty"` // device that ran the model, if it differs from the others
}

// devices lists the device that ran the model, and the formats that ran on other devices.
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

// bits returns the number of bits per element of a format.
func bits(t ir.DType) float64 { return 8 * float64(t.BlockBytes()) / float64(t.BlockElems()) }

// ratio is how many times smaller than f32 a format is.
func ratio(t ir.DType) float64 { return 32 / bits(t) }

// readResults reads the stored measurements.
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
