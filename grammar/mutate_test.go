package grammar

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ambiguous grammars have texts that are at ever more places.
const stall = `root ::= (((a b)* c)* | d?){0,9}
a ::= c{3,50}
b ::= [a-z]{1,100}
c ::= "" | "y"
d ::= d2 d2 d2
d2 ::= "z"*
`

// sources are grammars and schemas that mutations begin with.
func sources() (list []string) {
	list = []string{arithmetic, stall,
		`root ::= "a"{2,} [^"\\]* (. | x)? x ::= "\U0001F600"`,
		"root ::= ((\"a\"{1000}){1000}){1000} \"b\"{130000}",
		"root ::= x{0,300} x ::= (\"a\"? | [a-c]* | y){0,40} y ::= \"b\" x? \"c\"",
		"root ::= (\"ab\" | \"a\" | \"\")* ([^a-c] | \"\\x41\"){3,}",
	}
	for _, c := range schemaCases {
		list = append(list, c.schema)
	}
	return list
}

// lexemes matches the tokens of a source.
var lexemes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{[0-9, ]*\}|[a-zA-Z0-9_.-]+|::=|.`)

// element is a lexeme that may be repeated, or exchanged for another in a GBNF grammar.
var element = regexp.MustCompile(`^["\[a-z)]|^\.$`)

// mutated is a grammar or schema with some of its parts repeated, left out or exchanged for others.
func mutated(r *rand.Rand, all []string) string {
	s := all[r.IntN(len(all))]
	pool := slices.DeleteFunc(slices.Clone(all), func(o string) bool { return isSchema(o) != isSchema(s) })
	other := pool[r.IntN(len(pool))]
	if isSchema(s) {
		return mutatedSchema(r, s, other)
	}
	parts, others := lexemes.FindAllString(s, -1), lexemes.FindAllString(other, -1)
	repeats := []string{"*", "+", "?", "{0,9}", "{0,99}", "{3,}", "{2,40}", "{1000}", "?*", "*{2,5}"}
	for range 1 + r.IntN(5) {
		at := r.IntN(len(parts))
		from := others[r.IntN(len(others))]
		switch {
		case r.IntN(12) == 0: // it may well be no grammar any more
			parts = slices.Delete(parts, at, at+1)
		case strings.HasPrefix(parts[at], "{"):
			parts[at] = repeats[3+r.IntN(5)]
		case !element.MatchString(parts[at]) || at+2 < len(parts) && parts[at+2] == "::=":
		case r.IntN(2) == 0:
			parts = slices.Insert(parts, at+1, repeats[r.IntN(len(repeats))])
		case parts[at] == ")":
			parts = slices.Insert(parts, at, "|", parts[r.IntN(at)])
		case element.MatchString(from) && from != ")" && from[0] != '(':
			parts[at] = from
		default:
			parts[at] = "(" + parts[at] + ` | "") ` + parts[at]
		}
		if len(parts) == 0 {
			return ""
		}
	}
	return strings.Join(parts, "")
}

func isSchema(s string) bool { return strings.HasPrefix(s, "{") || s == "true" }

// mutatedSchema returns a schema with some values replaced by values of another schema.
func mutatedSchema(r *rand.Rand, s, other string) string {
	var v, o any
	if json.Unmarshal([]byte(s), &v) != nil || json.Unmarshal([]byte(other), &o) != nil {
		return s
	}
	var parts []any
	var collect func(v any)
	collect = func(v any) {
		parts = append(parts, v)
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				collect(v[k])
			}
		case []any:
			for _, x := range v {
				collect(x)
			}
		}
	}
	collect(v)
	collect(o)
	more := []any{json.Number("9.5e3"), 300, 70, -1e15, map[string]any{"$ref": "#"}, map[string]any{},
		map[string]any{"type": "string", "pattern": "(a*b?)*c{1,90}", "title": "x"}, []any{"aa", "ab", "b"},
		map[string]any{"anyOf": []any{true, map[string]any{"type": "integer", "maximum": 7}}}, "string", "array"}
	parts = append(parts, more...)
	var change func(v any) any
	change = func(v any) any {
		if r.IntN(9) == 0 {
			return parts[r.IntN(len(parts))]
		}
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				if out[k] = v[k]; k != "type" && k != "$ref" {
					out[k] = change(v[k])
				}
			}
			if r.IntN(6) == 0 {
				out["maxLength"], out["items"] = r.IntN(400), parts[r.IntN(len(parts))]
			}
			return out
		case []any:
			var out []any
			for _, x := range v {
				out = append(out, change(x))
			}
			return out
		}
		return v
	}
	data, err := json.Marshal(change(v))
	if err != nil {
		return s
	}
	return string(data)
}

