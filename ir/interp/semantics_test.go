package interp_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

var (
	semanticsExample = regexp.MustCompile("\\| `([a-z_0-9]+) ([^`]*) = ([^`]*)` \\|")
	semanticsLiteral = regexp.MustCompile(`[a-z0-9]+\[[0-9,]*\]\([^)]*\)`)
)

// TestSemantics runs the examples of docs/SEMANTICS.md: in `op arguments {attributes} = result`
// arguments and result are literals.
func TestSemantics(t *testing.T) {
	page, err := os.ReadFile("../../docs/SEMANTICS.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := semanticsExample.FindAllStringSubmatch(string(page), -1)
	if rows := strings.Count(string(page), "\n| ") - strings.Count(string(page), "\n| case |"); len(examples) != rows {
		t.Fatalf("%d of %d rows of docs/SEMANTICS.md have an example that can be run", len(examples), rows)
	}
	for _, e := range examples {
		t.Run(e[0][3:len(e[0])-3], func(t *testing.T) {
			var text strings.Builder
			text.WriteString("graph \"example\" {\n")
			operands := semanticsLiteral.FindAllString(e[2], -1)
			attrs := semanticsLiteral.ReplaceAllString(e[2], "")
			for i, literal := range append(operands, e[3]) {
				literal = strings.ReplaceAll(literal, "NaN", "nan:0000c07f")
				fmt.Fprintf(&text, "%%%d = const {data=%s}\n", i, literal)
			}
			fmt.Fprintf(&text, "%%r = %s %%0", e[1])
			for i := 1; i < len(operands); i++ {
				fmt.Fprintf(&text, ", %%%d", i)
			}
			fmt.Fprintf(&text, " %s\noutput \"have\" %%r\noutput \"want\" %%%d\n}", strings.TrimLeft(attrs, ", "),
				len(operands))
			g, err := ir.Parse(text.String())
			if err != nil {
				t.Fatalf("%v\n%s", err, text.String())
			}
			p, err := interp.New(g, interp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.Run(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			have, want := out["have"], out["want"]
			if have.DType != want.DType || fmt.Sprint(have.Dims) != fmt.Sprint(want.Dims) {
				t.Fatalf("%v, want %v", have, want)
			}
			x, _ := have.Floats()
			y, _ := want.Floats()
			for i := range y {
				if x[i] != y[i] && (x[i] == x[i] || y[i] == y[i]) {
					t.Errorf("%v, want %v", x, y)
					break
				}
			}
		})
	}
}
