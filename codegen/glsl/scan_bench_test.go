package glsl_test

import (
	"context"
	"fmt"
	"github.com/vkc-go/vkc/codegen/glsl"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// BenchmarkScan times running sums of 16 Mi elements on this machine's Vulkan device, with chunks and workgroups of
// several sizes. The numbers in package schedule and pass decompose come from it.
func BenchmarkScan(b *testing.B) {
	dev := vktest.Device(b, vk.DeviceOptions{})
	for _, chunk := range []int{1024, 2048, 4096, 8192} {
		source := fmt.Sprintf(`graph "g" {
			%%0 = input {name="x", dtype=f32, shape=[16,1048576]} : f32[16,1048576]
			%%1 = cumsum %%0 {axis=1, restart=%d} : f32[16,1048576]
			output "y" %%1
		}`, chunk)
		k := scanKernel(b, source)
		for _, lanes := range []int{64, 128, 256, 512, 1024} {
			s := kernel.Lanes{Launch: kernel.Launch{Variant: kernel.VarScanGroup, Workgroup: lanes, Vec: 4,
				Subgroup: int(dev.Caps().SubgroupSize)}, LanesPerRow: lanes}
			if fits(k, s, dev.Caps()) == nil {
				b.Run(fmt.Sprintf("chunk=%d/lanes=%d", chunk, lanes), func(b *testing.B) { benchKernel(b, dev, k, s) })
			}
		}
	}
}

func scanKernel(b *testing.B, source string) *kernel.Kernel {
	kernels, _ := lowered(b, source)
	return kernels[len(kernels)-1]
}

// benchKernel times a kernel on buffers of its own, and returns the seconds per run.
func benchKernel(b *testing.B, dev *vk.Device, k *kernel.Kernel, s kernel.Schedule) float64 {
	ctx := context.Background()
	sh, err := glsl.Emit(k, s, dev.Caps(), nil)
	check(b, err)
	modules := compileAll(b, []spirv.Shader{{Name: "bench", Source: sh.Source}})
	pipeline, err := dev.NewPipeline(vk.PipelineDesc{Name: k.Name, Code: modules[0], Buffers: len(k.Bindings),
		SubgroupSize: sh.SubgroupSize, FullSubgroups: sh.SubgroupSize > 0})
	check(b, err)
	defer pipeline.Close()
	var ranges []vk.BufferRange
	bytes := int64(0)
	for _, bind := range k.Bindings {
		size, err := bind.DType.BytesFor(bind.Elems)
		check(b, err)
		buf, err := dev.NewBuffer(bind.Name, size, vk.DeviceMemory)
		check(b, err)
		defer buf.Close()
		ranges = append(ranges, vk.Whole(buf))
		bytes += size
	}
	bindings, err := dev.NewBindings([]vk.BindingSet{{Name: k.Name, Buffers: ranges}})
	check(b, err)
	defer bindings.Close()
	grid, err := sh.Grid.Eval(nil)
	check(b, err)
	list := dev.NewCommandList()
	list.BindPipeline(pipeline)
	list.Bind(bindings, 0)
	const repeats = 20
	for range repeats {
		list.Dispatch(grid[0], grid[1], grid[2])
		list.Barrier(vk.StageCompute, vk.StageCompute)
	}
	recording, err := dev.Record(k.Name, list)
	check(b, err)
	defer recording.Close()
	for range 50 { // until the clock has risen
		check(b, dev.Run(ctx, recording))
	}
	start := time.Now()
	for b.Loop() {
		check(b, dev.Run(ctx, recording))
	}
	each := time.Since(start).Seconds() / float64(b.N) / repeats
	b.ReportMetric(each*1e6, "µs")
	b.ReportMetric(float64(bytes)/each/1e9, "GB/s")
	b.ReportMetric(0, "ns/op")
	return each
}
