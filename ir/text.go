package ir

import (
	"fmt"
	"io"
	"strings"
)

// String prints the graph as text IR, one node per line, in a form that Parse reads back:
//
//	graph "mlp" {
//	  symbol T <= 64
//	  %x = input {name="x", dtype=f32, shape=[T,8]} : f32[T,8]
//	  %1 = relu %x : f32[T,8]
//	  output "y" %1
//	}
func (g *Graph) String() string {
	var b strings.Builder
	g.Print(&b, nil)
	return b.String()
}

// Print writes the graph as text IR. note, if not nil, returns a comment to print after a node.
func (g *Graph) Print(w io.Writer, note func(n *Node) string) {
	fmt.Fprintf(w, "graph %q {\n", g.Name)
	for _, s := range g.Symbols() {
		fmt.Fprintf(w, "  symbol %s <= %d\n", s, g.symbols[s])
	}
	for _, n := range g.nodes {
		fmt.Fprintf(w, "  %s", FormatNode(n))
		if note != nil {
			if c := note(n); c != "" {
				fmt.Fprintf(w, "  ; %s", c)
			}
		}
		fmt.Fprintln(w)
	}
	for _, u := range g.updates {
		fmt.Fprintf(w, "  update %s = %s\n", u.State, u.Value)
	}
	for _, o := range g.outputs {
		fmt.Fprintf(w, "  output %q %s\n", o.Name, o.Node)
	}
	fmt.Fprintln(w, "}")
}

// FormatNode returns a node's line of text IR. It omits attributes with their default value.
func FormatNode(n *Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = %s", n, n.op)
	for i, a := range n.args {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %s", a)
	}
	sep := " {"
	for i, spec := range n.op.Info().Attrs {
		v := FormatAttr(n.attrs[i].Value)
		if spec.Default != nil && FormatAttr(spec.Default) == v {
			continue
		}
		fmt.Fprintf(&b, "%s%s=%s", sep, spec.Name, v)
		sep = ", "
	}
	if sep == ", " {
		b.WriteString("}")
	}
	fmt.Fprintf(&b, " : %s", n.typ)
	return b.String()
}
