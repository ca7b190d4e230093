package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// measure measures the model: its f16 weights, and then each format without and with an importance matrix. With flag
// -only it measures one format, and takes the others from the stored results.
func measure(ctx context.Context, f flags) (_ *results, err error) {
	dev, err := vkc.OpenDevice(f.device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	log.Print(dev.Why())
	m, err := openModel(f.model, dev)
	if err != nil {
		return nil, err
	}
	// Describe the model and the text.
	r := &results{Device: dev.Name()}
	for _, d := range m.weights {
		r.Parameters += int64(d.Elems())
		if len(d.Dims) == 2 { // norms and biases stay f32
			r.Quantized += int64(d.Elems())
		}
	}
	texts, info, err := heldOutText()
	if err != nil {
		return nil, err
	}
	r.Text = info
	windows, tokens, err := m.windows(texts)
	if err != nil {
		return nil, err
	}
	r.Text.Tokens = tokens
	// Measure.
	importance, err := m.importance(ctx, f.calibration, r)
	if err != nil {
		return nil, err
	}
	f16, reference, err := m.evaluate(ctx, m.weights, windows, nil)
	if err != nil {
		return nil, err
	}
	r.F16 = f16
	log.Printf("f16: %+v", f16)
	measureFormat := func(t ir.DType) (measured, error) {
		return m.measureFormat(ctx, t, windows, reference, importance)
	}
	if f.only != "" {
		return r.addTo(f, measureFormat)
	}
	for _, t := range ir.DTypes() {
		if _, ok := quant.Supported(t); !ok {
			continue
		}
		one, err := measureFormat(t)
		if err != nil {
			return nil, err
		}
		r.Formats = append(r.Formats, one)
	}
	return r, nil
}

// addTo measures one format and merges the result into the stored results. The stored results must agree with r, except
// in the device.
func (r *results) addTo(f flags, measure func(ir.DType) (measured, error)) (*results, error) {
	t, err := ir.ParseDType(f.only)
	if err != nil {
		return nil, err
	}
	known, err := readResults(f.docs)
	if err != nil {
		return nil, err
	}
	if known.Text != r.Text || known.Calibration != r.Calibration || known.Parameters != r.Parameters ||
		!agree(known.F16.Perplexity, r.F16.Perplexity) {
		return nil, fmt.Errorf("the f16 model's perplexity is %g on %+v; %s has %g on %+v: measure all formats again",
			r.F16.Perplexity, r.Text, resultsFile, known.F16.Perplexity, known.Text)
	}
	one, err := measure(t)
	if err != nil {
		return nil, err
	}
	if r.Device != known.Device { // else the results name it once
		one.Device = r.Device
	}
	known.Formats = slices.DeleteFunc(known.Formats, func(m measured) bool { return m.Type == t })
	known.Formats = append(known.Formats, one)
	slices.SortFunc(known.Formats, func(a, b measured) int { return int(a.Type) - int(b.Type) })
	return known, nil
}

// agree reports whether two measurements agree as closely as measurements on two devices do.
func agree(a, b float64) bool { return math.Abs(a-b) <= 1e-3*math.Abs(b) }

// importance measures the importance matrix on the calibration files in the folder source, and describes these files in
// r.
func (m *model) importance(ctx context.Context, source string, r *results) (importances, error) {
	texts, info, err := calibrationText(source)
	if err != nil {
		return importances{}, err
	}
	r.Calibration = info
	windows, n, err := m.windows(texts)
	if err != nil {
		return importances{}, err
	}
	r.Calibration.Tokens = n
	return m.calibrate(ctx, windows)
}

// measureFormat scores the model with its matrices in format t. If quantizing to t can use importance weights, it
// scores it with those too.
func (m *model) measureFormat(ctx context.Context, t ir.DType, windows [][]int64, ref [][]float64,
	importance importances) (one measured, err error) {
	one.Type = t
	score := func(weights importances) (s score, err error) {
		w, err := m.quantizedWeights(t, weights)
		if err != nil {
			return s, err
		}
		s, _, err = m.evaluate(ctx, w, windows, ref)
		log.Printf("%s: importance %v: %+v", t, weights.Matrix != nil, s)
		return s, err
	}
	if one.Model, err = score(importances{}); err != nil || !quant.UsesWeights(t) {
		return one, err
	}
	weighted, err := score(importance)
	one.Weighted = &weighted
	return one, err
}
