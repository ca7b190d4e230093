package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/inputfile"
)

type imatrixFlags struct {
	model  loadFlags
	chunks int
	output string
}

// imatrixCommand declares the command vkc imatrix and its flags.
func (a *app) imatrixCommand() *cobra.Command {
	var f imatrixFlags
	cmd := &cobra.Command{
		Use:   "imatrix -m MODEL.gguf FILE -o OUT.gguf",
		Short: "Measure the importance of a language model's weights, for vkc quantize",
		Long: `Measure the importance of a language model's weights: the size of the activations that each column of its
matrices multiplies, over a text like the model's future inputs. vkc imatrix writes an importance matrix for vkc
quantize --imatrix, in the format of llama.cpp's programs. Measure with a model in f32, f16 or bf16, or in a precise
format such as q8_0.`,
		Example: `  vkc imatrix -m MODEL-f16.gguf TEXT.txt -o MODEL-imatrix.gguf
  vkc imatrix -m MODEL-q8_0.gguf TEXT.txt -o MODEL-imatrix.gguf --chunks 100 --ctx 2048`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.imatrix(cmd.Context(), &f, args[0]) },
	}
	flags := cmd.Flags()
	f.model.registerModel(a, flags)
	flags.Lookup("ctx").Usage = chunkHelp
	flags.IntVar(&f.chunks, "chunks", 0, "read at most `N` chunks; 0 means all")
	flags.StringVarP(&f.output, "output", "o", "", "the GGUF `FILE` to write")
	return cmd
}

// imatrix runs vkc imatrix: it runs the model over the text in path and writes the importance matrix.
func (a *app) imatrix(ctx context.Context, f *imatrixFlags, path string) error {
	switch {
	case f.model.path == "":
		return usagef("-m MODEL.gguf is missing; see vkc imatrix --help")
	case f.output == "":
		return usagef("-o OUT.gguf is missing; see vkc imatrix --help")
	case f.chunks < 0:
		return usagef("--chunks %d: want 1 or more, or 0 for all", f.chunks)
	}
	if err := writable("output", f.output); err != nil {
		return err
	}
	text, err := inputfile.Read(path)
	if err != nil {
		return err
	}
	bar := a.progress("reading")
	defer bar.end()
	m, err := generate.MeasureImportance(ctx, f.model.path, string(text), f.model.options, f.chunks,
		func(done, total int) { bar.report(int64(done), int64(total)) })
	if err != nil {
		return err
	}
	bar.end()
	m.Dataset = filepath.Base(path)
	if err := m.WriteFile(f.output); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "wrote %s: %s of %d tokens\n", f.output, plural(m.Chunks, "chunk"), m.ChunkSize)
	return err
}
