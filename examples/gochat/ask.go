package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/generate"
)

// problem is a conversation and its only right answer.
type problem struct {
	kind   string
	talk   chat.Context
	answer string
}

// exam returns n different questions of each kind that are held out, or all of a kind that has fewer. The last two
// kinds
// are calls of tools, and the use of their results.
func exam(n int) (list []problem) {
	r := rand.New(rand.NewPCG(50, 0))
	for _, k := range kinds {
		if k.name == byHeart {
			continue
		}
		seen := map[string]bool{}
		for range 1000 * n {
			text, answer := k.draw(r)
			if !heldOut(text) || seen[text] {
				continue
			}
			seen[text] = true
			list = append(list, problem{k.name, talk(nil, text), answer})
			if len(seen) == n {
				break
			}
		}
	}
	for i := range n {
		call, use := toolProblem(r, i%len(toolKinds))
		list = append(list, call, use)
	}
	return list
}

// talk is a conversation that begins with a question.
func talk(offers []offer, text string) chat.Context {
	c := chat.Context{Messages: []chat.Message{{Role: "user", Content: text}}, AddGenerationPrompt: true}
	for _, o := range offers {
		c.Tools = append(c.Tools, o.schema())
	}
	return c
}

// toolProblem returns two problems about a question for a tool of a kind, which is one of several tools: to call it,
// and to answer with its result.
func toolProblem(r *rand.Rand, kind int) (call, use problem) {
	var offers []offer
	for !has(offers, kind) {
		offers = drawOffers(r)
	}
	o := offers[slices.IndexFunc(offers, func(o offer) bool { return o.kind == kind })]
	q := toolKinds[kind].ask(r, true)
	c := talk(offers, q.text)
	message := o.call(q.arguments)
	call = problem{"tool call", c, callText(message)}
	c.Messages = append(c.Messages[:1:1], message, chat.Message{Role: "tool", Content: pick(r, q.results)})
	return call, problem{"tool result", c, q.answer}
}

// callText is how the template writes a call.
func callText(message chat.Message) string {
	pieces, err := template().Render(chat.Context{Messages: []chat.Message{message}})
	if err != nil {
		panic(err)
	}
	_, text, _ := strings.Cut(chat.Text(pieces), "assistant\n")
	return strings.TrimSuffix(text, "<|im_end|>\n")
}

// answer returns the likeliest answer in a conversation.
func answer(ctx context.Context, m *generate.Model, c chat.Context) (string, error) {
	prompt, err := m.Prompt(c)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for token, err := range m.Generate(ctx, prompt, generate.Sampling{MaxTokens: 120}) {
		if err != nil {
			return "", err
		}
		b.WriteString(token.Text)
	}
	return b.String(), nil
}

// answers asks a model all problems, several at a time.
func answers(ctx context.Context, m *generate.Model, list []problem) ([]string, error) {
	texts, errs := make([]string, len(list)), make([]error, len(list))
	var group sync.WaitGroup
	free := make(chan struct{}, m.Parallel())
	for i, p := range list {
		free <- struct{}{}
		group.Go(func() {
			texts[i], errs[i] = answer(ctx, m, p.talk)
			<-free
		})
	}
	group.Wait()
	return texts, errors.Join(errs...)
}

// report asks the model in a file o.exam questions of each kind, and prints its mistakes.
func report(ctx context.Context, o options, path string, out io.Writer) error {
	m, err := generate.Open(ctx, path, generate.Options{Device: o.device, Parallel: 16})
	if err != nil {
		return err
	}
	defer m.Close()
	list := exam(o.exam)
	texts, err := answers(ctx, m, list)
	if err != nil {
		return err
	}
	var names []string
	all, right := map[string]int{}, map[string]int{}
	for i, p := range list {
		if all[p.kind] == 0 {
			names = append(names, p.kind)
		}
		all[p.kind]++
		if texts[i] == p.answer {
			right[p.kind]++
			continue
		}
		last := p.talk.Messages[len(p.talk.Messages)-1]
		fmt.Fprintf(out, "%s: %q\n  is answered %q\n  want        %q\n", p.kind, last.Content, texts[i], p.answer)
	}
	total := 0
	for _, name := range names {
		fmt.Fprintf(out, "%-14s %3d of %d\n", name, right[name], all[name])
		total += right[name]
	}
	fmt.Fprintf(out, "%-14s %3d of %d\n", "all", total, len(list))
	return nil
}
