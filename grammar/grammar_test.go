package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// smallVocabulary has every byte, and tokens that cross the parts of a text and its characters. The last one
// ends a text.
func smallVocabulary() *Vocabulary {
	var pieces []string
	for b := range 256 {
		pieces = append(pieces, string([]byte{byte(b)}))
	}
	pieces = append(pieces, `{"`, `":`, `": `, `","`, `",`, `"}`, `"}]`, `}}`, `]}`, `, "`, `[[`, `[]`, `{}`, `null`, `tr`, `ue`,
		`12`, `0.`, `e+`, `-1`, `\"`, `\u`, `\ud8`, "\xc3", "\xa9\"", "\xe2\x82", "\xac", "\xf0\x9f\x98\x80", "é", "name", ` "name"`,
		"\n  ", "a\": 1", `kind`, `"kind":"circle`, "2024-", "-02-2", "aab", "")
	return NewVocabulary(pieces, []int32{int32(len(pieces) - 1)})
}

// walk writes a text by tokens that are allowed, chosen by chance, and reports whether it ended.
func walk(t *testing.T, c *Constraint, r *rand.Rand) (string, bool) {
	t.Helper()
	at, err := c.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var out string
	for range 300 {
		mask, err := at.Mask()
		if err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		var allowed, closing []int32
		for id := range int32(len(c.v.pieces)) {
			if !mask.Allows(id) {
				continue
			}
			allowed = append(allowed, id)
			if strings.ContainsAny(c.v.pieces[id], `"]}`) {
				closing = append(closing, id)
			}
		}
		end := c.v.ends[0]
		if mask.Allows(end) != at.Ends() {
			t.Fatalf("after %q the end is allowed: %v, and the text whole: %v", out, mask.Allows(end), at.Ends())
		}
		if at.Full() || at.Ends() && r.IntN(4) == 0 {
			return out, true
		}
		id := allowed[r.IntN(len(allowed))]
		if len(closing) > 0 && r.IntN(3) == 0 {
			id = closing[r.IntN(len(closing))]
		}
		if id == end {
			return out, true
		}
		if err := at.Take(id); err != nil {
			t.Fatalf("after %q the mask allows %q: %v", out, c.v.pieces[id], err)
		}
		out += c.v.pieces[id]
	}
	return out, false
}

// begun checks that the grammar accepts every prefix of a text and the whole text, and that masks allow every token
// that continues it.
func begun(t *testing.T, g *Grammar, text string) {
	t.Helper()
	for i := range len(text) + 1 {
		begins, whole := g.Match(text[:i])
		if !begins || i == len(text) && !whole {
			t.Errorf("%q: the first %d bytes are allowed: %v, whole: %v", text, i, begins, whole)
			return
		}
	}
	c := New(g, smallVocabulary())
	for from := 0; from < len(text); {
		at, err := c.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for i := range from {
			if err := at.Take(int32(text[i])); err != nil {
				t.Fatal(err)
			}
		}
		mask, err := at.Mask()
		if err != nil {
			t.Fatal(err)
		}
		for id, p := range c.v.pieces {
			begins, _ := g.Match(text[:from] + p)
			if want := begins && p != ""; p != "" && mask.Allows(int32(id)) != want {
				t.Fatalf("after %q token %q is allowed: %v, want %v", text[:from], p, !want, want)
			}
		}
		from += 1 + from/4
	}
}

const arithmetic = `
# sums of products
root ::= sum "\n"?
sum ::=
    product ( ("+" | "-") product )*
product ::= factor ("*" factor)*
factor ::= [0-9]{1,3} | "(" sum ")" | word
word ::= [^\x00-\x7F]+ | "\u00e9" [a-cx-z_-]
`

