package tokenizer

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/bailout"
)

// piece is a part of a text on its way to words.
type piece struct {
	text   string
	begins bool // it begins the whole text
}

// splitter appends the parts of a piece. A pre-tokenizer of a tokenizer.json is one.
type splitter func(out []piece, p piece) []piece

// readSplitter reads a pre-tokenizer of a tokenizer.json. depth is how deeply it is nested in sequences.
func readSplitter(raw json.RawMessage, depth int) splitter {
	checkNesting("pre-tokenizer", depth)
	switch kind := decodeJSON[typed]("pre_tokenizer", raw).Type; kind {
	case "Sequence":
		var all []splitter
		for _, part := range decodeJSON[struct{ PreTokenizers []json.RawMessage }](kind, raw).PreTokenizers {
			all = append(all, readSplitter(part, depth+1))
		}
		return inSequence(all)
	case "ByteLevel":
		c := decodeJSON[struct {
			Prefix bool  `json:"add_prefix_space"`
			Regex  *bool `json:"use_regex"`
		}](kind, raw)
		return byteLevel(c.Prefix, c.Regex == nil || *c.Regex)
	case "Metaspace":
		return readMetaspace(raw)
	case "Split":
		c := decodeJSON[struct {
			Pattern  json.RawMessage
			Behavior string
			Invert   bool
		}](kind, raw)
		find := readPattern(c.Pattern)
		return splitAt(behaviorOf(c.Behavior), func(text string, each func(part string, separator bool)) {
			find.pieces(text, func(part string, match bool) { each(part, match != c.Invert) })
		})
	case "Whitespace":
		return splitAt(removed, wordsAndSigns)
	case "WhitespaceSplit":
		return splitChars(removed, unicode.IsSpace)
	case "BertPreTokenizer":
		return inSequence([]splitter{splitChars(removed, unicode.IsSpace), splitChars(isolated, isPunctuation)})
	case "Punctuation":
		c := decodeJSON[struct{ Behavior string }](kind, raw)
		if c.Behavior == "" {
			c.Behavior = "Isolated"
		}
		return splitChars(behaviorOf(c.Behavior), isPunctuation)
	case "Digits":
		how := contiguous
		if decodeJSON[struct {
			Each bool `json:"individual_digits"`
		}](kind, raw).Each {
			how = isolated
		}
		return splitChars(how, unicode.IsNumber)
	case "CharDelimiterSplit", "Delimiter":
		delimiter, n := utf8.DecodeRuneInString(decodeJSON[struct{ Delimiter string }](kind, raw).Delimiter)
		bailout.Unless(n > 0, "the delimiter of %s is empty", kind)
		return splitChars(removed, func(r rune) bool { return r == delimiter })
	case "UnicodeScripts":
		return splitScripts
	case "FixedLength":
		n := decodeJSON[struct{ Length int }](kind, raw).Length
		bailout.Unless(n > 0, "the length of %s is %d: want at least 1", kind, n)
		return fixedLength(n)
	default:
		unsupported("pre-tokenizer", kind)
		return nil
	}
}

// wordsAndSigns calls each for the words of a text, for the signs between words, and for white space as separators.
func wordsAndSigns(text string, each func(part string, separator bool)) {
	const space, word, sign = 0, 1, 2
	classOf := func(r rune) int {
		switch {
		case isWord(r):
			return word
		case unicode.IsSpace(r):
			return space
		}
		return sign
	}
	byClass(text, classOf, func(part string, class int) { each(part, class == space) })
}

// inSequence returns the splitter that applies all splitters one after another, each to the parts of the one before.
func inSequence(all []splitter) splitter {
	return func(out []piece, p piece) []piece {
		parts := []piece{p}
		for _, s := range all {
			var next []piece
			for _, part := range parts {
				if part.text != "" {
					next = s(next, part)
				}
			}
			parts = next
		}
		return append(out, parts...)
	}
}

// behavior says how a splitter treats the delimiters between the parts of a text.
type behavior uint8

const (
	removed    behavior = iota // they are dropped
	isolated                   // each is a part
	contiguous                 // adjacent ones are one part
	toPrevious                 // they end the part before
	toNext                     // they begin the part after
)

// behaviorOf returns the behavior of a name.
func behaviorOf(name string) behavior {
	for i, have := range []string{"Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext"} {
		if have == name {
			return behavior(i)
		}
	}
	unsupported("behavior", name)
	return removed
}

// splitAt returns the splitter for delimiters. find calls each for the delimiters of a text and for the text between
// them, in order.
func splitAt(how behavior, find func(text string, each func(part string, delimiter bool))) splitter {
	return func(out []piece, p piece) []piece {
		begins := p.begins
		add := func(text string) {
			if text != "" {
				out = append(out, piece{text, begins})
			}
			begins = false
		}
		if how == removed {
			find(p.text, func(part string, delimiter bool) {
				if delimiter {
					begins = false
				} else {
					add(part)
				}
			})
			return out
		}
		from, end := 0, 0          // p.text[from:end] is the part that may still grow
		open, last := false, false // whether there is such a part, and whether its end is a delimiter
		find(p.text, func(part string, delimiter bool) {
			if open && !how.joins(last, delimiter) {
				add(p.text[from:end])
				from = end
			}
			end += len(part)
			open, last = true, delimiter
		})
		if open {
			add(p.text[from:end])
		}
		return out
	}
}

