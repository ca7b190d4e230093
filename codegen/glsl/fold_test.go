package glsl

import "testing"

func TestFolding(t *testing.T) {
	lit := func(s string) text { return numberLit(s) }
	x, sum, product := primary("x"), primary("x + 3u"), primary("y + x * 4u")
	tests := []struct {
		got  text
		want string
	}{
		{binary("*", x, lit("1u")), "x"},
		{binary("/", sum, lit("1u")), "x + 3u"},
		{binary("+", lit("0u"), x), "x"},
		{binary("-", lit("0u"), x), "0u - x"},
		{binary("<<", x, lit("0u")), "x"},
		{binary("*", lit("0u"), x), "0u"},
		{binary("%", x, lit("1u")), "0u"},
		{binary("%", x, lit("1")), "x % 1"},     // a remainder's sign has rules of its own
		{binary("+", x, lit("0.0")), "x + 0.0"}, // 0 + -0 is 0
		{binary("*", x, lit("1.0")), "x"},
		{binary("*", x, lit("0.0")), "x * 0.0"},
		{binary("+", lit("3u"), lit("4u")), "7u"},
		{binary("-", lit("3u"), lit("4u")), "4294967295u"},
		{binary("-", lit("3"), lit("4")), "-1"},
		{binary("+", lit("2147483647"), lit("1")), "2147483647 + 1"},
		{binary("/", lit("7u"), lit("0u")), "7u / 0u"},
		{binary("&", lit("30u"), lit("31u")), "30u"},
		{binary("<", lit("3u"), lit("4u")), "true"},
		{binary("+", lit("3"), lit("4u")), "3 + 4u"},
		{binary("+", sum, lit("4u")), "x + 7u"},
		{binary("-", sum, lit("4u")), "x - 1u"},
		{binary("-", sum, lit("3u")), "x"},
		{binary("*", sum, lit("4u")), "(x + 3u) * 4u"},
		{binary("*", product, lit("4u")), "(y + x * 4u) * 4u"},
		{binary("/", binary("/", sum, lit("4u")), lit("8u")), "(x + 3u) / 32u"},
		{binary("/", binary("/", x, lit("65536u")), lit("65536u")), "x / 65536u / 65536u"},
		{binary("/", binary("*", x, lit("4u")), lit("4u")), "x * 4u / 4u"}, // the multiplication may wrap
		{binary("*", binary("*", x, lit("4u")), lit("8u")), "x * 32u"},
		{binary("*", lit("2.0"), lit("0.25")), "0.5"},
		{binary("+", lit("0.1"), lit("0.2")), "0.3"},
		{binary("*", lit("1e-30"), lit("1e-30")), "1e-30 * 1e-30"},
		{binary("*", lit("1e30"), lit("1e30")), "1e30 * 1e30"},
		{binary("&&", x, primary("true")), "x"},
		{binary("||", x, primary("true")), "true"},
		{unary("~", lit("1u")), "0xfffffffeu"},
		{call("uint", lit("3")), "3u"},
		{call("float", lit("-3")), "-3.0"},
		{call("float", lit("16777217")), "float(16777217)"},
		{call("min", lit("3u"), lit("4u")), "3u"},
		{call("min", x, lit("0u")), "0u"},
		{call("max", x, lit("0")), "max(x, 0)"},
		{ternary(primary("true"), x, sum), "x"},
		{ternary(sum, x, x), "x"},
	}
	for i, tt := range tests {
		if tt.got.String() != tt.want {
			t.Errorf("%d: got %s, want %s", i, tt.got, tt.want)
		}
	}
}
