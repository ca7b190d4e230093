package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/filefmt"
)

// A cutter splits off the first piece of a nonempty text: it returns the piece's length. Each cutter implements a
// regular expression by hand, in time linear in the text. A piece is a match of the expression, or the text before the
// next match.
type cutter func(text string) int

// kind says how a vocabulary splits text into words. tokenizer.ggml.pre names it.
type kind struct {
	cutters []cutter // the first splits the text, and each later one the pieces of the cutter before it
	whole   bool     // a word that is a token is encoded as that token, without merging
	bos     bool     // whether the BOS token begins a text by default
	sep     bool     // whether the separator ends a text by default
}

// kindWith returns a kind with these cutters and no options.
func kindWith(c ...cutter) kind { return kind{cutters: c} }

// common lists the kinds. names has, separated by spaces, the names in tokenizer.ggml.pre that share a kind.
var common = []struct {
	names string
	kind  kind
}{
	{"default", kindWith(until(signs("$+<=>^~|")), gpt2, until(numbers(maxNumber)), until(digits3))},
	{"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling exaone4", kindWith(gpt2)},
	{"jina-v1-en jina-v2-code roberta-bpe", kind{cutters: []cutter{gpt2}, sep: true}},
	{"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", kindWith(until(numbers(1)), gpt2)},
	{"falcon", kindWith(until(signs("$+<=>^~|`")), gpt2, until(digits3))},
	{"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", kind{cutters: []cutter{cl100k(3, letter, true)}, whole: true, bos: true}},
	{"dbrx smaug-bpe glm4 chatglm-bpe", kindWith(cl100k(3, letter, true))},
	{"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 bailingmoe bailingmoe2 llada-moe", kindWith(cl100k(1, letter, true))},
	{"qwen35", kindWith(cl100k(1, letter|mark, true))},
	{"seed-coder", kindWith(cl100k(1, letter, false))},
	{"laguna", kindWith(lines, cl100k(1, letter, true))},
	{"minicpm5", kind{cutters: []cutter{until(numbers(3)), cl100k(maxNumber, letter, true)}, whole: true}},
	{"gpt-4o llama4 kanana2 talkie minimax-m2", kindWith(o200k{digits: 3, suffixes: anyCase, tail: "\r\n/"}.cut)},
	{"tekken", kind{cutters: []cutter{o200k{digits: 1, suffixes: noSuffix, tail: "\r\n/"}.cut}, whole: true, bos: true}},
	{"kimi-k2", kindWith(o200k{digits: 3, suffixes: anyCase, tail: "\r\n", han: true}.cut)},
	{"tiny_aya cohere2moe", kindWith(until(groups), threesFromEnd, o200k{digits: 3, suffixes: anyCase, tail: "\r\n/"}.cut)},
	{"deepseek-coder", kindWith(until(newlines), until(after(letter)), until(after(punct)), until(eastAsian), until(numbers(1)))},
	{"deepseek-llm", kindWith(until(newlines), until(after(upper|lower)), until(afterSigns), trailing, until(eastAsian), until(numbers(maxNumber)))},
	{"deepseek-v3 hunyuan-dense joyai-llm hy_v4", kindWith(until(numbers(3)), until(kana), until(deepseek3))},
	{"poro-chat bloom gpt3-finnish", kindWith(until(sentence))},
	{"viking", kindWith(until(sentence), until(numbers(1)))},
	{"ufakzeka", kindWith(unsuffixed(1, letter, true, blanks))},
	{"jais-2", kindWith(jais2)},
	{"exaone-moe", kindWith(exaoneMoE)},
	{"spark2_5", kindWith(until(numbers(3)), until(kana), until(spark), until(numbers(1)))},
	{"youtu", kindWith(until(scripts), o200k{digits: 1, suffixes: asciiCase, tail: "\r\n/"}.cut)},
	{"chameleon", kind{cutters: []cutter{from("<sentinel:", sentinel), from("IMGIMG", image), until(indent), until(numbers(1)), until(punctuation), gpt2}, bos: true}},
}

