// Graph writes the graph of a GGUF model of the Llama architecture as
// graph.json: one forward pass over a prompt, tokens i32[T] to logits of the
// next token.
//
//	go run ./examples/gollama/graph -gguf examples/gollama/gollama-q8_0.gguf -o examples/gollama/graph.json
//
// The weights stay in the GGUF file; the graph refers to them by name.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
)

func main() {
	log.SetFlags(0)
	model := flag.String("gguf", "examples/gollama/gollama-q8_0.gguf", "the model `file`")
	out := flag.String("o", "examples/gollama/graph.json", "the `file` to write")
	tokens := flag.Int("tokens", 512, "the longest prompt")
	flag.Parse()
	if err := run(*model, *out, *tokens); err != nil {
		log.Fatal("graph: ", err)
	}
}

func run(model, out string, tokens int) error {
	f, err := gguf.Open(model)
	if err != nil {
		return err
	}
	defer f.Close()
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		return err
	}
	g, err := llm.Prefill(cfg, tokens)
	if err != nil {
		return err
	}
	text, err := g.MarshalJSONText()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d nodes, hash %s\n", out, len(g.Nodes()), g.HashString())
	return os.WriteFile(out, text, 0o644)
}
