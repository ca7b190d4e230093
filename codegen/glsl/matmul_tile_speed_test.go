package glsl_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

var speedSize = flag.Int("size", 4096, "rows, columns and depth of the products to time")

// TestMatTileSpeed times tiles of products in f32 on the device, the one that is
// chosen first, and compares the results of each. The rates of tiles in package
// target come from it.
func TestMatTileSpeed(t *testing.T) {
	if !*speed {
		t.Skip("run with -args -speed")
	}
	dev := vktest.Device(t, vk.DeviceOptions{})
	n := *speedSize
	p := product{m: d(n), n: d(n), k: d(n), a: ir.F32, b: ir.F32, transB: true}
	chosen, _, err := target.Select(p.kernel(), dev.Caps())
	check(t, err)
	var cases []kernel.Schedule
	var shaders []*glsl.Shader
	var sources []spirv.Shader
	all := slices.DeleteFunc(timedTiles(), func(s kernel.Schedule) bool { return s == chosen })
	for _, s := range append([]kernel.Schedule{chosen}, all...) {
		if err := target.Check(p.kernel(), s, dev.Caps()); err != nil {
			fmt.Println(s, err)
			continue
		}
		sh, err := glsl.Emit(p.kernel(), s, dev.Caps(), nil)
		check(t, err)
		cases, shaders = append(cases, s), append(shaders, sh)
		sources = append(sources, spirv.Shader{Name: fmt.Sprint(len(sources)), Source: sh.Source})
	}
	modules := compileAll(t, sources)
	run := newMatVecRun(t, dev, p, ir.F32, n, n)
	defer run.close(t)
	for i, s := range cases {
		each := run.time(t, shaders[i], modules[i])
		fmt.Printf("%8.1f us %5.1f TFLOP/s  %s\n", each.Seconds()*1e6, 2*float64(n)*float64(n)*float64(n)/each.Seconds()/1e12, s)
	}
}

// timedTiles lists large tiles, each as it is, paired, in steps, and both.
func timedTiles() []kernel.Schedule {
	var all []kernel.Schedule
	for _, s := range []kernel.Schedule{
		twoStages(tiled(128, 128, 8, 8, 16)), twoStages(tiled(128, 128, 8, 16, 8)), twoStages(tiled(128, 128, 8, 8, 8)),
		twoStages(tiled(128, 128, 16, 8, 8)), tiled(128, 128, 16, 8, 8),
	} {
		all = append(all, s, paired(s), inSteps(s), paired(inSteps(s)))
	}
	for _, s := range []kernel.Schedule{
		tiled(128, 128, 16, 8, 16), tiled(64, 128, 8, 8, 8), tiled(64, 128, 16, 8, 8), tiled(128, 64, 8, 8, 8),
		tiled(64, 256, 8, 8, 16), tiled(128, 256, 8, 8, 16), tiled(256, 128, 8, 16, 8), tiled(128, 128, 4, 8, 8),
	} {
		all = append(all, paired(inSteps(twoStages(s))))
	}
	return all
}
