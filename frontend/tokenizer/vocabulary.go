package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// tokenType is the type of a token in tokenizer.ggml.token_type.
type tokenType uint8

const (
	normal      tokenType = 1
	unknown     tokenType = 2 // stands for text without a token
	control     tokenType = 3 // markup, such as BOS
	userDefined tokenType = 4 // an added token that is no control token
	unused      tokenType = 5
	byteToken   tokenType = 6 // <0x00> to <0xFF>
)

// special reports whether tokens of the type have no text.
func (t tokenType) special() bool { return t == control || t == unknown }

// maxToken is the largest length of a token in bytes. It limits the encoding time, because each position of a text may
// be compared with a whole token.
const maxToken = 1024

// vocabulary holds the tokenizer's metadata of a GGUF file.
type vocabulary struct {
	f            *gguf.File
	json         string // a whole tokenizer.json, or ""
	kind         string // tokenizer.ggml.model
	tokens       []string
	types        []tokenType
	scores       []float32        // nil if the file has none
	text         map[string]int32 // the normal tokens, by name
	unk          int32            // the unknown token, or none to drop unknown text
	leadingSpace bool             // a space is added before a text
	frame        map[string]bool  // by role, such as bos: whether the token is added to a text by default
}

// kinds are the models of tokenization, by the name in tokenizer.ggml.model.
var kinds = map[string]struct {
	new   func(v *vocabulary) (model, error)
	space bool            // whether a space is added before a text by default
	frame map[string]bool // the default of vocabulary.frame
}{
	"gpt2":   {newBPE, false, nil},
	"llama":  {newSentencePiece, true, map[string]bool{"bos": true}},
	"t5":     {newUnigram, true, map[string]bool{"eos": true}},
	"bert":   {newWordPiece, false, map[string]bool{"bos": true, "sep": true}},
	"gemma4": {newLineBPE, false, map[string]bool{"bos": true}},
	"rwkv":   {newWorld, false, nil},
}

