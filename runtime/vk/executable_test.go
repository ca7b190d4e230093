package vk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

//go:generate glslc --target-env=vulkan1.2 -O -o testdata/double.spv testdata/double.comp
//go:generate glslc --target-env=vulkan1.2 -O -o testdata/add.spv testdata/add.comp
//go:generate glslc --target-env=vulkan1.2 -O -o testdata/rows.spv testdata/rows.comp
//go:generate glslc --target-env=vulkan1.2 -O -o testdata/stray.spv testdata/stray.comp
//go:generate glslc --target-env=vulkan1.2 -O -o testdata/accumulate.spv testdata/accumulate.comp

// fixture assembles programs by hand.
type fixture struct {
	t       testing.TB
	program *kernel.Program
	spirv   [][]byte
	weights ir.WeightSource
}

func newFixture(t testing.TB, name string) *fixture {
	return &fixture{t: t, program: &kernel.Program{Name: name, Target: "test"}}
}

// buffer adds a buffer of f32, and a port for it where its kind has ports.
func (f *fixture) buffer(kind kernel.BufferKind, name string, shape ir.Shape) int {
	f.t.Helper()
	p := f.program
	n := 4 * shape.MaxElems()
	b := kernel.Buffer{Kind: kind, Name: name, DType: ir.F32, Shape: shape, Bytes: max((n+15)/16*16, 16)}
	if kind == kernel.BufParams {
		b.DType = ir.U32
	}
	p.Buffers = append(p.Buffers, b)
	i := len(p.Buffers) - 1
	port := kernel.Port{Name: name, Buffer: i, DType: ir.F32, Shape: shape}
	switch kind {
	case kernel.BufInput:
		p.Inputs = append(p.Inputs, port)
	case kernel.BufOutput:
		p.Outputs = append(p.Outputs, port)
	case kernel.BufState:
		p.States = append(p.States, port)
	}
	return i
}

// temp adds a temporary of n elements at an offset of the arena.
func (f *fixture) temp(n int, offset int64) int {
	i := f.buffer(kernel.BufTemp, fmt.Sprint("temp", n), ir.ShapeOf(n))
	b := &f.program.Buffers[i]
	b.Offset = offset
	f.program.ArenaBytes = max(f.program.ArenaBytes, offset+b.Bytes)
	return i
}

// step adds a dispatch of one of the shaders in testdata, each of 64 invocations and with its last binding
// written. Its grid covers elems elements.
func (f *fixture) step(name string, barrier bool, elems kernel.GridFactor, buffers ...int) {
	f.t.Helper()
	p := f.program
	i := slices.IndexFunc(p.Shaders, func(s kernel.Shader) bool { return s.Name == name })
	if i < 0 {
		i = len(p.Shaders)
		p.Shaders = append(p.Shaders, kernel.Shader{Name: name, Bindings: len(buffers), Workgroup: 64})
		f.spirv = append(f.spirv, shader(f.t, name))
	}
	s := kernel.Step{Name: fmt.Sprint(name, " ", len(p.Steps)), Shader: i, Barrier: barrier,
		Grid: kernel.Grid{{elems}}, Ops: []string{name}, Schedule: "map wg=64", Flops: 1000}
	for j, b := range buffers {
		last := j == len(buffers)-1
		s.Binds = append(s.Binds, kernel.Bind{Buffer: b, Write: last, Read: !last || name == "accumulate"})
		s.Moved += p.Buffers[b].Bytes
	}
	p.Steps = append(p.Steps, s)
}

// over is the grid of 64 elements per workgroup over n elements.
func over(n int) kernel.GridFactor { return kernel.GridFactor{Extent: ir.D(n), Tile: 64} }

func (f *fixture) load(d *vk.Device) *vk.Executable {
	f.t.Helper()
	return closing(f.t, must(d.Load(context.Background(), f.program, f.spirv, f.weights, vk.LoadOptions{}))(f.t))
}

