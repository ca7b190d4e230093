package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/onnx/export"
	"github.com/vkc-go/vkc/frontend/onnx/folder"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// graphFlags say how a command reads its graph: from a graph file, or built from a model file.
type graphFlags struct {
	precision string
	model     modelFlags
}

// modelFlags select one of the graphs of a model.
type modelFlags struct {
	context int
	step    bool
	past    bool
	chunk   int
	texts   int
	kv      string
	onnx    onnxFlags
}

const (
	precisionHelp = "how far matmuls may round for speed: exact (not at all), bf16x3 (multiply f32 as sums of two " +
		"bf16), half (round operands to f16), half_sums (also sum in f16), int8 (like half, and round the rows for " +
		"quantized weights to 8 bits, as llama.cpp does)"

	// modelContext is the default of --ctx, in tokens.
	modelContext = 512
)

func (f *graphFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.precision, "precision", "", precisionHelp+" (default exact)")
	f.model.add(cmd)
}

// add declares the flags.
func (f *modelFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.context, "ctx", 0,
		fmt.Sprintf("with a language model: at most `N` tokens; 0 means %d, or fewer if the model was trained with "+
			"fewer", modelContext))
	cmd.Flags().BoolVar(&f.step, "step", false,
		"with a language model: use the graph that decodes one token and keeps keys and values in states")
	cmd.Flags().BoolVar(&f.past, "past", false,
		"with a language model: use the graph that takes the keys and values of earlier tokens as inputs, and returns "+
			"those of all tokens")
	cmd.Flags().IntVar(&f.chunk, "chunk", 0,
		"with a language model: use the graph that reads a chunk of a prompt, at most `N` tokens, and keeps keys and "+
			"values in states; 0 means none")
	cmd.Flags().IntVar(&f.texts, "texts", 0,
		"with a language model: use the graph that decodes one token for each of at most `N` sequences, as vkc serve "+
			"--parallel N does; 0 means one sequence")
	cmd.Flags().StringVar(&f.kv, "kv", "", "with --step, --chunk or --texts: store the KV cache in this `TYPE`, such "+
		"as f32 (the default), f16 or q8_0")
	f.onnx.add(cmd)
}

// read reads a graph, or builds the graph of a model. It applies --precision to the graph's matmuls.
func (f *graphFlags) read(path string) (*ir.Graph, error) {
	g, w, err := f.open(path, "")
	if w != nil {
		err = errors.Join(err, w.Close())
	}
	return g, err
}

