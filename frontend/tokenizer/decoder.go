package tokenizer

import "strings"

// Decoder decodes tokens one by one as a model gives them. What it returns is
// valid UTF-8: a character whose bytes are spread over tokens appears with the
// last of them.
type Decoder struct {
	t    *Tokenizer
	rest string // the beginning of a character
}

// Decoder returns a decoder of text that goes on another one.
func (t *Tokenizer) Decoder() *Decoder { return &Decoder{t: t} }

// Next returns the text that a token completes. Bytes that belong to no character
// become U+FFFD. Special tokens stand for no text.
func (d *Decoder) Next(id int32) string {
	if !d.t.has(id) || d.t.types[id].special() {
		return ""
	}
	text := d.rest + d.t.pieces[id]
	n := len(text) - unfinished(text)
	d.rest = text[n:]
	return strings.ToValidUTF8(text[:n], "\uFFFD")
}

// Flush returns what is left at the end: U+FFFD for a character that was not
// finished.
func (d *Decoder) Flush() string {
	rest := d.rest
	d.rest = ""
	return strings.ToValidUTF8(rest, "\uFFFD")
}
