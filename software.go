package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/trial"
)

// software is the device that "auto" opens on a machine without a GPU. Programs begin on the CPU fast path at once. A
// program that runs long is tried in the background on a Vulkan device in software; see [trial.Executable].
type software struct {
	*processor
	open      func() (*vulkan, error) // opens the Vulkan device; nil if it was opened already
	trialTurn chan struct{}           // a lock that lets one trial run at a time
	limits    trialLimits

	mu     sync.Mutex // guards the fields below
	opened *vulkan    // nil until a program needs it
	failed error      // the reason that the Vulkan device does not open
	closed bool
}

// trialLimits says when a program is tried and how much memory that may take.
type trialLimits struct {
	// Compiling a graph on one core is expected to take fixed, plus perNode for each of its nodes. A program is tried
	// once its runs have taken `times` times as long as that.
	fixed, perNode time.Duration
	times          int

	bytes int64 // of the program's buffers on the device

	// clock measures runs; nil means the clock of the machine.
	clock func(runtime.Executable, func() error) (time.Duration, error)
}

// softwareTrial has these figures because lavapipe takes 0.1 to 0.3 s to compile a kernel, which has several nodes. A
// trial in vain costs less than a tenth of the time of the runs before it.
var softwareTrial = trialLimits{fixed: time.Second, perNode: 50 * time.Millisecond, times: 10, bytes: 1 << 30}

// after returns how long a graph runs before it is tried.
func (l trialLimits) after(g *ir.Graph) time.Duration {
	return time.Duration(l.times) * (l.fixed + time.Duration(len(g.Nodes()))*l.perNode)
}

// device returns the Vulkan device. The first call opens it.
func (s *software) device() (*vulkan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("the device is %w", ErrClosed)
	}
	if s.opened == nil && s.failed == nil {
		s.opened, s.failed = s.open()
	}
	return s.opened, s.failed
}

// forCustomOps returns a device that runs a graph with custom ops on the Vulkan device from the beginning. The CPU
// would run the op's Go code, which is optional and serves as a check. forCustomOps returns nil for other graphs, and
// if no Vulkan device opens.
func (s *software) forCustomOps(g *ir.Graph) *auto {
	if !compiler.IsCustom(g) {
		return nil
	}
	v, err := s.device()
	if err != nil {
		return nil
	}
	return &auto{v, s.processor}
}

// compile makes a program for the CPU fast path, or for the Vulkan device if the graph has custom ops.
func (s *software) compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	if a := s.forCustomOps(g); a != nil {
		return a.compile(ctx, g, opt)
	}
	p, err := s.processor.compile(ctx, g, opt)
	if err == nil {
		p.options = opt
	}
	return p, err
}

// load loads a program on the CPU fast path, from which it may move to the Vulkan device later. A program with custom
// ops is loaded on the Vulkan device, and so is one that shares memory with such a program.
func (s *software) load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	g := p.Contents.Graph
	if a := s.forCustomOps(g); a != nil {
		return a.load(ctx, p, opt)
	}
	if opt.Share.Vulkan() != nil { // a program with custom ops
		return s.loadNextTo(ctx, p, opt)
	}
	exe, err := s.processor.load(ctx, p, opt)
	if err != nil || opt.Share != nil {
		return exe, err
	}
	own := *p // the caller may close a bundle before the trial
	own.Contents.SPIRV = nil
	for _, code := range p.Contents.SPIRV {
		own.Contents.SPIRV = append(own.Contents.SPIRV, slices.Clone(code))
	}
	exe.backend = trial.New(g, exe.backend, trial.Options{
		Load:  func(ctx context.Context) (runtime.Executable, error) { return s.loadForTrial(ctx, &own, opt.Weights) },
		First: processorName, Second: "Vulkan in software", After: s.limits.after(g), Turn: s.trialTurn,
		Clock: s.limits.clock,
	})
	return exe, nil
}

// loadNextTo loads a program on the Vulkan device, and compiles it if it is not compiled yet. The executable with which
// it shares memory (opt.Share) is there.
func (s *software) loadNextTo(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	v, err := s.device()
	if err != nil {
		return nil, err
	}
	a := &auto{v, s.processor}
	if p.Contents.Program == nil && p.refused == nil {
		options := p.options
		if options.Weights == nil {
			options.Weights = opt.Weights
		}
		if p, err = a.compile(ctx, p.Contents.Graph, options); err != nil {
			return nil, err
		}
	}
	return a.load(ctx, p, opt)
}

// loadForTrial compiles a program, if it is not compiled yet, and loads it on the Vulkan device. It starts one compiler
// process at a time, so that the runs in progress keep most of the CPU.
func (s *software) loadForTrial(ctx context.Context, p *Program, weights ir.WeightSource) (runtime.Executable, error) {
	v, err := s.device()
	if err != nil {
		return nil, err
	}
	if p.Contents.Program == nil {
		opt := p.options
		opt.Weights, opt.Progress, opt.Jobs = weights, nil, 1
		if p, err = v.compile(ctx, p.Contents.Graph, opt); err != nil {
			return nil, err
		}
	}
	if need := bytesOf(p.Contents.Program); need > s.limits.bytes {
		return nil, fmt.Errorf("it would take %d MiB of memory, and a trial may take %d", need>>20, s.limits.bytes>>20)
	}
	exe, err := v.load(ctx, p, LoadOptions{Weights: weights})
	if err != nil {
		return nil, err
	}
	return exe.backend, nil
}

// bytesOf returns the size of a program's buffers.
func bytesOf(p *kernel.Program) int64 {
	n := int64(p.ArenaBytes)
	for _, b := range p.Buffers {
		if b.Kind != kernel.BufTemp { // these are in the arena
			n += int64(b.Bytes)
		}
	}
	return n
}

// hardware returns the processor, and the Vulkan device if that was opened.
func (s *software) hardware() []hardware {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil { // no program has needed the Vulkan device yet
		return []hardware{s.processor}
	}
	return []hardware{s.processor, s.opened}
}

// close closes the Vulkan device too, if it was opened.
func (s *software) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	err := s.processor.close()
	if s.opened != nil {
		err = errors.Join(err, s.opened.close())
	}
	return err
}
