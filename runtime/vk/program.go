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
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// LoadOptions adjusts [Device.Load]. The zero value is the usual choice.
type LoadOptions struct {
	// Graph is the program's source graph. With it, a run fails if an op would have nothing to pick from, such as
	// argmax over an empty axis. Without it, such a run computes undefined values.
	Graph *ir.Graph
	// Progress, if set, receives the progress of loading: bytes of uploaded weights, created pipelines, kernels warmed
	// up. Its calls do not overlap. It must not use the device.
	Progress func(runtime.Progress)
	// Guards surrounds every output and state with a pattern and checks the pattern after every run. A run with a
	// kernel that wrote outside of a tensor fails with an [*OverrunError]. It is for tests: it costs one download per
	// tensor and run.
	Guards bool
	// Share is another program on this device. The two programs share weights with equal names, types and layout, and
	// states with equal names and types. States of one name with different types are an error. The weight source is not
	// asked for shared weights, and shared states keep the other program's values.
	//
	// Weights equal to other weights on the device are always shared, whatever their names. Programs close
	// independently, in any order; the last one frees the shared buffers.
	Share *Executable
	// WeightRoom, if not 0, bounds the device memory for weights of all programs, in bytes. Weights beyond it stay in
	// host memory, and kernels read them over the bus. The weights named in HostFirst, which runs read least, go to
	// host memory first. On a device with unified memory a bound is an error, because there is no other memory.
	WeightRoom uint64
	HostFirst  map[string]bool
	// Statistics makes the driver keep statistics about kernels, for profiles. Without driver support, profiles lack
	// them.
	Statistics bool
	// Machine is the device's peak rates, for profiles.
	Machine device.Machine
}

// Executable is a program on a device. Its weights are uploaded, its kernels compiled, and its commands recorded once;
// every run replays them, for any values of the symbols. Its methods may be called concurrently. Runs are serialized.
type Executable struct {
	*runtime.Signature
	device  *Device
	program *kernel.Program
	steps   []kernel.Step // the program's steps, then the dispatches of persistent kernels

	// Made by Load, in this order.
	made        []closer
	ranges      []BufferRange         // by index in Program.Buffers
	lent        map[int]*sharedBuffer // weights, prepared weights and states, by index in Program.Buffers
	borrowed    map[int]bool          // the entries of lent that another program made
	inHost      map[int]bool          // weights in host memory
	weights     ir.WeightSource       // for states that begin as weights
	params      []*Buffer             // the buffers of kind BufParams
	indirect    *Buffer               // workgroup counts of symbolic grids; nil if there are none
	grids       *Buffer               // workgroup counts of gated steps before the gates; nil if there are none
	gatedGrids  *Buffer               // the same after the gates, which may set them to 0
	dispatches  []dispatch            // by step
	inputs      []*endpoint           // by port
	outputs     []*endpoint           // by port
	labels      []string              // names of outputs in errors, by port
	uses        []use                 // by index in Program.Buffers
	gridSymbols []kernel.Symbol       // the symbols that grids depend on
	signed      []ir.Dim              // extents that may be negative for some symbol values
	lateWords   [][]byte              // words that persistent kernels set on a timeout
	pipelines   []*Pipeline           // by shader; nil if no step uses it
	bindings    *Bindings             // set i is for step i
	reset       *Recording            // zeroes the states; nil if there are none
	stats       Stats
	recordings  atomic.Int64 // Stats.Recordings

	// turn is a lock with one token: its holder may use the fields below and the memory that runs share.
	turn      chan struct{}
	closed    atomic.Bool      // set by the holder of turn
	pending   Point            // the last submission of this program
	symbols   map[string]int64 // the values in params and grids; nil if they are stale
	copiesIn  copies
	copiesOut copies
	ahead     [maxAhead]ahead
	nextAhead int
	flying    int            // asynchronous runs since the queue was last drained
	given     int64          // bytes allocated for larger inputs in all elements of ahead
	kept      places         // of outputs, by port, shared by asynchronous runs: see sharedKept
	between   func() error   // the host's part of an exchange between devices; nil for nothing
	guards    *guards        // nil without LoadOptions.Guards
	machine   device.Machine // LoadOptions.Machine
	recorded  recordings
}

var _ runtime.Executable = (*Executable)(nil)

// closer is anything made on a device.
type closer interface{ Close() error }