// open reads a graph, or builds the graph of a model, and applies --precision to its matmuls. It also returns weights:
// those of the file `weights` if its name is not empty, otherwise the model's own, or nil for a graph without any.
func (f *graphFlags) open(path, weights string) (_ *ir.Graph, _ vkc.Weights, err error) {
	g, own, err := f.model.open(path)
	if err != nil {
		return nil, nil, err
	}
	w := own
	defer func() {
		if err != nil && w != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if weights != "" {
		if own != nil {
			w = nil // it must not be closed a second time
			if err := own.Close(); err != nil {
				return nil, nil, err
			}
		}
		if w, err = vkc.OpenWeights(weights); err != nil {
			return nil, nil, err
		}
	}
	precision := cmp.Or(f.precision, vkc.Exact)
	if g, err = vkc.WithPrecision(g, precision); err != nil {
		return nil, nil, usagef("--precision: %w", err)
	}
	return g, w, nil
}

// forBundle reports flags that a bundle fixed when it was compiled.
func (f *graphFlags) forBundle() error {
	if f.precision != "" {
		return &usageError{errors.New("--precision: the precision of a bundle is fixed when it is compiled: leave " +
			"out the flag")}
	}
	return f.model.onlyFor("a bundle")
}

// onlyFor rejects flags that apply only to models of another kind than what, the kind of the file.
func (f *modelFlags) onlyFor(what string) error {
	if what != ggufModel && (f.context != 0 || f.step || f.past || f.chunk != 0 || f.texts != 0 || f.kv != "") {
		return usagef("--ctx, --step, --chunk, --past, --texts and --kv are for GGUF models, and this is %s", what)
	}
	if what != onnxModel && f.onnx.given() {
		return usagef("--dim, --bound, --constant and --narrow are for ONNX models, and this is %s", what)
	}
	return nil
}

// Names of the kinds of model files, for error messages.
const (
	ggufModel = "a GGUF model"
	onnxModel = "an ONNX model"
)

// open reads a graph, or builds the graph of a model and returns it with the model's weights.
func (f *modelFlags) open(path string) (g *ir.Graph, weights vkc.Weights, err error) {
	path, err = modelFile(path)
	if err != nil {
		return nil, nil, err
	}
	model, err := isModel(path)
	switch {
	case err != nil:
		return nil, nil, err
	case model:
		if err := f.onlyFor(ggufModel); err != nil {
			return nil, nil, err
		}
		return f.openGGUF(path)
	case isONNX(path):
		if err := f.onlyFor(onnxModel); err != nil {
			return nil, nil, err
		}
		m, err := f.onnx.open(path)
		if err != nil {
			return nil, nil, err
		}
		return m.Graph, m, nil
	}
	if err := f.onlyFor("a graph"); err != nil {
		return nil, nil, err
	}
	g, err = vkc.ReadGraph(path)
	return g, nil, err
}

// check refuses flags that are wrong for every GGUF model.
func (f *modelFlags) check() error {
	graphs := 0
	for _, chosen := range []bool{f.step, f.past, f.chunk != 0, f.texts != 0} {
		if chosen {
			graphs++
		}
	}
	switch {
	case graphs > 1:
		return usagef("--step, --chunk, --past and --texts each choose another graph: give one of them")
	case f.chunk < 0:
		return usagef("--chunk %d: want at least 1 token, or 0 for another graph", f.chunk)
	case f.context < 0:
		return usagef("--ctx %d: want at least 1, or 0 for the default", f.context)
	case f.texts < 0:
		return usagef("--texts %d: want at least 1, or 0 for the graph of one sequence", f.texts)
	}
	return nil
}

// openGGUF builds the graph of a GGUF model that the flags select, and returns it with the weights. Without flags it is
// the graph of the model's purpose: ratings, embeddings, or the logits of a prompt.
func (f *modelFlags) openGGUF(path string) (_ *ir.Graph, _ vkc.Weights, err error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	kv, err := parseKV(f.kv)
	if err != nil {
		return nil, nil, err
	}
	var options []llm.Option
	if f.kv != "" {
		if !f.step && f.chunk == 0 && f.texts == 0 {
			return nil, nil, usagef("--kv goes with --step, --chunk or --texts, or with compile's --generate: " +
				"other graphs have no KV cache")
		}
		options = append(options, llm.Cache(kv))
	}
	file, err := vkc.OpenModel(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	cfg, err := llm.FromGGUF(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	tokens := f.context
	if tokens == 0 {
		tokens = min(modelContext, cfg.Context)
	}
	if err := cfg.CheckContext(tokens); err != nil {
		return nil, nil, usagef("--ctx: %w", err)
	}
	if kv != ir.Invalid {
		if err := cfg.CheckCache(kv); err != nil {
			return nil, nil, usagef("--kv: %w", err)
		}
	}
	g, err := f.languageModel(cfg, tokens, options)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, file, nil
}

// languageModel builds the graph that the flags select for texts of up to `tokens` tokens.
func (f *modelFlags) languageModel(cfg llm.Config, tokens int, options []llm.Option) (*ir.Graph, error) {
	switch {
	case f.texts != 0:
		return llm.Batch(cfg, f.texts, tokens, options...)
	case f.past:
		return llm.Past(cfg, tokens)
	case f.step:
		return llm.Step(cfg, tokens, options...)
	case f.chunk != 0:
		return llm.Steps(cfg, f.chunk, tokens, options...)
	case cfg.Pooling == llm.PoolRank:
		return llm.Ranking(cfg, tokens)
	case cfg.Pooling != "":
		return llm.Embedding(cfg, tokens)
	}
	return llm.Prefill(cfg, tokens)
}

// modelFile returns the ONNX file of a folder that has one, and other paths as they are.
func modelFile(path string) (string, error) {
	if isONNX(path) || !folder.Is(path) {
		return path, nil
	}
	f, err := folder.Open(path)
	if err != nil {
		return "", err
	}
	return f.Model, nil
}

// isModel reports whether a path is a language model: a GGUF file or a Hugging Face folder.
func isModel(path string) (bool, error) {
	if huggingface.IsFolder(path) {
		return !folder.Is(path), nil
	}
	head, err := filefmt.Head(path, 4)
	return string(head) == "GGUF", err
}

// writeGraphFlags are the flags of vkc graph.
type writeGraphFlags struct {
	model                 modelFlags
	output, onnx, weights string
	fold                  int64
}

// graphCommand declares the command vkc graph and its flags.
func (a *app) graphCommand() *cobra.Command {
	var f writeGraphFlags
	cmd := &cobra.Command{
		Use:   "graph MODEL.gguf|FOLDER|MODEL.onnx|GRAPH|BUNDLE.vkb",
		Short: "Write the graph of a model or bundle as graph.json or as an ONNX model",
		Long: `Write the graph of a model, of a bundle or of text IR as graph.json, to read or to edit it.

The graph of a GGUF model, or of a Hugging Face folder, takes the tokens of a text and returns the logits of the next
token. With --step it takes one token at a time and keeps keys and values in states; symbol S is then the length of the
text. The graph of a model made for embeddings returns the vector of a text. vkc run, compile, dump and tune read models
directly, so they do not need vkc graph.

The graph of an ONNX model is converted to vkc's ops. Unknown extents become symbols, and --dim sets them. If the model
has ops that vkc does not support, the error lists them all.

With --onnx, vkc graph writes an ONNX model with its weights. Symbols become free dimensions. A state becomes the input
past.NAME and, if a run changes it, the output present.NAME. Weights of more than 256 MiB go to the file OUT.onnx_data.
With --past the result is a language model in the form that other exporters use. If the graph has ops that ONNX lacks,
the error lists them all.`,
		Example: `  vkc graph MODEL.gguf -o GRAPH.json
  vkc graph MODEL.gguf --step --ctx 4096 --kv f16 -o STEP.json
  vkc graph MODEL.onnx --dim batch=1 --bound length=2048
  vkc graph MODEL.gguf --past --ctx 2048 --onnx MODEL.onnx
  vkc graph BUNDLE.vkb`,
		Args: exactArgs("MODEL.gguf, MODEL.onnx, GRAPH or BUNDLE.vkb"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.writeGraph(cmd.Context(), args[0], &f) },
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the `FILE` to write (default standard output)")
	cmd.Flags().StringVar(&f.onnx, "onnx", "", "write the graph and its weights to this ONNX `FILE`")
	cmd.Flags().StringVar(&f.weights, "weights", "", "with --onnx: take the weights from this GGUF or safetensors "+
		"`FILE`, instead of the model's")
	cmd.Flags().Int64Var(&f.fold, "fold", 0,
		"compute values that depend only on constants and have at most `N` elements; 0 means none")
	f.model.add(cmd)
	return cmd
}

// writeGraph runs vkc graph: it writes the graph of a file as graph.json or, with --onnx, as an ONNX model. With --onnx
// and --output it writes both.
func (a *app) writeGraph(ctx context.Context, path string, f *writeGraphFlags) (err error) {
	if err := writable("output", f.output); err != nil {
		return err
	}
	if f.fold < 0 {
		return usagef("--fold %d: want a number of elements, at least 0", f.fold)
	}
	if f.weights != "" && f.onnx == "" {
		return usagef("--weights goes with --onnx: graph.json has no weights")
	}
	if err := writable("onnx", f.onnx); err != nil {
		return err
	}
	g, w, closer, err := f.model.graphOf(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer()) }()
	if f.fold > 0 {
		if g, err = interp.FoldConstants(ctx, g, f.fold); err != nil {
			return err
		}
	}
	if f.onnx != "" {
		if err := writeONNX(f.onnx, g, w, f.weights); err != nil || f.output == "" {
			return err
		}
	}
	var text bytes.Buffer
	if err := g.WriteJSON(&text); err != nil {
		return err
	}
	if f.output == "" {
		_, err = a.stdout.Write(text.Bytes())
		return err
	}
	return atomicfile.WriteFile(f.output, text.Bytes(), 0o666)
}

// graphOf reads the graph of a file, which may be a bundle, and returns it with its weights: nil if it has none. The
// caller closes the file by done, which is never nil.
func (f *modelFlags) graphOf(path string) (g *ir.Graph, w ir.WeightSource, done func() error, err error) {
	none := func() error { return nil }
	isBundle, err := filefmt.IsBundle(path)
	if err != nil {
		return nil, nil, none, err
	}
	if !isBundle {
		g, own, err := f.open(path)
		if own == nil {
			return g, nil, none, err
		}
		return g, own, own.Close, err
	}
	if err := f.onlyFor("a bundle"); err != nil {
		return nil, nil, none, err
	}
	p, err := vkc.OpenBundle(path)
	if err != nil {
		return nil, nil, none, err
	}
	return p.Contents.Graph, p.Contents.Weights, p.Close, nil
}

// writeONNX writes a graph as an ONNX model, with weights from a file if one is named.
func writeONNX(path string, g *ir.Graph, w ir.WeightSource, file string) (err error) {
	if file != "" {
		given, err := vkc.OpenWeights(file)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, given.Close()) }()
		w = given
	}
	return export.WriteFile(path, g, w, export.Options{})
}
