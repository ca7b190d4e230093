// Package cpu runs graphs on the CPU, node by node. By default it is the CPU fast path: the kernels of package fast
// compute the nodes that they support, and the reference interpreter computes the others. With Options.Reference it is
// the CPU reference: the interpreter computes every node. It is the backend of machines without a Vulkan device.
//
//	exe, err := cpu.Load(g, weights, cpu.Options{})
//	res, err := exe.Run(ctx, map[string]*ir.Data{"x": x})
package cpu

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu/fast"
)

// Options adjusts Load. The zero value means the defaults.
type Options struct {
	// Workers limits the goroutines that execute one op; 0 means one per core. Results do not depend on it.
	Workers int
	// MemoryLimit limits the bytes of live values; 0 means no limit.
	MemoryLimit int64
	// Share, if set, is another executable of this package. The new executable uses the weights of Share if Load is
	// given none. States with the same name in both executables are one state.
	Share runtime.Executable
	// Reference makes the interpreter, which defines each op, compute every node instead of package fast.
	Reference bool
	// Poison is for tests of the reuse of memory between runs; see [interp.Options].
	Poison bool
	// Device is the program's device; nil means a default device shared by all programs.
	Device *Device
	// Context, if set, ends Load early.
	Context context.Context
}

// HasInt8Dots reports whether matmuls in precision int8 are faster than exact ones, for any number of rows, because the
// processor has an instruction for dot products of int8.
func HasInt8Dots() bool { return fast.HasInt8Dots() }

// executable is a loaded graph.
type executable struct {
	*runtime.Signature
	device  *Device
	name    string
	what    string // "CPU fast path" or "CPU reference"
	workers int

	mu      sync.Mutex      // guards program
	program *interp.Program // nil after Close
}