// readVocabulary reads the tokenizer's tokens, types and scores from a file's metadata, and checks them.
func readVocabulary(f *gguf.File) (*vocabulary, error) {
	v := &vocabulary{f: f, text: map[string]int32{}}
	var err error
	if v.json, err = jsonOf(f); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if v.kind, err = f.String("tokenizer.ggml.model"); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	kind, ok := kinds[v.kind]
	if !ok && v.json == "" {
		return nil, v.errorf("tokenizer.ggml.model is %q, which is not supported: want one of %s", v.kind,
			strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	if v.tokens, err = f.Strings("tokenizer.ggml.tokens"); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if len(v.tokens) == 0 || len(v.tokens) > math.MaxInt32 {
		return nil, v.errorf("tokenizer.ggml.tokens has %d tokens: want 1 to %d", len(v.tokens), math.MaxInt32)
	}
	if err := v.readTypes(); err != nil {
		return nil, err
	}
	if err := v.readScores(); err != nil {
		return nil, err
	}
	v.unk, v.frame = v.unknown(), kind.frame
	v.leadingSpace, _, err = v.flag("add_space_prefix", kind.space)
	if err != nil {
		return nil, err
	}
	for id, name := range v.tokens {
		if len(name) > maxToken {
			return nil, v.errorf("token %d has %d bytes: want at most %d", id, len(name), maxToken)
		}
		if _, twice := v.text[name]; !twice && name != "" && (v.types[id] == normal || v.types[id] == unused) {
			v.text[name] = int32(id)
		}
	}
	return v, nil
}

func (v *vocabulary) model() (model, error) { return kinds[v.kind].new(v) }

func (v *vocabulary) errorf(format string, args ...any) error {
	return fmt.Errorf("tokenizer: "+format, args...)
}

// readTypes reads the type of each token; without them all are normal.
func (v *vocabulary) readTypes() error {
	v.types = slices.Repeat([]tokenType{normal}, len(v.tokens))
	types, err := v.f.Ints("tokenizer.ggml.token_type")
	switch {
	case errors.Is(err, gguf.ErrNoKey):
	case err != nil:
		return fmt.Errorf("tokenizer: %w", err)
	case len(types) != len(v.tokens):
		return v.errorf("tokenizer.ggml.token_type has %d elements for %d tokens: want one for each",
			len(types), len(v.tokens))
	}
	for id, t := range types {
		if t < int64(normal) || t > int64(byteToken) {
			t = int64(normal) // some converters write 0 for it
		}
		v.types[id] = tokenType(t)
	}
	for id, name := range v.tokens {
		if endNames[name] {
			v.types[id] = control // whatever type a converter gave it
		}
	}
	return nil
}

// readScores reads the score of each token, if the file has scores.
func (v *vocabulary) readScores() error {
	scores, err := v.f.Floats("tokenizer.ggml.scores")
	switch {
	case errors.Is(err, gguf.ErrNoKey):
		return nil
	case err != nil:
		return fmt.Errorf("tokenizer: %w", err)
	case len(scores) != len(v.tokens):
		return v.errorf("tokenizer.ggml.scores has %d elements for %d tokens: want one for each",
			len(scores), len(v.tokens))
	}
	for id, s := range scores {
		if math.IsNaN(float64(s)) || math.IsInf(float64(s), 0) {
			return v.errorf("the score of token %d in tokenizer.ggml.scores is %v: want a number", id, s)
		}
	}
	v.scores = scores
	return nil
}

// special returns the token with a role, such as "bos". It returns none if the file names no token for the role, or one
// outside of the vocabulary.
func (v *vocabulary) special(role string) int32 {
	id, err := v.f.Int("tokenizer.ggml." + role + "_token_id")
	if err != nil || id < 0 || id >= int64(len(v.tokens)) {
		return none
	}
	return int32(id)
}

// unknown returns the unknown token. If it also has another role, unknown returns none: otherwise a user's text could
// produce EOS, for example. Padding does not count as a role, because it has no text either.
func (v *vocabulary) unknown() int32 {
	id := v.special("unknown")
	if v.ends()[id] {
		return none
	}
	for _, kv := range v.f.Metadata() {
		role, ok := strings.CutPrefix(kv.Key, "tokenizer.ggml.")
		role, isID := strings.CutSuffix(role, "_token_id")
		if ok && isID && role != "unknown" && role != "padding" && v.special(role) == id {
			return none
		}
	}
	return id
}

// appendUnknown appends the unknown token, if there is one.
func (v *vocabulary) appendUnknown(out []int32) []int32 {
	if v.unk == none {
		return out
	}
	return append(out, v.unk)
}

// flag returns a bool of the metadata, or missing if the file lacks the key. there reports whether the file has it.
func (v *vocabulary) flag(key string, missing bool) (value, there bool, err error) {
	value, err = v.f.Bool("tokenizer.ggml." + key)
	if errors.Is(err, gguf.ErrNoKey) {
		return missing, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("tokenizer: %w", err)
	}
	return value, true, nil
}

// endNames are names of tokens that end a text or an answer even if the metadata do not say so.
var endNames = map[string]bool{
	"<|eot_id|>": true, "<|eom_id|>": true, "<|im_end|>": true, "<|end|>": true, "<|return|>": true,
	"<|call|>": true, "<end_of_turn>": true, "<turn|>": true, "<|endoftext|>": true, "<|end_of_text|>": true,
	"<|eot|>": true, "<EOT>": true, "[EOT]": true, "<｜end▁of▁sentence｜>": true, "<end_of_utterance>": true,
	"<|END_OF_TURN_TOKEN|>": true,
}

// ends returns the tokens that end a text or an answer: tokens that the metadata names, and tokens with usual names.
func (v *vocabulary) ends() map[int32]bool {
	ends := map[int32]bool{}
	for _, role := range []string{"eos", "eot", "eom"} {
		if id := v.special(role); id != none {
			ends[id] = true
		}
	}
	if more, err := v.f.Ints(endsKey); err == nil {
		for _, id := range more {
			ends[int32(id)] = true
		}
	}
	for id, name := range v.tokens {
		if endNames[name] {
			ends[int32(id)] = true
		}
	}
	if slices.Contains(v.tokens, "<|channel|>") { // in OpenAI's Harmony format, <|end|> ends a part of an answer
		delete(ends, int32(slices.Index(v.tokens, "<|end|>")))
	}
	return ends
}

// blank is the character with which SentencePiece's vocabularies write a space.
const blank = "▁"

// pieces returns the bytes of each token in a text. Vocabularies spell bytes differently.
func (v *vocabulary) pieces() []string {
	list := make([]string, len(v.tokens))
	for id, name := range v.tokens {
		switch {
		case v.types[id] == userDefined || v.types[id].special():
			list[id] = name
		case v.kind == "gpt2":
			list[id] = bytesOfName(name)
		case v.kind == "rwkv":
			list[id] = unescaped(name)
		case v.types[id] == byteToken:
			list[id] = name
			if b, ok := byteOf(name); ok {
				list[id] = string([]byte{b})
			}
		default:
			list[id] = strings.ReplaceAll(name, blank, " ")
		}
	}
	return list
}

// byteOf parses the name of a byte token, such as <0x0A>.
func byteOf(name string) (b byte, ok bool) {
	digits, ok := strings.CutPrefix(name, "<0x")
	digits, end := strings.CutSuffix(digits, ">")
	n, err := strconv.ParseUint(digits, 16, 8)
	return byte(n), ok && end && len(digits) == 2 && err == nil
}

// byteTokens returns the token of each byte, or none if the vocabulary lacks it.
func (v *vocabulary) byteTokens() [256]int32 {
	var list [256]int32
	for b := range list {
		list[b] = none
	}
	for id, name := range v.tokens {
		if b, ok := byteOf(name); ok && v.types[id] == byteToken {
			list[b] = int32(id)
		}
	}
	return list
}
