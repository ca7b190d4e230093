// Package runtime is what the backends that run programs share: package
// runtime/vk, on a Vulkan device, and runtime/cpu, on the reference
// interpreter.
//
// Start from [Executable], a loaded program, with Run and the states it keeps.
// [Port] and [Symbol] describe what goes in and comes out, [Result] is what a run
// gives, and [Profile] where its time went. Most programs use package vkc, which
// chooses a backend and has tensors of Go slices.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/vkc-go/vkc/ir"
)

// Executable is a program that is loaded and ready to run. Several goroutines
// may use it at the same time: runs that would disturb one another take turns.
type Executable interface {
	// Inputs, Outputs and States describe the tensors that the program takes,
	// gives and keeps, in the order the graph declares them; Symbols its
	// run-time extents. Do not modify what they return.
	Inputs() []Port
	Outputs() []Port
	States() []Port
	Symbols() []Symbol

	// Run computes the outputs from the inputs, by name, and then updates the
	// states. It fails, with the program's states as they were, if inputs do
	// not fit (see Signature.Bind) or ctx ends before it has begun. It fails with
	// an ir.FaultError where an op has no result for a value that it meets; what
	// states hold is then up to the device. At most one RunOptions may be given.
	Run(ctx context.Context, in map[string]*ir.Data, opt ...RunOptions) (*Result, error)

	// Upload returns a copy of d where the program runs.
	Upload(ctx context.Context, d *ir.Data) (*DeviceTensor, error)
	// UploadFrom is Upload of a tensor whose bytes from has, as row-major elements of that
	// type and shape. They are read a few MiB at a time.
	UploadFrom(ctx context.Context, t ir.DType, dims []int, from io.ReaderAt) (*DeviceTensor, error)

	// ReadState returns a copy of what a state holds.
	ReadState(name string) (*ir.Data, error)
	// WriteState makes a state hold a copy of d.
	WriteState(name string, d *ir.Data) error
	// ResetStates sets all states to what they hold after loading. Where states begin as weights, the weights that the
	// program was loaded with are read again.
	ResetStates() error
	// NewStates makes states of their own for runs that are given them, with what states hold after loading.
	NewStates() (States, error)

	// Device names what the program runs on, for people.
	Device() string
	// Close releases the program; it must not be used afterwards.
	Close() error
}

// RunOptions adjusts a run. Each input comes from one place: the tensors given to
// Run, or Inputs. Each output goes to one: memory made for it, which
// Result.Outputs has, memory given for it (Into), or the device's (Keep).
type RunOptions struct {
	// Symbols gives the values of symbols by name. Those that size an axis of
	// an input may be left out.
	Symbols map[string]int64
	// Profile asks for Result.Profile, which makes the run slower.
	Profile bool
	// Into gives memory for outputs, by name: such an output is written to that
	// tensor, which must have its dtype and its dims in this run, and
	// Result.Outputs has that tensor. Other outputs are made anew. Where the run
	// fails, what the tensor holds is undefined.
	Into map[string]*ir.Data
	// Inputs are inputs that lie on the device already, by name; Run is not given
	// those. The tensors are read alone, so the same may be many inputs of many runs.
	Inputs map[string]*DeviceTensor
	// Keep names outputs that stay on the device: Result.Kept has them, and
	// Result.Outputs has not. Close them. A run on Vulkan devices that keeps all outputs,
	// and is given at most 64 MiB by the host, returns once it has its place there: the
	// next may be given what this one makes before it is made. Reading a tensor waits for
	// the run that makes it and, up to 4 KiB, for nothing else. An error of the device is
	// then that of a later call.
	Keep []string
	// States, if set, are what the run reads and updates in place of the program's own states: those of one
	// conversation, say, of several that the program serves. Executable.NewStates of the same executable makes them.
	States States
	// Priority says which of the runs that have been started (see vkc's Executable.Start) and wait begins first: the
	// one with the highest, and of equal ones that which was started first.
	Priority int
	// More says that another run on the device follows at once. One that is not waited for (see Keep) it may then be
	// given together with that one, which spares it the gap between them; whoever reads a tensor that the run makes has
	// it begin.
	More bool
}

// States are values for all states of a program, which runs read and update that are given them. Their methods may be
// called at any time, and wait for runs under way. Close them before the program.
type States interface {
	// Read returns a copy of what a state holds.
	Read(name string) (*ir.Data, error)
	// Write makes a state hold a copy of d.
	Write(name string, d *ir.Data) error
	// Reset sets all states to zero.
	Reset() error
	Close() error
}

// ErrStates is for backends: a run is given states of another program.
var ErrStates = errors.New("RunOptions.States are of another executable: Executable.NewStates of this one makes some")

// ErrNoStates is for backends: there is nothing that a program keeps.
var ErrNoStates = errors.New("the program has no states")

// CheckRun refuses what no backend can run with: no context, or more than one
// RunOptions. It returns the one given, or the zero value.
func CheckRun(ctx context.Context, opt []RunOptions) (RunOptions, error) {
	if err := CheckContext(ctx); err != nil {
		return RunOptions{}, err
	}
	switch len(opt) {
	case 0:
		return RunOptions{}, nil
	case 1:
		return opt[0], nil
	}
	return RunOptions{}, fmt.Errorf("%d RunOptions: give at most one", len(opt))
}

// CheckContext refuses a nil context, which would be a panic somewhere inside.
func CheckContext(ctx context.Context) error {
	if ctx == nil {
		return errors.New("the context is nil: pass context.Background() where nothing ends the call early")
	}
	return nil
}

// Progress says how far the loading of a program is.
type Progress struct {
	Stage Stage
	// Done of Total: bytes of weights, otherwise shaders or kernels. Total is the
	// same in all reports of a stage.
	Done, Total int64
}

// Stage is a part of compiling and loading a program that may take long.
type Stage string

// The stages. Weights are uploaded while pipelines are made.
const (
	StageShaders   Stage = "compiling shaders"  // from GLSL to SPIR-V
	StagePipelines Stage = "creating pipelines" // from SPIR-V to the device's code
	StageWeights   Stage = "uploading weights"
	StageWarm      Stage = "warming up" // the first start of each kernel, at which some drivers compile it
)

// Result is what a run gives.
type Result struct {
	Outputs map[string]*ir.Data
	Kept    map[string]*DeviceTensor // the outputs in RunOptions.Keep; nil if there are none
	Profile *Profile                 // nil unless asked for
}

// Port is a tensor that a program takes, gives or keeps.
type Port struct {
	Name string
	Type ir.Type
}

// String is `x: f32[T,8]`.
func (p Port) String() string { return p.Name + ": " + p.Type.String() }

// Symbol is a run-time extent with values 0 to Bound.
type Symbol struct {
	Name  string
	Bound int64
}
