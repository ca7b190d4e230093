// Package runtime is what the backends that run programs share: package
// runtime/vk, on a Vulkan device, and runtime/cpu, on the reference
// interpreter.
package runtime

import (
	"context"

	"github.com/vkc-go/vkc/ir"
)

// Executable is a program that is loaded and ready to run. Unless a backend
// says otherwise it must not be used by several goroutines at the same time.
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
	// not fit (see Signature.Bind) or ctx ends before it has begun.
	Run(ctx context.Context, in map[string]*ir.Data, opt RunOptions) (*Result, error)

	// ReadState returns a copy of what a state holds.
	ReadState(name string) (*ir.Data, error)
	// WriteState makes a state hold a copy of d.
	WriteState(name string, d *ir.Data) error
	// ResetStates sets all states to zero, which they are after loading.
	ResetStates() error

	// Device names what the program runs on, for people.
	Device() string
	// Close releases the program; it must not be used afterwards.
	Close() error
}

// RunOptions adjusts a run.
type RunOptions struct {
	// Symbols gives the values of symbols by name. Those that size an axis of
	// an input may be left out.
	Symbols map[string]int64
	// Profile asks for Result.Profile, which makes the run slower.
	Profile bool
}

// Result is what a run gives.
type Result struct {
	Outputs map[string]*ir.Data
	Profile *Profile // nil unless asked for
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
