package export

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// call is an op of the graph while it is written.
type call struct {
	*writer
	node *ir.Node
	err  error
}

// fail says why the op cannot be written.
func (c *call) fail(format string, args ...any) string {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
	return ""
}

// arg returns the ONNX name of argument i of the node, or "" if the argument is omitted.
func (c *call) arg(i int) string {
	if i >= len(c.node.Args()) {
		return ""
	}
	return c.value(c.node.Arg(i))
}

// value returns the value of a node. A weight in blocks is decoded to f32.
func (c *call) value(n *ir.Node) string {
	if n.DType().IsBlock() {
		return c.decoded(n, ir.F32)
	}
	return c.names[n]
}

// formula writes a formula of ONNX ops and returns its value. A formula consists of arguments of the op by name,
// numbers, calls such as Add(x, 1), attributes of ONNX after a semicolon, as in Elu(x; alpha=1.0), and values of the
// op's attributes in braces, as in {alpha}. Numbers have the dtype of the first argument. A formula of several ops on
// floats narrower than f32 is computed in f32, because an op of vkc rounds only once.
func (c *call) formula(text string) string {
	f := &formula{call: c, text: strings.ReplaceAll(text, " ", ""), dtype: c.node.Arg(0).DType()}
	severalOps, f8 := strings.Count(text, "(") > 1, f.dtype.IsFloat() && f.dtype.BlockBytes() == 1
	if severalOps || f8 { // ONNX's ops do not take floats of 8 bits
		f.dtype = computed(f.dtype)
	}
	if t := c.node.DType(); c.node.Op() == ir.OpPow && t.IsInteger() && t != ir.I32 && t != ir.I64 {
		return c.fail("ONNX has powers of int32 and int64, and not of %s", t)
	}
	v := f.term()
	if f.dtype != c.node.Arg(0).DType() && c.node.DType().IsFloat() {
		v = c.cast(v, c.node.DType())
	}
	if f.pos != len(f.text) {
		return c.fail("formula %s: cannot read %q", text, f.text[f.pos:])
	}
	return v
}

// formula is a parser of a formula that writes its ops.
type formula struct {
	*call
	text  string
	pos   int
	dtype ir.DType // of numbers and of float arguments
}

// computed returns the dtype in which an op of dtype t is computed if it takes several ONNX ops: at least f32 for
// floats.
func computed(t ir.DType) ir.DType {
	if t.IsFloat() && t.BlockBytes() < 4 {
		return ir.F32
	}
	return t
}

// float returns float argument i in the dtype that function computed returns.
func (c *call) float(i int) string { return c.as(i, computed(c.node.Arg(i).DType())) }

// rounded returns y, which has dtype t, in the op's dtype.
func (c *call) rounded(y string, t ir.DType) string {
	if t == c.node.DType() {
		return y
	}
	return c.cast(y, c.node.DType())
}

// word reads the text up to the next punctuation of formulas, or to the end.
func (f *formula) word() string {
	end := strings.IndexAny(f.text[f.pos:], "(),;=")
	if end < 0 {
		end = len(f.text) - f.pos
	}
	w := f.text[f.pos : f.pos+end]
	f.pos += end
	return w
}

// sign reads the punctuation s, if it comes next, and reports whether it does.
func (f *formula) sign(s string) bool {
	ok := strings.HasPrefix(f.text[f.pos:], s)
	if ok {
		f.pos += len(s)
	}
	return ok
}

// term writes a call, such as Clip(x, 0; axis=1), an argument or a number, and returns the name of its value.
func (f *formula) term() string {
	w := f.word()
	if !f.sign("(") {
		return f.leaf(w)
	}
	var in []string
	for len(in) == 0 || f.sign(",") {
		in = append(in, f.term())
	}
	var attrs []attribute
	for f.sign(";") {
		name := f.word()
		f.sign("=")
		attrs = append(attrs, attribute{name, f.constant(f.word())})
	}
	if !f.sign(")") {
		return f.fail("formula %s: want ) at %q", f.text, f.text[f.pos:])
	}
	if f.err != nil {
		return ""
	}
	return f.emit(w, in, attrs...)
}

// leaf returns the value of a word: an argument of the op by its name, or a number.
func (f *formula) leaf(w string) string {
	if i := f.node.Op().Info().Arg(w); i >= 0 {
		if t := f.node.Arg(i).DType(); t.IsFloat() && f.dtype.IsFloat() {
			return f.as(i, f.dtype)
		}
		return f.arg(i)
	}
	switch v := f.constant(w).(type) {
	case float64:
		return f.scalar(f.dtype, v)
	case int64:
		return f.scalar(f.dtype, float64(v))
	}
	return f.fail("formula %s: %q is not an argument", f.text, w)
}

// constant returns the value of a word: a number, an attribute of the op in braces, or the word itself as a string.
func (f *formula) constant(w string) any {
	if name, ok := strings.CutPrefix(w, "{"); ok {
		return f.node.Attrs().Float(strings.TrimSuffix(name, "}"))
	}
	if n, err := strconv.ParseInt(w, 10, 64); err == nil {
		return n
	}
	if v, err := strconv.ParseFloat(w, 64); err == nil {
		return v
	}
	return w
}
