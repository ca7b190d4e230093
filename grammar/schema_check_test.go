package grammar

import (
	"strings"
	"testing"
)

// TestUnheld: what a grammar does not hold is refused by name, or listed and tested at the end of a text.
func TestUnheld(t *testing.T) {
	for _, c := range []struct{ schema, unheld, yes, no string }{
		{`{"type":"integer","not":{"const":3}}`, "#: not", "4", "3"},
		{`{"type":"integer","multipleOf":7}`, "#: multipleOf", "14", "15"},
		{`{"type":"number","multipleOf":0.25}`, "#: multipleOf", "1.75", "1.7"},
		{`{"type":"array","uniqueItems":true}`, "#: uniqueItems", `[1,"1"]`, `[1,1.0]`},
		{`{"type":"array","contains":{"const":1},"maxContains":1}`, "#: contains", "[2,1]", "[2] [1,1]"},
		{`{"type":"object","minProperties":1,"maxProperties":2}`, "#: minProperties", `{"a":1}`, `{} {"a":1,"b":1,"c":1}`},
		{`{"type":"object","dependentRequired":{"a":["b"]}}`, "#: dependentRequired", `{"a":1,"b":1} {"b":1}`, `{"a":1}`},
		{`{"type":"object","dependentSchemas":{"a":{"required":["b"]}}}`, "#: dependentSchemas", `{"b":1}`, `{"a":1}`},
		{`{"type":"integer","if":{"minimum":5},"then":{"multipleOf":2},"else":{"maximum":2}}`, "#: if", "1 6", "7 3"},
		{`{"oneOf":[{"type":"integer"},{"type":"number","minimum":3}]}`, "#: oneOf", "2 3.5", "4"},
		{`{"properties":{"a":{"type":"string","not":{"maxLength":1}}},"required":["a"]}`, "#/properties/a: not",
			`{"a":"xy"}`, `{"a":"x"}`},
		{`{"type":"object","propertyNames":{"not":{"const":"a"}}}`, "#: propertyNames", `{"b":1}`, `{"a":1}`},
	} {
		if _, err := ParseSchema([]byte(c.schema)); err == nil || !strings.Contains(err.Error(), "is not supported") {
			t.Errorf("%s: %v", c.schema, err)
		}
		g, err := ParseSchemaPartly([]byte(c.schema))
		if err != nil || len(g.Unheld()) == 0 || !strings.Contains(strings.Join(g.Unheld(), ", "), c.unheld) {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for i, list := range []string{c.yes, c.no} {
			for text := range strings.FieldsSeq(list) {
				if _, whole := g.Match(text); !whole {
					t.Errorf("%s: %s is not a text of the grammar", c.schema, text)
				}
				if err := g.Check(text); (err == nil) != (i == 0) {
					t.Errorf("%s: %s is %v", c.schema, text, err)
				}
			}
		}
	}
	g, err := ParseSchemaPartly([]byte(`{"type":"string","x-note":5,"minLenght":3,"nullable":true}`))
	if err != nil || g.Unheld() != nil || g.Check(`7`) != nil {
		t.Errorf("annotations: %v, %v", err, g.Unheld())
	}
	for _, schema := range []string{`{"$dynamicRef":"#a"}`, `{"type":"string","pattern":"(a)\\1"}`} {
		if _, err := ParseSchemaPartly([]byte(schema)); err == nil {
			t.Errorf("%s: neither held nor tested, and taken", schema)
		}
	}
}

// TestKeywords: calls in Python have keyword arguments, in the order of the schema, with Python's literals.
func TestKeywords(t *testing.T) {
	g, err := ParseCalls("", []Function{{Name: "f", Before: "[f(", After: ")]", Keywords: true, Parameters: []byte(
		`{"type":"object","required":["city"],"properties":{"city":{"type":"string"},"days":{"type":"integer"},
		"all":{"type":["boolean","null"]},"in":{"enum":["C",true,null,[false]]},"any":{}}}`)}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`[f(city="Bonn")]`: true, `[f(city="a", days=2, all=True)]`: true, `[f(city="a",all=None)]`: true,
		`[f(city="a", in=[False])]`: true, `[f(city="a", any={"x": [True, None, 1.5]})]`: true,
		`[f()]`: false, `[f(days=2, city="a")]`: false, `[f(city="a", all=true)]`: false, `[f(city="a", in=null)]`: false,
		`[f(city="a", other=1)]`: false, `[f(city="a",)]`: false, `[f(city="a", any=false)]`: false,
	} {
		if _, whole := g.Match(text); whole != want {
			t.Errorf("%s is allowed: %v", text, whole)
		}
	}
	if _, err := ParseCalls("", []Function{{Name: "f", Keywords: true, Parameters: []byte(
		`{"properties":{"a-b":{}}}`)}}, ""); err == nil || !strings.Contains(err.Error(), "valid name in Python") {
		t.Errorf("a name that Python does not have: %v", err)
	}
}
