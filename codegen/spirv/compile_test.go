package spirv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vkc-go/vkc/internal/cachefile"
)

func TestCompileReal(t *testing.T) {
	eachToolchain(t, func(t *testing.T, tc *Toolchain) {
		s := program(t)[1:]
		s = append(s, s[2], s[0]) // duplicates
		plain, _ := compile(t, tc, s, Options{})
		optimized, stats := compile(t, tc, s, Options{Optimize: true, Validate: tc.Val.Found()})
		if stats.Shaders != len(s) || stats.Distinct != len(s)-2 || stats.Failed != 0 || stats.CacheHits != 0 {
			t.Errorf("stats %+v for %d shaders with 2 duplicates", stats, len(s))
		}
		if !bytes.Equal(optimized[len(s)-1].SPIRV, optimized[0].SPIRV) {
			t.Error("duplicate sources gave different modules")
		}
		for i := range s {
			if bytes.Equal(plain[i].SPIRV, optimized[i].SPIRV) {
				t.Errorf("%s: spirv-opt changed nothing", s[i].Name)
			}
		}
		// Each result must match a separate compilation of its source.
		for _, i := range []int{0, 4, 7} {
			alone, _ := compile(t, tc, s[i:i+1], Options{Optimize: true})
			if !bytes.Equal(alone[0].SPIRV, optimized[i].SPIRV) {
				t.Errorf("%s: other module in a batch than alone", s[i].Name)
			}
		}
	})
}

// TestTargetEnv: each shader gets its own environment, seen in the version
// word of the module.
func TestTargetEnv(t *testing.T) {
	eachToolchain(t, func(t *testing.T, tc *Toolchain) {
		var s []Shader
		envs := map[string]byte{"": 5, "vulkan1.0": 0, "vulkan1.1": 3, "vulkan1.2": 5, "vulkan1.3": 6}
		var minors []byte
		for env, minor := range envs {
			s = append(s, Shader{Name: env, Source: source(0), TargetEnv: env})
			minors = append(minors, minor)
		}
		results, stats := compile(t, tc, s, Options{Optimize: true})
		for i, r := range results {
			if got := r.SPIRV[5]; got != minors[i] {
				t.Errorf("%q: SPIR-V 1.%d, want 1.%d", s[i].TargetEnv, got, minors[i])
			}
		}
		if stats.Distinct != 4 {
			t.Errorf("%d distinct, want 4: the default is one of those named", stats.Distinct)
		}
	})
	_, _, err := realTools(t).Compile(t.Context(), []Shader{{Name: "x", TargetEnv: "opengl"}}, Options{})
	if err == nil || !strings.Contains(err.Error(), `"opengl"`) {
		t.Errorf("unknown environment: %v", err)
	}
}

func TestCompileNothing(t *testing.T) {
	tc := find(t, FindOptions{SearchDirs: []string{t.TempDir()}})
	results, stats := compile(t, tc, nil, Options{Optimize: true})
	if len(results) != 0 || stats.Processes != 0 {
		t.Errorf("%v, %+v", results, stats)
	}
}

// TestSecondCompileStartsNoProcess puts logging scripts around the real tools.
func TestSecondCompileStartsNoProcess(t *testing.T) {
	real := realTools(t)
	f := newFakes(t)
	for _, tool := range []Tool{real.compiler(), real.Opt} {
		script(t, f.dir, tool.Name, `echo `+tool.Name+` >>"`+f.log+`"; exec "`+tool.Path+`" "$@"`)
	}
	opt := Options{Optimize: true, CacheDir: t.TempDir()}
	first, stats := compile(t, f.find(t, opt.CacheDir), program(t), opt)
	if calls := f.calls(t); len(calls) == 0 || stats.CacheHits != 0 || stats.Processes == 0 {
		t.Fatalf("first: %q, %+v; want processes and no hits", calls, stats)
	}
	again, stats := compile(t, f.find(t, opt.CacheDir), program(t), opt)
	if calls := f.calls(t); len(calls) != 0 {
		t.Errorf("second: started %q", calls)
	}
	if stats.Processes != 0 || stats.CacheHits != stats.Distinct {
		t.Errorf("second: %+v", stats)
	}
	for i := range first {
		if !bytes.Equal(first[i].SPIRV, again[i].SPIRV) || !again[i].CacheHit || first[i].CacheHit {
			t.Errorf("result %d differs, or its CacheHit is wrong", i)
		}
	}
}

