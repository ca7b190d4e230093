package vk

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// smallDevice has the least that Vulkan promises.
func smallDevice() *Device {
	d := &Device{info: DeviceInfo{
		Caps: device.Caps{Name: "small", SubgroupSize: 32, MinSubgroupSize: 32, MaxSubgroupSize: 32,
			MaxSharedMemory: 16 << 10,
			MaxInvocations:  128, MaxWorkgroupSize: [3]uint32{128, 128, 64}, MaxWorkgroupCount: [3]uint32{65535, 65535, 65535},
			MaxStorageBuffers: 4, MaxStorageRange: 1 << 27, StorageAlignment: 256, MaxAllocation: 1 << 30, MaxBuffer: 1 << 30},
		Heaps: []MemoryHeap{{Size: 1 << 30, DeviceLocal: true}},
	}}
	d.memory = newAllocator(nil, d.info.Heaps, nil, 1<<20, 1<<30)
	return d
}

// FuzzCheckProgram looks for programs, as a damaged bundle may hold, that make the checks ahead of loading
// panic, and for ones that pass them and yet do not fit the device.
func FuzzCheckProgram(f *testing.F) {
	rows := ir.Shape{ir.Symbol("T", 9), ir.D(8)}
	seed := &kernel.Program{
		Name: "seed", Symbols: []kernel.Symbol{{Name: "T", Bound: 9}},
		Buffers: []kernel.Buffer{
			{Kind: kernel.BufInput, Name: "x", DType: ir.F32, Shape: rows, Bytes: 288},
			{Kind: kernel.BufTemp, Name: "t", DType: ir.F32, Shape: rows, Bytes: 288, Offset: 256},
			{Kind: kernel.BufParams, Name: "params", DType: ir.U32, Shape: ir.ShapeOf(1), Bytes: 16},
		},
		Shaders:    []kernel.Shader{{Name: "k", Bindings: 2, Workgroup: 64, SubgroupSize: 32, SharedBytes: 64, Needs: []string{"int64"}}},
		Steps:      []kernel.Step{{Name: "s", Binds: []kernel.Bind{{Buffer: 0}, {Buffer: 1}}, Grid: kernel.Grid{{{Extent: rows[0], Tile: 8}}}}},
		Inputs:     []kernel.Port{{Name: "x", DType: ir.F32, Shape: rows}},
		ArenaBytes: 544,
	}
	text, err := json.Marshal(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	seed.Shaders[0].Needs = nil
	if text, err = json.Marshal(seed); err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var p kernel.Program
		if json.Unmarshal(text, &p) != nil {
			return
		}
		if _, err := checkProgram(&p, make([][]byte, len(p.Shaders))); err != nil {
			return
		}
		if smallDevice().checkFit(&p) != nil {
			return
		}
		for _, b := range p.Buffers {
			if b.Bytes > 1<<27 || b.Kind == kernel.BufTemp && (b.Offset%256 != 0 || b.Offset+b.Bytes > p.ArenaBytes) {
				t.Errorf("buffer %s of %d bytes at %d passed", b.Name, b.Bytes, b.Offset)
			}
		}
	})
}

func TestDrain(t *testing.T) {
	parts := [][]byte{{1, 2, 3}, {}, {4}, {5, 6}}
	var got []byte
	for range 4 {
		p := []byte{9, 9}
		parts = drain(p, parts)
		got = append(got, p...)
	}
	if want := []byte{1, 2, 3, 4, 5, 6, 0, 0}; !slices.Equal(got, want) || len(parts) != 0 {
		t.Errorf("have %v and %d parts more; want %v", got, len(parts), want)
	}
}

// TestTooLarge: where extents alone are too large, the error says how to make them smaller, and not to compile again.
func TestTooLarge(t *testing.T) {
	p := &kernel.Program{Target: "a device", Symbols: []kernel.Symbol{{Name: "N", Bound: 1 << 30}},
		Buffers: []kernel.Buffer{{Kind: kernel.BufInput, Name: "x", DType: ir.F32, Bytes: 1 << 32}}}
	large := smallDevice().checkFit(p).Error()
	for _, want := range []string{"too large", "input x", "N <= 1073741824", "--bound", "--dim", "--device cpu"} {
		if !strings.Contains(large, want) {
			t.Errorf("%s: want %q", large, want)
		}
	}
	if strings.Contains(large, "compile it again") {
		t.Errorf("compiling again changes nothing: %s", large)
	}
	p.Shaders = []kernel.Shader{{Name: "k", Workgroup: 1, Needs: []string{"noSuchFeature"}}}
	p.Steps = []kernel.Step{{Name: "s"}}
	for _, want := range []string{"noSuchFeature", "input x", "compile it again"} {
		if foreign := smallDevice().checkFit(p).Error(); !strings.Contains(foreign, want) {
			t.Errorf("%s: want %q", foreign, want)
		}
	}
}
