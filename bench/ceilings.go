package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Precision names the arithmetic that bounds a case, and so the ceiling for it: dtype and execution units.
type Precision string

// The precisions.
const (
	MatrixF16 Precision = "f16"    // f16 or bf16 matmuls on tensor cores, with f32 accumulation
	MatrixI8  Precision = "i8"     // int8 matmuls on tensor cores, with i32 accumulation
	SplitF32  Precision = "bf16x3" // f32 matmuls as three bf16 matmuls on tensor cores
	VectorF32 Precision = "f32"    // f32 multiply-adds outside tensor cores
	NoFlops   Precision = "none"   // bound by memory or by launches, whatever it computes
)

// Ceilings are the measured peak rates of a device, reached by kernels that do nothing else.
type Ceilings struct {
	device.Machine
	Note string `json:"note,omitempty"` // why one is missing
}

// Flops returns the ceiling in 10^12 operations per second, or 0.
func (c Ceilings) Flops(p Precision) float64 {
	switch p {
	case MatrixF16:
		// A device without tensor cores does these matmuls with vector instructions.
		return max(c.MatrixF16, c.VectorF32)
	case SplitF32:
		return max(c.MatrixF16/3, c.VectorF32)
	case MatrixI8:
		return max(c.MatrixI8, c.VectorF32)
	case VectorF32:
		return c.VectorF32
	}
	return 0
}

// Share returns the fraction of a device's ceilings that work with these rates reaches, and which ceiling that is:
// "memory" or "arithmetic", the one that it comes closer to.
func (c Ceilings) Share(p Precision, gbps, tflops float64) (share float64, of string) {
	memory, arithmetic := 0.0, 0.0
	if c.CopyGBps > 0 {
		memory = gbps / c.CopyGBps
	}
	if peak := c.Flops(p); peak > 0 {
		arithmetic = tflops / peak
	}
	if arithmetic > memory {
		return arithmetic, "arithmetic"
	}
	return memory, "memory"
}

// shareOf returns the fraction of the ceilings that a result reaches, as Share does. Memory bandwidth does not limit a
// case that stays in the cache.
func (c Ceilings) shareOf(r *Result) (share float64, of string) {
	gbps := r.GBps
	if r.Cached {
		gbps = 0
	}
	return c.Share(r.Precision, gbps, r.TFlops)
}

// raise raises the ceilings to the rates that a case reached.
func (c *Ceilings) raise(r *Result) {
	if c.CopyGBps > 0 && !r.Cached {
		c.CopyGBps = max(c.CopyGBps, r.GBps)
	}
	peak := c.Flops(r.Precision)
	if peak <= 0 || r.TFlops <= peak {
		return
	}
	switch {
	case r.Precision == MatrixF16 && c.MatrixF16 > 0:
		c.MatrixF16 = r.TFlops
	case r.Precision == MatrixI8 && c.MatrixI8 > 0:
		c.MatrixI8 = r.TFlops
	case r.Precision == SplitF32 && c.MatrixF16 > 0:
		c.MatrixF16 = 3 * r.TFlops
	default: // the vector units did it
		c.VectorF32 = r.TFlops
	}
}

var (
	//go:embed probes/copy.comp
	copyProbe string
	//go:embed probes/fma.comp
	fmaProbe string
	//go:embed probes/matrix.comp
	matrixProbe string
)

// probe is a kernel that measures one ceiling. It reads one buffer and writes another.
type probe struct {
	name          string
	source        string
	env           string
	groups        uint32
	readBytes     int64    // bytes of the buffer that it reads
	writeBytes    int64    // bytes of the buffer that it writes
	work          float64  // bytes or operations per dispatch
	fullSubgroups bool     // whether it needs full subgroups of the usual size
	dtype         ir.DType // dtype of the data it reads, f32 if unset
}

// MeasureCeilings measures how fast the device copies, computes and launches, in about a second. It compiles the probes
// with the compilers and shader cache of normal compilation. A probe that fails is left out, with a note.
func MeasureCeilings(ctx context.Context, dev *vk.Device, opt Options) (c Ceilings, err error) {
	opt = opt.withDefaults(dev.Caps())
	var notes []string
	for _, m := range []struct {
		probe probe
		to    *float64
		unit  float64 // unit of work per second; 0 if the result is the time in nanoseconds
	}{
		{copyKernel(dev.Caps()), &c.CopyGBps, 1e9},
		{fmaKernel(dev.Caps()), &c.VectorF32, 1e12},
		{matrixKernel(dev.Caps(), ir.F16), &c.MatrixF16, 1e12},
		{matrixKernel(dev.Caps(), ir.I8), &c.MatrixI8, 1e12},
		{probe{name: "launch", source: copyProbe, groups: 1, readBytes: 4096, writeBytes: 4096}, &c.LaunchNs, 0},
	} {
		if m.probe.source == "" { // the device lacks cooperative matrices
			continue
		}
		took, err := m.probe.measure(ctx, dev, opt)
		if err != nil {
			if ctx.Err() != nil {
				return c, err
			}
			notes = append(notes, fmt.Sprintf("%s: %v", m.probe.name, err))
			continue
		}
		*m.to = float64(took.Nanoseconds())
		if m.unit > 0 {
			*m.to = m.probe.work / took.Seconds() / m.unit
		}
	}
	if c.CopyGBps == 0 && c.VectorF32 == 0 {
		return c, errors.New("bench: no ceiling could be measured: " + strings.Join(notes, "; "))
	}
	c.Note = strings.Join(notes, "; ")
	return c, nil
}

