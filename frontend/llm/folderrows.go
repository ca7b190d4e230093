package llm

import (
	"math"
	"slices"
)

// sizes are the numbers that changes depend on. The last four describe a delta rule, which has heads of values in
// groups that share a key.
type sizes struct {
	heads, kvHeads, headDim, ropeDims, padding    int
	deltaGroups, deltaHeads, deltaKey, deltaValue int
}

// sizes returns the numbers of a layer. padding is the number of rows before position 0 in a table of positions.
func (c Config) sizes(padding int) sizes {
	s := c.Recurrent
	return sizes{heads: max(c.Heads, 1), kvHeads: max(c.KVHeads, 1), headDim: c.HeadDim, ropeDims: c.RopeDims,
		padding: padding, deltaGroups: max(s.Groups, 1), deltaHeads: max(s.Heads, 1), deltaKey: s.Keys,
		deltaValue: s.Inner / max(s.Heads, 1)}
}

// A change says how a weight is made from a tensor of the folder. Lines of folder.weights have the names of changes.
type change struct {
	rows  func(s sizes, n int) []int // which of n rows of the tensor the weight has; nil means all
	axis  int                        // the axis of the rows; 0 means 1 in a stack [experts, rows, columns]
	value func(v float64) float64    // changes each element; nil changes nothing

	transposed bool // the axes of the matrix are exchanged
	reshaped   bool // the weight has the elements in another shape
	kept       bool // the weight is not less 1, although the norms of the architecture are
}

// changes is the table of changes, by name.
var changes = map[string]change{
	"transposed": {transposed: true},
	"reshaped":   {reshaped: true},
	"kept":       {kept: true},

	"negative-exp": {value: func(v float64) float64 { return -math.Exp(v) }},

	"after-padding": {rows: func(s sizes, n int) []int { return every(s.padding, 1, max(n-s.padding, 0)) }},

	"first-half":  {rows: func(_ sizes, n int) []int { return every(0, 1, n/2) }},
	"second-half": {rows: func(_ sizes, n int) []int { return every(n/2, 1, n-n/2) }},
	"even-rows":   {rows: func(_ sizes, n int) []int { return every(0, 2, (n+1)/2) }},
	"odd-rows":    {rows: func(_ sizes, n int) []int { return every(1, 2, n/2) }},
	"grouped": {rows: func(s sizes, n int) []int {
		return slices.Concat(s.groups(0, n), s.groups(1, n), s.groups(2, n))
	}},
	"queries": {rows: func(s sizes, n int) []int { return s.groups(0, n) }},
	"keys":    {rows: func(s sizes, n int) []int { return s.groups(1, n) }},
	"values":  {rows: func(s sizes, n int) []int { return s.groups(2, n) }},

	"fused-queries": {rows: func(s sizes, n int) []int { return s.fused(0, s.heads, n) }},
	"fused-keys":    {rows: func(s sizes, n int) []int { return s.fused(s.heads, s.kvHeads, n) }},
	"fused-values":  {rows: func(s sizes, n int) []int { return s.fused(s.heads+s.kvHeads, s.kvHeads, n) }},

	"delta-qkv":     {rows: func(s sizes, n int) []int { return s.delta(n, 0, 1, 2) }},
	"delta-gate":    {rows: func(s sizes, n int) []int { return s.delta(n, 3) }},
	"apart":         {rows: func(s sizes, n int) []int { return s.apart(0, n) }},
	"apart-values":  {rows: func(s sizes, n int) []int { return s.apart(2*s.deltaGroups*s.deltaKey, n) }},
	"apart-columns": {rows: func(s sizes, n int) []int { return s.apart(0, n) }, axis: 1},
}

// every returns n indices from first on, each larger by step.
func every(first, step, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i*step
	}
	return list
}

// groups returns rows of a matrix that has the queries, keys and values of all heads. For each group of heads it has
// the queries, then the key, then the value. The result has the rows of all queries (part 0), keys (1) or values (2).
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

// fused returns the rows of `heads` heads, from head number first on, of a matrix of n rows. The matrix has the
// queries of all heads, then the keys of all heads, then the values of all heads; first counts in this order.
func (s sizes) fused(first, heads, n int) []int {
	if n/(s.heads+2*s.kvHeads) != s.headDim { // the check of shapes will find that
		return every(0, 1, n)
	}
	return every(first*s.headDim, 1, heads*s.headDim)
}

// neighbours returns a permutation of the n rows of a query or key matrix. The matrix has rope pairs in the layout of
// halves: element i of a head pairs with element i+ropeDims/2. In the new order, the elements of a pair are adjacent.
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

// after returns the composition of two choices of rows. A choice returns the indices of the rows that remain of n rows,
// and the second choice applies to the rows that the first one leaves.
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

// delta returns rows of a matrix that has the queries, keys, values and gates (parts 0 to 3) of a delta rule, all four
// for one group of heads after the other. The result has the rows of the given parts, each part for all groups.
func (s sizes) delta(n int, parts ...int) (rows []int) {
	values := s.deltaHeads / s.deltaGroups * s.deltaValue
	widths := []int{s.deltaKey, s.deltaKey, values, values}
	whole := 2*s.deltaKey + 2*values
	if n != whole*s.deltaGroups { // the check of shapes will find that
		return every(0, 1, n)
	}
	for _, part := range parts {
		first := 0
		for _, width := range widths[:part] {
			first += width
		}
		for group := range s.deltaGroups {
			rows = append(rows, every(group*whole+first, 1, widths[part])...)
		}
	}
	return rows
}

// apart returns a permutation of the rows, or columns, of a delta rule's value heads. In the folder the heads of a
// group are next to each other. In the weight the first heads of all groups come first, then the second ones, and so
// on. The rows before first keep their positions.
func (s sizes) apart(first, n int) []int {
	rows, each := every(0, 1, n), s.deltaHeads/s.deltaGroups
	width := (n - first) / s.deltaHeads
	if n < first || each*s.deltaGroups*width != n-first { // the check of shapes will find that
		return rows
	}
	for i := range rows[first:] { // row `at` of head number head in the weight, where head%deltaGroups is its group
		head, at := i/width, i%width
		rows[first+i] = first + (head%s.deltaGroups*each+head/s.deltaGroups)*width + at
	}
	return rows
}
