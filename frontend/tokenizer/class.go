package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// class is a set of character classes, such as \p{N}, that the patterns of this package use.
type class uint16

const (
	upper   class = 1 << iota // \p{Lu} \p{Lt}
	lower                     // \p{Ll}
	other                     // \p{Lm} \p{Lo}
	number                    // \p{N}
	space                     // \s
	newline                   // \r \n, which are also space
	mark                      // \p{M}
	punct                     // \p{P}
	sign                      // \p{S}
	han                       // \p{Han}, which includes letters, numbers and others
	letter  = upper | lower | other
)

// ascii has the classes of the first 128 characters.
var ascii = func() (table [utf8.RuneSelf]class) {
	for r := range table {
		table[r] = classify(rune(r))
	}
	table['\r'] |= newline
	table['\n'] |= newline
	return table
}()

// classify returns the class of a character: its general category and, with the flag han, its script. It returns 0 for
// other characters, such as control characters.
func classify(r rune) class {
	switch {
	case unicode.IsLower(r):
		return lower
	case unicode.IsUpper(r), unicode.IsTitle(r):
		return upper
	case unicode.IsLetter(r):
		if unicode.Is(unicode.Han, r) {
			return other | han
		}
		return other
	case unicode.IsNumber(r):
		if unicode.Is(unicode.Han, r) {
			return number | han
		}
		return number
	case unicode.IsSpace(r):
		return space
	case unicode.IsMark(r):
		return mark
	case unicode.IsPunct(r):
		return punct
	case unicode.IsSymbol(r):
		if unicode.Is(unicode.Han, r) {
			return sign | han
		}
		return sign
	}
	return 0
}

// next returns the class of the first character of a text, and its length in bytes. An invalid byte has class sign.
func next(text string) (c class, length int) {
	if text != "" && text[0] < utf8.RuneSelf {
		return ascii[text[0]], 1
	}
	return nextWide(text)
}

// nextWide returns the class and the length of a text's first character, which is not ASCII. It is separate so that
// next can be inlined.
func nextWide(text string) (c class, length int) {
	if text == "" {
		return 0, 0
	}
	r, n := utf8.DecodeRuneInString(text)
	return classify(r), n
}

// prefixOf returns the length in bytes of the longest prefix of a text with only characters of a class.
func prefixOf(text string, of class) int { return prefixUpTo(text, of, len(text)) }

// prefixUpTo returns the length in bytes of the longest prefix of a text that has only characters of a class, and at
// most `most` of them.
func prefixUpTo(text string, of class, most int) int {
	i := 0
	for ; most > 0; most-- {
		c, n := next(text[i:])
		if c&of == 0 {
			break
		}
		i += n
	}
	return i
}

// prefixWithout returns the length in bytes of the longest prefix of a text without characters of a class.
func prefixWithout(text string, of class) int {
	i := 0
	for i < len(text) {
		c, n := next(text[i:])
		if c&of != 0 {
			break
		}
		i += n
	}
	return i
}
