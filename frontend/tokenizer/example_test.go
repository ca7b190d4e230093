package tokenizer_test

import (
	"fmt"
	"log"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

func Example() {
	f, err := gguf.Open("../../examples/gollama/gollama-q8_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.New(f)
	if err != nil {
		log.Fatal(err)
	}
	ids := tok.Encode("func main() {", tokenizer.Options{Whole: true})
	fmt.Println(ids)
	fmt.Println(tok.Decode(ids))
	// Output:
	// [0 339 2007 308 268]
	// func main() {
}
