package clienttest

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// TestAnthropic has Anthropic's own client talk with a server.
func TestAnthropic(t *testing.T) {
	m, err := generate.Open(t.Context(), talker(t), generate.Options{Device: "cpu", Context: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := httptest.NewServer(serve.New(m, serve.Options{Name: "talker", Key: "secret", StrictModel: true}))
	defer s.Close()
	client := anthropic.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey("secret"), option.WithMaxRetries(0))
	ask := anthropic.MessageNewParams{Model: "talker", MaxTokens: 6, Temperature: anthropic.Float(0),
		System:   []anthropic.TextBlockParam{{Text: "x"}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("func main"))}}
	whole, err := client.Messages.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Content[0].Text == "" || whole.Usage.OutputTokens != 6 || whole.StopReason != anthropic.StopReasonMaxTokens {
		t.Errorf("%+v", whole)
	}
	stream, sum := client.Messages.NewStreaming(t.Context(), ask), anthropic.Message{}
	for stream.Next() {
		if err := sum.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil || sum.Content[0].Text != whole.Content[0].Text ||
		sum.StopReason != whole.StopReason || sum.Usage.OutputTokens != 6 {
		t.Errorf("%v: %+v, want %+v", err, sum, whole)
	}
	count, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: "talker",
		Messages: ask.Messages})
	if err != nil || count.InputTokens < 2 {
		t.Errorf("%v: %+v", err, count)
	}
	ask.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
		Properties:  map[string]any{"n": map[string]any{"type": "integer", "minimum": 3, "maximum": 3}},
		Required:    []string{"n"},
		ExtraFields: map[string]any{"additionalProperties": false}}, "count")}
	ask.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	ask.MaxTokens = 400
	called, err := client.Messages.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if call := called.Content[0]; call.Type != "tool_use" || call.Name != "count" || string(call.Input) != `{"n":3}` ||
		called.StopReason != anthropic.StopReasonToolUse {
		t.Errorf("%s", called.RawJSON())
	}
	ask.Model = "claude"
	_, err = client.Messages.New(t.Context(), ask)
	var failed *anthropic.Error
	if !errors.As(err, &failed) || failed.StatusCode != 404 || failed.Type() != "not_found_error" {
		t.Errorf("another model: %v", err)
	}
}
