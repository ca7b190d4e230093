package vision_test

import (
	"os"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/vision"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// TestOnDevice takes towers through kernels, and compares a picture that a device has resized with the reference's.
func TestOnDevice(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	vktest.CloseAfter(t, dev)
	onDevice := func(t *testing.T, g *ir.Graph, weights ir.WeightSource, in map[string]*ir.Data,
		output string) []float64 {
		t.Helper()
		program, err := dev.Compile(t.Context(), g, vkc.CompileOptions{Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		exe, err := dev.Load(t.Context(), program, vkc.LoadOptions{Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		vktest.CloseAfter(t, exe)
		res, err := exe.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		values, err := res.Outputs[output].Floats()
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	names := []string{"qwen3vl"}
	if os.Getenv("VKC_TEST_CASES") == "all" {
		names = append(names, "gemma3", "idefics3", "llava", "qwen2vl", "qwen2.5vl")
	}
	for _, name := range names {
		m := readGolden(t, name)
		m.compareBy(t, name, open(t, m.writer(t)), onDevice)
	}
	c := vision.Config{Projector: "qwen2vl_merger", PatchSize: 2, Merge: 2, Deviation: [3]float64{1, 1, 1}}
	grid := vision.Grid{Rows: 4, Columns: 6}
	g, err := c.Resize(13, 9, grid)
	if err != nil {
		t.Fatal(err)
	}
	levels := make([]float64, 3*13*9)
	for i, bits := range random("image", len(levels)) {
		levels[i] = float64(bits & 255)
	}
	view := vision.View{Width: grid.Columns * c.PatchSize, Height: grid.Rows * c.PatchSize}
	down, across := c.Filters(13, 9, grid, view)
	in := map[string]*ir.Data{"image": data(t, ir.U8, levels, 9, 13, 3), "down": data(t, ir.F32, widened(down), 8, 9),
		"across": data(t, ir.F32, widened(across), 12, 13)}
	have, want, differ := onDevice(t, g, nil, in, "patches"), run(t, g, nil, in, "patches"), 0
	for i := range want {
		if have[i] != want[i] { // between two levels, a device may round to either
			differ++
		}
	}
	if differ > len(want)/50 {
		t.Errorf("%d of %d levels differ", differ, len(want))
	}
}
