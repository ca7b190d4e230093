package ir

import (
	"fmt"
	"slices"
	"strings"
)

// OutputInfo says what is meant of a graph's outputs where that depends on the values of a run, as that of an imported
// model may. Of outputs that it does not name all is meant. graph.json has it, and so have bundles; text IR has not.
type OutputInfo struct {
	// Found has those outputs of which only a part is meant: how large that is depends on the values of a run.
	Found map[string]Found
	// Loops has the outputs, bool[], that say of a loop with a bound whether it would have gone on, which makes what
	// the graph computes wrong. Each has the loop's name, and ends in Unfinished.
	Loops []string
}

// Unfinished ends the name of an output that says whether a loop would have gone on.
const Unfinished = ".unfinished"

// Found says of an output that only a part of it is meant: along an axis, as many elements from the first on as another
// output, i32[], says.
type Found struct {
	Axis  int
	Count string
}

// OutputInfo returns what SetOutputInfo was told.
func (g *Graph) OutputInfo() OutputInfo { return g.info }

// SetOutputInfo says what is meant of the graph's outputs. It refuses outputs that are not there or are not of the
// types that they must have. Graphs that are made of this one by NewLike or Rewrite are told as well.
func (g *Graph) SetOutputInfo(info OutputInfo) error {
	outputs := map[string]*Node{}
	for _, o := range g.outputs {
		outputs[o.Name] = o.Node
	}
	for name, part := range info.Found {
		n, count := outputs[name], outputs[part.Count]
		switch {
		case n == nil:
			return fmt.Errorf("there is no output %q of which a part is meant", name)
		case part.Axis < 0 || part.Axis >= n.Rank():
			return fmt.Errorf("output %q is %s, and a part along axis %d is meant", name, n.typ, part.Axis)
		case count == nil || !count.typ.Equal(Type{I32, Shape{}}):
			return fmt.Errorf("output %q: how much of it is meant says output %q, which must be there, and i32[]", name,
				part.Count)
		}
	}
	for _, name := range info.Loops {
		if n := outputs[name]; n == nil || !n.typ.Equal(Type{Bool, Shape{}}) || !strings.HasSuffix(name, Unfinished) {
			return fmt.Errorf("output %q says of a loop whether it would have gone on: it must be there, bool[], and "+
				"its name end in %s", name, Unfinished)
		}
	}
	g.info = info
	return nil
}

// Trim cuts outputs of a run to what is meant of them and leaves others as they are. Outputs that are not there are
// passed over. It returns an error where a loop would have gone on at its bound.
func (r OutputInfo) Trim(outputs map[string]*Data) error {
	for _, name := range r.Loops {
		if d := outputs[name]; d != nil && slices.ContainsFunc(d.Bytes, func(b byte) bool { return b != 0 }) {
			return fmt.Errorf("%s: the loop would have gone on at its bound, so the outputs are wrong: build the "+
				"graph with a larger one (--bound; in Go Bounds of onnx.Options)", strings.TrimSuffix(name, Unfinished))
		}
	}
	for name, part := range r.Found {
		d, count := outputs[name], outputs[part.Count]
		if d == nil || count == nil {
			continue
		}
		n, err := count.Ints()
		if err == nil && len(n) != 1 {
			err = fmt.Errorf("%s is no number", count)
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
	from, to := len(d.Bytes)/rows, len(out.Bytes)/rows
	for i := range rows {
		copy(out.Bytes[i*to:(i+1)*to], d.Bytes[i*from:])
	}
	return out, nil
}
