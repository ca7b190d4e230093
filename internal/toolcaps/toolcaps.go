// Package toolcaps removes the features of a device that the installed GLSL compiler does not support. An old compiler
// lacks extensions that the device has: [Expressible] returns the device without them and lists their names.
package toolcaps

import (
	"context"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/spirv"
)

// toolFeatures are the features that only newer compilers support. Each has a function that reports whether a device
// has it, and one that removes it. Without it, kernels use the code path of devices that lack the feature, which is
// slower but equally correct.
var toolFeatures = []struct {
	name spirv.Feature
	has  func(c *device.Caps) bool
	drop func(c *device.Caps)
}{
	{spirv.CoopMat, func(c *device.Caps) bool { return c.Features.CooperativeMatrix }, func(c *device.Caps) {
		c.Features.CooperativeMatrix, c.Matrices = false, nil
		c.Features.CooperativeMatrix2, c.Matrix2 = false, nil // an extension of the former
	}},
	{spirv.CoopMat2, func(c *device.Caps) bool { return c.Features.CooperativeMatrix2 }, func(c *device.Caps) {
		c.Features.CooperativeMatrix2, c.Matrix2 = false, nil
	}},
	{spirv.IntDot, func(c *device.Caps) bool { return c.Features.IntegerDotProduct }, func(c *device.Caps) {
		c.Features.IntegerDotProduct = false
	}},
	{spirv.BFloat16, func(c *device.Caps) bool { return c.Features.BFloat16 || c.Features.BFloat16Matrix },
		func(c *device.Caps) {
			c.Features.BFloat16, c.Features.BFloat16Matrix = false, false
		}},
	{spirv.Float8, func(c *device.Caps) bool { return c.Features.Float8 || c.Features.Float8Matrix },
		func(c *device.Caps) {
			c.Features.Float8, c.Features.Float8Matrix = false, false
		}},
}

// Expressible returns the device to compile for: caps without the features that the tools are too old to compile, and
// the names of those features. If no tools are installed it returns caps unchanged, since only cached programs can be
// used then.
func Expressible(ctx context.Context, tools *spirv.Toolchain, caps device.Caps) (device.Caps, []string, error) {
	if tools.Ready() != nil {
		return caps, nil, nil
	}
	return expressible(caps, func() (map[spirv.Feature]bool, error) { return tools.Features(ctx) })
}

// expressible removes from a device's capabilities every feature that the GLSL compiler cannot express. It returns the
// rest and the names of the removed features. features asks the compiler; expressible calls it only if the device has
// such a feature.
func expressible(caps device.Caps, features func() (map[spirv.Feature]bool, error)) (device.Caps, []string, error) {
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
