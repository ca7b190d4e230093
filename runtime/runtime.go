// Package runtime declares the interface of a loaded program, [Executable]. Two backends implement it: package
// runtime/vk runs programs on a Vulkan device, package runtime/cpu on the CPU.
//
// [Port] and [Symbol] describe a program's inputs and outputs, [Result] is the result of a run, and [Profile] divides
// the time of a run among its kernels. Most users need only package vkc, which chooses a backend and makes tensors of
// Go slices.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Executable is a program that is loaded and ready to run. Several goroutines may use it at the same time. Runs that
// would disturb one another are serialized.
type Executable interface {
	// Inputs, Outputs and States describe the program's tensors in the order in which the graph declares them. Symbols
	// describes the extents that can differ between runs. Callers must not modify the results.
	Inputs() []Port
	Outputs() []Port
	States() []Port
	Symbols() []Symbol

	// Run computes the outputs from the inputs, by name, and then updates the states. If the inputs do not fit (see
	// Signature.Bind) or ctx ends before the run has begun, Run fails and leaves the states unchanged. If an op has no
	// result for an input value, such as an index out of range, Run fails with an ir.FaultError, and the states are
	// then undefined. At most one RunOptions may be given.
	Run(ctx context.Context, in map[string]*ir.Data, opt ...RunOptions) (*Result, error)

	// Upload returns a copy of d on the program's device.
	Upload(ctx context.Context, d *ir.Data) (*DeviceTensor, error)
	// UploadFrom uploads a tensor of the given type and shape. It reads the row-major elements from a reader, a few MiB
	// at a time.
	UploadFrom(ctx context.Context, t ir.DType, dims []int, from io.ReaderAt) (*DeviceTensor, error)

	// ReadState returns a copy of a state's value.
	ReadState(name string) (*ir.Data, error)
	// WriteState copies d to a state.
	WriteState(name string, d *ir.Data) error
	// ResetStates sets all states to their values after loading. For states that begin as weights it reads the
	// program's weights again.
	ResetStates() error
	// NewStates makes a further set of states, for RunOptions.States. They start with the values after loading.
	NewStates() (States, error)

	// Device names the program's device, for people.
	Device() string
	// Close releases the program; it must not be used afterwards.
	Close() error
}

// Asynchronous reports whether runs of a program that keep all their outputs are asynchronous: Run returns before they
// have finished; see RunOptions.Keep.
func Asynchronous(e Executable) bool {
	x, ok := e.(interface{ Asynchronous() bool })
	return ok && x.Asynchronous()
}

// RunOptions adjusts a run. Each input comes from one source: the tensors given to Run, or Inputs. Each output goes to
// one destination: new memory (Result.Outputs), the caller's memory (Into) or device memory (Keep).
type RunOptions struct {
	// Symbols gives values of symbols by name. A symbol that is the extent of an input's axis may be left out.
	Symbols map[string]int64
	// Profile requests Result.Profile. The run is then slower.
	Profile bool
	// Into gives memory for outputs, by name. The run writes the output to that tensor. The tensor must have the
	// output's dtype and its dims in this run. Result.Outputs then refers to the same tensor. Other outputs get new
	// memory. If the run fails, the tensor's contents are undefined.
	Into map[string]*ir.Data
	// Inputs gives inputs that are on the device already, by name. Do not pass those to Run as well. Runs only read the
	// tensors, so one tensor may serve many inputs of many runs.
	Inputs map[string]*DeviceTensor
	// Keep names outputs that stay on the device. The run returns them in Result.Kept, not in Result.Outputs. The
	// caller closes them.
	//
	// A run is asynchronous if it keeps all outputs, the device is a Vulkan device, and the host passes at most 64 MiB
	// of inputs. Run then returns as soon as the run is queued, and later runs may take its outputs as inputs. Reading
	// a tensor waits for the run that computes it; reading up to 4 KiB waits for no other run. A later call reports any
	// error of the device.
	Keep []string
	// States, if set, replaces the program's own states in this run. A server keeps one set per conversation, for
	// example. Executable.NewStates of the same executable makes a set.
	States States
	// Priority orders the queue of runs that vkc's Executable.Start has started and that have not begun. The run with
	// the highest priority begins first. Of runs with equal priorities, the one that was started first begins first.
	Priority int
	// More says that the caller will start another run on this device right after this one. An asynchronous run (see
	// Keep) may then be submitted together with the next one, so that the device is not idle between the two. Reading a
	// tensor that the run computes submits it too.
	More bool
}