// byName maps each name in tokenizer.ggml.pre to its kind.
var byName = func() map[string]kind {
	table := map[string]kind{}
	for _, row := range common {
		for name := range strings.FieldsSeq(row.names) {
			table[name] = row.kind
		}
	}
	return table
}()

// Kinds lists the names that tokenizer.ggml.pre may have in byte-level vocabularies.
func Kinds() []string { return slices.Sorted(maps.Keys(byName)) }

// kindOf returns the kind for a name in tokenizer.ggml.pre, or an error that lists all names.
func kindOf(pre string) (kind, error) {
	k, ok := byName[pre]
	if !ok {
		nearest, all := strings.Join(filefmt.Nearest(pre, Kinds(), 3), ", "), strings.Join(Kinds(), ", ")
		return k, fmt.Errorf("tokenizer: tokenizer.ggml.pre is %q, which is not supported (nearest: %s): "+
			"want one of %s", pre, nearest, all)
	}
	return k, nil
}

// A matcher returns the length of a pattern's match at the beginning of a text, or 0 if it does not match there.
type matcher func(text string) int

// until returns a cutter that splits a text into the matches of a pattern and the text between them.
func until(match matcher) cutter {
	return func(text string) int {
		if n := match(text); n > 0 {
			return n
		}
		for i := 0; ; {
			_, n := next(text[i:])
			i += n
			if i == len(text) || match(text[i:]) > 0 {
				return i
			}
		}
	}
}

// from returns a cutter with the same results as until(match), but faster. Every match must begin with the string
// begin. So the cutter tries to match only where it finds that string.
func from(begin string, match matcher) cutter {
	return func(text string) int {
		if strings.HasPrefix(text, begin) {
			if n := match(text); n > 0 {
				return n
			}
		}
		for i := 0; ; i++ {
			next := strings.Index(text[i:], begin)
			if next < 0 {
				return len(text)
			}
			i += next
			if match(text[i:]) > 0 {
				return i
			}
		}
	}
}

// gpt2 is the cutter for the following pattern. It returns the length of the first match, in bytes.
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2(text string) int {
	if n := suffix(text, ownCase); n > 0 {
		return n
	}
	body := strings.TrimPrefix(text, " ")
	before := len(text) - len(body)
	switch c, _ := next(body); {
	case c&letter != 0:
		return before + prefixOf(body, letter)
	case c&number != 0:
		return before + prefixOf(body, number)
	case c&space == 0 && body != "":
		return before + prefixWithout(body, space|letter|number)
	}
	return spaces(text)
}

// folding says which letters match the lower-case letters of a suffix.
type folding int

const (
	ownCase   folding = iota
	asciiCase         // ASCII letters in either case
	anyCase           // all case variants that Unicode folds together
	noSuffix          // of patterns that know no suffixes
)

// suffix returns the length of an English suffix at the beginning of a text, including its apostrophe, or 0. how says
// which letters count as equal:
//
//	's|'t|'re|'ve|'m|'ll|'d
func suffix(text string, how folding) int {
	if len(text) < 2 || text[0] != '\'' || how == noSuffix {
		return 0
	}
	if how == anyCase && strings.HasPrefix(text, "'ſ") { // a long s matches s as well
		return len("'ſ")
	}
	fold := func(b byte) byte {
		if how != ownCase && b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		return b
	}
	switch a := fold(text[1]); {
	case a == 's', a == 't', a == 'm', a == 'd':
		return 2
	case len(text) == 2:
	case a == 'r' && fold(text[2]) == 'e', a == 'v' && fold(text[2]) == 'e', a == 'l' && fold(text[2]) == 'l':
		return 3
	}
	return 0
}

