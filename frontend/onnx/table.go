package onnx

import (
	"fmt"
	"maps"

	"github.com/vkc-go/vkc/frontend"
)

// row says how an op of ONNX is built, in the form of the newest opset. Variable changes has the older forms.
type row struct {
	// build builds the op's nodes and returns the results.
	build func(c *call) []*value
	// fold, if set, is tried before build. If the inputs are integers that may depend on symbols, such as shapes, it
	// computes the result while the graph is built. Otherwise it returns nil.
	fold func(c *call) *value
	// buildsConstants says that build is also called if all inputs are constants. Otherwise they are computed at once.
	buildsConstants bool
	// takesPartlyValid says that build handles inputs with a valid part (see validPart), and marks the valid parts of
	// results.
	takesPartlyValid bool
	// leftOut lists attributes that build does not read, with the reason why they cannot change a result. Any other
	// attribute that build has not read is an error.
	leftOut map[string]string
}

// leaves returns the row with an additional attribute that build does not read, and the reason why.
func (r row) leaves(attribute, because string) row {
	all := map[string]string{attribute: because}
	maps.Copy(all, r.leftOut)
	r.leftOut = all
	return r
}

// table has the rows of ops by name.
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

// joined returns one table with the rows of all tables. It panics if two tables have the same op.
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

// findRow returns the row of an op of a domain. If there is none, the error has the reason, as far as it is known.
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

// tensorOp returns the row of an op with a single result, which f builds.
func tensorOp(f func(c *call) frontend.Tensor) row {
	return row{build: func(c *call) []*value { return one(f(c)) }}
}

// foldedOp is tensorOp for an op that fold can also compute on shapes. See row.fold.
func foldedOp(fold func(c *call) *value, f func(c *call) frontend.Tensor) row {
	row := tensorOp(f)
	row.fold = fold
	return row
}

// manyOp returns the row of an op with several results, which f builds.
func manyOp(f func(c *call) []*value) row { return row{build: f} }

// passOp is manyOp for an op that passes its inputs on in any form, also constants and inputs with a valid part.
func passOp(f func(c *call) []*value) row {
	return row{build: f, buildsConstants: true, takesPartlyValid: true}
}

// controlOp is manyOp for an op that looks itself whether its inputs are constants, or that must not be computed at
// once.
func controlOp(f func(c *call) []*value) row { return row{build: f, buildsConstants: true} }
