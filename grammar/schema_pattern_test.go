package grammar

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// matcher is the grammar of strings of a pattern.
func matcher(t *testing.T, pattern string) func(text string) bool {
	t.Helper()
	g, err := ParseSchema([]byte(`{"type":"string","pattern":` + quote(pattern) + `}`))
	if err != nil {
		t.Errorf("%s: %v", pattern, err)
		return func(string) bool { return false }
	}
	return func(text string) bool {
		_, whole := g.Match(inJSON(text))
		return whole
	}
}

// inJSON encodes a string as JSON and escapes only the necessary characters, as in a pattern's strings.
func inJSON(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case c == '"' || c == '\\' || c < ' ':
			q := quote(string(c))
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(c)
		}
	}
	return `"` + b.String() + `"`
}

// TestPatternSets: each escape and class stands for the characters that ECMA-262 says (22.2.2), and for no others.
func TestPatternSets(t *testing.T) {
	in := func(list string) func(rune) bool { return func(c rune) bool { return strings.ContainsRune(list, c) } }
	not := func(f func(rune) bool) func(rune) bool { return func(c rune) bool { return !f(c) } }
	space := in("\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028" +
		"\u2029\u202f\u205f\u3000\ufeff")
	digit := in("0123456789")
	word := func(c rune) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	any := func(rune) bool { return true }
	is := func(tables ...*unicode.RangeTable) func(rune) bool {
		return func(c rune) bool { return unicode.In(c, tables...) }
	}
	probes := []rune{0xFEFF, 0xFFFD, 0xFFFF, 0x10000, 0x1D7CE, 0x1F600, 0x10FFFF, 0xD7FF, 0xE000, 0x4E2D}
	for _, s := range []span{{0, 0x2FF}, {0x378, 0x3A4}, {0x1670, 0x1690}, {0x1FF0, 0x2070}, {0x2FF0, 0x3010}} {
		for c := s.low; c <= s.high; c++ {
			probes = append(probes, c)
		}
	}
	for pattern, want := range map[string]func(rune) bool{
		`\s`: space, `\S`: not(space), `[\s]`: space, `[^\s]`: not(space), `[\S]`: not(space), `[^\S]`: space,
		`[\s\S]`: any, `[^\s\S]`: not(any), `[^]`: any, `[]`: not(any), `[\s\d]`: func(c rune) bool { return space(c) || digit(c) },
		`\d`: digit, `\D`: not(digit), `[^\d]`: not(digit), `[\D]`: not(digit),
		`\w`: word, `\W`: not(word), `[\w]`: word, `[^\w]`: not(word), `[^\W]`: word,
		`.`: not(in("\n\r\u2028\u2029")), `[.]`: in("."), `\.`: in("."), `[^.]`: not(in(".")),
		`\t`: in("\t"), `\n`: in("\n"), `\v`: in("\v"), `\f`: in("\f"), `\r`: in("\r"), `[\b]`: in("\b"), `\0`: in("\x00"),
		`\cA`: in("\x01"), `\cj`: in("\n"), `[\cZ]`: in("\x1a"), `\x41`: in("A"), `\xe9`: in("é"), `\u00e9`: in("é"),
		`\u{e9}`: in("é"), `\u{1F600}`: in("😀"), `\u{000041}`: in("A"), `\ud83d\ude00`: in("😀"), `[\ud83d\ude00]`: in("😀"),
		`[\u{1F5FF}-\u{1F601}]`: in("😀"), `😀`: in("😀"), `[^😀]`: not(in("😀")),
		`[a-c]`: in("abc"), `[^a-c]`: not(in("abc")), `[a\-c]`: in("a-c"), `[-a]`: in("-a"), `[a-]`: in("-a"),
		`[\w-.]`: func(c rune) bool { return word(c) || c == '-' || c == '.' }, `[+--]`: in("+,-"), `[\]\[]`: in("[]"),
		`[\x41-\x43]`: in("ABC"), `[\n-\r]`: in("\n\v\f\r"), `[\t ]`: in("\t "), `["\\]`: in(`"\`), `\/`: in("/"), `[\/]`: in("/"),
		`[^"]`: not(in(`"`)), `\^`: in("^"), `\$`: in("$"), `\{`: in("{"), `[a^]`: in("a^"), `[$]`: in("$"), `\-`: in("-"), `\@`: in("@"),
		`\p{L}`: is(unicode.L), `\p{Letter}`: is(unicode.L), `\p{gc=Lu}`: is(unicode.Lu), `\P{L}`: not(is(unicode.L)),
		`\p{General_Category=Uppercase_Letter}`: is(unicode.Lu), `[^\p{L}]`: not(is(unicode.L)), `[\P{L}]`: not(is(unicode.L)),
		`\p{Script=Greek}`: is(unicode.Greek), `\p{sc=Han}`: is(unicode.Han), `\p{Nd}`: is(unicode.Nd), `\p{Any}`: any,
		`\p{ASCII}`: func(c rune) bool { return c < 128 }, `\p{White_Space}`: is(unicode.White_Space),
		`\p{Alphabetic}`: is(unicode.L, unicode.Nl, unicode.Other_Alphabetic),
		`\p{Uppercase}`:  is(unicode.Lu, unicode.Other_Uppercase), `[\p{Lu}\d]`: func(c rune) bool { return unicode.IsUpper(c) || digit(c) },
	} {
		g, err := ParseSchema([]byte(`{"type":"string","pattern":` + quote("^"+pattern+"$") + `}`))
		if err != nil && !strings.Contains(err.Error(), "no finite text") {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		wrong := ""
		for _, c := range probes {
			whole := false
			if err == nil {
				_, whole = g.Match(inJSON(string(c)))
			}
			if whole != want(c) && len(wrong) < 100 {
				wrong += fmt.Sprintf(" U+%04X is allowed: %v;", c, whole)
			}
		}
		if wrong != "" {
			t.Errorf("%s:%s", pattern, wrong)
		}
	}
}

// TestPatterns tests patterns composed of sets.
func TestPatterns(t *testing.T) {
	for _, c := range []struct{ pattern, match, not string }{ // texts are separated by blanks; ~ is the empty text
		{`^a*?b+?c??$`, "b aab bc abbc", "a ac cb abcc"},
		{`^a{2}b{1,}c{0,2}?$`, "aab aabbcc", "ab aabccc aa"},
		{`^(a|bc)(?:d|)(?<name>e)$`, "ade bce ae", "ad bde~ abce"},
		{`b|^c|d$|^e$`, "b xby c cx d xd e", "~ xc dx ex xe"},
		{`(^a$|^b$)`, "a b", "ab xa ~"},
		{`^(?:x)$`, "x", "xx ~"},
		{`^`, "~ a", ""},
		{`$`, "~ a", ""},
		{`^$`, "~", "a"},
		{`a`, "a xa ax xax", "~ x"},
		{`^{a}]$`, "{a}]", "a aa"},
		{`^a{,3}$`, "a{,3}", "a aaa"},
		{`^\u{61}{2}$`, "aa", "a aaa"},
		{`^[a-z0-9._%+\-]+@[a-z0-9.\-]+\.[a-z]{2,}$`, "me@x.org a-b@c-d.ee", "me@x @x.org me@x.o"},
		{`^\d{4}-\d{2}$`, "2024-02", "2024-2 ٢٠٢٤-٠٢"},
		{`^\S+$`, "a é x_y", "~ a\u00a0b a\u3000 \ufeffa a\u2028"},
		{`^\w+$`, "ab_9", "é a-b ~ ſ"},
	} {
		matches := matcher(t, c.pattern)
		for _, list := range []struct {
			texts string
			want  bool
		}{{c.match, true}, {c.not, false}} {
			for text := range strings.SplitSeq(list.texts, " ") {
				if list.texts == "" {
					continue
				}
				if text == "~" {
					text = ""
				}
				if matches(text) != list.want {
					t.Errorf("%s matches %q: %v, want %v", c.pattern, text, !list.want, list.want)
				}
			}
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		`a(?=b(?!c))`: "look-ahead inside another", `(?<=a)b`: "look-behind", `(?<!a)b`: "look-behind",
		`\bword`: "word boundary", `a\B`: "word boundary", `(a)\1`: "back reference", `(?<x>a)\k<x>`: "back reference",
		`(?i)a`: "(?i)", `(?i:a)`: "(?i:", `(?P<x>a)`: "(?P", `a(?`: "not supported", `(?<x`: "a name",
		`(a`: "does not end", `a)`: "closes nothing", `[a`: "does not end", `[b-a]`: "is empty", `*a`: "nothing before",
		`a**`: "nothing before", `^*a`: "may not be repeated", `a{2,1}`: "smaller number first", `a{999999}`: "a repetition",
		`a{1}{2}`: "nothing before", `{2}a`: "nothing before", `\`: "is the last character", `\x4`: "number of a character", `\u12`: "number of a character", `\u{}`: "number",
		`\u{110000}`: "number of a character", `\ud83d`: "number of a character", `\ude00`: "number of a character",
		`\ud83d\u0041`: "number of a character", `\u{d800}`: "number of a character", `\p`: "a property", `\pL`: "a property",
		`\p{Nothing}`: "a property", `\p{Greek}`: "a property", `\p{Script=Nothing}`: "a property", `\p{L`: "a property",
		`\p{Other_Math}`: "a property", `\a`: `\a is not known`, `\A`: `\A is not known`, `\z`: `\z is not known`, `\Q`: `\Q is`,
		`\01`: `\0 is not known`, `\8`: "back reference", `[\1]`: "back reference", `[\B]`: `\B is not known`, `\c`: `\c is not known`,
		`\c1`: `\c is not known`, `\_`: `\_ is not known`, `\é`: `\é is not known`, `a(b$)c`: "no finite text", `(?=a)b`: "no finite text",
		strings.Repeat("(", 200): "nest deeper", strings.Repeat(`\p{L}`, 20000): "are too many",
	} {
		_, err := ParseSchema([]byte(`{"type":"string","pattern":` + quote(pattern) + `}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want %q", pattern, err, want)
		}
	}
}

// TestLanguages: patterns hold together with lengths, other patterns, formats and look-ahead.
func TestLanguages(t *testing.T) {
	for _, c := range []struct{ schema, yes, no string }{
		{`{"pattern":"^[a-z]+$","minLength":2,"maxLength":3}`, "ab abc", "a abcd Ab"},
		{`{"pattern":"b","maxLength":3}`, "b abc bbb", "a abbc"},
		{`{"pattern":"^(?!admin$)[a-z]+$"}`, "admi admins root", "admin"},
		{`{"pattern":"^(?!admin)[a-z]+$"}`, "admi root", "admin admins"},
		{`{"pattern":"^(?:(?!--)[a-z-])+$"}`, "a-b a-", "a--b --"},
		{`{"pattern":"^(?=.*[A-Z])(?=.*[0-9]).{4,6}$"}`, "abC1 1bbbbC", "abc1 C1 aaaaaC1"},
		{`{"pattern":"(^a|b)c"}`, "ac xbc acx", "xac a"},
		{`{"pattern":"a(?!b)"}`, "a ac aba", "ab b"},
		{`{"pattern":"a(?!b|$)"}`, "ac", "a ab"},
		{`{"allOf":[{"pattern":"^a"},{"pattern":"z$"},{"pattern":"k"}]}`, "akz abkzz", "az ak"},
		{`{"format":"ipv4","pattern":"^10\\."}`, "10.0.0.1", "11.0.0.1 10.0.0"},
		{`{"format":"uuid","pattern":"^.{14}4"}`, "01234567-89ab-4def-ABCD-EF0123456789", "01234567-89ab-5def-ABCD-EF0123456789"},
		{`{"pattern":"^\\u00e9+$","minLength":2}`, "éé", "é ee"},
		{`{"pattern":"^[^\\n]{2}$","maxLength":9}`, `ab \"\\`, `a\n`},
	} {
		g, err := ParseSchema([]byte(strings.Replace(c.schema, "{", `{"type":"string",`, 1)))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for i, list := range []string{c.yes, c.no} {
			for text := range strings.FieldsSeq(list) {
				if _, whole := g.Match(`"` + text + `"`); whole != (i == 0) {
					t.Errorf("%s: %q is allowed: %v", c.schema, text, whole)
				}
			}
		}
	}
	if _, err := ParseSchema([]byte(`{"type":"string","pattern":"^(a|b)*a(a|b){30}$","maxLength":99}`)); err == nil {
		t.Error("a pattern whose places double with each character is taken")
	}
}
