package ir

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// WeightSource provides named tensors: a GGUF or safetensors file, or a map. A source that knows the type of a tensor
// without reading it also has a method WeightType(name string) (DType, []int, error).
type WeightSource interface {
	// Weight returns the tensor of that name, or an error that lists similar names.
	Weight(name string) (*Data, error)
}

// errNoWeights says that there is no source of weights.
var errNoWeights = errors.New("no weights are given: name a weights file, or compile them into the bundle")

// WeightType returns the dtype and shape of a weight.
func WeightType(src WeightSource, name string) (DType, []int, error) {
	if src == nil {
		return Invalid, nil, errNoWeights
	}
	if t, ok := src.(interface {
		WeightType(name string) (DType, []int, error)
	}); ok {
		return t.WeightType(name)
	}
	d, err := src.Weight(name)
	if err != nil {
		return Invalid, nil, err
	}
	if d == nil {
		return Invalid, nil, errors.New("the source returned neither data nor an error")
	}
	return d.DType, d.Dims, nil
}

// FitWeights adapts a graph to the dtypes in which src stores its weights. A graph declares a weight with the dtype in
// which ops use it, such as f32, and a file may store it as q4_0. If both are floats or block formats, FitWeights
// declares the weight with its stored dtype and inserts a cast or dequantize before its uses, which kernels fuse.
// changed is the number of these weights.
//
// FitWeights does not change a weight if src lacks it, or has it with another shape or as integers: loading the graph
// then reports an error. The returned graph may be g itself.
func FitWeights(g *Graph, src WeightSource) (fitted *Graph, changed int, err error) {
	f := fitter{stored: map[*Node]DType{}}
	if src != nil {
		for _, n := range g.Leaves(OpWeight) {
			if t, dims, err := WeightType(src, n.Name()); err == nil && t != n.DType() && fits(n, t, dims) {
				f.stored[n] = t
			}
		}
	}
	if len(f.stored) == 0 {
		return g, 0, nil
	}
	fitted, err = Rewrite(g, f.node)
	return fitted, len(f.stored), err
}

// CheckWeights returns a [*WeightError] with all weights of a fitted graph that src lacks or has with another type. It
// does not read tensors if the source knows their types.
func CheckWeights(g *Graph, src WeightSource) error {
	weights := g.Leaves(OpWeight)
	bad := &WeightError{Total: len(weights)}
	for _, n := range weights {
		dims, err := n.Shape().Eval(nil)
		if err != nil {
			return fmt.Errorf("weight %q: %w", n.Name(), err)
		}
		if b := CheckWeight(src, n.Name(), n.DType(), dims); b != nil {
			bad.Bad = append(bad.Bad, b)
		}
	}
	if len(bad.Bad) == 0 {
		return nil
	}
	return bad
}

// CheckWeight returns the reason why src's tensor of that name cannot be a weight of the given type, or nil. It does
// not read the tensor if the source knows its type.
func CheckWeight(src WeightSource, name string, t DType, dims []int) *BadWeight {
	bad := &BadWeight{Name: name, Want: Type{DType: t, Shape: ShapeOf(dims...)}.String()}
	have, given, err := WeightType(src, name)
	switch {
	case err != nil:
		bad.Err = err
	case have != t || !slices.Equal(given, dims):
		bad.Given = Type{DType: have, Shape: ShapeOf(given...)}.String()
	default:
		return nil
	}
	return bad
}

// fits reports whether src may store weight n with that dtype and shape.
func fits(n *Node, stored DType, dims []int) bool {
	for _, t := range []DType{n.DType(), stored} {
		if !t.IsFloat() && !t.IsBlock() {
			return false
		}
	}
	want, err := n.Shape().Eval(nil)
	if err != nil || !slices.Equal(want, dims) {
		return false
	}
	_, err = ByteSize(stored, dims)
	return err == nil
}

// fitter redeclares weights with their stored dtypes in a Rewrite.
type fitter struct{ stored map[*Node]DType }

