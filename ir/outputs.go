package ir

import (
	"fmt"
	"slices"
	"strings"
)

// OutputInfo describes outputs that a run may leave partly or wholly invalid, depending on its values, as an imported
// model can have. Outputs that it does not name are always valid as a whole. graph.json and bundles include it, text IR
// does not.
type OutputInfo struct {
	// Found has, by name, the outputs with a valid front part. The run computes its length.
	Found map[string]Found
	// Loops names the bool[] outputs that report whether a loop stopped at its bound and would have continued. If so,
	// the graph's results are wrong. An output's name is the loop's name with the suffix Unfinished.
	Loops []string
	// Mismatches names the bool[] outputs that report whether the run found a number of elements that a node does not
	// take. If so, the graph's results are wrong. An output's name is the node's name with the suffix Mismatched.
	Mismatches []string
}

// Mismatched is the suffix of an output that reports whether a run found a number of elements that a node does not
// take.
const Mismatched = ".mismatched"

// Unfinished is the suffix of an output that reports whether a loop would have continued past its bound.
const Unfinished = ".unfinished"

// Found says that only the first elements of an output along an axis are valid. Output Count, an i32[], has their
// number.
type Found struct {
	Axis  int
	Count string
}

// OutputInfo returns the info of SetOutputInfo.
func (g *Graph) OutputInfo() OutputInfo { return g.info }

// SetOutputInfo sets the info of the graph's outputs. It returns an error if an output does not exist or does not have
// the required type. NewLike and Rewrite copy the info.
func (g *Graph) SetOutputInfo(info OutputInfo) error {
	outputs := map[string]*Node{}
	for _, o := range g.outputs {
		outputs[o.Name] = o.Node
	}
	for name, part := range info.Found {
		n, count := outputs[name], outputs[part.Count]
		switch {
		case n == nil:
			return fmt.Errorf("there is no output %q to slice", name)
		case part.Axis < 0 || part.Axis >= n.Rank():
			return fmt.Errorf("output %q is %s: cannot return a part along axis %d", name, n.typ, part.Axis)
		case count == nil || !count.typ.Equal(Type{I32, Shape{}}):
			return fmt.Errorf("output %q: output %q, which has its length, must exist and be i32[]", name,
				part.Count)
		}
	}
	for suffix, names := range map[string][]string{Unfinished: info.Loops, Mismatched: info.Mismatches} {
		for _, name := range names {
			if n := outputs[name]; n == nil || !n.typ.Equal(Type{Bool, Shape{}}) || !strings.HasSuffix(name, suffix) {
				return fmt.Errorf("output %q reports whether the results are wrong: it must exist, be bool[], and "+
					"have a name that ends in %s", name, suffix)
			}
		}
	}
	g.info = info
	return nil
}

// Trim cuts a run's outputs to their valid part and keeps the others. It ignores missing outputs. It returns an error
// if a loop would have continued at its bound, or if a node does not take a number of elements that the run found.
func (r OutputInfo) Trim(outputs map[string]*Data) error {
	reported := func(name string) bool {
		d := outputs[name]
		return d != nil && slices.ContainsFunc(d.Bytes, func(b byte) bool { return b != 0 })
	}
	for _, name := range r.Mismatches {
		if reported(name) {
			return fmt.Errorf("%s: the run computed another number of elements than the node takes, so the outputs "+
				"are wrong: give inputs with which the numbers agree", strings.TrimSuffix(name, Mismatched))
		}
	}
	for _, name := range r.Loops {
		if reported(name) {
			return fmt.Errorf("%s: the loop had not ended at its bound, so the outputs are wrong: build the graph "+
				"with a larger bound (--bound; in Go Bounds of onnx.Options)", strings.TrimSuffix(name, Unfinished))
		}
	}
	// The output part.Count has the number of valid elements of output `name` along part.Axis.
	for name, part := range r.Found {
		d, count := outputs[name], outputs[part.Count]
		if d == nil || count == nil {
			continue
		}
		n, err := count.Ints()
		if err == nil && len(n) != 1 {
			err = fmt.Errorf("%s is not a number", count)
		}
		if err != nil {
			return fmt.Errorf("output %q: %w", part.Count, err)
		}
		if outputs[name], err = d.Front(part.Axis, n[0]); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
	}
	return nil
}

// Front copies the first n elements along an axis.
func (d *Data) Front(axis int, n int64) (*Data, error) {
	if axis < 0 || axis >= len(d.Dims) || n < 0 || n > int64(d.Dims[axis]) {
		return nil, fmt.Errorf("%d elements of %s along axis %d", n, d, axis)
	}
	dims := slices.Clone(d.Dims)
	dims[axis] = int(n)
	out, err := NewData(d.DType, dims...)
	if err != nil || len(out.Bytes) == 0 {
		return out, err
	}
	rows := 1
	for _, m := range d.Dims[:axis] {
		rows *= m
	}
	if t := d.DType; t.IsPacked() { // rows may begin within bytes
		from, to := d.Elems()/rows, out.Elems()/rows
		for i := range out.Elems() {
			t.setCode(out.Bytes, i, t.code(d.Bytes, i/to*from+i%to))
		}
		return out, nil
	}
	from, to := len(d.Bytes)/rows, len(out.Bytes)/rows
	for i := range rows {
		copy(out.Bytes[i*to:(i+1)*to], d.Bytes[i*from:])
	}
	return out, nil
}
