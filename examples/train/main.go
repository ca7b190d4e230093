// Train trains a language model of gollama's shape from random weights, on Go's standard library:
//
//	go run ./examples/train -steps 500
//	go run ./examples/train -steps 500 -checkpoint gollama.safetensors -svg loss.svg
//	go run ./examples/train -lora 8 -ext .s -steps 200 -checkpoint lora.safetensors
//
// The second can be stopped and goes on where it ended. The third leaves gollama's own weights as they are,
// quantized, and trains small matrices beside them (LoRA, Hu et al. 2021), on the library's assembly, of which
// gollama has seen nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/train"
)

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
	seed       int64
	checkpoint string
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
	flag.IntVar(&o.steps, "steps", 100, "the number of steps in all")
	flag.IntVar(&o.batch, "batch", 8, "texts a step")
	flag.IntVar(&o.context, "context", 256, "tokens a text")
	flag.IntVar(&o.layers, "layers", 0, "train so many layers only; 0 is as many as the model has")
	flag.Float64Var(&o.rate, "rate", 1e-3, "the highest learning rate")
	flag.StringVar(&o.rule, "rule", "adamw", "adamw, lion, or muon for the matrices in the model and adamw for "+
		"others")
	flag.IntVar(&o.lora, "lora", 0, "leave the model as it is, and train matrices of that `rank` beside its own")
	flag.BoolVar(&o.remat, "remat", false, "compute layers again for their gradients, which takes less memory and "+
		"more time")
	flag.Int64Var(&o.seed, "seed", 1, "of the first weights and of the texts' places")
	flag.StringVar(&o.checkpoint, "checkpoint", "", "the `file` to go on from, if it is there, and to write")
	flag.IntVar(&o.every, "every", 100, "steps between checkpoints")
	flag.StringVar(&o.svg, "svg", "", "draw the loss to that `file`")
	flag.StringVar(&o.export, "export", "", "write the first weights and all batches to that `folder`, and train "+
		"nothing: for other programs to start from")
	flag.IntVar(&o.quiet, "quiet", 10, "print every so many steps")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

// run trains, and says how it goes.
func run(ctx context.Context, o options, out io.Writer) (_ *train.Report, err error) {
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
		Checkpoint: o.checkpoint, Every: o.every, Progress: func(p train.Progress) {
			if p.Step%max(1, o.quiet) == 0 || p.Step == p.Steps || p.Step == 1 {
				fmt.Fprintln(out, p)
			}
		}})
	if err == nil && o.svg != "" {
		err = draw(o, report)
	}
	return report, err
}

// describe says what a step is.
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

func draw(o options, report *train.Report) error {
	f, err := atomicfile.Create(o.svg, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := train.WriteSVG(f, "Loss by step", train.Curve{Name: o.rule, Losses: report.Losses}); err != nil {
		return err
	}
	return f.Commit()
}