// Load prepares a graph to run on the CPU. weights may be nil if the graph has none. Several goroutines may use the
// result.
func Load(g *ir.Graph, weights ir.WeightSource, opt Options) (runtime.Executable, error) {
	if err := g.Verify(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	e, err := newExecutable(g, weights, opt)
	if err != nil {
		return nil, runtime.Explain("load", g.Name, err)
	}
	return e, nil
}

// newExecutable prepares a graph for runs, by the fast path or, with Options.Reference, by the reference. [Load] adds
// the graph's name to its errors.
func newExecutable(g *ir.Graph, weights ir.WeightSource, opt Options) (*executable, error) {
	share, err := sharedWith(opt.Share)
	if err != nil {
		return nil, err
	}
	replace, what := fast.Kernels, "CPU fast path"
	if opt.Reference {
		replace, what = nil, "CPU reference"
	}
	p, err := interp.New(g, interp.Options{Weights: weights, Workers: opt.Workers, MemoryLimit: opt.MemoryLimit,
		Share: share, Replace: replace, Poison: opt.Poison, Context: opt.Context})
	if err != nil {
		return nil, err
	}
	workers := opt.Workers
	if workers <= 0 {
		workers = goruntime.GOMAXPROCS(0)
	}
	device := opt.Device
	if device == nil {
		device = &own
	}
	device.add(p)
	return &executable{Signature: runtime.SignatureOf(g), device: device, name: g.Name, what: what, workers: workers,
		program: p}, nil
}

// sharedWith returns the program of Options.Share, or nil if there is none.
func sharedWith(with runtime.Executable) (*interp.Program, error) {
	if with == nil {
		return nil, nil
	}
	from, ok := with.(*executable)
	if !ok {
		return nil, fmt.Errorf("the program to share with runs on %s", with.Device())
	}
	p, err := from.open()
	if err != nil {
		return nil, fmt.Errorf("share with another program: %w", err)
	}
	return p, nil
}

// Run implements runtime.Executable. A profile has no kernels, because nodes are not timed.
func (e *executable) Run(ctx context.Context, in map[string]*ir.Data,
	opts ...runtime.RunOptions) (*runtime.Result, error) {
	start := time.Now()
	opt, err := runtime.CheckRun(ctx, opts)
	var r *runtime.Result
	if err == nil {
		r, err = e.run(ctx, in, opt)
	}
	if err != nil {
		return nil, e.Explain("run", err)
	}
	if opt.Profile {
		r.Profile = &runtime.Profile{Wall: time.Since(start)}
	}
	return r, nil
}

// run checks a run's inputs and options, and executes it.
func (e *executable) run(ctx context.Context, in map[string]*ir.Data,
	opt runtime.RunOptions) (*runtime.Result, error) {
	// These checks come first, because a run that fails them must not change states.
	p, err := e.programOf(opt)
	if err != nil {
		return nil, err
	}
	if err := e.device.checkUsable(); err != nil {
		return nil, err
	}
	symbols, err := e.Bind(in, opt)
	if err != nil {
		return nil, err
	}
	outputs, err := e.NewOutputs(symbols, opt)
	if err != nil {
		return nil, err
	}
	all, release, err := e.hold(in, opt)
	if err != nil {
		return nil, err
	}
	defer release()
	for _, d := range in {
		e.device.in.Add(uint64(len(d.Bytes)))
	}
	out, err := p.RunInto(ctx, all, opt.Symbols, opt.Into)
	if err != nil {
		return nil, err
	}
	result := &runtime.Result{Outputs: out}
	for i, port := range e.Outputs() {
		have := out[port.Name]
		if outputs[i].Keep {
			delete(out, port.Name)
			if result.Kept == nil {
				result.Kept = map[string]*runtime.DeviceTensor{}
			}
			label := fmt.Sprintf("output %q of %s", port.Name, ir.Titled("program", e.name))
			if result.Kept[port.Name], err = e.device.newTensor(label, have); err != nil {
				return nil, err
			}
			continue
		}
		e.device.out.Add(uint64(len(have.Bytes)))
	}
	return result, nil
}

// ReadState implements runtime.Executable.
func (e *executable) ReadState(name string) (*ir.Data, error) { return e.readState(name, e.open) }

// readState reads a state. open returns the program with the set of states to read: the program's own or another set.
func (e *executable) readState(name string, open func() (*interp.Program, error)) (d *ir.Data, err error) {
	p, err := open()
	if err == nil {
		_, err = e.State(name)
	}
	if err == nil {
		d, err = p.State(name)
	}
	return d, e.Explain("read state of", err)
}

// WriteState implements runtime.Executable.
func (e *executable) WriteState(name string, d *ir.Data) error { return e.writeState(name, d, e.open) }

// writeState writes a state of the program that open returns.
func (e *executable) writeState(name string, d *ir.Data, open func() (*interp.Program, error)) error {
	p, err := open()
	if err == nil {
		_, err = e.CheckState(name, d)
	}
	if err == nil {
		err = p.SetState(name, d)
	}
	return e.Explain("write state of", err)
}

// ResetStates implements runtime.Executable.
func (e *executable) ResetStates() error { return e.resetStates(e.open) }

// resetStates resets the states of the program that open returns.
func (e *executable) resetStates(open func() (*interp.Program, error)) error {
	p, err := open()
	if err == nil {
		err = p.ResetStates()
	}
	return e.Explain("reset states of", err)
}

// Device implements runtime.Executable.
func (e *executable) Device() string {
	return fmt.Sprintf("%s (%s, %d workers)", e.what, goruntime.GOARCH, e.workers)
}

// Close implements runtime.Executable. It drops the decoded weights. Runs in progress complete.
func (e *executable) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.program != nil {
		e.device.remove(e.program)
	}
	e.program = nil
	return nil
}

// open returns the program, or an error after Close.
func (e *executable) open() (*interp.Program, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.program == nil {
		return nil, runtime.ErrProgramClosed
	}
	return e.program, nil
}
