// Package generate runs language models from GGUF files: it continues a prompt, token by token.
//
//	m, err := generate.Open(ctx, "model.gguf", generate.Options{})
//	defer m.Close()
//	prompt := m.Tokenizer().Encode("Once upon a time", tokenizer.Options{Whole: true})
//	for token, err := range m.Generate(ctx, prompt, generate.Sampling{Temperature: 0.8, MinP: 0.05}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(token.Text)
//	}
//
// The chat template in the model's file turns a conversation into a prompt: see Model.Prompt.
package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Token is one token of an answer.
type Token struct {
	ID   int32
	Text string // empty if the token is only part of a character
	Odds *Odds  // nil without Sampling.Logprobs
}

// Generate continues a prompt. It stops when the model ends its answer, after MaxTokens, or, without
// Options.ContextShift, when the context is full. The end token is yielded in two cases only: if its Odds are
// requested, or if the character before it is incomplete. In the second case its text is U+FFFD.
//
// Generate does not compute a prefix of the prompt again if an earlier call left it in the KV cache. Other requests,
// earlier or at the same time, change an answer by rounding at most. With Options.Deterministic they do not change it:
// Generate then reuses a prefix only in whole parts, as long as the parts in which a prompt is prefilled.
//
// Up to Options.Parallel answers run at once. Others wait, first come, first served. Decoding runs ahead of the loop
// over the tokens, so a slow loop delays no other answer.
func (m *Model) Generate(ctx context.Context, prompt []int32, s Sampling) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		if err := m.check(prompt, s); err != nil {
			yield(Token{}, err)
			return
		}
		scales, err := m.adapterScales(s)
		if err != nil {
			yield(Token{}, err)
			return
		}
		images, err := placeImages(prompt, s.Images)
		if err == nil {
			err = m.acceptImages(ctx, s.Images)
		}
		if err != nil {
			yield(Token{}, err)
			return
		}
		c, err := m.chooser(ctx, s)
		if err != nil {
			yield(Token{}, err)
			return
		}
		ctx, leave := context.WithCancel(ctx) // ends the answer if the loop over the tokens ends early
		defer leave()
		a := m.engine.submit(&answer{ctx: ctx, text: prompt, images: images, chooser: c, scales: scales})
		reported := s.Known == nil // Known is called once, with the first tokens
		for {
			tokens, known, err := a.take()
			if err != nil {
				yield(Token{}, err)
				return
			}
			if !reported {
				reported = true
				s.Known(known)
			}
			if len(tokens) == 0 { // the regular end
				return
			}
			for _, t := range tokens {
				if !yield(t, nil) {
					return
				}
			}
		}
	}
}

// check returns an error if the model cannot answer the prompt with this sampling.
func (m *Model) check(prompt []int32, s Sampling) error {
	if err := s.Check(); err != nil {
		return err
	}
	switch {
	case len(prompt) == 0:
		return errors.New("generate: the prompt is empty: want at least one token, such as the vocabulary's first " +
			"token of a text")
	case len(prompt) >= m.context:
		return fmt.Errorf("generate: the prompt has %d tokens: want at most %d, fewer than the context; shorten the "+
			"prompt or enlarge the context", len(prompt), m.context-1)
	}
	for id := range s.Bias {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("generate: Bias has token %d: want 0 to %d", id, m.config.Vocab-1)
		}
	}
	if len(s.Images) > 0 { // tokens below 0 stand for pictures: placeImages checks them
		prompt = slices.DeleteFunc(slices.Clone(prompt), func(id int32) bool { return id < 0 })
	}
	return m.checkTokens(prompt)
}

// checkTokens refuses tokens outside the model's vocabulary.
func (m *Model) checkTokens(tokens []int32) error {
	for i, id := range tokens {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("generate: token %d of the text is %d: want 0 to %d", i, id, m.config.Vocab-1)
		}
	}
	return nil
}
