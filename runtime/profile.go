package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Profile divides the time of a run among kernels and other work.
type Profile struct {
	// Kernels lists kernels in the order of their starts. It is empty if the backend cannot measure them.
	Kernels []KernelTime `json:"kernels,omitempty"`
	// Wall is the time from the call of Run to its return.
	Wall time.Duration `json:"wall_ns"`
	// GPU is the time from the start of the first kernel to the end of the last, or 0 without kernels.
	GPU time.Duration `json:"gpu_ns,omitempty"`

	// Began is when Run was called. Host lists the host's work from then on. Both are empty if the backend does not
	// record them.
	Began time.Time  `json:"began,omitzero"`
	Host  []HostSpan `json:"host,omitempty"`
	// Offset is the time from Began to the start of the first kernel. Clock says how it was determined.
	Offset time.Duration `json:"gpu_offset_ns,omitempty"`
	Clock  ClockRelation `json:"clock,omitempty"`
}

// HostSpan is a span of time during a run in which the host did one kind of work, such as uploading inputs.
type HostSpan struct {
	Name  string `json:"name"`
	Start int64  `json:"start_ns"` // since Profile.Began
	Nanos int64  `json:"ns"`
}

// ClockRelation is the method of converting the device's times to the host's clock.
type ClockRelation string

// The methods.
const (
	Calibrated ClockRelation = "calibrated" // both clocks were read at the same moment
	Estimated  ClockRelation = "estimated"  // assuming that the last kernel ended when the host's wait for it did
)

// KernelTime is one kernel of a run.
type KernelTime struct {
	Name     string   `json:"name"`
	Ops      []string `json:"ops"`      // graph ops that the kernel fuses
	Schedule string   `json:"schedule"` // one line
	Start    int64    `json:"start_ns"` // since the start of the first kernel
	Nanos    int64    `json:"ns"`
	// Flops counts arithmetic operations. Moved counts bytes read and written, each buffer once.
	Flops int64 `json:"flops"`
	Moved int64 `json:"moved"`
	// Cost holds the driver's statistics about the kernel. It is empty if the driver has none or was not asked.
	Cost KernelCost `json:"cost,omitempty"`
	// PeakGFlops is the peak rate of the arithmetic units that the kernel uses, such as tensor cores. PeakGBps is the
	// device's bandwidth when it copies memory. They are 0 if unknown.
	PeakGFlops float64 `json:"peak_gflops,omitempty"`
	PeakGBps   float64 `json:"peak_gbps,omitempty"`
}

// rate divides a count by the kernel's time in nanoseconds: the result is in units of 10^9 per second.
func (k KernelTime) rate(n int64) float64 {
	if k.Nanos <= 0 {
		return 0
	}
	return float64(n) / float64(k.Nanos)
}

// GFlops returns the kernel's speed in 10^9 operations per second, or 0 if its time is unknown.
func (k KernelTime) GFlops() float64 { return k.rate(k.Flops) }

// GBps returns the kernel's memory traffic in 10^9 bytes per second, or 0 if its time is unknown.
func (k KernelTime) GBps() float64 { return k.rate(k.Moved) }

// Busy returns the sum of the times of all kernels. It exceeds the time of the whole run, [Profile.GPU], if kernels
// overlap, and is less if there are gaps between them.
func (p *Profile) Busy() time.Duration {
	if p == nil {
		return 0
	}
	var sum time.Duration
	for _, k := range p.Kernels {
		sum += time.Duration(k.Nanos)
	}
	return sum
}

// maxOpsShown is the largest width of the table's column of ops, in bytes.
const maxOpsShown = 60

// kernelTimes has the sums of the times, operations and bytes of equal kernels. runs counts these kernels.
type kernelTimes struct {
	KernelTime
	runs int
}

// grouped adds up equal kernels (the same name, schedule and ops) and sorts the sums by time, longest first.
func grouped(list []KernelTime) (sums []kernelTimes) {
	at := map[string]int{}
	for _, k := range list {
		key := strings.Join(append([]string{k.Name, k.Schedule}, k.Ops...), "\x00")
		i, ok := at[key]
		if !ok {
			i = len(sums)
			at[key], sums = i, append(sums, kernelTimes{KernelTime: k})
			// The first kernel of a group is added below, like the others.
			sums[i].Nanos, sums[i].Flops, sums[i].Moved = 0, 0, 0
		}
		s := &sums[i]
		s.Nanos, s.Flops, s.Moved, s.runs = s.Nanos+k.Nanos, s.Flops+k.Flops, s.Moved+k.Moved, s.runs+1
	}
	slices.SortStableFunc(sums, func(a, b kernelTimes) int { return cmp.Compare(b.Nanos, a.Nanos) })
	return sums
}

