package compiler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// Lowered is a graph compiled to GLSL. `vkc dump` prints it.
type Lowered struct {
	*passes.State
	Schedules []kernel.Schedule // by kernel
	Reasons   []string          // why each schedule was chosen
	GLSL      []string          // sources, by shader
	shaders   []*glsl.Shader    // by shader
	SPIRV     [][]byte          // by shader; nil except for precompiled modules of custom ops
}

// Lower runs the passes on a graph, chooses schedules for a device and generates GLSL. tuning has schedules that won in
// measurements; it may be nil. Lower needs neither a device nor a compiler.
func Lower(ctx context.Context, g *ir.Graph, caps device.Caps, tuning device.Tuning) (*Lowered, error) {
	return LowerObserved(ctx, g, caps, tuning, nil)
}

// LowerObserved is [Lower] that also calls observe, if not nil, after every pass. An error from observe ends it.
func LowerObserved(ctx context.Context, g *ir.Graph, caps device.Caps, tuning device.Tuning,
	observe func(passes.Event) error) (_ *Lowered, err error) {
	defer bailout.Caught(&err)
	return lower(ctx, g, caps, Options{Tuning: tuning, observe: observe}), nil
}

// Origins returns, for each line of a shader's GLSL, the ops that the line computes. See [glsl.Shader.Origins].
func (low *Lowered) Origins(shader int) [][]string { return low.shaders[shader].Origins() }

// limits returns the limits of kernels on a device.
func limits(caps device.Caps) passes.Limits {
	return passes.Limits{Bindings: device.Bindings(caps), Weigh: glsl.Weigh, Memory: caps.DeviceMemory}
}

// lower runs the passes on a graph, refuses kernels that the device cannot run, and selects a schedule for each kernel.
// caps describes the device. Errors are panics of package bailout, which the caller recovers.
func lower(ctx context.Context, g *ir.Graph, caps device.Caps, opt Options) *Lowered {
	pricer, persistence := opt.Pricer, opt.Persistence
	if pricer == nil {
		pricer = func(caps device.Caps) kernel.Pricer { return schedule.NewPricer(caps) }
	}
	if persistence == nil {
		persistence = schedule.Runs
	}
	s := bailout.Must(passes.Run(g, passes.Options{Context: ctx, Limits: limits(caps), Pricer: pricer(caps),
		Observe: opt.observe}))
	low := &Lowered{State: s}
	s.Program.Target = caps.Name
	bailout.Check(refuseMissing(s.Kernels, caps))
	bailout.Check(refuseLarge(s))
	var symbols []string // names, in the order of the values in buffer params
	for _, sym := range s.Program.Symbols {
		symbols = append(symbols, sym.Name)
	}
	untuned := opt
	untuned.Tuning = nil
	low.emit(ctx, caps, symbols, func(*kernel.Kernel) Options { return untuned })
	runs := persistence(s.Program, s.Kernels, low.Schedules, caps)
	if len(opt.Tuning) > 0 {
		// Schedules were tuned kernel by kernel. A kernel of a persistent kernel keeps its default schedule, because
		// with another one it may need its own launch, which costs more than the schedule gains (M-plans).
		joined := map[kernel.Identity]bool{}
		for _, r := range runs {
			for _, k := range s.Kernels[r.First : r.First+r.Count] {
				joined[k.Identity()] = true
			}
		}
		low.emit(ctx, caps, symbols, func(k *kernel.Kernel) Options {
			if joined[k.Identity()] {
				return untuned
			}
			return opt
		})
		for i, k := range s.Kernels {
			if _, tuned := opt.Tuning[schedule.TuningKey(k)]; tuned && joined[k.Identity()] {
				low.Reasons[i] += " (not as tuned: it is in a persistent kernel)"
			}
		}
		runs = persistence(s.Program, s.Kernels, low.Schedules, caps)
	}
	low.addPersistent(runs)
	err := s.Program.Check()
	bailout.Unless(err == nil, "internal error: the compiled program is inconsistent: %w", err)
	return low
}

// emit chooses the schedules of all kernels and generates their shaders, in place of earlier ones. symbols are the
// names of the program's symbols, and options returns the options for a kernel.
func (low *Lowered) emit(ctx context.Context, caps device.Caps, symbols []string,
	options func(*kernel.Kernel) Options) {
	low.Schedules, low.Reasons, low.GLSL, low.SPIRV, low.shaders = nil, nil, nil, nil, nil
	low.Program.Shaders = nil
	made := map[kernel.Identity]choice{} // kernels with equal code share one shader
	for i, k := range low.Kernels {
		bailout.Check(ctx.Err())
		id := k.Identity()
		c, ok := made[id]
		if !ok {
			var err error
			c, err = low.scheduleAndEmit(k, fmt.Sprintf("k%d_%s", i, k.Name), caps, options(k), symbols)
			bailout.Unless(err == nil, "kernel %d (%s): %w", i, k.Name, err)
			made[id] = c
		}
		low.Schedules, low.Reasons = append(low.Schedules, c.schedule), append(low.Reasons, c.reason)
		st := &low.Program.Steps[i]
		st.Grid, st.Schedule, st.Shader, st.Alternatives = c.grid, c.text, c.shader, c.alternatives
		for j, b := range k.Bindings {
			st.Binds[j].Address = schedule.ByAddress(k, b, caps)
		}
	}
}

