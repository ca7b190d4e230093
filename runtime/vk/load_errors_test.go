package vk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/spv/spvtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// refuse loads a program that is to be refused, and returns the error.
func refuse(t *testing.T, d *vk.Device, f *fixture) error {
	t.Helper()
	e, err := d.Load(context.Background(), f.program, f.spirv, f.weights, vk.LoadOptions{})
	if err == nil {
		e.Close()
		t.Fatal("the program was loaded")
	}
	if live := d.Live(); len(live) != 0 {
		t.Errorf("left behind: %v", live)
	}
	return err
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q; want one that says %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error of several lines: %q", err)
	}
}

func TestLoadErrors(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	tests := map[string]struct {
		change func(*fixture)
		want   string
	}{
		"missing code": {func(f *fixture) { f.spirv = f.spirv[:1] }, "SPIR-V of 1 shaders for a program of 2"},
		"no code":      {func(f *fixture) { f.spirv[1] = nil }, "shader add: not SPIR-V: 0 bytes"},
		"deep workgroups": {func(f *fixture) {
			f.spirv[1] = spvtest.Assemble(spvtest.Shader, spvtest.Main, spvtest.LocalSize(1, 1, 60000), spvtest.End)
		}, "shader add: workgroups of [1 1 60000], the device's limits are"},
		"newer SPIR-V": {func(f *fixture) {
			f.spirv[1] = bytes.Clone(f.spirv[1])
			f.spirv[1][5] = 7
		}, "shader add: it is of SPIR-V 1.7, and a device of Vulkan"},
		"inconsistent":    {func(f *fixture) { f.program.Steps[2].Shader = 7 }, "no shader 7"},
		"state and input": {func(f *fixture) { f.buffer(kernel.BufState, "x", ir.ShapeOf(4)) }, "another input, weight or state has the name"},
		"large symbol": {func(f *fixture) { f.program.Symbols = []kernel.Symbol{{Name: "T", Bound: 1 << 33}} },
			"symbol T reaches 8589934592"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := chain(t, 10)
			test.change(f)
			wantError(t, refuse(t, d, f), `load graph "chain"`, test.want)
		})
	}
	if _, err := d.Load(context.Background(), nil, nil, nil, vk.LoadOptions{}); err == nil {
		t.Error("no program: want an error")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f, _ := weighted(t)
	if _, err := d.Load(ctx, f.program, f.spirv, f.weights, vk.LoadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	if live := d.Live(); len(live) != 0 {
		t.Errorf("left behind: %v", live)
	}
}

func TestLoadMissingWeights(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	f, _ := weighted(t)
	f.weights = mapSource{"c": tensor(ramp(0, 1), 1)}
	err := refuse(t, d, f)
	if list := (*ir.WeightError)(nil); !errors.As(err, &list) || len(list.Bad) != 2 ||
		!strings.Contains(err.Error(), "2 of 2 weights") ||
		!strings.Contains(list.Bad[0].Error(), `"a"`) || !strings.Contains(list.Bad[1].Error(), `"b"`) {
		t.Errorf("two weights that are missing: %v", err)
	}
	f.weights = mapSource{"a": tensor(ramp(0, 2000), 2000), "b": tensor(ramp(0, 4003), 4003)}
	wantError(t, refuse(t, d, f), "1 of 2 weights", `weight "a" is f32[2000], want f32[1000,2]`)
	f.weights = nil
	wantError(t, refuse(t, d, f), "no weights are given")
}

// TestLoadMismatch asks for more than the device has in every way at once.
func TestLoadMismatch(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	f := chain(t, 1000)
	f.program.Target = "nvidia-h100"
	s := &f.program.Shaders[0]
	s.Needs = []string{"flux", "int64"}
	s.Workgroup, s.SubgroupSize, s.SharedBytes = 1<<15, 512, 1<<23
	f.program.Shaders[1].Needs = []string{"flux"}
	f.program.Buffers[3].Offset = 4112
	f.program.Steps[0].Grid[2] = []kernel.GridFactor{{Extent: ir.D(1<<31 - 1), Tile: 1}}
	f.buffer(kernel.BufWeight, "giant", ir.ShapeOf(1<<38))
	f.program.Buffers[5].Segments = []kernel.Segment{{Weight: "giant", DType: ir.F32, Dims: []int{1 << 38}}}
	f.program.Steps[0].Binds[0].Buffer = 5
	f.program.ArenaBytes = 1 << 39
	d.ChangeCaps(func(i *vk.DeviceInfo) {
		i.Caps.MaxStorageBuffers, i.Caps.StorageAlignment = 2, 256
		i.Caps.MaxWorkgroupCount[2] = 65535
		i.Caps.MaxStorageRange, i.Caps.MaxAllocation, i.Caps.MaxBuffer = 1<<27, 1<<30, 1<<31
		i.Caps.Features.Int64 = false
	})
	err := refuse(t, d, f)
	wantError(t, err, "compiled for nvidia-h100", d.Caps().Name, "vkc compile --target auto",
		"feature flux (for kernel double, kernel add)", "feature int64 (for kernel double)",
		"workgroups of 32768", "subgroups of 512", "8388608 bytes of shared memory", "3 storage buffers for one kernel",
		"offsets that are not multiples of", "2147483647 workgroups in z (its limit is 65535)",
		"buffers of 1.0 TiB (a kernel can be given 128.0 MiB) (for weight giant)",
		"allocations of 1.0 TiB (its limit is 2.0 GiB) (for weight giant)",
		"allocations of 512.0 GiB (its limit is 2.0 GiB) (for the temporaries)")
	var mismatch *vk.MismatchError
	if !errors.As(err, &mismatch) || len(mismatch.Gaps) != 11 {
		t.Errorf("want a MismatchError with 11 gaps: %#v", err)
	}
}

// TestLoadManyUsers keeps the message short.
func TestLoadManyUsers(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	f := newFixture(t, "many")
	x := f.buffer(kernel.BufInput, "x", ir.ShapeOf(10))
	y := f.buffer(kernel.BufOutput, "y", ir.ShapeOf(10))
	for i := range 5 {
		f.program.Shaders = append(f.program.Shaders,
			kernel.Shader{Name: fmt.Sprint("k", i), Bindings: 2, Workgroup: 64,
				Needs: []string{"flux"}})
		f.spirv = append(f.spirv, shader(t, "double"))
		f.program.Steps = append(f.program.Steps,
			kernel.Step{Name: "s", Shader: i, Binds: []kernel.Bind{{Buffer: x}, {Buffer: y}}})
	}
	wantError(t, refuse(t, d, f), "feature flux (for kernel k0, kernel k1, kernel k2 and 2 more)")
}

// TestLoadSubgroupSize asks for each size the device says it has.
func TestLoadSubgroupSize(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	caps := d.Caps()
	load := func(size int) error {
		f := newFixture(t, "subgroups")
		y := f.buffer(kernel.BufOutput, "y", ir.ShapeOf(4))
		f.step("subgroup", false, kernel.GridFactor{Extent: ir.D(1), Tile: 1}, y)
		f.program.Shaders[0].SubgroupSize = size
		e, err := d.Load(context.Background(), f.program, f.spirv, nil, vk.LoadOptions{})
		if err != nil {
			return err
		}
		defer e.Close()
		if got := runProgram(t, e, nil, runtime.RunOptions{}).Outputs["y"].Bytes[0]; int(got) != size {
			t.Errorf("asked for subgroups of %d, got %d", size, got)
		}
		return nil
	}
	for size := caps.MinSubgroupSize; size <= min(caps.MaxSubgroupSize, 64); size *= 2 {
		if caps.MinSubgroupSize == caps.MaxSubgroupSize || caps.RequiredSubgroupSize && caps.Features.FullSubgroups {
			if err := load(int(size)); err != nil {
				t.Error(err)
			}
		}
	}
	wantError(t, load(int(caps.MaxSubgroupSize)*2), fmt.Sprintf("subgroups of %d", caps.MaxSubgroupSize*2))
}

func TestLoadOutOfMemory(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{BlockBytes: 1 << 12})
	f, _ := weighted(t)
	failed := 0
	for n := 0; ; n++ {
		lift := d.LimitAllocations(n)
		e, err := d.Load(context.Background(), f.program, f.spirv, f.weights, vk.LoadOptions{})
		lift()
		if err == nil {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		failed++
		var oom *vk.OutOfMemoryError
		if !errors.As(err, &oom) || !strings.Contains(oom.What, "buffer ") {
			t.Fatalf("after %d allocations: %v; want an OutOfMemoryError", n, err)
		}
		if live := d.Live(); len(live) != 0 {
			t.Fatalf("after %d allocations: left behind: %v", n, live)
		}
	}
	if failed == 0 {
		t.Error("nothing failed without memory")
	}
}

// TestLoadTooMuch is told at once that a program cannot fit, though each buffer would.
func TestLoadTooMuch(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	d.ChangeCaps(func(i *vk.DeviceInfo) {
		for h := range i.Heaps {
			i.Heaps[h].Size = 50 << 10
		}
	})
	f := chain(t, 1000) // 4 KB each
	for i := range 15 {
		f.buffer(kernel.BufState, fmt.Sprint("state", i), ir.ShapeOf(1000))
	}
	err := refuse(t, d, f)
	wantError(t, err, "the program as a whole (state 58.6 KiB, ", "use a smaller model")
	var oom *vk.OutOfMemoryError
	if !errors.As(err, &oom) || oom.Requested < 17*4000 || oom.InUse != 0 {
		t.Errorf("want an OutOfMemoryError of all buffers: %#v", err)
	}
}

func TestRunErrors(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	e := symbolic(t, 100).load(d)
	x := tensor(ramp(0, 16), 2, 8)
	u := map[string]int64{"U": 0}
	tests := map[string]struct {
		in      map[string]*ir.Data
		symbols map[string]int64
		want    string
	}{
		"missing":         {nil, u, `input "x" is missing, want f32[T,8]`},
		"unknown":         {map[string]*ir.Data{"x": x, "z": x}, u, `unknown input "z": the graph has x`},
		"nil":             {map[string]*ir.Data{"x": nil}, u, `input "x" is nil`},
		"dtype":           {map[string]*ir.Data{"x": {DType: ir.I32, Dims: x.Dims, Bytes: x.Bytes}}, u, `i32[2 8], want f32[T,8]`},
		"rank":            {inputs(ramp(0, 16)), u, `rank 1 is not 2`},
		"extent":          {inputs(ramp(0, 18), 2, 9), u, `is 9, not 8`},
		"over the bound":  {inputs(ramp(0, 808), 101, 8), u, `at most 100`},
		"short":           {map[string]*ir.Data{"x": {DType: ir.F32, Dims: x.Dims, Bytes: x.Bytes[:60]}}, u, `needs 64 bytes, have 60`},
		"no value":        {inputs(ramp(0, 16), 2, 8), nil, `symbol U has no value`},
		"disagreement":    {inputs(ramp(0, 16), 2, 8), map[string]int64{"U": 0, "T": 3}, `makes symbol T 2, but it is 3`},
		"unknown symbol":  {inputs(ramp(0, 16), 2, 8), map[string]int64{"V": 0}, `unknown symbol V`},
		"symbol's bound":  {inputs(ramp(0, 16), 2, 8), map[string]int64{"U": 10}, `outside 0..9`},
		"negative symbol": {inputs(ramp(0, 16), 2, 8), map[string]int64{"U": -1}, `outside 0..9`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := e.Run(context.Background(), test.in, runtime.RunOptions{Symbols: test.symbols})
			wantError(t, err, `run graph "symbolic"`, test.want)
		})
	}
	// After all that it still works.
	r := runProgram(t, e, map[string]*ir.Data{"x": x}, runtime.RunOptions{Symbols: u})
	expect(t, "y", r.Outputs["y"], ramp(2, 16))
}

