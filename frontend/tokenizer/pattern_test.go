package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// piecesOf returns the matches of a pattern in a text and the text between them.
func piecesOf(t testing.TB, source, text string) (all []string) {
	t.Helper()
	p, err := compilePattern(source)
	if err != nil {
		t.Fatal(err)
	}
	p.pieces(text, func(piece string, match bool) { all = append(all, fmt.Sprint(match, " ", piece)) })
	return all
}

// oraclePieces is piecesOf by another engine.
func oraclePieces(t testing.TB, source, text string) (all []string) {
	t.Helper()
	at, err := compileOnce(source).FindAllStringIndex(text, -1)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for _, m := range at {
		if i < m[0] {
			all = append(all, "false "+text[i:m[0]])
		}
		all = append(all, "true "+text[m[0]:m[1]])
		i = m[1]
	}
	if i < len(text) {
		all = append(all, "false "+text[i:])
	}
	return all
}

// TestPatterns compares the matches of patterns with those of another engine, for the patterns of all kinds of
// vocabularies and for random ones.
func TestPatterns(t *testing.T) {
	alphabet := []string{"a", "b", "Z", "é", "ǅ", "ʰ", "日", "か", "ा", "\u0301", "1", "2", "½", "٣", " ", " ", "\n",
		"\r", "\t", "\u00a0", "'", "s", "S", "ll", "RE", ".", "!", "_", "/", "$", "🦙", "。", "\x00", "々", "IMG", "ㄅ"}
	r := rand.New(rand.NewPCG(3, 4))
	text := func(most int) string {
		var b strings.Builder
		for range r.IntN(most) {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	for name, patterns := range oracle {
		for _, source := range patterns {
			// The other engine has another syntax of sets, another \b, and a $ that is no end of a line.
			if strings.Contains(source, `-[\p`) || name == "tiny_aya" || strings.HasSuffix(source, "$") {
				continue
			}
			for range 40 {
				text := text(24)
				if got, want := piecesOf(t, source, text), oraclePieces(t, source, text); !slices.Equal(got, want) {
					t.Fatalf("%s of %s: %q is\n%q, want\n%q", source, name, text, got, want)
				}
			}
		}
	}
	atoms := []string{"a", "b", `\s`, `\p{L}`, `[^a\s]`, ".", `\d`, "(?:ab|a)", "(?:a|b|)", "(?i:S|é)", `(?=a)`, `(?!\S)`,
		`(?=.*b)`, `(?<=a)`, `(?!a+b)`, `(?:(?:a?b)*)`, `[\p{Lu}\d]`}
	repeats := []string{"", "", "", "*", "+", "?", "{1,3}", "{2}", "*?", "+?", "??"}
	for range 1500 {
		var source strings.Builder
		for i := range 1 + r.IntN(4) {
			if i > 0 && r.IntN(4) == 0 {
				source.WriteString("|")
			}
			atom := atoms[r.IntN(len(atoms))]
			source.WriteString(atom)
			if !strings.HasPrefix(atom, "(?=") && !strings.HasPrefix(atom, "(?!") && !strings.HasPrefix(atom, "(?<") {
				source.WriteString(repeats[r.IntN(len(repeats))])
			}
		}
		text := text(10)
		got, want := piecesOf(t, source.String(), text), oraclePieces(t, source.String(), text)
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %q is\n%q, want\n%q", source.String(), text, got, want)
		}
	}
	clear(compiledPatterns)
	for source, want := range map[string]string{
		`a++b|a`: "[true aab]", `a++ab|a`: "[true a true a false b]", `[^\r\n\p{L}]?+\p{L}++`: "[true aab]",
		`[\p{L}&&[^a]]+`: "[false aa true b]", `[[:alpha:]]{2}|\x62\u{62}`: "[true aa false b]", `^a|b$`: "[true a false a true b]",
	} {
		if got := fmt.Sprint(piecesOf(t, source, "aab")); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

// TestHostilePatterns: the work grows with the text, whatever the pattern. Without a bound, these take years or hours.
func TestHostilePatterns(t *testing.T) {
	text := strings.Repeat("a", 50_000)
	for source, want := range map[string]int{`(?:a*)*b`: 1, `(?:a|aa)+$`: 1, `(?=(?:a+)+b)a`: 1, `[a-z]*b|[a-z]`: 50_000,
		`a(?=.*b)`: 1, `a(?=.*a)`: 50_000, `(?:[a-z]*\d)?[a-z]`: 50_000, `(?:a?){50}b`: 1, `a++b|a`: 50_000,
		`(?:(?:a|b)*?c)|a`: 50_000, `a(?!a*b)`: 50_000} {
		if got := len(piecesOf(t, source, text)); got != want {
			t.Errorf("%s: %d pieces, want %d", source, got, want)
		}
	}
}

// TestBadPatterns: an unknown or hostile pattern is an error that names it.
func TestBadPatterns(t *testing.T) {
	for source, want := range map[string]string{
		`(a)\1`: `\1 is not supported`, `\p{Klingon}`: `\p{Klingon}`, `a{1001}`: "{1001}", `(?>ab)`: "(?>", `(ab`: "no end",
		`ab)`: ") too much", `*a`: "nothing is before *", `[z-a]`: "z-a", `(ab)++`: "possessive", `[a`: "ends too early",
		`(?<=ab)c`: "looking behind", strings.Repeat("(", 100): "nested deeper", strings.Repeat("a", maxPattern+1): "bytes",
		strings.Repeat("(?:", 4) + "a" + strings.Repeat("{1000})", 4): "steps", `[[:nothing:]]`: "nothing", `\`: "ends too early",
	} {
		if _, err := compilePattern(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: error %v, want %q", source, err, want)
		}
	}
}

// FuzzPattern: any pattern is refused or splits any text without loss.
func FuzzPattern(f *testing.F) {
	f.Add(`\s+(?!\S)|[^a]{1,3}?`, "a b  c")
	f.Add(`(?i:'s|'t)|\p{L}++`, "it's")
	f.Fuzz(func(t *testing.T, source, text string) {
		p, err := compilePattern(source)
		if err != nil || len(text) > 1000 {
			return
		}
		var b strings.Builder
		p.pieces(text, func(piece string, _ bool) { b.WriteString(piece) })
		if b.String() != text {
			t.Errorf("%q loses text of %q: %q", source, text, b.String())
		}
	})
}
