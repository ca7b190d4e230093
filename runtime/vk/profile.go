package vk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// profiler is a recording of the program for profiles: every step runs alone, between two timestamps.
type profiler struct {
	recording *Recording
	stamps    *Timestamps
	steps     []int // indices of steps in execution order; a step in a loop appears once per trip
}

// profiler returns the recording for profiles, and makes it at the first call. It returns nil if the device has no
// timestamps or the program has no steps.
func (rec *recorder) profiler(symbols map[string]int64) *profiler {
	cached := rec.own.find(rec.pathOf(symbols))
	if cached.profile != nil || rec.device.info.Caps.TimestampBits == 0 || rec.stats.Steps == 0 {
		return cached.profile
	}
	steps := rec.unrolled(symbols)
	stamps := bailout.Must(rec.device.NewTimestamps(len(steps) + 1))
	c := rec.device.NewCommandList()
	rec.recordList(c, rec.own.bindings, symbols, steps, stamps)
	r, err := rec.finish("profile of "+rec.program.Name, c)
	if err != nil {
		_ = stamps.Close()
		bailout.Check(err)
	}
	cached.profile = &profiler{r, stamps, steps}
	return cached.profile
}

// readProfile makes the profile of the last run, from its timestamps and the log of the host's work.
func (rec *recorder) readProfile(p *profiler, symbols map[string]int64, log *runLog) *runtime.Profile {
	if p == nil {
		return &runtime.Profile{}
	}
	// Step i runs from time i to time i+1.
	times := bailout.Must(p.stamps.Read(0, len(p.steps)+1))
	profile := &runtime.Profile{GPU: times[len(times)-1]}
	log.align(profile, rec.device, p.stamps)
	for i, step := range p.steps {
		s := bailout.Must(rec.program.Steps[step].For(symbols))
		cost := rec.cost(s)
		profile.Kernels = append(profile.Kernels, runtime.KernelTime{
			Name: s.Name, Ops: s.Ops, Schedule: s.Schedule, Start: times[i].Nanoseconds(),
			Nanos: max(times[i+1]-times[i], 0).Nanoseconds(),
			Flops: int64(float64(s.Flops) * gridShare(rec.program.Steps[step].Grid, symbols)),
			Moved: int64(float64(s.Moved) * rec.bytesShare(s, symbols)),
			Cost:  cost, PeakGFlops: 1e3 * rec.peak(s), PeakGBps: rec.machine.CopyGBps,
		})
	}
	return profile
}

// cost returns the driver's statistics about a step's kernel, or nil if they were not captured.
func (rec *recorder) cost(s kernel.Step) runtime.KernelCost {
	p := rec.pipelines[s.Shader]
	if p == nil || p.capture&CaptureStatistics == 0 {
		return nil
	}
	return bailout.Must(p.Cost())
}

// peak returns the peak rate of the arithmetic units that a step's kernel uses (tensor cores or not), in 10^12
// operations per second, or 0 if unknown.
func (rec *recorder) peak(s kernel.Step) float64 {
	isMatrix := func(feature string) bool { return strings.HasPrefix(feature, "cooperativeMatrix") }
	isInt8 := func(b kernel.Bind) bool { return rec.program.Buffers[b.Buffer].DType == ir.I8 }
	switch {
	case !slices.ContainsFunc(rec.program.Shaders[s.Shader].Needs, isMatrix):
		return rec.machine.VectorF32
	case slices.ContainsFunc(s.Binds, isInt8):
		return rec.machine.MatrixI8
	}
	return rec.machine.MatrixF16
}

// A step's Flops and Moved are counted with every symbol at its bound. gridShare and bytesShare return the factors that
// scale them to a run's symbols.

// gridShare returns the fraction of a step's points that a run computes. It does not account for folds along symbolic
// extents.
func gridShare(g kernel.Grid, symbols map[string]int64) float64 {
	share := 1.0
	for _, factors := range g {
		for _, f := range factors {
			share *= dimShare(f.Extent, symbols)
		}
	}
	return share
}

// bytesShare returns the fraction of the bytes of a step's buffers that a run uses.
func (m *programMemory) bytesShare(s kernel.Step, symbols map[string]int64) float64 {
	now, bound := 0.0, 0.0
	for _, bind := range s.Binds {
		b := &m.program.Buffers[bind.Buffer]
		share := 1.0
		for _, d := range b.Shape {
			share *= dimShare(d, symbols)
		}
		now += float64(share * float64(b.Bytes))
		bound += float64(b.Bytes)
	}
	return now / max(bound, 1) // no division by 0
}