// States is a set of values for all states of a program, for RunOptions.States. Its methods may be called at any time:
// they wait for runs in progress. Close it before the program.
type States interface {
	// Read returns a copy of a state's value.
	Read(name string) (*ir.Data, error)
	// Write copies d to a state.
	Write(name string, d *ir.Data) error
	// Reset sets all states to their values after loading.
	Reset() error
	Close() error
}

// CheckRun returns the given RunOptions, or the zero value if there are none. It refuses a nil context, one that has
// ended, and more than one RunOptions.
func CheckRun(ctx context.Context, opt []RunOptions) (RunOptions, error) {
	if err := CheckContext(ctx); err != nil {
		return RunOptions{}, err
	}
	if err := ctx.Err(); err != nil {
		return RunOptions{}, fmt.Errorf("it had not begun: %w", err)
	}
	switch len(opt) {
	case 0:
		return RunOptions{}, nil
	case 1:
		return opt[0], nil
	}
	return RunOptions{}, fmt.Errorf("%d RunOptions: give at most one", len(opt))
}

// CheckContext refuses a nil context, which would panic deeper inside.
func CheckContext(ctx context.Context) error {
	if ctx == nil {
		return errors.New("the context is nil: pass context.Background() where nothing ends the call early")
	}
	return nil
}

// Progress reports how much of one stage of compiling or loading a program is done.
type Progress struct {
	Stage Stage
	// Done of Total units are done. The unit is a byte for weights, and a shader or kernel for the other stages. All
	// reports of a stage have the same Total.
	Done, Total int64
}

// Stage is a long-running part of compiling and loading a program.
type Stage string

// The stages. Weights are uploaded while pipelines are created.
const (
	StageShaders   Stage = "compiling shaders"  // from GLSL to SPIR-V
	StagePipelines Stage = "creating pipelines" // from SPIR-V to the device's code
	StageWeights   Stage = "uploading weights"
	StageWarm      Stage = "warming up" // the first dispatch of each kernel, at which some drivers compile it
)

// Result is the result of a run.
type Result struct {
	Outputs map[string]*ir.Data
	Kept    map[string]*DeviceTensor // the outputs in RunOptions.Keep; nil if there are none
	Profile *Profile                 // nil unless asked for
}

// CloseKept closes the outputs that the run left on its device. The result may be nil.
func (r *Result) CloseKept() error {
	if r == nil {
		return nil
	}
	return Each(slices.Collect(maps.Values(r.Kept)), (*DeviceTensor).Close)
}

// Each calls do for all elements of a list, and joins the errors.
func Each[T any](list []T, do func(T) error) error {
	var errs []error
	for _, one := range list {
		errs = append(errs, do(one))
	}
	return errors.Join(errs...)
}

// Port is an input, output or state of a program.
type Port struct {
	Name string
	Type ir.Type
}

// String returns the name and the type, such as `x: f32[T,8]`.
func (p Port) String() string { return p.Name + ": " + p.Type.String() }

// Symbol is an extent that can differ between runs, from 0 to Bound.
type Symbol struct {
	Name  string
	Bound int64
}

// StatesOf returns a program's own states as States. Closing them does nothing.
func StatesOf(e Executable) States { return ownStates{e} }

// ownStates implements [StatesOf].
type ownStates struct{ of Executable }

func (s ownStates) Read(name string) (*ir.Data, error)  { return s.of.ReadState(name) }
func (s ownStates) Write(name string, d *ir.Data) error { return s.of.WriteState(name, d) }
func (s ownStates) Reset() error                        { return s.of.ResetStates() }
func (s ownStates) Close() error                        { return nil }
