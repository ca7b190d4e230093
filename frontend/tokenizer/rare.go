package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// This file has the cutters of kinds that only one or two models use.

// jais2 is the cutter for the following pattern. The suffixes '[sS]|… are the suffixes of cl100k in ASCII.
//
//	'[sS]|…|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
//	\s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}
func jais2(text string) int {
	if n := suffix(text, asciiCase); n > 0 {
		return n
	}
	return jais2Words(text)
}

var jais2Words = unsuffixed(3, letter, true, halves)

// maxBlank is how many bytes halves searches for a line end. It splits white space into many words, and searches for
// each, so the limit keeps the time linear.
const maxBlank = 4096

// halves returns the length of a match of the following pattern.
//
//	\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}
func halves(text string) int {
	if n := lineEnds(text[:min(len(text), maxBlank)]); n > 0 {
		return n
	}
	for most := 512; most > 1; most /= 2 {
		n := prefixUpTo(text, space, most)
		// (?!\S): white space or the end of the text follows.
		if c, _ := next(text[n:]); utf8.RuneCountInString(text[:n]) == most && (n == len(text) || c&space != 0) {
			return n
		}
	}
	return prefixUpTo(text, space, 1)
}

// exaoneMoE is the cutter for the following pattern. The suffixes '[sS]|… are the suffixes of cl100k in ASCII.
//
//	'[sS]|…|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|
//	\s*[\r\n]|\s+(?!\S)|\s+
func exaoneMoE(text string) int {
	if n := suffix(text, asciiCase); n > 0 {
		return n
	}
	c, n := next(text)
	if c&letter != 0 {
		return phrase(text)
	}
	if c&(newline|number) == 0 {
		if m := phrase(text[n:]); m > 0 {
			return n + m
		}
	}
	if c&number != 0 {
		return n
	}
	if n := signRun(text, space|letter|number); n > 0 {
		return n + prefixUpTo(text[n:], newline, 1)
	}
	return blanks(text)
}

// phrase matches (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+: words separated by single spaces.
func phrase(text string) int {
	i := 0
	for {
		at := i
		if at > 0 && strings.HasPrefix(text[at:], " ") {
			at++
		}
		c, n := next(text[at:])
		if c&letter == 0 {
			return i
		}
		i = at + n
		i += prefixOf(text[i:], mark)
	}
}

// spark returns the length of the first piece of a text before merges, as Spark's tokenizer cuts it by the pattern
//
//	[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+
func spark(text string) int {
	for _, match := range []matcher{signedWord, spacedSigns, newlines} {
		if n := match(text); n > 0 {
			return n
		}
	}
	return spaces(text)
}

// scripts matches [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
func scripts(text string) int {
	if text == "" || text[0] < utf8.RuneSelf {
		return 0
	}
	hangul := func(r rune) bool { return r >= '가' && r <= '힣' || r >= 'ㄱ' && r <= 'ㆎ' }
	marks := func(r rune) bool {
		return strings.ContainsRune("！…“”‘’—：；，", r) || r >= '、' && r <= '〿' || r >= '︰' && r <= '﹏'
	}
	bopomofo := func(r rune) bool { return r >= 'ㄅ' && r <= 'ㄯ' }
	for _, in := range []func(rune) bool{hangul, marks, bopomofo} {
		if n := runes(text, in); n > 0 {
			return n
		}
	}
	return kana(text)
}

// sentinel matches <sentinel:[0-9]+>, and returns the length of the match in bytes or 0. The text must begin with
// "<sentinel:".
func sentinel(text string) int {
	rest := text[len("<sentinel:"):]
	end := strings.TrimLeft(rest, "0123456789")
	if len(end) == len(rest) || !strings.HasPrefix(end, ">") {
		return 0
	}
	return len(text) - len(end) + 1
}

// image matches IMGIMG[A-I]{1,4}Z. The text must begin with "IMGIMG".
func image(text string) int {
	rest := text[len("IMGIMG"):]
	end := strings.TrimLeft(rest, "ABCDEFGHI")
	if n := len(rest) - len(end); n < 1 || n > 4 || !strings.HasPrefix(end, "Z") {
		return 0
	}
	return len(text) - len(end) + 1
}

// indent matches [\t\n]|    |  : a newline, a tab, four spaces or two.
func indent(text string) int {
	switch {
	case strings.HasPrefix(text, "    "):
		return 4
	case strings.HasPrefix(text, "  "):
		return 2
	case strings.HasPrefix(text, "\t"), strings.HasPrefix(text, "\n"):
		return 1
	}
	return 0
}

// punctuation matches [\p{P}!-/:-@\[-`{-~], one character.
func punctuation(text string) int {
	c, n := next(text)
	if c&punct != 0 || n == 1 && c&sign != 0 && text[0] < utf8.RuneSelf {
		return n
	}
	return 0
}
