package vkc

import (
	"context"
	"fmt"

	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/multi"
	"github.com/vkc-go/vkc/runtime/vk"
)

// This file has the names that moved to other packages. The release after the next one removes them.

// Vulkan returns the Vulkan device, or nil.
//
// Deprecated: use [vk.Of].
func (d *Device) Vulkan() *vk.Device { return vk.Of(d) }

// GoesAhead reports whether runs that keep all their outputs are asynchronous.
//
// Deprecated: use [Executable.Asynchronous].
func (e *Executable) GoesAhead() bool { return e.Asynchronous() }

// Robustness returns the guarantee of the drivers about accesses outside a kernel's buffers: the weakest one among all
// parts of the device.
//
// Deprecated: use [vk.Device.Robustness] of [vk.Of], for each of [Device.Parts].
func (d *Device) Robustness() vk.Robustness {
	least := vk.WithinBuffer // the guarantee of the CPU
	for _, one := range d.Parts() {
		if v := vk.Of(one); v != nil {
			least = min(least, v.Robustness())
		}
	}
	return least
}

// Expected estimates how many nanoseconds the device takes for one run of a graph with all symbols at their maximum.
//
// Deprecated: use [multi.Expected].
func (d *Device) Expected(ctx context.Context, g *ir.Graph) (float64, error) {
	if err := d.checkUsable(ctx); err != nil {
		return 0, fmt.Errorf("expected time: %w", err)
	}
	if err := g.Verify(); err != nil {
		return 0, fmt.Errorf("expected time: %w", err)
	}
	by := multi.OneDevice
	switch d.kind.(type) {
	case *pipeline:
		by = multi.PipelineParallel
	case *tensorParallel:
		by = multi.TensorParallel
	}
	return multi.Expected(ctx, g, d.Parts().describe(), by, compiler.Estimate)
}

// SplitPrice is the expected time of a run by one strategy of dividing a program between devices.
//
// Deprecated: use [multi.Price].
type SplitPrice = multi.Price

// SplitPrices estimates the time of a run of a graph by each strategy of dividing it between devices. It assumes that
// all of their memory is free.
//
// Deprecated: use [multi.Prices].
func SplitPrices(ctx context.Context, g *ir.Graph, devices []device.Caps) ([]SplitPrice, error) {
	var list []multi.Member
	for _, caps := range devices {
		list = append(list, multi.Unused(caps))
	}
	return multi.Prices(ctx, g, list, compiler.Estimate)
}

// Lowered is a graph compiled to GLSL.
//
// Deprecated: use [compiler.Lowered].
type Lowered = compiler.Lowered

// Lower runs the passes on a graph, chooses schedules for a device and generates GLSL.
//
// Deprecated: use [compiler.Lower].
func Lower(ctx context.Context, g *ir.Graph, caps device.Caps, tuning device.Tuning) (*Lowered, error) {
	return compiler.Lower(ctx, g, caps, tuning)
}

// The types of package check under their former names.
//
// Deprecated: use [check.Checker], [check.Report] and [check.Value].
type (
	Checker     = check.Checker
	CheckReport = check.Report
	ValueCheck  = check.Value
)

// NewChecker prepares a checker, which compares outputs of a graph with the CPU reference's outputs.
//
// Deprecated: use [check.New].
func NewChecker(g *ir.Graph, weights ir.WeightSource) (*Checker, error) { return check.New(g, weights) }
