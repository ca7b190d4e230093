package vk_test

import (
	"errors"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// fourTimes computes y = 4*x in two steps, which a persistent kernel does. For negative numbers that sets the word for
// workgroups that have waited in vain.
func fourTimes(t *testing.T, n int) *fixture {
	f := newFixture(t, "four times")
	x, y := f.buffer(kernel.BufInput, "x", ir.ShapeOf(n)), f.buffer(kernel.BufOutput, "y", ir.ShapeOf(n))
	a := f.temp(n, 0)
	f.step("double", false, over(n), x, a)
	f.step("double", true, over(n), a, y)
	p := f.program
	words := func(kind kernel.BufferKind, n int) int {
		p.Buffers = append(p.Buffers,
			kernel.Buffer{Kind: kind, Name: string(kind), DType: ir.U32, Shape: ir.ShapeOf(n), Bytes: 16})
		return len(p.Buffers) - 1
	}
	meeting, late := words(kernel.BufBarrier, kernel.BarrierWords), words(kernel.BufLate, 1)
	p.Shaders = append(p.Shaders, kernel.Shader{Name: "late", Bindings: 4, Workgroup: 64})
	f.spirv = append(f.spirv, shader(t, "late"))
	p.Persistent = []kernel.Persistent{{Count: 2, Dispatch: kernel.Step{Name: "persistent_2", Shader: 1,
		Grid: kernel.Grid{{over(n)}}, Binds: []kernel.Bind{{Buffer: x, Read: true}, {Buffer: y, Write: true},
			{Buffer: meeting, Read: true, Write: true}, {Buffer: late, Read: true, Write: true}}}}}
	return f
}

// A persistent kernel runs in place of its steps. Once its workgroups have waited in vain, that run is an error, and so
// is every later one: whether it is waited for, or its outputs are read from the device.
func TestPersistentLate(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 200
	good, bad := ramp(1, n), scaled(ramp(1, n), -1)
	isLate := func(what string, err error) {
		t.Helper()
		if late := (*kernel.LateError)(nil); !errors.As(err, &late) {
			t.Errorf("%s: %v, want that workgroups waited in vain", what, err)
		}
	}
	e := fourTimes(t, n).load(d)
	if s := e.Stats(); s.Persistent != 1 || s.Steps != 2 {
		t.Fatalf("%d persistent kernels for %d steps", s.Persistent, s.Steps)
	}
	for range 2 {
		expect(t, "y", runProgram(t, e, inputs(good), runtime.RunOptions{}).Outputs["y"], scaled(good, 4))
	}
	_, err := e.Run(t.Context(), inputs(bad), runtime.RunOptions{})
	isLate("a run", err)
	_, err = e.Run(t.Context(), inputs(good), runtime.RunOptions{})
	isLate("the next run", err)

	e = fourTimes(t, n).load(d)
	kept := runProgram(t, e, inputs(bad), runtime.RunOptions{Keep: []string{"y"}}).Kept["y"]
	defer kept.Close()
	_, err = kept.Read(t.Context())
	isLate("a kept output", err)
	_, err = e.Run(t.Context(), inputs(good), runtime.RunOptions{Keep: []string{"y"}})
	isLate("a run after it", err)
}

// The trial of a persistent kernel leaves states that the program shares.
func TestPersistentSharesState(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 200
	stateful := func() *fixture {
		f := fourTimes(t, n)
		p := f.program
		p.States, p.Outputs = p.Outputs, nil
		p.Buffers[p.States[0].Buffer].Kind = kernel.BufState
		return f
	}
	first := stateful().load(d)
	if err := first.WriteState("y", tensor(ramp(7, n), n)); err != nil {
		t.Fatal(err)
	}
	f := stateful()
	e := closing(t, must(d.Load(t.Context(), f.program, f.spirv, nil, vk.LoadOptions{Share: first}))(t))
	expect(t, "y", must(e.ReadState("y"))(t), ramp(7, n))
	runProgram(t, e, inputs(ramp(1, n)), runtime.RunOptions{})
	expect(t, "y", must(first.ReadState("y"))(t), scaled(ramp(1, n), 4))
	if s := e.Stats(); s.Persistent != 1 {
		t.Errorf("%d persistent kernels, want one", s.Persistent)
	}
}

// A profile is of the steps, which run by themselves, and no workgroup waits.
func TestPersistentProfile(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 200
	bad := scaled(ramp(1, n), -1)
	e := fourTimes(t, n).load(d)
	r := runProgram(t, e, inputs(bad), runtime.RunOptions{Profile: true})
	expect(t, "y", r.Outputs["y"], scaled(bad, 4))
	if len(r.Profile.Kernels) != 2 {
		t.Errorf("a profile of %d kernels, want 2", len(r.Profile.Kernels))
	}
}