// spaces returns the length of a match of \s+(?!\S)|\s+: white space, but without its last character if other text
// follows.
func spaces(text string) int {
	end, last := 0, 0
	for end < len(text) {
		c, n := next(text[end:])
		if c&space == 0 {
			break
		}
		end, last = end+n, n
	}
	if end < len(text) && end > last {
		return end - last
	}
	return end
}

// lineEnds returns the length of a match of \s*[\r\n]+: white space up to and including its last line end.
func lineEnds(text string) int {
	end := 0
	for i := 0; i < len(text); {
		c, n := next(text[i:])
		if c&space == 0 {
			break
		}
		i += n
		if c&newline != 0 {
			end = i
		}
	}
	return end
}

// blanks matches \s*[\r\n]+|\s+(?!\S)|\s+
func blanks(text string) int {
	if n := lineEnds(text); n > 0 {
		return n
	}
	return spaces(text)
}

// cl100k returns the cutter for the following pattern, if letters is [\p{L}] and digits is 3. If lines is not set, the
// part [\r\n]* is missing.
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//	\s*[\r\n]+|\s+(?!\S)|\s+
func cl100k(digits int, letters class, lines bool) cutter {
	rest := unsuffixed(digits, letters, lines, blanks)
	return func(text string) int {
		if n := suffix(text, anyCase); n > 0 {
			return n
		}
		return rest(text)
	}
}

// unsuffixed returns the cutter of cl100k without the suffixes such as 's. digits is the largest number of digits of a
// word, letters the class of letters, and lines says that signs take the line ends after them. white is the cutter for
// white space, the pattern's second line.
func unsuffixed(digits int, letters class, lines bool, white cutter) cutter {
	return func(text string) int {
		c, n := next(text)
		if c&letters != 0 {
			return prefixOf(text, letters)
		}
		if c&(newline|number) == 0 {
			if m := prefixOf(text[n:], letters); m > 0 {
				return n + m
			}
		}
		if c&number != 0 {
			return prefixUpTo(text, number, digits)
		}
		if n := signRun(text, space|letters|number); n > 0 {
			if lines {
				n += prefixOf(text[n:], newline)
			}
			return n
		}
		return white(text)
	}
}

// signRun returns the length of a match of  ?[^...]+ with the classes `excluded` in the brackets, or 0.
func signRun(text string, excluded class) int {
	body := strings.TrimPrefix(text, " ")
	if n := prefixWithout(body, excluded); n > 0 {
		return len(text) - len(body) + n
	}
	return 0
}

// o200k describes a cutter. With suffixes anyCase, digits 3 and tail "\r\n/", its pattern is
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// With han, the pattern begins with \p{Han}+, and other words contain no Han characters.
type o200k struct {
	digits   int     // the most digits of a word
	suffixes folding // which suffixes such as 's a word takes
	tail     string  // the characters that signs take after them
	han      bool
}

// cut returns the length of the first word of a text, in bytes, by the pattern of the tokenizer.
func (p o200k) cut(text string) int {
	c, n := next(text)
	if p.han && c&han != 0 {
		return prefixOf(text, han)
	}
	if m := p.word(text, c, n); m > 0 {
		return m + suffix(text[m:], p.suffixes)
	}
	if c&number != 0 {
		return prefixUpTo(text, number, p.digits)
	}
	if n := signRun(text, space|letter|number); n > 0 {
		return len(text) - len(strings.TrimLeft(text[n:], p.tail))
	}
	return blanks(text)
}

// word returns the length of a word at the beginning of text, or 0 if there is none. It matches the first two lines of
// o200k's pattern, without the suffix such as 's. c and n are the class and length of the first character.
func (p o200k) word(text string, c class, n int) int {
	prefixed := c&(letter|number|newline) == 0 // the first character may be a sign or space before the word
	var rest string
	if prefixed {
		rest = text[n:]
		if m := p.capitalized(rest); m > 0 {
			return n + m
		}
	}
	if m := p.capitalized(text); m > 0 {
		return m
	}
	if prefixed {
		if m := p.heads(rest); m > 0 {
			return n + m
		}
	}
	return p.heads(text)
}

