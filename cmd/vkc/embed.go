package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
)

type embedFlags struct {
	model     loadFlags
	normalize bool
}

// embedCommand declares the command vkc embed and its flags.
func (a *app) embedCommand() *cobra.Command {
	var f embedFlags
	cmd := &cobra.Command{
		Use:   "embed -m MODEL.gguf TEXT...",
		Short: "Print the embeddings of texts",
		Long: `Print the embeddings of texts, by a model that was made for embeddings. Each text gives one line of JSON
with the text, its number of tokens and its vector. Texts with similar meanings have vectors with similar directions. A
TEXT of - is standard input. Some models expect the purpose at the beginning of the text, such as "search_query: ". The
model may also be a folder of Transformers.js with an ONNX graph.`,
		Example: `  vkc embed -m MODEL.gguf 'search_query: what is a kernel?'
  vkc embed -m MODEL.gguf --normalize=false - < TEXT.txt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("TEXT is missing; see vkc embed --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.embed(cmd.Context(), &f, args) },
	}
	flags := cmd.Flags()
	f.model.registerModel(a, flags)
	flags.Lookup("ctx").Usage = "read at most `N` tokens of a text; 0 means 4096, or fewer if the model was trained " +
		"with fewer"
	flags.BoolVar(&f.normalize, "normalize", true, "scale vectors to length 1")
	return cmd
}

// embed runs vkc embed: it prints a line of JSON with the embedding of each text.
func (a *app) embed(ctx context.Context, f *embedFlags, texts []string) (err error) {
	if err := f.model.check("embed"); err != nil {
		return err
	}
	e, err := generate.OpenEmbedder(ctx, f.model.path, f.model.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	out := json.NewEncoder(a.stdout)
	out.SetEscapeHTML(false)
	for i, text := range texts {
		if text, err = textOf(ctx, []string{text}); err != nil {
			return err
		}
		tokens := e.Tokenizer().Encode(text, tokenizer.Options{Whole: true})
		v, err := e.Embed(ctx, tokens)
		if err != nil {
			return fmt.Errorf("text %d: %w", i, err)
		}
		if f.normalize {
			v = generate.Unit(v)
		}
		line := struct {
			Text      string    `json:"text"`
			Tokens    int       `json:"tokens"`
			Embedding []float32 `json:"embedding"`
		}{text, len(tokens), v}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
