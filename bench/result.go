package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vkc-go/vkc/internal/inputfile"
)

// Status is the outcome of a case.
type Status string

// The outcomes of a case.
const (
	OK      Status = "ok"      // timed, and its outputs match the reference
	Refused Status = "refused" // the compiler or the device does not support it
	Wrong   Status = "wrong"   // its outputs are past the tolerance; it was not timed
	Failed  Status = "failed"  // anything else went wrong
)

// Result is one case on one device.
type Result struct {
	Suite  string  `json:"suite"`
	Name   string  `json:"name"`
	Status Status  `json:"status"`
	Why    string  `json:"why,omitempty"` // unless the status is OK
	Micros float64 `json:"us,omitempty"`  // the median time of a replay
	Min    float64 `json:"min_us,omitempty"`
	Max    float64 `json:"max_us,omitempty"`
	TFlops float64 `json:"tflops,omitempty"` // of the case's usual count
	GBps   float64 `json:"gbps,omitempty"`   // of the bytes that must be moved at least
	// Share is the reached fraction of the nearest ceiling of the device, and Bound its kind: memory or arithmetic, or
	// "wall clock" for cases without a ceiling (Case.Wall).
	Share float64 `json:"share,omitempty"`
	Bound string  `json:"bound,omitempty"`
	// Text is the speed of a language model, in cases of one.
	Text *Rate `json:"text,omitempty"`
	// Precision and Cached are copied from the case; they determine the ceilings for Share.
	Precision Precision `json:"precision,omitempty"`
	Cached    bool      `json:"cached,omitempty"`
	// Each is the time of one kernel in the cases about launching them.
	Each      float64  `json:"each_us,omitempty"`
	Submit    float64  `json:"submit_us,omitempty"` // CPU time to submit a replay, in the same cases
	Kernels   int      `json:"kernels,omitempty"`
	Schedules []string `json:"schedules,omitempty"` // schedules of the distinct kernels, with the ops they fuse
	Replays   int      `json:"replays,omitempty"`   // timed
	Copies    int      `json:"copies,omitempty"`    // copies of the tensors, used in turn
	// Flops and Moved are the counts behind TFlops and GBps.
	Flops float64 `json:"flops,omitempty"`
	Moved float64 `json:"moved,omitempty"`
	// CompileMillis is the compile time, TotalMillis the time of everything.
	CompileMillis float64 `json:"compile_ms,omitempty"`
	TotalMillis   float64 `json:"total_ms,omitempty"`
}

// Report is the results of one run of the benchmark.
type Report struct {
	Format   string    `json:"format"` // ReportFormat
	Device   string    `json:"device"`
	Driver   string    `json:"driver"`
	Target   string    `json:"target,omitempty"` // the profile compiled for, if not the device itself
	API      string    `json:"api"`
	Version  string    `json:"vkc"`
	Date     time.Time `json:"date"`
	Ceilings Ceilings  `json:"ceilings"`
	Results  []Result  `json:"results"`
}

// ReportFormat is the value of Report.Format.
const ReportFormat = "vkc.bench.1"

// maxReport bounds a file of results.
const maxReport = 64 << 20

// ReadReport reads the JSON of a report.
func ReadReport(path string) (*Report, error) {
	text, err := inputfile.ReadAtMost(path, maxReport)
	if err != nil {
		return nil, err
	}
	r, err := parseReport(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// parseReport decodes the JSON of vkc bench --json.
func parseReport(text []byte) (*Report, error) {
	if len(text) > maxReport {
		return nil, errors.New("too long for a report of vkc bench")
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("not a report of vkc bench --json: %w", err)
	}
	if r.Format != ReportFormat {
		return nil, fmt.Errorf("format %q: want %q, as vkc bench --json writes", r.Format, ReportFormat)
	}
	return &r, nil
}

// Merge adds the results of a later report of the same device and target. They replace earlier results of the same
// cases. Results of new cases follow the last case of their suite. The later ceilings and versions replace the earlier.
func (r *Report) Merge(later *Report) error {
	if r.Device != later.Device {
		return fmt.Errorf("results of %s do not go with those of %s", later.Device, r.Device)
	}
	if r.Target != later.Target {
		return fmt.Errorf("results compiled for target %q do not go with those for %q", later.Target, r.Target)
	}
	for _, res := range later.Results {
		if old := r.Find(res.Name); old != nil {
			*old = res
			continue
		}
		at := len(r.Results)
		for i, other := range r.Results {
			if other.Suite == res.Suite {
				at = i + 1
			}
		}
		r.Results = slices.Insert(r.Results, at, res)
	}
	defer r.Settle()
	r.Ceilings, r.Driver, r.API, r.Version, r.Date = later.Ceilings, later.Driver, later.API, later.Version, later.Date
	return nil
}

// Settle raises the ceilings to the rates that the cases reached, and recomputes their shares. A ceiling is the highest
// rate seen on the device, by a probe or a case, so no share exceeds 1.
func (r *Report) Settle() {
	for _, res := range r.Results {
		if res.Status == OK && res.Precision != "" {
			r.Ceilings.raise(&res)
		}
	}
	for i := range r.Results {
		if res := &r.Results[i]; res.Status == OK && res.Precision != "" {
			res.Share, res.Bound = r.Ceilings.shareOf(res)
		}
	}
}

// Find returns the result of that name, or nil.
func (r *Report) Find(name string) *Result {
	for i := range r.Results {
		if r.Results[i].Name == name {
			return &r.Results[i]
		}
	}
	return nil
}

// Count returns how many cases had each outcome.
func (r *Report) Count() map[Status]int {
	n := map[Status]int{}
	for _, res := range r.Results {
		n[res.Status]++
	}
	return n
}
