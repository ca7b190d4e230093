package generate

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/internal/vktest"
)

// autoTakesVulkan has "auto" open the best Vulkan device as if it were a GPU, until the function that it returns is
// called.
func autoTakesVulkan() (restore func()) {
	open := openDevice
	openDevice = func(want string, opt ...vkc.DeviceOption) (*vkc.Device, error) {
		if want == "" {
			want = "vulkan"
		}
		return open(want, opt...)
	}
	return func() { openDevice = open }
}

// TestFallback: a program that fails on a device after the step has been loaded there has the CPU run the whole model,
// if vkc chose the device. A device that was named is an error.
func TestFallback(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	dev.Close()
	broken := errors.New("the driver\nhas a bad day")
	device := loadOn
	defer func() { loadOn = device }()
	defer autoTakesVulkan()()
	model := tinyModel(t)
	for name, o := range map[string]Options{"a prompt": {}, "a shift": {ContextShift: true}} {
		loads := 0
		loadOn = func(ctx context.Context, d *vkc.Device, p *vkc.Program, lo vkc.LoadOptions) (*vkc.Executable, error) {
			if d.IsCPU() {
				return device(ctx, d, p, lo)
			}
			if loads++; name == "a prompt" && loads > 1 || strings.Contains(p.Contents.Graph.Name, "shift") {
				return nil, broken
			}
			return device(ctx, d, p, lo)
		}
		o.Context = 64
		var reasons []error
		o.Fallback = func(why error) { reasons = append(reasons, why) }
		m, err := Open(t.Context(), model, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if why := m.Fallback(); !errors.Is(why, broken) || strings.Contains(why.Error(), "\n") ||
			!strings.Contains(m.Why(), why.Error()) || !m.device.IsCPU() || !slices.Equal(reasons, []error{why}) {
			t.Errorf("%s: runs on %s: fallback %v, reasons %v", name, m.Why(), why, reasons)
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
		if m, err := Open(t.Context(), model, o); !errors.Is(err, broken) {
			t.Errorf("%s on a device that is named: %v, %v", name, m, err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := Open(ended, model, Options{Context: 64}); !errors.Is(err, context.Canceled) ||
			strings.Contains(err.Error(), "CPU fast path") {
			t.Errorf("a context that has ended: %v", err)
		}
	}
}

// TestLateFallback: a program that is loaded at first use and fails on a device that vkc chose runs on the CPU, with
// one reason. Answers and scores stay the same, also of texts that were scored before. A named device is an error.
func TestLateFallback(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	dev.Close()
	broken := errors.New("the driver\nhas a bad day")
	device := loadOn
	defer func() { loadOn = device }()
	defer autoTakesVulkan()()
	setMixed(t, false)
	late, model := regexp.MustCompile("sampler|scores"), tinyModel(t)
	for _, o := range []Options{{}, {Parallel: 2}, {Parallel: 2, Positions: 256}} {
		var programs []string // that a device did not load
		fails := false
		loadOn = func(ctx context.Context, d *vkc.Device, p *vkc.Program, lo vkc.LoadOptions) (*vkc.Executable, error) {
			if name := p.Contents.Graph.Name; fails && late.MatchString(name) && !d.IsCPU() {
				programs = append(programs, name)
				return nil, broken
			}
			return device(ctx, d, p, lo)
		}
		o.Context = 48
		var reasons []error
		o.Fallback = func(why error) { reasons = append(reasons, why) }
		// outcomes are the tokens of several answers, and the scores of a text that the second answer begins with.
		outcomes := func(m *Model) (ids []int32, odds []float64) {
			text := m.Tokenizer().Encode("for x in a range of 2 do", tokenizer.Options{Whole: true})
			scored, err := m.Score(t.Context(), text, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, token := range scored[1:] {
				odds = append(odds, token.Odds.Logprob, token.Odds.Likeliest[1].Logprob)
			}
			for _, s := range []Sampling{{Temperature: 0.8, Seed: 3}, {Temperature: 1, TopK: 20, Seed: 4},
				{RepeatPenalty: 1.3}, {}} {
				s.MaxTokens = 12
				for token, err := range m.Generate(t.Context(), text, s) {
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, token.ID)
				}
			}
			return ids, odds
		}
		m, err := Open(t.Context(), model, o)
		if err != nil {
			t.Fatal(err)
		}
		wantIDs, wantOdds := outcomes(m)
		fails = true
		again, err := Open(t.Context(), model, o)
		if err != nil {
			t.Fatal(err)
		}
		ids, odds := outcomes(again)
		outcomes(again) // loads nothing more
		if !slices.Equal(ids, wantIDs) || len(ids) < 24 {
			t.Errorf("%d at once: tokens %v, want %v", o.Parallel, ids, wantIDs)
		}
		for i, x := range odds {
			if math.Abs(x-wantOdds[i]) > 2e-2 {
				t.Errorf("%d at once: log-probability %d is %v, want %v", o.Parallel, i, x, wantOdds[i])
			}
		}
		if again.device.IsCPU() || again.Fallback() != nil || len(reasons) != len(programs) || len(programs) != 3 {
			t.Errorf("%d at once: on %s: %d programs failed, and the reasons are %v", o.Parallel, again.Why(),
				len(programs), reasons)
		}
		for i, why := range reasons {
			if !errors.Is(why, broken) || strings.Contains(why.Error(), "\n") ||
				!strings.Contains(why.Error(), programs[i]) {
				t.Errorf("%d at once: the reason for %s is %v", o.Parallel, programs[i], why)
			}
		}
		o.Device = "vulkan"
		named, err := Open(t.Context(), model, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range named.Generate(t.Context(), []int32{1}, Sampling{Temperature: 1, MaxTokens: 1}) {
			if !errors.Is(err, broken) {
				t.Errorf("%d at once, a named device: %v", o.Parallel, err)
			}
		}
		if _, err := named.Score(t.Context(), []int32{1, 2}, 0); !errors.Is(err, broken) {
			t.Errorf("%d at once, a score on a named device: %v", o.Parallel, err)
		}
		if err := errors.Join(m.Close(), again.Close(), named.Close()); err != nil {
			t.Error(err)
		}
	}
}
