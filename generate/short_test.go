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
	setMixed(t, false)
	text := strings.Repeat("func add(a, b int) int {\n\treturn a + b\n}\n\n", 20)
	tiny := tinyModel(t)
	for _, c := range []struct {
		model string
		o     Options
		s     Sampling
	}{
		{gollama, Options{Context: 512}, Sampling{MaxTokens: 50, Logprobs: true}},
		{gollama, Options{Context: 512, Parallel: 2, Positions: 2 * 512}, Sampling{MaxTokens: 50}},
		{tiny, Options{Context: 48, Parallel: 3}, Sampling{MaxTokens: 20, Logprobs: true}},
	} {
		want := openModel(t, c.model, Options{Device: "cpu", Context: c.o.Context})
		if want.smallSteps != nil {
			t.Errorf("the processor has %d steps for short texts", len(want.smallSteps))
		}
		needDevice(t)
		c.o.Device = "vulkan"
		testShortTexts(t, openModel(t, c.model, c.o), want, text, c.s)
	}
	m := openModel(t, tiny, Options{Device: "vulkan", Context: 48, Parallel: 3, Deterministic: true})
	if m.smallSteps != nil {
		t.Errorf("answers depend on the length of others: %d steps", len(m.smallSteps))
	}
}

func testShortTexts(t *testing.T, m, want *Model, text string, s Sampling) {
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
	prompt := m.tok.Encode(text, tokenizer.Options{Whole: true})[:m.smallSteps[0].length-20]
	got, known := answerOf(t, m, prompt, s), answerOf(t, want, prompt, s)
	if !slices.EqualFunc(got, known, func(a, b Token) bool { return a.ID == b.ID }) {
		t.Errorf("%v, want %v", got, known)
	}
}
