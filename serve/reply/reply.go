// Package reply takes a language model's answer apart while it arrives: reasoning, content, and calls of tools.
//
//	form := reply.FormOf(template)
//	r := reply.NewReader(form, reply.Options{Tools: tools})
//	for piece := range pieces {
//		parts := r.Next(piece)
//	}
//	parts := r.End()
//
// Each family of models writes calls and reasoning in its own way. The table [Forms] has a row for each. The reader is
// tolerant: it finds a call between other text, and accepts arguments that are missing, null, or a string with JSON.
// Text that looks like a call but names no listed tool stays content.
package reply

import (
	"strings"
)

// Kind is the kind of a part of an answer.
type Kind int

const (
	Content   Kind = iota // text for the user
	Reasoning             // text that the model wrote for itself
	CallStart             // a call of the tool Part.Text begins
	Arguments             // more of the JSON object with the arguments of the call that began last
)

// Part is a piece of an answer with one purpose: reasoning, text, or a piece of a tool call.
type Part struct {
	Kind Kind
	Text string
}

// Options configures a Reader.
type Options struct {
	Tools Tools // the tools that the answer may call; with none, there are no calls
	// Thinking means that the prompt ends with the mark that begins reasoning.
	Thinking bool
	// Trusted means that a grammar constrains the calls, so that arguments can be returned before they are complete.
	Trusted bool
}

// Reader reads one answer. Next takes its text in pieces of any size.
type Reader struct {
	form *Form
	Options
	held   string // text that was not returned yet
	blank  string // white space before any content: it is dropped if a call comes next
	close  string // the mark that ends the reasoning; "" outside of reasoning
	state  readerState
	parsed jsonSpan // the arguments returned so far, in state inArguments
	tail   string   // follows the arguments of a trusted call
	waits  bool     // the held text begins a call that is not complete
	parts  []Part
}

type readerState int

const (
	atStart     readerState = iota // nothing was returned yet, except white space
	inContent                      // some content was returned
	afterCall                      // a call was the last part
	afterThink                     // reasoning was the last part
	inArguments                    // a trusted call is not complete
)

// NewReader returns the reader of an answer in a form.
func NewReader(form *Form, o Options) *Reader {
	r := &Reader{form: form, Options: o}
	if o.Thinking {
		r.close = form.thinking()[0].close
	}
	return r
}

// Next takes more text and returns the parts that are certain.
func (r *Reader) Next(text string) []Part {
	r.held += text
	if len(r.held) > longCall && r.waits && !strings.ContainsAny(text, "}])>`") {
		return nil // this cannot complete a call
	}
	return r.scan(false)
}

// longCall is a length in bytes. A longer call is read again only when it may be complete.
const longCall = 1 << 12

// End returns the rest of the answer.
func (r *Reader) End() []Part { return r.scan(true) }

// Calling reports whether a call has begun and its arguments are not complete.
func (r *Reader) Calling() bool { return r.state == inArguments }

// scan returns the parts of the held text that are certain. At the end of the answer all of it is.
func (r *Reader) scan(end bool) []Part {
	r.parts, r.waits = nil, false
	for r.step(end) {
	}
	if end && r.blank != "" && r.state == atStart {
		r.parts = append(r.parts, Part{Content, r.blank})
		r.blank = ""
	}
	return r.parts
}

// step takes one item of the held text: a mark, a call, or the text before it. It returns false if it needs more text
// or if no text is left. end says that the answer has ended, so no more text comes.
func (r *Reader) step(end bool) bool {
	switch {
	case r.held == "":
		return false
	case r.close != "": // inside reasoning, until this mark
		return r.reasoning(end)
	case r.state == inArguments:
		return r.moreArguments()
	case r.state == afterCall || r.state == afterThink:
		if !r.skip(end) {
			return false
		}
	}
	at, m := r.form.find(r.held, r.state == atStart, len(r.Tools) > 0)
	if m == nil {
		// Text at the end that may be the beginning of a mark is held back.
		keep := 0
		if !end {
			keep = r.form.begins(r.held, r.state == atStart, len(r.Tools) > 0)
		}
		r.say(r.held[:len(r.held)-keep])
		r.held = r.held[len(r.held)-keep:]
		return false
	}
	r.say(r.held[:at])
	r.held = r.held[at:]
	switch {
	case m.drop:
		r.held = r.held[len(m.text):]
	case m.close != "": // a mark that begins reasoning
		r.held, r.close, r.blank = r.held[len(m.text):], m.close, ""
	default:
		return r.call(m, end)
	}
	return true
}

