package grammar_test

import (
	"fmt"
	"log"

	"github.com/vkc-go/vkc/grammar"
)

// A grammar says which tokens may come next. This model has five tokens, and the last one ends a text.
func Example() {
	g, err := grammar.ParseSchema([]byte(`{"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}`))
	if err != nil {
		log.Fatal(err)
	}
	pieces := []string{`["`, `a`, `", "`, `"]`, ``}
	c := grammar.New(g, grammar.NewVocabulary(pieces, []int32{4}))
	text, err := c.Begin()
	if err != nil {
		log.Fatal(err)
	}
	for _, token := range []int32{0, 1, 3} {
		mask, err := text.Mask()
		if err != nil {
			log.Fatal(err)
		}
		var allowed []string
		for i, piece := range pieces {
			if mask.Allows(int32(i)) {
				allowed = append(allowed, piece)
			}
		}
		fmt.Printf("%q, of %q\n", pieces[token], allowed)
		if err := text.Take(token); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("complete:", text.Ends())
	// Output:
	// "[\"", of ["[\""]
	// "a", of ["a"]
	// "\"]", of ["\", \"" "\"]"]
	// complete: true
}

// Match tests a whole text.
func ExampleParseGBNF() {
	g, err := grammar.ParseGBNF(`root ::= "yes" | "no" " thanks"?`)
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"no", "no th", "maybe"} {
		begins, whole := g.Match(text)
		fmt.Println(text, begins, whole)
	}
	// Output:
	// no true true
	// no th true false
	// maybe false false
}
