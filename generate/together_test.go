package generate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestTogether: two devices with some of the layers each generate the same tokens as one device, also with pages and
// samplers. Prompts in several parts are in flight on both devices.
func TestTogether(t *testing.T) {
	needDevice(t)
	path := tinyModel(t)
	var want [][]Token
	for _, device := range []string{"vulkan", "vulkan,vulkan"} {
		m := openModel(t, path, Options{Device: device, Context: 64, Parallel: 2, Positions: 128, Deterministic: true})
		m.part = 2
		if !m.step.Asynchronous() || m.ahead != 0 {
			t.Errorf("on %s: steps are waited for one by one", device)
		}
		if several := device != "vulkan"; strings.Contains(m.Why(), "layers over") != several {
			t.Errorf("on %s: %s", device, m.Why())
		}
		var got [][]Token
		for i, s := range []Sampling{{MaxTokens: 20}, {MaxTokens: 20, Temperature: 1, TopP: new(0.9), Seed: 3}} {
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

// TestTogetherRefuses: a memory limit for one device is rejected for several devices.
func TestTogetherRefuses(t *testing.T) {
	_, err := Open(t.Context(), tinyModel(t), Options{Device: "cpu,cpu", GPUMemory: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "several devices") {
		t.Error(err)
	}
}

// TestTogetherParts: on two devices, the sizes of prompt parts minimize their time including the devices' waits. On one
// device the largest part is used.
func TestTogetherParts(t *testing.T) {
	needDevice(t)
	path := tinyModel(t)
	for device, want := range map[string][]int{"vulkan": {64, 64, 64, 64}, "vulkan,vulkan": {16, 16, 64, 16}} {
		m := openModel(t, path, Options{Device: device, Context: 64})
		few, many := m.prompts[0], m.prompts[0]
		several := device != "vulkan"
		if several != (few.expected > 0) {
			t.Errorf("on %s: %g ns are expected of a part", device, few.expected)
		}
		few.rows, many.rows = 16, 64
		var have []int
		for _, c := range []struct {
			left int
			many float64 // what 64 tokens take, where 16 take 1
		}{{64, 3.9}, {64, 2.6}, {64, 2.4}, {16, 1.1}} {
			if several {
				few.expected, many.expected = 1, c.many
			}
			m.prompts = []sizedProgram{few, many}
			have = append(have, m.partFor(c.left))
		}
		if !slices.Equal(have, want) {
			t.Errorf("on %s: parts of %d, want %d", device, have, want)
		}
	}
}
