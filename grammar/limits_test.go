package grammar

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// limit is an end of a range of numbers in a schema: none if at is "".
type limit struct {
	keyword, at string
}

// holds reports whether a number is in the range, by the words of the specification.
func (l limit) holds(x *big.Rat) bool {
	if l.at == "" {
		return true
	}
	at, _ := new(big.Rat).SetString(l.at)
	c := x.Cmp(at)
	return map[string]bool{"minimum": c >= 0, "exclusiveMinimum": c > 0, "maximum": c <= 0,
		"exclusiveMaximum": c < 0}[l.keyword]
}

// ranged is the schema of numbers of a type with some limits.
func ranged(kind string, list ...limit) string {
	schema := `{"type":"` + kind + `"`
	for _, l := range list {
		if l.at != "" {
			schema += fmt.Sprintf(",%q:%s", l.keyword, l.at)
		}
	}
	return schema + "}"
}

// ends are limits of a range at each of some numbers, and none.
func ends(at []string, keywords ...string) []limit {
	list := []limit{{}}
	for _, k := range keywords {
		for _, v := range at {
			list = append(list, limit{k, v})
		}
	}
	return list
}

// checkRange compares a grammar's decisions about numbers with the limits.
func checkRange(t *testing.T, kind string, numbers []string, limits ...limit) {
	t.Helper()
	schema := ranged(kind, limits...)
	g, err := ParseSchema([]byte(schema))
	if err != nil {
		if !strings.Contains(err.Error(), "no finite text") {
			t.Errorf("%s: %v", schema, err)
			return
		}
		g = nil
	}
	for _, text := range numbers {
		x, _ := new(big.Rat).SetString(text)
		want := kind == "number" || !strings.Contains(text, ".")
		for _, l := range limits {
			want = want && l.holds(x)
		}
		whole := false
		if g != nil {
			_, whole = g.Match(text)
		}
		if whole != want {
			t.Errorf("%s allows %s: %v, want %v", schema, text, whole, want)
			return
		}
	}
}

// TestRanges: a number is allowed where every limit holds of it, and nowhere else.
func TestRanges(t *testing.T) {
	var numbers []string
	for _, n := range []int{0, 1, 2, 8, 9, 10, 11, 12, 19, 20, 21, 22, 89, 90, 98, 99, 100, 101, 119, 120, 123, 124,
		130, 199, 200, 999, 1000, 1001, 1234, 9999, 12345} {
		numbers = append(numbers, fmt.Sprint(n), fmt.Sprint(-n))
	}
	fractions := []string{"0.0", "0.00", "0.04", "0.049", "0.05", "0.050", "0.051", "0.1", "0.49", "0.5", "0.50",
		"0.500001", "0.51", "0.6", "0.95", "0.999", "1.0", "1.2", "1.249", "1.25", "1.2500", "1.26", "1.3", "9.9", "9.99", "10.0", "10.01", "10.4", "10.5", "10.6",
		"11.0", "98.99", "99.0", "99.89", "99.9", "99.91", "123.4", "124.0"}
	for _, f := range fractions {
		if numbers = append(numbers, f); strings.Trim(f, "0.") != "" { // zero is written without a sign
			numbers = append(numbers, "-"+f)
		}
	}
	whole := []string{"-123", "-100", "-20", "-10", "-9", "-1", "0", "1", "9", "10", "11", "20", "99", "100", "123"}
	parts := []string{"-99.9", "-10.5", "-1.25", "-1", "-0.05", "0", "0.05", "0.5", "1.25", "10", "10.5", "99.9"}
	for _, kind := range []string{"integer", "number"} {
		for _, at := range [][]string{whole, parts} {
			for _, low := range ends(at, "minimum", "exclusiveMinimum") {
				for _, high := range ends(at, "maximum", "exclusiveMaximum") {
					checkRange(t, kind, numbers, low, high)
				}
			}
		}
		// Both kinds of one end hold.
		both := []string{"-100", "-10.5", "-1", "-0.05", "0.5", "1.25", "10"}
		for _, a := range both {
			for _, b := range both {
				checkRange(t, kind, numbers, limit{"minimum", a}, limit{"exclusiveMinimum", b})
				checkRange(t, kind, numbers, limit{"maximum", a}, limit{"exclusiveMaximum", b})
			}
		}
		checkRange(t, kind, numbers, limit{"minimum", "1.2e1"}, limit{"maximum", "1234E-1"})
		checkRange(t, kind, numbers, limit{"minimum", "-5e-2"}, limit{"maximum", "1E+2"})
	}
}