// chain computes y = 12*x with temporaries. The third one reuses the memory of the first.
func chain(t testing.TB, n int) *fixture {
	f := newFixture(t, "chain")
	x := f.buffer(kernel.BufInput, "x", ir.ShapeOf(n))
	y := f.buffer(kernel.BufOutput, "y", ir.ShapeOf(n))
	step := int64(4*n+255) / 256 * 256
	a, b, c := f.temp(n, 0), f.temp(n, step), f.temp(n, 0)
	f.step("double", false, over(n), x, a)
	f.step("double", true, over(n), a, b)
	f.step("double", true, over(n), b, c)
	f.step("add", true, over(n), b, c, y)
	return f
}

// counter keeps the sum of all x so far, which is its output too.
func counter(t testing.TB, n int) *fixture {
	f := newFixture(t, "counter")
	x := f.buffer(kernel.BufInput, "x", ir.ShapeOf(n))
	s := f.buffer(kernel.BufState, "sum", ir.ShapeOf(n))
	y := f.buffer(kernel.BufOutput, "twice", ir.ShapeOf(n))
	f.step("accumulate", false, over(n), x, s)
	f.step("double", true, over(n), s, y)
	return f
}

// symbolic adds T to every element of x[T,8], for T up to bound; U is an idle symbol.
func symbolic(t testing.TB, bound int) *fixture {
	f := newFixture(t, "symbolic")
	f.program.Symbols = []kernel.Symbol{{Name: "U", Bound: 9}, {Name: "T", Bound: int64(bound)}}
	rows := ir.Symbol("T", bound)
	params := f.buffer(kernel.BufParams, "params", ir.ShapeOf(2))
	x := f.buffer(kernel.BufInput, "x", ir.Shape{rows, ir.D(8)})
	y := f.buffer(kernel.BufOutput, "y", ir.Shape{rows, ir.D(8)})
	f.step("rows", false, kernel.GridFactor{Extent: rows, Tile: 8}, params, x, y)
	return f
}

// ramp is base, base+1, …
func ramp(base float32, n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = base + float32(i)
	}
	return values
}

func scaled(values []float32, by float32) []float32 {
	out := slices.Clone(values)
	for i := range out {
		out[i] *= by
	}
	return out
}

func tensor(values []float32, dims ...int) *ir.Data {
	return &ir.Data{DType: ir.F32, Dims: dims, Bytes: floatBytes(values)}
}

func inputs(values []float32, dims ...int) map[string]*ir.Data {
	if len(dims) == 0 {
		dims = []int{len(values)}
	}
	return map[string]*ir.Data{"x": tensor(values, dims...)}
}

func runProgram(t testing.TB, e *vk.Executable, in map[string]*ir.Data, opt runtime.RunOptions) *runtime.Result {
	t.Helper()
	return must(e.Run(context.Background(), in, opt))(t)
}

func expect(t testing.TB, what string, got *ir.Data, want []float32) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s: no such tensor", what)
	}
	if err := got.Check(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if bytes.Equal(got.Bytes, floatBytes(want)) {
		return
	}
	if have := floats(got.Bytes); !slices.Equal(have, want) {
		for i := range min(len(have), len(want)) {
			if have[i] != want[i] {
				t.Fatalf("%s: element %d of %d is %v; want %v of %d", what, i, len(have), have[i], want[i], len(want))
			}
		}
		t.Fatalf("%s: %d elements; want %d", what, len(have), len(want))
	}
}

// placements are the ways to copy inputs and outputs to a device: without staging, and, as on a discrete GPU, with
// staging buffers of a program or in chunks through the device's staging rings.
var placements = map[string]vk.DeviceOptions{
	"direct":  {},
	"staged":  vk.ForceStaging(vk.DeviceOptions{StagingBytes: 1 << 20}),
	"chunked": vk.ForceStaging(vk.DeviceOptions{StagingBytes: 1 << 14}),
}

