// Train trains a language model of gollama's shape from random weights, on Go's standard library:
//
//	go run ./examples/train -steps 500
//	go run ./examples/train -steps 500 -checkpoint gollama.safetensors -svg loss.svg
//	go run ./examples/train -lora 8 -ext .s -steps 200 -checkpoint lora.safetensors -adapter lora.gguf
//
// The second command can be interrupted, and then continues from its checkpoint. The third one does not change
// gollama's own quantized weights. It trains small matrices in addition to them (LoRA, Hu et al. 2021), on the
// library's assembly files, which were not in gollama's training data. vkc generate --lora lora.gguf uses the matrices.
// With -half the operands of matmuls are f16, as in mixed precision training (Micikevicius et al. 2018): weights and
// sums are f32, and the loss is scaled adaptively.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/train"
)

const usage = `train trains a language model of gollama's shape from random weights, on Go's standard library:

  train -steps 500 -checkpoint gollama.safetensors -svg loss.svg
  train -lora 8 -ext .s -steps 200 -checkpoint lora.safetensors -adapter lora.gguf

Stopped by Ctrl-C it writes its checkpoint, and the same command goes on from there. The second trains small matrices
next to gollama's own weights, on the library's assembly. Without a GPU, -layers 2 -batch 2 -context 64 takes minutes.

`

// options are the command line.
type options struct {
	device     string
	gguf       string
	corpus     string
	ext        string
	files      int
	steps      int
	batch      int
	context    int
	layers     int
	rate       float64
	rule       string
	lora       int
	remat      bool
	half       bool
	seed       uint64
	checkpoint string
	adapter    string
	every      int
	svg        string
	export     string
	quiet      int
}

