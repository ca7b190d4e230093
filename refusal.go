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

// isRefusal reports whether a compile or load failed because of a limit of the device or the machine: a missing
// feature, too little memory, no GLSL compiler. Such an error is not a mistake in the graph.
func isRefusal(err error) bool {
	var (
		unsupported *UnsupportedError
		large       *kernel.RangeError
		tools       *spirv.MissingToolError
		memory      *vk.OutOfMemoryError
		mismatch    *vk.MismatchError
	)
	tooLarge := errors.As(err, &mismatch) && mismatch.Smaller != "" // otherwise it was compiled for another device
	return tooLarge || errors.As(err, &unsupported) || errors.As(err, &large) || errors.As(err, &tools) ||
		errors.As(err, &memory)
}

// runsOnCPUInstead reports whether the CPU fast path should run a graph that "auto" could not compile for the device,
// or not load there, because of err. If the graph and its weights are valid, the answer is yes, with two exceptions. A
// program compiled for another device must be recompiled. With custom ops the user's shaders may be at fault, so err
// must be a refusal (see [isRefusal]).
func runsOnCPUInstead(ctx context.Context, g *ir.Graph, weights ir.WeightSource, err error) bool {
	wrongWeights := (*ir.WeightError)(nil)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.As(err, &wrongWeights) {
		return false
	}
	if _, _, wrong := compiler.FitWeights(g, weights); wrong != nil {
		return false
	}
	mismatch := (*vk.MismatchError)(nil)
	compiledForAnother := errors.As(err, &mismatch) && mismatch.Smaller == ""
	return isRefusal(err) || !compiler.IsCustom(g) && !compiledForAnother
}

// refusedError is the one-line reason why a device does not run a graph that the CPU fast path then runs.
type refusedError struct {
	device string
	err    error
}

// Error returns the reason in one line.
func (e *refusedError) Error() string {
	why := runtime.Reason(e.err).Error()
	if unsupported := (*UnsupportedError)(nil); errors.As(e.err, &unsupported) {
		why = unsupported.Lacks()
	}
	return fmt.Sprintf("%s does not run this graph: %s", e.device, strings.Join(strings.Fields(why), " "))
}

func (e *refusedError) Unwrap() error { return e.err }
