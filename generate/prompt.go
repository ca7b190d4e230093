package generate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// Fallback says why the model runs on the CPU fast path, if vkc chose the device and no other can run the model.
func (m *Model) Fallback() error {
	if m.refused != nil {
		return m.refused
	}
	return m.step.Fallback()
}

// ChatTemplate returns the template of conversations in the model's file, or "".
func (m *Model) ChatTemplate() string {
	source, err := m.file.String(tokenizer.TemplateKey(""))
	if err != nil {
		return "" // Prompt says so
	}
	return source
}

// HasChatTemplate reports whether a model's file or bundle has a chat template. It loads no weights.
func HasChatTemplate(path string) (ok bool, err error) {
	m := &Model{}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.openFile(path, &Options{}); err != nil {
		return false, err
	}
	return m.ChatTemplate() != "", nil
}

// Prompt returns the tokens of a conversation, formatted by the model's chat template. A conversation with tools takes
// the template named tool_use, if the model has one. The template gets the model's BOS and EOS, and not those of c.
func (m *Model) Prompt(c chat.Context) ([]int32, error) { return m.PromptWith(c, nil) }

// Render returns the text of a conversation, formatted as in Prompt.
func (m *Model) Render(c chat.Context) (string, error) {
	pieces, err := m.render(c)
	var text strings.Builder
	for _, p := range pieces {
		text.WriteString(p.Text)
	}
	return text.String(), err
}

// render formats a conversation.
func (m *Model) render(c chat.Context) ([]chat.Piece, error) {
	key := tokenizer.TemplateKey("")
	if _, ok := m.file.Lookup(tokenizer.TemplateKey("tool_use")); ok && len(c.Tools) > 0 {
		key = tokenizer.TemplateKey("tool_use") // the name that transformers looks for
	}
	source, err := m.file.String(key)
	if err != nil {
		return nil, fmt.Errorf("the model has no chat template: %w", err)
	}
	t, err := chat.Parse(source)
	if err != nil {
		return nil, err
	}
	if bos, ok := m.tok.BOS(); ok {
		c.BOS = m.tok.Token(bos)
	}
	if eos, ok := m.tok.EOS(); ok {
		c.EOS = m.tok.Token(eos)
	}
	return t.Render(c)
}

// Fit returns the tokens of a conversation, as Prompt does, but leaves room for `room` tokens of the answer. It drops
// the oldest messages first, but keeps system messages and the last message. forgotten counts the dropped messages.
func (m *Model) Fit(c chat.Context, room int) (prompt []int32, forgotten int, err error) {
	prompt, _, forgotten, err = m.FitWith(c, nil, room)
	return prompt, forgotten, err
}

// FitWith returns the tokens of a conversation with pictures, as PromptWith does, but leaves room for `room` tokens of
// the answer. It drops messages as Fit does, and their pictures. rest are the pictures in the prompt.
func (m *Model) FitWith(c chat.Context, images []*Image, room int) (prompt []int32, rest []*Image, forgotten int,
	err error) {
	c.Messages, images = slices.Clone(c.Messages), slices.Clone(images)
	for {
		if prompt, err = m.PromptWith(c, images); err != nil || len(prompt)+room <= m.context {
			return prompt, images, forgotten, err
		}
		oldest := slices.IndexFunc(c.Messages, func(m chat.Message) bool { return m.Role != "system" })
		if oldest < 0 || oldest == len(c.Messages)-1 {
			return nil, nil, forgotten, fmt.Errorf("generate: the last message alone is a prompt of %d tokens, and "+
				"the answer may have %d: the context has %d; shorten the message or enlarge the "+
				"context", len(prompt), room, m.context)
		}
		end := oldest + 1
		for end < len(c.Messages)-1 && c.Messages[end].Role != "user" { // drop an answer together with its question
			end++
		}
		before, own := picturesIn(c.Messages[:oldest]...), picturesIn(c.Messages[oldest:end]...)
		images = slices.Delete(images, before, before+own)
		c.Messages = slices.Delete(c.Messages, oldest, end)
		forgotten += end - oldest
	}
}
