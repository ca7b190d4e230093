package compiler

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// UnsupportedError lists the features that a graph needs and a device lacks.
type UnsupportedError struct {
	Device  string
	Missing []string
}

// Error returns a message that names the device and every missing feature.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s cannot run this graph: %s; choose another device, or the CPU fast path with --device cpu",
		e.Device, e.Lacks())
}

// Lacks lists the missing features in a clause without the device's name.
func (e *UnsupportedError) Lacks() string { return "it lacks " + strings.Join(e.Missing, "; ") }

// refuseMissing returns an [UnsupportedError] that lists all features that the kernels need and the device lacks, or
// nil if there are none.
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

// refuseLarge returns an error if a kernel's indices do not fit in 32 bits. The error names the ops and the tensor.
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
