package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/cpu"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Open reads a model and compiles it for a device. The file is a GGUF file, or a bundle made by Bundle. For a bundle,
// unset options default to those it was compiled with.
//
// If a program of the model fails on a device that vkc chose, the CPU fast path runs the whole model, and
// [Model.Fallback] says why. If the options name the device, such a failure is an error.
func Open(ctx context.Context, path string, o Options) (*Model, error) {
	m, err := open(ctx, path, o)
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		o.Device = "cpu"
		if m, err = open(ctx, path, o); err != nil {
			return nil, fmt.Errorf("%w; the CPU fast path cannot run it either: %w", refused, err)
		}
		m.refused = refused
	}
	if err == nil {
		m.reportFallback(m.Fallback())
	}
	return m, err
}

// reportFallback calls Options.Fallback with the reason that the CPU runs the model or a program of it. It does
// nothing if why is nil.
func (m *Model) reportFallback(why error) {
	if why != nil && m.fallback != nil {
		m.fallback(why)
	}
}

// refusedError says why a device that vkc chose does not run a model or one of its programs, in one line.
type refusedError struct {
	device, what string
	err          error
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%s does not run %s: %s", e.device, e.what, strings.Join(strings.Fields(e.err.Error()), " "))
}

func (e *refusedError) Unwrap() error { return e.err }

// refusal decides whether the CPU may run the model because a program failed to compile or load with err. If so, it
// returns a *refusedError, and otherwise err. what names the program for the message. refusal is for programs that are
// loaded after the main step. For the main step itself, package vkc decides.
func (m *Model) refusal(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	weights, option, room := (*ir.WeightError)(nil), (*OptionError)(nil), (*RoomError)(nil)
	// These errors are about the file or the options, so another device would not help.
	failsOnCPU := errors.As(err, &weights) || errors.As(err, &option) || errors.As(err, &room)
	deviceAsked := !m.auto || m.gpuMemory > 0
	onCPU := m.step.Vulkan() == nil
	if failsOnCPU || deviceAsked || onCPU || ctx.Err() != nil {
		return err
	}
	return &refusedError{m.device.Name(), what, err}
}