func TestGBNF(t *testing.T) {
	g, err := ParseGBNF(arithmetic)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]bool{
		"1+2*(3-é€)": {true, true}, "1+": {true, false}, "": {true, false}, "1234": {false, false}, "((1)": {true, false},
		"1\n": {true, true}, "1\n\n": {false, false}, "\xc3": {true, false}, "\xc3\x28": {false, false}, "éx": {true, true},
		"a": {false, false}, "\xed\xa0\x80": {false, false}, "\xf4\x90": {false, false}, "😀": {true, true},
	} {
		if begins, whole := g.Match(text); begins != want[0] || whole != want[1] {
			t.Errorf("%q: begins %v, whole %v, want %v", text, begins, whole, want)
		}
	}
	begun(t, g, "12*(3+é)-😀")
	ok := regexp.MustCompile(`^[0-9()+*\-a-cx-z_\x{80}-\x{10FFFF}]+\n?$`)
	c, r := New(g, smallVocabulary()), rand.New(rand.NewPCG(1, 0))
	ended := 0
	for range 200 {
		text, whole := walk(t, c, r)
		if !whole {
			continue
		}
		ended++
		if !utf8.ValidString(text) || !ok.MatchString(text) || strings.Count(text, "(") != strings.Count(text, ")") {
			t.Errorf("%q is no sum", text)
		}
	}
	if ended < 100 {
		t.Errorf("only %d texts ended", ended)
	}
}

func TestGBNFErrors(t *testing.T) {
	for source, want := range map[string]string{
		"":                               `no rule "root"`,
		"a ::= \"x\"":                    `no rule "root"`,
		"root ::= a":                     `no rule "a"`,
		"root ::= \"x":                   "does not end",
		"root ::= [a":                    "does not end",
		"root ::= (\"a\"":                "want )",
		"root ::= * \"a\"":               "nothing before it",
		"root ::= \"a\"{3,2}":            "n no less than m",
		"root ::= \"a\"{99999999}":       "a repetition is",
		"root ::= [z-a]":                 "is empty",
		"root ::= \"\\q\"":               "unknown escape",
		"root ::= \"\\ud800\"":           "hexadecimal",
		"root ::= \"a\"\nroot ::= \"b\"": "line 2: rule \"root\" is there twice",
		"root ::= root \"a\" | \"b\"":    "rule root begins with itself",
		"root ::= x | \"b\"\nx ::= \"\"? root \"a\"":         "begins with itself",
		"root ::= \"a\" root":                                "no finite text",
		"root ::= <[12]>":                                    "want a literal",
		"root ::= ((\"a\"{1000}){1000}){1000} \"b\"{130000}": "more than",
		strings.Repeat("#", maxSource+1):                     "want at most",
		"root ::= " + strings.Repeat("(", 200):               "nest deeper",
		"root ::= \"\xff\"":                                  "UTF-8",
	} {
		if _, err := ParseGBNF(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q", source, err, want)
		}
	}
}

// TestBounds: nesting is limited to a depth, right recursion is not, and too ambiguous grammars are errors.
func TestBounds(t *testing.T) {
	g := JSON(false)
	if begins, _ := g.Match(strings.Repeat("[", maxDepth/2-2)); !begins {
		t.Error("a deep text is not allowed")
	}
	if begins, _ := g.Match(strings.Repeat("[", 2*maxDepth)); begins {
		t.Error("a text is allowed however deep it is")
	}
	g, err := ParseGBNF(`root ::= "a" root | "b"`)
	if err != nil {
		t.Fatal(err)
	}
	if _, whole := g.Match(strings.Repeat("a", 5*maxDepth) + "b"); !whole {
		t.Error("a call in last place takes room")
	}
	var b strings.Builder
	b.WriteString("root ::= r0\n")
	for i := range 40 {
		fmt.Fprintf(&b, "r%d ::= r%d \"x%[1]d\" | r%[2]d \"y%[1]d\"\n", i, i+1)
	}
	b.WriteString("r40 ::= \"a\"\n")
	if g, err = ParseGBNF(b.String()); err != nil {
		t.Fatal(err)
	}
	if _, err := New(g, smallVocabulary()).Begin(); err == nil || !strings.Contains(err.Error(), "ambiguous") {
		t.Errorf("error %v", err)
	}
}

func TestJSON(t *testing.T) {
	value, object := JSON(false), JSON(true)
	for text, want := range map[string][2]bool{
		`1`: {true, false}, `{}`: {true, true}, `[]`: {true, false}, `{"a":[1,2.5e-3,{"b":null}]}`: {true, true},
		`"\ud83d\ude00é😀\n"`: {true, false}, `-0.0`: {true, false}, `01`: {false, false}, `1.`: {false, false},
		`"\ud83d"`: {false, false}, `{"a":}`: {false, false}, `[1,]`: {false, false}, "\"\n\"": {false, false},
		"{\n  \"a\": [\n    1,\n    true\n  ]\n}": {true, true}, ` 1`: {false, false}, "\"\xff\"": {false, false},
	} {
		if _, whole := value.Match(text); whole != want[0] {
			t.Errorf("%s is a value: %v, want %v", text, whole, want[0])
		}
		if _, whole := object.Match(text); whole != want[1] {
			t.Errorf("%s is an object: %v, want %v", text, whole, want[1])
		}
		if want[0] {
			begun(t, value, text)
		}
	}
	c, r := New(value, smallVocabulary()), rand.New(rand.NewPCG(2, 0))
	for range 300 {
		if text, whole := walk(t, c, r); whole && !json.Valid([]byte(text)) {
			t.Errorf("%q is not JSON", text)
		}
	}
}