// dimShare returns an extent in this run as a fraction of its maximum.
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

// runLog records the spans of the host's work during a profiled run. A nil log records nothing.
type runLog struct {
	began, last time.Time
	spans       []runtime.HostSpan
}

// newRunLog returns a log that begins now, or nil unless it is wanted.
func newRunLog(wanted bool) *runLog {
	if !wanted {
		return nil
	}
	now := time.Now()
	return &runLog{began: now, last: now}
}

// note adds a span from the last note to now, with the given name.
func (l *runLog) note(what string) {
	if l == nil {
		return
	}
	now := time.Now()
	l.spans = append(l.spans, runtime.HostSpan{Name: what, Start: l.last.Sub(l.began).Nanoseconds(),
		Nanos: now.Sub(l.last).Nanoseconds()})
	l.last = now
}

// hostWaits is the name of the span in which the host waits for the device.
const hostWaits = "wait for the results"

// align sets the profile's Offset: when the first kernel began, on the host's clock.
func (l *runLog) align(p *runtime.Profile, d *Device, stamps *Timestamps) {
	clock, ok := d.Calibrate()
	if !ok {
		p.Offset, p.Clock = l.estimate(p.GPU), runtime.Estimated
		return
	}
	ticks := bailout.Must(stamps.Ticks(0, 1))
	p.Offset, p.Clock = clock.At(ticks[0]).Sub(l.began), runtime.Calibrated
}

// estimate returns when the first kernel began, as the time since l.began. It assumes that the last kernel ended when
// the host's wait ended. gpu is the time from the start of the first kernel to the end of the last.
func (l *runLog) estimate(gpu time.Duration) time.Duration {
	for _, s := range l.spans {
		if s.Name == hostWaits {
			return time.Duration(s.Start+s.Nanos) - gpu
		}
	}
	return 0
}

// Capture selects data that the driver keeps about a pipeline.
type Capture uint

const (
	// CaptureStatistics keeps the data of [Pipeline.Statistics].
	CaptureStatistics Capture = 1 << iota
	// CaptureRepresentations keeps the data of [Pipeline.Representations].
	CaptureRepresentations
)

// maxRepresentation is the largest number of bytes of a representation that is read.
const maxRepresentation = 64 << 20

// Statistic is a number that the driver reports about a pipeline, unchanged: VkPipelineExecutableStatisticKHR.
type Statistic struct {
	Name  string
	Value float64
}

// Representation is one of the driver's intermediate forms of a pipeline, or its machine code:
// VkPipelineExecutableInternalRepresentationKHR.
type Representation struct {
	Name   string
	IsText bool
	Data   []byte
}

// Statistics returns the driver's numbers about the pipeline, which must have been made with [CaptureStatistics].
func (p *Pipeline) Statistics() ([]Statistic, error) {
	if err := p.checkCaptured(CaptureStatistics, "statistics"); err != nil {
		return nil, err
	}
	rows, r := p.device.native.statistics(p.handle)
	return rows, p.device.checkResult(r, "read statistics of pipeline %s", p.name)
}

// Representations returns the driver's intermediate forms of the pipeline, which must have been made with
// [CaptureRepresentations].
func (p *Pipeline) Representations() ([]Representation, error) {
	if err := p.checkCaptured(CaptureRepresentations, "representations"); err != nil {
		return nil, err
	}
	list, r := p.device.native.representations(p.handle)
	return list, p.device.checkResult(r, "read representations of pipeline %s", p.name)
}

// checkCaptured returns an error if the pipeline is closed, or was compiled without capture c.
func (p *Pipeline) checkCaptured(c Capture, what string) error {
	if p == nil || p.closed.Load() {
		return fmt.Errorf("vk: %s of a pipeline: it is closed, or was never made", what)
	}
	if p.capture&c == 0 {
		return fmt.Errorf("vk: %s of pipeline %s: it has none; PipelineDesc.Capture asks for them", what, p.name)
	}
	return p.device.checkUsable("read " + what + " of pipeline " + p.name)
}

// Cost converts [Pipeline.Statistics] to items that are the same for all drivers.
func (p *Pipeline) Cost() (runtime.KernelCost, error) {
	rows, err := p.Statistics()
	if err != nil {
		return nil, err
	}
	return costOf(p.device.info.Caps.DriverID, rows), nil
}

