package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Runner runs cases on a device.
type Runner struct {
	Device   *vkc.Device // a Vulkan device
	Options  Options     // of Measure; Copies is worked out for each case
	Ceilings Ceilings    // see MeasureCeilings; zero leaves Result.Share out
	NoCache  bool        // compile anew
	// Target, if set, is what to compile for in the device's place: a profile's
	// schedules can so be compared with those of the device's own.
	Target *target.Caps
	// NoTuning takes no notice of what vkc tune measured.
	NoTuning bool
	// Trace, if set, is given a profiled run of each case after it was timed.
	Trace func(c Case, p *runtime.Profile)
}

// Run compiles, checks and times a case. What goes wrong is in the result; the
// error is for a device that is lost and for the end of ctx.
func (r *Runner) Run(ctx context.Context, c Case) (res Result, err error) {
	start := time.Now()
	res = Result{Suite: c.Suite, Name: c.Name, Flops: c.Flops}
	err = r.run(ctx, &c, &res)
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
	res.Why = strings.Join(strings.Fields(err.Error()), " ")
	return res, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (r *Runner) run(ctx context.Context, c *Case, res *Result) error {
	g, err := c.Graph(c.Sizes)
	if err != nil {
		return err
	}
	prog, err := r.compile(ctx, g)
	if err != nil {
		res.Status = Refused
		return err
	}
	defer prog.Close()
	res.CompileMillis = millis(prog.Stats.Elapsed)
	res.describe(prog.Contents.Program)
	in, err := c.tensors(g, ir.OpInput)
	if err != nil {
		return err
	}
	weights, err := c.tensors(g, ir.OpWeight)
	if err != nil {
		return err
	}
	res.Moved = c.moved(in, weights, g)
	loaded, err := r.Device.Load(ctx, prog, vkc.LoadOptions{Weights: weightMap(weights)})
	if err != nil {
		res.Status = Refused
		return err
	}
	defer loaded.Close()
	exe, ok := loaded.(*vk.Executable)
	if !ok {
		return fmt.Errorf("%s has no clock to measure with: choose a Vulkan device", r.Device.Name())
	}
	out, err := exe.Run(ctx, in, runtime.RunOptions{})
	if err != nil {
		return err
	}
	if err := c.Check(ctx, in, weights, out.Outputs); err != nil {
		res.Status = Wrong
		return err
	}
	if err := r.time(ctx, c, exe, res); err != nil || r.Trace == nil {
		return err
	}
	// The second profiled run has its commands recorded already.
	for range 2 {
		if out, err = exe.Run(ctx, in, runtime.RunOptions{Profile: true}); err != nil {
			return err
		}
	}
	r.Trace(*c, out.Profile)
	return nil
}

func (r *Runner) compile(ctx context.Context, g *ir.Graph) (*vkc.Program, error) {
	opt := vkc.CompileOptions{NoCache: r.NoCache}
	if r.NoTuning {
		opt.Tuning = target.Tuning{}
	}
	if r.Target == nil {
		return r.Device.Compile(ctx, g, opt)
	}
	opt.Target = *r.Target
	return vkc.Compile(ctx, g, opt)
}

// describe notes the kernels of a run, equal ones once.
func (r *Result) describe(p *kernel.Program) {
	steps := p.Steps[p.Prepared:]
	r.Kernels = len(steps)
	for _, s := range steps {
		line := s.Schedule + " (" + strings.Join(s.Ops, " ") + ")"
		if !slices.Contains(r.Schedules, line) && len(r.Schedules) < maxSchedules {
			r.Schedules = append(r.Schedules, line)
		}
	}
}

// maxSchedules bounds Result.Schedules, which whole models would fill.
const maxSchedules = 40

// moved is the least that a device has to read and write.
func (c *Case) moved(in, weights map[string]*ir.Data, g *ir.Graph) float64 {
	if c.Moved > 0 {
		return c.Moved
	}
	sum := 0.0
	for _, all := range []map[string]*ir.Data{in, weights} {
		for _, d := range all {
			sum += float64(len(d.Bytes))
		}
	}
	for _, o := range g.Outputs() {
		if n, err := o.Node.Type().MaxBytes(); err == nil {
			sum += float64(n)
		}
	}
	return sum
}

func (r *Runner) time(ctx context.Context, c *Case, exe *vk.Executable, res *Result) error {
	opt := r.Options
	dev := r.Device.Vulkan()
	if !c.Cached && opt.Copies == 0 {
		opt.Copies = CopiesFor(r.Device.Caps(), int64(res.Moved))
	}
	t, err := Measure(ctx, dev, exe, opt)
	if err != nil {
		return err
	}
	if t.Median <= 0 {
		return errors.New("a replay took no time by the device's clock")
	}
	res.Status, res.Replays, res.Copies = OK, t.Replays, t.Copies
	res.Micros, res.Min, res.Max = micros(t.Median), micros(t.Min), micros(t.Max)
	res.TFlops, res.GBps = c.Flops/t.Median.Seconds()/1e12, res.Moved/t.Median.Seconds()/1e9
	res.Share, res.Bound = r.Ceilings.Share(c.Precision, res.GBps, res.TFlops)
	if c.Launches > 0 {
		res.Each = res.Micros / float64(c.Launches)
		host, err := MeasureHost(ctx, dev, exe)
		if err != nil {
			return err
		}
		res.Submit = micros(host)
	}
	return nil
}
