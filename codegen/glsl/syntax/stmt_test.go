package syntax

import (
	"strings"
	"testing"
)

func definition(t *testing.T, source string) *Definition {
	t.Helper()
	d, err := ParseDefinition(source)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRoundTrip: the printer reproduces the parser's source, for all kinds of statements.
func TestRoundTrip(t *testing.T) {
	for _, source := range []string{
		"// Half of x,\n// exactly.\nfloat half_of(const in float x, float y[4]) {\n    return 0.5 * x;\n}\n",
		"void wait() {\n    if (f(x)) {\n    }\n}\n",
		"#define INF uintBitsToFloat(0x7f800000u)\n",
		"#define exp(x) mix(exp(x), x, isnan(x))\n",
		"// Some.\nconst uint ODD[2] = uint[](1u, 3u);\n",
		"uint one(uint a) { return a * 2u; }\n",
		"vec2 fit(float x[32], uint count,\n         out vec2 line) {\n    return line;\n}\n",
		`void all(inout float a[4]) {
    uint n = 1u, m[2]; // two
    const float c = -1.0e-5, d = .5;

    precise vec2 p = vec2(c, -d) + vec2(a[n], a[m[0] + 1u]);
    for (uint i = 0u; i < n; ++i) a[i] = 0.0;
    [[dont_unroll]] for (int i = 3; i > 0; i >>= 1) { // down
        if (i == 2 || !(c < d)) continue;
        if (a[i] > -(-c)) {
            a[i] -= 1.0;
        } else if (isnan(d)) {
            break;
        } else {
            m[i & 1] |= ~n << 3u;
        }
    }
    for (;; ++n) {
        while (n < 3u) m[0] += m[n++];
        // nothing more
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> f = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(0.0);
    coopMatLoad(f, tiles, 0u, 8u, gl_CooperativeMatrixLayoutRowMajor);
    a[0] = (n > 1u ? c : d) + float(f.length()) * float[2](c, d)[1] + bytes(x) +
        p.yx.x * (c - (d - c)) / (c * d);
    {
        barrier();
    }
    return;
}
`,
	} {
		if have := definition(t, source).String(); have != source {
			t.Errorf("%s\nis printed as\n%s", source, have)
		}
	}
}

// TestParseErrors: source that the generator would not write is an error with a position.
func TestParseErrors(t *testing.T) {
	for source, want := range map[string]string{
		"a = ;":            "unexpected \";\"",
		"a = b":            "where \";\" should be",
		"uint a = f(b;":    "where \",\" should be",
		"if (a) {":         "ends too early",
		"a b c;":           "where \";\" should be",
		"x[1 = 2;":         "where \"]\" should be",
		"goto 3;":          "where \";\" should be",
		"(a)(b);":          "what is called is not a function",
		"for (a; b) c;":    "where \";\" should be",
		"float x = \"s\";": "unexpected",
	} {
		if _, err := Statements(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", source, err)
		}
	}
	for _, format := range []string{"%s = %s;", "%s = 1;"} {
		if _, err := Format(format, (*Expr)(nil)); err == nil {
			t.Errorf("%q of nothing is taken", format)
		}
	}
}

// TestFormat: trees stand for themselves, with the parentheses that they need, and everything else is source.
func TestFormat(t *testing.T) {
	sum, err := Expression("a + b")
	if err != nil {
		t.Fatal(err)
	}
	list, err := Format("%s x_%d = %s * %[3]s.x %% %du & %#xu - f(%[3]s, -%[3]s);", "uint", 2, sum, 3, 255)
	if err != nil {
		t.Fatal(err)
	}
	const want = "uint x_2 = (a + b) * (a + b).x % 3u & 0xffu - f(a + b, -(a + b));\n"
	if have := printed(list); have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}

// TestRenamed: names change where they stand alone, but not in comments, after a dot or inside longer names.
func TestRenamed(t *testing.T) {
	d := definition(t, "// About x.\nuint f(uint x, uint b) {\n    return x + v.x + f_x + f(b, 1u); // x\n}\n")
	names := map[string]string{"x": "y", "f": "g", "b": "c"}
	const want = "// About x.\nuint g(uint y, uint c) {\n    return y + v.x + f_x + g(c, 1u); // x\n}\n"
	have := d.Renamed(names)
	if have.String() != want || have.Signature() != "g(uint, uint)" {
		t.Errorf("have %s", have)
	}
	if d.Name != "f" {
		t.Errorf("the definition itself is %s", d)
	}
	if m := definition(t, "#define x 1\n").Renamed(names); m.IsFunction() || m.Signature() != "y" {
		t.Errorf("have %#v", m)
	}
}

// TestSignature: two functions of one name are the same to GLSL if their parameter types are the same. The names of
// parameters and the result type do not matter.
func TestSignature(t *testing.T) {
	for head, want := range map[string]string{
		"uint f(uint a, float x[4])":                  "f(uint, float[4])",
		"float f(uint b, float y[4])":                 "f(uint, float[4])",
		"void f(inout float sum, const in uint)":      "f(float, uint)",
		"float f(const in uint row, const in vec4 x)": "f(uint, vec4)",
		"float f()": "f()",
	} {
		if have := definition(t, head+" {\n}\n").Signature(); have != want {
			t.Errorf("%s: %s, want %s", head, have, want)
		}
	}
}

// TestPrecise: a precise operation prints as a call, needs no parentheses, and mentions the function that it calls.
func TestPrecise(t *testing.T) {
	x := &Expr{Op: Binary, Text: "+", Precise: true, Type: "float", Args: []*Expr{Ident("a"), Ident("b")}}
	twice := &Expr{Op: Binary, Text: "*", Args: []*Expr{x, Ident("c")}}
	if have, want := twice.String(), "fadd(a, b) * c"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
	var names []string
	twice.visitNames(func(n string) { names = append(names, n) })
	if have, want := strings.Join(names, " "), "fadd a b c"; have != want {
		t.Errorf("it mentions %s, want %s", have, want)
	}
	plain := *x
	plain.Precise = false
	if Equal(x, &plain) {
		t.Error("a precise sum equals a plain one")
	}
}

// printed returns statements as GLSL.
func printed(list []Stmt) string {
	var p printer
	p.stmts(list)
	return p.b.String()
}
