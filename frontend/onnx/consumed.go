package onnx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// consumed records the attributes and inputs of a node that the code that builds it has read. An attribute or input
// that was not read cannot have affected the result, and checkConsumed fails rather than ignore it silently.
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
	// memoryHint is an attribute that all ops had before opset memoryHintUntil. It only allowed a node to overwrite its
	// inputs, so it can be ignored.
	memoryHint      = "consumed_inputs"
	memoryHintUntil = 6
)

// inspector returns a copy of the call for functions that look at the node without building it. The attributes that
// they read do not count as consumed.
func (c *call) inspector() *call {
	other := *c
	other.consumed = &consumed{}
	return &other
}

// checkConsumed fails if the node has an attribute or an input that was not read when the node was built, because the
// result could then be wrong. Exceptions are the attributes that row.leftOut lists and those without a value.
func (c *call) checkConsumed(row *row) {
	for _, a := range c.node.Attributes {
		_, leftOut := row.leftOut[a.Name] // the attribute has no effect on the result
		isHint := a.Name == memoryHint && c.version < memoryHintUntil
		if leftOut || isHint || slices.Contains(c.consumed.attrs, a.Name) {
			continue
		}
		if a.Ref != "" { // a reference to an attribute of the enclosing function
			a = c.scope.attribute(a.Ref)
		}
		if a == nil { // the caller of the function did not give that attribute
			continue
		}
		c.fail("it has attribute %s, which is %s, and vkc ignores that, so the result could be wrong: remove the "+
			"attribute if the result is the same without it, or replace the node", ir.Printable(a.Name), a.text())
	}
	for i, v := range c.in {
		read := i < len(c.consumed.inputs) && c.consumed.inputs[i]
		if v != nil && !read {
			c.fail("it has input %d, %s, and vkc ignores that, so the result could be wrong: remove the input if the "+
				"result is the same without it, or replace the node", i, ir.Printable(v.name))
		}
	}
}

// checkResults fails if something reads a result of the node that is not among the computed results.
func (c *call) checkResults(results []*value) {
	for i, name := range c.node.Outputs {
		computed := i < len(results) && results[i] != nil
		if name != "" && !computed && c.uses(name) > 0 {
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
