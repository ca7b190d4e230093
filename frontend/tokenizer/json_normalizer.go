package tokenizer

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/bailout"
	"golang.org/x/text/unicode/norm"
)

// normalizer changes a text before it is split into words.
type normalizer func(text string) string

// readNormalizer reads a normalizer of a tokenizer.json. depth is how deeply it is nested in sequences.
func readNormalizer(raw json.RawMessage, depth int) normalizer {
	checkNesting("normalizer", depth)
	switch kind := decodeJSON[typed]("normalizer", raw).Type; kind {
	case "Sequence":
		var all []normalizer
		for _, part := range decodeJSON[struct{ Normalizers []json.RawMessage }](kind, raw).Normalizers {
			all = append(all, readNormalizer(part, depth+1))
		}
		return func(text string) string {
			for _, n := range all {
				text = n(text)
			}
			return text
		}
	case "NFC":
		return norm.NFC.String
	case "NFD":
		return norm.NFD.String
	case "NFKC":
		return norm.NFKC.String
	case "NFKD":
		return norm.NFKD.String
	case "Lowercase":
		return lowercase
	case "StripAccents":
		return func(text string) string { return without(text, unicode.IsMark) }
	case "Strip":
		c := decodeJSON[struct {
			Left  bool `json:"strip_left"`
			Right bool `json:"strip_right"`
		}](kind, raw)
		return func(text string) string { return trimmed(text, c.Left, c.Right) }
	case "Nmt":
		return nmt
	case "Prepend":
		before := decodeJSON[struct{ Prepend string }](kind, raw).Prepend
		return func(text string) string {
			if text == "" {
				return ""
			}
			return before + text
		}
	case "ByteLevel":
		return bytesToNames
	case "Replace":
		c := decodeJSON[struct {
			Pattern json.RawMessage
			Content string
		}](kind, raw)
		replace := readPattern(c.Pattern)
		return func(text string) string { return replace.replaceAll(text, c.Content) }
	case "BertNormalizer":
		return readBertNormalizer(raw)
	case "Precompiled":
		return readPrecompiled(raw)
	default:
		unsupported("normalizer", kind)
		return nil
	}
}

// lowercase converts a text to lower case, character by character.
func lowercase(text string) string {
	if strings.Contains(text, "İ") { // the one letter that becomes two characters
		text = strings.ReplaceAll(text, "İ", "i̇")
	}
	return mapped(text, unicode.ToLower)
}

// mapped replaces each character r of a text by f(r), or drops it if that is negative, like strings.Map. Unlike
// strings.Map, it keeps bytes that are not UTF-8.
func mapped(text string, f func(r rune) rune) string {
	if utf8.ValidString(text) {
		return strings.Map(f, text)
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteByte(text[i])
		} else if r = f(r); r >= 0 {
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// without removes the characters for which drop returns true.
func without(text string, drop func(r rune) bool) string {
	return mapped(text, func(r rune) rune {
		if drop(r) {
			return -1
		}
		return r
	})
}

// isSpace reports whether a character is white space.
func isSpace(r rune) bool { return unicode.IsSpace(r) }

// trimmed removes white space from the left end, the right end or both ends of a text.
func trimmed(text string, left, right bool) string {
	if left {
		text = strings.TrimLeftFunc(text, isSpace)
	}
	if right {
		text = strings.TrimRightFunc(text, isSpace)
	}
	return text
}

// nmt removes control characters and makes separators spaces, as SentencePiece's rules of machine translation do.
func nmt(text string) string {
	return mapped(text, func(r rune) rune {
		switch {
		case r >= 0x1 && r <= 0x8, r == 0xB, r >= 0xE && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
			return -1
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F, r == 0x2028,
			r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	})
}

// readBertNormalizer reads the normalizer of BERT (Devlin et al. 2018).
func readBertNormalizer(raw json.RawMessage) normalizer {
	c := decodeJSON[struct {
		Clean   bool  `json:"clean_text"`
		Chinese bool  `json:"handle_chinese_chars"`
		Strip   *bool `json:"strip_accents"`
		Lower   bool  `json:"lowercase"`
	}]("BertNormalizer", raw)
	return func(text string) string {
		if c.Clean {
			text = mapped(text, func(r rune) rune {
				switch {
				case r == '\t', r == '\n', r == '\r':
					return ' '
				case r == unicode.ReplacementChar, unicode.Is(unicode.C, r), isUnassigned(r):
					return -1
				case isSpace(r):
					return ' '
				}
				return r
			})
		}
		if c.Chinese {
			text = spaced(text, ideograph)
		}
		// Strip_accents follows lowercase unless it is given.
		if c.Strip == nil && c.Lower || c.Strip != nil && *c.Strip {
			text = without(norm.NFD.String(text), func(r rune) bool { return unicode.Is(unicode.Mn, r) })
		}
		if c.Lower {
			text = lowercase(text)
		}
		return text
	}
}

// spaced puts a space before and after each character for which in is true.
func spaced(text string, in func(r rune) bool) string {
	if strings.IndexFunc(text, in) < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if in(r) {
			b.WriteString(" " + text[i:i+n] + " ")
		} else {
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

// readPrecompiled reads a normalizer by a compiled character map of SentencePiece. An empty map changes nothing.
func readPrecompiled(raw json.RawMessage) normalizer {
	c := decodeJSON[struct {
		Map string `json:"precompiled_charsmap"`
	}]("Precompiled", raw)
	if c.Map == "" {
		return func(text string) string { return text }
	}
	data, err := base64.StdEncoding.DecodeString(c.Map)
	bailout.Check(err)
	m := bailout.Must(parseCharsmap("precompiled_charsmap", data))
	return func(text string) string {
		var b strings.Builder
		for text != "" {
			chars, n := m.replace(text)
			b.WriteString(chars)
			text = text[n:]
		}
		return b.String()
	}
}

// bytesToNames writes each byte as the character that stands for it in byte-level vocabularies.
func bytesToNames(text string) string {
	var b strings.Builder
	b.Grow(2 * len(text))
	for i := range len(text) {
		b.WriteRune(printable[text[i]])
	}
	return b.String()
}

// search is a text or a pattern to look for.
type search struct {
	text    string
	pattern *pattern // nil for a text
}

// readPattern reads {"String": ...} or {"Regex": ...}.
func readPattern(raw json.RawMessage) search {
	c := decodeJSON[struct{ String, Regex *string }]("pattern", raw)
	switch {
	case c.String != nil:
		return search{text: *c.String}
	case c.Regex != nil:
		return search{pattern: bailout.Must(compilePattern(*c.Regex))}
	}
	bailout.Unless(false, "a pattern is %.60s: want String or Regex", raw)
	return search{}
}

// pieces calls each for the matches of the search in a text and for the text between them, in order.
func (s search) pieces(text string, each func(piece string, match bool)) {
	if s.pattern != nil {
		s.pattern.pieces(text, each)
		return
	}
	for s.text != "" {
		i := strings.Index(text, s.text)
		if i < 0 {
			break
		}
		if i > 0 {
			each(text[:i], false)
		}
		each(text[i:i+len(s.text)], true)
		text = text[i+len(s.text):]
	}
	if text != "" {
		each(text, false)
	}
}

// replaceAll replaces the matches of the search.
func (s search) replaceAll(text, by string) string {
	if s.pattern == nil && s.text != "" {
		return strings.ReplaceAll(text, s.text, by)
	}
	if s.pattern == nil {
		return text
	}
	return s.pattern.replace(text, by)
}