// node returns the replacement of n: a weight with its stored dtype, or a copy of n.
func (f *fitter) node(rw *Rewriter, n *Node, args []*Node) (*Node, error) {
	if t, ok := f.stored[n]; ok {
		attrs := slices.Clone(n.Attrs())
		attrs[slices.IndexFunc(attrs, func(a Attr) bool { return a.Name == "dtype" })].Value = t
		w, err := rw.New.Add(OpWeight, nil, attrs, n.Pos())
		if err != nil || n.DType().IsBlock() {
			return w, err // users of block weights already dequantize them
		}
		return weightValues(rw, w, n.DType())
	}
	for i, a := range n.Args() {
		t, ok := f.stored[a]
		if !ok || !a.DType().IsBlock() || t.IsBlock() {
			continue
		}
		// n dequantizes the weight, which is now stored as another dtype.
		v, err := weightValues(rw, args[i], n.DType())
		if err != nil || n.Op() == OpDequantize {
			return v, err
		}
		args[i] = v
	}
	m, err := rw.Copy(n, args)
	if err == nil && !m.Type().Equal(n.Type()) {
		err = fmt.Errorf("%s makes %s, but %s with the stored types of the weights", n.Op(), n.Type(), m.Type())
	}
	return m, err
}

// weightValues returns weight w converted to a float dtype.
func weightValues(rw *Rewriter, w *Node, to DType) (*Node, error) {
	if w.DType() == to {
		return w, nil
	}
	op := OpCast
	if w.DType().IsBlock() {
		op = OpDequantize
	}
	return rw.New.Add(op, []*Node{w}, []Attr{{Name: "dtype", Value: to}}, w.Pos())
}

// WeightError lists the weights of a graph or program that cannot be used.
type WeightError struct {
	Total int          // number of weights
	Bad   []*BadWeight // the unusable ones
}

// BadWeight is a weight that cannot be used.
type BadWeight struct {
	Name  string
	Want  string // its dtype and shape, such as "q4_0[64,32]"
	Given string // the type of the given tensor, or "" if Err says why there is none
	Err   error
}

// Error says why a weight cannot be used.
func (w *BadWeight) Error() string {
	if w.Err != nil {
		return fmt.Sprintf("weight %q (%s): %v", w.Name, w.Want, w.Err)
	}
	return fmt.Sprintf("weight %q is %s, want %s", w.Name, w.Given, w.Want)
}

// Unwrap returns the reason for a missing weight, or nil.
func (w *BadWeight) Unwrap() error { return w.Err }

// nearestNames is the error of a source without a tensor of the requested name. Nearest returns similar names.
type nearestNames interface{ Nearest() []string }

// given returns the cell of Error's table for the tensor that the source has.
func (w *BadWeight) given() string {
	var lacks nearestNames
	switch {
	case w.Err == nil:
		return w.Given
	case errors.As(w.Err, &lacks):
		return strings.Join(append([]string{"none; nearest:"}, lacks.Nearest()...), " ")
	}
	return w.Err.Error()
}

// unread reports whether reading the weight failed.
func (w *BadWeight) unread() bool {
	var lacks nearestNames
	return w.Err != nil && !errors.As(w.Err, &lacks)
}

// listedWeights is how many weights an error lists: a model can lack hundreds.
const listedWeights = 10

// Error gives the name of a single weight, and the reason. For several weights, it lists the first ten in a table and
// counts the others. But if reading failed for each of them, as from a damaged file, it gives only the first one's
// reason.
func (e *WeightError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d weights cannot be used:", len(e.Bad), e.Total)
	if len(e.Bad) == 1 {
		return fmt.Sprintf("%s %v", &b, e.Bad[0])
	}
	allUnread := !slices.ContainsFunc(e.Bad, func(w *BadWeight) bool { return !w.unread() })
	if allUnread {
		return fmt.Sprintf("%s the first is %v", &b, e.Bad[0])
	}
	listed := e.Bad[:min(len(e.Bad), listedWeights)]
	b.WriteByte('\n')
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  WEIGHT\tWANTED\tGIVEN")
	for _, bad := range listed {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", bad.Name, bad.Want, bad.given())
	}
	w.Flush()
	if n := len(e.Bad) - len(listed); n > 0 {
		fmt.Fprintf(&b, "  and %d more", n)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Unwrap returns the reason for each weight.
func (e *WeightError) Unwrap() []error {
	all := make([]error, len(e.Bad))
	for i, bad := range e.Bad {
		all[i] = bad
	}
	return all
}
