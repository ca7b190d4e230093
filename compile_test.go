package vkc_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// renamed is the graph with other names for everything that has one.
func renamed(t *testing.T, g *ir.Graph) *ir.Graph {
	t.Helper()
	text := strings.NewReplacer(`"x"`, `"images"`, `"layer.`, `"l`, "T", "Rows", `"label"`, `"class"`, `"mlp"`,
		`"other"`).Replace(g.String())
	r, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if r.HashString() != g.HashString() {
		t.Fatal("renaming changed the hash")
	}
	return r
}

// TestPricedPrograms: a program that was compiled with other prices is not kept, but its shaders are.
func TestPricedPrograms(t *testing.T) {
	devtest.NeedTools(t)
	root := devtest.EmptyCache(t)
	opt := compiler.Options{Pricer: func(caps device.Caps) kernel.Pricer { return schedule.NewPricer(caps) }}
	for i := range 2 {
		c, err := compiler.Compile(t.Context(), readGraph(t, "mlp.ir"), opt)
		if err != nil {
			t.Fatal(err)
		}
		if s := c.Stats; s.CacheHit || s.CacheErr != nil || (s.Processes > 0) != (i == 0) {
			t.Errorf("compile %d: %+v", i, s)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "programs")); err == nil {
		t.Error("a program is kept")
	}
}

// cached lists the files of the program cache.
func cached(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(root, "programs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCompileCache(t *testing.T) {
	devtest.NeedTools(t)
	root := devtest.EmptyCache(t)
	g := readGraph(t, "mlp.ir")
	first := devtest.Compile(t, g, "generic")
	if first.Stats.CacheHit || first.Stats.Processes == 0 || first.Stats.Kernels == 0 {
		t.Errorf("the first time: %+v", first.Stats)
	}
	again := devtest.Compile(t, g, "generic")
	if !again.Stats.CacheHit || again.Stats.Processes != 0 || again.Stats.Kernels != first.Stats.Kernels {
		t.Errorf("the second time: %+v", again.Stats)
	}
	other := devtest.Compile(t, renamed(t, g), "generic")
	if !other.Stats.CacheHit {
		t.Errorf("under other names: %+v", other.Stats)
	}
	prog := other.Contents.Program
	if prog.Name != "other" || prog.Inputs[0].Name != "images" || prog.Outputs[1].Name != "class" ||
		prog.Symbols[0].Name != "Rows" {
		t.Errorf("the cached program has the old names: %+v", prog)
	}
	for _, b := range prog.Buffers {
		for _, s := range b.Segments {
			if strings.HasPrefix(s.Weight, "layer.") {
				t.Errorf("buffer %s asks for weight %s", b.Name, s.Weight)
			}
		}
	}
	if elsewhere := devtest.Compile(t, g, "nvidia-h100"); elsewhere.Stats.CacheHit {
		t.Error("a program for another device came from the cache")
	}
	if n := len(cached(t, root)); n != 2 {
		t.Errorf("%d programs in the cache, want 2", n)
	}
}

// TestDamagedCache: a damaged entry, and one of another device in its place,
// are compiled again and give the same program.
func TestDamagedCache(t *testing.T) {
	devtest.NeedTools(t)
	root := devtest.EmptyCache(t)
	g := readGraph(t, "mlp.ir")
	want := devtest.Compile(t, g, "generic")
	mine := cached(t, root)[0]
	devtest.Compile(t, g, "amd-rdna3")
	var foreign string
	for _, path := range cached(t, root) {
		if path != mine {
			foreign = path
		}
	}
	sound, err := os.ReadFile(mine)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(foreign)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(sound)
	flipped[len(flipped)/2] ^= 1
	for name, content := range map[string][]byte{"flipped bit": flipped, "cut short": sound[:len(sound)/2],
		"empty": nil, "of another device": theirs} {
		if err := os.WriteFile(mine, content, 0o600); err != nil {
			t.Fatal(err)
		}
		got := devtest.Compile(t, g, "generic")
		if got.Stats.CacheHit || got.Contents.Program.Target != want.Contents.Program.Target {
			t.Errorf("%s: %+v for %s", name, got.Stats, got.Contents.Program.Target)
		}
		for i := range want.Contents.SPIRV {
			if !bytes.Equal(got.Contents.SPIRV[i], want.Contents.SPIRV[i]) {
				t.Errorf("%s: shader %d differs", name, i)
			}
		}
		if !devtest.Compile(t, g, "generic").Stats.CacheHit {
			t.Errorf("%s: the entry was not replaced", name)
		}
	}
}

func TestCompileWithoutCache(t *testing.T) {
	devtest.NeedTools(t)
	root := devtest.NoCache(t)
	g := readGraph(t, "mlp.ir")
	p, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{NoCache: true})
	if err != nil || p.Stats.CacheHit || p.Stats.Processes == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	t.Setenv(cachefile.Env, "off")
	for range 2 {
		if p := devtest.Compile(t, g, "generic"); p.Stats.CacheHit {
			t.Error("a cache that is off had a hit")
		}
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("the cache directory has %v, %v", entries, err)
	}
}

