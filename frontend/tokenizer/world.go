package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/bailout"
)

// world is the tokenization of RWKV's models (Peng et al. 2024, arXiv:2404.05892, section 5): repeatedly the longest
// token that the rest of the text begins with. Tokens are bytes, and any byte is one.
type world struct {
	tokens prefixes
	unk    func(out []int32) []int32 // appends the unknown token, if there is one
}

// newWorld reads the tokens. GGUF files spell them with the escapes of Python's bytes.
func newWorld(v *vocabulary) (model, error) {
	tokens := map[string]int32{}
	for id, name := range v.tokens {
		bytes := unescaped(name)
		if _, twice := tokens[bytes]; !twice && v.types[id] == normal {
			tokens[bytes] = int32(id)
		}
	}
	return &world{tokens: newPrefixes(tokens), unk: v.appendUnknown}, nil
}

// encode implements model. It takes the longest token at each position. A byte without a token becomes the unknown
// token.
func (t *world) encode(out []int32, text string, _ bool) []int32 {
	for text != "" {
		id, n := t.tokens.longest(text)
		if n == 0 {
			out, n = t.unk(out), 1
		} else {
			out = append(out, id)
		}
		text = text[n:]
	}
	return out
}

// unescaped returns the bytes of a name: \t, \n, \r and \xNN stand for a byte, and a backslash before another
// character for that character.
func unescaped(name string) string {
	if !strings.Contains(name, `\`) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '\\' || i+1 == len(name) {
			b.WriteByte(name[i])
			continue
		}
		i++                                                     // to the character after the backslash
		digits := name[min(i+1, len(name)):min(i+3, len(name))] // of \xNN
		code, err := strconv.ParseUint(digits, 16, 8)
		at := strings.IndexByte("tnr", name[i])
		switch {
		case at >= 0:
			b.WriteByte("\t\n\r"[at])
		case name[i] == 'x' && err == nil:
			b.WriteByte(byte(code))
			i += 2
		default:
			b.WriteByte(name[i])
		}
	}
	return b.String()
}

// escaped returns the name of a token from its bytes: bytes that are no printable ASCII characters, and backslashes,
// are escaped. unescaped converts the name back.
func escaped(bytes string) string {
	var b strings.Builder
	for i := range len(bytes) {
		switch c := bytes[i]; {
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\\':
			b.WriteString(`\\`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// worldEnd is the name of token 0, which ends a text. The files of vocabularies leave it out.
const worldEnd = "<s>"

// writeWorld writes the vocabulary of an RWKV model, which is a text file, as metadata of GGUF. A line has a token's
// number, its text or bytes as Python writes them, and the number of bytes.
func (r *folderReader) writeWorld() {
	r.document, r.vocabulary = &document{}, &jsonModel{unk: none}
	names := r.readWorld()
	size := 0
	for id := range names {
		size = max(size, id+1)
	}
	bailout.Unless(size <= 2*len(names)+maxUnused, "the largest token is %d, for %d tokens", size-1, len(names))
	if raw := r.model["vocab_size"]; !isNull(raw) { // the model's tables may be larger
		size = max(size, min(decodeJSON[int]("vocab_size", raw), size+maxUnused))
	}
	tokens, types := make([]string, size), slices.Repeat([]int32{int32(normal)}, size)
	for id := range tokens {
		name, ok := names[id]
		if !ok {
			name, types[id] = fmt.Sprintf("[PAD%d]", id), int32(unused)
		}
		tokens[id] = name
	}
	types[0] = int32(control) // token 0 ends a text
	if r.tokenIDs("eos_token_id") == nil {
		r.generation = map[string]json.RawMessage{"eos_token_id": json.RawMessage("0")}
	}
	r.set("model", "rwkv")
	r.set("tokens", tokens)
	r.set("token_type", types)
	r.whole = true
}

// readWorld reads the vocabulary of RWKV's World models into r.ids. Each line has a number, the token in Python's
// spelling, and its length in bytes. It returns the names of the tokens by their numbers.
func (r *folderReader) readWorld() map[int]string {
	r.ids = map[string]int32{worldEnd: 0}
	names, line := map[int]string{0: worldEnd}, 0
	for text := range strings.Lines(string(r.World)) {
		line++
		text = strings.TrimRight(text, "\r\n")
		if text == "" {
			continue
		}
		number, rest, _ := strings.Cut(text, " ")
		at := strings.LastIndexByte(rest, ' ') // before the length; the token may have spaces, too
		bailout.Unless(at > 0, "line %d of the vocabulary is %.60q: want a number, a token and its bytes", line, text)
		id, err := strconv.Atoi(number)
		bytes, isToken := literal(rest[:at])
		_, twice := names[id]
		bailout.Unless(err == nil && id > 0 && !twice && isToken && strconv.Itoa(len(bytes)) == rest[at+1:],
			"line %d of the vocabulary is %.60q: want a number that no other line has, a token and its bytes", line,
			text)
		names[id] = escaped(bytes)
		r.ids[names[id]] = int32(id)
	}
	return names
}

// literal returns the bytes of a string literal, or of a bytes literal such as b'\xff', in Python's spelling. ok is
// false for any other text.
func literal(text string) (bytes string, ok bool) {
	text, isBytes := strings.CutPrefix(text, "b")
	if len(text) < 2 || text[0] != text[len(text)-1] || text[0] != '\'' && text[0] != '"' {
		return "", false
	}
	quote := text[0]
	text = text[1 : len(text)-1]
	var b strings.Builder
	for text != "" {
		// Python has escapes of both quotes, and UnquoteChar only the escape of the enclosing one.
		if text[0] == '\\' && len(text) > 1 && strings.IndexByte(`'"`, text[1]) >= 0 {
			b.WriteByte(text[1])
			text = text[2:]
			continue
		}
		c, multibyte, rest, err := strconv.UnquoteChar(text, quote)
		switch {
		case err != nil:
			return "", false
		case isBytes && c > 0xff:
			return "", false
		case isBytes || !multibyte && c < utf8.RuneSelf:
			b.WriteByte(byte(c))
		default:
			b.WriteRune(c)
		}
		text = rest
	}
	return b.String(), true
}
