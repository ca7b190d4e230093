package clienttest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vkc-go/vkc/grammar"
)

// ecma is a pattern of ECMA-262 for the validator, which has Go's otherwise.
type ecma struct{ *regexp2.Regexp }

func (e ecma) MatchString(s string) bool {
	ok, err := e.Regexp.MatchString(s)
	return ok && err == nil
}

func newECMA(source string) (jsonschema.Regexp, error) {
	re, err := regexp2.Compile(source, regexp2.ECMAScript|regexp2.Unicode)
	return ecma{re}, err
}

// vocabulary has all bytes and some longer tokens.
func vocabulary() (*grammar.Vocabulary, []string) {
	var pieces []string
	for b := range 256 {
		pieces = append(pieces, string([]byte{byte(b)}))
	}
	pieces = append(pieces, `":`, `",`, `"}`, `{"`, ` "`, "true", "null", "name", "kind", "2024-0", "http", "00", `\u00`, "é", "中")
	return grammar.NewVocabulary(append(pieces, "<end>"), []int32{int32(len(pieces))}), pieces
}

// walked returns a random text of a grammar, and whether it came to an end.
func walked(t *testing.T, c *grammar.Constraint, pieces []string, r *rand.Rand) (text string, whole bool) {
	at, err := c.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for range 400 {
		if at.Full() || at.Ends() && r.IntN(3) == 0 {
			return text, true
		}
		mask, err := at.Mask()
		if err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		var allowed, closing []int32
		for id, p := range pieces {
			if mask.Allows(int32(id)) {
				if allowed = append(allowed, int32(id)); strings.ContainsAny(p, `"]}`) {
					closing = append(closing, int32(id))
				}
			}
		}
		if len(closing) > 0 && r.IntN(3) == 0 {
			allowed = closing
		}
		if len(allowed) == 0 {
			return text, at.Ends()
		}
		id := allowed[r.IntN(len(allowed))]
		text += pieces[id]
		if err := at.Take(id); err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
	}
	return text, false
}

// TestSchemas: each text of a grammar is valid by its schema, as another implementation judges, for schemas as
// libraries write them and for random ones.
func TestSchemas(t *testing.T) {
	data, err := os.ReadFile("testdata/schemas.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	named, r := len(list), rand.New(rand.NewPCG(42, 0))
	for len(list) < named+150 {
		schema, err := json.Marshal(randomSchema(r, 2))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(schema))
	}
	v, pieces := vocabulary()
	texts, empty := 0, 0
	for i, source := range list {
		g, err := grammar.ParseSchema([]byte(source))
		if err != nil {
			if i < named {
				t.Errorf("%s: %v", source, err)
			} else if empty++; !strings.Contains(err.Error(), "no finite text") && !strings.Contains(err.Error(), "forbids") {
				t.Errorf("%s: %v", source, err)
			}
			continue
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(source))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		c.UseRegexpEngine(newECMA)
		if err := c.AddResource("schema.json", doc); err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		judge, err := c.Compile("schema.json")
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		constraint, ended := grammar.New(g, v), 0
		for range 12 {
			text, whole := walked(t, constraint, pieces, r)
			if !whole {
				continue
			}
			ended++
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err == nil {
				err = judge.Validate(value)
			}
			if err != nil {
				t.Errorf("%s: %q: %v", source, text, err)
				break
			}
		}
		if texts += ended; ended == 0 && i < named {
			t.Errorf("%s: no text ended", source)
		}
	}
	if len(list)-empty < 200 {
		t.Errorf("%d schemas: want 200", len(list)-empty)
	}
	t.Logf("%d schemas, %d texts", len(list)-empty, texts)
}

// randomSchema returns a schema of the supported keywords.
func randomSchema(r *rand.Rand, depth int) any {
	pick := func(list ...any) any { return list[r.IntN(len(list))] }
	some := func(o map[string]any, key string, v any) {
		if r.IntN(2) == 0 {
			o[key] = v
		}
	}
	kind := r.IntN(8)
	if depth == 0 {
		kind = r.IntN(4)
	}
	switch kind {
	case 0:
		o := map[string]any{"type": "string"}
		low := r.IntN(4)
		some(o, "minLength", low)
		some(o, "maxLength", low+r.IntN(9))
		switch r.IntN(3) {
		case 0:
			o["pattern"] = pick("^[a-z]", "[0-9]$", "^(?!a)", "a|b", "^(?:(?!--)[a-z-])*$", "^[^/]+$", "é", `^\w+$`, `\S`)
		case 1:
			return map[string]any{"type": "string", "format": pick("date-time", "date", "time", "email", "uri", "uuid",
				"ipv4", "ipv6", "duration", "hostname", "json-pointer")}
		}
		return o
	case 1:
		o := map[string]any{"type": pick("integer", "number")}
		low := json.Number(fmt.Sprintf("%d.%02d", r.IntN(40)-20, r.IntN(100)))
		some(o, pick("minimum", "exclusiveMinimum").(string), low)
		some(o, pick("maximum", "exclusiveMaximum").(string), json.Number(fmt.Sprintf("%d.5", 20+r.IntN(30))))
		some(o, "multipleOf", pick(1, 10, json.Number("0.1"), json.Number("0.01")))
		return o
	case 2:
		return map[string]any{"enum": []any{"a", 1, nil, "b\"", json.Number("2.5")}[:1+r.IntN(5)]}
	case 3:
		return map[string]any{"type": pick("boolean", "null")}
	case 4:
		o := map[string]any{"type": "array", "items": randomSchema(r, depth-1)}
		some(o, "minItems", r.IntN(3))
		some(o, "maxItems", 2+r.IntN(4))
		if r.IntN(3) == 0 {
			o["prefixItems"] = []any{randomSchema(r, depth-1), randomSchema(r, depth-1)}
		} else if r.IntN(2) == 0 {
			return map[string]any{"type": "array", "uniqueItems": true, "minItems": r.IntN(3),
				"items": map[string]any{"enum": []any{"x", "y", 3, nil}}}
		}
		return o
	case 5, 6:
		properties := map[string]any{}
		for _, name := range []string{"a", "b", "xa", "é\""}[:r.IntN(5)] {
			properties[name] = randomSchema(r, depth-1)
		}
		o := map[string]any{"type": "object", "properties": properties}
		some(o, "required", []any{"a"})
		some(o, "additionalProperties", pick(false, true, randomSchema(r, depth-1)))
		if r.IntN(3) == 0 {
			o["patternProperties"] = map[string]any{pick("^x", "a$", "^.{1,3}$").(string): randomSchema(r, depth-1)}
		}
		if r.IntN(4) == 0 {
			o["propertyNames"] = pick(map[string]any{"pattern": "^[a-z]*$"}, map[string]any{"enum": []any{"a", "xa", "q"}},
				map[string]any{"maxLength": 2})
		}
		return o
	}
	list := []any{randomSchema(r, depth-1), randomSchema(r, depth-1)}
	if r.IntN(2) == 0 {
		return map[string]any{"anyOf": list}
	}
	return map[string]any{"oneOf": []any{
		map[string]any{"type": "object", "properties": map[string]any{"kind": map[string]any{"const": "a"}, "v": list[0]}},
		map[string]any{"type": "object", "properties": map[string]any{"kind": map[string]any{"const": "b"}, "v": list[1]}}}}
}
