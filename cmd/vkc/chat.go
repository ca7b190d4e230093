package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/generate"
	"golang.org/x/term"
)

// chatCommand declares the command vkc chat and its flags.
func (a *app) chatCommand() *cobra.Command {
	var f generateFlags
	var system string
	cmd := &cobra.Command{
		Use:   "chat -m MODEL.gguf",
		Short: "Talk with a language model",
		Long: `Talk with a language model, by the chat template in its file. A line is a message. A line that ends with
\ continues in the next line, and pasted lines are one message. The arrow keys recall earlier messages. Ctrl-C stops an
answer, or ends the conversation if there is none to stop. Ctrl-D ends the conversation. If standard input is not a
terminal, each of its lines is a message.


` + chatHelp,
		Example: `  vkc chat -m MODEL.gguf --temp 0.8 --min-p 0.05
  vkc chat -m MODEL.gguf --system 'Answer in one sentence.' < questions.txt`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.chat(cmd.Context(), &f, system)
		},
	}
	f.register(a, cmd.Flags())
	f.model.registerImages(cmd.Flags(), "send the picture in this `FILE` with the first message; may be repeated")
	cmd.Flags().StringVar(&system, "system", "", "give the model instructions for its answers: this `TEXT`")
	return cmd
}

const chatHelp = `Commands in a conversation:
  /clear          forget all messages
  /system [TEXT]  give the model instructions for its next answers; without TEXT, none
  /retry          answer the last message again
  /image FILE     send a picture with the next message
  /help           list these commands
  /quit           end the conversation`

// chatUI is a user interface of a conversation: a terminal (console), or plain streams (streamUI). Writes show text
// to the user.
type chatUI interface {
	// readMessage returns the next message, or io.EOF.
	readMessage() (string, error)
	io.Writer
	// interruptible returns a context that ends when the user presses Ctrl-C, which stops an answer.
	interruptible(ctx context.Context) (context.Context, context.CancelFunc)
}

// chat runs vkc chat: it loads the model and holds a conversation on the terminal or, if standard input or output is
// none, line by line.
func (a *app) chat(ctx context.Context, f *generateFlags, system string) (err error) {
	f.chat = true
	if f.model.path != "" {
		if err := f.model.findProjector(); err != nil {
			return err
		}
	}
	text, err := f.openText(ctx, a, "chat")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	m, ok := text.(chatModel)
	if !ok {
		return fmt.Errorf("%s cannot hold a conversation: want a language model", f.model.path)
	}
	c := &conversation{model: m, flags: f, system: system}
	// Check before the first message that the template supports such conversations.
	if _, _, _, err := c.prompt("Hello"); err != nil {
		return err
	}
	if c.shown, err = f.model.readImages(ctx, m); err != nil {
		return err
	}
	if terminalOf(os.Stdin) == nil || terminalOf(os.Stdout) == nil {
		return c.run(ctx, newStreamUI(ctx, a.stdout, a.stdout.Flush))
	}
	a.note("%s. /help lists commands", m.Why())
	console, err := newConsole(ctx)
	if err != nil {
		return err
	}
	defer console.close()
	return c.run(ctx, console)
}

// chatModel is a model of conversations.
type chatModel interface {
	textModel
	Context() int
	FitWith(c chat.Context, images []*generate.Image, room int) (prompt []int32, rest []*generate.Image, forgotten int,
		err error)
}

// conversation is the state of a chat.
type conversation struct {
	model    chatModel
	flags    *generateFlags
	system   string
	messages []chat.Message      // of the user and the model, in turns
	pictures [][]*generate.Image // of each of messages
	shown    []*generate.Image   // with the next message
}

// run reads messages and commands, and answers each message, until the input ends or the user quits.
func (c *conversation) run(ctx context.Context, ui chatUI) error {
	for {
		text, err := ui.readMessage()
		if err == io.EOF {
			return ctx.Err() // nil, unless the user interrupted
		} else if err != nil {
			return err
		}
		switch command, argument, _ := strings.Cut(strings.TrimRight(text, " \n"), " "); {
		case strings.TrimSpace(text) == "":
			continue
		case command == "/quit", command == "/exit":
			return nil
		case command == "/retry":
			if len(c.messages) < 2 {
				fmt.Fprintln(ui, "There is no message to answer again.")
				continue
			}
			text = c.takeBack()
			c.flags.sampling.Seed++ // for another answer
		case strings.HasPrefix(command, "/"):
			c.execute(ctx, ui, command, strings.TrimSpace(argument))
			continue
		}
		if err := c.answer(ctx, ui, text); err != nil {
			return err
		}
	}
}

// takeBack removes the last message and its answer from the conversation. It returns the message's text, and keeps the
// message's pictures for the next message.
func (c *conversation) takeBack() string {
	last := len(c.messages) - 2
	text := textIn(c.messages[last].Content)
	c.shown = c.pictures[last]
	c.messages, c.pictures = c.messages[:last], c.pictures[:last]
	return text
}

