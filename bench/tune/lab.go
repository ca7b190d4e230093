package tune

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/toolcaps"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// lab is the Lab of a Vulkan device.
type lab struct {
	dev   *vk.Device
	caps  device.Caps
	tools *spirv.Toolchain
	cache string
	// capture selects the driver's pipeline data to keep.
	capture vk.Capture
	// change, for tests, corrupts the source of some schedules.
	change func(s kernel.Schedule, source string) string
}

// NewLab returns the Lab of a Vulkan device, and the caps to generate kernels for: the device without the features that
// the GLSL tools are too old to compile.
func NewLab(ctx context.Context, dev *vkc.Device) (Lab, device.Caps, error) {
	if dev.IsCPU() {
		return nil, device.Caps{}, fmt.Errorf("vkc tune measures Vulkan devices, and %s is none: vkc devices lists "+
			"those that are there", dev.Name())
	}
	d, err := newDevice(ctx, vk.Of(dev))
	if err != nil {
		return nil, device.Caps{}, err
	}
	return d, d.caps, nil
}

// newDevice returns a lab for a Vulkan device. It finds the GLSL tools, and leaves out device features that they cannot
// compile.
func newDevice(ctx context.Context, dev *vk.Device) (*lab, error) {
	root, err := cachefile.Root()
	if err != nil {
		root = ""
	}
	tools, err := spirv.Find(ctx, spirv.FindOptions{CacheDir: root})
	if err != nil {
		return nil, err
	}
	if err := tools.Ready(); err != nil {
		return nil, err
	}
	caps, _, err := toolcaps.Expressible(ctx, tools, dev.Caps())
	return &lab{dev: dev, caps: caps, tools: tools, cache: root}, err
}

// Open implements [Lab]: it makes data for the kernel's bindings and allocates its buffers. If the kernel has
// symbols, schedules are checked with a second set of their values too.
func (d *lab) Open(ctx context.Context, k *Kernel) (_ Harness, err error) {
	s := &harness{lab: d, kernel: k}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	values := []map[string]int64{k.Symbols}
	if other := k.secondSymbols(); other != nil {
		values = append(values, other)
	}
	for _, symbols := range values {
		list, err := k.operands(symbols)
		if err != nil {
			return nil, err
		}
		want, err := k.evaluate(list, symbols)
		if err != nil {
			return nil, fmt.Errorf("the host evaluator: %w", err)
		}
		s.trials = append(s.trials, trial{symbols: symbols, operands: list, want: want})
	}
	if err := s.allocate(ctx); err != nil {
		return nil, err
	}
	return s, s.openFiller(ctx)
}

// trial is one set of symbol values and input data on which results of schedules are checked.
type trial struct {
	symbols  map[string]int64
	operands []operand
	want     map[int]*ir.Data // results by binding; nil before the first schedule has run
}

// harness implements [Harness] on a Vulkan device. It holds a kernel's buffers, which all schedules of the kernel
// use.
type harness struct {
	*lab
	kernel  *Kernel
	trials  []trial                      // the first is the timed one
	closers []interface{ Close() error } // what Close releases, last first
	buffers []*vk.Buffer                 // by binding
	sets    *vk.Bindings                 // by copy of the buffers
	copies  int
	filler  *fillerKernel // runs before each timed dispatch; nil on a CPU device and before openFiller
	list    []*candidate  // in the order given to Prepare
	warm    bool          // something has been timed
}

// candidate is one schedule with its compiled pipeline, ready to run.
type candidate struct {
	schedule kernel.Schedule
	grid     kernel.Grid
	pipeline *vk.Pipeline
	needs    glsl.Shader
	failed   error
	burst    *burst
}

// Close implements [Harness].
func (s *harness) Close() error {
	var errs []error
	for _, c := range s.list {
		errs = append(errs, c.close())
	}
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i].Close())
	}
	s.closers, s.list = nil, nil
	return errors.Join(errs...)
}

// close releases the pipeline of a candidate, and its recorded burst if there is one.
func (c *candidate) close() error {
	var errs []error
	if c.burst != nil {
		errs = append(errs, c.burst.close())
	}
	if c.pipeline != nil {
		errs = append(errs, c.pipeline.Close())
	}
	return errors.Join(errs...)
}

