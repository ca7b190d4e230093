package onnx

import (
	"fmt"
	"maps"

	"github.com/vkc-go/vkc/frontend"
)

// row is how an op of ONNX is built, in the form that it has in the newest opset: changes have that of older ones.
type row struct {
	build func(c *call) []*value
	// fold, if set, computes integers that may depend on symbols, such as shapes. It is nil where its inputs are none.
	fold func(c *call) *value
	// asItIs says that build does what is to be done for constants too.
	asItIs bool
	// leftOut are attributes at which build does not look, each with why no value of it changes a result. Any other at
	// which it has not looked when the node is built is an error.
	leftOut map[string]string
}

// leaves returns the row with an attribute that it leaves out, and why it may.
func (r row) leaves(attribute, because string) row {
	all := map[string]string{attribute: because}
	maps.Copy(all, r.leftOut)
	r.leftOut = all
	return r
}

// table is the rows of ops, by name.
type table map[string]row

// domains are the tables of all domains, each made of those of its families.
var domains map[string]table

// The tables are joined when the program starts, since ops with graphs in them look the ops of those up.
func init() {
	domains = map[string]table{
		"": joined(elementwiseOps, shapeOps, reduceOps, rowOps, windowOps, contractOps, indexOps, quantizedOps,
			controlOps, attentionOps, randomOps, resizeOps, sampleOps, signalOps, lossOps, recurrentOps, foundOps,
			textOps),
		"com.microsoft":            microsoftOps,
		"ai.onnx.preview.training": trainingOps,
	}
}

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

// findRow returns how an op of a domain is built.
func findRow(domain, op string) (*row, error) {
	rows, known := domains[domain]
	row, ok := rows[op]
	switch {
	case ok:
		return &row, nil
	case !known:
		return nil, fmt.Errorf("domain %q is not known to vkc, and the model has no function of this name", domain)
	}
	return nil, fmt.Errorf("vkc does not have this op")
}

// tensorOp makes a row of a function that makes one tensor.
func tensorOp(f func(c *call) frontend.Tensor) row {
	return row{build: func(c *call) []*value { return one(f(c)) }}
}

// foldedOp is tensorOp for an op that can also work on shapes.
func foldedOp(fold func(c *call) *value, f func(c *call) frontend.Tensor) row {
	row := tensorOp(f)
	row.fold = fold
	return row
}

// manyOp makes a row of a function that makes several results.
func manyOp(f func(c *call) []*value) row { return row{build: f} }

// controlOp is manyOp for an op that looks at its inputs' forms itself.
func controlOp(f func(c *call) []*value) row { return row{build: f, asItIs: true} }
