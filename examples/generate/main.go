// Generate continues a text with a language model from a GGUF file:
//
//	go run ./examples/generate examples/gollama/gollama-q8_0.gguf 'func main() {'
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("want MODEL.gguf and a text to go on with")
	}
	if err := continueText(context.Background(), "", os.Args[1], os.Args[2], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// continueText prints at most 32 tokens that follow a text.
func continueText(ctx context.Context, device, path, text string, out io.Writer) error {
	m, err := generate.Open(ctx, path, generate.Options{Device: device}) // "" for the best
	if err != nil {
		return err
	}
	defer m.Close()
	prompt := m.Tokenizer().Encode(text, tokenizer.Options{Whole: true})
	for token, err := range m.Generate(ctx, prompt, generate.Sampling{MaxTokens: 32}) {
		if err != nil {
			return err
		}
		fmt.Fprint(out, token.Text)
	}
	return nil
}
