package spirv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/internal/toolstest"
)

// binDir makes a directory with stand-ins that only tell a version.
func binDir(t *testing.T, version string, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range programs {
		script(t, dir, p, "echo "+version)
	}
	return dir
}

var wholeSet = []string{"glslc", "glslangValidator", "spirv-opt", "spirv-val", "spirv-dis"}

// versions returns the versions of the five tools in the order of Report.
func versions(tc *Toolchain) string {
	var v []string
	for _, s := range tc.Report() {
		v = append(v, s.Version)
	}
	return strings.Join(v, " ")
}

func TestFindOrder(t *testing.T) {
	whole := func(version string) string { return binDir(t, version, wholeSet...) }
	partial := binDir(t, "part", "glslc", "spirv-val")
	tests := []struct {
		name string
		dirs []string
		want string
	}{
		{"first of two", []string{whole("a"), whole("b")}, "a a a a a"},
		{"a partial set is passed over whole", []string{partial, whole("b")}, "b b b b b"},
		{"a set without glslc is whole", []string{binDir(t, "a", "glslang", "spirv-opt"), whole("b")}, " a a  "},
		{"no whole set: the first of each", []string{partial, binDir(t, "q", "glslc", "spirv-dis")}, "part   part q"},
		{"none", []string{t.TempDir(), filepath.Join(t.TempDir(), "absent")}, "    "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := versions(find(t, FindOptions{SearchDirs: tt.dirs})); got != tt.want {
				t.Errorf("versions %q, want %q", got, tt.want)
			}
		})
	}
}

