package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// A server is an http.Handler that answers by OpenAI's protocol.
func Example() {
	m, err := generate.Open(context.Background(), "../examples/gollama/gollama-q8_0.gguf",
		generate.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s := serve.New(m, serve.Options{Name: "gollama"})
	web := httptest.NewServer(s) // or http.ListenAndServe("127.0.0.1:8080", s)
	defer web.Close()
	r, err := http.Post(web.URL+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt": "for i := 0; i <", "max_tokens": 3, "temperature": 0}`))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct{ Choices []struct{ Text string } }
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", answer.Choices[0].Text)
	// Output: " 3; i"
}
