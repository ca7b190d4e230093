package spirv

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Feature is something that only some versions of the tools can compile.
type Feature string

// The features that Supports knows.
const (
	CoopMat  Feature = "coopmat"  // GL_KHR_cooperative_matrix
	CoopMat2 Feature = "coopmat2" // GL_NV_cooperative_matrix2; needs the target vulkan1.3
	IntDot   Feature = "int_dot"  // GL_EXT_integer_dot_product
	BFloat16 Feature = "bfloat16" // GL_EXT_bfloat16
	Float8   Feature = "float8"   // GL_EXT_float_e4m3
)

// featureTimeout bounds the probing of all features, which takes 0.2 s.
const featureTimeout = 30 * time.Second

// featureProbes has, for each feature, the smallest shader that uses it. All
// of them are compiled at once. They ask for what matters, that this very set
// of tools gets a shader all the way through: bookworm's spirv-opt rejects the
// cooperative matrices that a newer compiler emits.
var featureProbes = []Shader{
	{Name: string(CoopMat), TargetEnv: "vulkan1.2", Source: `#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer B { float x[]; };
void main() {
	coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> c;
	coopMatLoad(c, x, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
	coopMatStore(c, x, 256, 16, gl_CooperativeMatrixLayoutRowMajor);
}
`},
	{Name: string(CoopMat2), TargetEnv: "vulkan1.3", Source: `#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 128) in;
layout(binding = 0) buffer B { float x[]; };
void main() {
	coopmat<float, gl_ScopeWorkgroup, 32, 32, gl_MatrixUseAccumulator> c;
	tensorLayoutNV<2> t = createTensorLayoutNV(2);
	t = setTensorLayoutDimensionNV(t, 64, 64);
	coopMatLoadTensorNV(c, x, 0, sliceTensorLayoutNV(t, 0, 32, 0, 32));
	coopMatStoreTensorNV(c, x, 0, sliceTensorLayoutNV(t, 32, 32, 32, 32));
}
`},
	{Name: string(IntDot), TargetEnv: "vulkan1.2", Source: `#version 460
#extension GL_EXT_integer_dot_product : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer B { int x[]; };
void main() { x[2] = dotPacked4x8EXT(x[0], x[1]); }
`},
	{Name: string(BFloat16), TargetEnv: "vulkan1.2", Source: `#version 460
#extension GL_EXT_bfloat16 : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer B { bfloat16_t b[2]; float x[]; };
void main() { x[0] = float(b[0]); b[1] = bfloat16_t(x[1]); }
`},
	{Name: string(Float8), TargetEnv: "vulkan1.2", Source: `#version 460
#extension GL_EXT_float_e4m3 : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer B { floate4m3_t b[4]; float x[]; };
void main() { x[0] = float(b[0]); b[1] = floate4m3_t(x[1]); }
`},
}

// featureProbe runs the probes at most once.
type featureProbe struct {
	once   sync.Once
	result map[Feature]bool
}

// Supports reports whether the tools can compile and optimize shaders that use
// a feature. The first call in a process compiles one tiny shader per feature,
// unless the cache directory knows the answer for these versions of the tools.
// An unknown feature is not supported, and without tools none is.
func (t *Toolchain) Supports(f Feature) bool { return t.Features()[f] }

// Features returns the answer of Supports for every feature.
func (t *Toolchain) Features() map[Feature]bool {
	t.features.once.Do(func() { t.features.result = t.probeFeatures() })
	result := make(map[Feature]bool, len(featureProbes))
	for _, p := range featureProbes {
		result[Feature(p.Name)] = t.features.result[Feature(p.Name)]
	}
	return result
}

func (t *Toolchain) probeFeatures() map[Feature]bool {
	fingerprint := t.Fingerprint()
	if known, ok := t.probes.features(fingerprint); ok {
		return known
	}
	if t.Ready() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), featureTimeout)
	defer cancel()
	results, _, err := t.Compile(ctx, featureProbes, Options{Optimize: true, Validate: t.Val.Found()})
	found := map[Feature]bool{}
	for i, r := range results {
		found[Feature(featureProbes[i].Name)] = r.SPIRV != nil
	}
	// A refusal is an answer to keep; a tool that hung or did not start is not.
	if err == nil || allCompileErrors(err) {
		t.probes.noteFeatures(fingerprint, found)
	}
	return found
}

// allCompileErrors reports whether err, as Compile returned it, speaks only of
// shaders that were refused.
func allCompileErrors(err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	for _, e := range joined.Unwrap() {
		if ce := (*CompileError)(nil); !errors.As(e, &ce) {
			return false
		}
	}
	return true
}