// register makes a directory of stand-ins the registered one of this user.
func register(t *testing.T, target string) {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	if err := os.Mkdir(filepath.Dir(RegisteredDir()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, RegisteredDir()); err != nil {
		t.Fatal(err)
	}
}

// TestFindDefaultPlaces walks through the default places by removing the best
// one each time.
func TestFindDefaultPlaces(t *testing.T) {
	env, registered, path := binDir(t, "env", "glslc", "spirv-opt"), binDir(t, "reg", wholeSet...), binDir(t,
		"path", wholeSet...)
	register(t, registered)
	t.Setenv("PATH", path+string(os.PathListSeparator)+os.Getenv("PATH"))
	steps := []struct {
		name, want string
		prepare    func()
	}{
		{"environment", "env  env  ", func() { t.Setenv(ToolsEnv, env) }},
		{"environment with one tool wins for it", "reg reg env reg reg",
			func() { t.Setenv(ToolsEnv, binDir(t, "env", "spirv-opt")) }},
		{"registered", "reg reg reg reg reg", func() { t.Setenv(ToolsEnv, "") }},
		{"PATH, as the registered set lacks a tool", "path path path path path",
			func() { os.Remove(filepath.Join(registered, "spirv-opt")) }},
		{"PATH, as the registered set is gone", "path path path path path", func() { os.RemoveAll(registered) }},
		{"PATH, as nothing is registered", "path path path path path", func() { t.Setenv("XDG_DATA_HOME", t.TempDir()) }},
		{"PATH, of several directories", "a b b b b", func() {
			a, b := binDir(t, "a", "glslc"), binDir(t, "b", wholeSet...)
			t.Setenv("PATH", strings.Join([]string{a, b, os.Getenv("PATH")}, string(os.PathListSeparator)))
		}},
	}
	for _, s := range steps {
		s.prepare()
		if got := versions(find(t, FindOptions{})); got != s.want {
			t.Errorf("%s: versions %q, want %q", s.name, got, s.want)
		}
	}

	empty := t.TempDir()
	for _, dir := range []string{empty, filepath.Join("relative", "bin"), "."} {
		t.Setenv(ToolsEnv, dir)
		if _, err := Find(t.Context(), FindOptions{}); err == nil ||
			!strings.Contains(err.Error(), "$"+ToolsEnv+" is "+dir) {
			t.Errorf("%s=%s: %v", ToolsEnv, dir, err)
		}
	}
}

// TestPassedOver: where something is registered, and other tools compile, Find says why; once, and only then.
func TestPassedOver(t *testing.T) {
	whole := func(version string) string { return binDir(t, version, wholeSet...) }
	gone := filepath.Join(t.TempDir(), "clone", "bin")
	for _, tt := range []struct {
		name             string
		registered, path string // "" for none
		env              string
		why              string // in PassedOver; "" for none
		said             bool
	}{
		{"used", whole("reg"), whole("path"), "", "", false},
		{"never registered", "", whole("path"), "", "", false},
		{"gone", gone, whole("path"), "", strconv.Quote(gone) + ", which is not there", true},
		{"gone, and none elsewhere", gone, "", "", "which is not there", false}, // Ready says it
		{"gone, and not asked for", gone, whole("path"), whole("env"), "", false},
		{"lacks a tool", binDir(t, "reg", "glslc"), whole("path"), "", "it lacks a compiler or spirv-opt", true},
		{"empty", t.TempDir(), whole("path"), "", "it lacks a compiler or spirv-opt", true},
		{"lacks what the others have", binDir(t, "reg", "glslc"), binDir(t, "path", "spirv-opt"), "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(ToolsEnv, tt.env)
			t.Setenv("PATH", tt.path)
			t.Setenv("XDG_DATA_HOME", t.TempDir())
			if tt.registered != "" {
				register(t, tt.registered)
			}
			var said []string
			ctx := WithNotice(t.Context(), func(why *PassedOverError) { said = append(said, why.Error()) })
			tc, err := Find(ctx, FindOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if tc.PassedOver != nil {
				got = tc.PassedOver.Error()
			}
			if (got != "") != (tt.why != "") || !strings.Contains(got, tt.why) {
				t.Errorf("passed over: %q, want %q", got, tt.why)
			}
			if got != "" && (!strings.Contains(got, RegisteredDir()) || !strings.Contains(got, "scripts/setup")) {
				t.Errorf("%q does not say which, and what to do", got)
			}
			if want := []string{got}; tt.said && !slices.Equal(said, want) || !tt.said && said != nil {
				t.Errorf("said %q, want %t", said, tt.said)
			}
			if err := tc.Ready(); (err == nil) != (tt.path != "") || err != nil && !strings.Contains(err.Error(), got) {
				t.Errorf("ready: %v", err)
			}
		})
	}
}

// TestFindNothingFromHere: tools in the working directory, in a parent that looks like a project, or in a relative
// entry of $PATH are neither found nor run. Tools in a later absolute entry are.
func TestFindNothingFromHere(t *testing.T) {
	t.Chdir(toolstest.Plant(t))
	t.Setenv(ToolsEnv, "")
	t.Setenv("HOME", t.TempDir()) // its data directory has no tools
	relative := []string{"", ".", "bin", "..", filepath.Join(".tools", "glsl", "bin")}
	for _, dataHome := range []string{t.TempDir(), ".", ""} {
		t.Setenv("XDG_DATA_HOME", dataHome)
		if dataHome == "" {
			t.Setenv("HOME", ".")
		}
		for _, tt := range []struct {
			path []string
			want string
		}{
			{relative, "    "},
			{append(slices.Clone(relative), binDir(t, "path", wholeSet...)), "path path path path path"},
		} {
			// sh, which runs the stand-ins, does not depend on this PATH.
			t.Setenv("PATH", strings.Join(tt.path, string(os.PathListSeparator)))
			if got := versions(find(t, FindOptions{})); got != tt.want {
				t.Errorf("PATH %q, data directory %q: versions %q, want %q", tt.path, dataHome, got, tt.want)
			}
		}
	}
}

// TestToolsRunElsewhere: a tool does not run in the user's directory.
func TestToolsRunElsewhere(t *testing.T) {
	f := newFakes(t)
	dirs := filepath.Join(t.TempDir(), "dirs")
	for _, name := range []string{"glslc", "spirv-opt"} {
		script(t, f.dir, name, `pwd >>"`+dirs+`"
if [ "$1" = --version ]; then echo fake 1.0; exit; fi
for f; do case $f in *.comp) cp "`+f.module+`" "$f.spv"; exit;; esac; done; cat`)
	}
	t.Chdir(t.TempDir())
	compile(t, f.find(t, ""), shaders(1), Options{Optimize: true})
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(dirs)
	if err != nil || strings.Count(string(b), "\n") < 4 || strings.Contains(string(b), here) {
		t.Errorf("working directories of the tools, %v:\n%s", err, b)
	}
}

func TestReady(t *testing.T) {
	tests := []struct {
		programs, missing []string
	}{
		{[]string{"glslc", "spirv-opt"}, nil},
		{[]string{"glslangValidator", "spirv-opt"}, nil},
		{[]string{"glslang", "spirv-opt"}, nil},
		{[]string{"glslc", "spirv-val"}, []string{"spirv-opt"}},
		{[]string{"spirv-opt"}, []string{"glslc or glslangValidator"}},
		{nil, []string{"glslc or glslangValidator", "spirv-opt"}},
	}
	for _, tt := range tests {
		err := find(t, FindOptions{SearchDirs: []string{binDir(t, "1", tt.programs...)}}).Ready()
		var missing *MissingToolError
		if tt.missing == nil && err != nil {
			t.Errorf("%q: %v", tt.programs, err)
		}
		if tt.missing != nil && (!errors.As(err, &missing) || !slices.Equal(missing.Tools, tt.missing)) {
			t.Errorf("%q: %v, want %q", tt.programs, err, tt.missing)
		}
	}
}

func TestMissingToolErrorTellsWhatToDo(t *testing.T) {
	message := (&MissingToolError{Tools: []string{"spirv-opt"}}).Error()
	for _, want := range []string{"spirv-opt", "scripts/setup", ToolsEnv} {
		if !strings.Contains(message, want) {
			t.Errorf("%q does not say %s", message, want)
		}
	}
	for _, s := range toolSpecs {
		packages := []string{s.packages.Debian, s.packages.Fedora, s.packages.Arch}
		if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
			packages = []string{"Vulkan SDK"}
		}
		for _, p := range packages {
			if p == "" || !strings.Contains(message, p) {
				t.Errorf("%s: package %q is not in %q", s.programs[0], p, message)
			}
		}
	}
	if strings.Contains(message, "\n") {
		t.Error("more than one line")
	}
}

