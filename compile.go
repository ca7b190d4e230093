package vkc

import (
	"context"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
)

// CompileOptions change how Compile works; the zero value compiles for the
// generic profile and uses the user's cache.
type CompileOptions struct {
	// Target is the device to compile for: that of a live device, or a profile
	// by device.Profile. The zero value is the generic profile.
	Target device.Caps
	// Weights, if set, are those that the program will be loaded with: what they are
	// stored as, such as q4_0, takes the place of the dtypes that the graph declares
	// for them. Loading other weights than these needs the same dtypes.
	Weights ir.WeightSource
	// Tuning chooses schedules by what vkc tune measured: [device.ProfileTuning] has
	// that of a profile, and vkc tune --json prints that of a device. Where it is
	// nil, [Device.Compile] takes that of its device and [Compile] takes none; one
	// that is empty but not nil is none in both.
	Tuning device.Tuning
	// Beside is a program of the same device that this one is to share weights or states with (LoadOptions.Share). It
	// matters where the device is several: then both are cut at the same places.
	Beside *Program
	// NoCache compiles anew and keeps nothing.
	NoCache bool
	// Jobs is the number of compiler processes; 0 means one per core.
	Jobs int
	// Validate runs spirv-val over every shader.
	Validate bool
	// Progress, if set, is told how many of the shaders are compiled, by one call
	// at a time.
	Progress func(Progress)
}

func (o CompileOptions) options() compiler.Options {
	return compiler.Options{Target: o.Target, Weights: o.Weights, Tuning: o.Tuning, NoCache: o.NoCache, Jobs: o.Jobs,
		Validate: o.Validate, Progress: o.Progress}
}

// CompileStats says what a Compile did.
type CompileStats = compiler.Stats

type (
	// CustomOpError says that the GLSL of a custom op does not compile.
	CustomOpError = compiler.CustomOpError
	// UnsupportedError lists what a graph needs that a device does not have.
	UnsupportedError = compiler.UnsupportedError
)

// Compile compiles a graph for a device. The same graph compiled again for
// the same kind of device comes from the cache, whatever its names are, and
// starts no compiler process.
func Compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	c, err := compiler.Compile(ctx, g, opt.options())
	if err != nil {
		return nil, err
	}
	return &Program{Contents: c.Contents, Stats: c.Stats}, nil
}

// Version returns the version of the vkc module, or "devel".
func Version() string { return compiler.Version() }
