package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/generate"
	"golang.org/x/term"
)

func (a *app) chatCommand() *cobra.Command {
	var f generateFlags
	var system string
	cmd := &cobra.Command{
		Use:   "chat -m MODEL.gguf",
		Short: "Talk with a language model",
		Long: `Talk with a language model, by the template in its file. A line is a message; one that ends with \ goes on in the next line,
and pasted lines are one message. The arrow keys go through what you wrote before. Ctrl-C stops an answer; with nothing to
stop it ends the conversation, as Ctrl-D does. Where standard input is no terminal, each line of it is a message.

` + chatHelp,
		Example: `  vkc chat -m MODEL.gguf --temp 0.8 --min-p 0.05
  vkc chat -m MODEL.gguf --system 'Answer in one sentence.' < questions.txt`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.chat(cmd.Context(), &f, system)
		},
	}
	f.register(a, cmd.Flags())
	cmd.Flags().StringVar(&system, "system", "", "tell the model first how to answer, by this `TEXT`")
	return cmd
}

const chatHelp = `Commands in a conversation:
  /clear          forget what was said
  /system [TEXT]  tell the model how to answer, from here on; without TEXT, as it was trained
  /retry          answer the last message once more
  /help           list these commands
  /quit           end the conversation`

// talker reads messages and shows answers: a terminal, or plain streams.
type talker interface {
	// message returns the next message, or io.EOF.
	message() (string, error)
	io.Writer
	// answering returns a context that ends when the user interrupts the answer.
	answering(ctx context.Context) (context.Context, context.CancelFunc)
}

func (a *app) chat(ctx context.Context, f *generateFlags, system string) (err error) {
	f.chat = true
	m, err := f.open(ctx, a, "chat")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	c := &conversation{model: m, flags: f, system: system}
	// Check before the first message that the template supports such conversations.
	if _, _, err := c.prompt("Hello"); err != nil {
		return err
	}
	if terminalOf(os.Stdin) == nil || terminalOf(os.Stdout) == nil {
		return c.run(ctx, newPlainTalker(ctx, a.stdout, a.stdout.Flush))
	}
	a.note("%s. /help lists commands", m.Why())
	console, err := newConsole(ctx)
	if err != nil {
		return err
	}
	defer console.close()
	return c.run(ctx, console)
}

// conversation is the state of a chat.
type conversation struct {
	model    *generate.Model
	flags    *generateFlags
	system   string
	messages []chat.Message // of the user and the model, in turns
}

// run reads messages and commands, and answers each message, until the input ends or the user quits.
func (c *conversation) run(ctx context.Context, t talker) error {
	for {
		text, err := t.message()
		if err == io.EOF {
			return ctx.Err()
		} else if err != nil {
			return err
		}
		switch command, rest, _ := strings.Cut(strings.TrimRight(text, " \n"), " "); {
		case strings.TrimSpace(text) == "":
			continue
		case command == "/quit", command == "/exit":
			return nil
		case command == "/help":
			fmt.Fprintln(t, chatHelp)
			continue
		case command == "/clear":
			c.messages = nil
			continue
		case command == "/system":
			c.system = strings.TrimSpace(rest)
			continue
		case command == "/retry":
			if len(c.messages) < 2 {
				fmt.Fprintln(t, "There is no message to answer once more.")
				continue
			}
			text = c.messages[len(c.messages)-2].Content.(string)
			c.messages = c.messages[:len(c.messages)-2]
			c.flags.sampling.Seed++
		case strings.HasPrefix(command, "/"):
			fmt.Fprintf(t, "There is no command %s; /help lists them. A space before it makes it a message.\n", command)
			continue
		}
		if err := c.answer(ctx, t, text); err != nil {
			return err
		}
	}
}

// prompt returns the tokens of the conversation with one more message of the user. If the conversation is too long, its
// oldest messages are dropped; forgotten counts them.
func (c *conversation) prompt(text string) (prompt []int32, forgotten int, err error) {
	var messages []chat.Message
	if c.system != "" {
		messages = append(messages, chat.Message{Role: "system", Content: c.system})
	}
	messages = append(append(messages, c.messages...), chat.Message{Role: "user", Content: text})
	room := c.model.Context() / 4
	if n := c.flags.sampling.MaxTokens; n > 0 {
		room = min(n, room)
	}
	prompt, forgotten, err = c.model.Fit(chat.Context{Messages: messages, AddGenerationPrompt: true}, room)
	if err == nil {
		c.messages = c.messages[forgotten:]
	}
	return prompt, forgotten, err
}

