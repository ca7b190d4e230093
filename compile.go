package vkc

import (
	"context"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
)

// CompileOptions configures Compile. The zero value compiles for the generic profile and uses the user's cache.
type CompileOptions struct {
	// Target is the device to compile for: the caps of a live device, or a profile from device.Profile. The zero value
	// means the generic profile.
	Target device.Caps
	// Weights, if set, are the weights that the program will be loaded with. Their stored dtypes, such as q4_0, replace
	// the dtypes that the graph declares. Other weights can then only be loaded if they have the same dtypes.
	Weights ir.WeightSource
	// Tuning has schedules measured by vkc tune: [device.ProfileTuning] returns a profile's tuning, and vkc tune --json
	// prints a device's tuning. If it is nil, [Device.Compile] uses the tuning of its device and [Compile] uses none.
	// An empty, non-nil tuning means none for both.
	Tuning device.Tuning
	// ShareWith is a program for the same device with which this one will share weights or states (LoadOptions.Share).
	// For a device that consists of several, both programs are then split at the same layers.
	ShareWith *Program
	// Memory, if not 0, is the number of bytes of the device's memory that [Device.Compile] may plan for. Matmuls of
	// many rows are faster if decoded copies of quantized weights fit, too.
	Memory uint64
	// OneKernel compiles one kernel of each op for all values of the graph's symbols. Otherwise matmuls may have faster
	// kernels for few rows. These may add in another order, so that the last bits of a row may depend on the number of
	// rows.
	OneKernel bool
	// NoCache compiles without reading or writing the cache.
	NoCache bool
	// Jobs is the number of compiler processes; 0 means one per core.
	Jobs int
	// Validate runs spirv-val over every shader.
	Validate bool
	// Progress, if set, receives the number of compiled shaders. Calls do not overlap.
	Progress func(Progress)
}

func (o CompileOptions) options() compiler.Options {
	return compiler.Options{Target: o.Target, Weights: o.Weights, Tuning: o.Tuning, OneKernel: o.OneKernel,
		NoCache: o.NoCache, Jobs: o.Jobs, Validate: o.Validate, Progress: o.Progress}
}

// CompileStats describes the work of a compilation.
type CompileStats = compiler.Stats

type (
	// CustomOpError reports that the GLSL of a custom op does not compile.
	CustomOpError = compiler.CustomOpError
	// UnsupportedError lists the features that a graph needs and a device lacks.
	UnsupportedError = compiler.UnsupportedError
)

// Compile compiles a graph for a device. If the cache has the program of an equal graph for the same kind of device,
// Compile returns it and starts no compiler process. Graphs that differ only in names are equal.
func Compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	c, err := compiler.Compile(ctx, g, opt.options())
	if err != nil {
		return nil, err
	}
	return &Program{Contents: c.Contents, Stats: c.Stats}, nil
}

// Version returns the version of the vkc module, or "devel".
func Version() string { return compiler.Version() }
