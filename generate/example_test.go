package generate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
)

// The model of examples/gollama continues a Go program. Sampling without a temperature takes the most likely token.
func Example() {
	ctx := context.Background()
	m, err := generate.Open(ctx, "../examples/gollama/gollama-q8_0.gguf", generate.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	prompt := m.Tokenizer().Encode("for i := 0; i <", tokenizer.Options{Whole: true})
	for token, err := range m.Generate(ctx, prompt, generate.Sampling{MaxTokens: 8}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q ", token.Text)
	}
	// Output: " 3" ";" " i" "++" " {" "\n\t" "\t" "j"
}
