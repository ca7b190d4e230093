package onnx

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
)

// row is how an op of ONNX is built, from an opset on until the next row of the op.
type row struct {
	since int64
	build func(c *call) []*value
	// fold, if set, computes integers that may depend on symbols, such as shapes. It is nil where its inputs are none.
	fold func(c *call) *value
	// asItIs says that build does what is to be done for constants too.
	asItIs bool
}

// table is the rows of ops, by name. Where opsets differ in what an op means, it has several rows, the newest last;
// where they differ in how the same is written (an attribute or an input), builders take both.
type table map[string][]row

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
		for op, rows := range t {
			if _, ok := all[op]; ok {
				panic("onnx: two families have op " + op)
			}
			all[op] = rows
		}
	}
	return all
}

// findRow returns how an op is built in that version of its domain, or nil.
func findRow(domain, op string, version int64) *row {
	var found *row
	rows := domains[domain][op]
	for i, r := range rows {
		if r.since <= max(version, 1) {
			found = &rows[i]
		}
	}
	return found
}

// noRow says why an op is not supported.
func noRow(domain, op string, version int64) error {
	rows, ok := domains[domain][op]
	switch {
	case ok:
		return fmt.Errorf("the model has opset %d, and the op is supported since %d", version, rows[0].since)
	case domains[domain] == nil:
		return fmt.Errorf("domain %q is not known to vkc, and the model has no function of this name", domain)
	}
	return fmt.Errorf("vkc does not have this op")
}

// versions joins the rows of an op whose meaning is another from an opset on.
func versions(old []row, since int64, rows []row) []row {
	rows[0].since = since
	return append(old, rows...)
}

// tensorOp makes a row of a function that makes one tensor.
func tensorOp(f func(c *call) frontend.Tensor) []row {
	return []row{{since: 1, build: func(c *call) []*value { return one(f(c)) }}}
}

// foldedOp is tensorOp for an op that can also work on shapes.
func foldedOp(fold func(c *call) *value, f func(c *call) frontend.Tensor) []row {
	rows := tensorOp(f)
	rows[0].fold = fold
	return rows
}

// manyOp makes a row of a function that makes several results.
func manyOp(f func(c *call) []*value) []row { return []row{{since: 1, build: f}} }

// controlOp is manyOp for an op that looks at its inputs' forms itself.
func controlOp(f func(c *call) []*value) []row { return []row{{since: 1, build: f, asItIs: true}} }