func TestProgramChain(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n = 1003
			e := chain(t, n).load(d)
			for i := range 5 {
				x := ramp(float32(i), n)
				expect(t, "y", runProgram(t, e, inputs(x), runtime.RunOptions{}).Outputs["y"], scaled(x, 12))
			}
			s := e.Stats()
			if s.Recordings != 1 || s.Steps != 4 || s.Pipelines != 2 || s.CacheErr != nil {
				t.Errorf("after 5 runs: %+v", s)
			}
			const tensor = (4*n + 15) / 16 * 16
			if got, want := s.Bytes[kernel.BufTemp], int64(4096+tensor); got != want {
				t.Errorf("the arena has %d bytes; want %d", got, want)
			}
			if name == "staged" && s.StagingBytes != 2*tensor {
				t.Errorf("%d bytes of staging memory; want %d", s.StagingBytes, 2*tensor)
			}
			if name == "direct" && d.Caps().Type == device.DeviceCPU && s.StagingBytes != 0 {
				t.Errorf("%d bytes of staging memory where none is needed", s.StagingBytes)
			}
			if text := e.Device(); !strings.Contains(text, d.Caps().Name) {
				t.Errorf("device %q", text)
			}
		})
	}
}

// TestProgramLengths runs one recording of the steps at many lengths. With the smaller bound all runs copy the same
// bytes, so copies and steps become a group. With the larger bound the copies are recorded again for each length.
// Copies in chunks are in no recording.
func TestProgramLengths(t *testing.T) {
	for name, options := range placements {
		for _, bound := range []int{100, 5000} {
			t.Run(fmt.Sprint(name, bound), func(t *testing.T) {
				d := vktest.Device(t, options)
				e := symbolic(t, bound).load(d)
				for _, n := range []int{bound, 0, 1, 7, 8, 9, 99, 99, 0, 64, bound, 3, bound - 1} {
					x := ramp(float32(n)/2, 8*n)
					r := runProgram(t, e, inputs(x, n, 8),
						runtime.RunOptions{Symbols: map[string]int64{"U": int64(n % 10)}})
					y := r.Outputs["y"]
					if !slices.Equal(y.Dims, []int{n, 8}) {
						t.Errorf("T=%d: output of shape %v", n, y.Dims)
					}
					for i := range x {
						x[i] += float32(n)
					}
					expect(t, fmt.Sprintf("y at T=%d", n), y, x)
				}
				if n := e.Stats().Recordings; n != 1 {
					t.Errorf("the steps were recorded %d times; want once", n)
				}
				want := 1
				switch {
				case name == "staged" && bound == 5000:
					want = 3 // with copies of inputs and of outputs
				case name != "direct" && bound == 100:
					want = 4 // and the group
				}
				if n := d.Live()["recording"]; n != want && d.Caps().UnifiedMemory {
					t.Errorf("%d recordings; want %d", n, want)
				}
			})
		}
	}
}

func TestProgramStates(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			const n = 300
			d := vktest.Device(t, options)
			// Memory that was used before is not zero by itself.
			f := counter(t, n)
			used := must(d.Load(context.Background(), f.program, f.spirv, nil, vk.LoadOptions{}))(t)
			if err := used.WriteState("sum", tensor(ramp(1, n), n)); err != nil {
				t.Fatal(err)
			}
			used.Close()
			e := f.load(d)
			state := func(want []float32) {
				t.Helper()
				expect(t, "state", must(e.ReadState("sum"))(t), want)
			}
			zero := make([]float32, n)
			state(zero)
			x := ramp(1, n)
			for i := range 4 {
				r := runProgram(t, e, inputs(x), runtime.RunOptions{})
				expect(t, "twice", r.Outputs["twice"], scaled(x, 2*float32(i+1)))
			}
			state(scaled(x, 4))
			if err := e.WriteState("sum", tensor(ramp(7, n), n)); err != nil {
				t.Fatal(err)
			}
			state(ramp(7, n))
			runProgram(t, e, inputs(zero), runtime.RunOptions{})
			state(ramp(7, n))
			if err := e.ResetStates(); err != nil {
				t.Fatal(err)
			}
			state(zero)

			if _, err := e.ReadState("x"); err == nil ||
				!strings.Contains(err.Error(), `no state "x": the program has sum`) {
				t.Errorf("reading what is no state: %v", err)
			}
			if err := e.WriteState("sum", tensor(ramp(0, 3), 3)); err == nil ||
				!strings.Contains(err.Error(), "f32[3]") {
				t.Errorf("writing a state of another shape: %v", err)
			}
		})
	}
}