func parsed(s string) (*Grammar, error) {
	if isSchema(s) {
		return ParseSchema([]byte(s))
	}
	return ParseGBNF(s)
}

// TestMutations: whatever a grammar says, making it and writing by it end within bounds of work and of memory.
func TestMutations(t *testing.T) {
	vocabulary := smallVocabulary()
	r := rand.New(rand.NewPCG(1, 7))
	all := sources()
	made, ended, refused := 0, 0, 0
	for range 1500 {
		s := mutated(r, all)
		g, err := parsed(s)
		if err != nil {
			continue
		}
		made++
		edges := 0
		for _, n := range g.nodes {
			edges += len(n.edges) + len(n.epsilon)
		}
		if len(g.nodes) > maxNodes || edges > 2*maxEdges {
			t.Errorf("%.200q: %d nodes and %d edges", s, len(g.nodes), edges)
		}
		c := New(g, vocabulary)
		at, err := c.Begin()
		if err != nil {
			refused++
			continue
		}
		spent, pauses := 0, 0
		at.Pause = func() error { pauses++; return nil }
		n := 0
		for ; n < 8 && err == nil && !at.Full(); n++ {
			var mask Mask
			before := at.work.left
			if mask, err = at.Mask(); err == nil {
				id := anyOf(r, mask)
				if id == vocabulary.ends[0] {
					break
				}
				err = at.Take(id)
				before += tokenWork
			}
			spent += before - at.work.left
		}
		const most = configWork*maxConfigs + maxKept/bytesWork // of one look at a state
		switch {
		case errors.As(err, new(*TextError)):
			refused++
		case err != nil:
			t.Errorf("%.200q: %v", s, err)
		default:
			ended++
		}
		if spent > maxWork+n*tokenWork+most || c.m.kept > maxKept+most*bytesWork {
			t.Errorf("%.200q: work %d for %d tokens, %d bytes are kept", s, spent, n, c.m.kept)
		}
		if spent > pauseWork+most && pauses == 0 {
			t.Errorf("%.200q: work %d without a pause", s, spent)
		}
	}
	t.Logf("%d grammars: %d texts went on, %d were refused", made, ended, refused)
	if made < 500 || ended < 500 || refused < 10 {
		t.Errorf("%d grammars, %d texts went on, and %d were refused: the mutations show little", made, ended, refused)
	}
}

// anyOf returns a token of a mask, chosen by chance.
func anyOf(r *rand.Rand, mask Mask) int32 {
	var allowed []int32
	for id := range int32(64 * len(mask)) {
		if mask.Allows(id) {
			allowed = append(allowed, id)
		}
	}
	return allowed[r.IntN(len(allowed))]
}