// open implements Open, without the fallback to the CPU. It reads the file, loads all programs and starts the engine.
func open(ctx context.Context, path string, o Options) (m *Model, err error) {
	if m, err = prepare(ctx, path, &o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	if err = m.checkLogits(path); err != nil {
		return m, err
	}
	err = m.loadPrograms(ctx, o)
	if err == nil {
		err = m.openShift(ctx, o)
	}
	if err == nil {
		err = m.openSpeculation(ctx, o)
	}
	if err != nil {
		return m, m.refusal(ctx, "this model", err)
	}
	m.ahead = o.Ahead
	if m.ahead == 0 && !m.step.Asynchronous() {
		m.ahead = 1
	}
	m.progress, m.options = nil, o // no progress for later programs (extras): they load at once
	m.engine = startEngine(m)
	return m, nil
}

// checkLogits returns an error if the model predicts no tokens.
func (m *Model) checkLogits(path string) error {
	if err := m.config.CheckLogits(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// prepare reads a model's file, completes the options from it, and opens the device. It compiles nothing.
func prepare(ctx context.Context, path string, o *Options) (m *Model, err error) {
	m = &Model{gpuMemory: o.GPUMemory, fallback: o.Fallback}
	if o.Progress != nil {
		var calls sync.Mutex // programs that compile concurrently report progress one after another
		m.progress = func(p vkc.Progress) {
			calls.Lock()
			defer calls.Unlock()
			o.Progress(p)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	if err = m.read(path, o); err != nil {
		return m, err
	}
	if o.Keep != nil && !o.ContextShift { // a bundle may set it
		return m, wrongOption("Keep", "keep the first %d tokens: that is for a full context that goes on, so it needs "+
			"a context shift too", *o.Keep)
	}
	// Open the device, and choose what depends on it.
	want := strings.TrimSpace(o.Device)
	m.auto = want == "" || strings.EqualFold(want, "auto")
	if m.device, err = m.openDevice(ctx, *o); err != nil {
		return m, err
	}
	if o.Precision == "" {
		o.Precision = vkc.Exact
		if slices.ContainsFunc(m.device.Parts(), gainsByInt8) {
			o.Precision = DefaultPrecision
		}
	}
	m.halfCache = !slices.ContainsFunc(m.device.Parts(), func(d *vkc.Device) bool {
		return !d.IsCPU() && !d.Caps().Features.Storage16
	})
	if m.bundle != nil && o.Trust != nil && !m.device.IsCPU() {
		if err = o.Trust(ctx, m.bundle); err != nil {
			return m, fmt.Errorf("%s: %w", path, err)
		}
	}
	return m, m.checkGPUMemory()
}

// checkGPUMemory refuses Options.GPUMemory for devices on which it cannot be used.
func (m *Model) checkGPUMemory() error {
	switch {
	case m.gpuMemory == 0:
		return nil
	case len(m.device.Parts()) > 1:
		return fmt.Errorf("generate: %s of GPU memory and several devices (%s): give one of the two",
			sizeText(m.gpuMemory), m.device.Name())
	case !vk.Of(m.device).HasHostMemory():
		return fmt.Errorf("generate: %s of GPU memory, but %s shares the host's memory: leave out the limit",
			sizeText(m.gpuMemory), m.device.Name())
	}
	return nil
}

// gainsByInt8 reports whether DefaultPrecision is the default on a device: it is faster on GPUs, and on processors with
// dot products of int8. The reference gains nothing.
func gainsByInt8(d *vkc.Device) bool {
	return !d.IsCPU() || !d.IsReference() && cpu.HasInt8Dots()
}

// The ways to divide a model among several devices.
const (
	SplitLayers = "layers" // distributes layers by memory size: for models that do not fit on one device
	SplitTensor = "tensor" // divides every layer: for lower latency than one device
	SplitAuto   = "auto"   // whichever of these is expected to be fastest for one answer, or one device alone
)

// openDevice opens a device. Tests replace it.
var openDevice = vkc.OpenDevice

// openDevice opens the device that the options ask for.
func (m *Model) openDevice(ctx context.Context, o Options) (*vkc.Device, error) {
	switch o.Split {
	case "", SplitLayers:
		return openDevice(o.Device)
	case SplitTensor:
		return vkc.OpenTensorParallel(o.Device)
	}
	return m.openCheapest(ctx, o)
}

// openCheapest opens the device of the options. If they name several, it divides the model among the devices by layers
// or within layers, or uses one device alone: the way with the lowest estimated time of a step.
func (m *Model) openCheapest(ctx context.Context, o Options) (_ *vkc.Device, err error) {
	if !strings.Contains(o.Device, ",") {
		return vkc.OpenDevice(o.Device)
	}
	devices, err := vkc.OpenDevices(o.Device)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, devices.Close())
		}
	}()
	programs, err := m.candidates(o)
	if err != nil {
		return nil, err
	}
	m.cheapest = true
	return devices.Cheapest(ctx, programs[0].graph)
}

// openFile opens a model's GGUF file or bundle. A bundle completes the options.
func (m *Model) openFile(path string, o *Options) error {
	isBundle, err := IsBundle(path)
	switch {
	case err != nil:
		return err
	case isBundle:
		return m.openBundle(path, o)
	}
	m.file, err = vkc.OpenModel(path)
	return err
}

// read reads the configuration and the vocabulary of a model, and checks the options against them. For a bundle, it
// first sets unset options to the options of the compilation.
func (m *Model) read(path string, o *Options) error {
	err := o.Check()
	if err == nil {
		err = m.openFile(path, o)
	}
	if err != nil {
		return err
	}
	if m.config, err = llm.FromGGUF(m.file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if m.tok, err = tokenizer.New(m.file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := m.openAdapters(path, *o); err != nil {
		return err
	}
	m.context = o.Context
	if m.context == 0 {
		m.context = min(defaultContext, m.config.Context)
	}
	if err := m.config.CheckContext(m.context); err != nil {
		return wrongOption("Context", "%s: %w", path, err)
	}
	if o.Cache != ir.Invalid {
		if err := m.config.CheckCache(o.Cache); err != nil {
			return wrongOption("Cache", "%s: %w", path, err)
		}
	}
	if err := m.readProjector(path, *o); err != nil {
		return err
	}
	m.slotCount = max(o.Parallel, 1)
	m.part, m.deterministic = min(m.partOf(*o), m.context), o.Deterministic
	return m.checkPositions(*o)
}
