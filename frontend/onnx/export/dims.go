package export

import (
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// source says where the value of a symbol comes from: it is the scalar input if mul is 0, and otherwise the extent of
// an axis of the input is mul*symbol+add.
type source struct {
	input    string
	axis     int
	mul, add int64
}

// measure records that an axis of an input has extent d, if that determines a symbol. Of several extents with the same
// symbol, it keeps the one with the smallest factor.
func (w *writer) measure(input string, axis int, d ir.Dim) {
	if d.IsStatic() || !ir.IsIdent(d.Sym) {
		return
	}
	if have, ok := w.symbols[d.Sym]; !ok || d.Mul < have.mul {
		w.symbols[d.Sym] = source{input, axis, d.Mul, d.Add}
	}
}

// symbol returns the value of a symbol, int64[1]. See source.
func (w *writer) symbol(name string) string {
	from := w.symbols[name]
	if from.mul == 0 { // the input is the symbol, an int64 scalar
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

// extent is a parser of an extent's text, such as 2*(S+T)-1 or floor((T+1)/2), that writes ONNX nodes for its value.
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

// factor writes a number, a symbol, or a sum in brackets. It ignores the word floor before a bracket: the sum is a
// quotient of integers, which are not negative, so ONNX's Div rounds it down anyway.
func (p *extent) factor() string {
	rest := p.text[p.pos:]
	if strings.HasPrefix(rest, "floor(") {
		p.pos += len("floor")
		rest = rest[len("floor"):]
	}
	if strings.HasPrefix(rest, "(") {
		p.pos++
		v := p.sum()
		p.pos++ // the closing bracket
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

// reshaped writes a Reshape of value x to a shape. If just one extent depends on symbols, it becomes -1, so that the
// shape is a constant.
func (w *writer) reshaped(x string, to ir.Shape) string {
	symbolic, hasZero, list := 0, false, make([]int64, len(to))
	for i, d := range to {
		list[i] = d.Add
		if !d.IsStatic() {
			symbolic++
			list[i] = -1
		} else if d.Add == 0 {
			hasZero = true // in ONNX it means the extent of x, unless allowzero is set
		}
	}
	if symbolic < 2 && !hasZero {
		return w.emit("Reshape", []string{x, w.ints(list...)})
	}
	return w.emit("Reshape", []string{x, w.shape(to)}, attribute{"allowzero", int64(1)})
}

// unsqueezed returns x with additional axes of extent 1. axes has their numbers in the result.
func (w *writer) unsqueezed(x string, axes ...int64) string {
	if len(axes) == 0 {
		return x
	}
	return w.emit("Unsqueeze", []string{x, w.ints(axes...)})
}

// sliced returns the elements of x along an axis from start up to end. Both are int64[1].
func (w *writer) sliced(x, start, end string, axis int64) string {
	return w.emit("Slice", []string{x, start, end, w.ints(axis)})
}

// toEnd is an end past every axis.
const toEnd = int64(1)<<62 - 1
