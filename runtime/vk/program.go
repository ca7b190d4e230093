package vk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// LoadOptions adjust [Device.Load]; the zero value is the usual choice.
type LoadOptions struct {
	// Graph is what the program computes; runs are refused where an op of it has nothing to pick from. With nil such a
	// run has numbers that mean nothing.
	Graph *ir.Graph
	// Progress, if set, is told how far loading is, by one call at a time: how many bytes of weights are on
	// their way to the device, how many pipelines there are, how many kernels have been started for the
	// first time. It must not use the device.
	Progress func(runtime.Progress)
	// Guards puts a pattern around every output and state, and looks after every run whether it is still
	// there: a run whose kernels wrote outside of one fails with an [*OverrunError]. It is for tests, as it
	// costs a download a tensor and run.
	Guards bool
	// Share is another program on this device, whose weights and states this one uses too, where it has
	// the same: weights of equal names, types and layout, and states of equal names, whose types must be equal as well.
	// Such weights are not asked of the source. Others that are equal to weights on the device, whatever their
	// names, are shared without being asked for. States are as the other program left them. Each program is
	// closed by itself, in any order; what they share stays until the last is.
	Share *Executable
	// WeightRoom is how many bytes of the device's memory all weights of all programs may take, if not 0. What has no
	// room there lies in host memory, which kernels read over the bus: first the weights that HostFirst
	// names, of which a run reads little. A device that shares the host's memory has no other, which is an error.
	WeightRoom uint64
	HostFirst  map[string]bool
	// Statistics has the driver keep what kernels cost, for profiles; where it cannot, profiles lack it.
	Statistics bool
	// Machine is how fast the device is, as profiles compare kernels with it.
	Machine target.Machine
}

// Executable is a program on a device: its weights uploaded, its kernels compiled, its commands recorded
// once and replayed by every run, at whatever lengths. Its methods may be called concurrently; runs take
// turns.
type Executable struct {
	*runtime.Signature
	device  *Device
	program *kernel.Program
	steps   []kernel.Step // and the dispatches of persistent kernels after them

	// Made by Load, in this order.
	made        []closer
	ranges      []BufferRange         // by index in Program.Buffers
	lent        map[int]*sharedBuffer // weights and states, likewise
	borrowed    map[int]bool          // those of them that another program made
	inHost      map[int]bool          // weights that lie in host memory
	weights     ir.WeightSource       // which states may begin as
	params      []*Buffer             // those of kind BufParams
	indirect    *Buffer               // the counts of symbolic grids; nil if there are none
	grids       *Buffer               // the counts of gated steps; nil if there are none
	gatedGrids  *Buffer               // what gates leave of them
	dispatches  []dispatch            // by step
	inputs      []*endpoint           // by port
	outputs     []*endpoint           // by port
	labels      []string              // what outputs are called in errors, by port
	uses        []use                 // by index in Program.Buffers
	gridSymbols []kernel.Symbol       // on which grids depend
	signed      []ir.Dim              // extents that values of symbols may make negative
	lateWords   [][]byte              // that persistent kernels set where their workgroups wait in vain
	pipelines   []*Pipeline           // by shader; nil where no step uses it
	bindings    *Bindings             // set i is for step i
	reset       *Recording            // zeroes the states; nil if there are none
	stats       Stats
	recordings  atomic.Int64 // Stats.Recordings

	// turn holds a token that whoever uses the fields below, or the memory that runs share, takes out.
	turn      chan struct{}
	closed    atomic.Bool      // set with the turn taken out
	pending   Point            // the last submission of this program
	symbols   map[string]int64 // that params and grids are written for; nil: none
	copiesIn  copies
	copiesOut copies
	ahead     [maxAhead]ahead
	nextAhead int
	flying    int            // runs ahead since the last of those before was waited for
	given     int64          // how many bytes the larger inputs of all turns have
	kept      places         // of outputs, by port, which runs share: see sharedKept
	between   func() error   // what the host does each time that devices have given one another values; nil for nothing
	guards    *guards        // nil without LoadOptions.Guards
	machine   target.Machine // LoadOptions.Machine
	recorded  recordings
}

var _ runtime.Executable = (*Executable)(nil)

// closer is anything made on a device.
type closer interface{ Close() error }

// Stats says what a loaded program takes.
type Stats struct {
	// Bytes of device memory by kind of buffer; of temporaries, the one arena they share.
	Bytes map[kernel.BufferKind]int64
	// TempBytes is what the temporaries would take without sharing.
	TempBytes int64
	// StagingBytes is host memory through which inputs and outputs pass; 0 where the host reaches the
	// program's own buffers.
	StagingBytes int64
	Steps        int // of a run
	Persistent   int // kernels that do several of them each
	NoRoom       int // such kernels that wait in vain on this device, so that their steps run
	Prepared     int // that ran when the program was loaded
	Pipelines    int
	// Recordings is how often the program's steps have been recorded: once, once more for profiles, and once
	// for tensors that stay on the device, where others are copied. Where a loop's trips depend on symbols, that is so
	// for each number of them.
	Recordings int
	// CacheErr is why compiled pipelines could not be kept for next time, if so.
	CacheErr error
}