// TestLargeRanges: places grow with the digits of limits, and not with the numbers between them.
func TestLargeRanges(t *testing.T) {
	const safe = "9007199254740991" // the largest integer that JavaScript counts to, which zod writes
	numbers := []string{"0", "-0", "1", "-1", safe, "-" + safe, "9007199254740992", "-9007199254740992",
		"9007199254740990", "999999999999999", "1000000000000000", "9999999999999999", "10000000000000000", "9007199254741000"}
	checkRange(t, "integer", numbers, limit{"minimum", "-" + safe}, limit{"maximum", safe})
	checkRange(t, "number", numbers, limit{"exclusiveMinimum", "-" + safe}, limit{"exclusiveMaximum", safe})
	for _, n := range []int{10, 20, 40, 100, 309} {
		low, high := "-"+strings.Repeat("37", n/2+1)[:n], strings.Repeat("85", n/2+1)[:n]
		inside, outside := "1"+strings.Repeat("0", n-1), strings.Repeat("9", n)
		for _, kind := range []string{"integer", "number"} {
			checkRange(t, kind, []string{low, high, inside, outside, "-" + inside, "-" + outside, "0"},
				limit{"minimum", low}, limit{"exclusiveMaximum", high})
			g, err := ParseSchema([]byte(ranged(kind, limit{"minimum", low + ".37"}, limit{"maximum", high + ".58"})))
			if err != nil {
				t.Fatal(err)
			}
			if most := 30 * n; len(g.nodes) > most {
				t.Errorf("%s of %d digits: %d places, want at most %d", kind, n, len(g.nodes), most)
			}
		}
	}
	const float = "1.7976931348623157e+308" // the largest float64
	checkRange(t, "number", []string{"0", "-1.5", "1" + strings.Repeat("0", 308), "1" + strings.Repeat("8", 308)},
		limit{"minimum", "-" + float}, limit{"maximum", float})
	for _, at := range []string{"1e400", "1e-401", "1e99999999999999999999", strings.Repeat("9", 401)} {
		if _, err := ParseSchema([]byte(ranged("number", limit{"minimum", at}))); err == nil ||
			!strings.Contains(err.Error(), "digits") {
			t.Errorf("%.40s: error %v", at, err)
		}
	}
}

// TestCounts: strings and arrays are as long as their schema says.
func TestCounts(t *testing.T) {
	check := func(least, most int, format string, text func(n int) string) {
		t.Helper()
		schema := format
		for keyword, n := range map[string]int{"LEAST": least, "MOST": most} {
			schema = strings.ReplaceAll(schema, keyword, fmt.Sprint(n))
		}
		g, err := ParseSchema([]byte(schema))
		if err != nil && !strings.Contains(err.Error(), "no finite text") {
			t.Errorf("%s: %v", schema, err)
			return
		}
		for n := range 8 {
			whole := false
			if err == nil {
				_, whole = g.Match(text(n))
			}
			if want := n >= least && n <= most; whole != want {
				t.Errorf("%s allows %s: %v, want %v", schema, text(n), whole, want)
			}
		}
	}
	chars := []string{"a", "é", "😀", `\"`, `\u00e9`, `\ud83d\ude00`, `\\`}
	characters := func(n int) string { return `"` + strings.Join(chars[:n], "") + `"` }
	elements := func(n int) string { return "[" + strings.Join(slices.Repeat([]string{"1"}, n), ",") + "]" }
	for least := range 6 {
		for most := range 6 {
			check(least, most, `{"type":"string","minLength":LEAST,"maxLength":MOST}`, characters)
			check(least, most, `{"allOf":[{"minLength":LEAST,"maxLength":7},{"minLength":0,"maxLength":MOST}],"type":"string"}`, characters)
			check(least, most, `{"type":"array","minItems":LEAST,"maxItems":MOST,"uniqueItems":false}`, elements)
			check(least, most, `{"type":"array","items":{"const":1},"minItems":LEAST,"maxItems":MOST}`, elements)
			for n := range 4 {
				prefix := strings.Join(slices.Repeat([]string{"true"}, n), ",")
				check(least, most, `{"type":"array","prefixItems":[`+prefix+`],"minItems":LEAST,"maxItems":MOST}`, elements)
				check(least, min(most, n), `{"type":"array","prefixItems":[`+prefix+`],"items":false,"minItems":LEAST,"maxItems":`+
					fmt.Sprint(most)+`}`, elements)
			}
		}
		check(least, 7, `{"type":"string","minLength":LEAST}`, characters)
		check(0, least, `{"type":"string","maxLength":MOST}`, characters)
		check(least, 7, `{"type":"array","minItems":LEAST}`, elements)
		check(0, least, `{"type":"array","maxItems":MOST}`, elements)
		check(least, 7, `{"type":"array","minItems":LEAST,"maxItems":9007199254740991}`, elements)
		check(least, 7, `{"type":"string","minLength":LEAST.0,"maxLength":9007199254740991}`, characters)
	}
}

