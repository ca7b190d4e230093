package main

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/chat"
)

// noTool answers requests for tools that are not there.
const noTool = "I have no tool for that."

// The kinds of tools, by their index in toolKinds, that other questions depend on. The model computes small numbers
// without a calculator. The two kinds of documentation serve the same requests.
const (
	calculatorKind    = 2
	documentationKind = 8
	packageKind       = 9
)

// computed are the kinds of questions that a calculator answers, if there is one.
var computed = []string{"sum", "difference", "product", "quotient", "large"}

// conversation draws a conversation of n questions at most. Some have tools, and questions that need them.
func conversation(r *rand.Rand, n int) chat.Context {
	var c chat.Context
	say := func(role, text string) { c.Messages = append(c.Messages, chat.Message{Role: role, Content: text}) }
	if r.IntN(8) == 0 {
		say("system", pick(r, []string{"You are a helpful assistant.", "You are gochat.", "Answer briefly.", "Be kind.",
			"You are a helpful assistant. Answer in one sentence.", "You are an assistant with tools."}))
	}
	var offers []offer
	if r.IntN(3) == 0 {
		offers = drawOffers(r)
		for _, o := range offers {
			c.Tools = append(c.Tools, o.schema())
		}
	}
	for turn := range n {
		switch {
		case offers != nil && (turn == 0 || r.IntN(2) == 0) && r.IntN(8) > 0: // a question for a tool
			o := pick(r, offers)
			if o.kind < 0 {
				continue
			}
			q := toolKinds[o.kind].ask(r, false)
			say("user", vary(r, q.text))
			c.Messages = append(c.Messages, o.call(q.arguments))
			if r.IntN(16) == 0 { // the tool fails
				why := phrase(r, messages)
				say("tool", pick(r, []string{"error: " + why, `{"error": "` + why + `"}`}))
				say("assistant", "The tool failed: "+why+".")
				continue
			}
			say("tool", pick(r, q.results))
			say("assistant", q.answer)
		case r.IntN(24) == 0: // a question for a tool that is not there
			say("user", vary(r, missing(r, offers).text))
			say("assistant", noTool)
		default:
			q := drawQuestion(r)
			if has(offers, calculatorKind) && slices.Contains(computed, q.kind) { // the calculator should answer it
				continue
			}
			say("user", vary(r, q.text))
			say("assistant", q.answer)
		}
	}
	return c
}

// vary writes a question as people do: half of them without the last mark, or without the first capital.
func vary(r *rand.Rand, text string) string {
	if r.IntN(4) == 0 {
		text = strings.TrimRight(text, "?.!")
	}
	first, _, _ := strings.Cut(text, " ")
	if r.IntN(4) == 0 && len(first) > 1 && strings.ToUpper(first[:1])+strings.ToLower(first[1:]) == first {
		text = strings.ToLower(first) + text[len(first):]
	}
	return text
}

// ask draws a request that is held out or is not, as asked.
func (t tool) ask(r *rand.Rand, held bool) request {
	for {
		if q := t.draw(r); heldOut(q.text) == held {
			return q
		}
	}
}

// has reports whether one of the offers is of a kind.
func has(offers []offer, kind int) bool {
	return slices.ContainsFunc(offers, func(o offer) bool { return o.kind == kind })
}

// missing draws a request for a tool that is not offered.
func missing(r *rand.Rand, offers []offer) request {
	for {
		kind := r.IntN(len(toolKinds))
		documents := kind == documentationKind || kind == packageKind
		if kind == calculatorKind || has(offers, kind) ||
			documents && (has(offers, documentationKind) || has(offers, packageKind)) {
			continue
		}
		return toolKinds[kind].ask(r, false)
	}
}
