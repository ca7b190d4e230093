package onnx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// consumed records the attributes and inputs of a node that its row has read. An attribute that no code has read cannot
// have affected the result. checkConsumed reports it as an error, because it would otherwise be ignored silently.
type consumed struct {
	attrs  []string
	inputs []bool
}

// atAttr notes that an attribute has been read.
func (l *consumed) atAttr(name string) {
	if !slices.Contains(l.attrs, name) {
		l.attrs = append(l.attrs, name)
	}
}

// at notes that an input has been read.
func (l *consumed) at(input int) {
	for len(l.inputs) <= input {
		l.inputs = append(l.inputs, false)
	}
	l.inputs[input] = true
}

const (
	// byMemory is an attribute of all ops before opset 6. It only allowed a node to overwrite inputs, so it can be
	// ignored.
	byMemory      = "consumed_inputs"
	byMemoryUntil = 6
)

// inspector returns a copy of the call for functions that look at the node without building it, so that the
// attributes they read do not count as consumed.
func (c *call) inspector() *call {
	other := *c
	other.consumed = &consumed{}
	return &other
}

// checkConsumed fails if the node has an attribute or an input that the build function of its row did not read, because
// the result could then be wrong.
func (c *call) checkConsumed(row *row) {
	for _, a := range c.node.Attributes {
		_, leftOut := row.leftOut[a.Name]
		switch {
		// It was read, has no effect on the result, or refers to an attribute that the caller did not give.
		case slices.Contains(c.consumed.attrs, a.Name) || leftOut || a.Ref != "" && c.scope.attribute(a.Ref) == nil:
		case a.Name == byMemory && c.version < byMemoryUntil: // an attribute of old opsets without effect
		default:
			if a.Ref != "" {
				a = c.scope.attribute(a.Ref)
			}
			c.fail("it has attribute %s, which is %s, and vkc ignores that, so the result could be wrong: remove the "+
				"attribute if the result is the same without it, or replace the node",
				ir.Printable(a.Name), a.text())
		}
	}
	for i, v := range c.in {
		if v != nil && (i >= len(c.consumed.inputs) || !c.consumed.inputs[i]) {
			c.fail("it has input %d, %s, and vkc ignores that, so the result could be wrong: remove the input if the "+
				"result is the same without it, or replace the node", i, ir.Printable(v.name))
		}
	}
}

// checkResults fails if something reads a result of the node that the row did not compute.
func (c *call) checkResults(results []*value) {
	for i, name := range c.node.Outputs {
		// A result that vkc does not build, and that is read.
		if name != "" && (i >= len(results) || results[i] == nil) && c.uses(name) > 0 {
			c.fail("its result %d, %s, is used, but vkc computes only %d results", i, ir.Printable(name),
				len(results))
		}
	}
}

// shownItems is how many numbers or strings of an attribute an error shows.
const shownItems = 8

// text formats the value of an attribute for errors.
func (a *Attribute) text() string {
	switch a.Type {
	case AttrFloat:
		return strconv.FormatFloat(float64(a.Float), 'g', -1, 32)
	case AttrInt:
		return strconv.FormatInt(a.Int, 10)
	case AttrString:
		return shortened(strconv.Quote(a.String))
	case AttrFloats:
		return listOf(a.Floats)
	case AttrInts:
		return listOf(a.Ints)
	case AttrStrings:
		return shortened(fmt.Sprintf("%q", a.Strings[:min(len(a.Strings), shownItems)]))
	case AttrTensor:
		return "a tensor"
	case AttrGraph:
		return "a graph"
	}
	return fmt.Sprintf("of type %d", a.Type)
}

// listOf formats the first elements of a list, and the number of the others.
func listOf[T any](list []T) string {
	text := strings.ReplaceAll(fmt.Sprint(list[:min(len(list), shownItems)]), " ", ",")
	if len(list) > shownItems {
		return fmt.Sprintf("%s and %d more", text, len(list)-shownItems)
	}
	return text
}

// shortened returns the beginning of a long string.
func shortened(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
