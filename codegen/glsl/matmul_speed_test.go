package glsl_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestBlockMatMulSpeed prints times of matmuls of many f16 rows by weights in blocks, in tiles on cooperative matrices,
// whole and in parts of the contraction axis. The parts are not added up. The times are medians on the device's clock
// after 250 ms of work. It first compares some rows of the results with the reference, and prints their relative mean
// error.
//
//	go test ./codegen/glsl -run BlockMatMulSpeed -v -args -speed -rows 512 -size 4096x14336 -formats 'q4_0 q4_K'
func TestBlockMatMulSpeed(t *testing.T) {
	if !*speed {
		t.Skip("run with -args -speed")
	}
	dev := vktest.Device(t, vk.DeviceOptions{})
	var n, depth int
	if _, err := fmt.Sscanf(*speedSize, "%dx%d", &n, &depth); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	bench := &speedBench{dev: dev, n: n, depth: depth}
	defer bench.close(t)
	a := randomTensor(t, rand.New(rand.NewPCG(5, 6)), ir.F16, int64(*speedRows*depth))
	ready := make(chan *tilesTask, 4) // prepared while others are timed
	go func() {
		defer close(ready)
		for _, format := range strings.Fields(*speedFormats) {
			dt, err := ir.ParseDType(format)
			check(t, err)
			weights := randomTensor(t, rand.New(rand.NewPCG(7, 8)), dt, int64(distinctRows*depth))
			for _, precision := range []string{ir.PrecisionHalf, ir.PrecisionHalfSums} {
				for _, parts := range []int{2, 4} {
					if time.Since(start) < *speedLimit {
						ready <- newTilesTask(t, dev, dt, weights, n, depth, precision, parts)
					}
				}
			}
		}
	}()
	for task := range ready {
		if time.Since(start) < *speedLimit {
			bench.tiles(t, task, a)
			continue
		}
		for _, p := range task.pipelines {
			p.Close()
		}
	}
}

// tilesTask is a matmul in parts, by weights in planes, under all tiles.
type tilesTask struct {
	*speedTask
	precision string
	parts     int
}

func newTilesTask(t *testing.T, dev *vk.Device, dt ir.DType, weights tensor, n, depth int, precision string,
	parts int) *tilesTask {
	t.Helper()
	g, err := ir.Parse(fmt.Sprintf(`graph "g" {
		%%a = input {name="a", dtype=f16, shape=[%[1]d,%[3]d]}
		%%b = weight {name="b", dtype=%[4]s, shape=[%[2]d,%[3]d]}
		%%x = cast %%a {dtype=f32}
		%%w = dequantize %%b {dtype=f32}
		%%y = matmul %%x, %%w {transpose_b=true, precision="%[5]s"}
		output "y" %%y
	}`, *speedRows, n, depth, dt, precision))
	check(t, err)
	s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Parts: func(*kernel.Kernel) int { return parts }}})
	check(t, err)
	k := s.Kernels[0]
	for i := range k.Bindings {
		if b := &k.Bindings[i]; b.DType == dt {
			b.Layout = kernel.LayoutPlanes
		}
	}
	task := &speedTask{speedLine: speedLine{dtype: dt}, k: k, weights: weights, p: product{layout: kernel.LayoutPlanes}}
	// Subgroups along rows and columns, and the fragments that each has along rows, columns and a step.
	for _, tile := range [][5]int{{4, 2, 4, 4, 1}, {2, 4, 8, 2, 1}, {2, 2, 4, 4, 1}, {2, 4, 4, 2, 2}, {4, 2, 4, 8, 1},
		{2, 4, 8, 4, 1}, {2, 2, 4, 4, 2}} {
		if sch, ok := coopMat(dev.Caps(), ir.F16, tile[0], tile[1], tile[2], tile[3], tile[4]); ok &&
			fits(k, sch, dev.Caps()) == nil {
			task.schedules = append(task.schedules, sch)
		}
	}
	task.compile(t, dev)
	return &tilesTask{task, precision, parts}
}

// tiles times all schedules of a task.
func (b *speedBench) tiles(t *testing.T, task *tilesTask, a tensor) {
	if b.weights == nil || b.dtype != task.dtype {
		b.close(t)
		b.dtype, b.weights = task.dtype, []*vk.Buffer{b.buffer(t, "b", task.repeated(b.n/distinctRows))}
	}
	var ranges []vk.BufferRange
	var out *vk.Buffer
	for _, bind := range task.k.Bindings {
		buf := b.weights[0]
		switch {
		case bind.Write:
			out = b.buffer(t, bind.Name, make([]byte, 4*bind.Elems))
			buf = out
		case bind.Codebook != ir.Invalid:
			buf = b.buffer(t, bind.Name, quant.Codebook(bind.Codebook).Bytes)
		case bind.DType == ir.F16:
			buf = b.buffer(t, bind.Name, a.bytes)
		}
		if buf != b.weights[0] {
			defer buf.Close()
		}
		ranges = append(ranges, vk.Whole(buf))
	}
	for i, s := range task.schedules { // time closes their pipelines
		for at := range b.sampled(task) { // NaN: no schedule passes with another's results
			check(t, b.dev.Upload(context.Background(), out, at, bytes.Repeat([]byte{0xff}, 4*b.n)))
		}
		each := b.time(t, task.speedTask, i, [][]vk.BufferRange{ranges}, time.Hour)
		off := b.error(t, task, out, a)
		verdict := ""
		if !(off < map[string]float64{ir.PrecisionHalf: 2e-3, ir.PrecisionHalfSums: 3e-2}[task.precision]) {
			verdict = " WRONG"
			t.Errorf("%s %s: error %g", task.dtype, s, off)
		}
		flops := 2 * float64(*speedRows) * float64(b.n) * float64(b.depth)
		fmt.Printf("%-7s %-9s by %d %8.1f us %6.1f TFLOP/s error %.1e  %s%s\n", task.dtype, task.precision, task.parts,
			each.Seconds()*1e6, flops/each.Seconds()/1e12, off, s, verdict)
	}
}

// sampled yields the sampled rows of the results: the first, a middle and the last row of each part. at is the row's
// offset in bytes.
func (b *speedBench) sampled(task *tilesTask) func(func(at int64, row int) bool) {
	return func(yield func(at int64, row int) bool) {
		for _, row := range []int{0, *speedRows / 3, *speedRows - 1} {
			for part := range task.parts {
				if !yield(int64(4*(part**speedRows+row)*b.n), row) {
					return
				}
			}
		}
	}
}

// error is the mean error of the sampled rows, relative to their mean size. It adds up the parts of the contraction
// axis.
func (b *speedBench) error(t *testing.T, task *tilesTask, out *vk.Buffer, a tensor) float64 {
	t.Helper()
	got := map[int][]float64{} // by row
	raw, part := make([]byte, 4*b.n), make([]float64, b.n)
	for at, row := range b.sampled(task) {
		check(t, b.dev.Download(context.Background(), raw, out, at))
		ir.DecodeFloats(part, ir.F32, raw)
		if got[row] == nil {
			got[row] = make([]float64, b.n)
		}
		for i, v := range part {
			got[row][i] += v
		}
	}
	var errors, values float64
	for row, sums := range got {
		want := make([]float64, distinctRows)
		for i := range want {
			for j := range b.depth {
				want[i] += a.values[row*b.depth+j] * task.weights.values[i*b.depth+j]
			}
		}
		for i, v := range sums {
			w := want[i%distinctRows]
			errors += (v - w) * (v - w)
			values += w * w
		}
	}
	return math.Sqrt(errors / values)
}
