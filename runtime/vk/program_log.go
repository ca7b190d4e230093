package vk

import (
	"time"

	"github.com/vkc-go/vkc/runtime"
)

// runLog records the host's work during a profiled run. A nil log records nothing.
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

// note records the time since the last note under a name.
func (l *runLog) note(what string) {
	if l == nil {
		return
	}
	now := time.Now()
	l.spans = append(l.spans, runtime.HostSpan{Name: what, Start: l.last.Sub(l.began).Nanoseconds(),
		Nanos: now.Sub(l.last).Nanoseconds()})
	l.last = now
}

// hostWaits is the name of the span in which the host waits for the device.
const hostWaits = "wait for the results"

// place determines when the first kernel began on the host's clock.
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

// estimate assumes that the kernels, which take gpu together, end when the host's wait ends.
func (l *runLog) estimate(gpu time.Duration) time.Duration {
	for _, s := range l.spans {
		if s.Name == hostWaits {
			return time.Duration(s.Start+s.Nanos) - gpu
		}
	}
	return 0
}

// finish copies the log into the profile.
func (l *runLog) finish(p *runtime.Profile) {
	p.Began, p.Host, p.Wall = l.began, l.spans, time.Since(l.began)
}
