// Package toolcaps says what of a device the GLSL compiler at hand can express. A
// compiler of an older distribution lacks extensions that the device has:
// [Expressible] returns the device without them, and says what is left out.
package toolcaps

import (
	"context"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/codegen/target"
)

// toolFeatures are what only newer compilers can express: whether a device has
// it, and the device without it. Kernels then take the way of devices that
// never had it, which is slower and as right.
var toolFeatures = []struct {
	name spirv.Feature
	has  func(c *target.Caps) bool
	drop func(c *target.Caps)
}{
	{spirv.CoopMat, func(c *target.Caps) bool { return c.Features.CooperativeMatrix }, func(c *target.Caps) {
		c.Features.CooperativeMatrix, c.Matrices = false, nil
		c.Features.CooperativeMatrix2, c.Matrix2 = false, nil // an extension of the former
	}},
	{spirv.CoopMat2, func(c *target.Caps) bool { return c.Features.CooperativeMatrix2 }, func(c *target.Caps) {
		c.Features.CooperativeMatrix2, c.Matrix2 = false, nil
	}},
	{spirv.IntDot, func(c *target.Caps) bool { return c.Features.IntegerDotProduct }, func(c *target.Caps) {
		c.Features.IntegerDotProduct = false
	}},
	{spirv.BFloat16, func(c *target.Caps) bool { return c.Features.BFloat16 || c.Features.BFloat16Matrix },
		func(c *target.Caps) {
			c.Features.BFloat16, c.Features.BFloat16Matrix = false, false
		}},
	{spirv.Float8, func(c *target.Caps) bool { return c.Features.Float8 || c.Features.Float8Matrix },
		func(c *target.Caps) {
			c.Features.Float8, c.Features.Float8Matrix = false, false
		}},
}

// Expressible returns what to compile for where a device is asked for: the
// device without what the tools are too old to express, and the names of that.
// Without tools that can compile it is the device as it is: what was compiled
// before will have to do.
func Expressible(ctx context.Context, tools *spirv.Toolchain, caps target.Caps) (target.Caps, []string, error) {
	if tools.Ready() != nil {
		return caps, nil, nil
	}
	return expressible(caps, func() (map[spirv.Feature]bool, error) { return tools.Features(ctx) })
}

// expressible returns a device without what compilers of some features cannot
// express, and the names of that. It asks for the features only for a device
// that has what they are about.
func expressible(caps target.Caps, features func() (map[spirv.Feature]bool, error)) (target.Caps, []string, error) {
	var without []string
	for _, f := range toolFeatures {
		if !f.has(&caps) {
			continue
		}
		can, err := features()
		if err != nil {
			return caps, nil, err
		}
		if !can[f.name] {
			f.drop(&caps)
			without = append(without, string(f.name))
		}
	}
	return caps, without, nil
}
