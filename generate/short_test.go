package generate

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// TestShortTexts: a text that outgrows the step for short ones goes on with another, and is the reference's all the
// same. Where both have the same kernels there is one.
func TestShortTexts(t *testing.T) {
	const context = 512
	want := openModel(t, gollama, Options{Device: "cpu", Context: context})
	if want.smallSteps != nil {
		t.Errorf("the processor has %d steps for short texts", len(want.smallSteps))
	}
	needDevice(t)
	for _, o := range []Options{{}, {Parallel: 2}, {Parallel: 2, Positions: 2 * context}} {
		o.Device, o.Context = "vulkan", context
		testShortTexts(t, openModel(t, gollama, o), want)
	}
	m := openModel(t, gollama, Options{Device: "vulkan", Context: context, Parallel: 2, Deterministic: true})
	if m.smallSteps != nil {
		t.Errorf("answers depend on the length of others: %d steps", len(m.smallSteps))
	}
}

func testShortTexts(t *testing.T, m, want *Model) {
	t.Helper()
	context, last := m.context, sizedProgram{}
	for _, c := range m.smallSteps {
		longer := c.rows == last.rows && c.length > last.length
		if !longer && c.rows <= last.rows || c.length > context || m.stepOf(c.rows, c.length) != c.exe ||
			c.length < context && m.stepOf(c.rows, c.length+1) == c.exe {
			t.Errorf("a step of %d texts of up to %d positions after one of %d, %d", c.rows, c.length, last.rows,
				last.length)
		}
		last = c
	}
	if last.length == 0 || last.length == context && m.slotCount == 1 {
		t.Skipf("%s: short texts have the kernels of long ones", m.Why())
	}
	text := strings.Repeat("func add(a, b int) int {\n\treturn a + b\n}\n\n", 20)
	prompt := m.tok.Encode(text, tokenizer.Options{Whole: true})[:m.smallSteps[0].length-20]
	for _, s := range []Sampling{{MaxTokens: 50}, {MaxTokens: 50, Logprobs: true}} {
		got, want := answerOf(t, m, prompt, s), answerOf(t, want, prompt, s)
		if !slices.EqualFunc(got, want, func(a, b Token) bool { return a.ID == b.ID }) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