func TestReportNamesAllTools(t *testing.T) {
	report := find(t, FindOptions{SearchDirs: []string{binDir(t, "1", "spirv-val")}}).Report()
	var names []string
	for _, s := range report {
		names = append(names, s.Name)
		if s.Found() != (s.Name == "spirv-val") || s.Purpose == "" || s.Packages.Debian == "" {
			t.Errorf("%+v", s)
		}
	}
	if !slices.Equal(names, wholeSet) {
		t.Errorf("names %q, want %q", names, wholeSet)
	}
}

func TestWarmFindStartsNoProcess(t *testing.T) {
	f := newFakes(t)
	dir := t.TempDir()
	cold := f.find(t, dir)
	if calls := f.calls(t); len(calls) != 3 {
		t.Fatalf("cold: %q, want one call of each of 3 tools", calls)
	}
	warm := f.find(t, dir)
	if calls := f.calls(t); len(calls) != 0 {
		t.Errorf("warm: %q", calls)
	}
	if warm.Fingerprint() != cold.Fingerprint() || !strings.Contains(warm.Fingerprint(), "fake 1.0") {
		t.Errorf("fingerprints %q and %q", warm.Fingerprint(), cold.Fingerprint())
	}

	// A changed file is asked again, and it alone.
	path := filepath.Join(f.dir, "spirv-opt")
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	f.find(t, dir)
	if calls := f.calls(t); len(calls) != 1 || !strings.HasPrefix(calls[0], "spirv-opt") {
		t.Errorf("after a change of spirv-opt: %q", calls)
	}
	script(t, f.dir, "spirv-opt", "echo fake 2.0 with a longer name")
	if f.find(t, dir).Fingerprint() == warm.Fingerprint() {
		t.Error("another version of spirv-opt has the same fingerprint")
	}
}