// copyKernel copies 256 MiB, or 32 MiB on a CPU device.
func copyKernel(caps device.Caps) probe {
	bytes := int64(256 << 20)
	if caps.Type == device.DeviceCPU {
		bytes = 32 << 20
	}
	const each, workgroup = 16, 256 // bytes that an invocation copies, and invocations of a workgroup
	return probe{name: "copy", source: copyProbe, groups: uint32(bytes / each / workgroup), readBytes: bytes,
		writeBytes: bytes, work: 2 * float64(bytes)} // read and written
}

// probeGroups returns the number of workgroups of 256 invocations that keep every core of a device busy.
func probeGroups(caps device.Caps) uint32 {
	if caps.Type == device.DeviceCPU {
		return 64
	}
	return max(caps.Cores, 128) * 16
}

// fmaKernel does f32 multiply-adds in registers on all cores.
func fmaKernel(caps device.Caps) probe {
	rounds := 512
	groups := probeGroups(caps)
	// An invocation has 4 sums of 4 floats, and a multiply-add counts as 2 operations. It reads 5 vectors of 16 bytes,
	// from its index in the workgroup of 256 on, so 512 vectors are enough for all.
	return probe{
		name: "f32", source: defines(fmaProbe, "ROUNDS", rounds), groups: groups,
		readBytes: 16 * 512, writeBytes: 16 * 256 * int64(groups),
		work: float64(groups) * 256 * float64(rounds) * 16 * 2,
	}
}

// matrixKernel returns a probe that multiplies f16 or i8 matrices with cooperative matrices on all cores. The probe has
// no source if the device has no cooperative matrices for dtype t.
func matrixKernel(caps device.Caps, t ir.DType) probe {
	name, elem, sum, sums := t.String()+" matrix", "float16_t", "float", device.Component("f32")
	if t == ir.I8 {
		elem, sum, sums = "int8_t", "int", "i32"
	}
	c := device.Component(t.String())
	i := slices.IndexFunc(caps.Matrices, func(m device.MatrixShape) bool {
		return m.A == c && m.B == c && m.C == sums && m.R == sums && m.Scope == device.ScopeSubgroup
	})
	if !caps.Features.CooperativeMatrix || i < 0 {
		return probe{name: name}
	}
	m := caps.Matrices[i]
	rounds := 256
	if caps.Type == device.DeviceCPU {
		rounds = 16
	}
	groups := probeGroups(caps) / 2
	// A workgroup has 8 subgroups. Each reads up to 4 matrices of an operand, multiplies into 8 accumulators of 4-byte
	// elements, and writes the sum of them. A multiply-add counts as 2 operations.
	const subgroups, operands, accumulators = 8, 4, 8
	tile := float64(m.M) * float64(m.N) * float64(m.K)
	return probe{
		name: name,
		source: defines(matrixProbe, "ELEM", elem, "SUM", sum, "ROUNDS", rounds, "M", int(m.M), "N", int(m.N),
			"K", int(m.K), "SUBGROUP", int(caps.SubgroupSize)),
		env:           "vulkan1.3",
		groups:        groups,
		readBytes:     int64(t.BlockBytes()) * operands * int64(m.K) * int64(max(m.M, m.N)),
		writeBytes:    4 * subgroups * int64(groups) * int64(m.M) * int64(m.N),
		work:          float64(groups) * subgroups * accumulators * float64(rounds) * tile * 2,
		fullSubgroups: true,
		dtype:         t,
	}
}

// defines inserts #define lines after the #version line of GLSL source. list alternates names and values.
func defines(source string, list ...any) string {
	version, rest, _ := strings.Cut(source, "\n")
	var b strings.Builder
	b.WriteString(version + "\n")
	for i := 0; i < len(list); i += 2 {
		fmt.Fprintf(&b, "#define %v %v\n", list[i], list[i+1])
	}
	return b.String() + rest
}