// joins reports whether two adjacent stretches of a text become one part. last and next say whether the first and the
// second stretch are delimiters.
func (how behavior) joins(last, next bool) bool {
	switch how {
	case contiguous:
		return last == next
	case toPrevious:
		return !last && next
	case toNext:
		return last && !next
	}
	return false
}

// splitChars returns the splitter at characters for which in is true, each a delimiter of its own. how says what
// becomes of the delimiters, as in splitAt.
func splitChars(how behavior, in func(r rune) bool) splitter {
	return splitAt(how, func(text string, each func(string, bool)) {
		from := 0
		for i := 0; i < len(text); {
			r, n := utf8.DecodeRuneInString(text[i:])
			if in(r) {
				if from < i {
					each(text[from:i], false)
				}
				each(text[i:i+n], true)
				from = i + n
			}
			i += n
		}
		if from < len(text) {
			each(text[from:], false)
		}
	})
}

// byClass calls each for the longest parts of a text with characters of one class.
func byClass(text string, classOf func(r rune) int, each func(part string, class int)) {
	from, last := 0, 0
	for i, r := range text {
		if c := classOf(r); i == 0 {
			last = c
		} else if c != last {
			each(text[from:i], last)
			from, last = i, c
		}
	}
	if from < len(text) {
		each(text[from:], last)
	}
}

// isPunctuation reports whether BERT splits at a character.
func isPunctuation(r rune) bool {
	return unicode.IsPunct(r) || r > ' ' && r < 0x7f && unicode.IsSymbol(r)
}

// byteLevel returns the pre-tokenizer of byte-level vocabularies (Radford et al. 2019). If prefix is set, it adds a
// space before the text. If words is set, it splits the text by GPT-2's pattern.
func byteLevel(prefix, words bool) splitter {
	return func(out []piece, p piece) []piece {
		text, begins := p.text, p.begins
		if prefix && !strings.HasPrefix(text, " ") {
			text = " " + text
		}
		for text != "" {
			n := len(text)
			if words {
				n = gpt2(text)
			}
			out = append(out, piece{bytesToNames(text[:n]), begins})
			text, begins = text[n:], false
		}
		return out
	}
}

// readMetaspace reads the pre-tokenizer of SentencePiece's vocabularies, which writes spaces as the replacement (a
// blank), adds one before the text, and splits before each.
func readMetaspace(raw json.RawMessage) splitter {
	c := decodeJSON[struct {
		Replacement string
		Scheme      string `json:"prepend_scheme"`
		Prefix      *bool  `json:"add_prefix_space"`
		Split       *bool
	}]("Metaspace", raw)
	if c.Scheme == "" {
		c.Scheme = "always"
		if c.Prefix != nil && !*c.Prefix {
			c.Scheme = "never"
		}
	}
	bailout.Unless(c.Replacement != "", "the replacement of Metaspace is empty")
	switch c.Scheme {
	case "always", "never", "first":
	default:
		unsupported("prepend_scheme", c.Scheme)
	}
	atBlanks := splitAt(toNext, search{text: c.Replacement}.pieces)
	return func(out []piece, p piece) []piece {
		text := strings.ReplaceAll(p.text, " ", c.Replacement)
		if (c.Scheme == "always" || c.Scheme == "first" && p.begins) && !strings.HasPrefix(text, c.Replacement) {
			text = c.Replacement + text
		}
		if c.Split != nil && !*c.Split {
			return append(out, piece{text, p.begins})
		}
		return atBlanks(out, piece{text, p.begins})
	}
}

// splitScripts splits a text where its script changes. Japanese counts as one script, and a space belongs to the script
// before it.
func splitScripts(out []piece, p piece) []piece {
	from, last := -1, "" // the start of the current part, and its script
	for i, r := range p.text {
		script := scriptOf(r)
		if script == "" || script == last {
			continue
		}
		if from >= 0 {
			out = append(out, piece{p.text[from:i], p.begins && from == 0})
		}
		from, last = i, script
	}
	if from >= 0 {
		out = append(out, piece{p.text[from:], p.begins && from == 0})
	}
	return out
}

// scriptOf returns the name of a character's script, or "" for a space and for unassigned characters.
func scriptOf(r rune) string {
	if r == ' ' || isUnassigned(r) {
		return ""
	}
	if r == 'ー' || unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Han) {
		return "Han"
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return "Common" // characters of no script
}

// fixedLength splits a text into parts of n characters.
func fixedLength(n int) splitter {
	return func(out []piece, p piece) []piece {
		count, from := 0, 0
		for i := range p.text {
			if count == n {
				out = append(out, piece{p.text[from:i], p.begins && from == 0})
				count, from = 0, i
			}
			count++
		}
		return append(out, piece{p.text[from:], p.begins && from == 0})
	}
}
