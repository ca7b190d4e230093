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

// device is the Lab of a Vulkan device.
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

// newDevice returns the lab of a Vulkan device, with the GLSL tools and the features that these can compile.
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

// Open implements [Lab].
func (d *lab) Open(ctx context.Context, k *Kernel) (_ Stand, err error) {
	s := &stand{lab: d, kernel: k}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	values := []map[string]int64{k.Symbols}
	if other := k.others(); other != nil {
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
	return s, s.openOther(ctx)
}

// trial is one set of symbol values and input data on which results of schedules are checked.
type trial struct {
	symbols  map[string]int64
	operands []operand
	want     map[int]*ir.Data // results by binding; nil before the first schedule has run
}

// stand implements [Stand] on a Vulkan device: a kernel, with buffers that all its schedules share.
type stand struct {
	*lab
	kernel  *Kernel
	trials  []trial // the first is the timed one
	made    []interface{ Close() error }
	buffers []*vk.Buffer // by binding
	sets    *vk.Bindings // by copy of the buffers
	copies  int
	other   *other // runs before each timed dispatch; nil on a CPU device
	list    []*contender
	warm    bool // something has been timed
}

// contender is one schedule with its compiled pipeline, ready to run.
type contender struct {
	schedule kernel.Schedule
	grid     kernel.Grid
	pipeline *vk.Pipeline
	needs    glsl.Shader
	failed   error
	burst    *burst
}

// Close implements [Stand].
func (s *stand) Close() error {
	var errs []error
	for _, c := range s.list {
		errs = append(errs, c.close())
	}
	for i := len(s.made) - 1; i >= 0; i-- {
		errs = append(errs, s.made[i].Close())
	}
	s.made, s.list = nil, nil
	return errors.Join(errs...)
}

func (c *contender) close() error {
	var errs []error
	if c.burst != nil {
		errs = append(errs, c.burst.close())
	}
	if c.pipeline != nil {
		errs = append(errs, c.pipeline.Close())
	}
	return errors.Join(errs...)
}

// allocate makes the buffers, and enough copies of the non-temporary ones that they do not fit in the device's cache.
func (s *stand) allocate(ctx context.Context) error {
	first := s.trials[0]
	total, rotated := int64(0), int64(0)
	for _, o := range first.operands {
		total += o.buffer.Bytes + guard
		if o.rotate {
			rotated += o.buffer.Bytes + guard
		}
	}
	room := int64(s.dev.MemoryAvailable()/2) - total
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
		if err := s.put(ctx, b, o); err != nil {
			return err
		}
		for n := range sets {
			if n > 0 && o.rotate {
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
	s.made = append(s.made, s.sets)
	return nil
}

func (s *stand) buffer(o *operand) (*vk.Buffer, error) {
	b, err := s.dev.NewBuffer(o.buffer.Name, o.buffer.Bytes+guard, vk.DeviceMemory)
	if err != nil {
		return nil, err
	}
	s.made = append(s.made, b)
	return b, nil
}

// copy makes another buffer for operand o, with the contents of from.
func (s *stand) copy(ctx context.Context, from *vk.Buffer, o *operand) (*vk.Buffer, error) {
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

// Prepare implements [Stand]: it compiles the schedules in parallel on all cores.
func (s *stand) Prepare(ctx context.Context, schedules []kernel.Schedule) ([]error, error) {
	var symbols []string
	for _, sym := range s.kernel.program.Symbols {
		symbols = append(symbols, sym.Name)
	}
	var shaders []spirv.Shader
	var compiled []*contender
	for _, sched := range schedules {
		c := &contender{schedule: sched}
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

func (s *stand) pipeline(c *contender, code []byte) (err error) {
	n := c.needs.SubgroupSize
	full := n > 0 && c.needs.Workgroup%n == 0 && s.caps.Features.FullSubgroups
	c.pipeline, err = s.dev.NewPipeline(vk.PipelineDesc{Name: s.kernel.Name, Code: code,
		Buffers: len(s.kernel.Bindings), SubgroupSize: n, FullSubgroups: full, Capture: s.capture})
	return err
}

// Check implements [Stand].
func (s *stand) Check(ctx context.Context, i int) error {
	for n := range s.trials {
		if err := s.check(ctx, s.list[i], &s.trials[n]); err != nil {
			if len(s.trials) > 1 {
				err = fmt.Errorf("at %v: %w", s.trials[n].symbols, err)
			}
			return err
		}
	}
	// What is timed is the first.
	if len(s.trials) > 1 {
		return s.upload(ctx, &s.trials[0], func(*operand) bool { return true })
	}
	return nil
}

// upload writes the content of some operands.
func (s *stand) upload(ctx context.Context, t *trial, which func(*operand) bool) error {
	for i := range t.operands {
		if o := &t.operands[i]; which(o) {
			if err := s.put(ctx, s.buffers[i], o); err != nil {
				return err
			}
		}
	}
	return nil
}

// put writes the content of a buffer before a run.
func (s *stand) put(ctx context.Context, b *vk.Buffer, o *operand) error {
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

// check runs a schedule once on a trial's data and compares its results. If the host evaluator did not run, the results
// of the first schedule become the reference.
func (s *stand) check(ctx context.Context, c *contender, t *trial) error {
	written := func(o *operand) bool { return o.binding.Write }
	which := written
	if len(s.trials) > 1 {
		which = func(*operand) bool { return true }
	}
	if err := s.upload(ctx, t, which); err != nil {
		return err
	}
	if err := s.once(ctx, c, t.symbols); err != nil {
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

// once runs a schedule a single time.
func (s *stand) once(ctx context.Context, c *contender, symbols map[string]int64) error {
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
