package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime/vk"
)

// UnsupportedError lists what a graph needs that a device does not have.
type UnsupportedError struct {
	Device  string
	Missing []string
}

// Error names the device and every gap.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s cannot run this graph: %s; choose another device, or the CPU fast path with --device cpu",
		e.Device, e.lacks())
}

func (e *UnsupportedError) lacks() string { return "it lacks " + strings.Join(e.Missing, "; ") }

// refuses reports whether an error is the device's or the machine's to have, and no mistake of the graph.
func refuses(err error) bool {
	var (
		unsupported *UnsupportedError
		large       *kernel.RangeError
		tools       *spirv.MissingToolError
		memory      *vk.OutOfMemoryError
		mismatch    *vk.MismatchError
	)
	return errors.As(err, &unsupported) || errors.As(err, &large) || errors.As(err, &tools) ||
		errors.As(err, &memory) || errors.As(err, &mismatch) && mismatch.Smaller != ""
}

// standsIn reports whether the CPU fast path is to run a graph that "auto" could not compile for the device, or load
// there. It does whatever went wrong there, where the graph and its weights are right. A program that was compiled for
// another device is to be compiled anew. Of an op of the caller's own, whose shader may be what is wrong, it takes what
// [refuses] says.
func (d *Device) standsIn(ctx context.Context, g *ir.Graph, weights ir.WeightSource, err error) bool {
	wrongWeights := (*ir.WeightError)(nil)
	if !d.auto || err == nil || ctx.Err() != nil || d.closed.Load() || errors.As(err, &wrongWeights) {
		return false
	}
	if _, _, wrong := fitWeights(g, CompileOptions{Weights: weights}); wrong != nil {
		return false
	}
	another := (*vk.MismatchError)(nil)
	return refuses(err) || !isCustom(g) && !errors.As(err, &another)
}

// isCustom reports whether a graph has custom ops, whose Go code is for checks.
func isCustom(g *ir.Graph) bool {
	return slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool {
		return n.Op().Info().Custom != nil || slices.ContainsFunc(n.Bodies(), isCustom)
	})
}

// refusedError is why a device does not run a graph, in one line, where the CPU fast path runs it already.
type refusedError struct {
	device string
	err    error
}

func (e *refusedError) Error() string {
	why := e.err.Error()
	if unsupported := (*UnsupportedError)(nil); errors.As(e.err, &unsupported) {
		why = unsupported.lacks()
	}
	return fmt.Sprintf("%s does not run this graph: %s", e.device, strings.Join(strings.Fields(why), " "))
}

func (e *refusedError) Unwrap() error { return e.err }

// refuseMissing names everything that the kernels need and the device lacks,
// all at once.
func refuseMissing(kernels []*kernel.Kernel, caps device.Caps) error {
	var missing []string
	for _, k := range kernels {
		for _, m := range schedule.Missing(k, caps) {
			line := fmt.Sprintf("%s (for %s)", m, opsOf(k))
			if !slices.Contains(missing, line) {
				missing = append(missing, line)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &UnsupportedError{Device: caps.Name, Missing: missing}
}

// opsOf names the ops of a kernel, each once.
func opsOf(k *kernel.Kernel) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(k.Ops))), ", ")
}

// refuseLarge refuses kernels whose positions 32 bits do not hold, by the names
// of their ops and tensors.
func refuseLarge(s *passes.State) error {
	for i, k := range s.Kernels {
		var large *kernel.RangeError
		if !errors.As(k.CheckRange(), &large) {
			continue
		}
		tensor := ""
		if large.Bind >= 0 {
			b := s.Program.Buffers[s.Program.Steps[i].Binds[large.Bind].Buffer]
			tensor = fmt.Sprintf(" (%s %q, %s)", b.Kind, ir.Printable(b.Name), ir.Type{DType: b.DType, Shape: b.Shape})
		}
		return fmt.Errorf("%s%s: %w; %s; the CPU fast path has no such limit (--device cpu)", opsOf(k), tensor, large,
			s.Program.Smaller())
	}
	return nil
}
