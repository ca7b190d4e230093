package spirv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
)

// Feature is a GLSL extension that only some versions of the tools can compile.
type Feature string

// The features that have probes.
const (
	CoopMat  Feature = "coopmat"  // GL_KHR_cooperative_matrix
	CoopMat2 Feature = "coopmat2" // GL_NV_cooperative_matrix2; needs the target vulkan1.3
	IntDot   Feature = "int_dot"  // GL_EXT_integer_dot_product
	BFloat16 Feature = "bfloat16" // GL_EXT_bfloat16
	Float8   Feature = "float8"   // GL_EXT_float_e4m3
)

// featureProbes has, for each feature, the smallest shader that uses it. All are compiled in one call. They test the
// tools together: the spirv-opt of Debian bookworm, for example, rejects the cooperative matrices that a newer compiler
// emits.
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

// featureProbe caches the answer of [Toolchain.Features] within a process.
type featureProbe struct {
	mu     sync.Mutex
	result map[Feature]bool // nil before the first call
}

// Features reports for every feature whether the tools can compile and optimize shaders that use it. The first call in
// a process compiles one tiny shader per feature, unless the cache directory has the answer for these versions of the
// tools. Without tools no feature is supported. The only error is the end of ctx.
func (t *Toolchain) Features(ctx context.Context) (map[Feature]bool, error) {
	t.features.mu.Lock()
	defer t.features.mu.Unlock()
	if t.features.result == nil {
		found, err := t.probeFeatures(ctx)
		if err != nil {
			return nil, err
		}
		t.features.result = make(map[Feature]bool, len(featureProbes))
		// Every feature gets an entry, true or false.
		for _, p := range featureProbes {
			t.features.result[Feature(p.Name)] = found[Feature(p.Name)]
		}
	}
	return maps.Clone(t.features.result), nil
}

// probeFeatures returns the features that the tools support, from the cache directory or by compiling the probes. It
// returns nil if there are no tools.
func (t *Toolchain) probeFeatures(ctx context.Context) (map[Feature]bool, error) {
	fingerprint := t.Fingerprint()
	if known, ok := t.probes.features(fingerprint); ok {
		return known, nil
	}
	if t.Ready() != nil {
		return nil, nil
	}
	results, _, err := t.Compile(ctx, featureProbes, Options{Optimize: true, Validate: t.Val.Found()})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("spirv: features of the tools: %w", context.Cause(ctx))
	}
	found := map[Feature]bool{}
	for i, r := range results {
		found[Feature(featureProbes[i].Name)] = r.SPIRV != nil
	}
	// Save that the tools reject a probe, but not that a tool hung or did not start.
	if err == nil || allRefusals(err) {
		t.probes.noteFeatures(fingerprint, found)
	}
	return found, nil
}

// allRefusals reports whether err, from Compile, consists only of CompileErrors of shaders that a tool rejected. A tool
// that hit a limit did not reject its shader.
func allRefusals(err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	for _, e := range joined.Unwrap() {
		if ce := (*CompileError)(nil); !errors.As(e, &ce) || ce.stopped {
			return false
		}
	}
	return true
}