// TestPause: work interrupted by its pause does not change the text or others of the grammar. A text that continues
// concurrently gets the same masks.
func TestPause(t *testing.T) {
	g, err := ParseGBNF(stall)
	if err != nil {
		t.Fatal(err)
	}
	c := New(g, largeVocabulary())
	at, err := c.Begin()
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("the client is gone")
	at.Pause = func() error { return gone }
	if _, err := at.Mask(); !errors.Is(err, gone) {
		t.Fatalf("error %v", err)
	}
	masks := make(chan Mask)
	for range 3 {
		go func() {
			other, err := c.Begin()
			if err != nil {
				t.Error(err)
			}
			other.Pause = func() error { runtime.Gosched(); return nil }
			mask, err := other.Mask()
			if err != nil {
				t.Error(err)
			}
			masks <- mask
		}()
	}
	alone, err := New(g, c.v).Begin()
	if err != nil {
		t.Fatal(err)
	}
	want, err := alone.Mask()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := <-masks; !slices.Equal(got, want) {
			t.Error("a mask beside others is another one")
		}
	}
	at.Pause = nil
	if got, err := at.Mask(); err != nil || !slices.Equal(got, want) {
		t.Errorf("after a pause that ended it: error %v, or another mask", err)
	}
}

// TestTextWork: the work of texts is limited, even if the cache is cleared in between.
func TestTextWork(t *testing.T) {
	g, err := ParseGBNF(stall)
	if err != nil {
		t.Fatal(err)
	}
	c, r := New(g, largeVocabulary()), rand.New(rand.NewPCG(5, 0))
	at, err := c.Begin()
	for err == nil {
		var mask Mask
		if mask, err = at.Mask(); err == nil {
			err = at.Take(anyOf(r, mask))
		}
		c.forget()
	}
	if !errors.As(err, new(*TextError)) || !strings.Contains(err.Error(), "ambiguous") {
		t.Errorf("error %v", err)
	}
	if _, err := at.Mask(); !errors.As(err, new(*TextError)) {
		t.Errorf("the text goes on after that: %v", err)
	}
}

// TestMultipliedSchemas: schemas with multiplying parts, within the size of a request, are compiled or rejected before
// they need much memory. Allocated memory measures the work.
func TestMultipliedSchemas(t *testing.T) {
	long := strings.Repeat("x", 120<<10)
	many := func(n int, part string) string {
		var list []string
		for i := range n {
			list = append(list, strings.ReplaceAll(part, "#", strconv.Itoa(i)))
		}
		return strings.Join(list, ",")
	}
	refs := `"anyOf":[` + many(6000, `{"$ref":"~/$defs/e"}`) + `],"$defs":{"e":`
	refs = strings.ReplaceAll(refs, "~", "#")
	for name, schema := range map[string]string{
		"constants of branches":   `{"oneOf":[{"enum":[` + many(15000, `"#"`) + `]},{"const":"` + long + `"}]}`,
		"merged enums":            `{"allOf":[{"enum":[` + many(9000, `"#"`) + `]},{"enum":["` + long + `",` + many(1500, `"a#"`) + `]}]}`,
		"merged types":            `{"allOf":[{"type":[` + many(9000, `"#"`) + `]},{"type":[` + many(9000, `"a#"`) + `]}]}`,
		"merged properties":       `{"allOf":[` + many(3000, `{"properties":{"a#":{}}}`) + `]}`,
		"places with long names":  `{"additionalProperties":false,"properties":{"` + long + `":{"properties":{` + many(9000, `"#":{}`) + `}}}}`,
		"enums by reference":      `{"type":"string",` + refs + `{"enum":[` + many(8000, `"#"`) + `]}}}`,
		"properties by reference": `{"type":"object",` + refs + `{"properties":{` + many(5000, `"#":{}`) + `}}}}`,
		"patterns by reference":   `{"type":"string",` + refs + `{"pattern":"` + strings.Repeat("(ab?)*", 10000) + `"}}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := ParseSchema([]byte(schema)); err != nil && !strings.Contains(err.Error(), "are too many") &&
			!strings.Contains(err.Error(), "more than") && !strings.Contains(err.Error(), "at least one value") &&
			!strings.Contains(err.Error(), "no finite text") {
			t.Errorf("%s: %.200v", name, err)
		}
		runtime.ReadMemStats(&after)
		took := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d MiB", name, took)
		if took > 300 {
			t.Errorf("%s, a schema of %d bytes, took %d MiB", name, len(schema), took)
		}
	}
}