// Stats describes the resources of a loaded program.
type Stats struct {
	// Bytes of device memory by kind of buffer. Temporaries share one arena, which counts once.
	Bytes map[kernel.BufferKind]int64
	// TempBytes is the size of the temporaries without sharing.
	TempBytes int64
	// StagingBytes is host memory for copies of inputs and outputs. It is 0 if the host can map the program's own
	// buffers.
	StagingBytes int64
	Steps        int // of a run
	Persistent   int // persistent kernels, each of which runs several steps
	NoRoom       int // persistent kernels that were rejected: their workgroups cannot all be resident
	Prepared     int // steps that ran at load
	Pipelines    int
	// Recordings counts the recordings of the program's steps: one, another for profiles, and another for runs with
	// device tensors. If trip counts of loops depend on symbols, each combination of trip counts has its own
	// recordings.
	Recordings int
	// CacheErr is the error of saving the pipeline cache, or nil.
	CacheErr error
}

// Load loads a compiled program onto the device. spirv has the code of each of p.Shaders. weights may be nil if p has
// none. The caller must not modify p afterwards. Load keeps weights only for states that begin as weights.
//
// Load checks p against the device before it allocates anything. A missing capability is a [*MismatchError]; a program
// larger than the device's memory is an [*OutOfMemoryError]. Allocation errors are the errors of [Device.NewBuffer].
func (d *Device) Load(ctx context.Context, p *kernel.Program, spirv [][]byte, weights ir.WeightSource,
	opt LoadOptions) (*Executable, error) {
	if p == nil {
		return nil, errors.New("load: there is no program: it is nil")
	}
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, runtime.Explain("load", p.Name, err)
	}
	if err := d.enter("load program"); err != nil {
		return nil, runtime.Explain("load", p.Name, err)
	}
	defer d.leave()
	e, err := d.load(ctx, p, spirv, weights, opt)
	if memory := (*OutOfMemoryError)(nil); errors.As(err, &memory) && len(p.Symbols) > 0 {
		memory.Smaller = p.Smaller()
	}
	if err != nil {
		return nil, runtime.Explain("load", p.Name, err)
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
		if p.Prepared == 0 { // else other loads may look for this load's prepared weights, so they wait
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

// newExecutable checks the program and makes an Executable with nothing on the device yet.
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

// checkLoad checks the program against the device, and checks that all weights are there.
func (e *Executable) checkLoad(spirv [][]byte) error {
	if err := e.device.checkFit(e.program); err != nil {
		return err
	}
	if err := e.device.checkModules(e.program, spirv); err != nil {
		return err
	}
	return bundle.CheckWeights(e.missing(), e.weights)
}

// place finds the buffers that are already on the device and allocates the others.
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

// warmUp runs every kernel once, and sets the states to their initial values.
func (e *Executable) warmUp(ctx context.Context, report func(stage runtime.Stage, done, total int64)) error {
	return e.keepStates(ctx, func() error {
		if err := e.warm(ctx, report); err != nil {
			return err
		}
		_ = e.takeFaults() // results of a warm-up are discarded, and so are its faults
		return e.resetStates(ctx, e.reset, e.ranges, func(state int) bool {
			return !e.borrowed[e.program.States[state].Buffer]
		})
	})
}

// errNoProgram is returned by the methods of a nil Executable.
var errNoProgram = errors.New("there is no program: Device.Load makes one, unless it returns an error")

// reporter returns a function that passes progress on. Its calls of to do not overlap.
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

// checkProgram checks that the program is consistent, and returns its signature with the given picks.
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
	return runtime.NewSignature(p.Name, ports(p.Inputs), ports(p.Outputs), ports(p.States), symbols, picks...)
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

// keep registers c to be closed by release.
func (e *Executable) keep(c closer) { e.made = append(e.made, c) }

// release closes everything made so far, in reverse order.
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

// Stats describes the program's resources.
func (e *Executable) Stats() Stats {
	if e == nil {
		return Stats{}
	}
	s := e.stats
	s.Recordings = int(e.recordings.Load())
	return s
}

// Close waits for a run in progress and frees the program once the device has finished with it. Closing twice is fine.
func (e *Executable) Close() error {
	if e == nil || e.turn == nil {
		return nil
	}
	<-e.turn
	defer func() { e.turn <- struct{}{} }()
	e.closed.Store(true)
	return e.release()
}

// take acquires the program's lock and enters the device. give undoes both.
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

// enter keeps the device open, because closing it would free the program's memory. The device's leave ends that.
func (e *Executable) enter() error {
	if e == nil || e.turn == nil {
		return errNoProgram
	}
	if e.closed.Load() {
		return runtime.ErrProgramClosed
	}
	return e.device.enter("use the program")
}

func (e *Executable) give() {
	e.device.leave()
	e.turn <- struct{}{}
}