// counters keeps the sum of all x so far in each of several states.
func counters(t testing.TB, n, states int) *fixture {
	f := newFixture(t, "counters")
	x := f.buffer(kernel.BufInput, "x", ir.ShapeOf(n))
	for i := range states {
		f.step("accumulate", false, over(n), x, f.buffer(kernel.BufState, fmt.Sprint("sum ", i), ir.ShapeOf(n)))
	}
	return f
}

// TestNoRoomToCopyStates: a program is rejected before it is loaded, if there is no memory for the copies of states.
func TestNoRoomToCopyStates(t *testing.T) {
	const n = 1 << 18
	d := vktest.Device(t, vk.DeviceOptions{MemoryLimit: 14 * n}) // an input or state has 4*n bytes
	first, f := counters(t, n, 1).load(d), counters(t, n, 1)
	_, err := d.Load(t.Context(), f.program, f.spirv, nil, vk.LoadOptions{Share: first})
	if want := "with 1.0 MiB for copies of states"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want an error %s", err, want)
	}
}

// TestSharedStatesAtLoad: the kernels' first runs leave the states that a program shares, and copy no more of them at a
// time than one kernel writes.
func TestSharedStatesAtLoad(t *testing.T) {
	const n, states = 1 << 14, 8
	d := vktest.Device(t, vk.DeviceOptions{})
	first, x := counters(t, n, states).load(d), ramp(1, n)
	runProgram(t, first, inputs(x), runtime.RunOptions{})
	f := counters(t, n, states)
	e := closing(t, must(d.Load(t.Context(), f.program, f.spirv, nil, vk.LoadOptions{Share: first}))(t))
	if s := d.MemoryStats(); s.Peak-s.InUse > 4*n {
		t.Errorf("loading took %d bytes more than is in use, want at most a state of %d", s.Peak-s.InUse, 4*n)
	}
	runProgram(t, e, inputs(x), runtime.RunOptions{})
	for i := range states {
		expect(t, "state", must(first.ReadState(fmt.Sprint("sum ", i)))(t), scaled(x, 2))
	}
}

// mapSource is weights by name.
type mapSource map[string]*ir.Data

