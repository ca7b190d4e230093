package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/vkc-go/vkc/frontend/onnx/folder"
	"github.com/vkc-go/vkc/ir"
)

// labelInfo is a result of a classifier.
type labelInfo struct {
	Label       string  `json:"label"`
	Probability float64 `json:"probability"`
}

// likeliestLabels is how many labels are printed.
const likeliestLabels = 5

// labelsOf returns the likeliest labels by the logits of a classifier, or nil if the output has another number of
// elements.
func labelsOf(d *ir.Data, f *folder.Folder) []labelInfo {
	if d == nil || !d.DType.IsFloat() || len(f.Labels) == 0 || d.Elems() != len(f.Labels) {
		return nil
	}
	logits, err := d.Floats()
	if err != nil {
		return nil
	}
	most, sum := slices.Max(logits), 0.0 // the maximum is subtracted, so that Exp does not overflow
	for _, v := range logits {
		sum += math.Exp(v - most)
	}
	list := make([]labelInfo, len(logits))
	for i, v := range logits {
		list[i] = labelInfo{f.Labels[i], math.Exp(v-most) / sum}
		if f.Several { // labels that do not exclude each other: a sigmoid each, no softmax
			list[i].Probability = 1 / (1 + math.Exp(-v))
		}
	}
	slices.SortStableFunc(list, func(a, b labelInfo) int { return cmp.Compare(b.Probability, a.Probability) })
	return list[:min(len(list), likeliestLabels)]
}