func TestFewCompilerProcesses(t *testing.T) {
	tests := []struct{ shaders, jobs, want int }{
		{1, 4, 1}, {16, 4, 1}, {17, 4, 2}, {60, 4, 4}, {100, 4, 4}, {100, 1, 1}, {600, 2, 3},
	}
	for _, tt := range tests {
		f := newFakes(t)
		tc := f.find(t, "")
		f.calls(t)
		compile(t, tc, shaders(tt.shaders), Options{Jobs: tt.jobs})
		if calls := f.calls(t); len(calls) != tt.want {
			t.Errorf("%d shaders, %d jobs: %d processes, want %d", tt.shaders, tt.jobs, len(calls), tt.want)
		}
	}
}

func TestDealIsEven(t *testing.T) {
	var units []*unit
	for i := range 10 {
		units = append(units, &unit{shader: Shader{Source: strings.Repeat("x", i)}})
	}
	seen := map[*unit]bool{}
	for _, hand := range distribute(units, 3) {
		total := 0
		for _, u := range hand {
			seen[u] = true
			total += len(u.shader.Source)
		}
		if len(hand) < 3 || len(hand) > 4 || total < 12 || total > 18 {
			t.Errorf("a hand of %d units with %d bytes of 45", len(hand), total)
		}
	}
	if len(seen) != len(units) {
		t.Errorf("%d of %d units dealt", len(seen), len(units))
	}
}

// TestJobsLimit makes each tool count the concurrent ones.
func TestJobsLimit(t *testing.T) {
	f := newFakes(t)
	running := t.TempDir()
	f.set(t, "spirv-opt",
		`touch "`+running+`/$$"; ls "`+running+`" | wc -l >>"`+f.log+`.n"; sleep 0.02; rm "`+running+`/$$"; cat`)
	compile(t, f.find(t, ""), shaders(12), Options{Optimize: true, Jobs: 2})
	b, err := os.ReadFile(f.log + ".n")
	if err != nil {
		t.Fatal(err)
	}
	counts := strings.Fields(string(b))
	if most := slices.Max(counts); len(counts) != 12 || most != "2" {
		t.Errorf("at once: %q, want at most 2 and 2 reached", counts)
	}
}

func TestProgress(t *testing.T) {
	f := newFakes(t)
	dir := t.TempDir()
	compile(t, f.find(t, dir), shaders(3), Options{CacheDir: dir})
	var seen []string
	opt := Options{CacheDir: dir, Progress: func(done, total int) { seen = append(seen, fmt.Sprint(done, "/", total)) }}
	s := append(shaders(5), shaders(1)...) // 3 cached, 2 new, 1 duplicate
	compile(t, f.find(t, dir), s, opt)
	if want := []string{"1/5", "2/5", "3/5", "4/5", "5/5"}; !slices.Equal(seen, want) {
		t.Errorf("progress %q, want %q", seen, want)
	}
}

// TestKeyCoversInputs: every input that the module depends on changes the key, and other inputs do not.
func TestKeyCoversInputs(t *testing.T) {
	key := func(change func(*Shader, *Options, *Toolchain)) cachefile.Key {
		s, opt := Shader{Name: "n", Source: "s", TargetEnv: "vulkan1.2"}, Options{Optimize: true}
		tc := &Toolchain{probes: openProbeStore(""), GLSLC: Tool{"glslc", "/glslc", "1"},
			Opt: Tool{"spirv-opt", "/opt", "1"}, Val: Tool{"spirv-val", "/val", "1"}}
		change(&s, &opt, tc)
		return (&compilation{tools: tc, opt: opt}).keyFunc()(s)
	}
	base := key(func(*Shader, *Options, *Toolchain) {})
	seen := map[cachefile.Key]string{base: "nothing"}
	for name, change := range map[string]func(*Shader, *Options, *Toolchain){
		"source":           func(s *Shader, _ *Options, _ *Toolchain) { s.Source = "t" },
		"environment":      func(s *Shader, _ *Options, _ *Toolchain) { s.TargetEnv = "vulkan1.3" },
		"optimize":         func(_ *Shader, o *Options, _ *Toolchain) { o.Optimize = false },
		"validate":         func(_ *Shader, o *Options, _ *Toolchain) { o.Validate = true },
		"compiler version": func(_ *Shader, _ *Options, tc *Toolchain) { tc.GLSLC.Version = "2" },
		"compiler":         func(_ *Shader, _ *Options, tc *Toolchain) { tc.GLSLC = Tool{}; tc.Glslang = Tool{"g", "/g", "1"} },
		"optimizer":        func(_ *Shader, _ *Options, tc *Toolchain) { tc.Opt.Version = "2" },
		"validator in use": func(_ *Shader, o *Options, tc *Toolchain) { o.Validate = true; tc.Val.Version = "2" },
	} {
		k := key(change)
		if other, ok := seen[k]; ok {
			t.Errorf("changing the %s gives the key of changing the %s", name, other)
		}
		seen[k] = name
	}
	for name, change := range map[string]func(*Shader, *Options, *Toolchain){
		"name":                 func(s *Shader, _ *Options, _ *Toolchain) { s.Name = "m" },
		"jobs":                 func(_ *Shader, o *Options, _ *Toolchain) { o.Jobs = 7 },
		"validator not in use": func(_ *Shader, _ *Options, tc *Toolchain) { tc.Val.Version = "2" },
		"path of a tool":       func(_ *Shader, _ *Options, tc *Toolchain) { tc.GLSLC.Path = "/elsewhere" },
	} {
		if key(change) != base {
			t.Errorf("changing the %s changes the key", name)
		}
	}
}

