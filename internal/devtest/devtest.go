// Package devtest has what tests of programs on devices share: devices, caches, graphs and tensors.
package devtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// Build makes a graph or fails the test.
func Build(t *testing.T, define func(b *frontend.Builder)) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("custom", define)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Layers returns a graph of layers. Each layer has a weight and a state that sums its inputs.
func Layers(t *testing.T, layers int) (g *ir.Graph, weights vkc.WeightMap) {
	t.Helper()
	weights = vkc.WeightMap{}
	g, err := frontend.Build("deep", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("T", 5), 24)
		first := x
		for i := range layers {
			w, s := fmt.Sprint("w", i), fmt.Sprint("s", i)
			weights[w] = Noise(t, 24, 24)
			x = x.MatMul(b.Weight(w, ir.F32, 24, 24)).Softmax(-1)
			sum := b.State(s, ir.F32, 24)
			next := sum.Add(x.Sum(0))
			b.Update(sum, next)
			x = x.Add(next)
		}
		b.Output("early", first.MulScalar(2))
		b.Output("y", x.Add(first)) // first skips all layers
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, weights
}

// Compile compiles a graph for the device profile of that name. The test fails if that fails, or if the program could
// not be stored in the cache.
func Compile(t *testing.T, g *ir.Graph, profile string) *vkc.Program {
	t.Helper()
	caps, err := device.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	p, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: caps})
	if err != nil {
		t.Fatal(err)
	}
	if p.Stats.CacheErr != nil {
		t.Errorf("not kept: %v", p.Stats.CacheErr)
	}
	return p
}

// NeedTools skips a test if the tools that compile shaders are missing. With VKC_REQUIRE_DEVICE=1 it fails the test
// instead.
func NeedTools(t testing.TB) {
	t.Helper()
	tools, err := findTools(t.Context())
	if err == nil {
		err = tools.Ready()
	}
	skipOrFail(t, err)
}

// findTools finds the tools. It asks each for its version once in a process, because that starts the program.
func findTools(ctx context.Context) (*spirv.Toolchain, error) {
	common, err := vktest.CommonCache()
	if err != nil {
		return nil, err
	}
	return spirv.Find(ctx, spirv.FindOptions{CacheDir: common})
}

// Noise returns a tensor of random floats from -1 to 1, the same in every call with equal dims.
func Noise(t *testing.T, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(ir.F32, dims...)
	if err != nil {
		t.Fatal(err)
	}
	rng, values := rand.New(rand.NewPCG(1, uint64(len(d.Bytes)))), make([]float64, d.Elems())
	for i := range values {
		values[i] = float64(2*rng.Float64()) - 1
	}
	ir.EncodeFloats(d.Bytes, ir.F32, values)
	return d
}

// OnEach runs a test as two subtests: on the CPU reference and on the best Vulkan device.
func OnEach(t *testing.T, test func(t *testing.T, dev *vkc.Device)) {
	t.Run("reference", func(t *testing.T) {
		cpu, err := vkc.OpenDevice("cpu")
		if err != nil {
			t.Fatal(err)
		}
		test(t, cpu)
	})
	t.Run("device", func(t *testing.T) {
		NeedTools(t)
		OwnCache(t)
		test(t, OpenDevice(t))
	})
}

// OpenDevice opens the best Vulkan device and closes it when the test ends.
func OpenDevice(t testing.TB) *vkc.Device {
	t.Helper()
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	vktest.CloseAfter(t, dev)
	return dev
}

// OpenNamed opens the CPU reference if name is "cpu", and otherwise the Vulkan device of the tests.
func OpenNamed(t testing.TB, name string) *vkc.Device {
	t.Helper()
	if name != "cpu" {
		return OpenDevice(t)
	}
	dev, err := vkc.OpenDevice(name)
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, dev)
	return dev
}

// CompileShaders compiles the shaders of many graphs for a device into the test's cache, with few processes: starting a
// GLSL compiler takes longer than compiling one graph. It ignores compile errors, because they occur again when the
// test compiles the graph.
func CompileShaders(t testing.TB, caps device.Caps, graphs ...*ir.Graph) {
	t.Helper()
	tools, err := findTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var shaders []spirv.Shader
	for _, g := range graphs {
		if low, err := compiler.Lower(t.Context(), g, caps, nil); err == nil {
			for i, source := range low.GLSL {
				shaders = append(shaders, spirv.Shader{Source: source,
					TargetEnv: glsl.TargetEnv(low.Program.Shaders[i].Needs, caps.API)})
			}
		}
	}
	root, err := cachefile.Root()
	if err != nil || root == "" {
		t.Fatalf("the tests have no cache: %q, %v", root, err)
	}
	if _, stats, err := tools.Compile(t.Context(), shaders,
		spirv.Options{Optimize: true, CacheDir: root}); err != nil || stats.CacheErr != nil {
		t.Logf("compiling together: %v, %v", err, stats.CacheErr)
	}
}

// EmptyCache gives a test a cache without programs and shaders, and returns its directory. The cache has the versions
// and features of the tools: starting all tools takes half a second of CPU. A test of how they are found takes NoCache.
func EmptyCache(t *testing.T) string {
	t.Helper()
	return newCache(t, vktest.Tools)
}

// OwnCache gives a test a cache without programs. The cache has the shaders that other tests compiled, too: starting a
// GLSL compiler takes longer than most tests. A test of the cache itself, or of the compilation, takes EmptyCache.
func OwnCache(t *testing.T) {
	t.Helper()
	newCache(t, vktest.Shaders, vktest.Tools)
}

// NoCache gives a test a cache with nothing in it, and returns its directory.
func NoCache(t *testing.T) string {
	t.Helper()
	return newCache(t)
}

// newCache gives a test a cache that shares those folders with other tests.
func newCache(t *testing.T, shared ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := vktest.Share(dir, shared...); err != nil {
		t.Fatal(err)
	}
	t.Setenv(cachefile.EnvDir, dir)
	t.Setenv(cachefile.Env, "")
	return dir
}

// Profile returns the caps of a built-in profile.
func Profile(t *testing.T, name string) device.Caps {
	t.Helper()
	caps, err := device.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

// skipOrFail skips a test because of err, unless err is nil. With VKC_REQUIRE_DEVICE=1 it fails the test instead.
func skipOrFail(t testing.TB, err error) {
	t.Helper()
	if err != nil && vktest.Required() {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

// TensorOf returns a tensor with the values of a slice, or fails the test if their number does not fit dims.
func TensorOf[T vkc.Element](t *testing.T, values []T, dims ...int) *ir.Data {
	t.Helper()
	d, err := vkc.Of(values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// WantError fails the test unless err is not nil and its text is one line that contains all of texts.
func WantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q, want %q in it", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error of several lines: %q", err)
	}
}
