package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

// graphFlags say how a command reads the graph that it is given: a file, or a model whose graph vkc builds.
type graphFlags struct {
	precision string
	model     modelFlags
}

// modelFlags say which graph of a model is meant.
type modelFlags struct {
	context int
	step    bool
	texts   int
	kv      string
}

const (
	precisionHelp = "what matrix products may do to be faster: full (nothing), bf16x3 (multiply f32 as sums of two " +
		"bf16), half (round operands to f16), half_sums (sum in f16, too), int8 (as half, and round rows that meet " +
		"quantized weights to 8 bits, as llama.cpp does)"

	// modelContext is how many tokens a model takes unless --context says otherwise.
	modelContext = 512
)

func (f *graphFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.precision, "precision", ir.PrecisionFull, precisionHelp)
	f.model.add(cmd)
}

func (f *modelFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.context, "context", 0,
		fmt.Sprintf("of a model: `N` tokens at most (default %d, or what the model was trained for)", modelContext))
	cmd.Flags().BoolVar(&f.step, "step", false,
		"of a model: the graph of one token, which keeps keys and values for the next")
	cmd.Flags().IntVar(&f.texts, "texts", 0,
		"of a model: the graph of one token of each of `N` texts at most, as vkc serve --parallel N runs it")
	cmd.Flags().StringVar(&f.kv, "kv", "", "with --step or --texts: keep keys and values in this "+
		"`TYPE`, such as f32 (the default), f16 or q8_0")
}

// read reads a graph, or builds that of a model. Its products may be as inexact as --precision says.
func (f *graphFlags) read(path string) (*ir.Graph, error) {
	g, err := f.model.read(path)
	if err != nil {
		return nil, err
	}
	if g, err = vkc.WithPrecision(g, f.precision); err != nil {
		return nil, usagef("--precision: %w", err)
	}
	return g, nil
}

// forBundle refuses what a bundle has decided already.
func (f *graphFlags) forBundle() error {
	if f.precision != ir.PrecisionFull {
		return &usageError{errors.New("--precision: a bundle has the precision that it was compiled with")}
	}
	return f.model.onlyForModels("a bundle")
}

func (f *modelFlags) onlyForModels(what string) error {
	if *f != (modelFlags{}) {
		return usagef("--context, --step, --texts and --kv are for GGUF models, and this is %s", what)
	}
	return nil
}

func (f *modelFlags) read(path string) (_ *ir.Graph, err error) {
	isModel, err := isGGUF(path)
	if err != nil {
		return nil, err
	}
	if !isModel {
		if err := f.onlyForModels("a graph"); err != nil {
			return nil, err
		}
		return vkc.ReadGraph(path)
	}
	if f.step && f.texts != 0 {
		return nil, usagef("--step is the graph of one text, and --texts that of several: give one of them")
	}
	if f.context < 0 {
		return nil, usagef("--context %d: want at least 1, or 0 for the default", f.context)
	}
	var options []llm.Option
	if f.kv != "" {
		kv, err := ir.ParseDType(f.kv)
		if err != nil {
			return nil, usagef("--kv: %w", err)
		}
		if !f.step && f.texts == 0 {
			return nil, usagef("--kv goes with --step or --texts: without them nothing is kept")
		}
		options = append(options, llm.Cache(kv))
	}
	file, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	cfg, err := llm.FromGGUF(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tokens := f.context
	if tokens == 0 {
		tokens = min(modelContext, cfg.Context)
	}
	switch {
	case f.texts != 0:
		return llm.Batch(cfg, f.texts, tokens, options...)
	case f.step:
		return llm.Step(cfg, tokens, options...)
	case cfg.Pooling != "":
		return llm.Embedding(cfg, tokens)
	}
	return llm.Prefill(cfg, tokens)
}

func isGGUF(path string) (bool, error) {
	head, err := filefmt.Head(path, 4)
	return string(head) == "GGUF", err
}

// weightsOf is the file of a graph's weights: the one that is named, or a model itself.
func weightsOf(graph, named string) string {
	if isModel, _ := isGGUF(graph); isModel && named == "" {
		return graph
	}
	return named
}

func (a *app) graphCommand() *cobra.Command {
	var f modelFlags
	var output string
	cmd := &cobra.Command{
		Use:   "graph MODEL.gguf|GRAPH|BUNDLE.vkb",
		Short: "Write the graph of a model, or of a bundle, as graph.json",
		Long: `Write the graph of a model, or of a bundle, as graph.json, to read or to change it; or that of text IR.

The graph of a GGUF model takes a text as tokens and gives the logits of the token after it. With --step it takes one
token at a time, and keeps keys and values in states; the symbol S is then the length of the text. run, compile, dump
and tune take a model as it is, without this. That of a model made for embeddings gives the vector of a text.`,
		Example: `  vkc graph MODEL.gguf -o GRAPH.json
  vkc graph MODEL.gguf --step --context 4096 --kv f16 -o STEP.json
  vkc graph BUNDLE.vkb`,
		Args: exactArgs("MODEL.gguf, GRAPH or BUNDLE.vkb"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := writable("output", output); err != nil {
				return err
			}
			g, err := f.graphOf(args[0])
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := g.WriteJSON(&text); err != nil {
				return err
			}
			if output == "" {
				_, err = a.stdout.Write(text.Bytes())
				return err
			}
			return atomicfile.WriteFile(output, text.Bytes(), 0o666)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the `FILE` to write (default standard output)")
	f.add(cmd)
	return cmd
}

// graphOf is read, for bundles too.
func (f *modelFlags) graphOf(path string) (*ir.Graph, error) {
	isBundle, err := filefmt.IsBundle(path)
	if err != nil || !isBundle {
		return f.read(path)
	}
	if err := f.onlyForModels("a bundle"); err != nil {
		return nil, err
	}
	p, err := vkc.OpenBundle(path)
	if err != nil {
		return nil, err
	}
	return p.Contents.Graph, p.Close()
}