func (m mapSource) Weight(name string) (*ir.Data, error) {
	if d, ok := m[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("no weight %q", name)
}

// weighted adds to x a buffer of two weights around a constant, 2000, 3 and 4003 elements.
func weighted(t testing.TB) (f *fixture, want []float32) {
	const n, first, second = 6006, 2000, 2003
	f = newFixture(t, "weighted")
	x := f.buffer(kernel.BufInput, "x", ir.ShapeOf(n))
	w := f.buffer(kernel.BufWeight, "w", ir.ShapeOf(n))
	y := f.buffer(kernel.BufOutput, "y", ir.ShapeOf(n))
	f.step("add", false, over(n), x, w, y)
	want = append(append(ramp(1, first), 5, 6, 7), ramp(-9, n-second)...)
	f.weights = mapSource{"a": tensor(want[:first], 1000, 2), "b": tensor(want[second:], n-second)}
	f.program.Buffers[w].Segments = []kernel.Segment{
		{Weight: "a", DType: ir.F32, Dims: []int{1000, 2}},
		{DType: ir.F32, Dims: []int{3}, Data: floatBytes(want[first:second])},
		{Weight: "b", DType: ir.F32, Dims: []int{n - second}},
	}
	return f, want
}

func TestProgramWeights(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			f, want := weighted(t)
			var seen []int64
			last := map[runtime.Stage]runtime.Progress{}
			e := must(d.Load(context.Background(), f.program, f.spirv, f.weights,
				vk.LoadOptions{Progress: func(p runtime.Progress) {
					if was := last[p.Stage]; p.Done > p.Total || p.Done <= was.Done ||
						was.Total != 0 && p.Total != was.Total {
						t.Errorf("progress %+v after %+v", p, was)
					}
					last[p.Stage] = p
					if p.Stage == runtime.StageWeights {
						seen = append(seen, p.Done)
					}
				}}))(t)
			for stage, total := range map[runtime.Stage]int64{
				runtime.StageWeights: f.program.Buffers[1].Bytes, runtime.StagePipelines: int64(len(f.spirv)), runtime.StageWarm: int64(len(f.spirv)),
			} {
				if p := last[stage]; p.Done != total || p.Total != total {
					t.Errorf("%s ended at %d of %d, want %d", stage, p.Done, p.Total, total)
				}
			}
			closing(t, e)
			r := runProgram(t, e, inputs(make([]float32, len(want))), runtime.RunOptions{})
			expect(t, "y", r.Outputs["y"], want)
			if !slices.IsSorted(seen) || len(seen) == 0 || seen[len(seen)-1] != f.program.Buffers[1].Bytes {
				t.Errorf("progress %v", seen)
			}
			if name == "chunked" && len(seen) < 4 {
				t.Errorf("the upload was told of %d times; want one for each piece", len(seen))
			}
		})
	}
}

func TestProgramOutputs(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			const n = 70
			f := chain(t, n)
			z := f.buffer(kernel.BufOutput, "z", ir.ShapeOf(n))
			f.step("double", true, over(n), 1, z)
			again := f.program.Outputs[0]
			again.Name = "again" // a second name for y
			f.program.Outputs = append(f.program.Outputs, again)
			e := f.load(vktest.Device(t, options))
			x := ramp(3, n)
			r := runProgram(t, e, inputs(x), runtime.RunOptions{})
			if len(r.Outputs) != 3 {
				t.Errorf("%d outputs", len(r.Outputs))
			}
			expect(t, "y", r.Outputs["y"], scaled(x, 12))
			expect(t, "again", r.Outputs["again"], scaled(x, 12))
			expect(t, "z", r.Outputs["z"], scaled(x, 24))
			// Results belong to the caller: another run leaves them alone.
			runProgram(t, e, inputs(ramp(0, n)), runtime.RunOptions{})
			expect(t, "y after another run", r.Outputs["y"], scaled(x, 12))
		})
	}
}

func TestProgramProfile(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	e := chain(t, 5000).load(d)
	x := ramp(0, 5000)
	for range 2 {
		r := runProgram(t, e, inputs(x), runtime.RunOptions{Profile: true})
		expect(t, "y", r.Outputs["y"], scaled(x, 12))
		p := r.Profile
		if p == nil || p.Wall <= 0 {
			t.Fatalf("profile %+v", p)
		}
		if d.Caps().TimestampBits == 0 {
			t.Skip("the device takes no timestamps")
		}
		if p.GPU <= 0 || p.GPU > p.Wall || len(p.Kernels) != 4 {
			t.Fatalf("%d kernels in %v of %v", len(p.Kernels), p.GPU, p.Wall)
		}
		if sum := p.Busy(); sum != p.GPU {
			t.Errorf("the kernels took %v together, the program %v", sum, p.GPU)
		}
		k := p.Kernels[3]
		if k.Name != "add 3" || k.Schedule != "map wg=64" || k.Flops != 1000 || k.Moved != 3*20000 ||
			!slices.Equal(k.Ops, []string{"add"}) {
			t.Errorf("the last kernel is %+v", k)
		}
	}
	if r := runProgram(t, e, inputs(x), runtime.RunOptions{}); r.Profile != nil {
		t.Error("a profile that was not asked for")
	}
	if n := e.Stats().Recordings; n != 2 {
		t.Errorf("%d recordings; want one for runs and one for profiles", n)
	}
}

