package vk

import (
	"time"
)

// Clock relates times on the device to times on the host.
type Clock struct {
	ticks  uint64
	host   time.Time
	bits   uint32
	period float32
	// Deviation is how far off the relation may be.
	Deviation time.Duration
}

// clockTries is how often Calibrate reads the clocks, to keep the reading with the least deviation.
const clockTries = 4

// Calibrate compares the device's clock with the host's. It reports false where the device cannot
// (VK_KHR_calibrated_timestamps). Clocks drift apart, so that what is compared should lie within seconds.
func (d *Device) Calibrate() (Clock, bool) {
	if d.usable("calibrate") != nil || d.info.Caps.TimestampBits == 0 {
		return Clock{}, false
	}
	best := Clock{bits: d.info.Caps.TimestampBits, period: d.info.Caps.TimestampPeriod}
	for i := range clockTries {
		ticks, at, deviation, r := d.native.calibrate()
		now := time.Now()
		reading := hostClock()
		// A busy host may do something else between the two readings.
		off := time.Duration(deviation) + time.Since(now)
		if r < 0 {
			return Clock{}, false
		}
		// How long ago the two were read is known by the clock they were read with.
		if i == 0 || off < best.Deviation {
			best.ticks, best.host, best.Deviation = ticks, now.Add(-time.Duration(reading-at)), off
		}
	}
	return best, true
}

// At is the time on the host at which the device's clock had that many ticks.
func (c Clock) At(ticks uint64) time.Time {
	return c.host.Add(tickDuration(c.ticks, ticks, c.bits, c.period))
}