// WriteTable prints the profile as a table for people. With top 0 it lists every kernel in the order of the run.
// Otherwise it groups equal kernels and lists the top groups, longest first.
func (p *Profile) WriteTable(w io.Writer, top int) error {
	if p == nil || w == nil {
		return errors.New("there is no profile, or nowhere to write it: ask for one with RunOptions.Profile")
	}
	var list []kernelTimes
	shown := 0 // kernels in list
	if top > 0 {
		list = grouped(p.Kernels)
		list = list[:min(top, len(list))]
	} else {
		for _, k := range p.Kernels {
			list = append(list, kernelTimes{k, 1})
		}
	}
	for _, k := range list {
		shown += k.runs
	}
	if err := p.writeKernels(w, list, top > 0); err != nil {
		return err
	}
	if n := len(p.Kernels) - shown; n > 0 {
		if _, err := fmt.Fprintf(w, "(%d more kernels)\n", n); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, p.summary())
	return err
}

// writeKernels writes a line for each element of a list, under a heading. withRuns adds a column with the number of
// kernels in each group.
func (p *Profile) writeKernels(w io.Writer, list []kernelTimes, withRuns bool) error {
	if len(list) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	columns := profileColumns(list)
	if withRuns {
		fmt.Fprint(t, "runs\t")
	}
	fmt.Fprintf(t, "%10s\t%6s\t%8s\t%7s\t", "us", "share", "GFLOP/s", "GB/s")
	for _, c := range columns {
		fmt.Fprintf(t, "%7s\t", c.name)
	}
	fmt.Fprint(t, "kernel\tschedule\tops\n")
	busy := max(p.Busy(), 1)
	for _, k := range list {
		if withRuns {
			fmt.Fprintf(t, "%4d\t", k.runs)
		}
		fmt.Fprintf(t, "%10.2f\t%5.1f%%\t%8.1f\t%7.1f\t", float64(k.Nanos)/1e3, 100*float64(k.Nanos)/float64(busy),
			k.GFlops(), k.GBps())
		for _, c := range columns {
			fmt.Fprintf(t, "%7s\t", c.of(k.KernelTime))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", k.Name, k.Schedule, shownOps(k.Ops))
	}
	return t.Flush()
}

// profileColumn is an optional column of the table. It is omitted if no kernel has a value for it. of returns a
// kernel's cell.
type profileColumn struct {
	name string
	of   func(KernelTime) string
}

// profileColumns returns the optional columns in which a listed kernel has a value: its fractions of the device's peak
// rates, and the driver's statistics.
func profileColumns(list []kernelTimes) []profileColumn {
	share := func(have, peak float64) string {
		if have == 0 || peak == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f%%", 100*have/peak)
	}
	all := []profileColumn{
		{"of peak", func(k KernelTime) string { return share(k.GFlops(), k.PeakGFlops) }},
		{"of copy", func(k KernelTime) string { return share(k.GBps(), k.PeakGBps) }},
	}
	for _, c := range CostItems() {
		if c != Latency && c != Instructions && c != CodeSize {
			all = append(all, profileColumn{c.Short(), func(k KernelTime) string { return k.Cost.Text(c) }})
		}
	}
	return slices.DeleteFunc(all, func(c profileColumn) bool {
		return !slices.ContainsFunc(list, func(k kernelTimes) bool { return c.of(k.KernelTime) != "" })
	})
}

// String returns the whole table.
func (p *Profile) String() string {
	var b strings.Builder
	p.WriteTable(&b, 0) // a Builder takes everything
	return b.String()
}

// summary is the last line of the table.
func (p *Profile) summary() string {
	if len(p.Kernels) == 0 {
		return fmt.Sprintf("wall %v", p.Wall)
	}
	return fmt.Sprintf("%d kernels, busy %v, device %v, wall %v", len(p.Kernels), p.Busy(), p.GPU, p.Wall)
}

// shownOps joins the names of a kernel's ops, and cuts a long list off.
func shownOps(ops []string) string {
	s := strings.Join(ops, " ")
	if len(s) <= maxOpsShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxOpsShown], "") + "…"
}

// Brief rounds a time to three digits, for messages.
func Brief(t time.Duration) time.Duration {
	unit := time.Duration(1)
	for t >= 1000*unit {
		unit *= 10
	}
	return t.Round(unit)
}
