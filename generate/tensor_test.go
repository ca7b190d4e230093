package generate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestTensorParallel: two devices with tensor parallelism generate the same tokens as one device, for several texts in
// pages and with samplers. The model's single key head is on both devices.
func TestTensorParallel(t *testing.T) {
	path := tinyModel(t)
	for _, o := range []Options{{Device: "cpu", Context: 48, Parallel: 2, Positions: 128},
		{Device: "vulkan", Context: 48, Cache: ir.F16}} {
		if o.Device != "cpu" {
			needDevice(t)
		}
		var want [][]Token
		for _, devices := range []string{o.Device, o.Device + "," + o.Device} {
			several := o
			if several.Device = devices; devices != o.Device {
				several.Split = SplitTensor
			}
			m := openModel(t, path, several)
			if strings.Contains(m.Why(), "tensor parallel over") != strings.Contains(devices, ",") {
				t.Errorf("on %s: %s", devices, m.Why())
			}
			var got [][]Token
			for i, s := range []Sampling{{MaxTokens: 12}, {MaxTokens: 12, Temperature: 1, TopP: new(0.9), Seed: 3}} {
				got = append(got, answerOf(t, m, randomPrompt(m, rand.New(rand.NewPCG(uint64(i), 7)), 11), s))
			}
			if want == nil {
				want = got
			}
			for i := range got {
				same := slices.EqualFunc(got[i], want[i], func(a, b Token) bool { return a.ID == b.ID })
				if len(got[i]) == 0 || !same {
					t.Errorf("on %s: %v, want %v", devices, got[i], want[i])
				}
			}
		}
	}
}

// TestSplitAuto: a model that one of two devices reads in no time is on one alone, and why is told; one device needs no
// choice.
func TestSplitAuto(t *testing.T) {
	needDevice(t)
	path := tinyModel(t)
	m := openModel(t, path, Options{Device: "vulkan,vulkan", Context: 48, Split: SplitAuto})
	if why := m.Why(); len(m.device.Parts()) > 1 || !strings.Contains(why, "one device is cheapest") {
		t.Error(why)
	}
	openModel(t, path, Options{Device: "vulkan", Context: 48, Split: SplitAuto})
}