// allocate makes the buffers of the bindings. Dispatches use copies of the buffers that are not temporary in turn. All
// copies together do not fit in the device's cache, because such buffers are not in the cache in a program either.
func (s *harness) allocate(ctx context.Context) error {
	first := s.trials[0]
	total, rotated := int64(0), int64(0)
	for _, o := range first.operands {
		total += o.buffer.Bytes + guard
		if o.rotated {
			rotated += o.buffer.Bytes + guard
		}
	}
	room := int64(s.dev.MemoryAvailable()/2) - total // at most half of the free memory
	if room < 0 {
		return fmt.Errorf("its buffers of %d bytes leave no room on the device", total)
	}
	s.copies = 1
	if rotated > 0 {
		s.copies = max(min(bench.CopiesFor(s.caps, rotated), int(room/rotated)), 1)
	}
	sets := make([]vk.BindingSet, s.copies)
	for i := range first.operands {
		o := &first.operands[i]
		b, err := s.buffer(o)
		if err != nil {
			return err
		}
		s.buffers = append(s.buffers, b)
		if err := s.writeContent(ctx, b, o); err != nil {
			return err
		}
		for n := range sets {
			if n > 0 && o.rotated {
				if b, err = s.copy(ctx, s.buffers[i], o); err != nil {
					return err
				}
			}
			sets[n].Name = s.kernel.Name
			sets[n].Buffers = append(sets[n].Buffers, vk.Whole(b))
		}
	}
	var err error
	if s.sets, err = s.dev.NewBindings(sets); err != nil {
		return err
	}
	s.closers = append(s.closers, s.sets)
	return nil
}

// buffer allocates device memory for operand o, with a guard after it. Close releases it.
func (s *harness) buffer(o *operand) (*vk.Buffer, error) {
	b, err := s.dev.NewBuffer(o.buffer.Name, o.buffer.Bytes+guard, vk.DeviceMemory)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, b)
	return b, nil
}

// copy returns a new buffer for operand o with the content of from.
func (s *harness) copy(ctx context.Context, from *vk.Buffer, o *operand) (*vk.Buffer, error) {
	b, err := s.buffer(o)
	if err != nil {
		return nil, err
	}
	list := s.dev.NewCommandList()
	list.CopyBuffer(b, 0, from, 0, from.Size())
	fill, err := s.dev.Record("copy", list)
	if err != nil {
		return nil, err
	}
	defer fill.Close()
	return b, s.dev.Run(ctx, fill)
}

