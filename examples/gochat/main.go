// Gochat trains a very small chat model, on conversations that a program makes:
//
//	go run ./examples/gochat -o gochat.gguf -checkpoint gochat.safetensors
//	go run ./examples/gochat -ask gochat.gguf
//	vkc chat -m gochat.gguf
//
// The first command can be interrupted, and then continues from its checkpoint. The second one asks the model questions
// that no training has, and prints the wrong answers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"strconv"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/train"
)

// options are the command line.
type options struct {
	device     string
	steps      int
	batch      int
	rate       float64
	seed       uint64
	checkpoint string
	out        string
	show       int
	ask        string
}

func main() {
	var o options
	flag.StringVar(&o.device, "device", "auto", "auto, vulkan (the best device), cpu, or part of a name")
	flag.IntVar(&o.steps, "steps", 4600, "the number of steps")
	flag.IntVar(&o.batch, "batch", 6, "conversations a step")
	flag.Float64Var(&o.rate, "rate", 4e-3, "the highest learning rate")
	flag.Uint64Var(&o.seed, "seed", 1, "of the first weights and the conversations")
	flag.StringVar(&o.checkpoint, "checkpoint", "", "the `file` to go on from, if it is there, and to write")
	flag.StringVar(&o.out, "o", "gochat-q8_0.gguf", "the `file` of the model")
	flag.IntVar(&o.show, "show", 0, "print `N` conversations, and train nothing")
	flag.StringVar(&o.ask, "ask", "", "ask the model in that `file` questions that were held out, and train nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends it at once
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run does what the options ask for.
func run(ctx context.Context, o options, out io.Writer) error {
	if o.steps < 1 || o.batch < 1 || !(o.rate > 0) {
		return fmt.Errorf("-steps %d, -batch %d, -rate %v: want at least 1, 1, and more than 0", o.steps, o.batch,
			o.rate)
	}
	if o.ask != "" {
		return report(ctx, o, out)
	}
	m, err := newModel()
	if err != nil {
		return err
	}
	if o.show > 0 {
		return m.show(o, out)
	}
	return m.train(ctx, o, out)
}

// show prints the first conversations of the first steps.
func (m *model) show(o options, out io.Writer) error {
	for step := range o.show {
		pieces, err := m.template.Render(conversation(random(o, step), turns))
		if err != nil {
			return err
		}
		fmt.Fprintln(out, chat.Text(pieces))
	}
	return nil
}

// train trains the model, and writes it.
func (m *model) train(ctx context.Context, o options, out io.Writer) (err error) {
	g, err := m.step(o)
	if err != nil {
		return err
	}
	dev, err := vkc.OpenDevice(o.device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	exe, err := dev.LoadGraph(ctx, g, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	batches := func(after int) iter.Seq2[vkc.Tensors, error] {
		return func(yield func(vkc.Tensors, error) bool) {
			for step := after; ; step++ {
				if in, err := m.batch(o, step); !yield(in, err) {
					return
				}
			}
		}
	}
	_, err = train.Run(ctx, exe, batches, train.Options{Steps: o.steps, Tokens: o.batch * contextLength,
		Checkpoint: o.checkpoint, Every: 100,
		Settings: map[string]string{"-seed": strconv.FormatUint(o.seed, 10), "-batch": strconv.Itoa(o.batch),
			"-rate": strconv.FormatFloat(o.rate, 'g', -1, 64)},
		Progress: func(p train.Progress) {
			if p.Step%10 == 0 || p.Step == p.Steps {
				fmt.Fprintln(out, p)
			}
		}})
	if err != nil {
		return err
	}
	return m.save(exe, o.out)
}
