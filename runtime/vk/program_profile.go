package vk

import (
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// profiler is a second recording of the program. Every step runs alone, between two timestamps.
type profiler struct {
	recording *Recording
	stamps    *Timestamps
	steps     []int // in execution order; a step in a loop appears once per trip
}

// profiler returns the recording for profiles, made on first use. It is nil if the device has no timestamps.
func (e *Executable) profiler(symbols map[string]int64) (*profiler, error) {
	of := e.recorded.of(e, symbols)
	if of.profile != nil || e.device.info.Caps.TimestampBits == 0 || len(e.runSteps()) == 0 {
		return of.profile, nil
	}
	steps, err := e.ran(symbols)
	if err != nil {
		return nil, err
	}
	stamps, err := e.device.NewTimestamps(len(steps) + 1)
	if err != nil {
		return nil, err
	}
	r, err := e.recordSteps("profile of "+e.program.Name, e.bindings, symbols, stamps, nil, nil)
	if err != nil {
		_ = stamps.Close()
		return nil, err
	}
	of.profile = &profiler{r, stamps, steps}
	return of.profile, nil
}

// readProfile converts the timestamps of the last run to a profile.
func (e *Executable) readProfile(p *profiler, symbols map[string]int64, log *runLog) (*runtime.Profile, error) {
	if p == nil {
		return &runtime.Profile{}, nil
	}
	times, err := p.stamps.Read(0, len(p.steps)+1)
	if err != nil {
		return nil, err
	}
	profile := &runtime.Profile{GPU: times[len(times)-1]}
	if err := log.place(profile, e.device, p.stamps); err != nil {
		return nil, err
	}
	for i, step := range p.steps {
		s := &e.program.Steps[step]
		cost, err := e.cost(s)
		if err != nil {
			return nil, err
		}
		profile.Kernels = append(profile.Kernels, runtime.KernelTime{
			Name: s.Name, Ops: s.Ops, Schedule: s.Schedule, Start: times[i].Nanoseconds(),
			Nanos: max(times[i+1]-times[i], 0).Nanoseconds(),
			Flops: int64(float64(s.Flops) * gridShare(s.Grid, symbols)),
			Moved: int64(float64(s.Moved) * e.bytesShare(s, symbols)),
			Cost:  cost, PeakGFlops: 1e3 * e.peak(s), PeakGBps: e.machine.CopyGBps,
		})
	}
	return profile, nil
}

// cost returns the driver's statistics about a step's kernel, or nil if they were not captured.
func (e *Executable) cost(s *kernel.Step) (runtime.KernelCost, error) {
	p := e.pipelines[s.Shader]
	if p == nil || p.capture&CaptureStatistics == 0 {
		return nil, nil
	}
	return p.Cost()
}

// peak is the peak rate of the units that a step's kernel computes on, in 10^12 operations per second; 0 if unknown.
func (e *Executable) peak(s *kernel.Step) float64 {
	onUnits := func(need string) bool { return strings.HasPrefix(need, "cooperativeMatrix") }
	bytes := func(b kernel.Bind) bool { return e.program.Buffers[b.Buffer].DType == ir.I8 }
	switch {
	case !slices.ContainsFunc(e.program.Shaders[s.Shader].Needs, onUnits):
		return e.machine.VectorF32
	case slices.ContainsFunc(s.Binds, bytes):
		return e.machine.MatrixI8
	}
	return e.machine.MatrixF16
}

// The program counts operations and bytes at the bound of every symbol. gridShare and bytesShare scale them to the
// symbols of a run.

// gridShare is the fraction of a step's points. A fold over a symbolic extent still counts at its bound.
func gridShare(g kernel.Grid, symbols map[string]int64) float64 {
	share := 1.0
	for _, factors := range g {
		for _, f := range factors {
			share *= dimShare(f.Extent, symbols)
		}
	}
	return share
}

// bytesShare is the fraction of the bytes in a step's buffers.
func (e *Executable) bytesShare(s *kernel.Step, symbols map[string]int64) float64 {
	now, bound := 0.0, 0.0
	for _, bind := range s.Binds {
		b := &e.program.Buffers[bind.Buffer]
		share := 1.0
		for _, d := range b.Shape {
			share *= dimShare(d, symbols)
		}
		now += share * float64(b.Bytes)
		bound += float64(b.Bytes)
	}
	return now / max(bound, 1)
}

func dimShare(d ir.Dim, symbols map[string]int64) float64 {
	if d.IsStatic() || d.Max() <= 0 {
		return 1
	}
	now, err := d.Eval(symbols)
	if err != nil {
		return 1 // no run was bound with these symbols
	}
	return float64(now) / float64(d.Max())
}