func TestFullyCachedNeedsNoTools(t *testing.T) {
	f := newFakes(t)
	dir := t.TempDir()
	opt := Options{Optimize: true, Validate: true, CacheDir: dir}
	before := f.find(t, dir)
	compile(t, before, shaders(3), opt)
	for _, name := range []string{"glslc", "spirv-opt", "spirv-val"} {
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	tc := f.find(t, dir)
	if _, stats := compile(t, tc, shaders(3), opt); stats.CacheHits != 3 {
		t.Errorf("%+v", stats)
	}
	if tc.Fingerprint() != before.Fingerprint() {
		t.Errorf("fingerprint %q without tools, %q with them", tc.Fingerprint(), before.Fingerprint())
	}
	_, _, err := tc.Compile(t.Context(), shaders(4), opt)
	var missing *MissingToolError
	if !errors.As(err, &missing) || len(missing.Tools) != 3 || strings.Contains(err.Error(), "\n") {
		t.Errorf("a new shader: %v; want one line that names 3 tools", err)
	}
}

func TestDamagedCacheIsRecompiled(t *testing.T) {
	f := newFakes(t)
	opt := Options{CacheDir: t.TempDir()}
	tc := f.find(t, opt.CacheDir)
	compile(t, tc, shaders(2), opt)
	entries, err := OpenCache(opt.CacheDir).Entries()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(entries[0].Path, []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, hits := range []int{1, 2} {
		if _, stats := compile(t, tc, shaders(2), opt); stats.CacheHits != hits {
			t.Errorf("%d hits, want %d", stats.CacheHits, hits)
		}
	}
}

func TestUnwritableCacheIsNoError(t *testing.T) {
	f := newFakes(t)
	file := filepath.Join(t.TempDir(), "file") // where a directory should be
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stats := compile(t, f.find(t, file), shaders(2), Options{CacheDir: file})
	if stats.CacheErr == nil || !strings.Contains(stats.CacheErr.Error(), file) {
		t.Errorf("CacheErr %v, want one that names %s", stats.CacheErr, file)
	}
}

func TestConcurrentCompilesShareACache(t *testing.T) {
	f := newFakes(t)
	opt := Options{Optimize: true, CacheDir: t.TempDir()}
	var wg sync.WaitGroup
	for range 4 {
		tc := f.find(t, opt.CacheDir)
		wg.Go(func() {
			results, _, err := tc.Compile(context.Background(), shaders(20), opt)
			if err != nil {
				t.Error(err)
			}
			for _, r := range results {
				if !bytes.Equal(r.SPIRV, tinyModule(1)) {
					t.Errorf("got %x", r.SPIRV)
				}
			}
		})
	}
	wg.Wait()
	good, bad, err := OpenCache(opt.CacheDir).Verify()
	if good.Entries != 20 || bad != nil || err != nil {
		t.Errorf("afterwards: %v, bad %v, %v", good, bad, err)
	}
}

// toolFaults are failures of tools. "shader 3" has the source with "3.0".
var toolFaults = []struct {
	name, tool, body string
	failed           []string // shaders; nil means all
	message          string
}{
	{"compiler crashes over one shader", "glslc",
		`for f; do case $f in *.comp) grep -q 3.0 $f && kill -SEGV $$; cp "$MODULE" $f.spv;; esac; done`,
		[]string{"shader3"}, "segmentation fault"},
	{"compiler crashes half way through a file", "glslc",
		`for f; do case $f in *.comp) grep -q 3.0 $f && { head -c 30 "$MODULE" >$f.spv; kill -KILL $$; }; cp "$MODULE" $f.spv;; esac; done`,
		[]string{"shader3"}, "killed"},
	{"compiler writes garbage for one shader", "glslc",
		`for f; do case $f in *.comp) if grep -q 3.0 $f; then echo garbage >$f.spv; else cp "$MODULE" $f.spv; fi;; esac; done`,
		[]string{"shader3"}, "not SPIR-V"},
	{"compiler writes a truncated module", "glslc",
		`for f; do case $f in *.comp) if grep -q 3.0 $f; then head -c 40 "$MODULE" >$f.spv; else cp "$MODULE" $f.spv; fi;; esac; done`,
		[]string{"shader3"}, "truncated SPIR-V"},
	{"compiler says nothing and writes nothing", "glslc", `exit 0`, nil, "no output file"},
	{"compiler fails without a word", "glslc", `exit 3`, nil, "exit status 3"},
	{"compiler refuses its arguments", "glslc", `echo "glslc: error: unknown argument" >&2; exit 1`, nil, "unknown argument"},
	{"optimizer crashes", "spirv-opt", `cat >/dev/null; kill -ABRT $$`, nil, "abort"},
	{"optimizer writes garbage", "spirv-opt", `cat >/dev/null; echo garbage`, nil, "output is not SPIR-V"},
	{"optimizer writes nothing", "spirv-opt", `cat >/dev/null`, nil, "output is not SPIR-V: 0 bytes"},
	{"optimizer truncates", "spirv-opt", `head -c 40; cat >/dev/null`, nil, "truncated SPIR-V"},
	{"optimizer refuses", "spirv-opt", `cat >/dev/null; echo "error: line 7: bad id" >&2; exit 1`, nil, "line 7: bad id"},
	{"optimizer does not read", "spirv-opt", `exit 1`, nil, "exit status 1"},
	{"validator refuses", "spirv-val", `cat >/dev/null; echo "error: line 7: bad id" >&2; exit 1`, nil, "line 7: bad id"},
}

func TestToolFaults(t *testing.T) {
	for _, tt := range toolFaults {
		t.Run(tt.name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			f := newFakes(t)
			f.set(t, tt.tool, `MODULE="`+f.module+`"; `+tt.body)
			s := shaders(6)
			opt := Options{Optimize: true, Validate: true, CacheDir: t.TempDir(), Jobs: 2}
			results, _, err := f.find(t, "").Compile(t.Context(), s, opt)
			var failed []string
			for _, e := range compileErrors(t, err) {
				failed = append(failed, e.Shader)
				if e.Tool != tt.tool || !strings.Contains(e.Message, tt.message) {
					t.Errorf("tool %s, message %q; want %s, %q", e.Tool, e.Message, tt.tool, tt.message)
				}
			}
			for i, r := range results {
				isBad := tt.failed == nil || slices.Contains(tt.failed, s[i].Name)
				if (r.SPIRV == nil) != isBad || slices.Contains(failed, s[i].Name) != isBad {
					t.Errorf("%s: module %v, error %v; want it bad: %v", s[i].Name, r.SPIRV != nil, !isBad, isBad)
				}
			}
			stats, err := OpenCache(opt.CacheDir).Stats()
			if good := len(s) - len(failed); err != nil || stats.Entries != good {
				t.Errorf("%d cache entries, %v; want %d", stats.Entries, err, good)
			}
			assertEmpty(t, temp)
		})
	}
}

func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

func TestToolThatDoesNotStart(t *testing.T) {
	for _, name := range []string{"glslc", "spirv-opt"} {
		f := newFakes(t)
		tc := f.find(t, "")
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
		results, _, err := tc.Compile(t.Context(), shaders(9), Options{Optimize: true})
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), name) || results != nil {
			t.Errorf("%s removed after Find: %v", name, err)
		}
	}
}

func TestLimitedBuffer(t *testing.T) {
	full := 0
	b := limitedBuffer{max: 3, full: func() { full++ }}
	if n, err := b.Write([]byte("abc")); n != 3 || err != nil || full != 0 {
		t.Errorf("refused what fits: %d, %v", n, err)
	}
	if n, err := b.Write([]byte("x")); n != 0 || err == nil || full != 1 || string(b.data) != "abc" {
		t.Errorf("took more: %d, %v, %q", n, err, b.data)
	}
	b = limitedBuffer{max: 3, full: func() { full++ }}
	if n, err := b.Write([]byte("abcd")); n != 3 || err == nil || full != 2 || string(b.data) != "abc" {
		t.Errorf("did not keep what fits: %d, %v, %q", n, err, b.data)
	}
}

func TestCanceledBefore(t *testing.T) {
	f := newFakes(t)
	tc := f.find(t, "")
	f.calls(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := tc.Compile(ctx, shaders(1), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if calls := f.calls(t); len(calls) != 0 {
		t.Errorf("started %q", calls)
	}
}
