package tokenizer

import (
	"encoding/json"
	"strings"

	"github.com/vkc-go/vkc/internal/bailout"
)

// decoder turns the names of tokens into parts of a text, step by step. It may change the slice.
type decoder func(parts []string) []string

// joinedBySpaces returns the decoder of a tokenizer.json without one.
func joinedBySpaces(parts []string) []string { return []string{strings.Join(parts, " ")} }

// each returns the decoder that changes each part by itself.
func each(f func(part string) string) decoder {
	return func(parts []string) []string {
		for i, part := range parts {
			parts[i] = f(part)
		}
		return parts
	}
}

// readDecoder reads a decoder of a tokenizer.json. depth is how deeply it is nested in sequences.
func readDecoder(raw json.RawMessage, depth int) decoder {
	checkNesting("decoder", depth)
	switch kind := decodeJSON[typed]("decoder", raw).Type; kind {
	case "Sequence":
		var all []decoder
		for _, part := range decodeJSON[struct{ Decoders []json.RawMessage }](kind, raw).Decoders {
			all = append(all, readDecoder(part, depth+1))
		}
		return func(parts []string) []string {
			for _, d := range all {
				parts = d(parts)
			}
			return parts
		}
	case "ByteLevel":
		return each(bytesOfName)
	case "ByteFallback":
		return each(func(part string) string {
			if b, ok := byteOf(part); ok {
				return string([]byte{b})
			}
			return part
		})
	case "Fuse":
		return func(parts []string) []string { return []string{strings.Join(parts, "")} }
	case "Replace":
		c := decodeJSON[struct {
			Pattern json.RawMessage
			Content string
		}](kind, raw)
		replace := readPattern(c.Pattern)
		return each(func(part string) string { return replace.replaceAll(part, c.Content) })
	case "Strip":
		c := decodeJSON[struct {
			Content     string
			Start, Stop int
		}](kind, raw)
		return each(func(part string) string { return stripped(part, c.Content, c.Start, c.Stop) })
	case "Metaspace":
		return readMetaspaceDecoder(raw)
	case "WordPiece":
		c := decodeJSON[struct {
			Prefix  string
			Cleanup *bool
		}](kind, raw)
		return wordPieceDecoder(c.Prefix, c.Cleanup == nil || *c.Cleanup)
	case "BPEDecoder":
		suffix := decodeJSON[struct{ Suffix string }](kind, raw).Suffix
		bailout.Unless(suffix != "", "the suffix of BPEDecoder is empty")
		return wordEndDecoder(suffix)
	case "CTC":
		return readCTC(raw)
	default:
		unsupported("decoder", kind)
		return nil
	}
}

// wordEndDecoder returns the decoder that makes a space of the suffix with which a word ends, except at the end of the
// text.
func wordEndDecoder(suffix string) decoder {
	return func(parts []string) []string {
		for i, part := range parts {
			gap := " "
			if i == len(parts)-1 {
				gap = ""
			}
			parts[i] = strings.ReplaceAll(part, suffix, gap)
		}
		return parts
	}
}

// stripped removes a text from the ends of a part, at most start and stop times.
func stripped(part, content string, start, stop int) string {
	if content == "" {
		return part
	}
	for i := 0; i < start && strings.HasPrefix(part, content); i++ {
		part = part[len(content):]
	}
	for i := 0; i < stop && strings.HasSuffix(part, content); i++ {
		part = part[:len(part)-len(content)]
	}
	return part
}

// readMetaspaceDecoder reads the decoder of SentencePiece's vocabularies.
func readMetaspaceDecoder(raw json.RawMessage) decoder {
	c := decodeJSON[struct {
		Replacement string
		Scheme      string `json:"prepend_scheme"`
		Prefix      *bool  `json:"add_prefix_space"`
	}]("Metaspace", raw)
	// Field prepend_scheme replaces the older add_prefix_space. Without both, the encoder adds a space too.
	addsSpace := c.Scheme != "never" && (c.Scheme != "" || c.Prefix == nil || *c.Prefix)
	return func(parts []string) []string {
		for i, part := range parts {
			if addsSpace && i == 0 {
				part = strings.TrimPrefix(part, c.Replacement)
			}
			parts[i] = strings.ReplaceAll(part, c.Replacement, " ")
		}
		return parts
	}
}

// cleanUp removes the spaces that a split into words has put around English punctuation.
var cleanUp = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m",
	" do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re").Replace

// wordPieceDecoder returns the decoder of WordPiece. Tokens without the prefix begin words. If clean is set, it removes
// spaces before punctuation.
func wordPieceDecoder(prefix string, clean bool) decoder {
	return func(parts []string) []string {
		for i, part := range parts {
			if rest, ok := strings.CutPrefix(part, prefix); i > 0 && ok {
				part = rest
			} else if i > 0 {
				part = " " + part
			}
			if clean {
				part = cleanUp(part)
			}
			parts[i] = part
		}
		return parts
	}
}

// readCTC reads the decoder of connectionist temporal classification (Graves et al. 2006): repeated tokens count once.
func readCTC(raw json.RawMessage) decoder {
	c := decodeJSON[struct {
		Pad       string `json:"pad_token"`
		Delimiter string `json:"word_delimiter_token"`
		Cleanup   bool
	}]("CTC", raw)
	return func(parts []string) []string {
		var out []string
		for i, part := range parts {
			if i > 0 && part == parts[i-1] {
				continue
			}
			part = strings.ReplaceAll(part, c.Pad, "")
			if c.Cleanup {
				part = cleanUp(part)
				if c.Delimiter != "" {
					part = strings.ReplaceAll(part, c.Delimiter, " ")
				}
			}
			if part != "" {
				out = append(out, part)
			}
		}
		return out
	}
}
