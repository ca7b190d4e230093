package llm

import (
	"slices"
)

// sizes are the numbers that changes depend on.
type sizes struct{ heads, kvHeads, headDim, ropeDims, padding int }

// changes are what a line of folder.weights may say about rows, by name. Each returns which of n rows of the folder's
// tensor the weight has.
var changes = map[string]func(s sizes, n int) []int{
	"after-padding": func(s sizes, n int) []int { return every(s.padding, 1, max(n-s.padding, 0)) },

	"first-half":  func(_ sizes, n int) []int { return every(0, 1, n/2) },
	"second-half": func(_ sizes, n int) []int { return every(n/2, 1, n-n/2) },
	"even-rows":   func(_ sizes, n int) []int { return every(0, 2, (n+1)/2) },
	"odd-rows":    func(_ sizes, n int) []int { return every(1, 2, n/2) },
	"grouped":     func(s sizes, n int) []int { return slices.Concat(s.groups(0, n), s.groups(1, n), s.groups(2, n)) },
	"queries":     func(s sizes, n int) []int { return s.groups(0, n) },
	"keys":        func(s sizes, n int) []int { return s.groups(1, n) },
	"values":      func(s sizes, n int) []int { return s.groups(2, n) },

	"fused-queries": func(s sizes, n int) []int { return s.fused(0, s.heads, n) },
	"fused-keys":    func(s sizes, n int) []int { return s.fused(s.heads, s.kvHeads, n) },
	"fused-values":  func(s sizes, n int) []int { return s.fused(s.heads+s.kvHeads, s.kvHeads, n) },
}

// transposed is the change that exchanges the axes of a matrix.
const transposed = "transposed"

// every returns n indices from first on, each larger by step.
func every(first, step, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i*step
	}
	return list
}

// groups is for the queries, keys and values of all heads in one matrix, which has for each group of heads its queries,
// its key and its value. It returns the rows of all queries (part 0), keys (1) or values (2).
func (s sizes) groups(part, n int) (rows []int) {
	perGroup := s.heads / s.kvHeads
	if n/(perGroup+2)/s.kvHeads != s.headDim { // the check of shapes will find that
		return every(0, 1, n)
	}
	first, count := 0, perGroup
	if part > 0 {
		first, count = perGroup+part-1, 1
	}
	for group := range s.kvHeads {
		rows = append(rows, every((group*(perGroup+2)+first)*s.headDim, 1, count*s.headDim)...)
	}
	return rows
}

// fused is for the queries, keys and values of all heads in one matrix, first the queries of all heads, then the keys,
// and then the values. It returns the rows of some heads.
func (s sizes) fused(first, heads, n int) []int {
	if n/(s.heads+2*s.kvHeads) != s.headDim { // the check of shapes will find that
		return every(0, 1, n)
	}
	return every(first*s.headDim, 1, heads*s.headDim)
}

// neighbours is for the rows of queries or keys: it moves the two elements of each rotary pair next to each other, from
// the order halves.
func (s sizes) neighbours(n int) []int {
	rows := every(0, 1, n)
	half := s.ropeDims / 2
	for head := 0; head+s.headDim <= n; head += s.headDim {
		for i := range half {
			rows[head+2*i], rows[head+2*i+1] = head+i, head+half+i
		}
	}
	return rows
}

// after returns which of n rows remain if the second choice applies to the rows that the first one leaves.
func after(first, second func(n int) []int) func(n int) []int {
	if first == nil {
		return second
	}
	return func(n int) []int {
		rows := first(n)
		chosen := make([]int, 0, len(rows))
		for _, i := range second(len(rows)) {
			chosen = append(chosen, rows[i])
		}
		return chosen
	}
}
