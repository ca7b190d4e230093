package glsl_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

var tiledProducts = flag.String("tile-products", "4096x4096x4096",
	"rows, columns and depth of products to time, with spaces between; columns as in n3072 are stored [depth, columns]")

// TestMatTileSpeed times tiles of f32 matmuls on the device, the chosen tile first, and compares samples of each tile's
// results. The rates of tiles in package schedule come from it.
func TestMatTileSpeed(t *testing.T) {
	if !*speed {
		t.Skip("run with -args -speed")
	}
	dev := vktest.Device(t, vk.DeviceOptions{})
	for _, what := range strings.Fields(*tiledProducts) {
		timeTiles(t, dev, what)
	}
}

// timeTiles times the tiles of a matmul such as 1500xn768x768.
func timeTiles(t *testing.T, dev *vk.Device, what string) {
	var m, n, k int
	_, err := fmt.Sscanf(strings.Replace(what, "n", "", 1), "%dx%dx%d", &m, &n, &k)
	check(t, err)
	bench := newTileBench(t, dev, product{m: d(m), n: d(n), k: d(k), a: ir.F32, b: ir.F32,
		transB: !strings.Contains(what, "n")})
	defer bench.close(t)
	var tiles []kernel.Schedule
	var shaders []*glsl.Shader
	var sources []spirv.Shader
	for _, s := range timedTiles(t, bench.k, dev.Caps()) {
		sh, err := glsl.Emit(bench.k, s, dev.Caps(), nil)
		check(t, err)
		tiles, shaders = append(tiles, s), append(shaders, sh)
		sources = append(sources, spirv.Shader{Name: fmt.Sprint(len(sources)), Source: sh.Source})
	}
	var descs []vk.PipelineDesc
	for i, code := range compileAll(t, sources) {
		descs = append(descs, vk.PipelineDesc{Name: tiles[i].String(), Code: code, Buffers: len(bench.ranges)})
	}
	pipelines, err := dev.NewPipelines(context.Background(), descs, nil)
	check(t, err)
	flops := 2 * float64(m) * float64(n) * float64(k)
	for i, s := range tiles {
		each := bench.time(t, pipelines[i], shaders[i])
		fmt.Printf("%s %8.1f us %5.1f TFLOP/s  %s\n", what, each.Seconds()*1e6, flops/each.Seconds()/1e12, s)
		check(t, pipelines[i].Close())
	}
}

