package vk

import (
	"time"
)

// Clock relates times on the device to times on the host: ticks and host are the same moment.
type Clock struct {
	ticks  uint64
	host   time.Time
	bits   uint32  // valid bits of the device's timestamps
	period float32 // of a tick, in nanoseconds
	// Deviation is the largest possible error of the relation.
	Deviation time.Duration
}

// clockTries is the number of readings that Calibrate takes. It keeps the one with the smallest deviation.
const clockTries = 4

// Calibrate relates the device's clock to the host's. It reports false on a device without
// VK_KHR_calibrated_timestamps. The clocks drift apart, so use the relation only for times within seconds.
func (d *Device) Calibrate() (Clock, bool) {
	if d.checkUsable("calibrate") != nil || d.info.Caps.TimestampBits == 0 {
		return Clock{}, false
	}
	best := Clock{bits: d.info.Caps.TimestampBits, period: d.info.Caps.TimestampPeriod}
	for i := range clockTries {
		ticks, at, deviation, r := d.native.calibrate()
		now := time.Now()
		reading := hostClock()
		// The operating system may preempt this thread between the two readings.
		off := time.Duration(deviation) + time.Since(now)
		if r < 0 {
			return Clock{}, false
		}
		// `at` is a time on the clock that hostClock reads. The difference of both converts it to a time.Time.
		if i == 0 || off < best.Deviation {
			best.ticks, best.host, best.Deviation = ticks, now.Add(-time.Duration(reading-at)), off
		}
	}
	return best, true
}

// At converts ticks of the device's clock to a time on the host.
func (c Clock) At(ticks uint64) time.Time {
	return c.host.Add(tickDuration(c.ticks, ticks, c.bits, c.period))
}
