package generate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestTogether has two devices make the tokens of one, each with some of the layers, in pages and by samplers too.
func TestTogether(t *testing.T) {
	needDevice(t)
	path := tinyModel(t)
	var want [][]Token
	for _, device := range []string{"vulkan", "vulkan,vulkan"} {
		m := openModel(t, path, Options{Device: device, Context: 64, Parallel: 2, Positions: 128, Deterministic: true})
		if several := device != "vulkan"; strings.Contains(m.Why(), "layers over") != several {
			t.Errorf("on %s: %s", device, m.Why())
		}
		var got [][]Token
		for i, s := range []Sampling{{MaxTokens: 20}, {MaxTokens: 20, Temperature: 1, TopP: 0.9, Seed: 3}} {
			got = append(got, answerOf(t, m, randomPrompt(m, rand.New(rand.NewPCG(uint64(i), 7)), 11), s))
		}
		if want == nil {
			want = got
		}
		for i := range got {
			if len(got[i]) == 0 || !slices.Equal(got[i], want[i]) {
				t.Errorf("on %s: %v, want %v", device, got[i], want[i])
			}
		}
		if m.DeviceBytes() == 0 {
			t.Errorf("on %s: it takes no memory", device)
		}
	}
}

// TestTogetherRefuses: what bounds the memory of one device does not go with several.
func TestTogetherRefuses(t *testing.T) {
	_, err := Open(t.Context(), tinyModel(t), Options{Device: "cpu,cpu", GPUMemory: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "several devices") {
		t.Error(err)
	}
}