func TestDamagedProbesAreAskedAgain(t *testing.T) {
	f := newFakes(t)
	dir := t.TempDir()
	want := f.find(t, dir).Fingerprint()
	cache := probeCache(dir)
	store := entryPath(t, cache)
	good, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) error { return os.WriteFile(store, content, 0o600) }
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, damage := range map[string]func() error{
		"flipped":       func() error { return write(flipped) },
		"truncated":     func() error { return write(good[:len(good)-1]) },
		"empty":         func() error { return write(nil) },
		"other type":    func() error { return cache.Put(probeKey, []byte(`{"Versions": 3}`)) },
		"null versions": func() error { return cache.Put(probeKey, []byte(`null`)) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		f.calls(t)
		if got := f.find(t, dir).Fingerprint(); got != want {
			t.Errorf("%s: fingerprint %q, want %q", name, got, want)
		}
		if calls := f.calls(t); len(calls) != 3 {
			t.Errorf("%s: %q, want 3 calls", name, calls)
		}
	}
}

// TestPlantedProbesAreNotUsed: a record of previously found tools that other users could have written is ignored, since
// it selects cache entries.
func TestPlantedProbesAreNotUsed(t *testing.T) {
	f := newFakes(t)
	dir := t.TempDir()
	f.find(t, dir)
	f.calls(t)
	if f.find(t, dir); len(f.calls(t)) != 0 {
		t.Fatal("what was probed is not kept")
	}
	if err := os.Chmod(entryPath(t, probeCache(dir)), 0o666); err != nil {
		t.Fatal(err)
	}
	if f.find(t, dir); runtime.GOOS != "windows" && len(f.calls(t)) != 3 {
		t.Error("probes in a file that others can write were believed")
	}
}

func TestToolWithoutVersion(t *testing.T) {
	for name, body := range map[string]string{"fails": "exit 1", "silent": "exit 0", "crashes": "kill -SEGV $$"} {
		t.Run(name, func(t *testing.T) {
			dir := binDir(t, "1", "glslc", "spirv-opt")
			script(t, dir, "spirv-opt", body)
			first := find(t, FindOptions{SearchDirs: []string{dir}}).Fingerprint()
			if !strings.Contains(first, "sha256") {
				t.Errorf("fingerprint %q has no hash of the file", first)
			}
			script(t, dir, "spirv-opt", body+" # changed")
			if find(t, FindOptions{SearchDirs: []string{dir}}).Fingerprint() == first {
				t.Error("another file has the same fingerprint")
			}
		})
	}
}

