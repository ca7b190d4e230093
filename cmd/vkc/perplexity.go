package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/inputfile"
)

const chunkHelp = "`N` tokens per chunk; 0 means 512, or fewer if the model was trained with fewer"

type perplexityFlags struct {
	model  loadFlags
	chunks int
	json   bool
}

// perplexityCommand declares the command vkc perplexity and its flags.
func (a *app) perplexityCommand() *cobra.Command {
	var f perplexityFlags
	cmd := &cobra.Command{
		Use:   "perplexity -m MODEL.gguf FILE",
		Short: "Measure how well a language model predicts a text",
		Long: `Measure how well a language model predicts a text: the perplexity and its standard error. vkc perplexity
cuts the text into chunks of --ctx tokens and reads each chunk from its beginning. Only the tokens of the second half of
a chunk count. A rest shorter than a chunk is left out. llama.cpp measures in the same way, so figures for the same text
and --ctx can be compared.`,
		Example: `  vkc perplexity -m MODEL.gguf TEXT.txt
  vkc perplexity -m MODEL.gguf TEXT.txt --ctx 2048 --chunks 16 --kv q8_0 --json`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.perplexity(cmd.Context(), &f, args[0]) },
	}
	flags := cmd.Flags()
	f.model.register(a, flags)
	flags.Lookup("ctx").Usage = chunkHelp // here --ctx is the length of a chunk
	flags.IntVar(&f.chunks, "chunks", 0, "read at most `N` chunks; 0 means all")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// perplexity runs vkc perplexity: it measures how well the model predicts the text in path.
func (a *app) perplexity(ctx context.Context, f *perplexityFlags, path string) error {
	if err := f.model.check("perplexity"); err != nil {
		return err
	}
	if f.chunks < 0 {
		return usagef("--chunks %d: want 1 or more, or 0 for all", f.chunks)
	}
	text, err := inputfile.Read(path)
	if err != nil {
		return err
	}
	bar := a.progress("reading")
	defer bar.end()
	p, err := generate.MeasurePerplexity(ctx, f.model.path, string(text), f.model.options, f.chunks,
		func(p generate.Perplexity, total int) {
			bar.describe(fmt.Sprintf("perplexity %.4f", p.Value))
			bar.report(int64(p.Chunks), int64(total))
		})
	if err != nil {
		return err
	}
	bar.end()
	if f.json {
		return a.printJSON(p)
	}
	_, err = fmt.Fprintf(a.stdout, "perplexity %.4f +- %.4f (%d tokens of %s)\n", p.Value, p.StdErr, p.Tokens,
		plural(p.Chunks, "chunk"))
	return err
}