// heads matches [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*
func (p o200k) heads(text string) int {
	i := 0
	for i < len(text) {
		c, n := next(text[i:])
		if c&(upper|other|mark) == 0 || p.han && c&han != 0 {
			break
		}
		i += n
	}
	return i
}

// capitalized matches [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+. If no lower-case letter follows the
// first class, it backtracks to the last character that is in both classes.
func (p o200k) capitalized(text string) int {
	i, both := 0, 0
	for i < len(text) {
		c, n := next(text[i:])
		if p.han && c&han != 0 {
			break
		}
		if c&lower != 0 { // the second class begins
			for i < len(text) {
				c, n := next(text[i:])
				if c&(lower|other|mark) == 0 || p.han && c&han != 0 {
					break
				}
				i += n
			}
			return i
		}
		if c&(upper|other|mark) == 0 {
			break
		}
		i += n
		if c&(other|mark) != 0 {
			both = i
		}
	}
	return both
}

// deepseek3 is the last cutter of DeepSeek 3, after the cutters for numbers and for Chinese and Japanese characters. It
// returns the length in bytes of the match at the start of the text, or 0 for none:
//
//	[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func deepseek3(text string) int {
	if n := signedWord(text); n > 0 {
		return n
	}
	if n := spacedSigns(text); n > 0 {
		return n + prefixOf(text[n:], newline)
	}
	return blanks(text)
}

// signedWord matches [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
func signedWord(text string) int {
	c, n := next(text)
	// The first alternative: an ASCII sign and ASCII letters.
	if n == 1 && c&(punct|sign) != 0 && text[0] < utf8.RuneSelf {
		if m := asciiLetters(text[1:]); m > 0 {
			return 1 + m
		}
	}
	if c&(letter|mark) != 0 {
		return prefixOf(text, letter|mark)
	}
	if c&(newline|punct|sign) == 0 {
		if m := prefixOf(text[n:], letter|mark); m > 0 {
			return n + m
		}
	}
	return 0
}

// spacedSigns matches  ?[\p{P}\p{S}]+
func spacedSigns(text string) int {
	body := strings.TrimPrefix(text, " ")
	if m := prefixOf(body, punct|sign); m > 0 {
		return m + len(text) - len(body)
	}
	return 0
}

// asciiLetters matches [A-Za-z]*
func asciiLetters(text string) int {
	i := 0
	for i < len(text) && text[i] < utf8.RuneSelf && ascii[text[i]]&letter != 0 {
		i++
	}
	return i
}

// numbers matches \p{N}{1,most}
func numbers(most int) matcher {
	return func(text string) int { return prefixUpTo(text, number, most) }
}

// digits3 matches [0-9][0-9][0-9]
func digits3(text string) int {
	if len(text) < 3 {
		return 0
	}
	for i := range 3 {
		if text[i] < '0' || text[i] > '9' {
			return 0
		}
	}
	return 3
}

// maxNumber is the largest number of digits that a cutter groups from the number's end. Finding each group scans the
// rest of the number, so the limit keeps the time linear.
const maxNumber = 192

// threesFromEnd splits a piece that consists of digits into groups of three, counted from the end like thousands:
// 1234567 into 1, 234 and 567. It returns the length in bytes of the first group, or of the whole piece if it has other
// characters.
func threesFromEnd(text string) int {
	if prefixUpTo(text, number, maxNumber) < len(text) {
		return len(text)
	}
	if n := utf8.RuneCountInString(text) % 3; n > 0 {
		return prefixUpTo(text, number, n)
	}
	return prefixUpTo(text, number, 3)
}

