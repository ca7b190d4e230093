package chat_test

import (
	"fmt"
	"log"

	"github.com/vkc-go/vkc/frontend/chat"
)

func Example() {
	t, err := chat.Parse(`{% for m in messages %}
<|{{ m.role }}|>{{ m.content }}<|end|>
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{% endif %}`)
	if err != nil {
		log.Fatal(err)
	}
	pieces, err := t.Render(chat.Context{
		Messages:            []chat.Message{{Role: "user", Content: "Is <|end|> a token?"}},
		AddGenerationPrompt: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range pieces {
		fmt.Printf("%v %q\n", p.User, p.Text)
	}
	// Output:
	// false "<|user|>"
	// true "Is <|end|> a token?"
	// false "<|end|>\n<|assistant|>\n"
}
