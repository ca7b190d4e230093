package ir

import (
	"fmt"
	"strings"
)

// Call is an op with its arguments and attributes, as its shape rule sees them.
type Call struct {
	Op    Op
	Args  []*Node
	Attrs Attrs

	inBody bool // whether the node belongs to a body of a control op
}

// infer calls the op's shape rule and checks its result.
func (c *Call) infer(info *OpInfo) (Type, error) {
	for i := range c.Args {
		if t := c.DType(i); t.StorageOnly() && !info.Moves {
			return Type{}, fmt.Errorf("%s is %s, a storage-only dtype: cast it first", c.arg(i), t)
		}
	}
	t, err := info.Infer(c)
	if err != nil {
		return Type{}, err
	}
	if !t.DType.Valid() {
		return Type{}, fmt.Errorf("result has no dtype")
	}
	if t.DType.StorageOnly() && !info.Moves {
		return Type{}, fmt.Errorf("the result is %s, a storage-only dtype: only a cast makes it", t.DType)
	}
	if err := t.Shape.Check(); err != nil {
		return Type{}, fmt.Errorf("result: %w", err)
	}
	if _, err := t.MaxBytes(); err != nil {
		return Type{}, fmt.Errorf("result: %w", err)
	}
	return t, nil
}

// DType returns the dtype of argument i.
func (c *Call) DType(i int) DType { return c.Args[i].typ.DType }

// Shape returns the shape of argument i.
func (c *Call) Shape(i int) Shape { return c.Args[i].typ.Shape }

// arg names argument i in errors as the graph's author did, in one of three forms:
//
//	input "x"         the leaf, if the argument's role in the op's row is a single letter
//	seed (input "x")  the role and the leaf, if the role is longer
//	b (relu)          the role and the op, if the value has no name
func (c *Call) arg(i int) string {
	n, args := c.Args[i], c.Op.Info().Args
	role := fmt.Sprintf("argument %d", i)
	if i < len(args) && !args[i].Variadic {
		role = args[i].Name
	}
	if n.Name() != "" && (len(role) == 1 || i >= len(args) || args[i].Variadic) {
		return n.Label()
	}
	return fmt.Sprintf("%s (%s)", role, n.Label())
}

// argList names all arguments, of which there are at least two.
func (c *Call) argList() string {
	list := make([]string, len(c.Args))
	for i := range c.Args {
		list[i] = c.arg(i)
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

// wantKinds returns an error unless argument i has a dtype of one of the kinds.
func (c *Call) wantKinds(i int, kinds ...Kind) error {
	k := c.DType(i).Kind()
	for _, want := range kinds {
		if k == want {
			return nil
		}
	}
	if k == KindBlock {
		return fmt.Errorf("%s is %s: apply dequantize first (fusion keeps it free)", c.arg(i), c.DType(i))
	}
	return fmt.Errorf("%s is %s (%s), want %v", c.arg(i), c.DType(i), k, kinds)
}

// wantSame returns an error unless arguments i and j have the same dtype.
func (c *Call) wantSame(i, j int) error {
	if c.DType(i) != c.DType(j) {
		return fmt.Errorf("%s is %s and %s is %s: cast one of them", c.arg(i), c.DType(i), c.arg(j), c.DType(j))
	}
	return nil
}

// axis resolves an int attribute that names one of rank axes; negative values count from the end.
func (c *Call) axis(name string, rank int) (int, error) {
	return ResolveAxis(int64(c.Attrs.Int(name)), rank)
}

// ResolveAxis converts an axis that may count from the end to 0..rank-1.
func ResolveAxis(axis int64, rank int) (int, error) {
	a := axis
	if a < 0 {
		a += int64(rank)
	}
	if a < 0 || a >= int64(rank) {
		return 0, fmt.Errorf("axis %d is outside rank %d", axis, rank)
	}
	return int(a), nil
}

// ResolveAxes resolves a list of axes and returns a bool per axis; an empty list means all.
func ResolveAxes(axes []int64, rank int) ([]bool, error) {
	in := make([]bool, rank)
	for _, x := range axes {
		a, err := ResolveAxis(x, rank)
		if err != nil {
			return nil, err
		}
		if in[a] {
			return nil, fmt.Errorf("axis %d is named twice", x)
		}
		in[a] = true
	}
	if len(axes) == 0 {
		for i := range in {
			in[i] = true
		}
	}
	return in, nil
}

// BroadcastShapes returns the NumPy broadcast of the shapes: aligned at the
// innermost axis, extents equal or 1.
func BroadcastShapes(shapes ...Shape) (Shape, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make(Shape, rank)
	for i := range out {
		out[i] = D(1)
	}
	for _, s := range shapes {
		for i, d := range s {
			o := &out[rank-len(s)+i]
			switch {
			case d == *o || d.Is(1):
			case o.Is(1):
				*o = d
			default:
				return nil, fmt.Errorf("shapes %s do not broadcast: %s against %s at axis %d",
					shapeList(shapes), *o, d, i-len(s))
			}
		}
	}
	return out, nil
}

// shapeList joins shapes with "and", for errors.
func shapeList(shapes []Shape) string {
	s := ""
	for i, sh := range shapes {
		if i > 0 {
			s += " and "
		}
		s += sh.String()
	}
	return s
}

// broadcastArgs broadcasts the shapes of all arguments.
func (c *Call) broadcastArgs() (Shape, error) {
	shapes := make([]Shape, len(c.Args))
	for i := range c.Args {
		shapes[i] = c.Shape(i)
	}
	out, err := BroadcastShapes(shapes...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.argList(), err)
	}
	return out, nil
}
