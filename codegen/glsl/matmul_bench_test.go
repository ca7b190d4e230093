package glsl_test

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// BenchmarkMatMul times matmuls on this machine's Vulkan device, under each schedule that package schedule would try,
// the chosen one first. The numbers in package schedule come from it.
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

// BenchmarkMatVec is BenchmarkMatMul for matmuls of one row.
func BenchmarkMatVec(b *testing.B) {
	dev := vktest.Device(b, vk.DeviceOptions{})
	for _, t := range []ir.DType{ir.F32, ir.F16, ir.Q8_0, ir.Q4_0} {
		benchSchedules(b, dev, t.String(), product{m: d(1), n: d(4096), k: d(4096), a: ir.F32, b: t, transB: true})
	}
	benchSchedules(b, dev, "columns", product{m: d(1), n: d(4096), k: d(4096), a: ir.F32, b: ir.F32})
}

func benchSchedules(b *testing.B, dev *vk.Device, name string, p product) {
	seen := map[kernel.Schedule]bool{}
	for _, c := range schedule.Candidates(p.kernel(), dev.Caps()) {
		if seen[c.Schedule] || fits(p.kernel(), c.Schedule, dev.Caps()) != nil {
			continue
		}
		seen[c.Schedule] = true
		b.Run(fmt.Sprintf("%s/%s", name, c.Schedule), func(b *testing.B) { benchProduct(b, dev, p, c.Schedule) })
	}
}

func benchProduct(b *testing.B, dev *vk.Device, p product, s kernel.Schedule) {
	each := benchKernel(b, dev, p.kernel(), s)
	b.ReportMetric(2*float64(p.m.Max())*float64(p.n.Max())*float64(p.k.Max())/each/1e9, "GFLOP/s")
}
