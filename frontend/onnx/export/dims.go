package export

import (
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// source says where the value of a symbol comes from: input is a scalar, or the extent of an axis of input is
// mul*symbol+add.
type source struct {
	input    string
	axis     int
	mul, add int64
}

// measure notes that the axis of an input has an extent, if that determines a symbol better than what is known.
func (w *writer) measure(input string, axis int, d ir.Dim) {
	if d.IsStatic() || !ir.IsIdent(d.Sym) {
		return
	}
	if have, ok := w.symbols[d.Sym]; !ok || d.Mul < have.mul {
		w.symbols[d.Sym] = source{input, axis, d.Mul, d.Add}
	}
}

// symbol returns the value of a symbol, int64[1]. The symbol comes from an input of its own, or from the extent of
// another input, which is mul*symbol+add.
func (w *writer) symbol(name string) string {
	from := w.symbols[name]
	if from.mul == 0 { // an input, int64
		return w.emit("Unsqueeze", []string{from.input, w.ints(0)})
	}
	v := w.emit("Shape", []string{from.input}, attribute{"start", int64(from.axis)},
		attribute{"end", int64(from.axis + 1)})
	if from.add != 0 {
		v = w.emit("Sub", []string{v, w.ints(from.add)})
	}
	if from.mul != 1 {
		v = w.emit("Div", []string{v, w.ints(from.mul)})
	}
	return v
}

// dim returns the value of an extent, int64[1].
func (w *writer) dim(d ir.Dim) string {
	if d.IsStatic() {
		return w.ints(d.Add)
	}
	p := extent{writer: w, text: d.String()}
	return p.sum()
}

// number returns the value of an extent, an int64 scalar.
func (w *writer) number(d ir.Dim) string {
	if d.IsStatic() {
		return w.scalar(ir.I64, float64(d.Add))
	}
	return w.emit("Squeeze", []string{w.dim(d), w.ints(0)})
}

// shape returns the extents of a shape, int64[rank].
func (w *writer) shape(s ir.Shape) string {
	if s.IsStatic() {
		list := make([]int64, len(s))
		for i, d := range s {
			list[i] = d.Add
		}
		return w.ints(list...)
	}
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = w.dim(d)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return w.emit("Concat", parts, attribute{"axis", int64(0)})
}

// extent computes the text of an extent, such as 2*(S+T)-1 or floor((T+1)/2).
type extent struct {
	*writer
	text string
	pos  int
}

// next returns the next byte of the text, or 0 at its end.
func (p *extent) next() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// sum writes products with + or - between them.
func (p *extent) sum() string {
	v := p.product()
	for {
		switch p.next() {
		case '+':
			p.pos++
			v = p.emit("Add", []string{v, p.product()})
		case '-':
			p.pos++
			v = p.emit("Sub", []string{v, p.product()})
		default:
			return v
		}
	}
}

// product writes factors with * or / between them.
func (p *extent) product() string {
	v := p.factor()
	for {
		switch p.next() {
		case '*':
			p.pos++
			v = p.emit("Mul", []string{v, p.factor()})
		case '/':
			p.pos++
			v = p.emit("Div", []string{v, p.factor()})
		default:
			return v
		}
	}
}

// factor writes a number, a symbol, or a sum in brackets. floor(…) is a division of integers, which ONNX's Div rounds
// like floor, because extents are not negative.
func (p *extent) factor() string {
	rest := p.text[p.pos:]
	if strings.HasPrefix(rest, "floor(") {
		p.pos += len("floor")
		rest = rest[len("floor"):]
	}
	if strings.HasPrefix(rest, "(") {
		p.pos++
		v := p.sum()
		p.pos++ // )
		return v
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return strings.ContainsRune("+-*/()", r) })
	if end < 0 {
		end = len(rest)
	}
	p.pos += end
	if n, err := strconv.ParseInt(rest[:end], 10, 64); err == nil {
		return p.ints(n)
	}
	return p.symbol(rest[:end])
}

// reshaped writes a Reshape of value x to a shape. If at most one extent depends on symbols, it is -1, so that the
// shape is a constant.
func (w *writer) reshaped(x string, to ir.Shape) string {
	free, list := 0, make([]int64, len(to))
	for i, d := range to {
		list[i] = d.Add
		if !d.IsStatic() {
			free, list[i] = free+1, -1
		} else if d.Add == 0 {
			free = 2 // in ONNX an extent of 0 copies, unless allowzero is set
		}
	}
	if free < 2 {
		return w.emit("Reshape", []string{x, w.ints(list...)})
	}
	return w.emit("Reshape", []string{x, w.shape(to)}, attribute{"allowzero", int64(1)})
}

// unsqueezed returns a value with more axes of extent 1, at the given places of the result.
func (w *writer) unsqueezed(x string, axes ...int64) string {
	if len(axes) == 0 {
		return x
	}
	return w.emit("Unsqueeze", []string{x, w.ints(axes...)})
}

// sliced returns the elements of an axis from a start to an end. Both are int64[1].
func (w *writer) sliced(x, start, end string, axis int64) string {
	return w.emit("Slice", []string{x, start, end, w.ints(axis)})
}

// toEnd is an end past every axis.
const toEnd = int64(1)<<62 - 1
