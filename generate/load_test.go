package generate

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestLoadPeak: while a model of several slots is loaded, it takes hardly more device memory than afterwards. The KV
// caches may fill most of the memory, so no step of the load may copy all of them.
func TestLoadPeak(t *testing.T) {
	needDevice(t)
	m := openModel(t, tinyModel(t), Options{Device: "vulkan", Context: 128, Parallel: 8, Deterministic: true})
	stats := vk.Of(m.device).MemoryStats()
	caches := stats.Owners[runtime.OwnStates]
	if more := stats.Peak - stats.InUse; caches == 0 || more > caches/2 {
		t.Errorf("loading took %d bytes more than the %d that the model keeps, want at most half of its caches of %d",
			more, stats.InUse, caches)
	}
}

// TestTune: Options.Tune gets the graphs of all programs before any is compiled, and its error ends the load.
func TestTune(t *testing.T) {
	model, failed := tinyModel(t), errors.New("no time")
	var names []string
	o := Options{Device: "cpu", Context: 64, Parallel: 2}
	o.Tune = func(_ context.Context, _ *vkc.Device, graphs []*ir.Graph) error {
		for _, g := range graphs {
			names = append(names, g.Name)
		}
		return failed
	}
	o.Progress = func(p vkc.Progress) { t.Errorf("%s before tuning", p.Stage) }
	if m, err := Open(t.Context(), model, o); !errors.Is(err, failed) {
		m.Close()
		t.Fatalf("error %v, want %v", err, failed)
	}
	if want := []string{"batch", "batch", "steps"}; !slices.Equal(names, want) {
		t.Errorf("tuned %q, want %q", names, want)
	}
}

// TestWeightRoom: programs share states, and prepared weights that the same code computes from the same weights. A load
// copies the states that one kernel writes.
func TestWeightRoom(t *testing.T) {
	const arena, prepared, keys, values, limit = 10, 50, 60, 70, 1000
	program := func(weight, code string) *vkc.Program {
		k := &kernel.Program{ArenaBytes: arena, Prepared: 1, Shaders: make([]kernel.Shader, 2),
			Buffers: []kernel.Buffer{
				{Kind: kernel.BufWeight, Bytes: 40, Segments: []kernel.Segment{{Weight: weight}}},
				{Kind: kernel.BufPrepared, Bytes: prepared},
				{Kind: kernel.BufState, Bytes: keys}, {Kind: kernel.BufState, Bytes: values},
			},
			Steps: []kernel.Step{{Binds: []kernel.Bind{{Buffer: 0, Read: true}, {Buffer: 1, Write: true}}},
				{Shader: 1, Binds: []kernel.Bind{{Buffer: 3, Read: true}, {Buffer: 2, Write: true}}},
				{Shader: 1, Binds: []kernel.Bind{{Buffer: 2, Read: true}, {Buffer: 3, Write: true}}}}}
		return &vkc.Program{Contents: bundle.Contents{Program: k, SPIRV: [][]byte{[]byte(code), nil}}}
	}
	for _, tt := range []struct {
		name     string
		programs []*vkc.Program
		others   uint64 // next to states
	}{
		{"one", []*vkc.Program{program("w", "a")}, arena},
		{"equal", []*vkc.Program{program("w", "a"), nil, program("w", "a")}, 2*arena + values},
		{"code", []*vkc.Program{program("w", "a"), program("w", "b"), program("w", "b")}, 3*arena + values + prepared},
		{"weight", []*vkc.Program{program("w", "a"), program("v", "a")}, 2*arena + values + prepared},
	} {
		m := &Model{gpuMemory: limit}
		if err := m.setWeightRoom(tt.programs); err != nil || m.weightRoom != limit-keys-values-tt.others {
			t.Errorf("%s: room for weights of %d, %v, want %d", tt.name, m.weightRoom, err,
				limit-keys-values-tt.others)
		}
	}
}