// TestCompileRefusesOpenCache: a cache that others can write runs their code,
// so it is neither read nor written, and the program says so.
func TestCompileRefusesOpenCache(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("owners are told in another way")
	}
	devtest.NeedTools(t)
	root := devtest.EmptyCache(t)
	g := readGraph(t, "mlp.ir")
	devtest.Compile(t, g, "generic")
	if !devtest.Compile(t, g, "generic").Stats.CacheHit {
		t.Fatal("no hit in an own cache")
	}
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	p, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Stats.CacheHit || p.Stats.Processes == 0 {
		t.Errorf("a cache that others can write was used: %+v", p.Stats)
	}
	devtest.WantError(t, p.Stats.CacheErr, root, "can be written by others", "chmod")
}

func TestCompileWithoutTools(t *testing.T) {
	devtest.EmptyCache(t)
	t.Setenv(spirv.ToolsEnv, "")
	t.Setenv("XDG_DATA_HOME", t.TempDir()) // nothing is registered there
	t.Setenv("PATH", "")
	g := readGraph(t, "mlp.ir")
	_, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{})
	devtest.WantError(t, err, "glslc", "not found", "install")
	t.Setenv(spirv.ToolsEnv, t.TempDir())
	_, err = vkc.Compile(context.Background(), g, vkc.CompileOptions{})
	devtest.WantError(t, err, spirv.ToolsEnv)
}

func TestCompileInterrupted(t *testing.T) {
	devtest.NeedTools(t)
	root := devtest.EmptyCache(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p, err := vkc.Compile(ctx, readGraph(t, "mlp.ir"), vkc.CompileOptions{}); err == nil {
		t.Errorf("compiled though interrupted: %+v", p.Stats)
	}
	if _, err := os.Stat(filepath.Join(root, "programs")); err == nil {
		t.Error("an interrupted compile left something in the cache")
	}
}

// TestLimitsOfEmptyAxes: the last coordinate of an axis of extent T is -1 where
// T is 0, so a limit to it must be computed with a sign.
func TestLimitsOfEmptyAxes(t *testing.T) {
	g, err := ir.Parse(`graph "join" {
  symbol T <= 9
  %x = input {name="x", dtype=f32, shape=[T]}
  %y = input {name="y", dtype=f32, shape=[8]}
  %i = input {name="i", dtype=u32, shape=[5]}
  %j = concat %x, %y
  %p = index_select %x, %i
  output "joined" %j
  output "picked" %p
}`)
	if err != nil {
		t.Fatal(err)
	}
	caps, err := device.Profile("generic")
	if err != nil {
		t.Fatal(err)
	}
	low, err := compiler.Lower(context.Background(), g, caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	limits := 0
	for _, src := range low.GLSL {
		if strings.Contains(src, "T - 1u") {
			t.Errorf("an unsigned limit wraps where T is 0:\n%s", src)
		}
		limits += strings.Count(src, "int(T) - 1")
	}
	if limits < 2 {
		t.Errorf("%d signed limits, want one for each input that is picked from", limits)
	}
}

// TestOldTools compiles for a device that has more than the machine's own, old
// tools can express.
func TestOldTools(t *testing.T) {
	tools, err := spirv.Find(t.Context(), spirv.FindOptions{SearchDirs: []string{"/usr/bin"}})
	if err != nil || tools.Ready() != nil {
		t.Skip("there are no tools in /usr/bin")
	}
	if known, err := tools.Features(t.Context()); known[spirv.CoopMat] || err != nil {
		t.Skip("the tools in /usr/bin are not old")
	}
	t.Setenv(spirv.ToolsEnv, "/usr/bin")
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	g, err := vkc.ReadGraph(filepath.Join("golden", "graphs", "mlp.ir"))
	if err != nil {
		t.Fatal(err)
	}
	g, err = vkc.WithPrecision(g, "half") // matrix units would do
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		p, err := vkc.Compile(context.Background(), g,
			vkc.CompileOptions{Target: devtest.Profile(t, "nvidia-h100"), Validate: true})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(p.Stats.Without, string(spirv.CoopMat)) || p.Stats.CacheHit != again {
			t.Errorf("%+v", p.Stats)
		}
		for _, text := range p.Contents.GLSL {
			if strings.Contains(text, "coopmat") {
				t.Errorf("matrix units are used:\n%s", text)
			}
		}
	}
}

// TestHasKernelsOf: a program has the kernels of the same program with other bounds of its axes, but not those of a
// different program.
func TestHasKernelsOf(t *testing.T) {
	program := func(rows int, ops string) *vkc.Program {
		g, err := ir.Parse(fmt.Sprintf("graph \"t\" {\n  symbol T <= %d\n"+
			"  %%x = input {name=\"x\", dtype=f32, shape=[T,64]}\n%s}\n", rows, ops))
		if err != nil {
			t.Fatal(err)
		}
		return devtest.Compile(t, g, "nvidia-h100")
	}
	const one = "  %1 = exp %x\n  output \"y\" %1\n"
	both := program(512, one+"  %2 = sum %x {axes=[1]}\n  output \"z\" %2\n")
	short, long, nothing := program(128, one), program(512, one), (*vkc.Program)(nil)
	for _, c := range []struct {
		p, other *vkc.Program
		want     bool
	}{{short, long, true}, {long, short, true}, {both, long, true}, {long, both, false}, {long, nothing, true},
		{nothing, long, false}} {
		if got := c.p.HasKernelsOf(c.other); got != c.want {
			t.Errorf("%+v has the kernels of %+v: %v", c.p, c.other, got)
		}
	}
}
