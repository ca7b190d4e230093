package runtime

import (
	"encoding/json"
	"io"
	"time"
)

// Trace is a profiled run and its display name.
type Trace struct {
	Name    string
	Profile *Profile
}

// The thread IDs of the host and the device in a traced run's process.
const (
	hostThread   = 1
	deviceThread = 2
)

// traceEvent is an event of Chrome's trace format, which Perfetto reads too. Phase "X" is a span with its start and
// duration in microseconds; phase "M" gives a name to a process or thread.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Start float64        `json:"ts"`
	Took  float64        `json:"dur,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// WriteTrace writes runs in Chrome's trace event format, for chrome://tracing and ui.perfetto.dev. Each run is a
// process with two threads: the host's work and the device's kernels, both on the host's clock. The name of the
// device's thread says whether its times were calibrated or estimated.
func WriteTrace(w io.Writer, runs ...Trace) error {
	events := []traceEvent{}
	var zero time.Time
	for _, r := range runs {
		if zero.IsZero() || r.Profile.Began.Before(zero) {
			zero = r.Profile.Began
		}
	}
	for i, r := range runs {
		events = append(events, r.events(i+1, r.Profile.Began.Sub(zero))...)
	}
	return json.NewEncoder(w).Encode(map[string]any{"traceEvents": events, "displayTimeUnit": "ns"})
}

// events returns the events of a run. began is the time from the start of the earliest run to the start of this one.
func (r Trace) events(pid int, began time.Duration) []traceEvent {
	p := r.Profile
	device := "device"
	if p.Clock != "" {
		device += " (clock " + string(p.Clock) + ")"
	}
	list := []traceEvent{
		naming("process_name", pid, 0, r.Name), naming("thread_name", pid, hostThread, "host"),
		naming("thread_name", pid, deviceThread, device),
	}
	list = append(list, traceEvent{Name: "run", Phase: "X", PID: pid, TID: hostThread, Start: us(began.Nanoseconds()),
		Took: us(p.Wall.Nanoseconds())})
	for _, s := range p.Host {
		list = append(list, traceEvent{Name: s.Name, Phase: "X", PID: pid, TID: hostThread,
			Start: us(began.Nanoseconds() + s.Start), Took: us(s.Nanos)})
	}
	for _, k := range p.Kernels {
		list = append(list, traceEvent{
			Name: k.Name, Phase: "X", PID: pid, TID: deviceThread,
			Start: us((began + p.Offset).Nanoseconds() + k.Start), Took: us(k.Nanos),
			Args: map[string]any{"ops": k.Ops, "schedule": k.Schedule, "GB/s": k.GBps(), "GFLOP/s": k.GFlops(),
				"bytes": k.Moved, "flops": k.Flops},
		})
	}
	return list
}

// naming returns the event that names a process (what is "process_name") or a thread ("thread_name").
func naming(what string, pid, tid int, name string) traceEvent {
	return traceEvent{Name: what, Phase: "M", PID: pid, TID: tid, Args: map[string]any{"name": name}}
}

// us converts nanoseconds to microseconds.
func us(nanos int64) float64 { return float64(nanos) / 1e3 }
