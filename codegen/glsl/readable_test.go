package glsl_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/ir"
)

// TestGoldenIsReadable lints the golden shaders. All families have some.
func TestGoldenIsReadable(t *testing.T) {
	sources := map[string]string{}
	for _, pattern := range []string{goldenDir + "/*.comp", "../../golden/profiles/*.glsl"} {
		files, err := filepath.Glob(pattern)
		check(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			check(t, err)
			// The file of a program has several shaders.
			for i, part := range strings.Split("\n"+string(text), "\n// ---- shader ") {
				if i > 0 {
					_, part, _ = strings.Cut(part, "\n")
				}
				if strings.TrimSpace(part) != "" {
					sources[fmt.Sprintf("%s#%d", filepath.Base(file), i)] = part
				}
			}
		}
	}
	readable(t, sources)
}

// TestProgramsAreReadable lints the kernels of the benchmarks, each for a sixth of the kinds of devices, and for every
// kind with VKC_TEST_CASES=all. Many of them are in each block format.
func TestProgramsAreReadable(t *testing.T) {
	sources := map[string]string{}
	for i, c := range bench.Cases(bench.Full) {
		if c.StandIn != nil {
			c = *c.StandIn // the same kernels, fewer times
		}
		g, err := c.Graph(c.Sizes)
		check(t, err)
		for j, p := range device.Kinds() {
			if (i+j)%6 == 0 || os.Getenv(pairs.Env) == "all" {
				addSources(t, sources, c.Name, p, g)
			}
		}
	}
	if len(sources) < 500 {
		t.Errorf("only %d texts", len(sources))
	}
	readable(t, sources)
}

// TestRandomProgramsAreReadable lints the kernels of random graphs. They have extents of 0 and 1, odd types and
// constants that no benchmark has.
func TestRandomProgramsAreReadable(t *testing.T) {
	sources := map[string]string{}
	for seed := range uint64(40) {
		g, err := graphgen.New(seed, graphgen.Options{Straight: true})
		check(t, err)
		for _, p := range device.Kinds() {
			addSources(t, sources, fmt.Sprintf("seed %d", seed), p, g)
		}
	}
	if len(sources) < 400 {
		t.Errorf("only %d texts", len(sources))
	}
	readable(t, sources)
}

// addSources adds the kernels of a graph for a device, if the device can run them.
func addSources(t *testing.T, sources map[string]string, name, device string, g *ir.Graph) {
	t.Helper()
	low, err := compiler.Lower(context.Background(), g, profile(t, device), nil)
	if refused(err) {
		return
	}
	if err != nil {
		t.Errorf("%s for %s: %v", name, device, err)
		return
	}
	for i, source := range low.GLSL {
		sources[fmt.Sprintf("%s/%s/%d", name, device, i)] = source
	}
}

// refused reports whether a device cannot run a graph.
func refused(err error) bool {
	var missing *vkc.UnsupportedError
	return errors.As(err, &missing)
}

// TestLint: the linter finds each fault that it looks for, and none in a shader without fault.
func TestLint(t *testing.T) {
	const head = `layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer X_buffer { float x[]; };
shared float lanes[64];
#define INF uintBitsToFloat(0x7f800000u)
float twice(float a) {
    return a * 2.0;
}
void main() {
    uint self = gl_LocalInvocationIndex;
    lanes[self] = twice(INF);
    barrier();
`
	tests := []struct{ body, want string }{
		{"x[self] = lanes[self / 4u];", ""},
		{"for (uint i = 0u; i < 8u; ++i) { if (i * 64u + self < 500u) { x[i * 64u + self] = lanes[min(i, self)]; } }", ""},
		{"float s; s = 0.0; [[unroll]] for (uint i = 0u; i < 2u; ++i) { s += lanes[i]; } x[self] = s + 0.0;", ""},
		{"x[self / 1u] = 1.0;", "self / 1u does nothing"},
		{"x[self * 1u] = 1.0;", "self * 1u does nothing"},
		{"x[self + 0u] = 1.0;", "self + 0u does nothing"},
		{"x[self | 0u] = 1.0;", "self | 0u does nothing"},
		{"x[self >> (2u & 31u)] = 1.0;", "2u & 31u is constant"},
		{"x[self] = 1.0 * lanes[self];", "1.0 * lanes [ self ] does nothing"},
		{"x[self] = float(3);", "float ( 3 ) is constant"},
		{"x[self * 4u * 8u] = 1.0;", "has two constants"},
		{"x[self * 0u] = 1.0;", "is 0"},
		{"if (self < 64u) { x[self] = 1.0; }", "the outcome of self < 64u is known"},
		{"if (self % 4u >= 4u) { x[self] = 1.0; }", "is known"},
		{"if (self < 9u) { if (self < 9u) { x[self] = 1.0; } }", "self < 9u is known to hold"},
		{"if (self >= 9u) return; x[min(self, 8u)] = 1.0;", "as was checked"},
		{"x[min(self, 63u)] = 1.0;", "is self"},
		{"x[clamp(int(self), 0, 63)] = 1.0;", "changes nothing"},
		{"x[self] = true ? 1.0 : 2.0;", "true is constant"},
		{"x[self] = self > 3u ? 1.0 : 1.0;", "both sides"},
		{"uint a = self / 2u; x[self] = 1.0;", "nothing reads a"},
		{"uint a; a = self; x[self] = 1.0;", "nothing reads a"},
		{"uint four = 4u; x[self / four] = 1.0;", "four is the constant 4u"},
		{"for (uint i = 0u; i < 1u; ++i) { x[i + self] = 1.0; }", "the loop over i runs once"},
		{"x[self] = 1.0; } float lost(float a) { return a + 1.0;", "nothing calls lost"},
		{"x[self] = 1.0; } float other(float b) { return b * 2.0;", "twice and other are the same"},
		{"x[self] = 1.0; } float lost(float a, float b) { return a + 1.0;", "nothing reads b"},
		{"x[self] = 1.0; } shared uint lost[4]; void f() {", "nothing uses lost"},
	}
	for _, tt := range tests {
		got := strings.Join(lint(head+tt.body+"\n}\n"), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.body, got, tt.want)
		}
	}
}

// readable reports each finding of the linter once, with the shaders that have it.
func readable(t *testing.T, sources map[string]string) {
	t.Helper()
	found := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		for _, p := range lint(sources[name]) {
			found[p] = append(found[p], name)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s (%d texts, as %s)", p, len(found[p]), found[p][0])
	}
}
