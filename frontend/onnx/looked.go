package onnx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// looked records the attributes and inputs that a row has read. Anything unread cannot have affected the result;
// unlooked reports it as an error instead of ignoring it silently.
type looked struct {
	attrs  []string
	inputs []bool
}

func (l *looked) atAttr(name string) {
	if !slices.Contains(l.attrs, name) {
		l.attrs = append(l.attrs, name)
	}
}

func (l *looked) at(input int) {
	for len(l.inputs) <= input {
		l.inputs = append(l.inputs, false)
	}
	l.inputs[input] = true
}

// byMemory is an attribute that all ops had before opset 6. It allowed overwriting inputs.
const (
	byMemory      = "consumed_inputs"
	byMemoryUntil = 6
)

// aside returns a call for functions that inspect the node without building it.
func (c *call) aside() *call {
	other := *c
	other.looked = &looked{}
	return &other
}

// unlooked fails if the node has an attribute, an input or a result that its row ignores.
func (c *call) unlooked(row *row) {
	for _, a := range c.node.Attributes {
		_, leftOut := row.leftOut[a.Name]
		switch {
		case slices.Contains(c.looked.attrs, a.Name) || leftOut || a.Ref != "" && c.scope.attribute(a.Ref) == nil:
		case a.Name == byMemory && c.version < byMemoryUntil:
		default:
			if a.Ref != "" {
				a = c.scope.attribute(a.Ref)
			}
			c.fail("it has attribute %s, which is %s, and vkc does not compute by it, so that the result could be "+
				"wrong: take the attribute away if the result is the same without, or write the node as others",
				ir.Printable(a.Name), a.text())
		}
	}
	for i, v := range c.in {
		if v != nil && (i >= len(c.looked.inputs) || !c.looked.inputs[i]) {
			c.fail("it has input %d, %s, and vkc does not compute by it, so that the result could be wrong: take the "+
				"input away if the result is the same without, or write the node as others", i, ir.Printable(v.name))
		}
	}
}

// unmade fails for a result that something reads and that was not made.
func (c *call) unmade(results []*value) {
	for i, name := range c.node.Outputs {
		if name != "" && (i >= len(results) || results[i] == nil) && c.uses(name) > 0 {
			c.fail("its result %d, %s, is read, and vkc does not make it: it makes %d", i, ir.Printable(name),
				len(results))
		}
	}
}

// listed is how many numbers or texts of an attribute an error shows.
const listed = 8

// text is the value of an attribute for people.
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
		return shortened(fmt.Sprintf("%q", a.Strings[:min(len(a.Strings), listed)]))
	case AttrTensor:
		return "a tensor"
	case AttrGraph:
		return "a graph"
	}
	return fmt.Sprintf("of type %d", a.Type)
}

func listOf[T any](list []T) string {
	text := strings.ReplaceAll(fmt.Sprint(list[:min(len(list), listed)]), " ", ",")
	if len(list) > listed {
		return fmt.Sprintf("%s and %d more", text, len(list)-listed)
	}
	return text
}

// shortened is the beginning of a text.
func shortened(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
