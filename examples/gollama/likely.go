package main

import (
	"math"
	"slices"
)

// candidate is a token that may come next.
type candidate struct {
	token       int
	probability float64
}

// best returns the n most likely tokens, by the softmax of their logits.
func best(logits []float64, n int) []candidate {
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(x - logits[order[0]])
	}
	var list []candidate
	for _, i := range order[:min(max(n, 0), len(order))] {
		list = append(list, candidate{i, math.Exp(logits[i]-logits[order[0]]) / sum})
	}
	return list
}