func TestFindCanceled(t *testing.T) {
	f := newFakes(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, FindOptions{SearchDirs: []string{f.dir}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestRealVersions: the versions of the real tools are one line, and differ
// between the sets on this machine.
func TestRealVersions(t *testing.T) {
	seen := map[string]bool{}
	for _, dir := range realDirs(t) {
		tc := find(t, FindOptions{SearchDirs: []string{dir}})
		for _, s := range tc.Report() {
			if s.Found() && (s.Version == "" || len(s.Version) > 200 || strings.ContainsAny(s.Version, "\n\t") ||
				!strings.ContainsAny(s.Version, "0123456789") || strings.Contains(s.Version, "unknown version")) {
				t.Errorf("%s: version %q", s.Path, s.Version)
			}
		}
		seen[tc.Fingerprint()] = true
	}
	if len(seen) != len(realDirs(t)) {
		t.Errorf("%d fingerprints for %d sets", len(seen), len(realDirs(t)))
	}
}

func supports(t *testing.T, tc *Toolchain, f Feature) bool {
	t.Helper()
	known, err := tc.Features(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return known[f]
}

// TestFeaturesCanceled: the end of the context is no answer.
func TestFeaturesCanceled(t *testing.T) {
	f := newFakes(t)
	tc := f.find(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tc.Features(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if !supports(t, tc, CoopMat) {
		t.Error("what was interrupted is taken for an answer")
	}
}

func TestFeaturesFromFakes(t *testing.T) {
	f := newFakes(t)
	f.set(t, "glslc", `rc=0
for p; do case $p in *.comp)
	if grep -q GL_EXT_bfloat16 $p; then echo "$p:2: error: no bfloat16"; rc=1; else cp "`+f.module+`" $p.spv; fi;;
esac; done; exit $rc`)
	dir := t.TempDir()
	tc := f.find(t, dir)
	for feature, want := range map[Feature]bool{
		CoopMat: true, CoopMat2: true, IntDot: true, Float8: true, BFloat16: false, "levitation": false,
	} {
		if got := supports(t, tc, feature); got != want {
			t.Errorf("%s: %v, want %v", feature, got, want)
		}
	}
	f.calls(t)
	if warm := f.find(t, dir); supports(t, warm, BFloat16) || !supports(t, warm, CoopMat) {
		t.Error("another answer from the cache")
	}
	if calls := f.calls(t); len(calls) != 0 {
		t.Errorf("warm: started %q", calls)
	}
	f.set(t, "spirv-val", `cat >/dev/null; exit 1 # a validator that knows none of it`)
	if supports(t, f.find(t, t.TempDir()), CoopMat) {
		t.Error("a feature that the validator rejects is supported")
	}
}

func TestFeaturesOfBrokenToolsAreNotKept(t *testing.T) {
	f := newFakes(t)
	dir := t.TempDir()
	tc := f.find(t, dir)
	if err := os.Remove(filepath.Join(f.dir, "glslc")); err != nil {
		t.Fatal(err)
	}
	if supports(t, tc, CoopMat) {
		t.Error("supported without a compiler")
	}
	f = fakes{dir: f.dir, log: f.log, module: f.module}
	f.set(t, "glslc", `for p; do case $p in *.comp) cp "`+f.module+`" $p.spv;; esac; done`)
	if !supports(t, f.find(t, dir), CoopMat) {
		t.Error("the failure to start the compiler was kept as an answer")
	}
}

// TestRealFeatures: Features agrees with compiling the probe.
func TestRealFeatures(t *testing.T) {
	eachToolchain(t, func(t *testing.T, tc *Toolchain) {
		t.Log(tc.Features(t.Context()))
		for _, p := range featureProbes {
			_, _, err := tc.Compile(t.Context(), []Shader{p}, Options{Optimize: true, Validate: tc.Val.Found()})
			if got := supports(t, tc, Feature(p.Name)); got != (err == nil) {
				t.Errorf("%s: Features says %v, compiling %v", p.Name, got, err)
			}
		}
	})
}

func TestDisassemble(t *testing.T) {
	tc := realTools(t)
	results, _ := compile(t, tc, shaders(1), Options{})
	text, err := tc.Disassemble(t.Context(), results[0].SPIRV)
	if err != nil || !strings.Contains(text, "OpEntryPoint GLCompute") {
		t.Errorf("%v:\n%s", err, text)
	}
	if _, err := tc.Disassemble(t.Context(), []byte("x")); err == nil {
		t.Error("garbage was disassembled")
	}
	var missing *MissingToolError
	if _, err := find(t, FindOptions{SearchDirs: []string{t.TempDir()}}).
		Disassemble(t.Context(), nil); !errors.As(err, &missing) {
		t.Errorf("without spirv-dis: %v", err)
	}
}