// Load puts a compiled program on the device. spirv has the code of each of p.Shaders; weights may be nil
// where p has none. p must not be modified afterwards; weights are not used after Load returns.
//
// Before anything is allocated, p is checked against the device: what does not fit is a [*MismatchError],
// or an [*OutOfMemoryError] where the device's memory is smaller than the program. Errors of allocation
// are those of [Device.NewBuffer].
func (d *Device) Load(ctx context.Context, p *kernel.Program, spirv [][]byte, weights ir.WeightSource,
	opt LoadOptions) (*Executable, error) {
	if p == nil {
		return nil, errors.New("vk: load: no program")
	}
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("load %s: %w", ir.Titled("program", p.Name), err)
	}
	if err := d.enter("load program"); err != nil {
		return nil, fmt.Errorf("load %s: %w", ir.Titled("program", p.Name), err)
	}
	defer d.leave()
	e, err := d.load(ctx, p, spirv, weights, opt)
	if memory := (*OutOfMemoryError)(nil); errors.As(err, &memory) && len(p.Symbols) > 0 {
		memory.Smaller = p.Smaller()
	}
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", ir.Titled("program", p.Name), err)
	}
	return e, nil
}

func (d *Device) load(ctx context.Context, p *kernel.Program, spirv [][]byte, weights ir.WeightSource,
	opt LoadOptions) (_ *Executable, err error) {
	e, err := d.newExecutable(p, spirv, weights, opt)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.release()
		}
	}()
	if opt.Share != nil {
		if err := opt.Share.lendTo(ctx, e); err != nil {
			return nil, err
		}
		defer opt.Share.give()
	}
	if err := e.checkLoad(spirv); err != nil {
		return nil, err
	}
	uploaded, err := d.weights.take(ctx)
	if err != nil {
		return nil, err
	}
	defer uploaded()
	if err := e.place(ctx, spirv, opt); err != nil {
		return nil, err
	}
	report := reporter(opt.Progress)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.compile(groupCtx, spirv, opt.Statistics, report) })
	group.Go(func() error {
		if p.Prepared == 0 { // else others find what this load is about to make of its weights
			defer uploaded()
		}
		return e.uploadWeights(groupCtx, weights, report)
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := e.record(); err != nil {
		return nil, err
	}
	if err := e.prepare(ctx); err != nil {
		return nil, err
	}
	e.addPrepared(spirv)
	uploaded()
	if err := e.warmUp(ctx, report); err != nil {
		return nil, err
	}
	if err := e.recordMain(); err != nil {
		return nil, err
	}
	e.stats.CacheErr = d.SavePipelineCache()
	return e, nil
}

// newExecutable is a program that holds together, before anything of it is on the device.
func (d *Device) newExecutable(p *kernel.Program, spirv [][]byte, weights ir.WeightSource,
	opt LoadOptions) (*Executable, error) {
	signature, err := checkProgram(p, spirv, opt.Graph.Picks()...)
	if err != nil {
		return nil, err
	}
	e := &Executable{Signature: signature, device: d, program: p, steps: p.Dispatches(), uses: usesOf(p),
		gridSymbols: gridSymbolsOf(p), signed: signedExtents(p), turn: make(chan struct{}, 1),
		machine: opt.Machine, weights: weights,
		lent: map[int]*sharedBuffer{}, borrowed: map[int]bool{}, inHost: map[int]bool{}}
	if opt.Guards {
		e.guards = &guards{}
	}
	e.turn <- struct{}{}
	return e, nil
}

// checkLoad refuses what does not fit the device, and weights that are not all there.
func (e *Executable) checkLoad(spirv [][]byte) error {
	if err := e.device.checkFit(e.program); err != nil {
		return err
	}
	if err := e.device.checkModules(e.program, spirv); err != nil {
		return err
	}
	return bundle.CheckWeights(e.missing(), e.weights)
}

// place finds what is on the device already and makes the memory of all else.
func (e *Executable) place(ctx context.Context, spirv [][]byte, opt LoadOptions) error {
	if err := e.findWeights(ctx, e.weights); err != nil {
		return err
	}
	e.findPrepared(spirv)
	if err := e.placeWeights(opt); err != nil {
		return err
	}
	if err := e.device.checkTotal(e.onDevice()); err != nil {
		return err
	}
	return e.allocate()
}

// warmUp runs the program once, and leaves states as they are to be before the first run.
func (e *Executable) warmUp(ctx context.Context, report func(stage runtime.Stage, done, total int64)) error {
	return e.keepStates(ctx, func() error {
		if err := e.warm(ctx, report); err != nil {
			return err
		}
		_ = e.takeFaults() // what a warm-up computes is nobody's result
		return e.resetStates(ctx, e.reset, e.ranges, func(state int) bool {
			return !e.borrowed[e.program.States[state].Buffer]
		})
	})
}

// errNoProgram is returned by the methods of a nil Executable.
var errNoProgram = errors.New("there is no program: Device.Load makes one, unless it returns an error")

// reporter returns a function that passes progress on, by one call at a time.
func reporter(to func(runtime.Progress)) func(stage runtime.Stage, done, total int64) {
	var mu sync.Mutex
	return func(stage runtime.Stage, done, total int64) {
		if to == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		to(runtime.Progress{Stage: stage, Done: done, Total: total})
	}
}

// checkProgram refuses programs that do not hold together, and returns the interface of one that does, and that picks
// from what may be empty.
func checkProgram(p *kernel.Program, spirv [][]byte, picks ...ir.Pick) (*runtime.Signature, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if len(spirv) != len(p.Shaders) {
		return nil, fmt.Errorf("SPIR-V of %d shaders for a program of %d", len(spirv), len(p.Shaders))
	}
	var symbols []runtime.Symbol
	for _, s := range p.Symbols {
		if s.Bound > maxSymbol {
			return nil, fmt.Errorf("symbol %s reaches %d; kernels read it as 32 bits", s.Name, s.Bound)
		}
		symbols = append(symbols, runtime.Symbol{Name: s.Name, Bound: s.Bound})
	}
	return runtime.NewSignature(ports(p.Inputs), ports(p.Outputs), ports(p.States), symbols, picks...)
}

// maxSymbol is the largest value of a symbol that fits the params buffer.
const maxSymbol = 1<<32 - 1

func ports(list []kernel.Port) []runtime.Port {
	var out []runtime.Port
	for _, p := range list {
		out = append(out, runtime.Port{Name: p.Name, Type: ir.Type{DType: p.DType, Shape: p.Shape}})
	}
	return out
}

// keep notes what release is to close.
func (e *Executable) keep(c closer) { e.made = append(e.made, c) }

// release closes everything made so far, the latest first.
func (e *Executable) release() error {
	made := e.made
	e.made = nil
	return closeList(made)
}

// compile makes the pipelines of the shaders that steps use.
func (e *Executable) compile(ctx context.Context, spirv [][]byte, statistics bool,
	report func(runtime.Stage, int64, int64)) error {
	p := e.program
	e.pipelines = make([]*Pipeline, len(p.Shaders))
	var descs []PipelineDesc
	var shaders []int
	for i := range p.Shaders {
		if !slices.ContainsFunc(e.steps, func(s kernel.Step) bool { return s.Shader == i }) {
			continue
		}
		desc := e.device.DescribeShader(p.Shaders[i], spirv[i])
		if statistics && e.device.info.Caps.Features.PipelineExecutableProperties {
			desc.Capture = CaptureStatistics
		}
		descs = append(descs, desc)
		shaders = append(shaders, i)
	}
	made, err := e.device.newPipelines(ctx, descs, func(done int) {
		report(runtime.StagePipelines, int64(done), int64(len(descs)))
	})
	if err != nil {
		return err
	}
	for i, p := range made {
		e.pipelines[shaders[i]] = p
		e.keep(p)
	}
	e.stats.Pipelines = len(made)
	return nil
}

// Device names the device.
func (e *Executable) Device() string {
	if e == nil || e.device == nil {
		return "no device"
	}
	return e.device.describe()
}

// Stats says what the program takes.
func (e *Executable) Stats() Stats {
	if e == nil {
		return Stats{}
	}
	s := e.stats
	s.Recordings = int(e.recordings.Load())
	return s
}

// Close frees the program once the device is done with it; a run under way ends first. Closing twice is
// fine.
func (e *Executable) Close() error {
	if e == nil || e.turn == nil {
		return nil
	}
	<-e.turn
	defer func() { e.turn <- struct{}{} }()
	e.closed.Store(true)
	return e.release()
}

// take waits for this caller's turn; give ends it.
func (e *Executable) take(ctx context.Context) error {
	if e == nil || e.turn == nil {
		return errNoProgram
	}
	select {
	case <-e.turn:
	default:
		select {
		case <-e.turn:
		case <-ctx.Done():
			return fmt.Errorf("another run is under way: %w", ctx.Err())
		}
	}
	err := e.enter()
	if err != nil {
		e.turn <- struct{}{}
	}
	return err
}

// enter keeps the device open, without which a program's memory is gone, until the device's leave.
func (e *Executable) enter() error {
	if e == nil || e.turn == nil {
		return errNoProgram
	}
	if e.closed.Load() {
		return fmt.Errorf("the program is %w", ErrClosed)
	}
	return e.device.enter("use the program")
}

func (e *Executable) give() {
	e.device.leave()
	e.turn <- struct{}{}
}
