// Llama-q4 quantizes a language model to q4_0, and continues a text with the result. In q4_0 a weight takes half a
// byte, and 32 weights share a scale.
//
//	go run ./examples/llama-q4 -prompt 'func main() {'
//	go run ./examples/llama-q4 -gguf MODEL-f16.gguf -n 64
//
// Without -gguf it uses the model of examples/gollama, which completes Go source.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/quantize"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/ir"
)

func main() {
	device := flag.String("device", "auto", "auto, vulkan (the best device), cpu, or part of a name")
	model := flag.String("gguf", filepath.Join("examples", "gollama", "gollama-q8_0.gguf"), "the model `file`")
	prompt := flag.String("prompt", "func main() {", "the text to go on with")
	n := flag.Int("n", 32, "tokens")
	flag.Parse()
	if err := run(context.Background(), *device, *model, *prompt, *n, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run quantizes the model, and prints n tokens that follow the prompt.
func run(ctx context.Context, device, model, prompt string, n int, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "llama-q4-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "model-q4_0.gguf")
	if err := toQ4(ctx, model, path, out); err != nil {
		return err
	}
	m, err := generate.Open(ctx, path, generate.Options{Device: device, Context: 256})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	fmt.Fprintf(out, "%s\n%s", m.Why(), prompt)
	tokens := m.Tokenizer().Encode(prompt, tokenizer.Options{Whole: true})
	for token, err := range m.Generate(ctx, tokens, generate.Sampling{}) { // the likeliest ones
		if err != nil {
			return err
		}
		fmt.Fprint(out, token.Text)
		if n--; n <= 0 {
			break
		}
	}
	fmt.Fprintln(out)
	return nil
}

// toQ4 writes a model with its matrices in q4_0. If they are already quantized, the errors add up.
func toQ4(ctx context.Context, from, to string, out io.Writer) (err error) {
	f, err := gguf.Open(from)
	if err != nil {
		return err
	}
	src, err := quantize.NewSource(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	plan, err := quantize.New(src, quantize.Options{Type: ir.Q4_0, Requantize: true})
	if err != nil {
		return err
	}
	if _, err := plan.WriteFile(ctx, to); err != nil {
		return err
	}
	before, errBefore := os.Stat(from)
	after, errAfter := os.Stat(to)
	if err := errors.Join(errBefore, errAfter); err != nil {
		return err
	}
	fmt.Fprintf(out, "%.1f MB became %.1f MB\n", float64(before.Size())/1e6, float64(after.Size())/1e6)
	return nil
}
