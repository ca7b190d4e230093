package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Decoder decodes tokens one by one as a model generates them. It returns valid UTF-8. If several tokens have the bytes
// of one character, it returns the character with the last of them.
type Decoder struct {
	t    *Tokenizer
	rest string // the first bytes of an incomplete character
}

// Decoder returns a decoder for tokens that continue a sequence. Unlike Decode, it keeps a space at the beginning.
func (t *Tokenizer) Decoder() *Decoder { return &Decoder{t: t} }

// Next returns the text that the token id completes. Invalid bytes become U+FFFD. Special tokens have no text.
func (d *Decoder) Next(id int32) string {
	if !d.t.has(id) || d.t.types[id].special() {
		return ""
	}
	text := d.rest + d.t.pieces[id]
	n := len(text) - unfinished(text)
	d.rest = text[n:]
	return strings.ToValidUTF8(text[:n], "\uFFFD")
}

// Flush ends the text: it returns U+FFFD if a character is still incomplete, and otherwise "".
func (d *Decoder) Flush() string {
	rest := d.rest
	d.rest = ""
	return strings.ToValidUTF8(rest, "\uFFFD")
}

// unfinished returns the length of an incomplete character at the end of a text.
func unfinished(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRuneInString(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