// TestRunNegativeLength has a step, and then an output, with an extent that is negative for small lengths.
func TestRunNegativeLength(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	f := newFixture(t, "negative")
	f.program.Symbols = []kernel.Symbol{{Name: "T", Bound: 100}}
	whole := ir.Symbol("T", 100)
	less := whole.Plus(-2)
	x := f.buffer(kernel.BufInput, "x", ir.ShapeOf(98))
	y := f.buffer(kernel.BufOutput, "y", ir.ShapeOf(98))
	z := f.buffer(kernel.BufOutput, "z", ir.ShapeOf(98))
	f.step("double", false, kernel.GridFactor{Extent: whole, Tile: 50}, x, y)
	f.step("double", false, kernel.GridFactor{Extent: less, Tile: 64}, x, z)
	e := f.load(d)
	run := func(n int64, base float32) (map[string]*ir.Data, error) {
		r, err := e.Run(context.Background(), inputs(ramp(base, 98)),
			runtime.RunOptions{Symbols: map[string]int64{"T": n}})
		if err != nil {
			return nil, err
		}
		return r.Outputs, nil
	}
	for i := range 2 {
		out, err := run(100, float32(i))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "y", out["y"], scaled(ramp(float32(i), 98), 2))
		expect(t, "z", out["z"], scaled(ramp(float32(i), 98), 2))
		// Part of the grids are set when it fails; the next run sets them all again.
		_, err = run(1, 9)
		wantError(t, err, "step double 1", "T-2")
	}

	f.program.Outputs[1].Shape = ir.Shape{less}
	f.program.Buffers[z].Shape = ir.Shape{less}
	e = f.load(d)
	_, err := run(0, 0)
	wantError(t, err, "the extent T-2", "larger values of T")
}