// timedTiles lists the chosen tile, and large ones that the device can run: plain, paired, in steps, and both.
func timedTiles(t *testing.T, k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	chosen, _, err := schedule.Select(k, caps)
	check(t, err)
	all := []kernel.Schedule{chosen}
	add := func(s kernel.Schedule) {
		if fits(k, s, caps) == nil && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, s := range []kernel.MatTile{
		twoStages(tiled(128, 128, 8, 8, 16)), twoStages(tiled(128, 128, 8, 16, 8)), twoStages(tiled(128, 128, 8, 8, 8)),
		twoStages(tiled(128, 128, 16, 8, 8)), tiled(128, 128, 16, 8, 8),
	} {
		for _, s := range []kernel.Schedule{s, paired(s), inSteps(s), paired(inSteps(s))} {
			add(s)
		}
	}
	for _, s := range []kernel.MatTile{
		tiled(128, 128, 16, 8, 16), tiled(64, 128, 8, 8, 8), tiled(64, 128, 16, 8, 8), tiled(128, 64, 8, 8, 8),
		tiled(64, 256, 8, 8, 16), tiled(128, 256, 8, 8, 16), tiled(256, 128, 8, 16, 8), tiled(128, 128, 4, 8, 8),
		// Tiles for smaller matmuls.
		tiled(64, 64, 8, 8, 8), tiled(64, 64, 16, 8, 4), tiled(64, 64, 16, 4, 4), tiled(32, 64, 16, 4, 4),
		tiled(96, 96, 16, 12, 4), tiled(96, 96, 16, 4, 12), tiled(96, 96, 8, 12, 8), tiled(96, 128, 8, 12, 8),
		tiled(128, 96, 8, 8, 12), tiled(96, 64, 16, 8, 4), tiled(96, 64, 16, 12, 4), tiled(96, 128, 16, 8, 8),
		tiled(128, 96, 8, 8, 8), tiled(128, 64, 16, 8, 8), tiled(96, 96, 16, 8, 12), tiled(64, 96, 16, 8, 4),
	} {
		add(paired(inSteps(twoStages(s))))
	}
	return all
}

// tileBench is an f32 matmul of random data.
type tileBench struct {
	dev     *vk.Device
	k       *kernel.Kernel
	product product
	a, b    []float64
	ranges  []vk.BufferRange
	warm    bool
}

func newTileBench(t *testing.T, dev *vk.Device, p product) *tileBench {
	r := rand.New(rand.NewPCG(1, 2))
	c := &tileBench{dev: dev, k: p.kernel(), product: p}
	for _, bind := range c.k.Bindings {
		x := randomTensor(t, r, ir.F32, bind.Elems)
		switch bind.Name {
		case "a":
			c.a = x.values
		case "b":
			c.b = x.values
		}
		buf, err := dev.NewBuffer(bind.Name, int64(len(x.bytes)), vk.DeviceMemory)
		check(t, err)
		check(t, dev.Upload(context.Background(), buf, 0, x.bytes))
		c.ranges = append(c.ranges, vk.Whole(buf))
	}
	return c
}

func (c *tileBench) close(t *testing.T) {
	for _, r := range c.ranges {
		check(t, r.Buffer.Close())
	}
}

// time returns the median time of a dispatch.
func (c *tileBench) time(t *testing.T, pipeline *vk.Pipeline, sh *glsl.Shader) time.Duration {
	warmUp := 80 * time.Millisecond
	if !c.warm {
		c.warm, warmUp = true, 300*time.Millisecond
	}
	each := dispatchTime(t, c.dev, c.ranges, pipeline, sh, warmUp)
	c.compare(t, sh)
	return each
}

// dispatchTime returns the median time of a dispatch after a warm-up.
func dispatchTime(t *testing.T, dev *vk.Device, ranges []vk.BufferRange, pipeline *vk.Pipeline, sh *glsl.Shader,
	warmUp time.Duration) time.Duration {
	const runs = 12
	ctx := context.Background()
	bindings, err := dev.NewBindings([]vk.BindingSet{{Name: "timed", Buffers: ranges}})
	check(t, err)
	defer bindings.Close()
	stamps, err := dev.NewTimestamps(runs + 1)
	check(t, err)
	defer stamps.Close()
	grid, err := sh.Grid.Eval(nil)
	check(t, err)
	list := dev.NewCommandList()
	list.ResetTimestamps(stamps)
	list.BindPipeline(pipeline)
	list.Bind(bindings, 0)
	list.Timestamp(stamps, 0)
	for i := range runs {
		list.Dispatch(grid[0], grid[1], grid[2])
		list.Barrier(vk.StageCompute, vk.StageCompute)
		list.Timestamp(stamps, i+1)
	}
	recording, err := dev.Record("timed", list)
	check(t, err)
	defer recording.Close()
	for start := time.Now(); time.Since(start) < warmUp; {
		check(t, dev.Run(ctx, recording))
	}
	times, err := stamps.Read(0, runs+1)
	check(t, err)
	each := make([]time.Duration, runs)
	for i := range each {
		each[i] = times[i+1] - times[i]
	}
	slices.Sort(each)
	return each[runs/2]
}

// compare checks some rows of the result, in columns of every position in a tile, and sets them to NaN for the next
// tile.
func (c *tileBench) compare(t *testing.T, sh *glsl.Shader) {
	t.Helper()
	ctx, out := context.Background(), c.ranges[len(c.ranges)-1].Buffer
	rows, columns, depth := c.product.m.Static(), c.product.n.Static(), c.product.k.Static()
	row := make([]byte, 4*columns)
	got := make([]float64, columns)
	for i := 5; i < rows; i += rows/16 + 1 {
		at := int64(i) * int64(len(row))
		check(t, c.dev.Download(ctx, row, out, at))
		ir.DecodeFloats(got, ir.F32, row)
		for j := 0; j < columns; j += 37 {
			want := 0.0
			for l := range depth {
				at := l*columns + j
				if c.product.transB {
					at = j*depth + l
				}
				want += c.a[i*depth+l] * c.b[at]
			}
			if !(math.Abs(got[j]-want) <= 1e-6*float64(depth)) {
				t.Fatalf("element %d,%d is %g, want %g\n%s", i, j, got[j], want, sh.Source)
			}
		}
		for j := range row {
			row[j] = 0xff
		}
		check(t, c.dev.Upload(ctx, out, at, row))
	}
}
