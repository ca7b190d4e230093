package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Runner runs cases on a device.
type Runner struct {
	Device   *vkc.Device // on the CPU fast path the wall clock measures times
	Options  Options     // of Measure; Copies is worked out for each case
	Ceilings Ceilings    // see MeasureCeilings; zero leaves Result.Share out
	NoCache  bool        // compile again
	// Target, if set, is the target to compile for instead of the device. It allows comparing a profile's schedules
	// with the device's own.
	Target *device.Caps
	// NoTuning ignores the measurements of vkc tune.
	NoTuning bool
	// Trace, if set, receives a profiled run of each case after timing.
	Trace func(c Case, p *runtime.Profile)
}

// Run compiles, checks and times a case. A failure of the case is in the result. It returns an error only if the device
// is lost or ctx ends.
func (r *Runner) Run(ctx context.Context, c Case) (res Result, err error) {
	start := time.Now()
	res = Result{Suite: c.Suite, Name: c.Name, Flops: c.Flops}
	if c.text != nil {
		err = r.text(ctx, c.text, &res)
	} else {
		err = r.run(ctx, &c, &res)
	}
	res.TotalMillis = millis(time.Since(start))
	if err == nil {
		return res, nil
	}
	if ctx.Err() != nil || errors.Is(err, vk.ErrDeviceLost) {
		return res, err
	}
	if res.Status == "" {
		res.Status = Failed
	}
	res.Why = strings.Join(strings.Fields(err.Error()), " ") // in one line
	return res, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// run compiles, checks and times a case, and returns an error for any failure. A large case may have a stand-in, a
// smaller case with the same kernels. Then run checks the stand-in and requires that the case has no other kernels.
func (r *Runner) run(ctx context.Context, c *Case, res *Result) error {
	if c.StandIn == nil {
		l, err := r.checked(ctx, c, res)
		if err != nil {
			return err
		}
		defer l.Close()
		return r.measure(ctx, c, l, res)
	}
	standIn, err := r.checked(ctx, c.StandIn, res)
	if err != nil {
		return err
	}
	// The stand-in gives its memory back first, because the large case may need all of the device's.
	if err := standIn.Close(); err != nil {
		return err
	}
	l, err := r.load(ctx, c, res)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.hasOnlyKernelsOf(standIn); err != nil {
		return err
	}
	return r.measure(ctx, c, l, res)
}

// measure times a loaded case, and traces it if the runner has a Trace.
func (r *Runner) measure(ctx context.Context, c *Case, l *loaded, res *Result) error {
	res.CompileMillis = millis(l.prog.Stats.Elapsed)
	if p := l.prog.Contents.Program; p != nil {
		if err := res.describe(p, c.Symbols); err != nil {
			return err
		}
	}
	res.Moved = c.moved(l.data, l.graph)
	if err := r.time(ctx, c, l, res); err != nil || r.Trace == nil {
		return err
	}
	// The second profiled run has its commands recorded already.
	var out *runtime.Result
	for range 2 {
		var err error
		if out, err = l.exe.Run(ctx, l.inputs, runtime.RunOptions{Symbols: c.Symbols, Profile: true}); err != nil {
			return err
		}
	}
	r.Trace(*c, out.Profile)
	return nil
}

// loaded is a case on the device after its first run.
type loaded struct {
	data
	graph *ir.Graph
	prog  *vkc.Program
	exe   *vkc.Executable
	out   map[string]*ir.Data
}

// Close frees the case's resources on the device. Compiled programs stay cached.
func (l *loaded) Close() error { return errors.Join(l.exe.Close(), l.prog.Close()) }

// hasOnlyKernelsOf returns an error if l has a kernel that checked lacks, because no check covers that kernel.
func (l *loaded) hasOnlyKernelsOf(checked *loaded) error {
	known := map[string]bool{}
	for _, code := range checked.prog.Contents.SPIRV {
		known[string(code)] = true
	}
	for i, code := range l.prog.Contents.SPIRV {
		if !known[string(code)] {
			return fmt.Errorf("kernel %s is not among those of %s, so nothing says that it is right",
				l.prog.Contents.Program.Shaders[i].Name, checked.graph.Name)
		}
	}
	return nil
}

// checked loads and runs a case and compares its results with the reference.
func (r *Runner) checked(ctx context.Context, c *Case, res *Result) (*loaded, error) {
	l, err := r.load(ctx, c, res)
	if err != nil {
		return nil, err
	}
	if err := c.check(ctx, l.data, l.out); err != nil {
		res.Status = Wrong
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// load compiles a case, loads it, and runs it once on random data. If the device cannot run it, res gets the status
// Refused.
func (r *Runner) load(ctx context.Context, c *Case, res *Result) (*loaded, error) {
	g, err := c.Graph(c.Sizes)
	if err != nil {
		return nil, err
	}
	l := &loaded{graph: g}
	if l.prog, err = r.compile(ctx, g, nil); err != nil {
		res.Status = Refused
		return nil, err
	}
	if l.data, err = c.data(g); err != nil {
		return nil, errors.Join(err, l.prog.Close())
	}
	exe, err := r.Device.Load(ctx, l.prog, vkc.LoadOptions{Weights: weightMap(l.weights)})
	if err != nil {
		res.Status = Refused
		return nil, errors.Join(err, l.prog.Close())
	}
	l.exe = exe
	if err := l.start(ctx, c); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// start writes the initial states, runs the case once, and keeps the outputs.
func (l *loaded) start(ctx context.Context, c *Case) error {
	for name, d := range l.states {
		if err := l.exe.WriteState(name, d); err != nil {
			return err
		}
	}
	res, err := l.exe.Run(ctx, l.inputs, runtime.RunOptions{Symbols: c.Symbols})
	if err != nil {
		return err
	}
	l.out = res.Outputs
	return nil
}

// compile compiles a graph for the runner's device or target. If other is not nil, the new program will share weights
// with it.
func (r *Runner) compile(ctx context.Context, g *ir.Graph, other *vkc.Program) (*vkc.Program, error) {
	opt := vkc.CompileOptions{NoCache: r.NoCache, ShareWith: other}
	if r.NoTuning {
		opt.Tuning = device.Tuning{}
	}
	if r.Target == nil {
		return r.Device.Compile(ctx, g, opt)
	}
	opt.Target = *r.Target
	return vkc.Compile(ctx, g, opt)
}

// describe stores in the result the number of kernels that a run with the given symbols has, and their distinct
// schedules.
func (r *Result) describe(p *kernel.Program, symbols map[string]int64) error {
	steps := p.Steps[p.Prepared:] // those before run once, when the program is loaded
	r.Kernels = len(steps)
	for _, s := range steps {
		s, err := s.For(symbols)
		if err != nil {
			return err
		}
		line := s.Schedule + " (" + strings.Join(s.Ops, " ") + ")"
		if !slices.Contains(r.Schedules, line) && len(r.Schedules) < maxSchedules {
			r.Schedules = append(r.Schedules, line)
		}
	}
	return nil
}

// maxSchedules limits Result.Schedules for cases with whole models.
const maxSchedules = 40

// moved returns the number of bytes that a device has to read and write at least: c.Moved if it is set, or else all
// inputs, weights and outputs.
func (c *Case) moved(d data, g *ir.Graph) float64 {
	if c.Moved > 0 {
		return c.Moved
	}
	sum := 0.0
	for _, all := range []map[string]*ir.Data{d.inputs, d.weights} {
		for _, t := range all {
			sum += float64(len(t.Bytes))
		}
	}
	for _, o := range g.Outputs() {
		if n, err := o.Node.Type().MaxBytes(); err == nil {
			sum += float64(n)
		}
	}
	return sum
}

// time times a loaded program and sets the figures of the result.
func (r *Runner) time(ctx context.Context, c *Case, l *loaded, res *Result) error {
	opt := r.Options
	if !c.Cached && opt.Copies == 0 {
		opt.Copies = CopiesFor(r.Device.Caps(), int64(res.Moved))
	}
	run := func() error { // into preallocated memory, as a library's functions do
		_, err := l.exe.Run(ctx, l.inputs, runtime.RunOptions{Symbols: c.Symbols, Into: l.out})
		return err
	}
	var t Timing
	var err error
	if c.Wall {
		t, err = MeasureWall(opt, run)
	} else {
		t, err = r.clock(ctx, l.exe, opt, run)
	}
	if err != nil {
		return err
	}
	if t.Median <= 0 {
		return errors.New("a replay took no time by the device's clock")
	}
	res.Status, res.Replays, res.Copies = OK, t.Replays, t.Copies
	res.Micros, res.Min, res.Max = micros(t.Median), micros(t.Min), micros(t.Max)
	res.TFlops, res.GBps = c.Flops/t.Median.Seconds()/1e12, res.Moved/t.Median.Seconds()/1e9
	if c.Wall {
		res.Bound = wallClock // no ceiling of the device
	} else {
		res.Precision, res.Cached = c.Precision, c.Cached
		res.Share, res.Bound = r.Ceilings.shareOf(res)
	}
	if c.Launches > 0 {
		res.Each = res.Micros / float64(c.Launches)
		if v := l.exe.Vulkan(); v != nil { // otherwise there is no submission
			host, err := MeasureHost(ctx, vk.Of(r.Device), v)
			if err != nil {
				return err
			}
			res.Submit = micros(host)
		}
	}
	return nil
}

// wallClock is Result.Bound of cases that are measured by it.
const wallClock = "wall clock"

// clock times a program by the device's clock if there is one: on a Vulkan device it uses timestamps and the current
// buffers. On the CPU fast path it calls run repeatedly.
func (r *Runner) clock(ctx context.Context, exe *vkc.Executable, opt Options, run func() error) (Timing, error) {
	if v := exe.Vulkan(); v != nil {
		return Measure(ctx, vk.Of(r.Device), v, opt)
	}
	return MeasureWall(opt, run)
}
