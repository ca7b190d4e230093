package glsl

import (
	"slices"
	"strings"
	"testing"
)

func TestPruned(t *testing.T) {
	got := pruned([]string{
		"uint a = 1u;",
		"uint b = 1u;",
		"uint unused = a;",
		"float x[4];",
		"float read[2];",
		"for (uint n = 0u; n < 4u; ++n) {",
		"    float written;",
		"    written = sqrt(2.0);",
		"    x[n] += written;",
		"}",
		"uint a_2 = v.unused;",
		"if (a_2 < b) {",
		"    // about unused",
		"    y = 2.0;",
		"    read[0] = y;",
		"    z[b] = read[0];",
		"}",
	})
	want := []string{"uint b = 1u;", "float read[2];", "uint a_2 = v.unused;", "if (a_2 < b) {", "    // about unused",
		"    y = 2.0;", "    read[0] = y;", "    z[b] = read[0];", "}"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

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
	main := []string{"x = high(a, b[1u, 2u]) + high(high(1u, 2u), 3u);",
		"apply(m, back, first(1u, 2u), none(5u), largest(v, 6u));"}
	var list []definition
	for _, f := range functions {
		list = append(list, parseDefinition(f))
	}
	var got []string
	for _, d := range pruneFunctions(list, nil, main) {
		got = append(got, d.String())
	}
	want := []string{
		"#define INF 1.0\n",
		"// Reads a.\nuint low(uint at) {\n    return data[at].block;\n}\n",
		"float back(const in uint, const in uint, const in float x, const in float b) {\n    return x + b;\n}\n",
		"uint high() {\n    return low(3u); // e\n}\n",
		"uint none() {\n    return INF;\n}\n",
		"float largest(float x[32]) {\n    return x[3];\n}\n",
		"x = high() + high();", "apply(m, back, none(), largest(v));",
	}
	if got = append(got, main...); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// TestCallsForIndices: an array behind an address is read by a macro, also inside its own index; one that is handed on
// as a whole is left alone.
func TestCallsForIndices(t *testing.T) {
	for text, want := range map[string]string{

		"y = x[i + n[2]] + xs[3];":  "y = x(i + n[2]) + xs[3];",
		"x[x[x[0]] + 1] = v.x;":     "x(x(x(0)) + 1) = v.x;",
		"coopMatLoad(m, x, 0, 16);": "",
		"y = 1;":                    "y = 1;",
		"y = x[1":                   "",
	} {
		if have, ok := callsForIndices(text, "x"); have != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", text, have, ok)
		}
	}
}
