package expr

import "testing"

func TestFolding(t *testing.T) {
	lit := func(s string) Expr { return Number(s) }
	x, sum, product := Of("x"), Of("x + 3u"), Of("y + x * 4u")
	tests := []struct {
		got  Expr
		want string
	}{
		{Binary("*", x, lit("1u")), "x"},
		{Binary("/", sum, lit("1u")), "x + 3u"},
		{Binary("+", lit("0u"), x), "x"},
		{Binary("-", lit("0u"), x), "0u - x"},
		{Binary("<<", x, lit("0u")), "x"},
		{Binary("*", lit("0u"), x), "0u"},
		{Binary("%", x, lit("1u")), "0u"},
		{Binary("%", x, lit("1")), "x % 1"},     // a remainder's sign has rules of its own
		{Binary("+", x, lit("0.0")), "x + 0.0"}, // 0 + -0 is 0
		{Binary("*", x, lit("1.0")), "x"},
		{Binary("*", x, lit("0.0")), "x * 0.0"},
		{Binary("+", lit("3u"), lit("4u")), "7u"},
		{Binary("-", lit("3u"), lit("4u")), "4294967295u"},
		{Binary("-", lit("3"), lit("4")), "-1"},
		{Binary("+", lit("2147483647"), lit("1")), "2147483647 + 1"},
		{Binary("/", lit("7u"), lit("0u")), "7u / 0u"},
		{Binary("&", lit("30u"), lit("31u")), "30u"},
		{Binary("<", lit("3u"), lit("4u")), "true"},
		{Binary("+", lit("3"), lit("4u")), "3 + 4u"},
		{Binary("+", sum, lit("4u")), "x + 7u"},
		{Binary("-", sum, lit("4u")), "x - 1u"},
		{Binary("-", sum, lit("3u")), "x"},
		{Binary("*", sum, lit("4u")), "(x + 3u) * 4u"},
		{Binary("*", product, lit("4u")), "(y + x * 4u) * 4u"},
		{Binary("/", Binary("/", sum, lit("4u")), lit("8u")), "(x + 3u) / 32u"},
		{Binary("/", Binary("/", x, lit("65536u")), lit("65536u")), "x / 65536u / 65536u"},
		{Binary("/", Binary("*", x, lit("4u")), lit("4u")), "x * 4u / 4u"}, // the multiplication may wrap
		{Binary("*", Binary("*", x, lit("4u")), lit("8u")), "x * 32u"},
		{Binary("*", lit("2.0"), lit("0.25")), "0.5"},
		{Binary("+", lit("0.1"), lit("0.2")), "0.3"},
		{Binary("*", lit("1e-30"), lit("1e-30")), "1e-30 * 1e-30"},
		{Binary("*", lit("1e30"), lit("1e30")), "1e30 * 1e30"},
		{Binary("&&", x, Of("true")), "x"},
		{Binary("||", x, Of("true")), "true"},
		{Unary("~", lit("1u")), "0xfffffffeu"},
		{Call("uint", lit("3")), "3u"},
		{Call("float", lit("-3")), "-3.0"},
		{Call("float", lit("16777217")), "float(16777217)"},
		{Call("min", lit("3u"), lit("4u")), "3u"},
		{Call("min", x, lit("0u")), "0u"},
		{Call("max", x, lit("0")), "max(x, 0)"},
		{Choose(Of("true"), x, sum), "x"},
		{Choose(sum, x, x), "x"},
	}
	for i, tt := range tests {
		if tt.got.String() != tt.want {
			t.Errorf("%d: got %s, want %s", i, tt.got, tt.want)
		}
	}
}
