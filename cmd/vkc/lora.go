package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/lora"
)

const loraHelp = "use the adapter in this GGUF `FILE[:SCALE]`, or in a PEFT folder; may be repeated"

// loraFlag is the list of adapters of flag --lora.
type loraFlag []string

// add declares the flag.
func (f *loraFlag) add(flags *pflag.FlagSet) {
	flags.StringArrayVar((*[]string)(f), "lora", nil, loraHelp)
}

// files parses the values of the flag: FILE or FILE:SCALE. If there is a file with the whole value as its name, the
// colon belongs to the name.
func (f loraFlag) files() (list []lora.File, err error) {
	for _, text := range f {
		file := lora.File{Path: text, Scale: 1}
		if i := strings.LastIndexByte(text, ':'); i >= 0 {
			scale, err := strconv.ParseFloat(text[i+1:], 64)
			if _, missing := os.Stat(text); missing != nil && err == nil {
				file = lora.File{Path: text[:i], Scale: scale}
			}
		}
		if file.Path == "" {
			return nil, usagef("--lora %q: want FILE, or FILE:SCALE", text)
		}
		list = append(list, file)
	}
	return list, nil
}

type mergeFlags struct {
	model, output string
	adapters      loraFlag
}

// mergeCommand declares the command vkc merge and its flags.
func (a *app) mergeCommand() *cobra.Command {
	var f mergeFlags
	cmd := &cobra.Command{
		Use:   "merge MODEL.gguf --lora ADAPTER -o OUT.gguf",
		Short: "Merge adapters into the weights of a model, and write one GGUF file",
		Long: `Merge low-rank adapters (LoRA) into the weights of a model, and write one GGUF file. An adapter is a GGUF
file, or a folder that PEFT has saved. Each weight keeps its type. Merging rounds quantized weights a second time, so
start from f16 or f32 if you have that, and quantize the result. vkc generate, chat, serve, perplexity and bench use
adapters without merging.`,
		Example: `  vkc merge MODEL-f16.gguf --lora ADAPTER.gguf -o OUT.gguf
  vkc merge MODEL-f16.gguf --lora A.gguf:0.5 --lora FOLDER:2 -o OUT.gguf`,
		Args: exactArgs("MODEL.gguf"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.model = args[0]
			return a.merge(cmd.Context(), &f)
		},
	}
	f.adapters.add(cmd.Flags())
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the GGUF `FILE` to write")
	return cmd
}

// merge runs vkc merge.
func (a *app) merge(ctx context.Context, f *mergeFlags) (err error) {
	files, err := f.adapters.files()
	switch {
	case err != nil:
		return err
	case f.output == "":
		return usagef("-o OUT.gguf is missing; see vkc merge --help")
	case len(files) == 0:
		return usagef("--lora FILE is missing: want at least one adapter")
	case sameFile(f.model, f.output):
		return usagef("%s is both an input and the output: name another output", f.model)
	}
	if err := writable("output", f.output); err != nil {
		return err
	}
	model, err := vkc.OpenModel(f.model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	cfg, err := llm.FromGGUF(model)
	if err != nil {
		return fmt.Errorf("%s: %w", f.model, err)
	}
	set, err := lora.OpenSet(files, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	var w gguf.Writer
	merged, err := lora.Merge(ctx, &w, model, set)
	if err != nil {
		return err
	}
	if err := w.WriteFile(f.output); err != nil {
		return err
	}
	if merged.Quantized > 0 {
		a.note("note: %d adapted matrices are in block formats, so merging rounds them a second time; start from a "+
			"model in f16 or f32 if you have one", merged.Quantized)
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %s, %d of them adapted\n", filepath.Base(f.output),
		plural(len(model.Tensors()), "tensor"), merged.Adapted)
	return err
}