// TestStricterLimits: of limits that hold together, the stricter one counts.
func TestStricterLimits(t *testing.T) {
	for schema, texts := range map[string]string{ // the first two are allowed, the others are not
		`{"type":"integer","allOf":[{"minimum":3},{"minimum":5.5},{"maximum":1e1},{"maximum":9}]}`:                  "6 9 5 10",
		`{"type":"number","allOf":[{"exclusiveMinimum":0.5},{"exclusiveMinimum":-7},{"maximum":3},{"maximum":20}]}`: "0.51 3 0.5 3.1",
	} {
		g, err := ParseSchema([]byte(schema))
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			continue
		}
		for i, text := range strings.Fields(texts) {
			if _, whole := g.Match(text); whole != (i < 2) {
				t.Errorf("%s allows %s: %v, want %v", schema, text, whole, i < 2)
			}
		}
	}
}

// TestFormats: dates, times and identifiers follow RFC 3339 and RFC 9562, without leap days and leap seconds.
func TestFormats(t *testing.T) {
	format := func(name string) func(text string) bool {
		g, err := ParseSchema([]byte(`{"type":"string","format":"` + name + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		return func(text string) bool { _, whole := g.Match(`"` + text + `"`); return whole }
	}
	check := func(text string, is, want bool) {
		t.Helper()
		if is != want {
			t.Errorf("%s is allowed: %v, want %v", text, is, want)
		}
	}
	date, clock, both, uuid := format("date"), format("time"), format("date-time"), format("uuid")
	days := []int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0}
	for month := range 14 {
		for day := range 34 {
			text, want := fmt.Sprintf("2023-%02d-%02d", month, day), day >= 1 && day <= days[month]
			check(text, date(text), want)
			check(text+"T01:02:03Z", both(text+"T01:02:03Z"), want)
		}
	}
	for n := range 100 {
		for _, c := range []struct {
			text string
			most int
		}{
			{fmt.Sprintf("%02d:00:00Z", n), 23}, {fmt.Sprintf("00:%02d:00Z", n), 59}, {fmt.Sprintf("00:00:%02dZ", n), 59},
			{fmt.Sprintf("00:00:00+%02d:00", n), 23}, {fmt.Sprintf("00:00:00-00:%02d", n), 59},
		} {
			check(c.text, clock(c.text), n <= c.most)
			check(c.text, both("2023-01-01T"+c.text), n <= c.most)
		}
	}
	for text, want := range map[string]bool{"00:00:00.1Z": true, "00:00:00.123456789Z": true, "00:00:00.Z": false,
		"00:00:00": false, "0:00:00Z": false, "00:00Z": false, "00:00:00+0000": false, "00:00:00z": false} {
		check(text, clock(text), want)
	}
	for text, want := range map[string]bool{"202-01-01": false, "20230-01-01": false, "2023-1-01": false,
		"2023-01-1": false, "2023/01/01": false, "0000-01-01": true, "9999-12-31": true} {
		check(text, date(text), want)
	}
	const id = "01234567-89ab-cdef-ABCD-EF0123456789"
	check(id, uuid(id), true)
	for i := range len(id) {
		short := id[:i] + id[i+1:]
		check(short, uuid(short), false)
		long := id[:i] + "0" + id[i:]
		check(long, uuid(long), false)
		wrong := id[:i] + "g" + id[i+1:]
		check(wrong, uuid(wrong), false)
	}
	check("2023-01-01 00:00:00Z", both("2023-01-01 00:00:00Z"), false)
}

// TestMerged: each keyword that two schemas have means both of them. The first text is allowed, and the others are not.
func TestMerged(t *testing.T) {
	for schemas, texts := range map[string]string{
		`{"minimum":3}{"minimum":5}`:                                                   `5 4`,
		`{"maximum":3}{"maximum":5}`:                                                   `3 4`,
		`{"exclusiveMinimum":3}{"exclusiveMinimum":5}`:                                 `6 5`,
		`{"exclusiveMaximum":3}{"exclusiveMaximum":5}`:                                 `2 3`,
		`{"minimum":-3}{"minimum":-5}`:                                                 `-3 -4`,
		`{"maximum":-3}{"maximum":-5}`:                                                 `-5 -4`,
		`{"minimum":-0.5}{"exclusiveMinimum":-0.25}`:                                   `-0.2 -0.25`,
		`{"minimum":3}{"exclusiveMinimum":3}`:                                          `4 3`,
		`{"minLength":1}{"minLength":2}`:                                               `"ab" "a"`,
		`{"maxLength":1}{"maxLength":2}`:                                               `"a" "ab"`,
		`{"minItems":1}{"minItems":2}`:                                                 `[1,1] [1]`,
		`{"maxItems":1}{"maxItems":2}`:                                                 `[1] [1,1]`,
		`{"properties":{"a":true,"b":true},"required":["a"]}{"required":["b"]}`:        `{"a":1,"b":1} {"a":1} {"b":1}`,
		`{"type":"integer"}{"enum":[2,2.5,"x"]}`:                                       `2 2.5 "x"`,
		`{"enum":[1,2,3]}{"enum":[2,4]}`:                                               `2 1 4`,
		`{"type":["integer","string"]}{"type":["number","null"]}`:                      `1 1.5 "x" null`,
		`{"type":"array","items":{"minimum":2}}{"items":{"maximum":3}}`:                `[2] [1] [4]`,
		`{"properties":{"a":{"minimum":2}}}{"properties":{"a":{"maximum":3}}}`:         `{"a":3} {"a":1} {"a":4}`,
		`{"additionalProperties":{"minimum":2}}{"additionalProperties":{"maximum":3}}`: `{"z":3} {"z":1} {"z":4}`,
		`{"type":"integer"}{"anyOf":[{"minimum":2},{"maximum":-2}]}`:                   `2 1 -1`,
		`{"allOf":[{"type":"integer"}]}{"allOf":[{"minimum":2}]}`:                      `2 1 2.5`,
	} {
		for _, order := range []bool{true, false} {
			a, b, _ := strings.Cut(schemas, "}{")
			a, b = a+"}", "{"+b
			if !order {
				a, b = b, a
			}
			schema := `{"allOf":[` + a + "," + b + `]}`
			g, err := ParseSchema([]byte(schema))
			if err != nil {
				t.Errorf("%s: %v", schema, err)
				continue
			}
			for i, text := range strings.Fields(texts) {
				if _, whole := g.Match(text); whole != (i == 0) {
					t.Errorf("%s allows %s: %v, want %v", schema, text, whole, i == 0)
				}
			}
		}
	}
}

// TestExclusiveBranches: branches of oneOf are taken where no value can be valid by two of them, and refused elsewhere.
func TestExclusiveBranches(t *testing.T) {
	const circle, square = `"properties":{"k":{"const":"c"}},"required":["k"]`, `"properties":{"k":{"const":"s"}},"required":["k"]`
	for branches, want := range map[string]bool{
		`{"type":"string"},{"type":"integer"}`:                                                true,
		`{"type":"string"},{"type":["null","string"]}`:                                        false,
		`{"type":"integer"},{"type":"number"}`:                                                false,
		`{"enum":["a","b"]},{"enum":["c"]}`:                                                   true,
		`{"enum":["a","b"]},{"enum":["b","c"]}`:                                               false,
		`{"const":1},{"const":1.0}`:                                                           false,
		`{"const":"a"},{"type":"string"}`:                                                     false,
		`{"const":"a"},{"type":"integer"}`:                                                    true,
		`{"type":"object",` + circle + `},{"type":"object",` + square + `}`:                   true,
		`{"type":"object",` + circle + `},{"type":"object",` + circle + `}`:                   false,
		`{"type":"object",` + circle + `},{"type":"object","properties":{"k":{"const":"s"}}}`: true, // k is then there
		`{"type":"object","properties":{"k":{"const":"s"}}},{"type":"object",` + circle + `}`: true,
		// They exclude one another, which is not seen.
		`{"type":"array","maxItems":1},{"type":"array","minItems":2}`: false,
	} {
		if _, err := ParseSchema([]byte(`{"oneOf":[` + branches + `]}`)); (err == nil) != want {
			t.Errorf("%s: error %v, taken: %v", branches, err, want)
		}
	}
}

// TestSpace: between the parts of a value is one blank, or a line's end with a bounded indent.
func TestSpace(t *testing.T) {
	g := JSON(false)
	for text, want := range map[string]bool{
		"[ 1]": true, "[\t1]": true, "[  1]": false, "[\n1]": true, "[\r\n1]": true, "[\r1]": false, "[\n\n1]": false,
		"[\n" + strings.Repeat(" ", 40) + "1]": true, "[\n" + strings.Repeat(" ", 41) + "1]": false, "[\n\t\t1]": true,
		"[1e12]": true, "[1e123]": false, "[1E+1]": true, "[\v1]": false, "[\u00a01]": false,
	} {
		if _, whole := g.Match(text); whole != want {
			t.Errorf("%q is allowed: %v, want %v", text, whole, want)
		}
	}
}