// costRow maps the name of a driver's statistic to an item of a cost. times is the factor from the statistic's unit to
// the item's unit. If several statistics have the same item, they are added.
type costRow struct {
	name  string
	item  runtime.CostItem
	times float64
}

// costOffsets maps the name of a statistic to a constant to subtract: NVIDIA's driver sets bit 36 of its size of local
// memory.
var costOffsets = map[string]float64{"Local Memory Size": 1 << 36}

// costRows lists the statistics of drivers, by VkDriverId. The names are from the drivers' sources (Mesa 26.2), and for
// NVIDIA's proprietary driver from its output.
var costRows = map[uint32][]costRow{
	3: { // radv: per subgroup; a vector register is 32 bits of each invocation
		{"VGPRs", runtime.Registers, 1},
		{"Spilled VGPRs", runtime.Spills, 1},
		{"Spilled SGPRs", runtime.Spills, 1},
		{"Scratch size", runtime.Scratch, 1},
		{"LDS size", runtime.SharedMemory, 1},
		{"Code size", runtime.CodeSize, 1},
		{"Instructions", runtime.Instructions, 1},
		{"Subgroups per SIMD", runtime.Occupancy, 1},
		{"Latency", runtime.Latency, 1},
		{"Inverse Throughput", runtime.InverseThroughput, 1},
	},
	4: { // NVIDIA's proprietary driver
		{"Register Count", runtime.Registers, 1},
		{"Local Memory Size", runtime.Scratch, 1},
		{"Shared Memory Size", runtime.SharedMemory, 1},
		{"Binary Size", runtime.CodeSize, 1},
	},
	6: { // anv: its registers span 8 to 32 lanes, so they do not count per invocation
		{"Spill Count", runtime.Spills, 1},
		{"Fill Count", runtime.Spills, 1},
		{"Scratch Memory Size", runtime.Scratch, 1},
		{"Workgroup Memory Size", runtime.SharedMemory, 1},
		{"Instruction Count", runtime.Instructions, 1},
		{"Cycle Count", runtime.Latency, 1},
	},
	18: { // turnip: registers of four words, code size in words
		{"Registers used", runtime.Registers, 4},
		{"STP Count", runtime.Spills, 1},
		{"LDP Count", runtime.Spills, 1},
		{"Code size", runtime.CodeSize, 4},
		{"Instruction Count", runtime.Instructions, 1},
		{"Max Waves Per Core", runtime.Occupancy, 1},
	},
	24: { // nvk
		{"Number of GPRs", runtime.Registers, 1},
		{"Spills to memory", runtime.Spills, 1},
		{"Fills from memory", runtime.Spills, 1},
		{"SLM size", runtime.Scratch, 1},
		{"Code size", runtime.CodeSize, 1},
		{"Instruction count", runtime.Instructions, 1},
		{"Max warps/SM", runtime.Occupancy, 1},
		{"Static cycle count", runtime.InverseThroughput, 1},
	},
	26: { // honeykrisp: registers of 16 bits; 32 threads are a subgroup
		{"GPRs", runtime.Registers, 0.5},
		{"Spills", runtime.Spills, 1},
		{"Fills", runtime.Spills, 1},
		{"Scratch", runtime.Scratch, 1},
		{"Code size", runtime.CodeSize, 1},
		{"Instructions", runtime.Instructions, 1},
		{"Threads", runtime.Occupancy, 1.0 / 32},
		{"ALU", runtime.InverseThroughput, 1},
	},
}

// costOf converts a driver's statistics to a cost. It adds the statistics of all executables of a pipeline.
func costOf(driver uint32, rows []Statistic) runtime.KernelCost {
	cost := runtime.KernelCost{}
	for _, s := range rows {
		for _, row := range costRows[driver] {
			if row.name == s.Name {
				cost[row.item] += float64((s.Value - costOffsets[s.Name]) * row.times)
			}
		}
	}
	return cost
}

// DescribeShader returns the description of the pipeline for a program's shader.
func (d *Device) DescribeShader(s kernel.Shader, code []byte) PipelineDesc {
	// A kernel that relies on a subgroup size also relies on full subgroups.
	full := s.SubgroupSize > 0 && s.Workgroup%s.SubgroupSize == 0 && d.Caps().Features.FullSubgroups
	return PipelineDesc{Name: s.Name, Code: code, Buffers: s.Bindings, SubgroupSize: s.SubgroupSize,
		FullSubgroups: full}
}
