package ir

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// attrs reads the "attrs" object of a node by its op's declaration.
func (r *jsonReader) attrs(n *jsonNode) ([]Attr, error) {
	v := n.value.field("attrs")
	if v == nil {
		return nil, nil
	}
	if err := r.want(v, jsonObject); err != nil {
		return nil, err
	}
	attrs := make([]Attr, 0, len(v.keys))
	for i, key := range v.keys {
		spec, err := n.op.Info().attr(key.name)
		if err != nil {
			r.report(r.errorAt(key.pos, err))
			n.wrong = true
			continue
		}
		item := &v.items[i]
		value, err := r.attr(spec.Kind, item)
		if err == nil {
			err = r.wrap(item, checkAttr(spec, value))
		}
		if r.report(err) {
			n.wrong = true
			continue
		}
		attrs = append(attrs, Attr{key.name, value})
	}
	return attrs, nil
}

// attr reads an attribute's value by its kind.
func (r *jsonReader) attr(kind AttrKind, v *jsonValue) (any, error) {
	switch kind {
	case AttrInt:
		return r.int(v)
	case AttrInts:
		ints := []int64{}
		err := r.each(v, func(item *jsonValue) error {
			n, err := r.int(item)
			ints = append(ints, n)
			return err
		})
		return ints, err
	case AttrFloat:
		return r.float(v)
	case AttrBool:
		return v.text == "true", r.want(v, jsonBool)
	case AttrString:
		return r.str(v)
	case AttrDType:
		return r.dtype(v)
	case AttrShape:
		return r.shape(v)
	case AttrGraph:
		return r.body(v)
	}
	return r.data(v)
}

// int reads an integer, written without fraction or exponent.
func (r *jsonReader) int(v *jsonValue) (int64, error) {
	if err := r.want(v, jsonNumber); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, r.errorf(v, "%s is too large", clip(v.text))
	case err != nil:
		return 0, r.errorf(v, "%s is not an integer: write it without fraction or exponent", clip(v.text))
	}
	return n, nil
}

// float reads a number, "inf" or "-inf".
func (r *jsonReader) float(v *jsonValue) (float64, error) {
	if v.kind == jsonString && v.text != "inf" && v.text != "-inf" {
		return 0, r.errorf(v, `found the string %q, expected a number, "inf" or "-inf"`, clip(v.text))
	}
	if v.kind != jsonString && v.kind != jsonNumber {
		return 0, r.want(v, jsonNumber)
	}
	x, err := parseFloat(v.text)
	return x, r.wrap(v, err)
}

// dtype reads the name of a dtype.
func (r *jsonReader) dtype(v *jsonValue) (DType, error) {
	name, err := r.str(v)
	if err != nil {
		return Invalid, err
	}
	t, err := ParseDType(name)
	return t, r.wrap(v, err)
}

// shape reads an array of dims: numbers, or strings for ParseDim.
func (r *jsonReader) shape(v *jsonValue) (Shape, error) {
	shape := Shape{}
	err := r.each(v, func(item *jsonValue) error {
		d, err := r.dim(item)
		shape = append(shape, d)
		return err
	})
	return shape, err
}

// dim reads a dim: a number, or a string for ParseDim.
func (r *jsonReader) dim(v *jsonValue) (Dim, error) {
	if v.kind == jsonString {
		d, err := ParseDim(v.text, r.g.symbols)
		return d, r.wrap(v, err)
	}
	if v.kind != jsonNumber {
		return Dim{}, r.errorf(v, `found %s, expected a dim: a number, or a string such as "T" or "4*T+1"`, v.kind)
	}
	n, err := r.int(v)
	if err != nil {
		return Dim{}, err
	}
	d, err := checkDim(Dim{Add: n})
	return d, r.wrap(v, err)
}

// data reads a constant: its dtype and shape, and one of values, all and base64.
func (r *jsonReader) data(v *jsonValue) (*Data, error) {
	f, err := r.object(v, []string{"dtype", "shape"}, []string{"values", "all", "base64"})
	if err != nil {
		return nil, err
	}
	dtype, err := r.dtype(f[0])
	if err != nil {
		return nil, err
	}
	shape, err := r.shape(f[1])
	if err != nil {
		return nil, err
	}
	d, err := newDataReader(dtype, shape)
	if err != nil {
		return nil, r.wrap(f[1], err)
	}
	values, all, base64 := f[2], f[3], f[4]
	switch {
	case values != nil && all == nil && base64 == nil:
		if err := r.each(values, func(item *jsonValue) error { return r.elem(item, d.add) }); err != nil {
			return nil, err
		}
		return d.data, r.wrap(values, d.done())
	case values == nil && all != nil && base64 == nil:
		// One value for all elements. splatLeft limits their bytes, because a short text may stand for a large
		// constant.
		return d.data, r.elem(all, func(text string) error { return d.splat(text, &r.splatLeft) })
	case values == nil && all == nil && base64 != nil:
		text, err := r.str(base64)
		if err != nil {
			return nil, err
		}
		return d.data, r.wrap(base64, d.base64(text))
	}
	return nil, r.errorf(v, "want exactly one of values, all and base64")
}

// elem calls f with the text of one element. Numbers that JSON cannot represent are strings: "inf", "-inf", "nan:HEX".
func (r *jsonReader) elem(v *jsonValue, f func(text string) error) error {
	switch v.kind {
	case jsonNumber, jsonBool:
	case jsonString:
		if v.text != "inf" && v.text != "-inf" && !strings.HasPrefix(v.text, "nan:") {
			return r.errorf(v, `found the string %q, expected a number, "inf", "-inf" or "nan:HEX"`, clip(v.text))
		}
	default:
		return r.wrap(v, fmt.Errorf("found %s, expected a value: the values of all axes are one flat array", v.kind))
	}
	return r.wrap(v, f(v.text))
}