// execute runs a command that sends no message.
func (c *conversation) execute(ctx context.Context, ui chatUI, command, argument string) {
	switch command {
	case "/help":
		fmt.Fprintln(ui, chatHelp)
	case "/clear":
		c.messages, c.pictures, c.shown = nil, nil, nil
	case "/image":
		p, err := readImage(ctx, c.model, argument)
		if err != nil {
			fmt.Fprintln(ui, err)
			return
		}
		c.shown = append(c.shown, p)
		fmt.Fprintf(ui, "[a picture of %d tokens, with your next message]\n", len(p.Tokens()))
	case "/system":
		c.system = argument
	default:
		fmt.Fprintf(ui, "There is no command %s; /help lists them. To send it as a message, begin the line with a "+
			"space.\n", command)
	}
}

// prompt returns the tokens of the conversation with one more message of the user, text. If they leave too little of
// the context for an answer, prompt drops the oldest messages from c.messages; dropped counts them. images are the
// pictures in the prompt.
func (c *conversation) prompt(text string) (prompt []int32, images []*generate.Image, dropped int, err error) {
	var messages []chat.Message
	if c.system != "" {
		messages = append(messages, chat.Message{Role: "system", Content: c.system})
	}
	messages = append(append(messages, c.messages...), chat.Message{Role: "user", Content: messageOf(text, c.shown)})
	images = append(slices.Concat(c.pictures...), c.shown...)
	reserved := c.model.Context() / 4 // tokens for the answer
	if n := c.flags.sampling.MaxTokens; n > 0 {
		reserved = min(n, reserved)
	}
	talk := chat.Context{Messages: messages, AddGenerationPrompt: true}
	prompt, images, dropped, err = c.model.FitWith(talk, images, reserved)
	if err == nil {
		c.messages, c.pictures = c.messages[dropped:], c.pictures[dropped:]
	}
	return prompt, images, dropped, err
}

// textIn returns the text of a message that messageOf has made.
func textIn(content any) string {
	parts, ok := content.([]any)
	if !ok {
		return content.(string)
	}
	text, _ := parts[len(parts)-1].(chat.Object).Get("text")
	return text.(string)
}

// answer asks the model for a reply to the user's message text, prints the reply on ui while it is generated, and
// appends both to c.messages. If the user interrupts it, the partial reply is kept. A prompt that cannot be made is
// printed and is no error.
func (c *conversation) answer(ctx context.Context, ui chatUI, text string) error {
	prompt, images, dropped, err := c.prompt(text)
	if err != nil {
		fmt.Fprintln(ui, err)
		return nil
	}
	if dropped > 0 {
		fmt.Fprintf(ui, "[the context of %d tokens is full: the first %d messages are forgotten]\n", c.model.Context(),
			dropped)
	}
	answerCtx, stop := ui.interruptible(ctx)
	defer stop()
	var reply strings.Builder
	sampling := c.flags.sampling
	sampling.Images = images
	stats, err := answer(answerCtx, c.model, prompt, sampling, func(text string) error {
		reply.WriteString(text)
		_, err := io.WriteString(ui, text)
		return err
	})
	interrupted := answerCtx.Err() != nil && ctx.Err() == nil
	if err != nil && !interrupted {
		return err
	}
	c.messages = append(c.messages, chat.Message{Role: "user", Content: messageOf(text, c.shown)},
		chat.Message{Role: "assistant", Content: reply.String()})
	c.pictures, c.shown = append(c.pictures, c.shown, nil), nil // the message's pictures; the reply has none
	fmt.Fprintln(ui)
	if c.flags.stats && stats != "" {
		fmt.Fprintf(ui, "[%s]\n", stats)
	}
	return nil
}

// streamUI reads messages from standard input and writes answers to a stream. A line that ends with \ continues in
// the next.
type streamUI struct {
	io.Writer
	lines *bufio.Reader
	flush func() error
}

func newStreamUI(ctx context.Context, w io.Writer, flush func() error) *streamUI {
	return &streamUI{Writer: w, lines: bufio.NewReader(standardInput(ctx)), flush: flush}
}

// readMessage implements [chatUI]. A line that ends with a backslash continues in the next one. The last line may end
// without a line break. After it, readMessage returns io.EOF.
func (p *streamUI) readMessage() (string, error) {
	var text strings.Builder
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil && (err != io.EOF || line == "" && text.Len() == 0) {
			return "", err
		}
		line, more := strings.CutSuffix(strings.TrimRight(line, "\r\n"), `\`)
		text.WriteString(line)
		if !more || err != nil { // the only error here is the end of the input
			return text.String(), nil
		}
		text.WriteByte('\n')
	}
}

func (p *streamUI) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	return n, errors.Join(err, p.flush())
}

func (p *streamUI) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
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
// The goroutine ends with ctx, or with the next key after that, because a read of the terminal cannot be canceled.
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

// Read passes keys to the line editor, which is term.Terminal. It returns io.EOF if the terminal or the context has
// ended.
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

// readMessage implements [chatUI]. Pasted lines are one message.
func (c *console) readMessage() (string, error) {
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
		text.WriteString(line)
		if !more {
			return text.String(), nil
		}
		text.WriteByte('\n')
		c.SetPrompt(moreMark)
	}
}

// interruptible implements [chatUI]. Until the returned function is called, it watches for Ctrl-C, which cancels the
// context. It keeps other keys for the next message.
func (c *console) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
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
		<-done // only one goroutine may take keys
	}
}
