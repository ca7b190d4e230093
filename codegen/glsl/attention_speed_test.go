package glsl_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime/vk"
)

var speedAttentions = flag.String("attentions", "12x1500x64",
	"heads, queries, which are as many as keys, and elements of the attentions to time")

// TestFlashTileSpeed times tiled f32 attentions on the device, and compares samples of each schedule's results. The
// rates of such tiles in package schedule come from it.
func TestFlashTileSpeed(t *testing.T) {
	if !*speed {
		t.Skip("run with -args -speed")
	}
	dev := vktest.Device(t, vk.DeviceOptions{})
	for _, shape := range strings.Fields(*speedAttentions) {
		var heads, queries, width int
		if _, err := fmt.Sscanf(shape, "%dx%dx%d", &heads, &queries, &width); err != nil {
			t.Fatalf("-attentions %s: want heads, queries and elements, such as 12x1500x64", shape)
		}
		timeAttentions(t, dev, heads, queries, width)
	}
}

func timeAttentions(t *testing.T, dev *vk.Device, heads, queries, width int) {
	g, err := ir.Parse(fmt.Sprintf(`graph "g" {
		%%q = input {name="q", dtype=f32, shape=[%[1]d,%[2]d,%[3]d]}
		%%k = input {name="k", dtype=f32, shape=[%[1]d,%[2]d,%[3]d]}
		%%v = input {name="v", dtype=f32, shape=[%[1]d,%[2]d,%[3]d]}
		%%1 = attention %%q, %%k, %%v
		output "y" %%1
	}`, heads, queries, width))
	check(t, err)
	state, err := passes.Run(g, passes.Options{})
	check(t, err)
	k := state.Kernels[0]
	data := map[string][]float64{}
	var ranges []vk.BufferRange
	r := rand.New(rand.NewPCG(1, 2))
	for _, bind := range k.Bindings {
		x := randomTensor(t, r, ir.F32, bind.Elems)
		data[bind.Name] = x.values
		buf, err := dev.NewBuffer(bind.Name, int64(len(x.bytes)), vk.DeviceMemory)
		check(t, err)
		defer buf.Close()
		check(t, dev.Upload(context.Background(), buf, 0, x.bytes))
		ranges = append(ranges, vk.Whole(buf))
	}
	var tiles []kernel.Schedule
	var shaders []*glsl.Shader
	var sources []spirv.Shader
	for _, s := range timedFlashTiles(int(dev.Caps().SubgroupSize)) {
		if 2*s.TileN/s.ThreadN > s.Subgroup {
			s.Subgroup = 0
		}
		if fits(k, s, dev.Caps()) != nil {
			continue
		}
		sh, err := glsl.Emit(k, s, dev.Caps(), nil)
		check(t, err)
		tiles, shaders = append(tiles, s), append(shaders, sh)
		sources = append(sources, spirv.Shader{Name: fmt.Sprint(len(sources)), Source: sh.Source})
	}
	var descs []vk.PipelineDesc
	for i, code := range compileAll(t, sources) {
		descs = append(descs, vk.PipelineDesc{Name: tiles[i].String(), Code: code, Buffers: len(ranges)})
	}
	pipelines, err := dev.NewPipelines(context.Background(), descs, nil)
	check(t, err)
	for i, s := range tiles {
		warmUp := 80 * time.Millisecond
		if i == 0 {
			warmUp = 300 * time.Millisecond
		}
		each := dispatchTime(t, dev, ranges, pipelines[i], shaders[i], warmUp)
		flops := 4 * float64(heads) * float64(queries) * float64(queries) * float64(width)
		fmt.Printf("%dx%dx%d %8.1f us %5.1f TFLOP/s  %s\n", heads, queries, width, each.Seconds()*1e6,
			flops/each.Seconds()/1e12, s)
		compareRows(t, dev, ranges[len(ranges)-1].Buffer, data, queries, width, s)
		check(t, pipelines[i].Close())
	}
}

// timedFlashTiles lists tiles, and if a tile supports it, the same tile in paired steps.
func timedFlashTiles(subgroup int) (all []kernel.FlashTile) {
	add := func(m, n, depth, threadM, threadN int, steps bool) {
		all = append(all, kernel.FlashTile{Launch: kernel.Launch{Variant: kernel.VarFlashTile,
			Workgroup: m / threadM * (n / threadN), Vec: 4, Subgroup: subgroup},
			Tile: kernel.Tile{TileM: m, TileN: n, TileK: depth}, RegisterTile: kernel.RegisterTile{Paired: steps,
				Steps: steps}, Flash: kernel.Flash{Heads: 1}, ThreadM: threadM, ThreadN: threadN})
	}
	for _, tl := range [][5]int{{64, 64, 16, 4, 4}, {32, 64, 16, 4, 4}, {32, 32, 16, 4, 2}, {16, 32, 16, 2, 2}} {
		add(tl[0], tl[1], tl[2], tl[3], tl[4], false)
	}
	for _, tl := range [][4]int{{64, 64, 8, 8}, {64, 64, 8, 4}, {64, 64, 4, 8}, {32, 64, 4, 8}, {32, 64, 8, 4},
		{32, 64, 4, 4}, {32, 128, 8, 8}, {32, 128, 4, 8}, {96, 32, 8, 4}, {64, 32, 8, 4}, {64, 32, 4, 4},
		{32, 32, 4, 4},
		{16, 64, 4, 4}, {16, 128, 4, 4}, {16, 32, 4, 4}} {
		for _, depth := range []int{8, 16} {
			add(tl[0], tl[1], depth, tl[2], tl[3], true)
		}
	}
	return all
}

// compareRows checks some rows of an attention's result, and sets them to NaN for the next schedule.
func compareRows(t *testing.T, dev *vk.Device, out *vk.Buffer, data map[string][]float64, queries, width int,
	s kernel.Schedule) {
	t.Helper()
	ctx, raw, got := context.Background(), make([]byte, 4*width), make([]float64, width)
	rows := len(data["q"]) / width
	for row := 3; row < rows; row += rows/40 + 1 {
		head := row / queries * queries
		want, sum := make([]float64, width), 0.0
		for key := head; key < head+queries; key++ {
			dot := 0.0
			for d := range width {
				dot += data["q"][row*width+d] * data["k"][key*width+d]
			}
			weight := math.Exp(dot / math.Sqrt(float64(width)))
			sum += weight
			for d := range width {
				want[d] += weight * data["v"][key*width+d]
			}
		}
		at := int64(row) * int64(len(raw))
		check(t, dev.Download(ctx, raw, out, at))
		ir.DecodeFloats(got, ir.F32, raw)
		for d := range width {
			if !(math.Abs(got[d]-want[d]/sum) <= 1e-4) {
				t.Fatalf("%s: element %d of row %d is %g, want %g", s, d, row, got[d], want[d]/sum)
			}
		}
		for i := range raw {
			raw[i] = 0xff
		}
		check(t, dev.Upload(ctx, out, at, raw))
	}
}