// measure runs the probe's kernel repeatedly and returns the median time of a dispatch.
func (p probe) measure(ctx context.Context, dev *vk.Device, opt Options) (time.Duration, error) {
	pipeline, err := p.compile(ctx, dev)
	if err != nil {
		return 0, err
	}
	defer pipeline.Close()
	src, err := dev.NewBuffer("src", p.readBytes, vk.DeviceMemory)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	dst, err := dev.NewBuffer("dst", p.writeBytes, vk.DeviceMemory)
	if err != nil {
		return 0, err
	}
	defer dst.Close()
	if err := p.fill(ctx, dev, src); err != nil {
		return 0, err
	}
	bindings, err := dev.NewBindings(
		[]vk.BindingSet{{Name: p.name, Buffers: []vk.BufferRange{vk.Whole(src), vk.Whole(dst)}}})
	if err != nil {
		return 0, err
	}
	defer bindings.Close()
	const dispatches = 8
	burst, err := newProbeBurst(dev, dispatches, func(list *vk.CommandList) {
		list.BindPipeline(pipeline)
		list.Bind(bindings, 0)
		list.Dispatch(p.groups, 1, 1)
	})
	if err != nil {
		return 0, err
	}
	defer burst.close()
	if err := warmUp(ctx, dev, burst, opt.Warm); err != nil {
		return 0, err
	}
	return burst.median()
}

// compile compiles the probe's shader to a pipeline.
func (p probe) compile(ctx context.Context, dev *vk.Device) (*vk.Pipeline, error) {
	root, err := cachefile.Root()
	if err != nil {
		root = "" // compile without a cache
	}
	tools, err := spirv.Find(ctx, spirv.FindOptions{CacheDir: root})
	if err != nil {
		return nil, err
	}
	compiled, _, err := tools.Compile(ctx, []spirv.Shader{{Name: p.name, Source: p.source, TargetEnv: p.env}},
		spirv.Options{Optimize: true, CacheDir: root})
	if err != nil {
		return nil, err
	}
	caps := dev.Caps()
	desc := vk.PipelineDesc{Name: p.name, Code: compiled[0].SPIRV, Buffers: 2}
	if p.fullSubgroups && caps.RequiredSubgroupSize && caps.Features.FullSubgroups {
		desc.SubgroupSize, desc.FullSubgroups = int(caps.SubgroupSize), true
	}
	return dev.NewPipeline(desc)
}

// fill fills src, the buffer that the probe reads, with random data. Each dtype has a range that keeps the probe's sums
// finite.
func (p probe) fill(ctx context.Context, dev *vk.Device, src *vk.Buffer) error {
	t, fill := ir.F32, Fill{0, 0.9} // sums of a converging series
	switch p.dtype {
	case ir.F16:
		t, fill = ir.F16, Fill{-1, 1}
	case ir.I8:
		t, fill = ir.I8, anyByte
	}
	d, err := Random(p.name, t, fill, int(p.readBytes)/t.BlockBytes())
	if err != nil {
		return err
	}
	return dev.Upload(ctx, src, 0, d.Bytes)
}

// probeBurst is a recording of the same dispatch several times, each timed.
type probeBurst struct {
	dev       *vk.Device
	recording *vk.Recording
	stamps    *vk.Timestamps
	count     int
}

// newProbeBurst records the commands of record count times, with a timestamp after each.
func newProbeBurst(dev *vk.Device, count int, record func(*vk.CommandList)) (*probeBurst, error) {
	stamps, err := dev.NewTimestamps(count + 1)
	if err != nil {
		return nil, err
	}
	list := dev.NewCommandList()
	list.ResetTimestamps(stamps)
	list.Timestamp(stamps, 0)
	for i := range count {
		list.Barrier(vk.StageCompute, vk.StageCompute) // one dispatch at a time
		record(list)
		list.Timestamp(stamps, i+1)
	}
	recording, err := dev.Record("probe", list)
	if err != nil {
		stamps.Close()
		return nil, err
	}
	return &probeBurst{dev, recording, stamps, count}, nil
}

// Submit submits the probe once, and returns the point at which it ends.
func (b *probeBurst) Submit() (vk.Point, error) { return b.dev.Submit(b.recording) }

// median returns the median time of a dispatch in the last submission.
func (b *probeBurst) median() (time.Duration, error) {
	at, err := b.stamps.Read(0, b.count+1)
	if err != nil {
		return 0, err
	}
	var times []time.Duration
	for i := range b.count {
		times = append(times, at[i+1]-at[i])
	}
	slices.Sort(times)
	if m := times[len(times)/2]; m > 0 {
		return m, nil
	}
	return 0, fmt.Errorf("%d dispatches took no time: the device's clock has a period of %v ns", b.count,
		roundTo3(b.dev.Caps().TimestampPeriod))
}

func roundTo3(x float32) float64 { return math.Round(float64(x)*1000) / 1000 }

func (b *probeBurst) close() {
	b.recording.Close()
	b.stamps.Close()
}