// schemaCases are schemas with texts that are valid and canonical, and texts that are not valid.
var schemaCases = []struct{ schema, valid, invalid string }{
	{`true`, `{"a":1}|null`, `nul|`},
	{`{"type":"integer"}`, `0|-12`, `1.5|"1"|01`},
	{`{"type":["string","null"]}`, `"x"|null`, `1`},
	{`{"type":"integer","minimum":-12,"exclusiveMaximum":1234}`, `-12|-9|0|7|10|99|100|1233|-10`, `-13|1234|9999|-20|1.5`},
	{`{"type":"integer","minimum":8}`, `8|9|10|123456789012`, `7|-8|0|08`},
	{`{"type":"number","exclusiveMinimum":0,"maximum":1}`, `0.5|1|0.0001|1.0`, `0|0.0|1.01|-0.5|2`},
	{`{"type":"number","minimum":-3,"maximum":-1}`, `-1|-1.5|-3.00|-2`, `-0.5|-3.01|1`},
	{`{"type":"string","minLength":2,"maxLength":3}`, `"ab"|"éé😀"|"\"\\\n"`, `"a"|"abcd"`},
	{`{"type":"string","pattern":"^(\\d{3}-)?[a-f]+$"}`, `"123-abc"|"f"`, `"12-a"|""|"g"`},
	{`{"type":"string","pattern":"a.b"}`, `"a\"b"|"xaxbx"|"a.b"`, `"ab"|"a\nb"`},
	{`{"type":"string","format":"date"}`, `"2024-02-28"|"1999-12-31"`, `"2024-02-30"|"2024-13-01"|"x"`},
	{`{"enum":["red",1,null,{"a":[true]}]}`, `"red"|1|null|{"a":[true]}`, `"blue"|2`},
	{`{"const":"é"}`, `"é"`, `"e"`},
	{`{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3}`, `[true]|[true,false,true]`, `[]|[1]|[true,true,true,true]`},
	{`{"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":1}`, `[1]|[1,"x"]`, `[]|["x"]|[1,"x",2]`},
	{`{"type":"array","prefixItems":[{"const":1}],"items":{"const":2},"minItems":2}`, `[1,2]|[1,2,2]`, `[1]|[2,2]`},
	{`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0},"tags":{"type":"array",
	  "items":{"type":"string"}}},"required":["name","tags"],"additionalProperties":false}`,
		`{"name":"x","tags":[]}|{"name":"","age":3,"tags":["a","b"]}`, `{}|{"name":"x"}|{"name":"x","tags":[],"b":1}|{"name":1,"tags":[]}`},
	{`{"properties":{"a":{"type":"integer"},"ab":{"const":1}}}`, `{}|{"a":1}|{"ab":1}|{"a":1,"b":[]}|{"aa":"x"}|{"":1}|{"abc":1}`,
		`{"a":"x"}|{"ab":2}`},
	{`{"type":"object","additionalProperties":{"type":"integer"}}`, `{}|{"x":1,"y":2}`, `{"x":"y"}`},
	{`{"type":"object","required":["kind"]}`, `{"kind":1}|{"kind":null,"b":2}`, `{}|{"b":2}`},
	{`{"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},
	  {"type":"null"}]}},"required":["v","next"],"additionalProperties":false}},"$ref":"#/$defs/node"}`,
		`{"v":1,"next":null}|{"v":1,"next":{"v":2,"next":null}}`, `{"v":1}|{"v":1,"next":1}`},
	{`{"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"integer"}},"required":["kind","r"],
	  "additionalProperties":false},{"type":"object","properties":{"kind":{"const":"square"},"w":{"type":"integer"}},
	  "required":["kind","w"],"additionalProperties":false}]}`, `{"kind":"circle","r":1}|{"kind":"square","w":2}`,
		`{"kind":"circle","w":1}|{}`},
	{`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"string"}},
	  "required":["b"]}]}`, `{"a":1,"b":"x"}`, `{"a":1}|{"b":"x"}`},
	{`{"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
		`{"a":1}|{"b":1}|{"a":1,"b":2}`, `{}|{"a":"x"}`},
	{`{"type":"array","items":{"$ref":"#"},"maxItems":2,"title":"trees","$comment":"x","default":[]}`, `[]|[[],[[]]]`, `[1]|[[],[],[]]`},
}

func TestSchema(t *testing.T) {
	for _, c := range schemaCases {
		g, err := ParseSchema([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		check := newChecker(t, c.schema)
		for text := range strings.SplitSeq(c.valid, "|") {
			if !check.valid(text) {
				t.Errorf("%s: %s is not valid by the checker of this test", c.schema, text)
			}
			begun(t, g, text)
		}
		for text := range strings.SplitSeq(c.invalid, "|") {
			if check.valid(text) {
				t.Errorf("%s: %s is valid by the checker of this test", c.schema, text)
			}
			if _, whole := g.Match(text); whole {
				t.Errorf("%s allows %s", c.schema, text)
			}
		}
		constraint, r := New(g, smallVocabulary()), rand.New(rand.NewPCG(3, 0))
		ended := 0
		for range 60 {
			text, whole := walk(t, constraint, r)
			if whole && !check.valid(text) {
				t.Errorf("%s: %q is allowed, and not valid", c.schema, text)
			}
			if whole {
				ended++
			}
		}
		if ended == 0 {
			t.Errorf("%s: no text ended", c.schema)
		}
	}
}

func TestSchemaErrors(t *testing.T) {
	for schema, want := range map[string]string{
		``:                                     "not valid JSON",
		`{} {}`:                                "follows",
		`7`:                                    "want an object, true or false",
		`{"type":"strnig"}`:                    `type "strnig"`,
		`{"not":{}}`:                           `"not" is not supported`,
		`{"type":"number","multipleOf":2}`:     `"multipleOf" is not supported unless it is a power of ten`,
		`{"$dynamicRef":"#x"}`:                 `"$dynamicRef" is not supported`,
		`{"oneOf":[{"type":"string"},{}]}`:     `"oneOf" is not supported: branches 0 and 1`,
		`{"properties":{"a":{"if":{}}}}`:       `#/properties/a: keyword "if"`,
		`{"type":"array","uniqueItems":true}`:  `"uniqueItems" is not supported unless`,
		`{"type":"string","format":"regex"}`:   `format "regex"`,
		`{"type":"string","pattern":"a\\bc"}`:  "pattern",
		`{"type":"string","pattern":"(?<=a)"}`: "pattern",
		`{"type":"number","minimum":"0.5"}`:    "minimum is 0.5: want a number",
		`{"type":"string","minLength":-1}`:     "minLength",
		`{"$ref":"#/$defs/x"}`:                 "does not exist",
		`{"$ref":"https://example.org/x"}`:     "does not exist",
		`{"$ref":"#"}`:                         "no finite text",
		`{"type":"array","items":{"$ref":"#"},"minItems":1}`: "no finite text",
		`{"oneOf":[{"type":"integer"},{"type":"number"}]}`:   "branches 0 and 1",
		`{"anyOf":[]}`: "anyOf: want a list",
		`{"enum":[]}`:  "enum: want a list",
		`{"required":["a"],"additionalProperties":false}`:               `names "a"`,
		`{"allOf":[{"multipleOf":3},{"multipleOf":2}],"type":"number"}`: "two different values",
		`false`:                                "no finite text",
		`{"properties":{"b":{},"b":{}}}`:       `properties has the key "b" twice`,
		"{\"const\":\"\xff\"}":                 "const has bytes that are not UTF-8",
		`{"enum":["\ud800"]}`:                  "enum[0] has",
		strings.Repeat(`[`, 500):               "nested deeper",
		`{"type":"string","minLength":200000}`: "more than",
		`{"$defs":{"a":{"$ref":"#/$defs/a","type":"object"}},"$ref":"#/$defs/a"}`: "no finite text",
	} {
		if _, err := ParseSchema([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, want %q", schema, err, want)
		}
	}
	// Two branches at each of many levels are as many rules as there are levels.
	var b strings.Builder
	b.WriteString(`{"type":"object","$ref":"#/$defs/d0","$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&b, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%[2]d"}]},`, i, i+1)
	}
	b.WriteString(`"d60":{}}}`)
	if _, err := ParseSchema([]byte(b.String())); err != nil {
		t.Error(err)
	}
	// Both of two branches are refused before they are as many as they could be.
	b.Reset()
	b.WriteString(`{"allOf":[`)
	for i := range 60 {
		fmt.Fprintf(&b, `{"anyOf":[{"minLength":%d},{"maxLength":%[1]d}]},`, i)
	}
	b.WriteString(`{}]}`)
	if _, err := ParseSchema([]byte(b.String())); err == nil || !strings.Contains(err.Error(), "are too many") {
		t.Errorf("error %v", err)
	}
}

