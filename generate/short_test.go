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
	if want.classes != nil {
		t.Errorf("the processor has %d steps for short texts", len(want.classes))
	}
	needDevice(t)
	m := openModel(t, gollama, Options{Device: "vulkan", Context: context})
	if m.classes == nil {
		t.Skipf("%s: short texts have the kernels of long ones", m.Why())
	}
	last := 0
	for _, c := range m.classes {
		if c.length <= last || c.length >= context || m.stepOf(1, c.length) != c.exe ||
			m.stepOf(1, c.length+1) == c.exe {
			t.Errorf("a step of up to %d positions after one of %d, of %d", c.length, last, context)
		}
		last = c.length
	}
	text := strings.Repeat("func add(a, b int) int {\n\treturn a + b\n}\n\n", 20)
	prompt := m.tok.Encode(text, tokenizer.Options{Whole: true})[:m.classes[0].length-20]
	for _, s := range []Sampling{{MaxTokens: 50}, {MaxTokens: 50, Logprobs: true}} {
		got, want := answerOf(t, m, prompt, s), answerOf(t, want, prompt, s)
		if !slices.EqualFunc(got, want, func(a, b Token) bool { return a.ID == b.ID }) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
