package passes

import (
	"slices"
	"strings"
	"testing"
)

func TestCheckTable(t *testing.T) {
	row := func(name, why string) Pass { return Pass{Name: name, Why: why} }
	a, b := row("a", "first things first"), row("b", "then the rest")
	tests := []struct {
		name  string
		table []Pass
		rules []constraint
		want  string
	}{
		{"in order", []Pass{a, b}, []constraint{{list{"a"}, list{"b"}, "b reads what a wrote"}}, ""},
		{"no rules", []Pass{b, a}, nil, ""},
		{"out of order", []Pass{b, a}, []constraint{{list{"a"}, list{"b"}, "b reads what a wrote"}}, "a must run before b: b reads what a wrote"},
		{"a rule about no pass", []Pass{a, b}, []constraint{{list{"a"}, list{"c"}, "c is last"}}, "a must run before c"},
		{"a rule without a reason", []Pass{a, b}, []constraint{{list{"a"}, list{"b"}, ""}}, "a must run before b"},
		{"a pass before itself", []Pass{a}, []constraint{{list{"a"}, list{"a"}, "never"}}, "a must run before a"},
		{"no reason", []Pass{row("a", "")}, nil, "a does not say why"},
		{"twice", []Pass{a, a}, nil, "a is there twice"},
	}
	for _, tt := range tests {
		err := checkTable(tt.table, tt.rules)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestEveryPassIsConstrained: every pass except the first and last must declare its order relative to another one, so
// that the order is not accidental.
func TestEveryPassIsConstrained(t *testing.T) {
	for _, p := range Passes() {
		if !slices.ContainsFunc(constraints, func(c constraint) bool {
			return slices.Contains(c.Before, p.Name) || slices.Contains(c.After, p.Name)
		}) {
			t.Errorf("no constraint says where %s stands", p.Name)
		}
	}
}
