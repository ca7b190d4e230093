// Gochat trains a very small chat model, on conversations that a program makes:
//
//	go run ./examples/gochat -o gochat.gguf -checkpoint gochat.safetensors
//	go run ./examples/gochat -ask gochat.gguf
//	vkc chat -m gochat.gguf
//
// The first command can be interrupted, and then continues from its checkpoint. The second one asks the model
// questions
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
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/train"
)

// options are the command line.
type options struct {
	sizes      sizes
	device     string
	steps      int
	minutes    float64
	batch      int
	rate       float64
	seed       uint64
	checkpoint string
	out        string
	show       int
	ask        string
	exam       int
	merges     int
}

func main() {
	o := options{sizes: shipped}
	flag.StringVar(&o.device, "device", "auto", "auto, vulkan (the best device), cpu, or part of a name")
	flag.IntVar(&o.steps, "steps", 9000, "the number of steps")
	flag.Float64Var(&o.minutes, "minutes", 0, "make as many steps as these `minutes` allow, instead of -steps")
	flag.IntVar(&o.batch, "batch", 32, "conversations a step")
	flag.Float64Var(&o.rate, "rate", 4e-3, "the highest learning rate")
	flag.Uint64Var(&o.seed, "seed", 1, "of the first weights and the conversations")
	flag.StringVar(&o.checkpoint, "checkpoint", "", "the `file` to go on from, if it is there, and to write")
	flag.StringVar(&o.out, "o", "gochat-q8_0.gguf", "the `file` of the model")
	flag.IntVar(&o.show, "show", 0, "print `N` conversations, and train nothing")
	flag.StringVar(&o.ask, "ask", "", "ask the model in that `file` questions that were held out, and train nothing")
	flag.IntVar(&o.exam, "exam", 50, "the questions of each kind, after a training and for -ask")
	flag.IntVar(&o.merges, "merges", 0,
		"print the merges of the vocabulary, from `N` conversations, and train nothing")
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
	switch {
	case o.steps < 1 || o.batch < 1 || !(o.rate > 0) || !(o.minutes >= 0):
		return fmt.Errorf("-steps %d, -batch %d, -rate %v, -minutes %v: want at least 1, 1, more than 0,"+
			" and at least 0",
			o.steps, o.batch, o.rate, o.minutes)
	case o.ask != "":
		return report(ctx, o, o.ask, out)
	case o.merges > 0:
		return printMerges(o, out)
	}
	m, err := newModel(o.sizes)
	switch {
	case err != nil:
		return err
	case o.show > 0:
		return m.show(o, out)
	}
	if err := m.train(ctx, o, out); err != nil || o.exam == 0 {
		return err
	}
	return report(ctx, o, o.out, out)
}

// show prints the first conversations of the first steps.
func (m *model) show(o options, out io.Writer) error {
	for step := range o.show {
		pieces, err := template().Render(conversation(random(o, step), turns))
		if err != nil {
			return err
		}
		fmt.Fprintln(out, chat.Text(pieces))
	}
	return nil
}

// train trains the model, and writes it.
func (m *model) train(ctx context.Context, o options, out io.Writer) (err error) {
	began := time.Now()
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
	fmt.Fprintf(out, "%s, ready after %s\n", exe.Device(), time.Since(began).Round(time.Second))
	limit := ctx
	if o.minutes > 0 {
		length := time.Duration(o.minutes * float64(time.Minute))
		if o.steps, err = m.stepsIn(ctx, exe, o, length); err != nil {
			return err
		}
		fmt.Fprintf(out, "-minutes %v are -steps %d\n", o.minutes, o.steps)
		var stop context.CancelFunc
		limit, stop = context.WithTimeout(ctx, length+length/10)
		defer stop()
	}
	batches := func(after int) iter.Seq2[vkc.Tensors, error] { return m.ahead(o, after) }
	_, err = train.Run(limit, exe, batches, train.Options{Steps: o.steps, Tokens: o.batch * m.context,
		Checkpoint: o.checkpoint, Every: 1000,
		Settings: map[string]string{"-seed": strconv.FormatUint(o.seed, 10), "-batch": strconv.Itoa(o.batch),
			"-rate": strconv.FormatFloat(o.rate, 'g', -1, 64), "-steps": strconv.Itoa(o.steps)},
		Progress: func(p train.Progress) {
			if p.Step%50 == 0 || p.Step == p.Steps {
				fmt.Fprintln(out, p)
			}
		}})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // slower than its first steps
		fmt.Fprintln(out, err)
		err = nil
	}
	if err != nil {
		return err
	}
	return m.save(exe, o.out)
}

// stepsIn measures the number of steps that a time allows.
func (m *model) stepsIn(ctx context.Context, exe *vkc.Executable, o options, length time.Duration) (int, error) {
	if _, err := os.Stat(o.checkpoint); o.checkpoint != "" && err == nil {
		return 0, fmt.Errorf("-minutes %v: %s is there: go on with the -steps that its training printed,"+
			" or remove it",
			o.minutes, o.checkpoint)
	}
	const first, last = 5, 25 // the steps to measure; earlier ones are slower
	var begin, end time.Time
	batches := func(after int) iter.Seq2[vkc.Tensors, error] { return m.ahead(o, after) }
	_, err := train.Run(ctx, exe, batches, train.Options{Steps: last, Progress: func(p train.Progress) {
		switch p.Step {
		case first:
			begin = time.Now()
		case last:
			end = time.Now()
		}
	}})
	if err != nil {
		return 0, err
	}
	each := max(end.Sub(begin)/(last-first), 1)
	return max(int(length/each), 1), exe.ResetStates()
}
