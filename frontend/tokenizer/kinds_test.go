package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

const (
	gpt2Pattern  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	suffixes     = `(?:'[sSſ]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	blanksText   = `|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern = suffixes + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` + blanksText
	llamaPattern = suffixes + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + blanksText
	o200kPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` + suffixes + `?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` + suffixes + `?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + blanksText
	kimiUpper   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}-[\p{Han}]]`
	kimiLower   = `[\p{Ll}\p{Lm}\p{Lo}\p{M}-[\p{Han}]]`
	kimiPattern = `[\p{Han}]+|` + kimiUpper + `*` + kimiLower + `+` + suffixes + `?|` +
		kimiUpper + `+` + kimiLower + `*` + suffixes + `?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + blanksText
	deepseek3Pattern = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
		`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*` + blanksText
)

// oracle has the patterns that the cutters of a kind are written after.
var oracle = map[string][]string{
	"default":        {`[\p{P}\$\+<=>\^~\|]+`, gpt2Pattern, `\p{N}+`, `[0-9][0-9][0-9]`},
	"gpt-2":          {gpt2Pattern},
	"starcoder":      {`\p{N}`, gpt2Pattern},
	"falcon":         {"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2Pattern, `[0-9][0-9][0-9]`},
	"llama-bpe":      {llamaPattern},
	"qwen2":          {qwen2Pattern},
	"qwen35":         {suffixes + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + blanksText},
	"seed-coder":     {suffixes + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+` + blanksText},
	"laguna":         {`[^\n]+|[\n]+`, qwen2Pattern},
	"minicpm5":       {`\p{N}{1,3}`, strings.Replace(qwen2Pattern, `\p{N}|`, `\p{N}+|`, 1)},
	"gpt-4o":         {o200kPattern},
	"tekken":         {strings.ReplaceAll(strings.ReplaceAll(o200kPattern, suffixes+`?`, ``), `{1,3}`, ``)},
	"kimi-k2":        {kimiPattern},
	"tiny_aya":       {`\d{1,3}(?=(?:\d{3})*\b)`, o200kPattern},
	"deepseek-coder": {`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`},
	"deepseek-llm":   {`[\r\n]`, `\s?[\p{Lu}\p{Ll}\p{Lt}]+`, `\s?[!-/:-~！-／：-～‘-‟\u3000-。]+`, `\s+$`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}+`},
	"deepseek-v3":    {`\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+`, deepseek3Pattern},
	"bloom":          {` ?[^(\s|.,!?…。，、।۔،)]+`},
	"viking":         {` ?[^(\s|.,!?…。，、।۔،)]+`, `\p{N}`},
	"chameleon": {
		`<sentinel:[0-9]+>`,
		`(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`,
		`([\t\n]|    |  )`,
		`\p{N}`,
		"[\\p{P}!-/:-@\\[-`{-~]",
		`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`,
	},
	"exaone-moe": {
		`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`,
	},
	"jais-2": {
		`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`,
	},
	"spark2_5": {
		`\p{N}{1,3}`,
		`[一-龥぀-ゟ゠-ヿ]+`,
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\r\n]|\\s+(?!\\S)|\\s+",
		`\p{N}`,
	},
	"ufakzeka": {
		`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	},
	"youtu": {
		`[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+`,
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	},
}

// split cuts a text as encode does.
func split(text string, cutters []cutter) (words []string) {
	if len(cutters) == 0 {
		return []string{text}
	}
	for len(text) > 0 {
		n := cutters[0](text)
		words = append(words, split(text[:n], cutters[1:])...)
		text = text[n:]
	}
	return words
}

// splitPatterns cuts a text at the matches of patterns, one after the other.
func splitPatterns(t testing.TB, text string, patterns []string) []string {
	t.Helper()
	words := []string{text}
	for _, p := range patterns {
		re := compileOnce(p)
		var next []string
		for _, w := range words {
			at, err := re.FindAllStringIndex(w, -1)
			if err != nil {
				t.Fatal(err)
			}
			i := 0
			for _, m := range at {
				next = append(next, w[i:m[0]], w[m[0]:m[1]])
				i = m[1]
			}
			next = append(next, w[i:])
		}
		words = slices.DeleteFunc(next, func(w string) bool { return w == "" })
	}
	return words
}

var compiledPatterns = map[string]*regexp2.Regexp{}

func compileOnce(p string) *regexp2.Regexp {
	if compiledPatterns[p] == nil {
		compiledPatterns[p] = regexp2.MustCompile(p)
	}
	return compiledPatterns[p]
}

// isDoubtful reports whether engines disagree if a character counts as a letter before \b.
func isDoubtful(r rune) bool { return unicode.In(r, unicode.Mc, unicode.Me, unicode.Nl, unicode.Cf) }

func checkKinds(t *testing.T, text string) {
	t.Helper()
	for name, patterns := range oracle {
		if name == "tiny_aya" && strings.ContainsFunc(text, isDoubtful) {
			continue
		}
		got, want := split(text, byName[name].cutters), splitPatterns(t, text, patterns)
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %q is\n%q, want\n%q", name, text, got, want)
		}
	}
}

// TestKinds compares the cutters with the regular expressions that they implement, on texts made of characters that the
// patterns distinguish.
func TestKinds(t *testing.T) {
	alphabet := []string{
		"a", "b", "Z", "Q", "é", "Ü", "ǅ", "ʰ", "日", "本", "か", "カ", "한", "ก", "ा", "\u0301", "\u200d",
		"１", "1", "2", "3", "½", "Ⅷ", "٣", " ", " ", " ", "\n", "\r", "\t", "\u00a0", "\u3000", "\u2028",
		"'", "s", "S", "ll", "RE", "ve", "'d", "’", "ſ", ".", ",", "!", "(", "_", "/", "/",
		"$", "+", "|", "`", "~", "€", "🦙", "。", "「", "\x00", "\x7f", "\u00ad", "々", "〇",
		"<sentinel:", ">", "IMG", "IMGIMG", "AZ", "AB", "ㄱ", "ㄅ", "！", "、", "︰", "    ", "\u1680",
	}
	for _, text := range []string{"IMGIMGIMGAZ", "xIMGIMGABCDZ IMGIMGABCDEZ", "<sentinel:1><sentinel:><sentinel:22>"} {
		checkKinds(t, text)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var text strings.Builder
		for range r.IntN(24) {
			text.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		checkKinds(t, text.String())
	}
}

// TestWhiteSpace: jais-2 cuts white space into pieces of powers of two, however much there is.
func TestWhiteSpace(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 128, 129, 511, 512, 513, 1000, 1500} {
		for _, end := range []string{"", "x", "\n", "\u00a0x"} {
			text := strings.Repeat(" ", n) + end
			got, want := split(text, byName["jais-2"].cutters), splitPatterns(t, text, oracle["jais-2"])
			if !slices.Equal(got, want) {
				t.Errorf("%d spaces and %q are %d pieces, want %d", n, end, len(got), len(want))
			}
		}
	}
}

// FuzzKinds is TestKinds on any text.
func FuzzKinds(f *testing.F) {
	f.Add("Hello, y'all! 3.14\n\n\t ok")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 150 || !utf8.ValidString(text) { // within the limits of the cutters
			return
		}
		checkKinds(t, text)
	})
}

// TestCutters: for any text, cutters make progress and lose nothing.
func TestCutters(t *testing.T) {
	for name, k := range byName {
		for _, text := range []string{
			strings.Repeat("1", 5000), strings.Repeat(" ", 5000) + "x", strings.Repeat("\n ", 900) + "é",
			strings.Repeat("aB'", 900), strings.Repeat("1", 999) + "x", strings.Repeat(".", 3000),
			"日本" + strings.Repeat("\u0301", 2000), "a\xff\xc3b \xe2\x82",
		} {
			if got := strings.Join(split(text, k.cutters), ""); got != text {
				t.Errorf("%s: %.20q comes back as %.20q", name, text, got)
			}
		}
	}
}

func TestUnknownKind(t *testing.T) {
	_, err := kindOf("lama-bpe")
	for _, want := range []string{`"lama-bpe", which is not supported (nearest: llama-bpe`, "qwen2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v", err)
		}
	}
}
