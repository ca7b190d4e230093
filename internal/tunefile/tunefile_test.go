package tunefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/cachefile"
)

func caps(t testing.TB, name string) device.Caps {
	t.Helper()
	c, err := device.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sample is a file with one kernel.
func sample(t testing.TB) *File {
	f := New(caps(t, "lavapipe"))
	s := kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 64, Vec: 4}}
	other := kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 128, Vec: 4}}
	f.Kernels = []Kernel{{
		Key: strings.Repeat("ab", 32), About: "map 1024 f32", Lengths: []int64{3},
		Default: 12, Best: &device.Tuned{Schedule: other, Micros: 9, Next: 12},
		Measured: []Measurement{{Schedule: s, Status: OK, Micros: 12}, {Schedule: other, Status: OK, Micros: 9},
			{Schedule: kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 1, Vec: 1}},
				Status: Wrong, Why: "1 of 2"}},
	}}
	return f
}

func TestRoundTrip(t *testing.T) {
	f := sample(t)
	path := filepath.Join(t.TempDir(), "deep", "tuning.json")
	if _, err := Read(path); !Absent(err) {
		t.Fatalf("no file: %v", err)
	}
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	back, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, back); diff != "" {
		t.Error(diff)
	}
	text, _ := os.ReadFile(path)
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(compact.Bytes()); err != nil {
		t.Errorf("the same without white space: %v", err)
	}
	tuning := back.Tuning()
	if got := tuning[f.Kernels[0].Key]; got != *f.Kernels[0].Best || len(tuning) != 1 {
		t.Errorf("tuning %v", tuning)
	}
}

func TestFits(t *testing.T) {
	f := sample(t)
	here := caps(t, "lavapipe")
	newer := here
	newer.DriverVersion++
	older := *f
	older.Generator = "older"
	for name, tt := range map[string]struct {
		file *File
		caps device.Caps
		want string
	}{
		"this device":       {f, here, ""},
		"another device":    {f, caps(t, "nvidia-h100"), "this is \"NVIDIA H100"},
		"another driver":    {f, newer, "it is for"},
		"another generator": {&older, here, "another version of vkc"},
	} {
		err := tt.file.Fits(tt.caps)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if foreign := (*ForeignError)(nil); err != nil && !errors.As(err, &foreign) {
			t.Errorf("%s: %T", name, err)
		}
	}
	t.Setenv(cachefile.EnvDir, t.TempDir())
	if Path(here) == Path(newer) {
		t.Error("two drivers have one file")
	}
}

// TestHostile: an incomplete or damaged file is rejected with the reason.
func TestHostile(t *testing.T) {
	good, err := sample(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	resealed := func(change func(map[string]any)) []byte {
		var e envelope
		var body map[string]any
		if err := errors.Join(json.Unmarshal(good, &e), json.Unmarshal(e.Tuning, &body)); err != nil {
			t.Fatal(err)
		}
		change(body)
		e.Tuning, err = json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if e.SHA256, err = checksum(e.Tuning); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := func(body map[string]any) map[string]any { return body["kernels"].([]any)[0].(map[string]any) }
	measured := func(body map[string]any) map[string]any { return first(body)["measured"].([]any)[0].(map[string]any) }
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"empty":          {nil, "not a tuning"},
		"not JSON":       {[]byte("tuning"), "not a tuning"},
		"cut short":      {good[:len(good)/2], "not a tuning"},
		"another format": {bytes.Replace(good, []byte(Format), []byte("vkc.tuning.9"), 1), "vkc.tuning.9"},
		"an older format": {bytes.Replace(good, []byte(Format), []byte("vkc.tuning.3"), 1),
			"measure again with vkc tune"},
		"a changed digit": {bytes.Replace(good, []byte(`"us": 9`), []byte(`"us": 1`), 1), "damaged"},
		"no tuning":       {[]byte(`{"format":"` + Format + `"}`), "no tuning"},
		"unknown field":   {resealed(func(b map[string]any) { b["quux"] = 1 }), "quux"},
		"no key":          {resealed(func(b map[string]any) { first(b)["key"] = "ab" }), "SHA-256"},
		"a key twice": {resealed(func(b map[string]any) { b["kernels"] = append(b["kernels"].([]any), first(b)) }),
			"taken"},
		"negative time": {resealed(func(b map[string]any) { measured(b)["us"] = -1 }), "a time of -1"},
		"huge number": {resealed(func(b map[string]any) {
			measured(b)["schedule"].(map[string]any)["workgroup"] = int64(math.MaxInt64)
		}), "a number of"},
		"no variant": {resealed(func(b map[string]any) { measured(b)["schedule"].(map[string]any)["variant"] = "" }),
			"variant"},
		"other status": {resealed(func(b map[string]any) { measured(b)["status"] = "good" }), "status"},
		"best is wrong": {resealed(func(b map[string]any) {
			first(b)["best"].(map[string]any)["schedule"].(map[string]any)["workgroup"] = 1
		}), "none that was measured"},
	} {
		f, err := Parse(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v; want %q", name, f, err, tt.want)
		}
	}
	long := sample(t)
	long.Kernels[0].About = strings.Repeat("x", maxText+1)
	if _, err := long.Encode(); err == nil {
		t.Error("a text without bounds is written")
	}
}

func FuzzParse(f *testing.F) {
	good, err := sample(f).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	var e envelope
	if err := json.Unmarshal(good, &e); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(e.Tuning)) // the payload under a checksum
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		if sum, sealed := checksum(text); err != nil && sealed == nil {
			whole, _ := json.Marshal(envelope{Format, sum, text})
			file, err = Parse(whole)
		}
		if err != nil {
			return
		}
		again, err := file.Encode()
		if err != nil {
			t.Fatalf("a file that was read cannot be written: %v", err)
		}
		if _, err := Parse(again); err != nil {
			t.Fatalf("a file that was written cannot be read: %v", err)
		}
	})
}

// What a device is not used for stays so, whatever was measured of it.
func TestOnKeepsWhatIsOff(t *testing.T) {
	caps, err := device.Profile("nvidia-h100")
	if err != nil {
		t.Fatal(err)
	}
	off, err := caps.Without("persistent")
	if err != nil {
		t.Fatal(err)
	}
	f := &File{Machine: device.Machine{CopyGBps: 77}}
	if m := f.On(off).Machine; m.CopyGBps != 77 || m.BarrierNs >= 0 {
		t.Errorf("a device without persistent kernels was measured: %+v", m)
	}
	if m := f.On(caps).Machine; m.CopyGBps != 77 || m.BarrierNs != caps.Machine.BarrierNs {
		t.Errorf("a device was measured: %+v", m)
	}
}

// TestWritten: vkc tune does not overwrite files that it has not written.
func TestWritten(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"empty": {"", true}, "ours": {`{"format": "vkc.tuning.5"}`, true},
		"older": {`{"format": "vkc.tuning.1", "x": 1}`, true},
		"graph": {`{"format": "vkc.graph"}`, false}, "text": {"# Notes\n", false},
		"cut":    {`{"format": "vkc.tuning.5"`, false},
		"number": {"1", false},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Written(path); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := Written(filepath.Join(dir, "none")); err != nil || !got {
		t.Errorf("no file: %v, %v", got, err)
	}
	if got, _ := Written(filepath.Join(dir, "text", "x")); got {
		t.Error("a place below a file may be written")
	}
}
