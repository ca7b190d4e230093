package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench/tune"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/tunefile"
)

// tuned tunes the MLP for an instant into the device's own file and returns its
// path.
func tuned(t *testing.T, more ...string) string {
	t.Helper()
	info := okJSON[tuneInfo](t, append([]string{"tune", mlpGraph, "--symbol", "T=3", "--budget", "1ms"}, more...)...)
	if info.Machine.CopyGBps <= 0 || info.Machine.LaunchNs <= 0 || len(info.Tuning) != 1 || len(info.Kernels) < 2 ||
		info.Kernels[0].Best <= 0 || info.Kernels[0].Tried < 2 || info.Kernels[1].Tried != 0 {
		t.Fatalf("%+v", info)
	}
	return info.File
}

// tunedLine matches the line of a kernel chosen by measurement. The next best time is missing if all other schedules
// were clearly slower in the first round.
var tunedLine = regexp.MustCompile(`, tuned: [0-9.e+]+ us(, next best [0-9.e+]+)?\n`)

// TestTune tunes one kernel, checks that compilation uses the result, and continues the tuning.
func TestTune(t *testing.T) {
	needDevice(t)
	root := devtest.EmptyCache(t)
	path := tuned(t)
	if dir, _ := filepath.Split(path); filepath.Clean(dir) != filepath.Join(root, "tuning") {
		t.Errorf("kept in %s", path)
	}
	if r := ok(t, "dump", mlpGraph, "--stage", "glsl", "--target",
		"auto"); len(tunedLine.FindAllString(r.stdout, -1)) != 1 {
		t.Errorf("dump prints\n%s", r.stdout)
	}
	if r := ok(t, "dump", mlpGraph, "--stage", "glsl", "--target", "auto", "--no-tuning"); strings.Contains(r.stdout,
		"tuned:") {
		t.Errorf("dump --no-tuning prints\n%s", r.stdout)
	}
	// Programs with and without are different entries of the cache.
	ok(t, mlpArgs(t, "--check")...)
	ok(t, mlpArgs(t, "--check", "--no-tuning")...)
	if r := ok(t, "cache", "ls"); !strings.Contains(r.stdout, "programs: 2\n") {
		t.Errorf("cache ls prints\n%s", r.stdout)
	}
	cached := okJSON[cacheInfo](t, "cache", "ls", "--json").Programs
	first := cached[len(cached)-1] // which another hash would have been put before
	if err := os.Chtimes(first.File, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if again := okJSON[cacheInfo](t, "cache", "ls", "--json").Programs; again[0].File != first.File {
		t.Errorf("cache ls lists %v, want %s first, which is the newest", again, first.File)
	}
	list := ok(t, "tune", mlpGraph, "--symbol", "T=3", "--list")
	if !strings.Contains(list.stdout, "6 of 128") || !strings.Contains(list.stdout, "0 of 128") {
		t.Errorf("--list prints\n%s", list.stdout)
	}
	if r := ok(t, mlpArgs(t, "--device", "vulkan", "--tune", "1ms")...); !strings.Contains(r.stderr,
		"not measured yet; kept in ") {
		t.Errorf("run --tune prints\n%s", r.stderr)
	}
	if info := okJSON[tuneInfo](t, "tune", mlpGraph, "--symbol", "T=3", "--list"); len(info.Tuning) != 2 {
		t.Errorf("after run --tune: %+v", info)
	}
	if info := okJSON[tuneInfo](t, "tune", mlpGraph, "--symbol", "T=3", "--reset", "--list"); len(info.Tuning) != 0 {
		t.Errorf("after --reset: %+v", info)
	}
}

// TestTuneForAnotherMachine compiles with a file, for a profile.
func TestTuneForAnotherMachine(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	file := filepath.Join(t.TempDir(), "tuning.json")
	if path := tuned(t, "--output", file); path != file {
		t.Errorf("kept in %s", path)
	}
	if r := ok(t, "dump", mlpGraph, "--stage", "plan", "--target", "lavapipe", "--tuning", file); r.code != exitOK {
		t.Error(r)
	}
	if r := ok(t, "dump", mlpGraph, "--stage", "glsl", "--target", "lavapipe",
		"--tuning", file); !strings.Contains(r.stdout, "tuned: ") {
		t.Errorf("dump prints\n%s", r.stdout)
	}
	ok(t, "compile", mlpGraph, "-o", filepath.Join(t.TempDir(), "x.vkb"), "--target", "lavapipe", "--tuning", file)
	fails(t, exitUsage, []string{"compile", mlpGraph, "-o", "x.vkb", "--tuning", file, "--no-tuning"},
		"exclude each other")
	fails(t, exitFailure, []string{"compile", mlpGraph, "-o", "x.vkb", "--tuning", file + "x"}, "tuning.jsonx")
}

// TestTuneFileIsForeign: a tuning file that cannot be used is reported once and ignored.
func TestTuneFileIsForeign(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	path := tuned(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := tunefile.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	foreign, old := *f, *f
	foreign.ID, foreign.Device, old.Generator = "another", "Voodoo 2", "old"
	encode := func(f tunefile.File) []byte {
		text, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"empty":             {nil, "not a tuning"},
		"cut short":         {good[:len(good)/2], "not a tuning"},
		"damaged":           {[]byte(strings.Replace(string(good), `"workgroup": `, `"workgroup": 1`, 1)), "damaged"},
		"another device":    {encode(foreign), "Voodoo 2"},
		"another generator": {encode(old), "another version of vkc"},
	} {
		if err := os.WriteFile(path, tt.text, 0o600); err != nil {
			t.Fatal(err)
		}
		r := ok(t, "dump", mlpGraph, "--stage", "glsl", "--target", "auto")
		if !strings.Contains(r.stderr, "is not used") || !strings.Contains(r.stderr, tt.want) ||
			strings.Contains(r.stdout, "tuned:") {
			t.Errorf("%s: %s", name, r.stderr)
		}
		if r := ok(t, "dump", mlpGraph, "--stage", "glsl", "--target", "auto", "--no-tuning"); r.stderr != "" {
			t.Errorf("%s: --no-tuning says %s", name, r.stderr)
		}
	}
	if r := ok(t, mlpArgs(t, "--check")...); !strings.Contains(r.stderr, "is not used") {
		t.Errorf("run: %s", r.stderr)
	}
	theirs := write(t, "voodoo.json", encode(foreign))
	fails(t, exitFailure, []string{"tune", mlpGraph, "--list", "--output", theirs}, "Voodoo 2", "pass --reset to "+
		"overwrite")
	if r := ok(t, "tune", mlpGraph, "--list"); !strings.Contains(r.stderr, "vkc tune ignores the earlier "+
		"measurements") {
		t.Errorf("tune: %s", r.stderr)
	}
}

// untilFile is a context that is cancelled as soon as a file exists: each call of Err looks for it.
type untilFile struct {
	context.Context
	cancel context.CancelFunc
	path   string
}

func (c untilFile) Err() error {
	if _, err := os.Stat(c.path); err == nil {
		c.cancel()
	}
	return c.Context.Err()
}

// TestTuneInterrupted keeps the file whole, and exits as programs do.
func TestTuneInterrupted(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	dev, err := vkc.OpenDevice("vulkan")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := runCtx(t, ctx, "tune", viewsGraph, mlpGraph)
	if r.code != exitUsage {
		t.Errorf("two graphs: %+v", r)
	}
	r = runCtx(t, untilFile{ctx, cancel, tunefile.Path(dev.Caps())}, "tune", mlpGraph, "--budget", "0")
	if r.code != exitInterrupted || !strings.Contains(r.stdout, "KERNEL") {
		t.Errorf("%+v", r)
	}
	if _, err := tunefile.DeviceTuning(dev.Caps()); err != nil {
		t.Error(err)
	}
}

func TestTuneRefuses(t *testing.T) {
	fails(t, exitUsage, mlpArgs(t, "--tune", "1s", "--no-tuning"), "--tune 1s")
	fails(t, exitUsage, []string{"run", bundleOf(t), "--tune", "1s"}, "--tune: the schedules of a bundle are fixed")
	line := []string{"generate", "-m", gollama, "-p", "x", "-n", "1", "--device", "cpu", "--tune"}
	fails(t, exitUsage, append(line, "-1s"), "--tune -1s")
	if r := ok(t, append(line, "1ms")...); !strings.Contains(r.stderr, "--tune: the CPU has no schedules to measure") {
		t.Errorf("generate --tune on the CPU prints\n%s", r.stderr)
	}
	if r := ok(t, mlpArgs(t, "--device", "cpu", "--tune", "1ms")...); !strings.Contains(r.stderr,
		"the CPU has no schedules to measure") {
		t.Errorf("run --tune on the CPU prints\n%s", r.stderr)
	}
	fails(t, exitUsage, []string{"tune", mlpGraph, "--suite", "ops"}, "--suite goes without GRAPH")
	fails(t, exitUsage, []string{"tune", "--symbol", "T=1"}, "--symbol goes with GRAPH")
	fails(t, exitUsage, []string{"tune", "--suite", "speed"}, "speed", "matmul, matvec")
	fails(t, exitUsage, []string{"tune", "--budget", "-1s"}, "--budget")
	fails(t, exitUsage, []string{"tune", mlpGraph, "--filter", "("}, "--filter")
	fails(t, exitUsage, []string{"tune", mlpGraph, "--device", "cpu"}, "Vulkan")
}

func TestTuneRefusesOnDevice(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	fails(t, exitFailure, []string{"tune", "none.json"}, "none.json")
	fails(t, exitUsage, []string{"tune", mlpGraph, "--filter", "^nothing"}, "matches no kernel", "matmul")
	fails(t, exitUsage, []string{"tune", mlpGraph, "--symbol", "U=1"}, `no symbol "U"`)
	fails(t, exitUsage, []string{"tune", mlpGraph, "--symbol", "T=0"}, "symbol T = 0 is outside 1..64")
	text := []byte("# Not to be lost\n")
	notes := write(t, "notes.md", text)
	for _, more := range [][]string{{}, {"--reset"}, {"--list"}} { // --output takes nobody's file
		fails(t, exitFailure, append([]string{"tune", mlpGraph, "--budget", "1ms", "--output", notes}, more...),
			"--output "+notes+": the file exists and is not of vkc tune", "name another")
	}
	if left, err := os.ReadFile(notes); err != nil || string(left) != string(text) {
		t.Errorf("left is %q: %v", left, err)
	}
	t.Setenv("VKC_CACHE", "off")
	fails(t, exitFailure, []string{"tune", mlpGraph}, "caches are off", "--output")
}

// TestMicros: times are read at a glance, large ones too.
func TestMicros(t *testing.T) {
	for us, want := range map[float64]string{0.04711: "0.047", 1.25: "1.250", 155.84: "155.8", 999.95: "1000.0",
		5251: "5251", 118612.3: "118612"} {
		if got := micros(us); got != want {
			t.Errorf("%v is %s, want %s", us, got, want)
		}
	}
}

func TestProgressText(t *testing.T) {
	p := tune.Progress{Kernels: 12, Done: 3, About: "map 16 f32"}
	if got := progressText(p); got != "3 of 12 kernels done, map 16 f32" {
		t.Error(got)
	}
	p.Default, p.Best = 47, 43.1
	if got := progressText(p); got != "3 of 12 kernels done, map 16 f32: 47.00 us, best 43.10" {
		t.Error(got)
	}
}