// TestProgramProfileAtLength: the profile scales the kernels' work with the run's extents.
func TestProgramProfileAtLength(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	if d.Caps().TimestampBits == 0 {
		t.Skip("the device takes no timestamps")
	}
	e := symbolic(t, 100).load(d)
	r := runProgram(t, e, inputs(ramp(0, 80), 10, 8),
		runtime.RunOptions{Profile: true, Symbols: map[string]int64{"U": 0}})
	k := r.Profile.Kernels[0]
	if k.Flops != 100 || math.Abs(float64(k.Moved)-(640+16)) > 1 {
		t.Errorf("at a tenth of the bound: %d operations, %d bytes; want 100 and 656", k.Flops, k.Moved)
	}
}

func TestProgramWithoutSteps(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	f := newFixture(t, "empty")
	e := f.load(d)
	for _, profile := range []bool{false, true} {
		r := runProgram(t, e, nil, runtime.RunOptions{Profile: profile})
		if len(r.Outputs) != 0 || (r.Profile != nil) != profile {
			t.Errorf("result %+v", r)
		}
	}
	if err := e.ResetStates(); err != nil {
		t.Error(err)
	}
}

// TestProgramEmptyGrid has steps of no workgroups, static and symbolic, among others.
func TestProgramEmptyGrid(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 64
	f := chain(t, n)
	// They would spoil y = x*12.
	f.step("double", true, over(0), 0, 1)
	f.step("double", false, kernel.GridFactor{Extent: ir.Symbol("T", 5), Tile: 1}, 0, 1)
	f.program.Symbols = []kernel.Symbol{{Name: "T", Bound: 5}}
	e := f.load(d)
	x := ramp(1, n)
	r := runProgram(t, e, inputs(x), runtime.RunOptions{Symbols: map[string]int64{"T": 0}, Profile: true})
	expect(t, "y", r.Outputs["y"], scaled(x, 12))
	r = runProgram(t, e, inputs(x), runtime.RunOptions{Symbols: map[string]int64{"T": 1}})
	expect(t, "y", r.Outputs["y"], scaled(x, 2))
}

func TestProgramPipelineCache(t *testing.T) {
	dir := t.TempDir()
	d := vktest.Device(t, vk.DeviceOptions{CacheDir: dir})
	if s := chain(t, 10).load(d).Stats(); s.CacheErr != nil {
		t.Error(s.CacheErr)
	}
	if _, err := os.Stat(d.CachePath()); err != nil && d.Caps().Type == device.DeviceCPU {
		t.Errorf("no cache after loading: %v", err)
	}
	blocked := dir + "/file"
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d = vktest.Device(t, vk.DeviceOptions{CacheDir: blocked})
	e := chain(t, 10).load(d)
	if e.Stats().CacheErr == nil {
		t.Error("a cache in a folder that is a file: want Stats.CacheErr")
	}
	expect(t, "y", runProgram(t, e, inputs(ramp(0, 10)), runtime.RunOptions{}).Outputs["y"], scaled(ramp(0, 10), 12))
}

func TestProgramLostDevice(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	e := chain(t, 10).load(d)
	if err := d.MarkLost(); !errors.Is(err, vk.ErrDeviceLost) {
		t.Fatal(err)
	}
	if _, err := e.Run(context.Background(), inputs(ramp(0, 10)), runtime.RunOptions{}); !errors.Is(err,
		vk.ErrDeviceLost) {
		t.Errorf("run on a lost device: %v", err)
	}
	if _, err := d.Load(context.Background(), newFixture(t, "late").program, nil, nil,
		vk.LoadOptions{}); !errors.Is(err, vk.ErrDeviceLost) {
		t.Errorf("load on a lost device: %v", err)
	}
}