// say adds content to the parts. White space before the first content is kept back, and dropped if no content follows.
func (r *Reader) say(text string) {
	if text == "" {
		return
	}
	if r.state == atStart && strings.TrimSpace(text) == "" {
		r.blank += text
		return
	}
	text, r.blank, r.state = r.blank+text, "", inContent
	if last := len(r.parts) - 1; last >= 0 && r.parts[last].Kind == Content {
		r.parts[last].Text += text
		return
	}
	r.parts = append(r.parts, Part{Content, text})
}

// reasoning adds text to the parts as reasoning, up to the mark that ends it. It returns true if the mark was found.
// Without the mark it takes all text, but unless the answer has ended (end), it holds back a part that may begin the
// mark.
func (r *Reader) reasoning(end bool) bool {
	think := func(text string) {
		if text != "" {
			r.parts = append(r.parts, Part{Reasoning, text})
		}
	}
	if i := strings.Index(r.held, r.close); i >= 0 {
		think(r.held[:i])
		r.held, r.close, r.state = r.held[i+len(r.close):], "", afterThink
		return true
	}
	keep := 0
	if !end {
		keep = overlap(r.held, r.close)
	}
	think(r.held[:len(r.held)-keep])
	r.held = r.held[len(r.held)-keep:]
	return false
}

// skip drops white space after a call or reasoning, and the marks that end calls. It returns false if it needs more
// text.
func (r *Reader) skip(end bool) bool {
	for {
		r.held = strings.TrimLeft(r.held, " \t\r\n")
		// The tail is text that usually follows the arguments of a call. It is dropped as far as the model wrote it.
		r.tail = strings.TrimLeft(r.tail, " \t\r\n")
		if r.tail != "" && r.held != "" {
			if r.held[0] == r.tail[0] {
				r.held, r.tail = r.held[1:], r.tail[1:]
			} else {
				r.tail = ""
			}
			continue
		}
		found := false
		for _, mark := range r.form.Close {
			if r.state == afterCall && strings.HasPrefix(r.held, mark) {
				r.held, found = r.held[len(mark):], true
			}
		}
		if found {
			continue
		}
		for _, mark := range r.form.Close {
			if r.state == afterCall && !end && strings.HasPrefix(mark, r.held) {
				return false
			}
		}
		return r.held != ""
	}
}

// call reads a call from the held text, which begins with mark m. It returns false if the call needs more text. If no
// form of a call matches, or the answer has ended, the mark is content.
func (r *Reader) call(m *mark, end bool) bool {
	body := r.held[len(m.text):]
	if m.text != "" {
		body = r.form.withoutMarks(body)
	}
	waits := body == "" || r.form.begins(body, false, true) == len(body) // perhaps one more mark
	for _, s := range r.form.Syntax {
		parts, n, st := s.read(body, r.Tools)
		switch {
		case st == whole:
			r.parts = append(r.parts, parts...)
			r.held, r.blank, r.state = body[n:], "", afterCall
			return true
		case st == partial:
			waits = true
		}
		if name, at, tail, ok := s.head(body, r.Tools); ok && r.Trusted {
			r.parts = append(r.parts, Part{CallStart, name})
			r.held, r.blank, r.state, r.parsed, r.tail = body[at:], "", inArguments, jsonSpan{}, tail
			return true
		}
	}
	if waits && !end {
		r.waits = true
		return false
	}
	n := max(len(m.text), 1)
	r.say(r.held[:n])
	r.held = r.held[n:]
	return true
}

// withoutMarks drops white space and marks that begin calls from the beginning of a text: the mark of a section comes
// before the mark of its first call.
func (f *Form) withoutMarks(text string) string {
	for changed := true; changed; {
		text, changed = strings.TrimLeft(text, " \t\r\n"), false
		for _, open := range f.begin() {
			if strings.HasPrefix(text, open) {
				text, changed = text[len(open):], true
			}
		}
	}
	return text
}

// moreArguments returns the arguments of a trusted call as they arrive.
func (r *Reader) moreArguments() bool {
	n, st := r.parsed.take(r.held)
	r.parts = append(r.parts, Part{Arguments, r.held[:n]})
	r.held = r.held[n:]
	if st != partial {
		r.state = afterCall
	}
	return r.held != ""
}

// overlap returns the length of the longest proper prefix of mark that text ends with.
func overlap(text, mark string) int {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}
