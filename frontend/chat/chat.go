// Package chat renders chat templates. A chat template is a program in the metadata of a model file
// (tokenizer.chat_template) that formats a conversation as the model was trained on it. Templates are written in Jinja,
// a template language of Python. This package implements the part of Jinja that they use, with the settings of Hugging
// Face's transformers and Python's formatting of values.
//
//	t, err := chat.Parse(source)
//	pieces, err := t.Render(chat.Context{
//		Messages:            []chat.Message{{Role: "user", Content: "Hello"}},
//		AddGenerationPrompt: true,
//	})
//	ids := tok.EncodeChat(pieces) // of package tokenizer
//
// # Origin of text
//
// The result is a list of pieces. Each piece comes either from the template or from the context, for example from a
// user's message. Every character carries a mark for its origin through all operations of a template: slices,
// replacements, JSON. So a tokenizer can accept markup such as <|im_end|> only in pieces of the template, and a user
// cannot inject it. A message's role counts as the template's text if it is a plain word.
//
// # Bounds
//
// A template comes from a file that may be hostile. It can read only its context, and cannot modify it. Rendering fails
// if the template takes too many steps, nests too deep or prints too much.
package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Template is a parsed template. It may be rendered by several goroutines.
type Template struct{ body block }

// Piece is a part of rendered text.
type Piece struct {
	Text string
	User bool // whether it comes from the context, such as a message; the names of special tokens in it are plain text
}

// Text concatenates pieces.
func Text(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// maxSource is the maximum length of a template in bytes. Published ones have up to 30 kB.
const maxSource = 1 << 20

// Parse parses a template.
func Parse(source string) (t *Template, err error) {
	defer rescue(&err, nil)
	if len(source) > maxSource {
		fail("the template has %d bytes: want at most %d", len(source), maxSource)
	}
	return &Template{parse(source)}, nil
}

// rescue recovers from a failure and stores it in err. If r, the run of a template, is not nil, the error names the
// line that it was executing. r is nil while parsing.
func rescue(err *error, r *run) {
	switch x := recover().(type) {
	case nil:
	case failure:
		*err = errors.New("chat template: " + x.msg)
		if r != nil && r.line > 0 {
			*err = fmt.Errorf("chat template: line %d: %s", r.line, x.msg)
		}
	case signal:
		*err = fmt.Errorf("chat template: line %d: break or continue outside of a loop", r.line)
	default:
		panic(x)
	}
}

// Context is the input of a template.
type Context struct {
	Messages            []Message
	Tools               []any // descriptions of functions, as ParseJSON returns them, or Object
	AddGenerationPrompt bool  // end with the beginning of an answer
	Continue            bool  // end with the last message's content, which is then the beginning of an answer
	BOS, EOS            string
	// Now is the time for strftime_now; the zero value means the time of the call.
	Now time.Time
	// More has further variables, such as enable_thinking. They override the fields.
	More Object
}

// Message is one turn of a conversation.
type Message struct {
	Role string
	// A string, a list of parts, None, or nil for a message without content. Templates can tell None and nil apart.
	Content any
	More    Object // other keys, such as tool_calls
}

// None is the content of a message with an explicit null. Without any content, Content is nil.
var None any = none{}

type none struct{}

// Render renders the template for a context, and returns the text in pieces, each from the template or from a user.
// With c.Continue the text ends with the last message.
func (t *Template) Render(c Context) (pieces []Piece, err error) {
	now := c.Now
	if now.IsZero() {
		now = time.Now()
	}
	r := &run{now: func(format string) string { return strftime(now, format) }}
	defer rescue(&err, r)
	t.body.exec(r, c.scope(r))
	pieces = r.out.pieces()
	if c.Continue {
		return c.beginning(pieces)
	}
	return pieces, nil
}

// beginning cuts a rendered conversation after the content of its last message, so that the model continues it.
func (c Context) beginning(pieces []Piece) ([]Piece, error) {
	content := ""
	if len(c.Messages) > 0 {
		content, _ = c.Messages[len(c.Messages)-1].Content.(string)
	}
	content = strings.TrimSpace(content) // as some templates do
	all := Text(pieces)
	var isUser []bool // for each byte of all, whether it comes from a user
	for _, p := range pieces {
		isUser = append(isUser, slices.Repeat([]bool{p.User}, len(p.Text))...)
	}
	at := strings.LastIndex(all, content)
	for at >= 0 && content != "" && !isUser[at] { // the template has the same text
		at = strings.LastIndex(all[:at], content)
	}
	if at < 0 || content == "" {
		return nil, errors.New("chat: the last message cannot be continued: want one with text that the template shows")
	}
	end := at + len(content)
	for i := range pieces {
		if n := len(pieces[i].Text); end > n {
			end -= n
			continue
		}
		pieces[i].Text = pieces[i].Text[:end]
		return pieces[:i+1], nil
	}
	return pieces, nil
}

// scope returns the scope with a template's variables.
func (c Context) scope(r *run) *scope {
	s := &scope{}
	messages := &list{}
	for _, m := range c.Messages {
		d := newDict()
		d.set(r, text("role"), role(m.Role))
		switch m.Content.(type) {
		case nil: // the message has no field content
		case none: // the field is null
			d.set(r, text("content"), nil)
		default:
			d.set(r, text("content"), convert(r, m.Content, 0))
		}
		for _, f := range m.More {
			d.set(r, marked(f.Key), convert(r, f.Value, 0))
		}
		messages.items = append(messages.items, d)
	}
	s.set("messages", messages)
	s.set("add_generation_prompt", c.AddGenerationPrompt)
	s.set("bos_token", text(c.BOS))
	s.set("eos_token", text(c.EOS))
	if c.Tools != nil {
		s.set("tools", convert(r, c.Tools, 0))
	}
	for _, f := range c.More {
		s.set(f.Key, convert(r, f.Value, 0))
	}
	return s.inner() // the template may assign its names again
}

// role returns a message's role as a string. A plain word counts as the template's text, because some templates make a
// special token of it.
func role(s string) str {
	other := func(r rune) bool { return r != '_' && r != '-' && (r > '~' || !unicode.In(r, unicode.L, unicode.Nd)) }
	if len(s) > 32 || strings.ContainsFunc(s, other) {
		return marked(s)
	}
	return text(s)
}
