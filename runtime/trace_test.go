package runtime

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWriteTrace: host and kernels of each run lie where they were on one clock.
func TestWriteTrace(t *testing.T) {
	began := time.Now()
	first := &Profile{
		Began: began, Wall: 100 * time.Microsecond, Offset: 30 * time.Microsecond, Clock: Calibrated,
		Host:    []HostSpan{{"submit", 10_000, 5_000}, {"wait", 15_000, 80_000}},
		Kernels: []KernelTime{{Name: "mm", Ops: []string{"matmul"}, Nanos: 2000, Flops: 4000, Moved: 1000}, {Name: "add", Start: 2500, Nanos: 500}},
	}
	second := &Profile{Began: began.Add(time.Millisecond), Wall: 50 * time.Microsecond, Clock: Estimated,
		Kernels: []KernelTime{{Name: "add", Nanos: 1}}}
	var b strings.Builder
	if err := WriteTrace(&b, Trace{"one", first}, Trace{"two", second}); err != nil {
		t.Fatal(err)
	}
	var file struct{ TraceEvents []traceEvent }
	if err := json.Unmarshal([]byte(b.String()), &file); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	type event struct {
		name        string
		pid, tid    int
		start, took float64
	}
	var got []event
	var names []string
	for _, e := range file.TraceEvents {
		if e.Phase == "M" {
			names = append(names, e.Args["name"].(string))
			continue
		}
		got = append(got, event{e.Name, e.PID, e.TID, e.Start, e.Took})
	}
	want := []event{
		{"run", 1, 1, 0, 100}, {"submit", 1, 1, 10, 5}, {"wait", 1, 1, 15, 80}, {"mm", 1, 2, 30, 2}, {"add", 1, 2, 32.5, 0.5},
		{"run", 2, 1, 1000, 50}, {"add", 2, 2, 1000, 0.001},
	}
	if !slices.Equal(got, want) {
		t.Errorf("events\n%v\nwant\n%v", got, want)
	}
	if want := []string{"one", "host", "device (clock calibrated)", "two", "host",
		"device (clock estimated)"}; !slices.Equal(names, want) {
		t.Errorf("names %q", names)
	}
	if args := file.TraceEvents[6].Args; args["GFLOP/s"] != 2.0 || args["GB/s"] != 0.5 {
		t.Errorf("the product has %v", args)
	}
	if err := WriteTrace(failing{}, Trace{"one", first}); err == nil {
		t.Error("a writer that fails: want its error")
	}
}
