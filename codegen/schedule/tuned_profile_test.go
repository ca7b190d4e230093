package schedule

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestProfileTuning: a profile may contain its device's tuning. The keys and schedules in vkc's own profiles must be
// valid.
func TestProfileTuning(t *testing.T) {
	k := rowSum(ir.F32, ir.D(64), ir.D(64), false)
	caps, err := json.Marshal(profile(t, "generic"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mine.json")
	text := fmt.Appendf(nil, `{"caps":%s,"tuning":{%q:{"schedule":%s,"us":2.5}}}`, caps, TuningKey(k),
		`{"variant":"row_serial","workgroup":64,"vec":4,"lanes_per_row":1}`)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, tuning, err := device.ReadProfile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, reason, _, err := SelectTuned(k, profile(t, "generic"), tuning)
	if err != nil || s.Config().Variant != kernel.VarRowSerial || s.Config().Workgroup != 64 ||
		reason != "tuned: 2.5 us" {
		t.Errorf("%v (%s), %v", s, reason, err)
	}
	for _, name := range device.Profiles() {
		tuning, err := device.ProfileTuning(name)
		if err != nil {
			t.Error(err)
		}
		for key, won := range tuning {
			if len(key) != 64 || won.Micros <= 0 || familyOf(won.Schedule) == "" {
				t.Errorf("%s: %s: %v", name, key, won)
			}
		}
	}
	if _, err := device.ProfileTuning("gtx"); err == nil {
		t.Error("an unknown profile has a tuning")
	}
}

// FuzzReadProfile: no profile that is read makes the choice of a schedule panic.
func FuzzReadProfile(f *testing.F) {
	for _, name := range []string{"generic", "nvidia-h100"} {
		caps, err := device.Profile(name)
		if err != nil {
			f.Fatal(err)
		}
		text, err := device.EncodeProfile(caps, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	k := blockMul(1, 4096, 4096, ir.Q4_0, true)
	path := filepath.Join(f.TempDir(), "fuzzed.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if caps, _, err := device.ReadProfile(path); err == nil {
			if s, _, err := Select(k, caps); err == nil {
				if _, err := New(k, s, caps); err != nil {
					t.Errorf("%s is chosen, which the device cannot run: %v", s, err)
				}
			}
		}
	})
}
