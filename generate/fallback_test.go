package generate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

// TestFallback: a program that fails on a device after the step has been loaded there has the CPU run the whole model,
// if vkc chose the device. A device that was named is an error.
func TestFallback(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	dev.Close()
	broken := errors.New("the driver\nhas a bad day")
	device := loadOn
	defer func() { loadOn = device }()
	for name, o := range map[string]Options{"a prompt": {}, "a shift": {ContextShift: true}} {
		loads := 0
		loadOn = func(ctx context.Context, d *vkc.Device, p *vkc.Program, lo vkc.LoadOptions) (*vkc.Executable, error) {
			if d.IsCPU() {
				return device(ctx, d, p, lo)
			}
			if loads++; name == "a prompt" && loads > 1 || strings.Contains(p.Contents.Graph.Name, "shift") {
				return nil, broken
			}
			lo.NoTrial = true
			return device(ctx, d, p, lo)
		}
		o.Context = 64
		m, err := Open(t.Context(), gollama, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if why := m.Fallback(); !errors.Is(why, broken) || strings.Contains(why.Error(), "\n") ||
			!strings.Contains(m.Why(), why.Error()) || !m.device.IsCPU() {
			t.Errorf("%s: runs on %s: fallback %v", name, m.Why(), why)
		}
		prompt := m.Tokenizer().Encode("func main() {", tokenizer.Options{Whole: true})
		for _, err := range m.Generate(t.Context(), prompt, Sampling{MaxTokens: 2}) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		loads, o.Device = 0, "vulkan"
		if m, err := Open(t.Context(), gollama, o); !errors.Is(err, broken) {
			t.Errorf("%s on a device that is named: %v, %v", name, m, err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := Open(ended, gollama, Options{Context: 64}); !errors.Is(err, context.Canceled) ||
			strings.Contains(err.Error(), "CPU fast path") {
			t.Errorf("a context that has ended: %v", err)
		}
	}
}
