package tokenizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// unigram is the unigram model of SentencePiece (Kudo 2018).
type unigram struct {
	tokens  prefixes
	scores  []float64
	unk     func(out []int32) []int32 // appends the token for unknown characters, if there is one
	unknown float64                   // the score of a character without a token
	bytes   *[256]int32               // the tokens of the bytes of unknown characters; nil if unk stands for them
	chars   charsmap
	leading bool // a space is added before a text
	merge   bool // spaces at the ends are dropped, and runs of spaces become one
	wide    bool // sums of scores are float64, as in tokenizer.json's program, and not rounded
}

// unknownPenalty is by how much a character without a token scores less than the worst token.
const unknownPenalty = 10

// newUnigram returns the unigram model of the vocabulary. It reads the scores, the character map and the treatment of
// spaces.
func newUnigram(v *vocabulary) (model, error) {
	if v.scores == nil {
		return nil, v.errorf("tokenizer.ggml.scores is missing: want a score for each token")
	}
	if v.special("unknown") == none {
		return nil, v.errorf("tokenizer.ggml.unknown_token_id is missing: want the token for unknown characters")
	}
	t := &unigram{unk: v.appendUnknown, leading: v.leadingSpace, unknown: math.Inf(1)}
	var err error
	if t.merge, _, err = v.flag("remove_extra_whitespaces", false); err != nil {
		return nil, err
	}
	if t.chars, err = readCharsmap(v.f); err != nil {
		return nil, err
	}
	t.scores = make([]float64, len(v.tokens))
	for id, score := range v.scores {
		switch v.types[id] {
		case normal:
			t.unknown = min(t.unknown, float64(score))
			t.scores[id] = float64(score)
		case unused:
			t.scores[id] = float64(score)
		}
	}
	if math.IsInf(t.unknown, 1) {
		t.unknown = 0
	}
	t.unknown -= unknownPenalty // an unknown character is worse than any token
	t.tokens = newPrefixes(v.text)
	return t, nil
}

// step is the end of the best segmentation of the text up to a position: the score of the segmentation, and its last
// token, id, which starts at from. The score is rounded as in SentencePiece, because that affects the choice between
// segmentations that differ only in the order of their tokens.
type step struct {
	score float64
	from  int
	id    int32
}

// encode finds the segmentation with the largest sum of scores, position by position (Viterbi 1967), and appends its
// tokens.
func (t *unigram) encode(out []int32, text string, _ bool) []int32 {
	return t.word(out, t.normalize(text))
}

// word appends the tokens of a normalized text to out: the tokens with the largest sum of scores (Viterbi). A character
// that is no token has the score t.unknown.
func (t *unigram) word(out []int32, text string) []int32 {
	best := make([]step, len(text)+1)
	for i := range best[1:] {
		best[i+1].score = math.Inf(-1)
	}
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRuneInString(text[i:])
		alone := false // the character is a token
		node := t.tokens.start(text[i:])
		for n := 1; node != 0; n++ {
			if id := t.tokens.nodes[node].id; id != none {
				alone = alone || n == size
				if score := best[i].score + t.scores[id]; score > best[i+n].score {
					best[i+n] = step{t.rounded(score), i, id} // the best tokens up to byte i+n end with this one
				}
			}
			if i+n == len(text) {
				break
			}
			node = t.tokens.next(node, text[i+n])
		}
		if score := best[i].score + t.unknown; !alone && score > best[i+size].score {
			best[i+size] = step{t.rounded(score), i, none}
		}
		i += size
	}
	return t.follow(out, text, best)
}

// follow appends the tokens of the segmentation that ends at the text's end. best has the steps to each position.
func (t *unigram) follow(out []int32, text string, best []step) []int32 {
	begin, last := len(out), int32(0) // last is the token after the current one, or none for unknown characters
	for i := len(text); i > 0; i = best[i].from {
		switch id := best[i].id; {
		case id != none:
			out = append(out, id)
		case t.bytes != nil:
			for at := i - 1; at >= best[i].from; at-- {
				out = append(out, t.bytes[text[at]])
			}
		case last != none: // one token for adjacent unknown characters
			out = t.unk(out)
		}
		last = best[i].id
	}
	slices.Reverse(out[begin:])
	return out
}

// rounded rounds a sum of scores, unless the model keeps all digits.
func (t *unigram) rounded(score float64) float64 {
	if t.wide {
		return score
	}
	return float64(float32(score))
}