// answer prints the model's answer and adds it to the conversation, even if it was interrupted.
func (c *conversation) answer(ctx context.Context, t talker, text string) error {
	prompt, forgotten, err := c.prompt(text)
	if err != nil {
		fmt.Fprintln(t, err)
		return nil
	}
	if forgotten > 0 {
		fmt.Fprintf(t, "[the context of %d tokens is full: the first %d messages are forgotten]\n", c.model.Context(),
			forgotten)
	}
	answering, stop := t.answering(ctx)
	defer stop()
	var said strings.Builder
	stats, err := answer(answering, c.model, prompt, c.flags.sampling, func(text string) error {
		said.WriteString(text)
		_, err := io.WriteString(t, text)
		return err
	})
	stopped := answering.Err() != nil && ctx.Err() == nil
	if err != nil && !stopped {
		return err
	}
	c.messages = append(c.messages, chat.Message{Role: "user", Content: text},
		chat.Message{Role: "assistant", Content: said.String()})
	fmt.Fprintln(t)
	if c.flags.stats && stats != "" {
		fmt.Fprintf(t, "[%s]\n", stats)
	}
	return nil
}

// plainTalker talks by streams.
type plainTalker struct {
	io.Writer
	lines *bufio.Reader
	flush func() error
}

func newPlainTalker(ctx context.Context, w io.Writer, flush func() error) *plainTalker {
	return &plainTalker{Writer: w, lines: bufio.NewReader(standardInput(ctx)), flush: flush}
}

func (p *plainTalker) message() (string, error) {
	var text strings.Builder
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil && (err != io.EOF || line == "" && text.Len() == 0) {
			return "", err
		}
		line, more := strings.CutSuffix(strings.TrimRight(line, "\r\n"), `\`)
		if text.WriteString(line); !more || err != nil {
			return text.String(), nil
		}
		text.WriteByte('\n')
	}
}

func (p *plainTalker) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	return n, errors.Join(err, p.flush())
}

func (p *plainTalker) answering(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// console is a terminal in raw mode. One goroutine reads keys, so that Ctrl-C works while an answer is printed.
type console struct {
	*term.Terminal
	ctx   context.Context
	saved *term.State
	keys  chan []byte // closed at the end of input
	rest  []byte      // read but unused bytes
}

const (
	ctrlC    = 3
	chatMark = "> "
	moreMark = "| "
)

// newConsole puts the terminal into raw mode and starts to read keys. The caller must restore the terminal by close.
func newConsole(ctx context.Context) (*console, error) {
	saved, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	c := &console{ctx: ctx, saved: saved, keys: make(chan []byte)}
	c.Terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{c, os.Stdout}, chatMark)
	c.SetBracketedPasteMode(true)
	in := os.Stdin
	go func() {
		defer close(c.keys)
		for {
			keys := make([]byte, 256)
			n, err := in.Read(keys)
			if err != nil {
				return
			}
			select {
			case c.keys <- keys[:n]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c, nil
}

func (c *console) close() {
	c.SetBracketedPasteMode(false)
	term.Restore(int(os.Stdin.Fd()), c.saved)
}

// Read returns keys to the line editor.
func (c *console) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		select {
		case keys, ok := <-c.keys:
			if !ok {
				return 0, io.EOF
			}
			c.rest = keys
		case <-c.ctx.Done():
			return 0, io.EOF
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *console) message() (string, error) {
	if width, height, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		c.SetSize(width, height)
	}
	defer c.SetPrompt(chatMark)
	var text strings.Builder
	for {
		line, err := c.ReadLine()
		pasted := err == term.ErrPasteIndicator
		if err != nil && !pasted {
			return "", err
		}
		more := pasted
		if !pasted {
			line, more = strings.CutSuffix(line, `\`)
		}
		if text.WriteString(line); !more {
			return text.String(), nil
		}
		text.WriteByte('\n')
		c.SetPrompt(moreMark)
	}
}

// answering watches for Ctrl-C; other keys are for the next message.
func (c *console) answering(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case keys, ok := <-c.keys:
				if !ok || bytes.IndexByte(keys, ctrlC) >= 0 {
					cancel()
					return
				}
				c.rest = append(c.rest, keys...)
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}
