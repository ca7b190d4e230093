package glsl_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

// BenchmarkMatMul times products under each schedule that package target
// would try, the chosen one first, on the Vulkan device of this machine. The
// numbers in package target come from it.
func BenchmarkMatMul(b *testing.B) {
	dev := vktest.Device(b, vk.DeviceOptions{})
	for _, size := range []int{256, 1024} {
		n := d(size)
		benchSchedules(b, dev, fmt.Sprintf("f32/%d", size), product{m: n, n: n, k: n, a: ir.F32, b: ir.F32})
		benchSchedules(b, dev, fmt.Sprintf("q4_0/%d", size),
			product{m: n, n: n, k: n, a: ir.F32, b: ir.Q4_0, transB: true})
	}
	benchSchedules(b, dev, "f32/16x1024", product{m: d(16), n: d(1024), k: d(1024), a: ir.F32, b: ir.F32, transB: true})
}

// BenchmarkMatVec is BenchmarkMatMul for products of one row.
func BenchmarkMatVec(b *testing.B) {
	dev := vktest.Device(b, vk.DeviceOptions{})
	for _, t := range []ir.DType{ir.F32, ir.F16, ir.Q8_0, ir.Q4_0} {
		benchSchedules(b, dev, t.String(), product{m: d(1), n: d(4096), k: d(4096), a: ir.F32, b: t, transB: true})
	}
	benchSchedules(b, dev, "columns", product{m: d(1), n: d(4096), k: d(4096), a: ir.F32, b: ir.F32})
}

func benchSchedules(b *testing.B, dev *vk.Device, name string, p product) {
	seen := map[kernel.Schedule]bool{}
	for _, c := range target.Candidates(p.kernel(), dev.Caps()) {
		if seen[c.Schedule] || fits(p.kernel(), c.Schedule, dev.Caps()) != nil {
			continue
		}
		seen[c.Schedule] = true
		b.Run(fmt.Sprintf("%s/%s", name, c.Schedule), func(b *testing.B) { benchProduct(b, dev, p, c.Schedule) })
	}
}

func benchProduct(b *testing.B, dev *vk.Device, p product, s kernel.Schedule) {
	ctx := context.Background()
	k := p.kernel()
	sh, err := emit(k, s, dev.Caps(), nil)
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
	const repeats = 4
	for range repeats {
		list.Dispatch(grid[0], grid[1], grid[2])
		list.Barrier(vk.StageCompute, vk.StageCompute)
	}
	recording, err := dev.Record(k.Name, list)
	check(b, err)
	defer recording.Close()
	check(b, dev.Run(ctx, recording)) // the first run compiles on some drivers
	start := time.Now()
	for b.Loop() {
		check(b, dev.Run(ctx, recording))
	}
	each := time.Since(start).Seconds() / float64(b.N) / repeats
	b.ReportMetric(each*1e6, "µs")
	b.ReportMetric(2*float64(p.m.Max())*float64(p.n.Max())*float64(p.k.Max())/each/1e9, "GFLOP/s")
	b.ReportMetric(float64(bytes)/each/1e9, "GB/s")
	b.ReportMetric(0, "ns/op")
}
