package vk

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// profiler is a second recording of the program, in which every step runs by itself, between two times.
type profiler struct {
	recording *Recording
	stamps    *Timestamps
}

// profiler returns the recording for profiles, made on first use, or nil where the device takes no times.
func (e *Executable) profiler() (*profiler, error) {
	if e.profile != nil || e.device.info.Caps.TimestampBits == 0 || len(e.runSteps()) == 0 {
		return e.profile, nil
	}
	stamps, err := e.device.NewTimestamps(len(e.runSteps()) + 1)
	if err != nil {
		return nil, err
	}
	e.keep(stamps)
	r, err := e.recordSteps("profile of "+e.program.Name, stamps, false)
	if err != nil {
		return nil, err
	}
	e.profile = &profiler{r, stamps}
	return e.profile, nil
}

// readProfile turns the times of the last run into a profile.
func (e *Executable) readProfile(p *profiler, symbols map[string]int64, log *runLog) (*runtime.Profile, error) {
	if p == nil {
		return &runtime.Profile{}, nil
	}
	times, err := p.stamps.Read(0, len(e.runSteps())+1)
	if err != nil {
		return nil, err
	}
	profile := &runtime.Profile{GPU: times[len(times)-1]}
	if err := log.place(profile, e.device, p.stamps); err != nil {
		return nil, err
	}
	for i := range e.runSteps() {
		s := &e.runSteps()[i]
		profile.Kernels = append(profile.Kernels, runtime.KernelTime{
			Name: s.Name, Ops: s.Ops, Schedule: s.Schedule, Start: times[i].Nanoseconds(), Nanos: max(times[i+1]-times[i], 0).Nanoseconds(),
			Flops: int64(float64(s.Flops) * gridShare(s.Grid, symbols)),
			Moved: int64(float64(s.Moved) * e.bytesShare(s, symbols)),
		})
	}
	return profile, nil
}

// The program counts operations and bytes at the bound of every symbol; these say which part of them there
// is at the lengths of a run.

// gridShare is the part of a step's points. A symbolic fold is counted as if it were at its bound.
func gridShare(g kernel.Grid, symbols map[string]int64) float64 {
	share := 1.0
	for _, factors := range g {
		for _, f := range factors {
			share *= dimShare(f.Extent, symbols)
		}
	}
	return share
}

// bytesShare is the part of the bytes in a step's buffers.
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
	return float64(d.Mul*symbols[d.Sym]+d.Add) / float64(d.Max())
}
