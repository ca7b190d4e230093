package main

import (
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// vocabulary gives the text of tokens.
type vocabulary struct {
	tokens  []string // as the file writes them
	control []bool   // tokens that stand for no text, such as the end of one
}

const controlToken = 3 // in tokenizer.ggml.token_type

func readVocabulary(f *gguf.File) (vocabulary, error) {
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return vocabulary{}, err
	}
	v := vocabulary{tokens, make([]bool, len(tokens))}
	types, err := f.Ints("tokenizer.ggml.token_type")
	if err != nil {
		return vocabulary{}, err
	}
	for i := range min(len(types), len(tokens)) {
		v.control[i] = types[i] == controlToken
	}
	return v, nil
}

// text returns the text of a list of tokens, control tokens left out.
func (v vocabulary) text(ids []int64) string {
	var b strings.Builder
	for _, id := range ids {
		if int(id) < len(v.tokens) && !v.control[id] {
			b.Write(tokenBytes(v.tokens[id]))
		}
	}
	return b.String()
}

// token returns the text of one token, and the name of a control token.
func (v vocabulary) token(id int) string {
	if id >= len(v.tokens) || v.control[id] {
		return v.tokens[id]
	}
	return string(tokenBytes(v.tokens[id]))
}

// tokenBytes undoes the writing of GPT-2's tokenizer, in which each byte is one
// printable character (bytes_to_unicode in its encoder.py): printable Latin-1
// is itself, and the other bytes, in order, are the characters from 256 on.
func tokenBytes(token string) []byte {
	var out []byte
	for _, r := range token {
		switch {
		case r < 256:
			out = append(out, byte(r))
		case int(r-256) < len(hidden):
			out = append(out, hidden[r-256])
		default:
			out = append(out, string(r)...) // not of that tokenizer
		}
	}
	return out
}

// hidden lists the bytes that are written as other characters.
var hidden = func() (list []byte) {
	for b := range 256 {
		printable := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
		if !printable {
			list = append(list, byte(b))
		}
	}
	return list
}()

// candidate is a token that may come next.
type candidate struct {
	token       int
	probability float64
}

// best returns the n most likely tokens, by the softmax of their logits.
func best(logits []float64, n int) []candidate {
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(x - logits[order[0]])
	}
	var list []candidate
	for _, i := range order[:min(max(n, 0), len(order))] {
		list = append(list, candidate{i, math.Exp(logits[i]-logits[order[0]]) / sum})
	}
	return list
}
