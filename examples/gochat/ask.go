package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/generate"
)

// exam returns n different questions that are held out, of each kind in turn.
func exam(n int) (list []question) {
	r := rand.New(rand.NewPCG(50, 0))
	seen := map[string]bool{}
	for i := 0; len(list) < n; i++ {
		k := kinds[i%len(kinds)]
		for range 1000 { // a kind may have few
			if text, answer := k.draw(r); heldOut(text) && !seen[text] {
				seen[text] = true
				list = append(list, question{k.name, text, answer})
				break
			}
		}
	}
	return list
}

// answer returns the likeliest answer to a question.
func answer(ctx context.Context, m *generate.Model, text string) (string, error) {
	prompt, err := m.Prompt(chat.Context{Messages: []chat.Message{{Role: "user", Content: text}},
		AddGenerationPrompt: true})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for token, err := range m.Generate(ctx, prompt, generate.Sampling{MaxTokens: 60}) {
		if err != nil {
			return "", err
		}
		b.WriteString(token.Text)
	}
	return b.String(), nil
}

// report asks a model 500 questions, and prints its mistakes.
func report(ctx context.Context, o options, out io.Writer) error {
	m, err := generate.Open(ctx, o.ask, generate.Options{Device: o.device})
	if err != nil {
		return err
	}
	defer m.Close()
	list := exam(500)
	right, wrong := 0, map[string]int{}
	for _, q := range list {
		got, err := answer(ctx, m, q.text)
		if err != nil {
			return err
		}
		if got == q.answer {
			right++
			continue
		}
		wrong[q.kind]++
		fmt.Fprintf(out, "%s: %q\n  is answered %q\n  want        %q\n", q.kind, q.text, got, q.answer)
	}
	fmt.Fprintf(out, "%d of %d right; wrong by kind: %v\n", right, len(list), wrong)
	return nil
}
