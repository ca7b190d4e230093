package main

import (
	"math/rand/v2"

	"github.com/vkc-go/vkc/frontend/chat"
)

// noTool answers requests for tools that are not there.
const noTool = "I have no tool for that."

// conversation draws a conversation of n questions at most. Some have tools, and questions that need them.
func conversation(r *rand.Rand, n int) chat.Context {
	var c chat.Context
	say := func(role, text string) { c.Messages = append(c.Messages, chat.Message{Role: role, Content: text}) }
	if r.IntN(8) == 0 {
		say("system", pick(r, []string{"You are a helpful assistant.", "You are gochat.", "Answer briefly.", "Be kind.",
			"You are a helpful assistant. Answer in one sentence."}))
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
		case offers != nil && (turn == 0 || r.IntN(2) == 0) && r.IntN(8) > 0:
			o := pick(r, offers)
			q := toolKinds[o.kind].ask(r, false)
			say("user", q.text)
			c.Messages = append(c.Messages, o.call(q.argument))
			say("tool", pick(r, q.results))
			say("assistant", q.answer)
		case r.IntN(24) == 0:
			say("user", missing(r, offers).text)
			say("assistant", noTool)
		default:
			q := drawQuestion(r)
			if has(offers, calculatorKind) && (q.kind == "sum" || q.kind == "difference" || q.kind == "product") {
				continue // questions for the calculator
			}
			say("user", q.text)
			say("assistant", q.answer)
		}
	}
	return c
}

// ask draws a request that is held out or is not, as asked.
func (t tool) ask(r *rand.Rand, held bool) request {
	for {
		if q := t.draw(r); heldOut(q.text) == held {
			return q
		}
	}
}

// calculatorKind is the index of the calculator in toolKinds. The model computes small numbers without one.
const calculatorKind = 2

func has(offers []offer, kind int) bool {
	for _, o := range offers {
		if o.kind == kind {
			return true
		}
	}
	return false
}

// missing draws a request for a tool that is not offered.
func missing(r *rand.Rand, offers []offer) request {
	for {
		if kind := r.IntN(len(toolKinds)); kind != calculatorKind && !has(offers, kind) {
			return toolKinds[kind].ask(r, false)
		}
	}
}
