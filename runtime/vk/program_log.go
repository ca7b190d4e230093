package vk

import (
	"time"

	"github.com/vkc-go/vkc/runtime"
)

// runLog notes what the host does during a profiled run. A nil log notes nothing.
type runLog struct {
	began, last time.Time
	spans       []runtime.HostSpan
}

func newRunLog(wanted bool) *runLog {
	if !wanted {
		return nil
	}
	now := time.Now()
	return &runLog{began: now, last: now}
}

// note names what the host has done since the last note.
func (l *runLog) note(what string) {
	if l == nil {
		return
	}
	now := time.Now()
	l.spans = append(l.spans, runtime.HostSpan{Name: what, Start: l.last.Sub(l.began).Nanoseconds(),
		Nanos: now.Sub(l.last).Nanoseconds()})
	l.last = now
}

// hostWaits is the span in which the host waits for the device's results.
const hostWaits = "wait for the results"

// place finds out where on the host's clock the first kernel began.
func (l *runLog) place(p *runtime.Profile, d *Device, stamps *Timestamps) error {
	clock, ok := d.Calibrate()
	if !ok {
		p.Offset, p.Clock = l.estimate(p.GPU), runtime.Estimated
		return nil
	}
	ticks, err := stamps.Ticks(0, 1)
	if err != nil {
		return err
	}
	p.Offset, p.Clock = clock.At(ticks[0]).Sub(l.began), runtime.Calibrated
	return nil
}

// estimate has the kernels, which take gpu together, end with the host's wait for them.
func (l *runLog) estimate(gpu time.Duration) time.Duration {
	for _, s := range l.spans {
		if s.Name == hostWaits {
			return time.Duration(s.Start+s.Nanos) - gpu
		}
	}
	return 0
}

// finish puts the log into the profile.
func (l *runLog) finish(p *runtime.Profile) {
	p.Began, p.Host, p.Wall = l.began, l.spans, time.Since(l.began)
}
