package bench

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// recurrentCases returns the cases of the ops of recurrent layers: on a prompt, in which the state stays on the chip,
// and for one step of several texts, which reads and writes the states. The bytes that a case moves are its arguments
// and results, each once.
func recurrentCases(scale Scale) []Case {
	times, few, texts := scale.of(2048, 40), scale.of(512, 12), scale.of(16, 3)
	channels := scale.of(5376, 64)
	conv := func(texts, times int) Case {
		return Case{
			Name:  fmt.Sprintf("causal_conv1d/f32/%dx%dx%d", texts, times, channels),
			Sizes: Sizes{"c": channels},
			Build: func(b *frontend.Builder, s Sizes) {
				x := b.Input("x", ir.F32, texts, times, s["c"])
				y, last := x.CausalConv1D(b.Weight("w", ir.F32, s["c"], 4), b.Input("state", ir.F32, texts, 3, s["c"]))
				b.Output("y", y)
				b.Output("last", last)
			},
			Axes:    map[string]string{"x": ". . c", "w": "c .", "state": ". . c", "y": ". . c", "last": ". . c"},
			Samples: []Sample{{"c": Some(2)}}, Precision: NoFlops,
		}
	}
	delta, rwkv := scale.of(128, 24), scale.of(64, 16)
	var cases []Case
	for _, of := range []struct{ texts, times int }{{1, times}, {1, few}, {texts, 1}} {
		cases = append(cases, conv(of.texts, of.times), ssmCase(scale, of.texts, of.times),
			// The sizes of a layer of Qwen3-Next (80 billion weights), with one decay per head.
			deltaCase("delta_rule", of.texts, of.times, scale.of(32, 4), delta, 1),
			// The sizes of a layer of RWKV-7 (2.9 billion weights), with one decay per key.
			deltaCase("delta_rule_by_key", of.texts, of.times, scale.of(40, 4), rwkv, rwkv))
	}
	return cases
}

// ssmCase returns a case of a state-space scan with the sizes of a layer of Mamba-2 with 2.7 billion weights, for
// several texts of `times` tokens.
func ssmCase(scale Scale, texts, times int) Case {
	heads, rows, keys := scale.of(80, 4), scale.of(64, 8), scale.of(128, 24)
	return Case{
		Name:  fmt.Sprintf("ssm_scan/f32/%dx%dx%dx%dx%d", texts, times, heads, rows, keys),
		Sizes: Sizes{"h": heads},
		Build: func(b *frontend.Builder, s Sizes) {
			vectors := func(name string) frontend.Tensor { return b.Input(name, ir.F32, texts, times, 1, keys) }
			y, last := b.Input("x", ir.F32, texts, times, s["h"], rows).SSMScan(
				b.Input("dt", ir.F32, texts, times, s["h"]), b.Input("a", ir.F32, s["h"], 1), vectors("b"),
				vectors("c"), b.Input("state", ir.F32, texts, s["h"], rows, keys))
			b.Output("y", y)
			b.Output("last", last)
		},
		Axes: map[string]string{"x": ". . h .", "dt": ". . h", "a": "h .", "state": ". h . .", "y": ". . h .",
			"last": ". h . ."},
		Fills: map[string]Fill{"dt": {0, 1}, "a": {-1, 0}}, Samples: []Sample{{"h": Some(2)}}, Precision: NoFlops,
	}
}

// deltaCase returns a case of a delta rule in which each head has its own keys, of the given width. decays is the
// number of decays per head: 1, or one for each of the width keys.
func deltaCase(name string, texts, times, heads, width, decays int) Case {
	return Case{
		Name:  fmt.Sprintf("%s/f32/%dx%dx%dx%d", name, texts, times, heads, width),
		Sizes: Sizes{"h": heads},
		Build: func(b *frontend.Builder, s Sizes) {
			vectors := func(name string) frontend.Tensor { return b.Input(name, ir.F32, texts, times, s["h"], width) }
			correction := frontend.Correction{A: vectors("a"), B: vectors("b")}
			y, last := vectors("q").DeltaRule(vectors("k"), vectors("v"),
				b.Input("decay", ir.F32, texts, times, s["h"], decays),
				b.Input("state", ir.F32, texts, s["h"], width, width), correction)
			b.Output("y", y)
			b.Output("last", last)
		},
		Axes: map[string]string{"q": ". . h .", "k": ". . h .", "v": ". . h .", "a": ". . h .", "b": ". . h .",
			"decay": ". . h .", "state": ". h . .", "y": ". . h .", "last": ". h . ."},
		Fills:   map[string]Fill{"decay": {-1, 0}, "a": {-0.05, 0.05}, "b": {-0.05, 0.05}},
		Samples: []Sample{{"h": Some(2)}}, Precision: NoFlops,
	}
}