// normalize replaces characters as the vocabulary asks, and writes spaces as blanks.
func (t *unigram) normalize(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/4)
	inWord, begun := false, !t.leading // begun: the first word needs no further blank
	for len(text) > 0 {
		chars, n := t.chars.replace(text)
		text = text[n:]
		for _, r := range chars {
			switch {
			case r == ' ':
				inWord = false
				if !t.merge {
					b.WriteString(blank)
				}
				continue
			case !inWord && (!begun || t.merge):
				b.WriteString(blank)
			}
			inWord, begun = true, true
			b.WriteRune(r)
		}
	}
	return b.String()
}

// maxReplacement is the largest length in bytes of a character's replacement. The longest one in Unicode has 33 bytes.
const maxReplacement = 128

// charsmap replaces sequences of characters, such as ligatures. It has SentencePiece's compiled form: nodes is a double
// array (a trie) that finds the longest sequence to replace, and texts has the zero-terminated replacements.
type charsmap struct {
	nodes []uint32
	texts string
}

// readCharsmap reads the metadata value with the character map, if the file has one.
func readCharsmap(f *gguf.File) (m charsmap, err error) {
	const key = "tokenizer.ggml.precompiled_charsmap"
	wide, err := f.Ints(key)
	if errors.Is(err, gguf.ErrNoKey) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("tokenizer: %w", err)
	}
	data := make([]byte, len(wide))
	for i, v := range wide {
		data[i] = byte(v)
	}
	if m, err = parseCharsmap(key, data); err != nil {
		return m, fmt.Errorf("tokenizer: %w", err)
	}
	return m, nil
}

// parseCharsmap reads a compiled character map of SentencePiece: the size of a trie in bytes, the trie's nodes, and the
// replacement texts. key names the map in errors.
func parseCharsmap(key string, data []byte) (m charsmap, err error) {
	if len(data) < 4 {
		return m, fmt.Errorf("%s has %d bytes: want 4 for a length, and so on", key, len(data))
	}
	size := binary.LittleEndian.Uint32(data) // of the nodes, four bytes each
	data = data[4:]
	if size%4 != 0 || uint64(size) > uint64(len(data)) {
		return m, fmt.Errorf("%s has %d bytes behind a length of %d: want at least that, a multiple of 4",
			key, len(data), size)
	}
	m.nodes = make([]uint32, size/4)
	for i := range m.nodes {
		m.nodes[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	m.texts = string(data[size:])
	return m, nil
}

// replace returns the replacement for the beginning of a text, and the number of bytes that it replaces: a sequence in
// the map, or else one character, which stays. An invalid byte becomes U+FFFD.
func (m *charsmap) replace(text string) (chars string, n int) {
	if at, n := m.find(text); n > 0 && at < len(m.texts) {
		end := min(at+maxReplacement, len(m.texts)) // a damaged file may lack the byte 0 that ends a replacement
		chars, _, _ := strings.Cut(m.texts[at:end], "\x00")
		return chars, n
	}
	r, n := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError {
		return string(utf8.RuneError), n
	}
	return text[:n], n
}

// node returns the 32 bits of a node. Bits 0 to 7 are its byte. Bit 8 says whether a sequence ends there. The other
// bits give the distance to its children, see children. A sequence that ends also has a leaf among the children of its
// last node: bit 31 is set, and the other bits are the offset of its replacement.
func (m *charsmap) node(at uint32) uint32 {
	if uint64(at) < uint64(len(m.nodes)) {
		return m.nodes[at]
	}
	return 1 << 31 // no byte equals this one's
}

// children returns the distance from a node to its children: bits 10 to 30, times 256 if bit 9 is set. The index of the
// child with byte b is the exclusive or of the node's index, this distance and b.
func children(node uint32) uint32 {
	shift := node & (1 << 9) >> 6 // 8 if bit 9 is set, or else 0
	return node >> 10 << shift
}

// find returns the longest sequence of the map with which a text begins: at is the offset of its replacement in
// m.texts, and n its length, or 0 if there is none.
func (m *charsmap) find(text string) (at, n int) {
	if len(m.nodes) == 0 {
		return 0, 0
	}
	// A double-array trie: a node is at its parent's children, XOR the byte.
	node := children(m.node(0))
	for i := range min(len(text), maxToken) {
		b := uint32(text[i])
		if b == 0 {
			break
		}
		node ^= b
		found := m.node(node)
		if found&(1<<31|0xff) != b { // another node is there
			break
		}
		node ^= children(found)
		if found>>8&1 != 0 { // a sequence ends here, and the leaf has byte 0
			at, n = int(m.node(node)&(1<<31-1)), i+1
		}
	}
	return at, n
}