// Prepare implements [Harness]: it compiles the schedules in parallel on all cores.
func (s *harness) Prepare(ctx context.Context, schedules []kernel.Schedule) ([]error, error) {
	var symbols []string
	for _, sym := range s.kernel.program.Symbols {
		symbols = append(symbols, sym.Name)
	}
	var shaders []spirv.Shader
	var compiled []*candidate // shaders[i] is compiled[i]'s
	for _, sched := range schedules {
		c := &candidate{schedule: sched}
		s.list = append(s.list, c)
		sh, err := glsl.Emit(s.kernel.Kernel, sched, s.caps, symbols)
		if err != nil {
			c.failed = err
			continue
		}
		if s.change != nil {
			sh.Source = s.change(sched, sh.Source)
		}
		c.grid, c.needs = sh.Grid, *sh
		shaders = append(shaders, spirv.Shader{Name: fmt.Sprint(sched), Source: sh.Source,
			TargetEnv: glsl.TargetEnv(sh.Needs, s.caps.API)})
		compiled = append(compiled, c)
	}
	results, _, err := s.tools.Compile(ctx, shaders, spirv.Options{Optimize: true, CacheDir: s.cache})
	if results == nil && err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range compiled {
		group.Go(func() error {
			if len(results[i].SPIRV) == 0 {
				c.failed = fmt.Errorf("it does not compile: %w", err)
				return nil
			}
			c.failed = s.pipeline(c, results[i].SPIRV)
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	errs := make([]error, len(s.list))
	for i, c := range s.list {
		errs[i] = c.failed
	}
	return errs, nil
}

// pipeline makes the candidate's Vulkan pipeline from its SPIR-V code.
func (s *harness) pipeline(c *candidate, code []byte) (err error) {
	n := c.needs.SubgroupSize
	full := n > 0 && c.needs.Workgroup%n == 0 && s.caps.Features.FullSubgroups
	c.pipeline, err = s.dev.NewPipeline(vk.PipelineDesc{Name: s.kernel.Name, Code: code,
		Buffers: len(s.kernel.Bindings), SubgroupSize: n, FullSubgroups: full, Capture: s.capture})
	return err
}

// Check implements [Harness].
func (s *harness) Check(ctx context.Context, i int) error {
	for n := range s.trials {
		if err := s.check(ctx, s.list[i], &s.trials[n]); err != nil {
			if len(s.trials) > 1 {
				err = fmt.Errorf("at %v: %w", s.trials[n].symbols, err)
			}
			return err
		}
	}
	// Time uses the data of the first trial.
	if len(s.trials) > 1 {
		return s.upload(ctx, &s.trials[0], func(*operand) bool { return true })
	}
	return nil
}

// upload writes the initial content of the operands for which include returns true.
func (s *harness) upload(ctx context.Context, t *trial, include func(*operand) bool) error {
	for i := range t.operands {
		if o := &t.operands[i]; include(o) {
			if err := s.writeContent(ctx, s.buffers[i], o); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeContent writes an operand's content before a run into b: its data, or the guard pattern if the kernel only
// writes it.
func (s *harness) writeContent(ctx context.Context, b *vk.Buffer, o *operand) error {
	if o.data != nil {
		return s.dev.Upload(ctx, b, 0, o.initial())
	}
	list := s.dev.NewCommandList()
	list.FillBuffer(b, 0, b.Size(), 0x01010101*pattern)
	fill, err := s.dev.Record("fill", list)
	if err != nil {
		return err
	}
	defer fill.Close()
	return s.dev.Run(ctx, fill)
}

// check runs a schedule once on a trial's data and compares its results with t.want. If t.want is nil, because the host
// evaluator could not compute it, this run's results become t.want.
func (s *harness) check(ctx context.Context, c *candidate, t *trial) error {
	written := func(o *operand) bool { return o.binding.Write }
	which := written
	if len(s.trials) > 1 { // the buffers may have the inputs of another trial
		which = func(*operand) bool { return true }
	}
	if err := s.upload(ctx, t, which); err != nil {
		return err
	}
	if err := s.runOnce(ctx, c, t.symbols); err != nil {
		return err
	}
	reference := t.want == nil
	if reference {
		t.want = map[int]*ir.Data{}
	}
	for i := range t.operands {
		o := &t.operands[i]
		if !written(o) {
			continue
		}
		all := make([]byte, o.buffer.Bytes+guard)
		if err := s.dev.Download(ctx, all, s.buffers[i], 0); err != nil {
			return err
		}
		if err := o.untouched(all); err != nil {
			return &WrongError{err}
		}
		have := o.result(all)
		if reference {
			t.want[i] = have
			continue
		}
		if err := same(have, t.want[i], s.kernel.tolerance(o.buffer.DType)); err != nil {
			return &WrongError{fmt.Errorf("%s: %w", o.buffer.Name, err)}
		}
	}
	return nil
}

// runOnce dispatches a schedule once on the harness's first buffers, with the given symbol values, and waits for it.
// The grid depends on the values.
func (s *harness) runOnce(ctx context.Context, c *candidate, symbols map[string]int64) error {
	groups, err := c.grid.Eval(symbols)
	if err != nil {
		return err
	}
	list := s.dev.NewCommandList()
	list.BindPipeline(c.pipeline)
	list.Bind(s.sets, 0)
	list.Dispatch(groups[0], groups[1], groups[2])
	run, err := s.dev.Record(s.kernel.Name, list)
	if err != nil {
		return err
	}
	defer run.Close()
	return s.dev.Run(ctx, run)
}
