package vkc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// refuses reports whether an error comes from the limits of the device or the machine, and not from a mistake in the
// graph.
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

// standsIn reports whether the CPU fast path should run a graph that "auto" could not compile for the device or load
// there. It does so for every failure of the device, if the graph and its weights are valid. It does not for a program
// compiled for another device, which must be recompiled. For a graph with custom ops, whose shaders may be at fault, it
// requires a refusal, see [refuses].
func standsIn(ctx context.Context, g *ir.Graph, weights ir.WeightSource, err error) bool {
	wrongWeights := (*ir.WeightError)(nil)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.As(err, &wrongWeights) {
		return false
	}
	if _, _, wrong := compiler.FitWeights(g, weights); wrong != nil {
		return false
	}
	another := (*vk.MismatchError)(nil)
	return refuses(err) || !compiler.IsCustom(g) && !errors.As(err, &another)
}

// refusedError is the one-line reason why a device does not run a graph that the CPU fast path then runs.
type refusedError struct {
	device string
	err    error
}

func (e *refusedError) Error() string {
	why := runtime.Reason(e.err).Error()
	if unsupported := (*UnsupportedError)(nil); errors.As(e.err, &unsupported) {
		why = unsupported.Lacks()
	}
	return fmt.Sprintf("%s does not run this graph: %s", e.device, strings.Join(strings.Fields(why), " "))
}

func (e *refusedError) Unwrap() error { return e.err }
