// Package clienttest has OpenAI's own client talk with a server of package serve.
package clienttest

import (
	"encoding/json"
	"errors"
	"math"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

const (
	gollama  = "../../examples/gollama/gollama-q8_0.gguf"
	template = "{% if tools %}{{ tools[0].function.name }}{% endif %}{% for m in messages %}{{ m.content }}\n{% endfor %}"
)

// talker is the model of the example with a template of conversations.
func talker(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "talker.gguf")
	if err := gguf.Edit(gollama, path, gguf.KV{Key: "tokenizer.chat_template", Value: template}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClient(t *testing.T) {
	m, err := generate.Open(t.Context(), talker(t), generate.Options{Device: "cpu", Context: 96})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := httptest.NewServer(serve.New(m, serve.Options{Name: "talker", Key: "secret", StrictModel: true}))
	defer s.Close()
	client := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("secret"), option.WithMaxRetries(0))
	ask := openai.ChatCompletionNewParams{
		Model:       "talker",
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("x"), openai.UserMessage("func main")},
		Temperature: param.NewOpt(0.0), MaxCompletionTokens: param.NewOpt[int64](6),
	}
	whole, err := client.Chat.Completions.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("chat", func(t *testing.T) {
		c := whole.Choices[0]
		if c.Message.Content == "" || whole.Usage.CompletionTokens != 6 || c.FinishReason != "length" ||
			whole.Usage.TotalTokens != whole.Usage.PromptTokens+6 || whole.Model != "talker" {
			t.Errorf("%+v", whole)
		}
	})
	t.Run("stream", func(t *testing.T) {
		ask := ask
		ask.StreamOptions.IncludeUsage = param.NewOpt(true)
		stream := client.Chat.Completions.NewStreaming(t.Context(), ask)
		acc := openai.ChatCompletionAccumulator{}
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				t.Errorf("a piece that does not fit: %+v", stream.Current())
			}
		}
		if err := stream.Err(); err != nil || acc.Choices[0].Message.Content != whole.Choices[0].Message.Content ||
			acc.Usage.CompletionTokens != 6 || acc.Choices[0].FinishReason != "length" {
			t.Errorf("%v: %+v, want %+v", err, acc.ChatCompletion, whole)
		}
	})
	t.Run("logprobs", func(t *testing.T) {
		ask := ask
		ask.Logprobs, ask.TopLogprobs = param.NewOpt(true), param.NewOpt[int64](3)
		got, err := client.Chat.Completions.New(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, token := range got.Choices[0].Logprobs.Content {
			for _, b := range token.Bytes {
				text += string([]byte{byte(b)})
			}
			if len(token.TopLogprobs) != 3 || token.Logprob > 0 || token.TopLogprobs[0].Token != token.Token {
				t.Errorf("%+v", token)
			}
		}
		if text != got.Choices[0].Message.Content {
			t.Errorf("tokens %q make %q", text, got.Choices[0].Message.Content)
		}
	})
	object := map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"enum": []int{1, 2}}},
		"required": []string{"n"}, "additionalProperties": false}
	t.Run("schema", func(t *testing.T) {
		ask := ask
		ask.MaxCompletionTokens = param.Opt[int64]{}
		form := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "x", Strict: param.NewOpt(true), Schema: object}
		ask.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: form}
		got, err := client.Chat.Completions.New(t.Context(), ask)
		var v struct{ N int }
		if err == nil {
			err = json.Unmarshal([]byte(got.Choices[0].Message.Content), &v)
		}
		if err != nil || v.N != 1 && v.N != 2 || got.Choices[0].FinishReason != "stop" {
			t.Errorf("%v: %+v", err, got)
		}
	})
	t.Run("tools", func(t *testing.T) {
		ask := ask
		ask.MaxCompletionTokens = param.Opt[int64]{}
		ask.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "look_up", Description: param.NewOpt("looks up"), Parameters: object})}
		ask.ToolChoice.OfAuto = param.NewOpt("required")
		got, err := client.Chat.Completions.New(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		calls := got.Choices[0].Message.ToolCalls
		if len(calls) != 1 || calls[0].Function.Name != "look_up" ||
			!strings.HasPrefix(calls[0].Function.Arguments, `{"n":`) ||
			got.Choices[0].FinishReason != "tool_calls" || calls[0].ID == "" {
			t.Fatalf("%+v", got.Choices[0])
		}
		stream, acc := client.Chat.Completions.NewStreaming(t.Context(), ask), openai.ChatCompletionAccumulator{}
		for stream.Next() {
			acc.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil || len(acc.Choices[0].Message.ToolCalls) != 1 ||
			acc.Choices[0].Message.ToolCalls[0].Function.Arguments != calls[0].Function.Arguments {
			t.Errorf("streamed: %v: %+v", err, acc.Choices[0])
		}
		ask.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{}
		ask.MaxCompletionTokens = param.NewOpt[int64](4)
		ask.Messages = append(ask.Messages, got.Choices[0].Message.ToParam(), openai.ToolMessage("3", calls[0].ID))
		if _, err := client.Chat.Completions.New(t.Context(), ask); err != nil {
			t.Errorf("the result of a call: %v", err)
		}
	})
	t.Run("completions", func(t *testing.T) {
		got, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
			Model: "talker", MaxTokens: param.NewOpt[int64](2),
			Prompt: openai.CompletionNewParamsPromptUnion{OfString: param.NewOpt("func main() {\n")}})
		if err != nil || got.Choices[0].Text == "" {
			t.Errorf("%v: %+v", err, got)
		}
	})
	t.Run("choices", func(t *testing.T) {
		ask := ask
		ask.N, ask.LogitBias = param.NewOpt[int64](2), map[string]int64{"339": 100}
		got, err := client.Chat.Completions.New(t.Context(), ask)
		if err != nil || len(got.Choices) != 2 || got.Choices[1].Index != 1 || got.Usage.CompletionTokens != 12 ||
			got.Choices[1].Message.Content != strings.Repeat("func", 6) {
			t.Fatalf("%v: %+v", err, got)
		}
		stream, acc := client.Chat.Completions.NewStreaming(t.Context(), ask), openai.ChatCompletionAccumulator{}
		for stream.Next() {
			acc.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil || len(acc.Choices) != 2 ||
			acc.Choices[0].Message.Content != got.Choices[0].Message.Content ||
			acc.Choices[1].Message.Content != got.Choices[1].Message.Content {
			t.Errorf("streamed: %v: %+v", err, acc.Choices)
		}
	})
	t.Run("legacy", func(t *testing.T) {
		got, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
			Model: "talker", MaxTokens: param.NewOpt[int64](3), Temperature: param.NewOpt(0.0),
			Logprobs: param.NewOpt[int64](2),
			Prompt:   openai.CompletionNewParamsPromptUnion{OfString: param.NewOpt("func main() {\n")}})
		if err != nil {
			t.Fatal(err)
		}
		odds := got.Choices[0].Logprobs
		if strings.Join(odds.Tokens, "") != got.Choices[0].Text || len(odds.TokenLogprobs) != 3 || odds.TextOffset[0] != 0 ||
			odds.TopLogprobs[0][odds.Tokens[0]] != odds.TokenLogprobs[0] {
			t.Errorf("%q: %+v", got.Choices[0].Text, odds)
		}
		echo, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
			Model: "talker", MaxTokens: param.NewOpt[int64](3), Temperature: param.NewOpt(0.0), Echo: param.NewOpt(true),
			Prompt: openai.CompletionNewParamsPromptUnion{OfString: param.NewOpt("func main() {\n")}})
		if err != nil || echo.Choices[0].Text != "func main() {\n"+got.Choices[0].Text {
			t.Errorf("%v: %+v", err, echo)
		}
		scored, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
			Model: "talker", MaxTokens: param.NewOpt[int64](0), Echo: param.NewOpt(true),
			Logprobs: param.NewOpt[int64](2),
			Prompt:   openai.CompletionNewParamsPromptUnion{OfString: param.NewOpt(echo.Choices[0].Text)}})
		if err != nil {
			t.Fatal(err)
		}
		all := scored.Choices[0].Logprobs
		last := len(all.TokenLogprobs) - len(odds.TokenLogprobs)
		if scored.Choices[0].Text != echo.Choices[0].Text || last < 1 {
			t.Fatalf("%+v", scored.Choices[0])
		}
		for i, p := range odds.TokenLogprobs { // generated tokens have the same probability as when they were chosen
			if math.Abs(all.TokenLogprobs[last+i]-p) > 0.01 {
				t.Errorf("token %d: %v, and %v as an answer", i, all.TokenLogprobs[last+i], p)
			}
		}
	})
	t.Run("responses", func(t *testing.T) {
		ask := responses.ResponseNewParams{Model: "talker", Temperature: param.NewOpt(0.0),
			MaxOutputTokens: param.NewOpt[int64](6), Instructions: param.NewOpt("x"),
			Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("func main")}}
		got, err := client.Responses.New(t.Context(), ask)
		if err != nil || got.OutputText() != whole.Choices[0].Message.Content || got.Usage.OutputTokens != 6 {
			t.Fatalf("%v: %+v", err, got)
		}
		stream, text, last := client.Responses.NewStreaming(t.Context(), ask), "", ""
		for stream.Next() {
			e := stream.Current()
			text, last = text+e.Delta, e.Type
		}
		if err := stream.Err(); err != nil || text != got.OutputText() || last != "response.incomplete" {
			t.Errorf("%v: %q ends by %s", err, text, last)
		}
	})
	t.Run("models", func(t *testing.T) {
		list, err := client.Models.List(t.Context())
		if err != nil || len(list.Data) != 1 || list.Data[0].ID != "talker" {
			t.Errorf("%v: %+v", err, list)
		}
		one, err := client.Models.Get(t.Context(), "talker")
		if err != nil || one.ID != "talker" {
			t.Errorf("%v: %+v", err, one)
		}
	})
	t.Run("errors", func(t *testing.T) {
		fails := func(err error, status int, param string) {
			t.Helper()
			var e *openai.Error
			if !errors.As(err, &e) || e.StatusCode != status || e.Param != param || e.Message == "" {
				t.Errorf("error %v, want status %d, field %q", err, status, param)
			}
		}
		ask := ask
		ask.Model = "gpt"
		_, err := client.Chat.Completions.New(t.Context(), ask)
		fails(err, 404, "model")
		ask.Model, ask.N = "talker", param.NewOpt[int64](17)
		_, err = client.Chat.Completions.New(t.Context(), ask)
		fails(err, 400, "n")
		_, err = client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "talker",
			Input: openai.EmbeddingNewParamsInputUnion{OfString: param.NewOpt("x")}})
		fails(err, 400, "model")
		stranger := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("wrong"),
			option.WithMaxRetries(0))
		_, err = stranger.Models.List(t.Context())
		fails(err, 401, "")
	})
}
