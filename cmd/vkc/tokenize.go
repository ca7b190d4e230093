package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/onnx/folder"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

type tokenizeFlags struct {
	model        string
	special, ids bool
}

// tokenizeCommand declares the command vkc tokenize and its flags.
func (a *app) tokenizeCommand() *cobra.Command {
	var f tokenizeFlags
	cmd := &cobra.Command{
		Use:   "tokenize -m MODEL.gguf [TEXT]",
		Short: "Print the tokens of a text, by a model's vocabulary",
		Long: `Print the tokens of a text, by a model's vocabulary: one line per token, with its number and its text.
Without TEXT, or with -, the text is standard input. The tokens include those that the vocabulary adds around a text.

Names of special tokens in the text, such as <|im_end|>, are plain text unless --special is given.`,
		Example: `  vkc tokenize -m MODEL.gguf Hello
  vkc tokenize -m MODEL.gguf --ids --special <|im_start|>user`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected argument %q: put quotes around a text of several words", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.model == "" {
				return usagef("-m MODEL.gguf is missing; see vkc tokenize --help")
			}
			return a.tokenize(cmd.Context(), &f, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.model, "model", "m", "", "the GGUF `FILE` of the model, or its Hugging Face folder")
	flags.BoolVar(&f.special, "special", false, "read names of special tokens in the text as those tokens")
	flags.BoolVar(&f.ids, "ids", false, "print the numbers alone, in one line")
	return cmd
}

// openTokenizer opens the file or folder that has a model's tokenizer.
func openTokenizer(path string) (*gguf.File, error) {
	if !folder.Is(path) {
		return vkc.OpenModel(path)
	}
	f, err := folder.Open(path)
	if err != nil {
		return nil, err
	}
	return f.Tokenizer()
}

// tokenize runs vkc tokenize: it prints the tokens of a text.
func (a *app) tokenize(ctx context.Context, f *tokenizeFlags, args []string) (err error) {
	file, err := openTokenizer(f.model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	tok, err := tokenizer.New(file)
	if err != nil {
		return fmt.Errorf("%s: %w", f.model, err)
	}
	text, err := textOf(ctx, args)
	if err != nil {
		return err
	}
	ids := tok.Encode(text, tokenizer.Options{Special: f.special, Whole: true})
	if f.ids {
		fmt.Fprintln(a.stdout, strings.Trim(fmt.Sprint(ids), "[]"))
		return nil
	}
	for _, id := range ids {
		fmt.Fprintf(a.stdout, "%d\t%q\n", id, tok.Piece(id))
	}
	return nil
}

// textOf returns the only argument of a command, or standard input if there is none or it is "-".
func textOf(ctx context.Context, args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		return args[0], nil
	}
	text, err := io.ReadAll(standardInput(ctx))
	return string(text), err
}