// choice is the schedule and shader chosen for a kernel, and for all kernels with the same identity.
type choice struct {
	schedule     kernel.Schedule
	text, reason string // the schedule for people, and why it was chosen
	grid         kernel.Grid
	shader       int // index of the shader
	alternatives []kernel.Alternative
}

// scheduleAndEmit chooses the schedule of a kernel, generates its shader, and adds the shader to the program with the
// given name. It does the same for the kernel's alternatives. symbols are the names of the program's symbols.
func (low *Lowered) scheduleAndEmit(k *kernel.Kernel, name string, caps device.Caps, opt Options,
	symbols []string) (c choice, err error) {
	defer bailout.Caught(&err)
	sched, why, tuned, err := schedule.SelectTuned(k, caps, opt.Tuning)
	bailout.Check(err)
	sh := bailout.Must(glsl.Emit(k, sched, caps, symbols))
	c = choice{schedule: sched, text: sched.String(), reason: why, grid: sh.Grid}
	if tuned {
		c.text += ", " + why
	}
	c.shader = low.add(name, sh, len(k.Bindings))
	if opt.OneKernel {
		return c, nil
	}
	alternatives := opt.Alternatives
	if alternatives == nil { // only tests set others
		alternatives = schedule.Alternatives
	}
	for _, a := range alternatives(k, sched, caps, opt.Tuning) {
		sh := bailout.Must(glsl.Emit(a.Kernel, a.Schedule, caps, symbols))
		c.alternatives = append(c.alternatives, kernel.Alternative{Symbol: a.Symbol, Grid: sh.Grid,
			Schedule: fmt.Sprintf("%s, about %.1f times as fast as the kernel of more rows", a.Schedule, a.Gain),
			Shader:   low.add(fmt.Sprintf("%s_%d", name, a.Symbol.Bound), sh, len(k.Bindings))})
	}
	return c, nil
}

// add adds a shader with the given name and number of bindings to the program, and returns its index.
func (low *Lowered) add(name string, sh *glsl.Shader, bindings int) int {
	low.shaders = append(low.shaders, sh)
	low.GLSL, low.SPIRV = append(low.GLSL, sh.Source), append(low.SPIRV, sh.SPIRV)
	hash := sha256.Sum256([]byte(sh.Source))
	low.Program.Shaders = append(low.Program.Shaders, kernel.Shader{
		Name: name, Bindings: bindings, Workgroup: sh.Workgroup, SubgroupSize: sh.SubgroupSize,
		Needs: sh.Needs, SharedBytes: sh.SharedBytes, GLSLHash: hex.EncodeToString(hash[:]),
	})
	return len(low.GLSL) - 1
}

// UnsupportedError lists the features that a graph needs and a device lacks.
type UnsupportedError struct {
	Device  string
	Missing []string
}

// Error returns a message that names the device and every missing feature.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s cannot run this graph: %s; choose another device, or the CPU fast path with --device cpu",
		e.Device, e.Lacks())
}

// Lacks lists the missing features in a clause without the device's name.
func (e *UnsupportedError) Lacks() string { return "it lacks " + strings.Join(e.Missing, "; ") }

// refuseMissing returns an [UnsupportedError] that lists all features that the kernels need and the device lacks, or
// nil if there are none.
func refuseMissing(kernels []*kernel.Kernel, caps device.Caps) error {
	var missing []string
	for _, k := range kernels {
		for _, m := range schedule.Missing(k, caps) {
			line := fmt.Sprintf("%s (for %s)", m, opsOf(k))
			if !slices.Contains(missing, line) {
				missing = append(missing, line)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &UnsupportedError{Device: caps.Name, Missing: missing}
}

// opsOf names the ops of a kernel, each once.
func opsOf(k *kernel.Kernel) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(k.Ops))), ", ")
}

// refuseLarge returns an error if a kernel's indices do not fit in 32 bits. The error names the ops and the tensor.
func refuseLarge(s *passes.State) error {
	for i, k := range s.Kernels {
		var large *kernel.RangeError
		if !errors.As(k.CheckRange(), &large) {
			continue
		}
		tensor := ""
		if large.Bind >= 0 {
			b := s.Program.Buffers[s.Program.Steps[i].Binds[large.Bind].Buffer]
			tensor = fmt.Sprintf(" (%s %q, %s)", b.Kind, ir.Printable(b.Name), ir.Type{DType: b.DType, Shape: b.Shape})
		}
		return fmt.Errorf("%s%s: %w; %s; the CPU fast path has no such limit (--device cpu)", opsOf(k), tensor, large,
			s.Program.Smaller())
	}
	return nil
}
