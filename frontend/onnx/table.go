package onnx

import (
	"fmt"
	"maps"

	"github.com/vkc-go/vkc/frontend"
)

// row builds an op of ONNX in the form of the newest opset; changes has the older forms.
type row struct {
	build func(c *call) []*value
	// fold, if set, computes integers that may depend on symbols, such as shapes. It returns nil if its inputs are not
	// such integers.
	fold func(c *call) *value
	// buildsConstants says that build also handles constants.
	buildsConstants bool
	// takesPartlyValid says that build handles inputs with a valid part (see validPart), and marks those of results.
	takesPartlyValid bool
	// leftOut lists attributes that build does not read, with the reason why they cannot change a result. Any other
	// attribute that build has not read is an error.
	leftOut map[string]string
}

// leaves returns the row with an additional unread attribute, and the reason.
func (r row) leaves(attribute, because string) row {
	all := map[string]string{attribute: because}
	maps.Copy(all, r.leftOut)
	r.leftOut = all
	return r
}

// table is the rows of ops, by name.
type table map[string]row

// domains has the tables of all domains, each joined from the tables of its families.
var domains map[string]table

// The tables are joined at program start, because ops with subgraphs look up other ops in them.
func init() {
	domains = map[string]table{
		"": joined(elementwiseOps, shapeOps, reduceOps, rowOps, windowOps, contractOps, indexOps, quantizedOps,
			controlOps, attentionOps, randomOps, resizeOps, sampleOps, signalOps, lossOps, recurrentOps, dynamicOps,
			textOps),
		"com.microsoft":            joined(microsoftOps, microsoftQuantizedOps, microsoftAttentionOps, microsoftBlockOps),
		"ai.onnx.ml":               learningOps,
		"ai.onnx.preview":          previewOps,
		"ai.onnx.preview.training": trainingOps,
	}
}

// joined returns one table with the rows of all. No two may have the same op.
func joined(tables ...table) table {
	all := table{}
	for _, t := range tables {
		for op, row := range t {
			if _, ok := all[op]; ok {
				panic("onnx: two families have op " + op)
			}
			all[op] = row
		}
	}
	return all
}

// findRow returns the row that says how an op of a domain is built. If there is none, the error gives the reason, if
// vkc knows one.
func findRow(domain, op string) (*row, error) {
	rows, known := domains[domain]
	row, ok := rows[op]
	switch {
	case ok:
		return &row, nil
	case !known:
		return nil, fmt.Errorf("vkc does not know domain %q, and the model has no function of this name", domain)
	}
	if why := refused[domain][op]; why != "" {
		return nil, fmt.Errorf("vkc does not support this op: %s", why)
	}
	return nil, fmt.Errorf("vkc does not support this op")
}

// tensorOp makes a row of a function that makes one tensor.
func tensorOp(f func(c *call) frontend.Tensor) row {
	return row{build: func(c *call) []*value { return one(f(c)) }}
}

// foldedOp makes a row of a function that makes one tensor, for an op that can also compute shapes, by fold.
func foldedOp(fold func(c *call) *value, f func(c *call) frontend.Tensor) row {
	row := tensorOp(f)
	row.fold = fold
	return row
}

// manyOp makes a row of a function that makes several results.
func manyOp(f func(c *call) []*value) row { return row{build: f} }

// passOp makes a row of a function that makes several values, for an op that passes values on, or looks at their parts
// itself.
func passOp(f func(c *call) []*value) row {
	return row{build: f, buildsConstants: true, takesPartlyValid: true}
}

// controlOp makes a row of a function that makes several values, for an op that looks at its inputs' forms itself.
func controlOp(f func(c *call) []*value) row { return row{build: f, buildsConstants: true} }
