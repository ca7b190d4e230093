package vkc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Exact is the name of full precision in options and flags. The attribute of an op calls it [ir.PrecisionFull], and
// options accept that name too.
const Exact = "exact"

// Precisions lists the values that [WithPrecision] accepts, from exact to fast.
func Precisions() []string {
	attrs := ir.OpMatMul.Info().Attrs
	values := attrs[slices.IndexFunc(attrs, func(a ir.AttrInfo) bool { return a.Name == "precision" })].Enum
	values = slices.Clone(values)
	values[slices.Index(values, ir.PrecisionFull)] = Exact
	return values
}

// CheckPrecision returns an error if [WithPrecision] does not accept a precision.
func CheckPrecision(precision string) error {
	if precision != ir.PrecisionFull && !slices.Contains(Precisions(), precision) {
		return fmt.Errorf("no precision %q: want one of %s", precision, strings.Join(Precisions(), ", "))
	}
	return nil
}

// WithPrecision returns a graph with lower precision allowed for ops with attribute precision (matmuls, expert matmuls,
// convolutions, attentions), also in the bodies of loops and branches. precision is "exact", or another value of
// matmul's attribute: "bf16x3", "half", "half_sums" or "int8". Ops that do not support "half_sums" or "int8" use
// "half", and ops that do not support the value at all do not change. Nor do ops that have a precision other than full
// already.
func WithPrecision(g *ir.Graph, precision string) (*ir.Graph, error) {
	if err := CheckPrecision(precision); err != nil {
		return nil, err
	}
	if precision == Exact || precision == ir.PrecisionFull {
		return g, nil
	}
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		attrs := slices.Clone(n.Attrs())
		for i, a := range attrs {
			if body, ok := a.Value.(*ir.Graph); ok { // of a loop or branch
				var err error
				if attrs[i].Value, err = WithPrecision(body, precision); err != nil {
					return nil, err
				}
			}
		}
		if n.Attrs().String_("precision") != ir.PrecisionFull { // no attribute, or already set
			return rw.New.Add(n.Op(), args, attrs, n.Pos())
		}
		precision := precision
		if !acceptsPrecision(n.Op(), precision) && ir.AllowsHalf(precision) {
			precision = ir.PrecisionHalf
		}
		if !acceptsPrecision(n.Op(), precision) {
			return rw.Copy(n, args)
		}
		attrs = slices.DeleteFunc(attrs, func(a ir.Attr) bool { return a.Name == "precision" })
		return rw.New.Add(n.Op(), args, append(attrs, ir.Attr{Name: "precision", Value: precision}), n.Pos())
	})
}

// acceptsPrecision reports whether an op's attribute precision can have that value.
func acceptsPrecision(op ir.Op, precision string) bool {
	return slices.ContainsFunc(op.Info().Attrs, func(a ir.AttrInfo) bool {
		return a.Name == "precision" && slices.Contains(a.Enum, precision)
	})
}