func main() {
	var o options
	flag.StringVar(&o.device, "device", "auto", "auto, vulkan (the best device), cpu, or part of a name")
	flag.StringVar(&o.gguf, "gguf", "", "the model `file` whose shape and tokenizer are taken; gollama's if empty")
	flag.StringVar(&o.corpus, "corpus", "", "a `folder` of texts; the source of Go's standard library if empty")
	flag.StringVar(&o.ext, "ext", ".go", "which files of the folder are texts, by the end of their names")
	flag.IntVar(&o.files, "files", 0, "take so many files only; 0 takes all")
	flag.IntVar(&o.steps, "steps", 100, "the number of steps in all, over which the rate rises and falls; more than a "+
		"checkpoint was to have makes another schedule for those that are left")
	flag.IntVar(&o.batch, "batch", 8, "texts a step")
	flag.IntVar(&o.context, "context", 256, "tokens a text")
	flag.IntVar(&o.layers, "layers", 0, "train so many layers only; 0 is as many as the model has")
	flag.Float64Var(&o.rate, "rate", 1e-3, "the highest learning rate")
	flag.StringVar(&o.rule, "rule", "adamw", "adamw, lion, or muon for the matrices in the model and adamw for "+
		"others")
	flag.IntVar(&o.lora, "lora", 0, "leave the model as it is, and train matrices of that `rank` next to its own")
	flag.StringVar(&o.adapter, "adapter", "", "with -lora, write the matrices to that GGUF `file` at the end, for vkc "+
		"generate --lora and others")
	flag.BoolVar(&o.remat, "remat", false, "compute layers again for their gradients, which takes less memory and "+
		"more time")
	flag.BoolVar(&o.half, "half", false, "multiply matrices in f16 and add up in f32, with a scale of the loss that "+
		"adapts")
	flag.Uint64Var(&o.seed, "seed", 1, "of the first weights and of the texts' places")
	flag.StringVar(&o.checkpoint, "checkpoint", "", "the `file` to go on from, if it is there, and to write; with the "+
		"same flags and device the end has the same bits")
	flag.IntVar(&o.every, "every", 100, "steps between checkpoints; 0 writes one at the end alone")
	flag.StringVar(&o.svg, "svg", "", "draw the loss to that `file`")
	flag.StringVar(&o.export, "export", "", "write the first weights and all batches to that `folder`, and train "+
		"nothing: for other programs to start from")
	flag.IntVar(&o.quiet, "quiet", 10, "print every so many steps")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends it at once
	defer stop()
	err := error(nil)
	if flag.NArg() > 0 {
		err = fmt.Errorf("%q: want flags alone, such as -corpus %s", flag.Args(), flag.Arg(0))
	} else {
		_, err = run(ctx, o, os.Stdout)
	}
	switch {
	case ctx.Err() != nil: // the user stopped it
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check rejects options with which nothing would be trained, before reading any file.
func (o options) check() error {
	for _, f := range []struct {
		name        string
		have, least int
	}{
		{"steps", o.steps, 1}, {"batch", o.batch, 1}, {"context", o.context, 1}, {"quiet", o.quiet, 1},
		{"files", o.files, 0}, {"layers", o.layers, 0}, {"lora", o.lora, 0}, {"every", o.every, 0},
	} {
		if f.have < f.least {
			return fmt.Errorf("-%s %d: want at least %d", f.name, f.have, f.least)
		}
	}
	if o.adapter != "" && o.lora == 0 {
		return fmt.Errorf("-adapter %s: want -lora too, as no adapter is trained", o.adapter)
	}
	if !(o.rate > 0) {
		return fmt.Errorf("-rate %v: want more than 0", o.rate)
	}
	if !slices.Contains(rules, o.rule) {
		return fmt.Errorf("-rule %s: want one of %s", o.rule, strings.Join(rules, ", "))
	}
	return nil
}

// run trains the model, and prints the progress.
func run(ctx context.Context, o options, out io.Writer) (_ *train.Report, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var drawing *atomicfile.File
	if o.svg != "" { // report a path that cannot be written now, not after hours
		if drawing, err = atomicfile.Create(o.svg, 0o644); err != nil {
			return nil, fmt.Errorf("-svg: %w", err)
		}
		defer drawing.Close()
	}
	m, err := openModel(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.file.Close()) }()
	text, err := readCorpus(m.tokenizer, o)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%d tokens of %s files in %s\n", len(text.tokens), o.ext, text.folder)
	g, err := m.step(o)
	if err != nil {
		return nil, err
	}
	dev, err := vkc.OpenDevice(o.device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	program, err := dev.Compile(ctx, g, vkc.CompileOptions{Weights: m.file})
	if err != nil {
		return nil, err
	}
	exe, err := dev.Load(ctx, program, vkc.LoadOptions{Weights: m.file})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	describe(out, g, program, exe)
	if o.export != "" {
		return nil, export(exe, text, o)
	}
	report, err := train.Run(ctx, exe, text.batches(o), train.Options{Steps: o.steps, Tokens: o.batch * o.context,
		Checkpoint: o.checkpoint, Settings: o.settings(text), Every: o.every, Progress: o.progress(out)})
	o.summarize(out, report, err)
	if o.adapter != "" && len(report.Losses) > 0 {
		err = errors.Join(err, m.saveAdapter(exe, o))
	}
	if drawing != nil && len(report.Losses) > 0 {
		err = errors.Join(err, draw(drawing, o, report))
	}
	return report, err
}

// settings lists the options that determine the bits of a training, except the number of steps, which may be raised.
func (o options) settings(c *corpus) map[string]string {
	return map[string]string{"-seed": strconv.FormatUint(o.seed, 10), "-batch": strconv.Itoa(o.batch),
		"-context": strconv.Itoa(o.context), "-corpus": c.hash(), "-layers": strconv.Itoa(o.layers),
		"-lora": strconv.Itoa(o.lora), "-rule": o.rule, "-half": strconv.FormatBool(o.half),
		"-rate": strconv.FormatFloat(o.rate, 'g', -1, 64)}
}

// progress returns a function that prints a step: the first, the last, and every o.quiet-th. If the training resumes
// from a checkpoint, it prints that first.
func (o options) progress(out io.Writer) func(train.Progress) {
	first := true
	return func(p train.Progress) {
		if first && p.Step > 1 {
			fmt.Fprintf(out, "%s has %d steps, and the training goes on from there\n", o.checkpoint, p.Step-1)
		}
		if first || p.Step%o.quiet == 0 || p.Step == p.Steps {
			fmt.Fprintln(out, p)
		}
		first = false
	}
}

// summarize prints how a training ended.
func (o options) summarize(out io.Writer, report *train.Report, err error) {
	switch done := len(report.Losses); {
	case err == nil && report.Resumed >= o.steps:
		fmt.Fprintf(out, "nothing is left to do: %s has %d steps, and -steps is %d\n", o.checkpoint, done, o.steps)
	case errors.Is(err, context.Canceled) && o.checkpoint != "":
		fmt.Fprintf(out, "stopped after %d of %d steps; the same command goes on from %s\n", done, o.steps,
			o.checkpoint)
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(out, "stopped after %d of %d steps, of which nothing is kept without -checkpoint\n", done, o.steps)
	case err == nil && o.checkpoint != "":
		fmt.Fprintf(out, "%s has the weights, what the rule keeps of them, and the losses\n", o.checkpoint)
	}
}

// describe prints a description of a step.
func describe(out io.Writer, g *ir.Graph, program *vkc.Program, exe *vkc.Executable) {
	var states int64
	for _, n := range g.Leaves(ir.OpState) {
		if bytes, err := n.Type().MaxBytes(); err == nil {
			states += bytes
		}
	}
	fmt.Fprintf(out, "%s: %.0f MB of weights and optimizer", exe.Device(), float64(states)/1e6)
	if p := program.Contents.Program; p != nil && exe.Vulkan() != nil {
		fmt.Fprintf(out, ", %.0f MB between kernels, %d kernels a step", float64(p.ArenaBytes)/1e6,
			len(p.Steps)-p.Prepared)
	}
	fmt.Fprintln(out)
}

// draw writes the curve of the losses.
func draw(f *atomicfile.File, o options, report *train.Report) error {
	if err := train.WriteSVG(f, "Loss by step", train.Curve{Name: o.rule, Losses: report.Losses}); err != nil {
		return err
	}
	return f.Commit()
}