// checker validates JSON by a schema, after the words of the specification and with nothing of this package.
type checker struct {
	t    *testing.T
	root any
}

func newChecker(t *testing.T, schema string) *checker {
	c := &checker{t: t}
	if err := json.Unmarshal([]byte(schema), &c.root); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *checker) valid(text string) bool {
	var v any
	return json.Unmarshal([]byte(text), &v) == nil && utf8.ValidString(text) && c.is(v, c.root)
}

func (c *checker) is(v, schema any) bool {
	o, ok := schema.(map[string]any)
	if !ok {
		return schema.(bool)
	}
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if !c.key(k, o[k], v, o) {
			return false
		}
	}
	return true
}

func (c *checker) key(k string, want, v any, o map[string]any) bool {
	array, isArray := v.([]any)
	members, isObject := v.(map[string]any)
	s, isString := v.(string)
	n, isNumber := v.(float64)
	all := func(list []any, f func(any) bool) bool {
		return !slices.ContainsFunc(list, func(x any) bool { return !f(x) })
	}
	count := func() (n int) {
		for _, x := range want.([]any) {
			if c.is(v, x) {
				n++
			}
		}
		return n
	}
	switch k {
	case "type":
		names, ok := want.([]any)
		if !ok {
			names = []any{want}
		}
		is := map[string]bool{"array": isArray, "object": isObject, "string": isString, "number": isNumber,
			"integer": isNumber && n == float64(int64(n)), "null": v == nil, "boolean": v == true || v == false}
		return slices.ContainsFunc(names, func(x any) bool { return is[x.(string)] })
	case "enum":
		return slices.ContainsFunc(want.([]any), func(x any) bool { return reflect.DeepEqual(x, v) })
	case "const":
		return reflect.DeepEqual(want, v)
	case "anyOf":
		return count() > 0
	case "oneOf":
		return count() == 1
	case "allOf":
		return count() == len(want.([]any))
	case "$ref":
		at := c.root
		for _, key := range strings.Split(want.(string), "/")[1:] {
			at = at.(map[string]any)[key]
		}
		return c.is(v, at)
	case "minimum":
		return !isNumber || n >= want.(float64)
	case "maximum":
		return !isNumber || n <= want.(float64)
	case "exclusiveMinimum":
		return !isNumber || n > want.(float64)
	case "exclusiveMaximum":
		return !isNumber || n < want.(float64)
	case "minLength":
		return !isString || utf8.RuneCountInString(s) >= int(want.(float64))
	case "maxLength":
		return !isString || utf8.RuneCountInString(s) <= int(want.(float64))
	case "pattern":
		return !isString || regexp.MustCompile(want.(string)).MatchString(s)
	case "format":
		return !isString || regexp.MustCompile(`^\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01])$`).MatchString(s) && !strings.Contains(s, "-02-3")
	case "minItems":
		return !isArray || len(array) >= int(want.(float64))
	case "maxItems":
		return !isArray || len(array) <= int(want.(float64))
	case "prefixItems":
		for i, x := range want.([]any) {
			if i < len(array) && !c.is(array[i], x) {
				return false
			}
		}
	case "items":
		prefix, _ := o["prefixItems"].([]any)
		return all(array[min(len(prefix), len(array)):], func(x any) bool { return c.is(x, want) })
	case "properties":
		for name, x := range want.(map[string]any) {
			if v, ok := members[name]; ok && !c.is(v, x) {
				return false
			}
		}
	case "required":
		return !isObject || all(want.([]any), func(x any) bool { _, ok := members[x.(string)]; return ok })
	case "additionalProperties":
		named, _ := o["properties"].(map[string]any)
		for name, x := range members {
			if _, ok := named[name]; !ok && !c.is(x, want) {
				return false
			}
		}
	}
	return true
}

