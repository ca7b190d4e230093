package emit

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

func TestPruneFunctions(t *testing.T) {
	functions := []string{
		"#define INF 1.0\n",
		"#define NAN 2.0\n",
		"// Reads a.\nuint low(uint block, uint at, uint e) {\n    return data[at].block;\n}\n",
		"uint lost(uint block) {\n    return low(block, 1u, 2u);\n}\n",
		"float back(const in uint row, const in uint col, const in float x, const in uint a, const in float b) {\n    return x + b;\n}\n",
		"uint high(uint block, uint e) {\n    return low(block + f(1u, 2u), 3u, e); // e\n}\n",
		"uint first(uint e, uint b) {\n    return b;\n}\n",
		"uint none(uint e) {\n    return INF;\n}\n",
		"float largest(float x[32], uint e) {\n    return x[3];\n}\n",
	}
	main := definitionOf("void main() {\n" + strings.Join([]string{
		"x = high(a, b[c(1u, 2u)]) + high(high(1u, 2u), 3u);",
		"apply(m, back, first(1u, 2u), none(5u), largest(v, 6u));"}, "\n") + "\n}\n")
	var list []*syntax.Definition
	for _, f := range functions {
		list = append(list, definitionOf(f))
	}
	var got []string
	for _, d := range pruneFunctions(append(list, main), []*syntax.Definition{main}) {
		got = append(got, d.String())
	}
	want := []string{
		"#define INF 1.0\n",
		"// Reads a.\nuint low(uint at) {\n    return data[at].block;\n}\n",
		"float back(const in uint, const in uint, const in float x, const in float b) {\n    return x + b;\n}\n",
		"uint high() {\n    return low(3u); // e\n}\n",
		"uint none() {\n    return INF;\n}\n",
		"float largest(float x[32]) {\n    return x[3];\n}\n",
		"void main() {\n    x = high() + high();\n    apply(m, back, none(), largest(v));\n}\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// definitionOf parses a definition.
func definitionOf(source string) *syntax.Definition {
	d, err := syntax.ParseDefinition(source)
	if err != nil {
		panic(err)
	}
	return d
}

// TestCallsForIndices: a shader reads an array by address through a macro, also inside the array's own index. An
// array that is passed as a whole is unchanged.
func TestCallsForIndices(t *testing.T) {
	for body, want := range map[string]string{
		"y = x[i + n[2]] + xs[3];":  "y = x(i + n[2]) + xs[3];",
		"x[x[x[0]] + 1] = v.x;":     "x(x(x(0)) + 1) = v.x;",
		"coopMatLoad(m, x, 0, 16);": "",
		"y = x[0] + x;":             "",
		"y = 1;":                    "y = 1;",
	} {
		d := definitionOf("void main() {\n" + body + "\n}\n")
		if ok := onlyIndexed([]*syntax.Definition{d}, "x"); ok != (want != "") {
			t.Errorf("%q: %v", body, ok)
		} else if !ok {
			continue
		}
		d = d.Map(func(x *syntax.Expr) *syntax.Expr { return callForIndex(x, "x") })
		if have := d.String(); have != "void main() {\n    "+want+"\n}\n" {
			t.Errorf("%q: %s", body, have)
		}
	}
}
