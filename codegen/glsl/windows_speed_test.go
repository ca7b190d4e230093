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

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime/vk"
)

var timedWindows = flag.String("windows", "16x240x12x80/5",
	"convolutions of each channel by itself to time, with spaces between: images x channels x rows x columns / taps, "+
		"and s2 for a stride of two rows")

// TestWindowSpeed times the ways to fold overlapping windows on the device. It compares their results with the results
// of one invocation per row.
func TestWindowSpeed(t *testing.T) {
	if !*speed {
		t.Skip("run with -args -speed")
	}
	dev := vktest.Device(t, vk.DeviceOptions{})
	for _, what := range strings.Fields(*timedWindows) {
		timeWindows(t, dev, what)
	}
}

func timeWindows(t *testing.T, dev *vk.Device, what string) {
	var images, channels, rows, columns, taps int
	stride := 1
	_, err := fmt.Sscanf(what, "%dx%dx%dx%d/%d", &images, &channels, &rows, &columns, &taps)
	check(t, err)
	if strings.HasSuffix(what, "s2") {
		stride = 2
	}
	g, err := ir.Parse(fmt.Sprintf(`graph "g" {
		%%0 = input {name="x", dtype=f32, shape=[%d,%d,%d,%d]}
		%%1 = input {name="w", dtype=f32, shape=[%[2]d,1,%[5]d,%[5]d]}
		%%2 = input {name="b", dtype=f32, shape=[%[2]d,1,1]}
		%%3 = conv %%0, %%1 {padding_low=[%[6]d,%[6]d], padding_high=[%[6]d,%[6]d], groups=%[2]d, stride=[%[7]d,1]}
		%%4 = add %%3, %%2
		%%5 = relu %%4
		output "y" %%5
	}`, images, channels, rows, columns, taps, taps/2, stride))
	check(t, err)
	s, err := passes.Run(g, passes.Options{})
	check(t, err)
	k := s.Kernels[0]
	var ranges []vk.BufferRange
	r := rand.New(rand.NewPCG(1, 2))
	moved := 0
	for _, bind := range k.Bindings {
		x := randomTensor(t, r, ir.F32, bind.Elems)
		buf, err := dev.NewBuffer(bind.Name, int64(len(x.bytes)), vk.DeviceMemory)
		check(t, err)
		defer buf.Close()
		check(t, dev.Upload(context.Background(), buf, 0, x.bytes))
		ranges, moved = append(ranges, vk.Whole(buf)), moved+len(x.bytes)
	}
	var shaders []*glsl.Shader
	var sources []spirv.Shader
	var ways []kernel.Schedule
	for _, s := range waysOfWindows(k, dev.Caps()) {
		sh, err := glsl.Emit(k, s, dev.Caps(), nil)
		check(t, err)
		ways, shaders = append(ways, s), append(shaders, sh)
		sources = append(sources, spirv.Shader{Name: fmt.Sprint(len(sources)), Source: sh.Source})
	}
	out := ranges[len(ranges)-1].Buffer
	var want []float64
	for i, code := range compileAll(t, sources) {
		descs := []vk.PipelineDesc{{Name: ways[i].String(), Code: code, Buffers: len(ranges)}}
		pipelines, err := dev.NewPipelines(context.Background(), descs, nil)
		check(t, err)
		each := dispatchTime(t, dev, ranges, pipelines[0], shaders[i], 30*time.Millisecond)
		fmt.Printf("%s %8.1f us %6.0f GB/s  %s\n", what, each.Seconds()*1e6, float64(moved)/each.Seconds()/1e9, ways[i])
		check(t, pipelines[0].Close())
		bytes := make([]byte, 4*k.Bindings[len(k.Bindings)-1].Elems)
		check(t, dev.Download(context.Background(), bytes, out, 0))
		got := make([]float64, len(bytes)/4)
		ir.DecodeFloats(got, ir.F32, bytes)
		if want == nil {
			want = got
		}
		for j := range got {
			if !(math.Abs(got[j]-want[j]) <= 1e-5) {
				t.Fatalf("%s: element %d is %g, want %g\n%s", ways[i], j, got[j], want[j], shaders[i].Source)
			}
		}
		for j := range bytes {
			bytes[j] = 0xff
		}
		check(t, dev.Upload(context.Background(), out, 0, bytes))
	}
}

// waysOfWindows are one invocation per row, two invocations per row, and blocks of all sizes.
func waysOfWindows(k *kernel.Kernel, caps device.Caps) (all []kernel.Schedule) {
	ways := []kernel.Schedule{kernel.Row{Launch: kernel.Launch{Variant: kernel.VarRowSerial, Workgroup: 64, Vec: 1},
		LanesPerRow: 1},
		kernel.Row{Launch: kernel.Launch{Variant: kernel.VarRowGroup, Workgroup: 256, Vec: 1,
			Subgroup: int(caps.SubgroupSize)}, LanesPerRow: 2}}
	for rows := 2; rows < 25; rows++ {
		for wg := 64; wg <= 128; wg *= 2 {
			ways = append(ways, kernel.Points{Launch: kernel.Launch{Variant: kernel.VarRowWindows, Workgroup: wg,
				Vec: 1}, Coarsen: rows})
		}
	}
	for _, s := range ways {
		if fits(k, s, caps) == nil {
			all = append(all, s)
		}
	}
	return all
}