func FuzzGBNF(f *testing.F) {
	f.Add(arithmetic, "1+2")
	f.Add(`root ::= "a"{2,} [^"\\]* (. | x)? x ::= "\U0001F600"`, "aab")
	f.Fuzz(func(t *testing.T, source, text string) {
		if g, err := ParseGBNF(source); err == nil {
			fuzzed(t, g, text)
		}
	})
}

func FuzzSchema(f *testing.F) {
	for _, c := range schemaCases {
		f.Add(c.schema, c.valid)
	}
	f.Fuzz(func(t *testing.T, schema, text string) {
		if g, err := ParseSchema([]byte(schema)); err == nil {
			fuzzed(t, g, text)
		}
	})
}

// fuzzed takes the bytes of a text that are allowed, and asks for the mask.
func fuzzed(t *testing.T, g *Grammar, text string) {
	if len(text) > 1<<10 {
		text = text[:1<<10]
	}
	g.Match(text)
	at, err := New(g, smallVocabulary()).Begin()
	for i := 0; i < len(text) && err == nil; i++ {
		err = at.Take(int32(text[i]))
	}
	if at == nil || at.at == nil {
		return
	}
	mask, err := at.Mask()
	if errors.As(err, new(*TextError)) || at.at.dead() {
		return
	}
	// The vocabulary has every byte, so that something may always follow.
	if err != nil || mask.empty() {
		t.Errorf("%v, mask %v", err, mask)
	}
}

