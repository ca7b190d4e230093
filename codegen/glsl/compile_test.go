package glsl_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/passes"
)

var (
	randomGraphs = flag.Int("graphs", 0, "how many random graphs to generate shaders for; 0 is 60, of which a "+
		"covering set runs")
	firstSeed = flag.Uint64("seed", 0, "the seed of the first random graph")
)

func graphCount() int { return cmp.Or(*randomGraphs, 60) }

// toolchain returns the GLSL tools. Without them it skips the test, or fails the test if every tool is required.
func toolchain(t testing.TB) *spirv.Toolchain {
	t.Helper()
	tools, err := spirv.Find(context.Background(), spirv.FindOptions{CacheDir: moduleCache})
	if err != nil {
		t.Fatal(err)
	}
	if err := tools.Ready(); err != nil {
		if vktest.Required() {
			t.Fatal(err)
		}
		t.Skipf("no GLSL compiler here (VKC_REQUIRE_DEVICE=1 makes this a failure): %v", err)
	}
	return tools
}

// compile runs shaders through the GLSL compiler, the optimizer and the validator. It reports each refused shader with
// its source.
func compile(t *testing.T, sources map[string]string) {
	t.Helper()
	tools := toolchain(t)
	var names []string
	for name := range sources {
		names = append(names, name)
	}
	slices.Sort(names)
	shaders := make([]spirv.Shader, len(names))
	for i, name := range names {
		shaders[i] = spirv.Shader{Name: name, Source: sources[name], TargetEnv: envOf(sources[name])}
	}
	results, _, err := tools.Compile(context.Background(), shaders,
		spirv.Options{Optimize: true, Validate: tools.Val.Found()})
	var refused *spirv.CompileError
	if err != nil && !errors.As(err, &refused) {
		t.Fatal(err)
	}
	shown := 0
	for i, r := range results {
		if r.SPIRV != nil {
			continue
		}
		if shown++; shown <= 3 {
			t.Errorf("%s is refused: %s\n%s", names[i], refusal(err, names[i]), numbered(shaders[i].Source))
		} else {
			t.Errorf("%s is refused", names[i])
		}
	}
}

// refusal finds the part of a joined error that is about a shader.
func refusal(err error, name string) string {
	for _, line := range strings.Split(err.Error(), "\n") {
		if strings.Contains(line, name) {
			return line
		}
	}
	return err.Error()
}

func numbered(source string) string {
	lines := strings.Split(source, "\n")
	for i := range lines {
		lines[i] = fmt.Sprintf("%3d %s", i+1, lines[i])
	}
	return strings.Join(lines, "\n")
}

func profile(t *testing.T, name string) device.Caps {
	t.Helper()
	caps, err := device.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

// TestRandomGraphsCompile generates the kernels of random graphs, some of them large, for every device profile.
func TestRandomGraphsCompile(t *testing.T) {
	sources := map[string]string{}
	for seed := *firstSeed; seed < *firstSeed+uint64(graphCount()); seed++ {
		g, err := graphgen.New(seed, graphgen.Options{Large: seed%3 == 2})
		if err != nil {
			t.Fatal(err)
		}
		s, err := passes.Run(g, passes.Options{})
		if err != nil {
			t.Logf("seed %d: %v", seed, err)
			continue
		}
		var symbols []string
		for _, sym := range s.Program.Symbols {
			symbols = append(symbols, sym.Name)
		}
		device := device.Kinds()[int(seed)%len(device.Kinds())]
		for i, k := range s.Kernels {
			name := fmt.Sprintf("seed%d_%d_%s_%s", seed, i, k.Name, device)
			if source, ok := emitFor(t, k, profile(t, device), symbols); ok {
				sources[name] = source
			}
		}
	}
	if len(sources) < graphCount() {
		t.Errorf("only %d kernels of %d graphs", len(sources), graphCount())
	}
	compile(t, sources)
}

// emitFor generates a kernel under the schedule that a device gets, unless the device lacks a feature for it.
func emitFor(t *testing.T, k *kernel.Kernel, caps device.Caps, symbols []string) (source string, ok bool) {
	t.Helper()
	sched, _, err := schedule.Select(k, caps)
	var missing *schedule.MissingError
	if errors.As(err, &missing) {
		return "", false
	}
	if err != nil {
		t.Errorf("%v\n%s", err, k)
		return "", false
	}
	sh, err := glsl.Emit(k, sched, caps, symbols)
	if err != nil {
		t.Errorf("%v\n%s", err, k)
		return "", false
	}
	return sh.Source, true
}

// envOf returns the environment to compile a shader for.
func envOf(source string) string {
	if strings.Contains(source, "GL_NV_cooperative_matrix2") {
		return envFor([]string{emit.NeedCoopMat2})
	}
	return envFor(nil)
}

// envFor is the environment of shaders on devices of Vulkan 1.2 and later, for most tests.
func envFor(needs []string) string { return glsl.TargetEnv(needs, device.Version(1, 2, 0)) }