// groups returns the length of the digits that repeated matches of \d{1,3}(?=(?:\d{3})*\b) cover: the digits of
// a number, at most maxNumber, or none if a letter follows them.
func groups(text string) int {
	i := 0
	for range maxNumber {
		r, n := utf8.DecodeRuneInString(text[i:])
		if n == 0 || !unicode.Is(unicode.Nd, r) {
			break
		}
		i += n
	}
	const joiners = "\u200c\u200d" // count as letters here
	r, _ := utf8.DecodeRuneInString(text[i:])
	if unicode.In(r, unicode.L, unicode.M, unicode.Nl, unicode.Pc) || strings.ContainsRune(joiners, r) {
		return 0
	}
	return i
}

// newlines matches [\r\n]
func newlines(text string) int {
	c, n := next(text)
	if c&newline == 0 {
		return 0
	}
	return n
}

// lines matches [^\n]+|\n+
func lines(text string) int {
	if n := len(text) - len(strings.TrimLeft(text, "\n")); n > 0 {
		return n
	}
	if n := strings.IndexByte(text, '\n'); n > 0 {
		return n
	}
	return len(text)
}

// after returns a matcher of \s?[...]+, with the characters of a class in the brackets.
func after(of class) matcher {
	return func(text string) int {
		c, n := next(text)
		if c&space == 0 {
			return prefixOf(text, of)
		}
		if m := prefixOf(text[n:], of); m > 0 {
			return n + m
		}
		return 0
	}
}

// afterSigns matches \s?[!-/:-~！-／：-～‘-‟\u3000-。]+
func afterSigns(text string) int {
	if c, n := next(text); c&space != 0 {
		if m := runes(text[n:], isAfterSign); m > 0 {
			return n + m
		}
	}
	return runes(text, isAfterSign)
}

var isAfterSign = tabled(func(r rune) bool {
	return r >= '!' && r <= '~' && (r < '0' || r > '9') || r >= '！' && r <= '～' && (r < '０' || r > '９') ||
		r >= '‘' && r <= '‟' || r >= 0x3000 && r <= '。'
})

// trailing splits a text into \s+$, the white space at its end, and the text before it.
func trailing(text string) int {
	if n := len(strings.TrimRightFunc(text, unicode.IsSpace)); n > 0 {
		return n
	}
	return len(text)
}

// signs matches [\p{P}...]+, where the characters in more stand for the dots.
func signs(more string) matcher {
	in := tabled(func(r rune) bool { return unicode.IsPunct(r) || strings.ContainsRune(more, r) })
	return func(text string) int { return runes(text, in) }
}

// tabled returns a faster version of in: it looks up ASCII characters, the most frequent ones, in a table.
func tabled(in func(r rune) bool) func(r rune) bool {
	var table [utf8.RuneSelf]bool
	for r := range table {
		table[r] = in(rune(r))
	}
	return func(r rune) bool {
		if r >= 0 && r < utf8.RuneSelf {
			return table[r]
		}
		return in(r)
	}
}

// runes returns the length of the longest prefix of a text with only characters for which in is true.
func runes(text string, in func(r rune) bool) int {
	if r, _ := utf8.DecodeRuneInString(text); !in(r) { // the usual case
		return 0
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return !in(r) }); i >= 0 {
		return i
	}
	return len(text)
}

// eastAsian matches [一-龥ࠀ-一가-퟿]+
func eastAsian(text string) int {
	return runes(text, func(r rune) bool { return r >= 0x0800 && r <= 0x9FA5 || r >= 0xAC00 && r <= 0xD7FF })
}

// kana matches [一-龥぀-ゟ゠-ヿ]+
func kana(text string) int {
	return runes(text, func(r rune) bool { return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF })
}

// sentence matches  ?[^(\s|.,!?…。，、।۔،)]+
func sentence(text string) int {
	body := strings.TrimPrefix(text, " ")
	n := runes(body, inSentence)
	if n == 0 {
		return 0
	}
	return len(text) - len(body) + n
}

var inSentence = tabled(func(r rune) bool {
	return !unicode.IsSpace(r) && !strings.ContainsRune("(|.,!?…。，、।۔،)", r)
})
