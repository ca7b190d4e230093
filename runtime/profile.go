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

// Profile says where the time of a run went.
type Profile struct {
	// Kernels in the order in which they were started. It is empty where a
	// backend cannot time them.
	Kernels []KernelTime `json:"kernels,omitempty"`
	// Wall is the time from the call of Run to its return.
	Wall time.Duration `json:"wall_ns"`
	// GPU is the time from the start of the first kernel to the end of the
	// last; 0 where there is none.
	GPU time.Duration `json:"gpu_ns,omitempty"`

	// Began is when Run was called; Host is what the host did from then on. They
	// are empty where a backend does not tell.
	Began time.Time  `json:"began,omitzero"`
	Host  []HostSpan `json:"host,omitempty"`
	// Offset is the time from Began to the start of the first kernel. Clock says
	// how it is known.
	Offset time.Duration `json:"gpu_offset_ns,omitempty"`
	Clock  ClockRelation `json:"clock,omitempty"`
}

// HostSpan is something the host did during a run.
type HostSpan struct {
	Name  string `json:"name"`
	Start int64  `json:"start_ns"` // since Profile.Began
	Nanos int64  `json:"ns"`
}

// ClockRelation says how times on a device were brought onto the host's clock.
type ClockRelation string

// The relations.
const (
	Calibrated ClockRelation = "calibrated" // both clocks were read at one moment
	Estimated  ClockRelation = "estimated"  // the last kernel is taken to end when the host's wait does
)

// KernelTime is one kernel of a run.
type KernelTime struct {
	Name     string   `json:"name"`
	Ops      []string `json:"ops"`      // graph ops that the kernel fuses
	Schedule string   `json:"schedule"` // one line
	Start    int64    `json:"start_ns"` // since the start of the first kernel
	Nanos    int64    `json:"ns"`
	// Flops and Moved are arithmetic operations, and bytes read and written,
	// counting each buffer once.
	Flops int64 `json:"flops"`
	Moved int64 `json:"moved"`
	// Cost is what the driver says of the kernel; empty where it says nothing, or was not asked.
	Cost KernelCost `json:"cost,omitempty"`
	// PeakGFlops and PeakGBps are how fast the device computes on the units that the kernel uses, and how fast it
	// copies; 0 where that is not known.
	PeakGFlops float64 `json:"peak_gflops,omitempty"`
	PeakGBps   float64 `json:"peak_gbps,omitempty"`
}

// rate returns n per nanosecond, which is in units of 10^9 per second.
func (k KernelTime) rate(n int64) float64 {
	if k.Nanos <= 0 {
		return 0
	}
	return float64(n) / float64(k.Nanos)
}

// GFlops returns the kernel's speed in 10^9 operations per second; 0 where its
// time is not known.
func (k KernelTime) GFlops() float64 { return k.rate(k.Flops) }

// GBps returns the kernel's memory traffic in 10^9 bytes per second; 0 where
// its time is not known.
func (k KernelTime) GBps() float64 { return k.rate(k.Moved) }

// Busy returns the sum of the times of all kernels. Kernels that overlap make
// it larger than GPU, waits between them smaller.
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

// maxOpsShown bounds the column of ops, in bytes.
const maxOpsShown = 60

// kernelTimes are runs of equal kernels, whose times, operations and bytes are added up.
type kernelTimes struct {
	KernelTime
	runs int
}

// grouped adds up what equal kernels took, those first that took longest.
func grouped(list []KernelTime) (sums []kernelTimes) {
	at := map[string]int{}
	for _, k := range list {
		key := strings.Join(append([]string{k.Name, k.Schedule}, k.Ops...), "\x00")
		i, ok := at[key]
		if !ok {
			i = len(sums)
			at[key], sums = i, append(sums, kernelTimes{KernelTime: k})
			sums[i].Nanos, sums[i].Flops, sums[i].Moved = 0, 0, 0
		}
		s := &sums[i]
		s.Nanos, s.Flops, s.Moved, s.runs = s.Nanos+k.Nanos, s.Flops+k.Flops, s.Moved+k.Moved, s.runs+1
	}
	slices.SortStableFunc(sums, func(a, b kernelTimes) int { return cmp.Compare(b.Nanos, a.Nanos) })
	return sums
}

// WriteTable prints the profile as a table for people. It has all kernels in
// the order of the run or, where top is not 0, the top ones that take longest, equal kernels together.
func (p *Profile) WriteTable(w io.Writer, top int) error {
	if p == nil || w == nil {
		return errors.New("there is no profile, or nowhere to write it: ask for one with RunOptions.Profile")
	}
	var list []kernelTimes
	if top > 0 {
		list = grouped(p.Kernels)
		list = list[:min(top, len(list))]
	} else {
		for _, k := range p.Kernels {
			list = append(list, kernelTimes{k, 1})
		}
	}
	busy, shown := p.Busy(), 0
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	columns := profileColumns(list)
	if len(list) > 0 {
		if top > 0 {
			fmt.Fprint(t, "runs\t")
		}
		fmt.Fprintf(t, "%10s\t%6s\t%8s\t%7s\t", "us", "share", "GFLOP/s", "GB/s")
		for _, c := range columns {
			fmt.Fprintf(t, "%7s\t", c.name)
		}
		fmt.Fprint(t, "kernel\tschedule\tops\n")
	}
	for _, k := range list {
		if shown += k.runs; top > 0 {
			fmt.Fprintf(t, "%4d\t", k.runs)
		}
		fmt.Fprintf(t, "%10.2f\t%5.1f%%\t%8.1f\t%7.1f\t", float64(k.Nanos)/1e3,
			100*float64(k.Nanos)/float64(max(busy, 1)), k.GFlops(), k.GBps())
		for _, c := range columns {
			fmt.Fprintf(t, "%7s\t", c.of(k.KernelTime))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", k.Name, k.Schedule, shownOps(k.Ops))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := len(p.Kernels) - shown; n > 0 {
		if _, err := fmt.Fprintf(w, "(%d more kernels)\n", n); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, p.summary(busy))
	return err
}

// profileColumn is a column that a table has where it says something of a kernel.
type profileColumn struct {
	name string
	of   func(KernelTime) string
}

// profileColumns are those of the limits of the device and of what the driver says.
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
func (p *Profile) summary(busy time.Duration) string {
	if len(p.Kernels) == 0 {
		return fmt.Sprintf("wall %v", p.Wall)
	}
	return fmt.Sprintf("%d kernels, busy %v, device %v, wall %v", len(p.Kernels), busy, p.GPU, p.Wall)
}

func shownOps(ops []string) string {
	s := strings.Join(ops, " ")
	if len(s) <= maxOpsShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxOpsShown], "") + "…"
}
