package vkc

import (
	"context"
	"errors"
	"io"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

type (
	// Tensors are inputs or outputs of a run, by name.
	Tensors = map[string]*ir.Data
	// RunOptions adjust a run.
	RunOptions = runtime.RunOptions
	// Result is what a run gives.
	Result = runtime.Result
	// DeviceTensor is a tensor that stays where programs run.
	DeviceTensor = runtime.DeviceTensor
	// Traffic counts the bytes that passed between the caller's memory and a device.
	Traffic = runtime.Traffic
	// States are values for all states of a program, for runs that are given them; see [Executable.NewStates].
	States = runtime.States
	// Progress says how far compiling and loading are.
	Progress = runtime.Progress
)

// Executable is a program that is loaded on a device and ready to run.
//
// Any number of goroutines may use it at the same time. On a Vulkan device runs
// take turns, so each is complete before the next one begins. On the CPU fast path the runs of a program with states
// take turns and those of others overlap.
type Executable struct {
	backend  runtime.Executable
	why      string
	fallback error
	starts   starts
}

// errNotLoaded is returned by the methods of a nil Executable.
var errNotLoaded = errors.New("the executable is nil: Device.Load and Device.LoadGraph make one, unless they " +
	"return an error")

// loaded reports whether there is a program to run.
func (e *Executable) loaded() bool { return e != nil && e.backend != nil }

// explain is [runtime.Explain] with the name of the program's graph.
func (e *Executable) explain(doing string, err error) error {
	if s, ok := e.program().(signature); ok {
		return s.Explain(doing, err)
	}
	return err
}

// program is the backend, or that of a nil Executable.
func (e *Executable) program() runtime.Executable {
	if !e.loaded() {
		return notLoaded{}
	}
	return e.backend
}

// notLoaded is the backend of a nil Executable: it has no ports and runs nothing.
type notLoaded struct{ *runtime.Signature }

func (notLoaded) Run(context.Context, Tensors, ...RunOptions) (*Result, error) {
	return nil, errNotLoaded
}
func (notLoaded) Upload(context.Context, *ir.Data) (*DeviceTensor, error) {
	return nil, errNotLoaded
}
func (notLoaded) UploadFrom(context.Context, ir.DType, []int, io.ReaderAt) (*DeviceTensor, error) {
	return nil, errNotLoaded
}
func (notLoaded) ReadState(string) (*ir.Data, error) { return nil, errNotLoaded }
func (notLoaded) WriteState(string, *ir.Data) error  { return errNotLoaded }
func (notLoaded) ResetStates() error                 { return errNotLoaded }
func (notLoaded) NewStates() (States, error)         { return nil, errNotLoaded }
func (notLoaded) Device() string                     { return "no device" }
func (notLoaded) Close() error                       { return nil }

// Inputs describes the tensors that Run takes, in the graph's order.
func (e *Executable) Inputs() []runtime.Port { return e.program().Inputs() }

// Outputs describes the tensors that Run gives, in the graph's order.
func (e *Executable) Outputs() []runtime.Port { return e.program().Outputs() }

// States describes the tensors that the program keeps from run to run.
func (e *Executable) States() []runtime.Port { return e.program().States() }

// Symbols lists the extents that a run determines, with their bounds.
func (e *Executable) Symbols() []runtime.Symbol { return e.program().Symbols() }

// Run computes the outputs from the inputs and then updates the states. Symbols
// that size an axis of an input are told by that input; others are given in
// RunOptions, of which there may be one or none.
//
// Inputs that do not fit are an error that names the input, what it is and what
// it should be. If ctx ends before the run has begun, the states are as they
// were. If it ends while the device computes, Run returns at once, the run
// completes all the same, and the next one waits for it.
func (e *Executable) Run(ctx context.Context, in Tensors, opt ...RunOptions) (*Result, error) {
	r, err := e.program().Run(ctx, in, opt...)
	return r, e.explain("run", err)
}

// Upload returns a copy of d where the program runs, for [RunOptions].Inputs of any
// program there. An output that is to stay there is named in RunOptions.Keep.
func (e *Executable) Upload(ctx context.Context, d *ir.Data) (*DeviceTensor, error) {
	t, err := e.program().Upload(ctx, d)
	return t, e.explain("upload for", err)
}

// UploadFrom is [Executable.Upload] of a tensor whose bytes from has, as row-major elements of that type and shape:
// of a file, say. They are read a few MiB at a time.
func (e *Executable) UploadFrom(ctx context.Context, t ir.DType, dims []int, from io.ReaderAt) (*DeviceTensor, error) {
	up, err := e.program().UploadFrom(ctx, t, dims, from)
	return up, e.explain("upload for", err)
}

// ReadState returns a copy of what a state holds, after the runs under way.
func (e *Executable) ReadState(name string) (*ir.Data, error) {
	d, err := e.program().ReadState(name)
	return d, e.explain("read state of", err)
}

// WriteState makes a state hold a copy of d, after the runs under way.
func (e *Executable) WriteState(name string, d *ir.Data) error {
	return e.explain("write state of", e.program().WriteState(name, d))
}

// ResetStates sets all states to what they hold after loading.
func (e *Executable) ResetStates() error {
	return e.explain("reset states of", e.program().ResetStates())
}

// NewStates makes states besides the program's own, with what those hold after loading, which runs read and update
// that are given them ([RunOptions].States): so one program serves several conversations, say. Runs on different
// states take turns all the same. Close them before the executable.
func (e *Executable) NewStates() (States, error) {
	s, err := e.program().NewStates()
	return s, e.explain("make states of", err)
}

// Device names what the program runs on, for people.
func (e *Executable) Device() string { return e.program().Device() }

// Why says why the program runs where it does, in one line that begins with the
// device's name. It differs from [Device.Why] where "auto" chose by the graph.
func (e *Executable) Why() string {
	if !e.loaded() {
		return "no device: the executable is nil"
	}
	if exe := e.Vulkan(); exe != nil && exe.Stats().NoRoom > 0 {
		return e.why + "; it has no room for all workgroups of a persistent kernel at a time, so that steps run " +
			"one by one"
	}
	return e.why
}

// Fallback returns why the program runs on the CPU fast path though "auto" has a Vulkan device, which could not be
// given the program, or has none that it could open ([Device.Fallback]); and nil otherwise. That is slower than a GPU,
// so tell the user.
func (e *Executable) Fallback() error {
	if e == nil {
		return nil
	}
	return e.fallback
}

// Vulkan returns the program on its Vulkan device, for what this package has no
// call for, such as measuring; nil on the CPU fast path. Close closes it.
func (e *Executable) Vulkan() *vk.Executable {
	if x, ok := e.program().(*layered); ok && len(x.exes) == 1 {
		return x.exes[0].Vulkan()
	}
	exe, _ := e.program().(*vk.Executable)
	return exe
}

// GoesAhead reports whether a run that keeps all outputs returns before it has ended, as [RunOptions].Keep says.
func (e *Executable) GoesAhead() bool {
	switch x := e.program().(type) {
	case *sharded:
		return x.ahead
	case *layered:
		return x.ahead
	}
	return e.Vulkan() != nil
}

// Stages is how many devices a run goes through, one after the other: so many runs are under way at the same time. It
// is 1 but for parts of a program that follow one another; see [Devices.Together].
func (e *Executable) Stages() int {
	if x, ok := e.program().(*layered); ok {
		return len(x.parts)
	}
	return 1
}

// Close releases the program. Runs that have begun end first, and give their results; those that were started and
// wait fail with [ErrClosed], as do later ones. Weights and states that the program shares with other executables (see
// [LoadOptions]) stay for them. Closing twice is fine.
func (e *Executable) Close() error {
	if e.loaded() {
		e.starts.close()
	}
	return e.program().Close()
}

// ErrClosed is wrapped by errors from using something after its Close, or during it.
var ErrClosed = runtime.ErrClosed
