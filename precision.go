package vkc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Precisions lists what [WithPrecision] takes, from exact to fast.
func Precisions() []string {
	attrs := ir.OpMatMul.Info().Attrs
	return attrs[slices.IndexFunc(attrs, func(a ir.AttrInfo) bool { return a.Name == "precision" })].Enum
}

// WithPrecision returns a graph whose ops with an attribute precision (matmuls, also by matrices that
// ids pick, convolutions, attentions) may be as inexact as precision says, one of the values that the
// attribute has for matmul: "full", "bf16x3", "half", "half_sums" or "int8". Ops that do not know one of the last
// three may round their operands to f16, as "half" says. What the graph allows something else than full precision
// stays as it is.
func WithPrecision(g *ir.Graph, precision string) (*ir.Graph, error) {
	if !slices.Contains(Precisions(), precision) {
		return nil, fmt.Errorf("no precision %q: want one of %s", precision, strings.Join(Precisions(), ", "))
	}
	if precision == ir.PrecisionFull {
		return g, nil
	}
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		if n.Attrs().String_("precision") != ir.PrecisionFull { // none, or its own
			return rw.Copy(n, args)
		}
		precision := precision
		if !knows(n.Op(), precision) && ir.AllowsHalf(precision) {
			precision = ir.PrecisionHalf
		}
		if !knows(n.Op(), precision) {
			return rw.Copy(n, args)
		}
		attrs := slices.DeleteFunc(slices.Clone(n.Attrs()), func(a ir.Attr) bool { return a.Name == "precision" })
		return rw.New.Add(n.Op(), args, append(attrs, ir.Attr{Name: "precision", Value: precision}), n.Pos())
	})
}

// knows reports whether an op's attribute precision has that value.
func knows(op ir.Op, precision string) bool {
	return slices.ContainsFunc(op.Info().Attrs, func(a ir.AttrInfo) bool {
		return a.Name == "precision" && slices.Contains(a.Enum, precision)
	})
}