// largeVocabulary has as many tokens as new models do.
func largeVocabulary() *Vocabulary {
	r := rand.New(rand.NewPCG(4, 0))
	seen := map[string]bool{}
	var pieces []string
	add := func(p string) {
		if !seen[p] {
			seen[p] = true
			pieces = append(pieces, p)
		}
	}
	for b := range 256 {
		add(string([]byte{byte(b)}))
	}
	signs := []string{`"`, `":`, `",`, `"}`, `{"`, `, "`, `()`, "\n", "\n\n", "  ", "    ", `'`, `);`, `=`, `.`, `-`, `é`, `ü`, `中`, `的`, "\xe4\xb8"}
	for len(pieces) < 128<<10 {
		var b strings.Builder
		if r.IntN(2) == 0 {
			b.WriteByte(' ')
		}
		for range 1 + r.IntN(4) {
			b.WriteByte("bcdfghklmnprstvw"[r.IntN(16)])
			b.WriteByte("aeiou"[r.IntN(5)])
		}
		switch r.IntN(20) {
		case 0:
			b.WriteString(signs[r.IntN(len(signs))])
		case 1:
			b.Reset()
			for range 1 + r.IntN(3) {
				b.WriteString(signs[r.IntN(len(signs))])
			}
		case 2:
			b.Reset()
			fmt.Fprint(&b, r.IntN(1000))
		}
		add(b.String())
	}
	return NewVocabulary(pieces, []int32{int32(len(pieces) - 1)})
}

// BenchmarkMask asks for the mask at each byte of a text, where states were met before, and where they are new
// but their places were met.
func BenchmarkMask(b *testing.B) {
	v := largeVocabulary()
	g, err := ParseSchema([]byte(`{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer",
		"minimum":0},"more":{"$ref":"#"}},"required":["name","age"],"additionalProperties":false}}`))
	if err != nil {
		b.Fatal(err)
	}
	c := New(g, v)
	const text = `[{"name": "mala guru", "age": 31, "more": [{"name": "kolotipu", "age": 7}]}, {"name": "x", "age": 0}]`
	for _, kept := range []bool{true, false} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			n := 0
			for b.Loop() {
				at, err := c.Begin()
				if err != nil {
					b.Fatal(err)
				}
				if !kept {
					c.m.forget()
				}
				for i := range len(text) {
					if _, err := at.Mask(); err != nil {
						b.Fatal(err)
					}
					if err := at.Take(int32(text[i])); err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "us/mask")
		})
	}
}

func BenchmarkVocabulary(b *testing.B) {
	v := largeVocabulary()
	for b.Loop() {
		NewVocabulary(v.pieces, nil)
	}
}
