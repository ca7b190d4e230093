package device

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/strictjson"
)

// Tuning maps tuning keys (schedule.TuningKey) to the fastest measured schedules of a device. A nil tuning has no
// effect.
type Tuning map[string]Tuned

// Tuned is the fastest measured schedule of a kernel.
type Tuned struct {
	Schedule kernel.Schedule `json:"schedule"`
	Micros   float64         `json:"us"`                // median time of a dispatch
	Next     float64         `json:"next_us,omitempty"` // of the second fastest; 0 if there is none
	// Estimated says that nothing was run: the times are computed from a driver's statistics.
	Estimated bool `json:"estimated,omitempty"`
}

// UnmarshalJSON decodes a schedule into the struct of its variant.
func (t *Tuned) UnmarshalJSON(text []byte) (err error) {
	// A type without methods, because decoding a Tuned would call UnmarshalJSON again.
	type fields Tuned
	all := struct {
		*fields
		// This Schedule hides fields.Schedule, because only ParseSchedule knows the variants.
		Schedule json.RawMessage `json:"schedule"`
	}{fields: (*fields)(t)}
	if err = strictjson.Decode(text, &all); err == nil {
		t.Schedule, err = kernel.ParseSchedule(all.Schedule)
	}
	return err
}

// Hash identifies the schedules that a tuning chooses, for caches of compiled programs. A new measurement with the same
// choices has the same hash. The hash of an empty tuning is "".
func (t Tuning) Hash() string {
	if len(t) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(sum, "%s %#v\n", key, t[key].Schedule)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// String returns the reason for the schedule, with its times.
func (t Tuned) String() string {
	how := "tuned"
	if t.Estimated {
		how = "estimated"
	}
	if t.Next == 0 {
		return fmt.Sprintf("%s: %.4g us", how, t.Micros)
	}
	return fmt.Sprintf("%s: %.4g us, next best %.4g", how, t.Micros, t.Next)
}
