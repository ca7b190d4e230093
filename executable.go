package vkc

import (
	"context"
	"errors"
	"io"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/multi"
	"github.com/vkc-go/vkc/runtime/trial"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Tensors are inputs or outputs of a run, by name.
type Tensors = map[string]*ir.Data

// Executable is a program loaded on a device, ready to run.
//
// It is safe for concurrent use. On a Vulkan device runs are serialized: each is complete before the next one begins.
// On the CPU fast path runs of a program with states are serialized, and runs of other programs overlap.
type Executable struct {
	backend runtime.Executable // the program on the device; nil if nothing is loaded
	why     string             // the value of Why, without hints

	withoutCopies bool // see WithoutCopies

	expands  string   // see [ir.Graph.Expansion]
	fallback error    // the value of Fallback
	starts   runQueue // the unfinished runs of Start
}

// errNotLoaded is the error of methods of a nil Executable.
var errNotLoaded = errors.New("the executable is nil: Device.Load and Device.LoadGraph make one, unless they " +
	"return an error")

// loaded reports whether the executable has a program to run.
func (e *Executable) loaded() bool { return e != nil && e.backend != nil }

// explain is [runtime.Explain] with the name of the program's graph.
func (e *Executable) explain(doing string, err error) error {
	if s, ok := e.program().(signature); ok {
		return s.Explain(doing, err)
	}
	return err
}

// program returns the backend, also for a nil Executable.
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

// Outputs describes the tensors that Run returns, in the graph's order.
func (e *Executable) Outputs() []runtime.Port { return e.program().Outputs() }

// States describes the tensors that the program keeps between runs.
func (e *Executable) States() []runtime.Port { return e.program().States() }

// Symbols lists the program's symbols, which are extents that can differ between runs, with their bounds.
func (e *Executable) Symbols() []runtime.Symbol { return e.program().Symbols() }

// Run computes the outputs from the inputs and then updates the states. Run infers each symbol that is the extent of an
// input's axis from the input. Other symbols must be given in [RunOptions].Symbols. There may be at most one
// RunOptions.
//
// An error about an unsuitable input names the input, its type and the required type. If ctx ends before the run has
// begun, the states are unchanged. If it ends while the device computes, Run returns at once; the run still completes,
// and the next run waits for it.
func (e *Executable) Run(ctx context.Context, in Tensors, opt ...RunOptions) (*Result, error) {
	r, err := e.program().Run(ctx, in, opt...)
	return r, e.explain("run", err)
}

// Upload copies d to the memory of the program's device. Any program on that device takes the result in
// [RunOptions].Inputs. To leave an output of a run in that memory, name it in RunOptions.Keep.
func (e *Executable) Upload(ctx context.Context, d *ir.Data) (*DeviceTensor, error) {
	t, err := e.program().Upload(ctx, d)
	return t, e.explain("upload for", err)
}

// UploadFrom is [Executable.Upload] for a tensor in `from`, such as a file. It reads a few MiB at a time. The bytes are
// row-major elements of the given type and shape.
func (e *Executable) UploadFrom(ctx context.Context, t ir.DType, dims []int, from io.ReaderAt) (*DeviceTensor, error) {
	up, err := e.program().UploadFrom(ctx, t, dims, from)
	return up, e.explain("upload for", err)
}

// ReadState returns a copy of a state's value after the runs in progress.
func (e *Executable) ReadState(name string) (*ir.Data, error) {
	d, err := e.program().ReadState(name)
	return d, e.explain("read state of", err)
}

// WriteState copies d to a state, after the runs in flight.
func (e *Executable) WriteState(name string, d *ir.Data) error {
	return e.explain("write state of", e.program().WriteState(name, d))
}

// ResetStates sets all states to their values after loading.
func (e *Executable) ResetStates() error {
	return e.explain("reset states of", e.program().ResetStates())
}

// NewStates makes another set of states, with the same initial values as the program's own. Pass it to runs in
// [RunOptions].States: then one program can serve several conversations, for example. Runs on different states are
// serialized too. Close the states before the executable.
func (e *Executable) NewStates() (States, error) {
	s, err := e.program().NewStates()
	return s, e.explain("make states of", err)
}

// Device returns the name of the program's device, for people.
func (e *Executable) Device() string { return e.program().Device() }

// Why gives the reason that the program runs on its device, in one line that begins with the device's name. It differs
// from [Device.Why] if "auto" chose a device for this graph.
//
// On a machine without a GPU, "auto" tries a program on a Vulkan device in software, in the background, once its runs
// have taken 10 s plus 0.5 s for each node of the graph: ten times the expected time of compiling it. The CPU fast path
// and the Vulkan device then repeat up to three runs of the caller, on copies of their inputs and states. Why reports
// the times. The program changes over if the Vulkan device is at least 1.2 times as fast and returns the same bits. Its
// states move. Its device tensors remain in host memory. A program that shares memory with another one is not tried.
//
// If broadcasting makes a large value that is at least 100 times as large as its operands, the line ends with a hint.
func (e *Executable) Why() string {
	if e.loaded() && e.expands != "" {
		return e.whyThere() + "; hint: " + e.expands
	}
	return e.whyThere()
}

// whyThere returns the device and the reason for its choice, without the hint about broadcasting that Why adds.
func (e *Executable) whyThere() string {
	if !e.loaded() {
		return "no device: the executable is nil"
	}
	if t, ok := e.backend.(*trial.Executable); ok && t.Why() != "" {
		return t.Why()
	}
	why := e.why
	if exe := e.Vulkan(); exe != nil && exe.Stats().NoRoom > 0 {
		why += "; it has no room for all workgroups of a persistent kernel at a time, so that steps run one by one"
	}
	if e.withoutCopies {
		why += WithoutCopies
	}
	return why
}

// WithoutCopies is the end of Why's line if the device had no memory for decoded copies of the weights.
const WithoutCopies = "; it has no memory for decoded copies of the weights, so that matmuls of many rows decode " +
	"them in each run"

// WithoutCopies reports whether Load has compiled the program again, without decoded copies of its weights, because the
// device ran out of memory with them. Matmuls of many rows then decode the weights in each run.
func (e *Executable) WithoutCopies() bool { return e.loaded() && e.withoutCopies }

// Fallback returns the reason that the program runs on the CPU fast path under "auto": either no Vulkan device opened
// ([Device.Fallback]) or the device does not support the program. It returns nil otherwise. The fast path is slower
// than a GPU, so tell the user.
func (e *Executable) Fallback() error {
	if e == nil {
		return nil
	}
	return e.fallback
}

// Backend returns the executable of package runtime/vk or runtime/cpu, or the *[multi.Pipeline] or *[multi.Tensor] of
// several devices. It is for uses without a method in this package. Do not close it: [Executable.Close] does.
func (e *Executable) Backend() runtime.Executable { return e.program() }

// Vulkan returns the executable of package runtime/vk, for uses without a method in this package, such as measuring. It
// is nil if the program runs on the CPU fast path or on several devices. It is nil too if the program was loaded on
// device "auto", which may move it between devices (see [Executable.Why]). Do not close it: [Executable.Close] does.
func (e *Executable) Vulkan() *vk.Executable {
	x := e.program()
	if p, ok := x.(*multi.Pipeline); ok && len(p.Parts()) == 1 {
		x = p.Parts()[0]
	}
	exe, _ := x.(*vk.Executable)
	return exe
}

// Asynchronous reports whether runs that keep all their outputs are asynchronous: Run returns before they have
// finished; see [RunOptions].Keep.
func (e *Executable) Asynchronous() bool { return runtime.Asynchronous(e.program()) }

// Stages returns the number of devices that each run goes through one after the other, which is also the number of runs
// that can be in progress at once. It is 1 unless the program is split into consecutive parts; see [Devices.Together].
func (e *Executable) Stages() int {
	if x, ok := e.program().(*multi.Pipeline); ok {
		return len(x.Parts())
	}
	return 1
}

// Close releases the program. It waits for runs that have begun, and these return their results. Started runs that
// still wait fail with [ErrClosed], as do later ones. Weights and states shared with other executables (see
// [LoadOptions]) stay. Closing twice is allowed.
func (e *Executable) Close() error {
	if e.loaded() {
		e.starts.close()
	}
	return e.program().Close()
}

// ErrClosed is wrapped by the errors of using an object during or after its Close.
var ErrClosed = runtime.ErrClosed
