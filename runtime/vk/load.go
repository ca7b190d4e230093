package vk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// LoadOptions adjusts [Device.Load]. The zero value means the defaults.
type LoadOptions struct {
	// Graph is the graph that the program was compiled from. If it is set, a run fails if an op must select from an
	// empty axis, such as argmax. If it is nil, such a run computes undefined values.
	Graph *ir.Graph
	// Progress, if set, receives the progress of loading: bytes of uploaded weights, created pipelines, kernels warmed
	// up. Its calls do not overlap. It must not use the device.
	Progress func(runtime.Progress)
	// Guards surrounds every output and state with a byte pattern and checks the pattern after every run. If a kernel
	// wrote outside of a tensor, the run fails with an [*OverrunError]. It is for tests: it costs a download per tensor
	// and run.
	Guards bool
	// Share is another program on this device. The two programs share weights with equal names, types and layouts, and
	// states with equal names. Such states must have equal types. Load does not read shared weights from the weight
	// source, and shared states keep their values.
	//
	// Weights with equal contents on one device are always shared, whatever their names. Programs may be closed in any
	// order. The last one frees the shared buffers.
	Share *Executable
	// WeightRoom, if not 0, limits the bytes of device memory for the weights of all programs. The other weights stay
	// in host memory, and kernels read them over the bus. The weights in HostFirst go to host memory first, because
	// runs read only a part of each. A limit is an error on a device with unified memory, which has no separate host
	// memory.
	WeightRoom uint64
	HostFirst  map[string]bool
	// Statistics makes the driver keep statistics about kernels, for profiles. It does nothing if the driver does not
	// support it.
	Statistics bool
	// Machine has the device's peak rates, for profiles.
	Machine device.Machine
}

// Load loads a compiled program onto the device. spirv has the code of each of p.Shaders. weights may be nil if p has
// none. The caller must not modify p afterwards. After Load, weights are only read by ResetStates, if weights are the
// initial values of states.
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
	// With smaller bounds of symbols the program needs less memory, so the error says which to lower.
	if memory := (*OutOfMemoryError)(nil); errors.As(err, &memory) && len(p.Symbols) > 0 {
		memory.Smaller = p.Smaller()
	}
	if err != nil {
		return nil, runtime.Explain("load", p.Name, err)
	}
	return e, nil
}

// load is Load, without the program's name in errors. The caller keeps the device open.
func (d *Device) load(ctx context.Context, p *kernel.Program, spirv [][]byte, weights ir.WeightSource,
	opt LoadOptions) (e *Executable, err error) {
	defer func() {
		if err != nil && e != nil {
			_ = e.resources.Close()
		}
	}()
	defer bailout.Caught(&err)
	e = d.newExecutable(p, spirv, weights, opt)
	if opt.Share != nil {
		bailout.Check(e.borrowFrom(ctx, opt.Share))
		defer opt.Share.unlock()
	}
	bailout.Check(d.checkFit(p))
	bailout.Check(d.checkModules(p, spirv))
	bailout.Check(bundle.CheckWeights(e.withoutBorrowed(), weights))
	unlock := bailout.Must(d.weights.lock(ctx))
	defer unlock()
	e.place(ctx, spirv, opt)
	report := reportTo(opt.Progress)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.compile(groupCtx, spirv, opt.Statistics, report) })
	group.Go(func() error {
		if p.Prepared == 0 { // otherwise other loads wait until they can share this program's prepared weights
			defer unlock()
		}
		return e.uploadWeights(groupCtx, report)
	})
	bailout.Check(group.Wait())
	e.own.ranges = e.bufferRanges()
	e.keep(e.own)
	e.keep(&e.inFlight)
	e.own.record()
	e.recordGuards()
	e.runPrepared(ctx)
	e.addPrepared(spirv)
	unlock()
	e.warmUp(ctx, report)
	e.recordEarly(e.own)
	e.stats.CacheErr = d.SavePipelineCache()
	return e, nil
}

// newExecutable checks the program and makes an Executable of it. It allocates nothing on the device.
func (d *Device) newExecutable(p *kernel.Program, spirv [][]byte, weights ir.WeightSource,
	opt LoadOptions) *Executable {
	signature := bailout.Must(checkProgram(p, spirv, opt.Graph.Picks()...))
	e := &Executable{Signature: signature, signed: signedExtents(p), token: make(chan struct{}, 1)}
	e.programMemory = newMemory(d, p, weights, opt.Guards)
	e.steps, e.machine = p.Dispatches(), opt.Machine
	e.own = &states{exe: e}
	for _, port := range p.Outputs {
		e.labels = append(e.labels, fmt.Sprintf("output %q of %s", port.Name, ir.Titled("program", p.Name)))
	}
	e.token <- struct{}{}
	return e
}

// place finds the weights that are already on the device and allocates all other buffers.
func (e *Executable) place(ctx context.Context, spirv [][]byte, opt LoadOptions) {
	e.findWeights(ctx)
	e.findPrepared(spirv)
	e.placeWeights(opt)
	bailout.Check(e.checkTotal())
	e.allocate()
	e.makeGrids()
}

// warmUp runs every kernel once, because some drivers compile a kernel only then. It then sets the program's own states
// to their initial values.
func (e *Executable) warmUp(ctx context.Context, report reporter) {
	e.warm(ctx, report)
	_ = e.takeFaults() // results of a warm-up are discarded, and so are its faults
	e.own.begin(ctx, true)
}

// reporter is called with the progress of loading.
type reporter func(stage runtime.Stage, done, total int64)

// reportTo returns a reporter that calls `to`, if not nil, and never twice at the same time.
func reportTo(to func(runtime.Progress)) reporter {
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

// checkProgram checks that the program is consistent, and returns its signature. picks lists the axes from which ops
// select an element, and which must therefore not be empty in a run.
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

// maxSymbol is the largest value of a symbol that kernels can read.
const maxSymbol = 1<<32 - 1

// ports converts a program's ports to ports of its signature.
func ports(list []kernel.Port) []runtime.Port {
	var out []runtime.Port
	for _, p := range list {
		out = append(out, runtime.Port{Name: p.Name, Type: ir.Type{DType: p.DType, Shape: p.Shape}})
	}
	return out
}

// compile makes the pipelines of all shaders that steps use, in rec.pipelines by shader. With statistics, the driver
// keeps statistics about them, if it can. It calls report after each pipeline.
func (rec *recorder) compile(ctx context.Context, spirv [][]byte, statistics bool, report reporter) (err error) {
	defer bailout.Caught(&err)
	p := rec.program
	rec.pipelines = make([]*Pipeline, len(p.Shaders))
	var descs []PipelineDesc
	var shaders []int // the shader of each element of descs
	used := map[int]bool{}
	for _, s := range rec.steps {
		for _, k := range s.Kernels() {
			used[k.Shader] = true
		}
	}
	for i := range p.Shaders {
		if !used[i] {
			continue
		}
		desc := rec.device.DescribeShader(p.Shaders[i], spirv[i])
		if statistics && rec.device.info.Caps.Features.PipelineExecutableProperties {
			desc.Capture = CaptureStatistics
		}
		descs = append(descs, desc)
		shaders = append(shaders, i)
	}
	made := bailout.Must(rec.device.NewPipelines(ctx, descs, func(done int) {
		report(runtime.StagePipelines, int64(done), int64(len(descs)))
	}))
	for i, p := range made {
		rec.pipelines[shaders[i]] = p
		rec.keep(p)
	}
	rec.stats.Pipelines = len(made)
	return nil
}
