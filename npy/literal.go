package npy

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

// ParseLiteral reads a tensor written as text: a number, or an array in square brackets, nested once per axis, as in
// [[1, 2], [3, 4]]. Floats may be nan, inf and -inf; bools are true, false, 1 or 0. The brackets determine the shape:
// rows of different lengths are an error, and so is a value that t cannot represent. Floats are rounded to the nearest
// value of t.
func ParseLiteral(text string, t ir.DType) (*ir.Data, error) {
	p := &literal{text: text, dtype: t}
	if !t.Valid() || t.IsBlock() {
		return nil, p.errorf("elements of type %s cannot be written as text: want a float, integer or bool type", t)
	}
	if err := p.value(0); err != nil {
		return nil, err
	}
	if p.peek() != 0 || p.pos < len(text) {
		return nil, p.errorf("%s follows the value: want nothing", p.next())
	}
	d, err := ir.NewData(t, p.dims...)
	if err != nil {
		return nil, p.errorf("%v", err)
	}
	if t.IsFloat() {
		ir.EncodeFloats(d.Bytes, t, p.floats)
	} else {
		ir.EncodeInts(d.Bytes, t, p.ints)
	}
	return d, nil
}

// literal is the state of ParseLiteral.
type literal struct {
	text  string
	pos   int
	dtype ir.DType

	dims   []int // an axis per depth of brackets seen; unknown until its first array ends
	floats []float64
	ints   []int64
}

const unknown = -1

func (p *literal) errorf(format string, args ...any) error {
	return filefmt.Source{Format: "tensor literal"}.Errorf(int64(p.pos), format, args...)
}

// peek skips white space and returns the next byte, or 0 at the end.
func (p *literal) peek() byte {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

// next describes the next character, for errors.
func (p *literal) next() string {
	p.peek() // skips white space
	if p.pos == len(p.text) {
		return "the end"
	}
	return strconv.Quote(p.text[p.pos : p.pos+1])
}

// value reads an array or, at the depth of the innermost axis, a scalar.
func (p *literal) value(depth int) error {
	if p.peek() == '[' {
		return p.array(depth)
	}
	if depth < len(p.dims) {
		return p.errorf("%s stands where earlier rows have an array: want '['", p.next())
	}
	return p.scalar()
}

// array reads an array in brackets. depth is the number of brackets around it.
func (p *literal) array(depth int) error {
	switch {
	case depth == ir.MaxRank:
		return p.errorf("the brackets nest more than %d deep", ir.MaxRank)
	case depth == len(p.dims) && len(p.floats)+len(p.ints) > 0:
		return p.errorf("an array stands where earlier rows have a number")
	case depth == len(p.dims):
		p.dims = append(p.dims, unknown)
	}
	p.pos++ // the bracket
	n := 0
	for p.peek() != ']' || n > 0 {
		if err := p.value(depth + 1); err != nil {
			return err
		}
		n++
		if c := p.peek(); c == ']' {
			break
		} else if c != ',' {
			return p.errorf("%s follows an element: want ',' or ']'", p.next())
		}
		p.pos++
	}
	if want := p.dims[depth]; want != unknown && n != want {
		return p.errorf("an array of %d elements ends here: want %d, as in the one before", n, want)
	}
	p.dims[depth] = n
	p.pos++
	return nil
}

// scalar parses one element of the array, up to the next space, bracket or comma.
func (p *literal) scalar() error {
	start := p.pos
	end := start
	for end < len(p.text) && strings.IndexByte(" \t\r\n[],", p.text[end]) < 0 {
		end++
	}
	word := p.text[start:end]
	if word == "" {
		return p.errorf("%s stands where an element should: want %s", p.next(), wanted(p.dtype))
	}
	if err := p.element(word); err != nil {
		return err
	}
	p.pos = end
	return nil
}

// element converts a word to an element of the dtype and appends it.
func (p *literal) element(word string) error {
	if p.dtype.IsFloat() {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil && !isRange(err) {
			return p.errorf("%q is not an element of type %s: want %s", word, p.dtype, wanted(p.dtype))
		}
		if err != nil || !fits(v, p.dtype) {
			return p.errorf("%q is out of the range of %s", word, p.dtype)
		}
		p.floats = append(p.floats, v)
		return nil
	}
	if p.dtype == ir.Bool {
		switch word {
		case "true":
			word = "1"
		case "false":
			word = "0"
		}
	}
	v, err := strconv.ParseInt(word, 10, 64)
	if err != nil && !isRange(err) {
		return p.errorf("%q is not an element of type %s: want %s", word, p.dtype, wanted(p.dtype))
	}
	if lo, hi := ir.IntRange(p.dtype); err != nil || v < lo || v > hi {
		return p.errorf("%q is out of the range of %s, %d to %d", word, p.dtype, lo, hi)
	}
	p.ints = append(p.ints, v)
	return nil
}

func isRange(err error) bool { return errors.Is(err, strconv.ErrRange) }

// fits reports whether rounding v to t keeps its kind: finite, infinite or NaN. The 8-bit type without infinity
// saturates instead.
func fits(v float64, t ir.DType) bool {
	f := t.Float()
	switch {
	case math.IsNaN(v):
		return math.IsNaN(ir.RoundTo(v, t))
	case !f.Infinite:
		return math.Abs(v) <= f.Largest && !(f.Exponents && v < math.Ldexp(1, f.Least))
	}
	return math.IsInf(v, 0) || !math.IsInf(ir.RoundTo(v, t), 0)
}

// wanted describes the literals of a dtype, for errors.
func wanted(t ir.DType) string {
	switch {
	case t.IsFloat():
		return "a number, nan or inf"
	case t == ir.Bool:
		return "true or false"
	default:
		return "an integer"
	}
}
